//! `db list` and `db show`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use crate::cli::Failure;
use crate::cli::console::Console;
use crate::cli::databases::{self, files};
use crate::cli::output::OutputArguments;
use crate::cli::request::shapes;
use crate::database::{Database, Record, RecordFilter};
use crate::model::Shape;
use crate::report::records;

/// Which records are meant.
#[derive(Debug, Args)]
pub(in crate::cli) struct SelectionArguments {
    /// Shape of the records, such as 4096x4096x1024; may be repeated
    #[arg(long, value_name = "MxNxK")]
    shape: Vec<String>,
    /// How elements are stored, such as f32; may be repeated
    #[arg(long)]
    dtype: Vec<String>,
    /// How operands are stored: nn, nt, tn or tt; may be repeated
    #[arg(long)]
    layout: Vec<String>,
    /// GPU of the records, or a part of its name
    #[arg(long, value_name = "NAME")]
    device_name: Option<String>,
}

impl SelectionArguments {
    pub(in crate::cli) fn selection(&self) -> Result<RecordFilter, Failure> {
        fn words<T: std::str::FromStr>(words: &[String]) -> Result<Vec<T>, Failure>
        where
            T::Err: std::fmt::Display,
        {
            words.iter().map(|word| word.parse().map_err(Failure::usage)).collect()
        }
        Ok(RecordFilter {
            shapes: shapes(&self.shape)?,
            dtypes: words(&self.dtype)?,
            layouts: words(&self.layout)?,
            device_name: self.device_name.clone(),
        })
    }
}

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// Database to list; may be repeated [default: all of results/]
    #[arg(long, value_name = "FILE")]
    db: Vec<PathBuf>,
    #[command(flatten)]
    selection: SelectionArguments,
    #[command(flatten)]
    pub(super) output: OutputArguments,
}

#[derive(Debug, Args)]
pub(super) struct ShowArguments {
    /// Shape, such as 4096x4096x1024, or key as `db list` shows it
    #[arg(value_name = "KEY|SHAPE")]
    what: String,
    /// Database to look in; may be repeated [default: all of results/]
    #[arg(long, value_name = "FILE")]
    db: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) output: OutputArguments,
}

pub(super) fn list(arguments: &ListArguments, console: Console) -> Result<Value, Failure> {
    let selection = arguments.selection.selection()?;
    let (files, databases) = load(&arguments.db)?;
    let found = select(&files, &databases, |record| selection.matches(record));
    if found.is_empty() {
        console.note(&format!("no such record in {}", records::names(&files)));
    } else {
        console.result(&records::list(&found, console.width()));
    }
    Ok(records::list_document(&found))
}

pub(super) fn show(arguments: &ShowArguments, console: Console) -> Result<Value, Failure> {
    let what = arguments.what.as_str();
    let shape: Option<Shape> = what.parse().ok();
    let is_key = what.len() >= 4 && what.bytes().all(|byte| byte.is_ascii_hexdigit());
    if shape.is_none() && !is_key {
        return Err(Failure::Usage(format!(
            "`{what}` is neither a shape, as in `4096x4096x1024`, nor a key of at least 4 hexadecimal \
             digits, as `gemm-tune db list` shows them"
        )));
    }
    let (files, databases) = load(&arguments.db)?;
    let key = what.to_lowercase();
    let wanted = RecordFilter { shapes: shape.into_iter().collect(), ..RecordFilter::default() };
    let found = select(&files, &databases, |record| match shape {
        Some(_) => wanted.matches(record),
        None => record.key().starts_with(&key),
    });
    if found.is_empty() {
        return Err(Failure::Work(format!(
            "no record of `{what}` in {}; `gemm-tune db list` shows what there is",
            records::names(&files)
        )));
    }
    let texts: Vec<String> = found
        .iter()
        .map(|(file, record)| records::details(file, record, console.width()))
        .collect();
    console.result(&texts.join("\n"));
    let documents: Vec<Value> =
        found.iter().map(|(file, record)| records::document(file, record)).collect();
    Ok(json!({ "records": documents }))
}

fn load(named: &[PathBuf]) -> Result<(Vec<PathBuf>, Vec<Database>), Failure> {
    let files = files(named)?;
    let databases = databases::load(&files)?;
    Ok((files, databases))
}

fn select<'a>(
    files: &'a [PathBuf],
    databases: &'a [Database],
    takes: impl Fn(&Record) -> bool,
) -> Vec<(&'a Path, &'a Record)> {
    let pairs = files.iter().zip(databases);
    let records = pairs.flat_map(|(file, database)| {
        database.records().iter().map(move |record| (file.as_path(), record))
    });
    records.filter(|(_, record)| takes(record)).collect()
}
