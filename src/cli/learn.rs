//! `gemm-tune learn`: trains a learned model on journals. Needs no GPU.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::arguments::{CommonArguments, FamilyArguments};
use super::console::Console;
use super::failure::Failure;
use super::machine::{Wish, Workshop};
use super::output::{beside, finish, write};
use super::{databases, journals, request};
use crate::database::{Database, Record};
use crate::model::{Device, Micros, Problem, Regime};
use crate::predict::{
    LearnedModel, LibraryChoice, LibraryModel, Predictor, ProblemTimes, TrainingTimes,
};
use crate::report::learned::{self, HeldOut};
use crate::tune::{MeasuredTimes, read_measured_times};

/// Learns from the times in journals, as tuning leaves them below the cache folder, what kernels of a
/// family take for any problem. A file beside a database, as `results/nvidia-l4.model.json` beside
/// `results/nvidia-l4.toml`, is known to every search and lookup with that database. For the NVIDIA H200
/// and the NVIDIA H100 one comes with the program.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gemm-tune learn ~/.cache/gemm-tune/journal -o results/nvidia-l4.model.json
  gemm-tune learn --libraries results/nvidia-l4.toml --update results/nvidia-l4.model.json -o results/nvidia-l4.model.json")]
pub(super) struct LearnArguments {
    /// Journals or files of measured times to learn from, or folders of them; compressed by gzip or not
    #[arg(required_unless_present = "libraries", value_name = "JOURNAL")]
    journals: Vec<PathBuf>,
    /// Database whose records have times of cuBLAS, to forecast the library's time for other problems; compressed by gzip
    /// or not; may be repeated
    #[arg(long, value_name = "DB")]
    libraries: Vec<PathBuf>,
    /// Journal or file of measured times that nothing is learned of, to see what was learned; may be repeated. Times of
    /// its problems among the others are left out
    #[arg(long, value_name = "JOURNAL")]
    hold_out: Vec<PathBuf>,
    /// File to write all times to that were learned from, compressed by gzip: to learn from them again without the
    /// journals
    #[arg(long, value_name = "FILE")]
    times: Option<PathBuf>,
    /// Journal or file of times of former versions of the kernels, which count less where there are
    /// enough of today's; may be repeated
    #[arg(long, value_name = "JOURNAL", requires = "journals")]
    former: Vec<PathBuf>,
    /// Learned model to begin with: of this GPU, or of another one of its compute capability
    #[arg(long, value_name = "FILE")]
    base: Option<PathBuf>,
    /// Learned model whose families are kept where nothing new is learned of them: with `--family`, or with too few
    /// journals
    #[arg(long, value_name = "FILE")]
    update: Option<PathBuf>,
    /// File to write what was learned to
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    families: FamilyArguments,
    #[command(flatten)]
    pub(super) common: CommonArguments,
}

/// Learns, prints and gives the exit code.
pub(super) fn main(arguments: &LearnArguments) -> ExitCode {
    let console = Console::new(&arguments.common);
    let output = arguments.output.as_deref().unwrap_or(Path::new(""));
    finish(console, beside(output, console).and_then(|console| run(arguments, console)))
}

fn run(arguments: &LearnArguments, console: Console) -> Result<(Value, ExitCode), Failure> {
    let (families, templates) = request::families(&arguments.families)?;
    let held_out = read(&arguments.hold_out)?;
    let read_all = read(&arguments.journals)?;
    let former = read(&arguments.former)?;
    let updated = arguments.update.as_deref().map(request::learned_model).transpose()?;
    let names =
        [&read_all, &held_out, &former].into_iter().flatten().map(|own| own.device.as_str());
    let names = names.chain(updated.iter().map(|model| model.device.as_str()));
    let device = device(names.collect(), arguments, console)?;
    let held_out = held_out.map(|measured| measured.problems).unwrap_or_default();
    let nothing = || Failure::Work("no journal is left to learn from".to_owned());
    let read_all = read_all.or_else(|| arguments.journals.is_empty().then(|| nothing_of(&device)));
    let mut measured = read_all.ok_or_else(nothing)?;
    let is_left = |one: &ProblemTimes| held_out.iter().all(|other| one.problem != other.problem);
    measured.problems.retain(is_left);
    let mut former = former.map(|former| former.problems).unwrap_or_default();
    former.retain(is_left);
    if measured.problems.is_empty() && !arguments.journals.is_empty() {
        return Err(nothing());
    }
    if let Some(path) = &arguments.times {
        let text = measured.text().map_err(Failure::work)?;
        write(path, &compressed(&text).map_err(Failure::work)?)?;
        console.note(&format!("times written to {}", path.display()));
    }
    let measured = measured.problems;
    let base = arguments.base.as_deref().map(request::learned_model).transpose()?;
    let base = base.map_or_else(LearnedModel::default, |base| base.as_base_for(&device));
    let times = TrainingTimes { measured: &measured, former: &former };
    let mut model = base.refined(&device, &families, &templates, times);
    if model.families.is_empty() && !arguments.journals.is_empty() {
        return Err(Failure::Work(format!(
            "too few problems to learn of any family ({}): tune more shapes",
            measured.len()
        )));
    }
    if !arguments.libraries.is_empty() {
        model.libraries = library_models(&arguments.libraries, &device, console)?;
    }
    if let Some(updated) = updated {
        model.keep(updated);
    }
    let (predictor, _) = Predictor::new(model.clone(), &families, &templates);
    let counts = &learned::COUNTS;
    let seen = held_out.iter().filter_map(|measured| {
        let ranking = predictor.ranking(&families, &device, measured, counts)?;
        Some(HeldOut { problem: measured.problem, ranking })
    });
    let seen: Vec<HeldOut> = seen.collect();
    if let Some(path) = &arguments.output {
        let text = model.text().map_err(Failure::work)?;
        write(path, text.as_bytes())?;
        console.note(&format!("written to {}", path.display()));
    }
    console.result(&learned::table(&model, &seen, console.table_style()));
    Ok((json!({ "learned": learned::document(&model, &seen) }), ExitCode::SUCCESS))
}

