//! Database files that a command reads, and the device of their records.

use std::io;
use std::path::{Path, PathBuf};

use super::console::Console;
use super::failure::Failure;
use super::machine::is_named;
use super::request;
use crate::database::{BUILT_IN, Database, Record, RecordFault};
use crate::model::device::CPU;
use crate::model::{Configuration, Device, Problem};
use crate::predict::{LearnedModel, Predictor};
use crate::render::Templates;
use crate::space::Family;

/// The named files, else all of `results/`; none where that folder is missing.
pub(super) fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    if !named.is_empty() {
        return Ok(named.to_vec());
    }
    let folder = Path::new("results");
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(Failure::Work(format!(
                "cannot read `results`: {error}; name a database with `--db FILE`"
            )));
        }
    };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    Ok(files)
}

/// Databases and their names: the named files, else all of `results/`. Where these have no record that `counts`, the
/// built-in database of a device is behind them, which a note says.
pub(super) fn load_or_built_in(
    named: &[PathBuf],
    counts: impl Fn(&Record) -> bool,
    device: impl FnOnce() -> Result<Device, Failure>,
    console: Console,
) -> Result<(Vec<PathBuf>, Vec<Database>), Failure> {
    let mut files = files(named)?;
    let mut databases = load(&files, console)?;
    if named.is_empty() && !databases.iter().flat_map(Database::records).any(counts) {
        note_built_in(console);
        files.push(PathBuf::from(BUILT_IN));
        databases.push(built_in(&device()?)?);
    }
    Ok((files, databases))
}

/// The built-in database of a device.
pub(super) fn built_in(device: &Device) -> Result<Database, Failure> {
    Database::built_in(device).map_err(Failure::work)
}

/// Notes that what follows is of the built-in database.
pub(super) fn note_built_in(console: Console) {
    console.note(&format!("source: {BUILT_IN}"));
}

/// The named file, else the file of a device.
pub(super) fn of(device: &Device, named: Option<&Path>) -> PathBuf {
    named.map_or_else(|| Path::new("results").join(device.slug() + ".toml"), Path::to_owned)
}

/// Reads files that must exist, and notes records that are not used.
pub(super) fn load(files: &[PathBuf], console: Console) -> Result<Vec<Database>, Failure> {
    files.iter().map(|file| load_file(file, console)).collect()
}

/// As [`load`], for a question about one problem: of large files, only the records near it.
pub(super) fn load_near(
    files: &[PathBuf],
    problem: &Problem,
    console: Console,
) -> Result<Vec<Database>, Failure> {
    let near = |file: &PathBuf| {
        let database = Database::load_near(file, problem).map_err(Failure::work)?;
        note_faults(database.faults(), console);
        Ok(database)
    };
    files.iter().map(near).collect()
}

/// Reads a file that must exist, and notes records that are not used.
pub(super) fn load_file(file: &Path, console: Console) -> Result<Database, Failure> {
    let database = Database::load_existing(file).map_err(Failure::work)?;
    note_faults(database.faults(), console);
    Ok(database)
}

/// Notes records that are not used.
pub(super) fn note_faults(faults: &[RecordFault], console: Console) {
    faults.iter().for_each(|fault| console.note(&fault.to_string()));
}

/// The predictor of a device. Its learned model is the file beside a database, the first that has one, as
/// `results/nvidia-l4.model.json` beside `results/nvidia-l4.toml`; else the built-in one. Notes models of other code.
pub(super) fn predictor<'p>(
    databases: impl IntoIterator<Item = &'p Path>,
    device: &Device,
    (families, templates): (&[Family], &Templates),
    console: Console,
) -> Result<Predictor, Failure> {
    Ok(noted(learned_model(databases, device, console)?, (families, templates), console))
}

