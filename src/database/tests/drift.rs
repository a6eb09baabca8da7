//! Drift of a record, for given times.

use super::*;
use crate::database::{Drift, StoredConfidence};
use crate::measure::Margin;
use crate::tune::{BaselineTime, Retimed, Standing};

/// A record of 100 us, its runner-up 2 % slower (1 to 3), cuBLAS 10 % slower.
fn recorded() -> Record {
    let mut found = found(problem(8, 8, 8), 100.0);
    found.libraries = vec![LibraryTime {
        name: "cuBLAS".to_owned(),
        median_us: 110.0,
        algorithm: LibraryAlgorithm::new(),
    }];
    let confidence = StoredConfidence {
        runner_up: Some("simt BM=64".to_owned()),
        margin_percent: Some(2.0),
        interval_percent: Some([1.0, 3.0]),
        rounds: 40,
        tainted_rounds: 0,
        ended: "separated".to_owned(),
        tie_set: Vec::new(),
        finalists: Vec::new(),
    };
    Record { confidence: Some(confidence), ..found.record() }
}

fn margin(low: f64, high: f64) -> Margin {
    Margin { percent: (low + high) / 2.0, low, high }
}

/// New timings of the record.
fn retimed(median_us: f64, runner_up: Margin, library: Margin) -> Retimed {
    let found = found(problem(8, 8, 8), median_us);
    let standing = Standing {
        family: found.family,
        configuration: found.configuration,
        plan: found.launch,
        validation: found.validation,
        also: vec![],
        measurement: found.measurement,
        resources: found.resources,
        contested: true,
    };
    let name = "cuBLAS".to_owned();
    let baseline = BaselineTime { name, algorithm: None, measurement: measurement(110.0) };
    Retimed {
        winner: Ok(standing.clone()),
        runner_up: Some(Ok(standing)),
        margin: Some(runner_up),
        libraries: vec![(baseline, Some(library))],
        rounds: 40,
        decided: None,
    }
}

/// The kinds of drift found.
fn drifts(record: &Record, retimed: &Retimed, hash: &str) -> Vec<&'static str> {
    let name = |drift: &Drift| match drift {
        Drift::Broken { .. } => "broken",
        Drift::Template { .. } => "template",
        Drift::Time { .. } => "time",
        Drift::Margin { .. } => "margin",
        Drift::Overturned { .. } => "overturned",
        Drift::Library { .. } => "library",
    };
    Drift::of(record, retimed, hash).iter().map(name).collect()
}

#[test]
fn drift_is_a_time_outside_its_interval_by_more_than_runs_vary() {
    let record = recorded();
    let hash = record.provenance.template_hash.clone();
    // Samples are 0.125 us apart around the median: 5 % are below 99.4 us, 5 % above 100.6 us.
    let (same, ten) = (margin(1.5, 2.5), margin(9.5, 10.5));
    for (median_us, runner_up, library, expected) in [
        (100.0, same, ten, &[][..]),
        (101.5, same, ten, &[]),
        (98.5, same, ten, &[]),
        (101.7, same, ten, &["time"]),
        (98.3, same, ten, &["time"]),
        (100.0, margin(3.4, 5.0), ten, &[]),
        (100.0, margin(3.6, 5.0), ten, &["margin"]),
        (100.0, margin(-0.4, 0.4), ten, &["margin"]),
        (100.0, margin(-0.4, 0.6), ten, &[]),
        (100.0, margin(-2.0, -0.6), ten, &["overturned"]),
        (100.0, margin(-100.0, f64::INFINITY), ten, &[]),
        (100.0, same, margin(10.9, 12.0), &[]),
        (100.0, same, margin(11.1, 12.0), &["library"]),
        (100.0, same, margin(7.0, 8.9), &["library"]),
        (120.0, margin(9.0, 10.0), margin(-9.0, -8.0), &["time", "margin", "library"]),
    ] {
        let found = drifts(&record, &retimed(median_us, runner_up, library), &hash);
        assert_eq!(found, expected, "{median_us} us, {runner_up:?}, {library:?}");
    }
}

#[test]
fn a_broken_winner_and_a_changed_template_are_drift() {
    let record = recorded();
    let hash = record.provenance.template_hash.clone();
    let mut broken = retimed(100.0, margin(1.0, 3.0), margin(9.0, 11.0));
    assert_eq!(drifts(&record, &broken, "another"), ["template"]);
    broken.winner = Err("it does not compile".to_owned());
    assert_eq!(drifts(&record, &broken, &hash), ["broken"]);

    let mut bare = record;
    (bare.confidence, bare.baseline) = (None, None);
    let elsewhere = retimed(100.0, margin(50.0, 60.0), margin(50.0, 60.0));
    assert!(drifts(&bare, &elsewhere, &hash).is_empty(), "nothing was claimed");
}
