//! `gemm-tune export`: winners and evaluated configurations for other programs.

mod artifact;
mod evaluated;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::arguments::{CommonArguments, FolderArguments};
use super::console::Console;
use super::db::SelectionArguments;
use super::output::{finish, write};
use super::{Failure, databases};
use crate::database::{Database, Record};
use crate::export;

/// What another program reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A folder with each kernel's source, machine code and PTX, and a manifest of how to launch them
    Bundle,
    /// A C header and source that embed the machine code and need the CUDA driver alone, in a folder
    C,
    /// A bundle with a Python module for PyTorch tensors and CuPy arrays
    Python,
    /// A Rust module for programs with cudarc, with its cubins, in a folder
    Rust,
    /// Records as one document, with the fields of the database
    Json,
    /// Records as a table, a line each
    Csv,
    /// Every evaluated configuration of a family, in the T4 results format
    T4,
    /// Every evaluated configuration of a family, as a cache file of Kernel Tuner
    KernelTuner,
    /// Records as wisdom files of Kernel Launcher, in a folder
    Wisdom,
}

/// Records come from databases. What is run elsewhere (bundle, c, python, rust) has the winners of one GPU, and
/// kernels besides that serve shapes which nobody tuned. Every evaluated configuration (t4, kernel-tuner)
/// comes from the journal of one problem, which tuning keeps below the cache folder.
#[derive(Debug, Args)]
pub(super) struct ExportArguments {
    /// Form to write
    #[arg(long, value_name = "FORMAT")]
    format: Format,
    /// File to write; for bundle, c, python, rust and wisdom, the folder
    #[arg(short = 'o', long = "output", value_name = "OUT")]
    out: PathBuf,
    /// Database to export; may be repeated [default: all of results/]
    #[arg(long, value_name = "FILE")]
    db: Vec<PathBuf>,
    #[command(flatten)]
    selection: SelectionArguments,
    /// Journal to export [default: the one of the shape, dtype, layout and GPU that are given]
    #[arg(long, value_name = "FILE", conflicts_with = "db")]
    journal: Option<PathBuf>,
    /// Family to export, where a journal has several
    #[arg(long, value_name = "NAME")]
    family: Option<String>,
    /// Architecture to compile for, such as sm_90; may be repeated, c and rust take the first [default: that of
    /// the records' GPU]
    #[arg(long, value_name = "NAME")]
    arch: Vec<String>,
    /// Export the kernels and the decision tree that `gemm-tune dispatch` wrote, instead of all winners
    #[arg(long, value_name = "FILE", conflicts_with = "only_tuned")]
    dispatch: Option<PathBuf>,
    /// Leave out kernels for shapes that nobody tuned
    #[arg(long)]
    only_tuned: bool,
    /// Take winners too whose template has changed since, as it is now
    #[arg(long)]
    changed_templates: bool,
    /// Cache policy of the records: rotate or hot
    #[arg(long, default_value = "rotate")]
    cache_policy: String,
    /// Power state of the records: burst or sustained
    #[arg(long, default_value = "burst")]
    power: String,
    #[command(flatten)]
    folders: FolderArguments,
    #[command(flatten)]
    common: CommonArguments,
}

/// Exports, and gives the exit code.
pub(super) fn main(arguments: &ExportArguments) -> ExitCode {
    let console = Console::new(&arguments.common);
    finish(console, run(arguments, console).map(|document| (document, ExitCode::SUCCESS)))
}

fn run(arguments: &ExportArguments, console: Console) -> Result<Value, Failure> {
    let selection = arguments.selection.selection()?;
    let out = &arguments.out;
    let (files, what) = match arguments.format {
        Format::T4 | Format::KernelTuner => {
            let (text, what) = evaluated::text(arguments, &selection)?;
            (vec![(out.clone(), text.into_bytes())], what)
        }
        format => {
            let files = databases::files(&arguments.db)?;
            let databases = databases::load(&files)?;
            let all: Vec<&Record> = databases.iter().flat_map(Database::records).collect();
            let records: Vec<&Record> = all
                .iter()
                .copied()
                .filter(|record| selection.matches(record))
                .filter(|record| arguments.family.as_ref().is_none_or(|f| *f == record.family))
                .collect();
            if records.is_empty() {
                return Err(Failure::Work(
                    "no such record; `gemm-tune db list` shows what there is".to_owned(),
                ));
            }
            match format {
                Format::Bundle | Format::C | Format::Python | Format::Rust => {
                    artifact::files(arguments, &records, &all, console)?
                }
                _ => {
                    let what = format!("{} records", records.len());
                    (from_records(format, &records, out)?, what)
                }
            }
        }
    };
    for (path, bytes) in &files {
        write(path, bytes)?;
    }
    console.result(&format!("{what} written to {}\n", out.display()));
    let paths: Vec<&PathBuf> = files.iter().map(|(path, _)| path).collect();
    Ok(json!({ "files": paths, "exported": what }))
}

/// Files to write.
type Files = Vec<(PathBuf, Vec<u8>)>;

/// The files of a format that is made from records.
fn from_records(format: Format, records: &[&Record], out: &Path) -> Result<Files, Failure> {
    let one = |text: String| vec![(out.to_owned(), text.into_bytes())];
    Ok(match format {
        Format::Csv => one(export::csv(records).map_err(Failure::work)?),
        Format::Wisdom => {
            let files = export::wisdom(records).into_iter();
            files.map(|(name, text)| (out.join(name), text.into_bytes())).collect()
        }
        _ => one(format!("{:#}\n", export::json(records))),
    })
}
