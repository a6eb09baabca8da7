//! Known records: what lookups answer from. Named databases stand alone; else those of `results/`, and behind them a
//! built-in one: for devices that have one, and for all where `results/` has no measured record.

use std::path::{Path, PathBuf};

use super::console::Console;
use super::databases;
use super::failure::Failure;
use super::machine::is_named;
use crate::database::{BUILT_IN, Database, Record};
use crate::model::{Device, Problem, Regime};

/// Databases, of which the last may be the built-in one.
pub(super) struct KnownRecords {
    files: Vec<PathBuf>,
    databases: Vec<Database>,
    /// Whether the built-in database may be behind the files.
    is_open: bool,
}

impl KnownRecords {
    /// No records.
    pub(super) fn none() -> Self {
        Self { files: Vec::new(), databases: Vec::new(), is_open: false }
    }

    /// Reads the named files, else those of `results/`. For one problem, of large files only the records near it.
    pub(super) fn read(
        named: &[PathBuf],
        problems: &[Problem],
        console: Console,
    ) -> Result<Self, Failure> {
        let files = databases::files(named)?;
        let databases = match problems {
            [only] => databases::load_near(&files, only, console)?,
            _ => databases::load(&files, console)?,
        };
        Ok(Self { files, databases, is_open: named.is_empty() })
    }

    /// The device of that name among those of the records and of the built-in databases. Without a name, the only one
    /// that records were measured on; where none was, the first that has a built-in database.
    pub(super) fn device(&self, name: Option<&str>) -> Result<Device, Failure> {
        let built_in = match name {
            Some(name) => Device::known().into_iter().find(|device| is_named(device, name)),
            None => self.all().all(Record::is_modelled).then(Device::h200),
        };
        let records: Vec<&Record> = self.all().collect();
        match (databases::device(&records, name), built_in.filter(|_| self.is_open)) {
            (Err(_), Some(device)) => Ok(device),
            (Ok(device), Some(gpu)) if device.is_cpu() && name.is_none() => Ok(gpu),
            (found, _) => found,
        }
    }

    /// Adds the built-in database of the device, where no file has all of the problems.
    pub(super) fn for_device(
        mut self,
        device: &Device,
        problems: &[Problem],
        regime: Regime,
    ) -> Result<Self, Failure> {
        let is_exact = |problem: &Problem| {
            self.databases.iter().any(|own| own.find(problem, device, regime).is_some())
        };
        let may_answer = Database::is_built_in_for(device) || self.all().all(Record::is_modelled);
        if self.is_open && may_answer && !problems.iter().all(is_exact) {
            let built_in = databases::built_in(device)?;
            self.databases.push(built_in.without_those_of(&self.databases));
        }
        Ok(self)
    }

    /// All records.
    pub(super) fn all(&self) -> impl Iterator<Item = &Record> {
        self.databases.iter().flat_map(Database::records)
    }

    /// The record of a problem: of the first file that has one, else of the built-in database.
    pub(super) fn find(
        &self,
        problem: &Problem,
        device: &Device,
        regime: Regime,
    ) -> Option<&Record> {
        self.databases.iter().find_map(|own| own.find(problem, device, regime))
    }

    /// The names of the databases, for messages.
    pub(super) fn names(&self) -> String {
        let files = self.files.iter().map(|file| format!("`{}`", file.display()));
        let has_built_in = self.databases.len() > self.files.len();
        let built_in = has_built_in.then(|| format!("the {BUILT_IN}"));
        let names: Vec<String> = files.chain(built_in).collect();
        if names.is_empty() { "any database".to_owned() } else { names.join(", ") }
    }

    /// The files, in their order.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }

    /// Whether a record of this key is in a file.
    pub(super) fn is_in_a_file(&self, key: &str) -> bool {
        let files = self.databases.iter().take(self.files.len());
        files.flat_map(Database::records).any(|record| record.key() == key)
    }

    /// Whether a record is in the built-in database.
    pub(super) fn is_built_in(&self, record: &Record) -> bool {
        let built_in = self.databases.get(self.files.len());
        built_in.is_some_and(|own| own.records().contains(record))
    }
}
