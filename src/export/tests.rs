//! Contents and look of the export formats.

mod hostile;

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;

use super::*;
use crate::database::{Database, Record};
use crate::lookup::Question;
use crate::model::{Configuration, Device, Dtype, Measurement, Micros, Resources, Shape, Timing};
use crate::model::{Fault, Mismatch, Outcome, Problem, Regime, Validation, Value};
use crate::render::Templates;
use crate::space::{Families, Family};
use crate::tune::{Entry, KernelId, Recorded};

/// The records of two test databases.
fn records() -> Vec<Record> {
    let load = |name: &str| {
        let path = Path::new("tests/databases").join(name);
        Database::load_existing(&path).unwrap().records().to_vec()
    };
    [load("one.toml"), load("two.toml")].concat()
}

/// An export for one device, of kernels whose templates may have changed.
fn source_of<'a>(
    families: &'a [Family],
    templates: &'a Templates,
    device: &'a Device,
) -> ExportSource<'a> {
    let (changed_templates, others, max_kernels) = (true, &[], None);
    ExportSource { families, templates, changed_templates, device, others, max_kernels }
}

#[test]
fn a_non_deterministic_kernel_is_exported_for_its_own_problem_only_with_a_remark() {
    let shipped = Database::load_existing(Path::new("results/nvidia-h200.toml")).unwrap();
    let splits = |record: &&Record| {
        let has = |name: &str, value: &str| {
            record.parameters.get(name).is_some_and(|own| own.to_string() == value)
        };
        record.family == "pipelined" && !has("SPLIT_K", "1") && !has("REDUCTION", "cluster")
    };
    let record = shipped.records().iter().find(splits).unwrap();
    let mut adding = record.clone();
    adding.parameters.insert("REDUCTION".to_owned(), Value::Text("atomic".to_owned()));
    let families: Vec<Family> = Families::built_in().unwrap().iter().cloned().collect();
    let (templates, device) = (Templates::built_in().unwrap(), Device::h200());
    let source = source_of(&families, &templates, &device);
    let image: Arc<[u8]> = vec![0; 16].into();
    let artifact = |record: &Record| {
        let draft = KernelDraft::of_record(record, source).unwrap();
        let cubins = [("sm_90".to_owned(), Arc::clone(&image))].into_iter().collect();
        let kernels = vec![ExportedKernel { draft, ptx: Arc::clone(&image), cubins }];
        Artifact { device: device.clone(), kernels, tree: None, libraries: None }
    };
    for (record, deterministic) in [(record, true), (&adding, false)] {
        let artifact = artifact(record);
        let draft = &artifact.kernels[0].draft;
        let own = Question::packed(draft.problem);
        assert!(draft.serves(&own));
        let m = draft.problem.shape.m;
        let shape = Shape { m: m - m % 2 + 2, ..draft.problem.shape };
        let beside = Question::packed(Problem { shape, ..draft.problem });
        assert_eq!(draft.serves(&beside), deterministic, "{}", draft.problem);

        let files = bundle(&artifact);
        let manifest: serde_json::Value = serde_json::from_slice(&files[MANIFEST]).unwrap();
        let said = manifest["kernels"][0].get("deterministic");
        assert_eq!(said, (!deterministic).then_some(&serde_json::Value::Bool(false)));
        let (c, _) = c(&artifact, &["sm_90".parse().unwrap()]);
        let (rust, _) = rust(&artifact, "sm_90");
        let rust = String::from_utf8(rust["gemm_tuned.rs"].clone()).unwrap();
        for text in [&c["gemm_tuned.c"], &rust] {
            assert_eq!(text.contains("not deterministic, two runs"), !deterministic);
        }
    }
}

#[test]
fn kernels_serve_together_what_each_serves_alone() {
    let shipped = Database::load_existing(Path::new("results/nvidia-h200.toml")).unwrap();
    let families: Vec<Family> = Families::built_in().unwrap().iter().cloned().collect();
    let (templates, device) = (Templates::built_in().unwrap(), Device::h200());
    let source = source_of(&families, &templates, &device);
    let drafts: Vec<KernelDraft> = shipped
        .records()
        .iter()
        .step_by(9)
        .filter_map(|record| KernelDraft::of_record(record, source).ok())
        .collect();
    let drafts: Vec<&KernelDraft> = drafts.iter().collect();
    let questions: Vec<Question> =
        drafts.iter().flat_map(|draft| classes(&draft.problem)).collect();
    let all = served::served(&drafts, &questions);
    assert!(all.iter().any(|places| !places.is_empty()));
    for (draft, places) in drafts.iter().zip(all) {
        let serves = |at: &usize| draft.serves(&questions[*at]);
        let alone: Vec<usize> = (0..questions.len()).filter(serves).collect();
        assert_eq!(places, alone, "{}", draft.name());
    }
}

