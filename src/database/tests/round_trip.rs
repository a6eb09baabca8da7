//! Round trips through files, and the look of a file.

use std::fs;

use proptest::prelude::*;
use tempfile::tempdir;

use super::*;
use crate::database::sections::{StoredBaseline, StoredProblem};
use crate::database::{ReplacePolicy, StoreOutcome, record_winner};
use crate::model::{Compute, GemmType, ProblemPattern};

#[test]
fn a_file_of_two_records_reads_well() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("results").join("nvidia-h200.toml");
    let command = Some("gemm-tune --shape 64x64x65536".to_owned());
    let split = Found {
        launch: split_plan(),
        provenance: Provenance { command, ..provenance() },
        ..found(problem(64, 64, 65_536), 41.237)
    };
    let square = found(problem(4096, 4096, 1024), 633.304_4);
    let landmark = Landmark {
        family: square.family.clone(),
        configuration: square.configuration.clone(),
        name: "simt-f195b36d".to_owned(),
        time: Micros(640.125),
    };
    let square = Found { libraries: libraries(), landmarks: vec![landmark], ..square };
    for found in [square, split] {
        assert_eq!(
            record_winner(&path, &found.record(), ReplacePolicy::IfFaster).unwrap(),
            StoreOutcome::Added
        );
    }
    insta::assert_snapshot!(read(&path));
}

#[test]
fn a_record_gives_back_the_values_it_was_made_of() {
    let record = Found { launch: split_plan(), ..found(problem(1, 2, 3), 5.0) }.record();
    assert_eq!(record.launch_plan(), split_plan());
    assert_eq!(Problem::try_from(&record.problem), Ok(problem(1, 2, 3)));
    assert_eq!(
        record.configuration().to_string(),
        "BM=128 BN=64 DOUBLE_BUFFER=true LOADER=cp_async"
    );
    assert_eq!(record.provenance.time.to_string(), "2026-01-31T12:00:00Z");
}

#[test]
fn figures_derived_from_a_measurement_are_rates_and_shares() {
    let found = Found { libraries: libraries(), ..found(problem(4096, 4096, 1024), 633.304_4) };
    let record = found.record();
    assert_eq!(record.measurement.median_us, 633.304);
    assert_eq!(record.measurement.tflops, 54.25);
    assert_eq!(record.measurement.percent_of_peak, Some(81.09));
    let StoredBaseline { name, speedup, all, .. } = record.baseline.unwrap();
    assert_eq!((name.as_str(), speedup, all.len()), ("cuBLASLt (best of 16)", 1.044, 2));

    let types = GemmType { compute: Compute::F32Emulated, ..GemmType::of(Dtype::F32) };
    let emulated = Problem { types, ..problem(8, 8, 8) };
    assert_eq!(super::record(emulated, 1.0).measurement.percent_of_peak, None);
}

#[test]
fn a_word_of_a_later_version_is_an_error_only_where_it_is_asked_for() {
    let mut stored = StoredProblem::from(&problem(1, 1, 1));
    stored.pattern.dtype = "f8".to_owned();
    let error = Problem::try_from(&stored).unwrap_err().to_string();
    assert!(error.starts_with("`f8` is no dtype"), "{error}");
}

/// Words without characters that are not shown: a record with such a name is not used.
const WORDS: &str = r"[\PC&&[^\p{Zl}\p{Zp}]]*";

fn problems() -> impl Strategy<Value = Problem> {
    // Operands of 2^47 bytes at most: a record of larger ones is not used.
    let extent = 1..=1_u64 << 15;
    let pattern = prop::sample::select(ProblemPattern::all().collect::<Vec<_>>());
    ((extent.clone(), extent.clone(), extent.clone()), extent, pattern).prop_map(
        |((m, n, k), batch, pattern)| Problem { batch, ..pattern.problem(Shape { m, n, k }) },
    )
}

fn values() -> impl Strategy<Value = crate::model::Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        prop::num::f64::NORMAL.prop_map(Value::Float),
        WORDS.prop_map(Value::Text),
    ]
}

prop_compose! {
    fn records()(
        problem in problems(),
        text in WORDS,
        parameters in prop::collection::vec((WORDS, values()), 0..6),
        samples in prop::collection::vec(1e-3..1e9, 1..40),
        clock in prop::option::of(any::<u32>()),
        (max_error, bound) in (0.0..1.0, 0.0..1.0),
        occupancy in prop::option::of(0.0..1.0),
        (seed, second) in (any::<u64>(), 0..4_102_444_800_i64),
        (split, with_libraries) in any::<(bool, bool)>(),
        (name, landmark) in (WORDS, 1e-3..1e9),
    ) -> Record {
        Found {
            problem,
            device: Device { name: text.clone(), driver: text.clone(), ..device() },
            family: text.clone(),
            configuration: parameters.into_iter().collect(),
            launch: if split { split_plan() } else { LaunchPlan::default() },
            measurement: Measurement {
                samples: samples.into_iter().map(Micros).collect(),
                sm_clock_mhz: clock,
                ..measurement(1.0)
            },
            libraries: if with_libraries { libraries() } else { vec![] },
            landmarks: vec![Landmark {
                family: "simt".to_owned(),
                configuration: [(name.clone(), Value::Int(1))].into_iter().collect(),
                name,
                time: Micros(landmark),
            }],
            validation: Validation { reference: text.clone(), max_error, bound },
            resources: Resources { occupancy, ..Resources::default() },
            provenance: Provenance {
                time: Timestamp::from_second(second).unwrap(),
                seed,
                command: Some(text),
                ..provenance()
            },
        }
        .record()
    }
}

proptest! {
    // Every case syncs to disk at least twice.
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_record_round_trips_through_its_file(record in records()) {
        let folder = tempdir().unwrap();
        let path = folder.path().join("gpu.toml");
        record_winner(&path, &record, ReplacePolicy::IfFaster).unwrap();
        prop_assert_eq!(load(&path), vec![record]);
    }

    #[test]
    fn a_record_replaced_by_any_other_leaves_nothing_behind(
        before in records(),
        mut after in records(),
    ) {
        after.problem = before.problem.clone();
        after.device.name.clone_from(&before.device.name);
        let (folder, fresh_folder) = (tempdir().unwrap(), tempdir().unwrap());
        let (path, fresh) = (folder.path().join("gpu.toml"), fresh_folder.path().join("gpu.toml"));
        record_winner(&path, &before, ReplacePolicy::Always).unwrap();
        record_winner(&path, &after, ReplacePolicy::Always).unwrap();
        prop_assert_eq!(load(&path), vec![after.clone()]);

        // After every key has been present once, a replacement gives the same file as a new one.
        record_winner(&fresh, &after, ReplacePolicy::Always).unwrap();
        let lines = |path| {
            let mut lines: Vec<String> = fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        prop_assert_eq!(lines(&path), lines(&fresh));
    }
}

proptest! {
    #[test]
    fn any_words_survive_in_toml(name in crate::quote::tests::hostile()) {
        let mut record = found(problem(1, 2, 3), 5.0).record();
        record.device.name.clone_from(&name);
        record.family.clone_from(&name);
        record.parameters.insert(name.clone(), Value::Text(name));
        let table = crate::database::layout::table(&record).unwrap();
        let text = toml_edit::DocumentMut::from(table).to_string();
        let back: Record = toml_edit::de::from_str(&text).unwrap();
        prop_assert_eq!(back, record);
    }
}