/// The learned model of a device: that of the file beside a database, else the built-in one. Notes where that is another
/// device's.
pub(super) fn learned_model<'p>(
    databases: impl IntoIterator<Item = &'p Path>,
    device: &Device,
    console: Console,
) -> Result<LearnedModel, Failure> {
    if let Some(learned) = learned_model_beside(databases, device)? {
        return Ok(learned);
    }
    let learned = LearnedModel::built_in(device).map_err(Failure::work)?;
    let is_known = Device::known().iter().any(|known| known.name == device.gpu_name());
    if !is_known && !learned.families.is_empty() {
        console.note(&format!(
            "no learned model of {}: times are predicted by that of another GPU of compute capability {}; `gemm-tune \
             cover` learns its own",
            device.name, device.compute_capability
        ));
    }
    Ok(learned)
}

/// The learned model of a device in the file beside a database, the first that has one.
pub(super) fn learned_model_beside<'p>(
    databases: impl IntoIterator<Item = &'p Path>,
    device: &Device,
) -> Result<Option<LearnedModel>, Failure> {
    let names = ["model.json", "experience.json"];
    let beside = databases.into_iter().flat_map(|path| names.map(|name| path.with_extension(name)));
    let found: Vec<PathBuf> = beside.filter(|path| path.exists()).collect();
    for path in found {
        let learned = request::learned_model(&path)?;
        if learned.device == device.gpu_name() {
            return Ok(Some(learned));
        }
    }
    Ok(None)
}

/// A predictor of a learned model; notes models of other code.
pub(super) fn noted(
    learned: LearnedModel,
    (families, templates): (&[Family], &Templates),
    console: Console,
) -> Predictor {
    let (predictor, stale) = Predictor::new(learned, families, templates);
    stale.iter().for_each(|model| console.note(&model.to_string()));
    predictor
}

/// The kernel of a record: the name of its family, and its configuration in today's parameters.
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

/// The device of that name among those of records. Without a name, the only device or the only GPU; of several, the first
/// known one ([`Device::known`]).
pub(super) fn device(records: &[&Record], name: Option<&str>) -> Result<Device, Failure> {
    let mut known: Vec<Device> = Vec::new();
    for record in records {
        let same = |device: &&Device| record.is_of(device);
        if known.iter().find(same).is_none() {
            let device = Device::try_from(&record.device).map_err(Failure::work)?;
            // Records keep less than the description of the host's device has.
            known.push(if record.device.name == CPU { Device::cpu() } else { device });
        }
    }
    let names: Vec<String> = known.iter().map(|device| format!("`{}`", device.name)).collect();
    let names = names.join(", ");
    if let Some(name) = name {
        let exact = known.iter().find(|device| device.name.eq_ignore_ascii_case(name));
        let mut partly = known.iter().filter(|device| is_named(device, name));
        return match (exact, partly.next(), partly.next()) {
            (Some(device), ..) | (None, Some(device), None) => Ok(device.clone()),
            (None, Some(_), Some(_)) => Err(Failure::Usage(format!(
                "`{name}` is a part of several names: choose one of {names}"
            ))),
            (None, None, _) => {
                Err(Failure::Usage(format!("no record is of `{name}`: choose one of {names}")))
            }
        };
    }
    let gpus: Vec<&Device> = known.iter().filter(|device| !device.is_cpu()).collect();
    let is_recorded = |own: &Device| gpus.iter().any(|gpu| gpu.name == own.name);
    match (known.as_slice(), gpus.as_slice(), Device::known().into_iter().find(is_recorded)) {
        ([only], ..) => Ok(only.clone()),
        (_, [gpu], _) => Ok((*gpu).clone()),
        (_, _, Some(gpu)) => Ok(gpu),
        ([], ..) => Err(Failure::Work(
            "no GPU found, and the databases have no record: there is no device to answer for"
                .to_owned(),
        )),
        _ => Err(Failure::Usage(format!(
            "the records are of several devices: choose one with `--device-name`: {names}"
        ))),
    }
}
