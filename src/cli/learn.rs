//! `gemm-tune learn`: trains a learned model on journals. Needs no GPU.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::arguments::{CommonArguments, FamilyArguments};
use super::console::Console;
use super::failure::Failure;
use super::machine::{Wish, Workshop};
use super::output::{finish, write};
use super::progress_bar::CountProgress;
use super::{journals, request};
use crate::model::{Device, Measurement};
use crate::predict::{LearnedModel, Predictor, ProblemTimes};
use crate::report::learned::{self, HeldOut};
use crate::space::Family;
use crate::tune::{Recorded, read_journal};

/// Learns from the times in journals, as tuning leaves them below the cache folder, what kernels of a
/// family take for any problem. A file beside a database, as `results/nvidia-l4.model.json` beside
/// `results/nvidia-l4.toml`, is known to every search and lookup with that database. For the NVIDIA H200
/// one comes with the program.
#[derive(Debug, Args)]
pub(super) struct LearnArguments {
    /// Journals to learn from, or folders of them; compressed by gzip or not
    #[arg(required = true, value_name = "JOURNAL")]
    journals: Vec<PathBuf>,
    /// Journal that nothing is learned of, to see what was learned; may be repeated. A journal of the
    /// same problem among the others is left out
    #[arg(long, value_name = "JOURNAL")]
    hold_out: Vec<PathBuf>,
    /// File to write what was learned to
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Leave out the short lists of kernels, which take minutes to choose and make lookups of new problems faster
    #[arg(long)]
    no_short_lists: bool,
    #[command(flatten)]
    families: FamilyArguments,
    #[command(flatten)]
    pub(super) common: CommonArguments,
}

/// Learns, prints and gives the exit code.
pub(super) fn main(arguments: &LearnArguments) -> ExitCode {
    let console = Console::new(&arguments.common);
    finish(console, run(arguments, console))
}

fn run(arguments: &LearnArguments, console: Console) -> Result<(Value, ExitCode), Failure> {
    let (families, templates) = request::families(&arguments.families)?;
    let held_out = read(&arguments.hold_out)?;
    let mut known = read(&arguments.journals)?;
    known.retain(|(_, one)| held_out.iter().all(|(_, other)| one.problem != other.problem));
    let Some((_, first)) = known.first() else {
        return Err(Failure::Work("no journal is left to learn from".to_owned()));
    };
    let device = Workshop::new(&arguments.common)?.described_device(Wish::Auto, console)?;
    for (path, recorded) in known.iter().chain(&held_out) {
        if recorded.device != device.name {
            let (path, name) = (path.display(), &recorded.device);
            return Err(Failure::Work(format!(
                "`{path}` is of {name}, whose properties are not known here, only those of {}: learn on \
                 a machine with that GPU",
                device.name
            )));
        }
        if recorded.regime != first.regime {
            return Err(Failure::Work(format!(
                "`{}` and `{}` were measured under different `--cache-policy` or `--power`: learn \
                 from one of both",
                path.display(),
                known[0].0.display(),
            )));
        }
    }
    let measured: Vec<ProblemTimes> =
        known.iter().map(|(_, recorded)| measured(recorded)).collect();
    let model = LearnedModel::learn(&device, &families, &templates, &measured);
    if model.families.is_empty() {
        return Err(Failure::Work(format!(
            "{} journals are too few to learn of any family: tune more shapes",
            known.len()
        )));
    }
    let (predictor, _) = Predictor::new(model.clone(), &families, &templates);
    let counts = &learned::COUNTS;
    let seen = held_out.iter().filter_map(|(_, recorded)| {
        let found = predictor.regret(&families, &device, &self::measured(recorded), counts)?;
        Some(HeldOut { problem: recorded.problem, found })
    });
    let seen: Vec<HeldOut> = seen.collect();
    if let Some(path) = &arguments.output {
        let written = match arguments.no_short_lists {
            true => model.clone(),
            false => with_shortlists(model.clone(), &device, &families, console),
        };
        let text = written.text().map_err(Failure::work)?;
        write(path, text.as_bytes())?;
        console.note(&format!("written to {}", path.display()));
    }
    console.result(&learned::table(&model, &seen, console.width()));
    Ok((json!({ "learned": learned::document(&model, &seen) }), ExitCode::SUCCESS))
}

/// Adds the short lists of kernels that lookup compares.
fn with_shortlists(
    model: LearnedModel,
    device: &Device,
    families: &[Family],
    console: Console,
) -> LearnedModel {
    console.note("choosing the kernels that lookup compares");
    let progress = Mutex::new(CountProgress::new(console, "lists chosen"));
    model.with_shortlists(device, families, &|count, total| {
        let mut progress = progress.lock();
        progress.expect(total);
        progress.reach(count, "");
    })
}

/// Journals by their paths; of folders, those in them and below them.
fn read(paths: &[PathBuf]) -> Result<Vec<(PathBuf, Recorded)>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            collect(path, &mut files)?;
        } else {
            files.push(path.clone());
        }
    }
    let read = |path: PathBuf| {
        let recorded = read_journal(&path).map_err(Failure::work)?;
        Ok((path, recorded))
    };
    files.into_iter().map(read).collect()
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

/// The times of a journal.
fn measured(recorded: &Recorded) -> ProblemTimes {
    let times = recorded.entries.iter().filter_map(|entry| {
        let time = entry.outcome.measurement().map(Measurement::median)?;
        Some((entry.family.clone(), entry.parameters.clone(), time))
    });
    ProblemTimes { problem: recorded.problem, times: times.collect() }
}