/// No times of a device.
fn nothing_of(device: &Device) -> MeasuredTimes {
    MeasuredTimes { device: device.name.clone(), regime: Regime::default(), problems: Vec::new() }
}

/// Forecasts of the library's time, from the records of databases: of the fastest algorithm, and of the one that the
/// library chooses itself, which a problem gets that nobody measured.
fn library_models(
    paths: &[PathBuf],
    device: &Device,
    console: Console,
) -> Result<Vec<LibraryModel>, Failure> {
    let databases = databases::load(paths, console)?;
    let own = databases.iter().flat_map(Database::records).filter(|record| {
        record.is_of(device) && record.regime() == Some(Regime::default()) && !record.is_modelled()
    });
    let times = |record: &Record| {
        let problem = Problem::try_from(&record.problem).ok()?;
        let baseline = record.baseline.as_ref()?;
        Some((problem, [Micros(baseline.median_us), baseline.own_choice()]))
    };
    let times: Vec<(Problem, [Micros; 2])> = own.filter_map(times).collect();
    let choices = [LibraryChoice::Best, LibraryChoice::Own].into_iter().enumerate();
    let models = choices.flat_map(|(place, choice)| {
        let own: Vec<(Problem, Micros)> =
            times.iter().map(|(problem, times)| (*problem, times[place])).collect();
        LibraryModel::learn(device, choice, &own)
    });
    let models: Vec<LibraryModel> = models.collect();
    if models.is_empty() {
        return Err(Failure::Work(format!(
            "too few records of {} with times of a library ({}): tune 20 problems of one GEMM type on its GPU",
            device.name,
            times.len()
        )));
    }
    Ok(models)
}

/// The device of times and models: all have its name. One whose properties are known needs not be in this machine.
fn device(
    names: Vec<&str>,
    arguments: &LearnArguments,
    console: Console,
) -> Result<Device, Failure> {
    let first = names.first().copied();
    let other = names.iter().find(|name| Some(**name) != first);
    if let (Some(first), Some(other)) = (first, other) {
        return Err(Failure::Work(format!(
            "the files are of {first} and of {other}: learn of one device at a time"
        )));
    }
    let known = Device::known().into_iter().find(|device| Some(device.name.as_str()) == first);
    if let Some(device) = known {
        return Ok(device);
    }
    let here = Workshop::new(&arguments.common)?.described_device(Wish::Auto, console)?;
    match first {
        Some(name) if here.name != name => Err(Failure::Work(format!(
            "the files are of {name}, whose properties are not known here, only those of {}: learn on a machine \
             with that GPU",
            here.name
        ))),
        _ => Ok(here),
    }
}

/// The times of files, and of those in and below folders; `None` without any. All are of one device and regime.
fn read(paths: &[PathBuf]) -> Result<Option<MeasuredTimes>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            collect(path, &mut files)?;
        } else {
            files.push(path.clone());
        }
    }
    let mut all: Option<(PathBuf, MeasuredTimes)> = None;
    for path in files {
        let own = read_measured_times(&path).map_err(Failure::work)?;
        match &mut all {
            None => all = Some((path, own)),
            Some((first, all)) if all.device != own.device => {
                return Err(Failure::Work(format!(
                    "`{}` is of {}, `{}` of {}: learn of one device at a time",
                    first.display(),
                    all.device,
                    path.display(),
                    own.device
                )));
            }
            Some((first, all)) if all.regime != own.regime => {
                return Err(Failure::Work(format!(
                    "`{}` and `{}` were measured under different `--cache-policy` or `--power`: learn \
                     from one of both",
                    path.display(),
                    first.display(),
                )));
            }
            Some((_, all)) => all.extend(own.problems),
        }
    }
    Ok(all.map(|(_, measured)| measured))
}

/// A text compressed by gzip.
fn compressed(text: &str) -> std::io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(text.as_bytes())?;
    packed.finish()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let mut entries = journals::entries(folder)?;
    entries.sort();
    for path in entries {
        let name = path.to_string_lossy();
        if path.is_dir() {
            collect(&path, files)?;
        } else if name.ends_with(".jsonl") || name.ends_with(".jsonl.gz") {
            files.push(path);
        }
    }
    Ok(())
}
