//! Statistics of a search's journal: outcomes by parameter value, in order of evaluation, and by
//! reason.
//!
//! Counts and orders only; [`super::explanation`] gives reasons.

use std::collections::BTreeMap;

use crate::model::{Configuration, Micros, OutcomeKind, Value, statistics};
use crate::tune::Entry;

/// Reasons listed for an outcome; the others are summed up.
const REASONS: usize = 5;

/// A parameter with the results of its values.
#[derive(Debug, Clone, PartialEq)]
pub struct ParameterSpread {
    /// Its name.
    pub parameter: String,
    /// The evaluated values, numbers in ascending order.
    pub values: Vec<ValueSpread>,
}

/// Results of the configurations with one value.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueSpread {
    /// The value.
    pub value: Value,
    /// Number of evaluated configurations.
    pub tried: usize,
    /// Time of the fastest correct one; `None` where none is correct.
    pub best: Option<Micros>,
    /// Median time of the correct ones.
    pub median: Option<Micros>,
}

/// Number of configurations with one outcome, by reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutcomeCount {
    /// The outcome.
    pub kind: OutcomeKind,
    /// How many.
    pub count: usize,
    /// Reasons with their counts, most frequent first; none for correct ones. Reasons that differ
    /// only in numbers are one.
    pub reasons: Vec<(String, usize)>,
}

/// Time of a correct outcome.
pub fn time(entry: &Entry) -> Option<Micros> {
    let time = entry.outcome.measurement()?.median();
    time.0.is_finite().then_some(time)
}

/// Families of the entries, ordered by their fastest configuration; families without a time come
/// last.
pub fn families(entries: &[Entry]) -> Vec<&str> {
    let mut best: BTreeMap<&str, f64> = BTreeMap::new();
    for entry in entries {
        let best = best.entry(&entry.family).or_insert(f64::INFINITY);
        *best = best.min(time(entry).map_or(f64::INFINITY, |time| time.0));
    }
    let mut families: Vec<(&str, f64)> = best.into_iter().collect();
    families.sort_by(|a, b| a.1.total_cmp(&b.1));
    families.into_iter().map(|(family, _)| family).collect()
}

/// Parameters of a family, in its order, with the results of each value.
pub fn spreads(entries: &[Entry], family: &str) -> Vec<ParameterSpread> {
    let own: Vec<&Entry> = entries.iter().filter(|entry| entry.family == family).collect();
    let first = own.first().map(|entry| entry.parameters.0.keys());
    let names = first.into_iter().flatten();
    names
        .map(|name| {
            let values = values(own.iter().filter_map(|entry| entry.parameters.get(name)));
            let spread = |value: Value| {
                let with = || own.iter().filter(|entry| entry.parameters.get(name) == Some(&value));
                let times: Vec<f64> = with().filter_map(|entry| Some(time(entry)?.0)).collect();
                ValueSpread {
                    tried: with().count(),
                    best: times.iter().copied().min_by(f64::total_cmp).map(Micros),
                    median: statistics::median(&times).map(Micros),
                    value,
                }
            };
            ParameterSpread {
                parameter: name.clone(),
                values: values.into_iter().map(spread).collect(),
            }
        })
        .collect()
}

