//! Recorded spaces: all configurations with their times. `tune::recording` reads them from files.

use std::collections::HashMap;

use indexmap::IndexMap;
use thiserror::Error;

use super::strategy::{Pick, SearchSpace};
use crate::model::{Configuration, Micros, Value};
use crate::space::LegalSpace;

/// Configuration of a recorded space.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedRow {
    /// Its family; any name where a file has only one.
    pub family: String,
    /// Its parameters.
    pub configuration: Configuration,
    /// Its time; `None` after a failure.
    pub time: Option<Micros>,
}

/// Why rows form no space.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum RowError {
    /// A row has other parameters than the first of its family.
    #[error(
        "entry {} has the parameters `{found}`, the first of its kind has `{expected}`: all \
         entries of a space have the same parameters", .entry + 1
    )]
    Parameters {
        /// Index of the row.
        entry: usize,
        /// Names of its parameters.
        found: String,
        /// Names of its parameters.
        expected: String,
    },
    /// The parameters have too many values.
    #[error("the values of the parameters have more than 2^64 combinations")]
    TooLarge,
    /// No configuration was correct.
    #[error("no entry has a time: there is nothing to search for")]
    NoTime,
}

/// Recorded space: its configurations are exactly the recorded ones.
#[derive(Debug, Clone)]
pub struct Recording {
    /// The names of its families.
    families: Vec<String>,
    search_spaces: Vec<SearchSpace>,
    /// By family and rank.
    times: Vec<Vec<Option<Micros>>>,
    best: Micros,
}

impl Recording {
    /// Builds a space from rows. The last row of equal parameters counts, as in files that tools resume from.
    ///
    /// # Errors
    /// [`RowError`].
    pub fn new(rows: &[RecordedRow]) -> Result<Self, RowError> {
        let mut families: IndexMap<&str, Vec<(usize, &RecordedRow)>> = IndexMap::new();
        for (entry, row) in rows.iter().enumerate() {
            families.entry(&row.family).or_default().push((entry, row));
        }
        let (mut search_spaces, mut times) = (Vec::new(), Vec::new());
        for rows in families.values() {
            let (space, by_rank) = family(rows)?;
            search_spaces.push(SearchSpace {
                space,
                default: None,
                hints: Vec::new(),
                seeds: Vec::new(),
                forecast: None,
            });
            times.push(by_rank);
        }
        let best =
            times.iter().flatten().flatten().copied().reduce(|a, b| if b < a { b } else { a });
        let families = families.keys().map(|name| (*name).to_owned()).collect();
        Ok(Self { families, search_spaces, times, best: best.ok_or(RowError::NoTime)? })
    }

    /// Adds warm starts and forecasts: `knowledge` sets them for each family by its name.
    pub fn inform(&mut self, mut knowledge: impl FnMut(&str, &mut SearchSpace)) {
        for (name, search_space) in self.families.iter().zip(&mut self.search_spaces) {
            knowledge(name, search_space);
        }
    }

    /// The spaces of its families.
    pub fn search_spaces(&self) -> &[SearchSpace] {
        &self.search_spaces
    }

    /// Configurations of all families.
    pub fn len(&self) -> usize {
        self.times.iter().map(Vec::len).sum()
    }

    /// Whether there is none; there always is one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of failures.
    pub fn failed(&self) -> usize {
        self.times.iter().flatten().filter(|time| time.is_none()).count()
    }

    /// The time of a configuration; `None` after a failure.
    pub fn time(&self, pick: Pick) -> Option<Micros> {
        self.times.get(pick.family)?.get(pick.rank).copied().flatten()
    }

    /// The shortest time.
    pub fn best(&self) -> Micros {
        self.best
    }
}

/// The space of one family's rows, and their times by rank.
fn family(rows: &[(usize, &RecordedRow)]) -> Result<(LegalSpace, Vec<Option<Micros>>), RowError> {
    let Some((_, first)) = rows.first() else { return Err(RowError::NoTime) };
    let mut parameters: Vec<(String, Vec<Value>)> =
        first.configuration.0.keys().map(|name| (name.clone(), Vec::new())).collect();
    for (entry, row) in rows {
        let configuration = &row.configuration;
        let complete = parameters.iter().all(|(name, _)| configuration.get(name).is_some());
        if !complete || configuration.0.len() != parameters.len() {
            let names = |of: &Configuration| of.0.keys().cloned().collect::<Vec<_>>().join(" ");
            return Err(RowError::Parameters {
                entry: *entry,
                found: names(configuration),
                expected: names(&first.configuration),
            });
        }
    }
    // Values by their text, for recordings with thousands of rows.
    let mut places: Vec<HashMap<String, usize>> = Vec::new();
    for (name, values) in &mut parameters {
        let mut known: IndexMap<String, Value> = IndexMap::new();
        for (_, row) in rows {
            if let Some(value) = row.configuration.get(name) {
                known.entry(value.to_string()).or_insert_with(|| value.clone());
            }
        }
        // Stable: words stay in the order of the rows.
        known.sort_by(|_, a, _, b| match (a.number(), b.number()) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            _ => std::cmp::Ordering::Equal,
        });
        places.push(known.keys().cloned().enumerate().map(|(at, word)| (word, at)).collect());
        values.extend(known.into_values());
    }
    let indices = |row: &RecordedRow| -> Vec<usize> {
        let values = parameters.iter().map(|(name, _)| row.configuration.get(name));
        let places = values.zip(&places).map(|(value, places)| {
            value.and_then(|value| places.get(&value.to_string()).copied()).unwrap_or_default()
        });
        places.collect()
    };
    let all: Vec<Vec<usize>> = rows.iter().map(|(_, row)| indices(row)).collect();
    let space =
        LegalSpace::of_recorded(parameters, all.iter().cloned()).ok_or(RowError::TooLarge)?;
    let mut times = vec![None; space.len()];
    for (indices, (_, row)) in all.iter().zip(rows) {
        if let Some(rank) = space.rank_of(indices) {
            times[rank] = row.time;
        }
    }
    Ok((space, times))
}
