//! Finals of a verification that are written into their records.

use super::*;
use crate::database::{ReplacePolicy, ResultOrigin, record_winner, update_record};
use crate::measure::{ConditionsRange, FinalEnd, Margin};
use crate::tune::{BaselineTime, Certainty, Retimed, Standing};

/// A final that a slower kernel of another configuration wins, with cuBLAS beside it.
fn retimed() -> Retimed {
    let found = found(problem(8, 8, 8), 120.0);
    let mut configuration = found.configuration;
    configuration.0.insert("BM".to_owned(), Value::Int(64));
    let winner = Standing {
        family: found.family.clone(),
        configuration: configuration.clone(),
        plan: found.launch,
        validation: found.validation,
        also: vec!["9x8x8".to_owned()],
        measurement: found.measurement,
        resources: found.resources,
        contested: true,
    };
    let margin = Margin { percent: 0.4, low: 0.3, high: 0.5 };
    let certainty = Certainty {
        runner_up: Some((found.family, record(problem(8, 8, 8), 1.0).configuration(), margin)),
        rounds: 40,
        tainted_rounds: 1,
        taint: None,
        tie_set: Vec::new(),
        ended: FinalEnd::Separated,
        conditions: ConditionsRange::default(),
        finalists: Vec::new(),
    };
    let algorithm = Some([("id".to_owned(), 66), ("tile".to_owned(), 12)].into_iter().collect());
    let name = "cuBLASLt".to_owned();
    let library = BaselineTime { name, algorithm, measurement: measurement(150.0) };
    Retimed {
        winner: Err("it is not legal any more".to_owned()),
        runner_up: Some(Ok(winner.clone())),
        margin: None,
        libraries: vec![(library, None)],
        rounds: 40,
        decided: Some((winner, certainty)),
    }
}

fn origin() -> ResultOrigin {
    ResultOrigin {
        device: device(),
        template_hash: "0123456789abcdef".to_owned(),
        nvrtc: "13.1".to_owned(),
        time: "2026-02-01T00:00:00Z".parse().unwrap(),
        seed: 7,
    }
}

#[test]
fn the_kernel_that_won_replaces_the_record_though_it_is_slower() {
    let (_folder, path) = file_with("# kept\nschema = 2\n");
    let mut stored = record(problem(8, 8, 8), 100.0);
    stored.landmarks_us.insert("simt-1".to_owned(), 130.0);
    record_winner(&path, &stored, ReplacePolicy::Always).unwrap();
    record_winner(&path, &record(problem(9, 9, 9), 50.0), ReplacePolicy::Always).unwrap();

    let updated = update_record(&stored, &retimed(), &origin(), &path).unwrap().unwrap();
    let records = load(&path);
    assert!(read(&path).starts_with("# kept\n"));
    assert_eq!(records.len(), 2);
    let now = records.iter().find(|record| record.problem.m == 8).unwrap();
    assert_eq!(now, &updated);
    let baseline = now.baseline.as_ref().unwrap();
    assert_eq!(baseline.algorithm.get("id"), Some(&66));
    assert!(read(&path).contains("algorithm = { id = 66, tile = 12 }"), "{}", read(&path));
    assert_eq!(now.parameters["BM"], Value::Int(64));
    assert_eq!(now.median(), Micros(120.0));
    assert_eq!(now.landmarks_us, stored.landmarks_us, "of the search, which was not repeated");
    assert_eq!(now.baseline.as_ref().unwrap().speedup, 1.25);
    assert_eq!(now.provenance.template_hash, "0123456789abcdef");
    let confidence = now.confidence.as_ref().unwrap();
    assert_eq!((confidence.rounds, confidence.tainted_rounds), (40, 1));
    assert!(!confidence.is_beaten());
}

#[test]
fn without_a_final_nothing_is_written() {
    let (_folder, path) = file_with("schema = 2\n");
    let stored = record(problem(8, 8, 8), 100.0);
    record_winner(&path, &stored, ReplacePolicy::Always).unwrap();
    let before = read(&path);
    let none = Retimed { decided: None, ..retimed() };
    assert_eq!(update_record(&stored, &none, &origin(), &path).unwrap(), None);
    assert_eq!(read(&path), before);
}
