//! Which database files a command reads, and which device their records are of.

use std::path::{Path, PathBuf};

use super::{Failure, request};
use crate::database::{Database, Record};
use crate::experience::Experience;
use crate::model::device::CPU;
use crate::model::{Configuration, Device};
use crate::space::Family;

/// The files that were named, or else all of `results/`.
pub(super) fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    if !named.is_empty() {
        return Ok(named.to_vec());
    }
    let folder = Path::new("results");
    let entries = std::fs::read_dir(folder).map_err(|error| {
        Failure::Work(format!("cannot read `results`: {error}; name a database with `--db FILE`"))
    })?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    if files.is_empty() {
        return Err(Failure::Work(
            "`results` holds no database; name one with `--db FILE`".to_owned(),
        ));
    }
    Ok(files)
}

/// The file that was named, or else a device's own.
pub(super) fn of(device: &Device, named: Option<&Path>) -> PathBuf {
    named.map_or_else(|| Path::new("results").join(device.slug() + ".toml"), Path::to_owned)
}

/// Reads files that have to be there.
pub(super) fn load(files: &[PathBuf]) -> Result<Vec<Database>, Failure> {
    files.iter().map(|file| Database::load_existing(file).map_err(Failure::work)).collect()
}

/// What was learned of a device: from the file beside a database, the first that has one, as
/// `results/nvidia-l4.experience.json` beside `results/nvidia-l4.toml`; else what comes with the program.
pub(super) fn experience<'p>(
    databases: impl IntoIterator<Item = &'p Path>,
    device: &Device,
) -> Result<Experience, Failure> {
    let beside = databases.into_iter().map(|path| path.with_extension("experience.json"));
    let found: Vec<PathBuf> = beside.filter(|path| path.exists()).collect();
    for path in found {
        let experience = request::experience(&path)?;
        if experience.device == device.name {
            return Ok(experience);
        }
    }
    Experience::built_in(device).map_err(Failure::work)
}

/// The kernel of a record: its family's name, and its configuration with what the family has gained
/// since.
pub(super) fn kernel(
    record: &Record,
    families: &[Family],
) -> Result<(String, Configuration), Failure> {
    let family = families.iter().find(|family| family.name == record.family);
    let configuration = record.configuration();
    let completed = match family {
        Some(family) => family.completed(configuration).map_err(Failure::work)?,
        None => configuration,
    };
    Ok((record.family.clone(), completed))
}

/// The device of that name among those of records; without a name, the only one, or the only GPU.
pub(super) fn device(records: &[&Record], name: Option<&str>) -> Result<Device, Failure> {
    let mut known: Vec<Device> = Vec::new();
    for record in records {
        let same = |device: &&Device| record.is_of(device);
        if known.iter().find(same).is_none() {
            let device = Device::try_from(&record.device).map_err(Failure::work)?;
            // What is known of the host's device is more than its records keep.
            known.push(if record.device.name == CPU { Device::cpu() } else { device });
        }
    }
    let names: Vec<String> = known.iter().map(|device| format!("`{}`", device.name)).collect();
    let names = names.join(", ");
    if let Some(name) = name {
        let found = known.into_iter().find(|device| device.name.eq_ignore_ascii_case(name));
        return found.ok_or_else(|| {
            Failure::Usage(format!("no record is of `{name}`: choose one of {names}"))
        });
    }
    let gpus: Vec<&Device> = known.iter().filter(|device| !device.is_cpu()).collect();
    match (known.as_slice(), gpus.as_slice()) {
        ([only], _) => Ok(only.clone()),
        (_, [gpu]) => Ok((*gpu).clone()),
        ([], _) => Err(Failure::Work(
            "the databases have no record and no GPU is here: there is no device to answer for"
                .to_owned(),
        )),
        _ => Err(Failure::Usage(format!(
            "the records are of several devices: choose one with `--device-name`: {names}"
        ))),
    }
}