#[test]
fn names_are_unique_at_every_clash_and_files_by_content() {
    let shipped = Database::load_existing(Path::new("results/nvidia-h200.toml")).unwrap();
    let families: Vec<Family> = Families::built_in().unwrap().iter().cloned().collect();
    let (templates, device) = (Templates::built_in().unwrap(), Device::h200());
    let source = source_of(&families, &templates, &device);
    let draft = KernelDraft::of_record(&shipped.records()[0], source).unwrap();
    let kernels = (0..5_u8).map(|number| {
        let draft = KernelDraft { source: format!("// {number}").into(), ..draft.clone() };
        let image: Arc<[u8]> = vec![number; 16].into();
        let cubins = [("sm_90".to_owned(), Arc::clone(&image))].into_iter().collect();
        ExportedKernel { draft, ptx: image, cubins }
    });
    let mut kernels: Vec<ExportedKernel> = kernels.collect();
    // The same source with other machine code, as of another compiler.
    kernels.push(ExportedKernel { ptx: vec![9; 16].into(), ..kernels[0].clone() });
    let files = bundle(&Artifact { device: device.clone(), kernels, tree: None, libraries: None });
    let (manifest, _) = open_bundle(|name| Ok(files[name].clone())).unwrap();
    let name = draft.name();
    let names: Vec<&str> = manifest.kernels.iter().map(|kernel| &*kernel.name).collect();
    let numbered = (2..7).map(|number| format!("{name}_{number}"));
    assert_eq!(names, std::iter::once(name.clone()).chain(numbered).collect::<Vec<_>>());
    let own = |place: usize| &files[&manifest.kernels[place].files.ptx.file];
    assert_eq!((own(0)[0], own(5)[0]), (0, 9), "one file is not written over the other");
    assert_eq!(manifest.kernels[0].files.source, manifest.kernels[5].files.source);
}

fn time() -> Timestamp {
    "2026-01-31T12:00:00Z".parse().unwrap()
}

fn entry(number: i64, family: &str, outcome: Outcome) -> Entry {
    let values = [("TILE", Value::Int(number)), ("PAD", Value::Bool(number % 2 == 1))];
    let parameters: Configuration =
        values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let kernel = KernelId::of_source(&number.to_string());
    Entry { kernel, family: family.to_owned(), parameters, after_s: None, outcome }
}

fn correct(us: f64) -> Outcome {
    Outcome::Correct {
        validation: Validation { reference: "f64".to_owned(), max_error: 1e-7, bound: 1e-5 },
        measurement: Measurement {
            samples: vec![Micros(us), Micros(us + 0.5), Micros(us + 1.0)],
            launches_per_sample: 10,
            regime: Regime::default(),
            timing: Timing::Measured,
            sm_clock_mhz: None,
        },
        resources: Resources { registers: 40, ..Resources::default() },
    }
}

/// A journal of two families, with every kind of outcome.
fn journal() -> Recorded {
    let mismatch = Mismatch {
        check: "small integers".to_owned(),
        at: None,
        got: 1.0,
        expected: 2.0,
        error: f64::INFINITY,
        bound: 0.0,
        wrong: 1,
    };
    let fault = Fault { during: "timing".to_owned(), message: "an \"illegal\" address".to_owned() };
    let entries = vec![
        entry(16, "tiled", correct(100.0)),
        entry(8, "tiled", Outcome::Correctness(mismatch)),
        entry(3, "tiled", Outcome::Runtime(fault)),
        entry(4, "tiled", Outcome::Timeout { seconds: 5.0 }),
        entry(5, "tiled", Outcome::Compile { log: "no".to_owned() }),
        entry(1, "naive", correct(500.0)),
    ];
    let problem = Problem::new("64x65x66".parse().unwrap(), Dtype::F32);
    let device = "NVIDIA H200".to_owned();
    Recorded { problem, device, regime: Regime::default(), entries, skipped: Vec::new() }
}

#[test]
fn records_are_whole_in_json_and_a_line_each_in_csv() {
    let records = records();
    let all: Vec<&Record> = records.iter().collect();
    let document = json(&all);
    assert_eq!(document["schema"], 2);
    assert_eq!(document["records"].as_array().unwrap().len(), 5);
    let back: Record = serde_json::from_value(document["records"][1].clone()).unwrap();
    assert_eq!(back, records[1], "nothing is lost");
    insta::assert_snapshot!(csv(&all).unwrap());
}

#[test]
fn a_wisdom_file_has_a_header_and_a_line_for_each_problem() {
    let records = records();
    let all: Vec<&Record> = records.iter().collect();
    let (files, left_out) = wisdom(&all);
    assert_eq!(left_out, []);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(names, ["gemm_f32_nn_blocktile.wisdom", "gemm_f32_nn_tiled.wisdom"]);
    insta::assert_snapshot!(files["gemm_f32_nn_tiled.wisdom"]);
    for text in files.values() {
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let parameters = lines[0]["tunable_parameters"].as_array().unwrap().len();
        for line in &lines[1..] {
            assert_eq!(line["config"].as_array().unwrap().len(), parameters);
        }
    }
}

#[test]
fn evaluated_configurations_keep_their_outcomes() {
    let journal = journal();
    let space = EvaluatedSpace::of(&journal, Some("tiled"), time()).unwrap();
    insta::assert_snapshot!(kernel_tuner(&space));
    let document = t4(&space);
    let results = document["results"].as_array().unwrap();
    let found: Vec<&str> =
        results.iter().map(|result| result["invalidity"].as_str().unwrap()).collect();
    assert_eq!(found, ["correct", "correctness", "runtime", "timeout", "compile"]);
    insta::assert_snapshot!(format!("{:#}\n{:#}", results[0], results[1]));
}

#[test]
fn a_journal_of_several_families_needs_a_selection() {
    let mut journal = journal();
    let several = EvaluatedSpace::of(&journal, None, time()).unwrap_err().to_string();
    assert!(several.contains("`naive` (1), `tiled` (5): select one with `--family"), "{several}");
    let missing = EvaluatedSpace::of(&journal, Some("x"), time()).unwrap_err().to_string();
    assert!(
        missing.contains("no outcome of `x`; it has outcomes of `naive` (1), `tiled` (5)"),
        "{missing}"
    );
    journal.entries.truncate(1);
    assert_eq!(EvaluatedSpace::of(&journal, None, time()).unwrap().len(), 1);
    journal.entries.clear();
    assert_eq!(EvaluatedSpace::of(&journal, None, time()).unwrap_err(), SpaceExportError::Empty);
}