/// Distinct values: numbers in ascending order, then words alphabetically.
pub fn values<'a>(all: impl Iterator<Item = &'a Value>) -> Vec<Value> {
    let mut values: Vec<Value> = Vec::new();
    for value in all {
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    values.sort_by(|a, b| {
        let key = |value: &Value| value.number().unwrap_or(f64::INFINITY);
        key(a).total_cmp(&key(b)).then_with(|| a.to_string().cmp(&b.to_string()))
    });
    values
}

/// Improvements of the best time: the number of evaluations and the new time.
pub fn convergence(entries: &[Entry]) -> Vec<(usize, Micros)> {
    let mut steps: Vec<(usize, Micros)> = Vec::new();
    for (number, entry) in (1..).zip(entries) {
        if let Some(time) = time(entry)
            && steps.last().is_none_or(|(_, best)| time < *best)
        {
            steps.push((number, time));
        }
    }
    steps
}

/// Seconds of searching at which each entry was evaluated; resumed runs continue the count. None
/// where an entry has no time stamp.
pub fn clock(entries: &[Entry]) -> Option<Vec<f64>> {
    let (mut before, mut last) = (0.0, 0.0);
    entries
        .iter()
        .map(|entry| {
            let after = entry.after_s?;
            if after < last {
                before += last;
            }
            last = after;
            Some(before + after)
        })
        .collect()
}

/// Outcomes of the entries, most frequent first.
pub fn outcome_counts(entries: &[Entry]) -> Vec<OutcomeCount> {
    /// Reasons without their digits; the first of a group represents it.
    type Reasons = BTreeMap<String, (String, usize)>;
    let mut kinds: BTreeMap<OutcomeKind, (usize, Reasons)> = BTreeMap::new();
    for entry in entries {
        let (count, reasons) = kinds.entry(entry.outcome.kind()).or_default();
        *count += 1;
        if let Some(reason) = entry.outcome.failure() {
            let alike = reason.chars().filter(|c| !c.is_ascii_digit()).collect();
            reasons.entry(alike).or_insert((reason, 0)).1 += 1;
        }
    }
    let mut outcome_counts: Vec<OutcomeCount> = kinds
        .into_iter()
        .map(|(kind, (count, reasons))| {
            let mut reasons: Vec<(String, usize)> = reasons.into_values().collect();
            reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            let others = reasons.split_off(REASONS.min(reasons.len()));
            let rest: usize = others.iter().map(|(_, count)| count).sum();
            if rest > 0 {
                reasons.push((format!("{} other reasons", others.len()), rest));
            }
            OutcomeCount { kind, count, reasons }
        })
        .collect();
    outcome_counts.sort_by_key(|tally| std::cmp::Reverse(tally.count));
    outcome_counts
}

/// Parameters in which `other` differs from `one`.
pub fn differing<'a>(
    one: &'a Configuration,
    other: &'a Configuration,
) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let different = other.0.iter().filter(|(name, value)| one.get(name) != Some(value));
    different.map(|(name, value)| (name.as_str(), value))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::{Fault, Measurement, Outcome, Regime, Resources, Timing, Validation};
    use crate::tune::KernelId;

    /// An entry of `family`: a time in microseconds, or a fault.
    pub(crate) fn entry(family: &str, values: &[(&str, i64)], outcome: Result<f64, &str>) -> Entry {
        let parameters: Configuration =
            values.iter().map(|(name, value)| ((*name).to_owned(), Value::Int(*value))).collect();
        let outcome = match outcome {
            Ok(time) => Outcome::Correct {
                validation: Validation { reference: "f64".to_owned(), max_error: 0.0, bound: 1.0 },
                measurement: Measurement {
                    samples: vec![Micros(time)],
                    launches_per_sample: 1,
                    regime: Regime::default(),
                    timing: Timing::Measured,
                    sm_clock_mhz: None,
                },
                resources: Resources::default(),
            },
            Err(message) => Outcome::Runtime(Fault {
                during: "launching".to_owned(),
                message: message.to_owned(),
            }),
        };
        let kernel = KernelId::of_source(&format!("{family} {parameters}"));
        Entry { kernel, family: family.to_owned(), parameters, after_s: None, outcome }
    }

    pub(crate) fn search() -> Vec<Entry> {
        vec![
            entry("slow", &[("X", 1)], Ok(30.0)),
            entry("fast", &[("X", 16), ("Y", 1)], Ok(20.0)),
            entry("fast", &[("X", 2), ("Y", 1)], Err("fault at 1f2")),
            entry("fast", &[("X", 2), ("Y", 2)], Ok(10.0)),
            entry("fast", &[("X", 2), ("Y", 3)], Err("fault at 3f4")),
            entry("fast", &[("X", 16), ("Y", 2)], Ok(12.0)),
            entry("broken", &[("X", 1)], Err("no memory")),
        ]
    }

    #[test]
    fn families_are_ordered_by_their_best_time() {
        assert_eq!(families(&search()), ["fast", "slow", "broken"]);
    }

    #[test]
    fn values_have_a_best_and_a_median_time() {
        let spreads = spreads(&search(), "fast");
        let names: Vec<&str> = spreads.iter().map(|spread| spread.parameter.as_str()).collect();
        assert_eq!(names, ["X", "Y"]);
        let found = |value: &ValueSpread| {
            (
                value.value.to_string(),
                value.tried,
                value.best.map(|best| best.0),
                value.median.map(|median| median.0),
            )
        };
        let x: Vec<_> = spreads[0].values.iter().map(found).collect();
        let expected = [("2", 3, Some(10.0), Some(10.0)), ("16", 2, Some(12.0), Some(16.0))];
        assert_eq!(x, expected.map(|(value, n, best, middle)| (value.to_owned(), n, best, middle)));
        assert_eq!(spreads[1].values[2].best, None, "nothing correct has Y=3");
    }

    #[test]
    fn a_search_converges_in_steps() {
        let steps = convergence(&search());
        assert_eq!(steps, [(1, Micros(30.0)), (2, Micros(20.0)), (4, Micros(10.0))]);
    }

    #[test]
    fn a_resumed_run_continues_the_clock() {
        let mut entries = search()[..4].to_vec();
        for (entry, after) in entries.iter_mut().zip([1.0, 2.5, 0.5, 1.0]) {
            entry.after_s = Some(after);
        }
        assert_eq!(clock(&entries), Some(vec![1.0, 2.5, 3.0, 3.5]));
        entries[2].after_s = None;
        assert_eq!(clock(&entries), None);
    }

    #[test]
    fn reasons_that_differ_in_numbers_are_one() {
        let outcome_counts = outcome_counts(&search());
        let kinds: Vec<(OutcomeKind, usize)> =
            outcome_counts.iter().map(|tally| (tally.kind, tally.count)).collect();
        assert_eq!(kinds, [(OutcomeKind::Correct, 4), (OutcomeKind::Runtime, 3)]);
        assert!(outcome_counts[0].reasons.is_empty());
        let reasons = &outcome_counts[1].reasons;
        assert_eq!(reasons[0], ("while launching: fault at 1f2".to_owned(), 2));
        assert_eq!(reasons[1], ("while launching: no memory".to_owned(), 1));
    }
}
