//! `db list` and `db show`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::cli::arguments::{OutputArguments, SelectionArguments};
use crate::cli::console::Console;
use crate::cli::databases;
use crate::cli::failure::Failure;
use crate::cli::machine::known_device;
use crate::database::{BUILT_IN, Database, Record, RecordFilter};
use crate::model::Shape;
use crate::report::records::{self, LocatedRecord};

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// Database to list; may be repeated [default: all of results/, else the built-in one]
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
    /// Database to look in; may be repeated [default: all of results/, else the built-in one]
    #[arg(long, value_name = "FILE")]
    db: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) output: OutputArguments,
}

/// Records of databases, and which of them are listed.
struct Listing {
    files: Vec<PathBuf>,
    databases: Vec<Database>,
    selection: RecordFilter,
}

impl Listing {
    fn records(&self) -> Vec<LocatedRecord<'_>> {
        select(&self.files, &self.databases, |record| self.selection.matches(record))
    }
}

impl Serialize for Listing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        records::list_document(&self.records()).serialize(serializer)
    }
}

pub(super) fn list(
    arguments: &ListArguments,
    console: Console,
) -> Result<impl Serialize + use<>, Failure> {
    let selection = arguments.selection.selection()?;
    let device = || Ok(known_device(selection.device_name.as_deref()));
    let (files, databases) = databases::load_or_built_in(&arguments.db, |_| true, device, console)?;
    let listing = Listing { files, databases, selection };
    let found = listing.records();
    if found.is_empty() {
        console.note(&format!("no such record in {}", records::names(&listing.files)));
    } else if console.is_text() {
        console.result(&records::list(&found, console.table_style()));
    }
    drop(found);
    Ok(listing)
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
    let device = known_device(None);
    let (mut files, mut databases) =
        databases::load_or_built_in(&arguments.db, |_| true, || Ok(device.clone()), console)?;
    let key = what.to_lowercase();
    let wanted = RecordFilter { shapes: shape.into_iter().collect(), ..RecordFilter::default() };
    let is_wanted = |record: &Record| match shape {
        Some(_) => wanted.matches(record),
        None => record.key().starts_with(&key),
    };
    let is_known = databases.iter().flat_map(Database::records).any(is_wanted);
    if !is_known && arguments.db.is_empty() && files != [Path::new(BUILT_IN)] {
        let built_in = databases::built_in(&device)?;
        if built_in.records().iter().any(is_wanted) {
            databases::note_built_in(console);
            (files, databases) = (vec![PathBuf::from(BUILT_IN)], vec![built_in]);
        }
    }
    let found = select(&files, &databases, is_wanted);
    if found.is_empty() {
        return Err(Failure::Work(format!(
            "no record of `{what}` in {}; `gemm-tune db list` shows what there is",
            records::names(&files)
        )));
    }
    let texts: Vec<String> = found
        .iter()
        .map(|(file, record)| records::details(file, record, console.table_style()))
        .collect();
    console.result(&texts.join("\n"));
    let documents: Vec<Value> =
        found.iter().map(|(file, record)| records::document(file, record)).collect();
    Ok(json!({ "records": documents }))
}

fn select<'a>(
    files: &'a [PathBuf],
    databases: &'a [Database],
    takes: impl Fn(&Record) -> bool,
) -> Vec<LocatedRecord<'a>> {
    let pairs = files.iter().zip(databases);
    let records = pairs.flat_map(|(file, database)| {
        database.records().iter().map(move |record| (file.as_path(), record))
    });
    records.filter(|(_, record)| takes(record)).collect()
}
