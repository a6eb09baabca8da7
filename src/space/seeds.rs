//! DeviceSeeds: the configurations of each family that searches on a GPU begin with, in files by GPU. A GPU
//! without a file of its own has those of the GPU with the nearest compute capability.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::Deserialize;
use toml::Spanned;

use super::expression::SourceFile;
use super::family::{DeviceSeeds, Family};
use super::work::contradiction;
use crate::model::diagnostic::did_you_mean;
use crate::model::{ComputeCapability, Configuration, Device, Diagnostic, Value};

/// The folder of seed files, in the folder of search spaces.
pub(super) const FOLDER: &str = "seeds";

/// The key of a seed that says where it comes from; all others are parameters.
const FROM: &str = "from";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeedsFile {
    schema: Spanned<i64>,
    device: String,
    compute_capability: Spanned<String>,
    /// Of each family, what each seed has that differs from the family's default.
    families: IndexMap<Spanned<String>, Vec<Spanned<IndexMap<String, Value>>>>,
}

impl Family {
    /// The configurations that searches on a device begin with, the best known first: the device's seeds,
    /// or those of the GPU with the nearest compute capability; without seeds, those of its file. An empty
    /// list keeps searches from the family on GPUs of the same compute capability only.
    pub fn defaults(&self, device: &Device) -> &[Configuration] {
        let seeds = nearest(&self.seeds, device).filter(|seeds| {
            seeds.compute_capability == device.compute_capability
                || !seeds.configurations.is_empty()
        });
        seeds.map_or(&self.defaults, |seeds| &seeds.configurations)
    }
}

/// The seeds to use on a device: its own, else those of the nearest compute capability, the lower one
/// where two are as near, the first where several are the same.
pub(super) fn nearest<'s>(sets: &'s [DeviceSeeds], device: &Device) -> Option<&'s DeviceSeeds> {
    let number = |capability: ComputeCapability| 10 * capability.major + capability.minor;
    let wanted = number(device.compute_capability);
    let distance = |set: &&DeviceSeeds| {
        let own = number(set.compute_capability);
        (set.device != device.name, own.abs_diff(wanted), own)
    };
    sets.iter().min_by_key(distance)
}

/// Reads a seed file and gives each family its own. `file` is its name in messages.
pub(super) fn add(
    file: &str,
    text: &str,
    families: &mut BTreeMap<String, Family>,
) -> Result<(), Box<Diagnostic>> {
    let source = SourceFile { name: file.to_owned(), text: text.to_owned() };
    let parsed: SeedsFile = toml::from_str(text).map_err(|error| {
        Box::new(source.error(error.span().unwrap_or(0..0), error.message().trim()))
    })?;
    if *parsed.schema.get_ref() != 1 {
        let message = format!("schema is {}, this program reads 1", parsed.schema.get_ref());
        return Err(Box::new(source.error(parsed.schema.span(), message)));
    }
    let text = parsed.compute_capability.get_ref();
    let capability = ComputeCapability::parse(text).ok_or_else(|| {
        let message = format!("`{text}` is no compute capability: write `9.0`");
        Box::new(source.error(parsed.compute_capability.span(), message))
    })?;
    for (name, seeds) in parsed.families {
        let Some(family) = families.get_mut(name.get_ref()) else {
            let message = format!("no family is named `{}`", name.get_ref());
            return Err(Box::new(source.error(name.span(), message)));
        };
        let mut configurations: Vec<Configuration> = Vec::new();
        for seed in seeds {
            let span = seed.span();
            let configuration = seeded(family, seed.into_inner()).map_err(|(message, help)| {
                Box::new(Diagnostic { help, ..source.error(span.clone(), message) })
            })?;
            if configurations.contains(&configuration) {
                return Err(Box::new(source.error(span, "this seed is listed twice")));
            }
            configurations.push(configuration);
        }
        let device = parsed.device.clone();
        family.seeds.push(DeviceSeeds { device, compute_capability: capability, configurations });
        if let Some(error) = contradiction(family) {
            return Err(Box::new(error));
        }
    }
    Ok(())
}

/// The family's default with the parameters of a seed.
fn seeded(
    family: &Family,
    seed: IndexMap<String, Value>,
) -> Result<Configuration, (String, Option<String>)> {
    let mut configuration = family.default().clone();
    for (name, value) in seed {
        if name == FROM {
            continue;
        }
        let Some(known) = family.parameters.get(&name) else {
            let help = did_you_mean(&name, family.parameters.keys().map(String::as_str));
            return Err((format!("family `{}` has no parameter `{name}`", family.name), help));
        };
        if !known.contains(&value) {
            let list: Vec<String> = known.iter().map(Value::to_string).collect();
            let help = format!("choose one of {}", list.join(", "));
            return Err((format!("`{name}` has no value {value}"), Some(help)));
        }
        configuration.0.insert(name, value);
    }
    Ok(configuration)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(device: &str, major: u32, minor: u32) -> DeviceSeeds {
        let compute_capability = ComputeCapability { major, minor };
        DeviceSeeds { device: device.to_owned(), compute_capability, configurations: Vec::new() }
    }

    #[test]
    fn a_gpu_without_seeds_has_those_of_the_nearest_compute_capability() {
        let sets = [set("H200", 9, 0), set("A100", 8, 0), set("L4", 8, 9), set("H100", 9, 0)];
        for (name, major, minor, expected) in [
            ("H100", 9, 0, "H100"),
            ("GH200", 9, 0, "H200"),
            ("A10", 8, 6, "L4"),
            ("A30", 8, 0, "A100"),
            ("B200", 10, 0, "H200"),
            ("T4", 7, 5, "A100"),
        ] {
            let compute_capability = ComputeCapability { major, minor };
            let device = Device { name: name.to_owned(), compute_capability, ..Device::h200() };
            let found = nearest(&sets, &device).map(|set| set.device.as_str());
            assert_eq!(found, Some(expected), "{name}");
        }
        assert_eq!(nearest(&[], &Device::h200()), None);
    }

    const FAMILY: &str = "schema = 1\nname = 'f'\nsummary = 's'\ndtypes = ['f32']\ncompute = ['f32']\n\
        layouts = ['nn']\n[parameters]\nBM = [32, 64]\nDEEP = [false, true]\n\
        [[kernels]]\nentry = 'gemm'\ngrid = [1]\nblock = [32]\n[default]\nBM = 32\nDEEP = true\n";

    fn seeded_by(seeds: &str) -> Result<Vec<String>, String> {
        let family = Family::parse("f.toml", FAMILY).unwrap();
        let mut families = BTreeMap::from([("f".to_owned(), family)]);
        let text = format!(
            "schema = 1\ndevice = 'NVIDIA H200'\ncompute_capability = '9.0'\n[families]\n{seeds}\n"
        );
        add("seeds/h200.toml", &text, &mut families).map_err(|error| error.summary())?;
        Ok(families["f"].defaults(&Device::h200()).iter().map(Configuration::to_string).collect())
    }

    #[test]
    fn a_seed_says_what_differs_from_the_default() {
        assert_eq!(
            seeded_by("f = [{ from = 'won', BM = 64 }, { DEEP = false }, {}]"),
            Ok(["BM=64 DEEP=true", "BM=32 DEEP=false", "BM=32 DEEP=true"]
                .map(str::to_owned)
                .to_vec())
        );
        assert_eq!(seeded_by(""), Ok(vec!["BM=32 DEEP=true".to_owned()]));
        assert_eq!(seeded_by("f = []"), Ok(Vec::new()));
    }

    #[test]
    fn an_empty_list_counts_on_its_compute_capability() {
        let mut family = Family::parse("f.toml", FAMILY).unwrap();
        family.seeds = vec![set("H200", 9, 0)];
        let later = ComputeCapability { major: 10, minor: 0 };
        let later = Device { compute_capability: later, ..Device::h200() };
        assert!(family.defaults(&Device::h200()).is_empty());
        assert_eq!(family.defaults(&later), [family.default().clone()]);
    }

    #[test]
    fn faulty_seeds_are_blamed() {
        for (seeds, message) in [
            ("g = [{}]", "no family is named `g`"),
            ("f = [{ BN = 1 }]", "family `f` has no parameter `BN`"),
            ("f = [{ BM = 33 }]", "`BM` has no value 33"),
            ("f = [{}, { BM = 32 }]", "listed twice"),
        ] {
            let error = seeded_by(seeds).unwrap_err();
            assert!(error.contains(message), "{seeds}: {error}");
        }
    }
}
