//! The database that the program has inside, and the files that come before it.

use std::fs;
use std::path::Path;
use std::process::Command;

use gemm_tune::database::{Database, Record};
use gemm_tune::lookup::{AnswerSource, Lookup, Question};
use gemm_tune::model::{Device, Dtype, Problem, Regime, Shape};
use gemm_tune::predict::{DrawLimits, LearnedModel, Predictor, draw};
use gemm_tune::render::Templates;
use gemm_tune::space::{Families, Family};
use serde_json::Value;

use crate::support::cache;
use crate::support::program::{Said, path};

const SHIPPED: &str = "results/nvidia-h200.toml";
const SOURCE: &str = "source: built-in database\n";

/// Runs the program in a folder, where no GPU is found.
fn said(folder: &Path, arguments: &str) -> Said {
    let mut command = Command::new(std::path::absolute(path()).unwrap());
    command.args(arguments.split(' ')).current_dir(folder);
    command.env("NO_COLOR", "1").env("CUDA_VISIBLE_DEVICES", "").env("GEMM_TUNE_CACHE", cache());
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Runs it and expects success; says whether the answer is of the built-in database.
fn is_built_in(folder: &Path, arguments: &str) -> bool {
    let said = said(folder, arguments);
    assert_eq!(said.code, Some(0), "{arguments}: {}", said.err);
    said.err.contains(SOURCE)
}

/// The file as far as its first record, of 1x4096x4096, and with another time of it.
fn first_record() -> String {
    let text = fs::read_to_string(SHIPPED).unwrap();
    let second = text.match_indices("[[record]]").nth(1).unwrap().0;
    let mut record: toml::Value = toml::from_str(&text[..second]).unwrap();
    let median = &mut record["record"][0]["measurement"]["median_us"];
    *median = toml::Value::Float(17.991);
    toml::to_string(&record).unwrap()
}

#[test]
fn each_known_device_has_its_committed_database() {
    for device in Device::known() {
        let built_in = Database::built_in(&device).unwrap();
        let committed = Path::new("results").join(device.slug() + ".toml");
        assert_eq!(built_in, Database::load_existing(&committed).unwrap());
        assert!(built_in.records().len() > 100 && built_in.faults().is_empty());
        assert!(built_in.records().iter().all(|record| record.is_of(&device)), "{device:?}");
        assert!(Database::is_built_in_for(&device));
        let recorded = Device::try_from(&built_in.records()[0].device).unwrap();
        let properties = |own: &Device| (own.sms, own.l2_bytes, own.max_sm_clock_mhz);
        assert_eq!(properties(&recorded), properties(&device), "{}", device.name);
        // Drivers keep different shares of the memory.
        let memory = recorded.memory_bytes as f64 / device.memory_bytes as f64;
        assert!((memory - 1.0).abs() < 0.01, "{}: {memory}", device.name);
    }
    let other = Device { name: "NVIDIA B200".to_owned(), ..Device::h200() };
    assert!(!Database::is_built_in_for(&other));
    assert_eq!(Database::built_in(&other).unwrap(), Database::built_in(&Device::h200()).unwrap());
}

#[test]
fn a_device_name_chooses_the_built_in_database() {
    let folder = tempfile::tempdir().unwrap();
    let first = |device: &Device| {
        let built_in = Database::built_in(device).unwrap();
        let plain =
            |record: &&Record| record.problem.batch == 1 && record.problem.pattern.layout == "nn";
        built_in.records().iter().find(plain).unwrap().clone()
    };
    for (device, name) in Device::known().iter().zip(["h200", "h100"]) {
        let record = first(device);
        let shape = format!("{}x{}x{}", record.problem.m, record.problem.n, record.problem.k);
        for command in ["lookup", "inspect --emit ptx", "explain", "db list --shape"] {
            let arguments = format!("{command} {shape} --device-name {name} --json");
            let said = said(folder.path(), &arguments);
            assert_eq!(said.code, Some(0), "{arguments}: {}", said.err);
            assert!(said.err.contains(SOURCE), "{arguments}: {}", said.err);
        }
        let said = said(folder.path(), &format!("lookup {shape} --device-name {name} --json"));
        let document: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(document["source"], "exact", "{document}");
        let median = document["predicted_us"].as_f64().unwrap();
        assert!((median - record.median().0).abs() < 1e-3, "{document}");
    }
}

#[test]
fn where_there_is_no_database_it_answers_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        "lookup 512x512x512",
        "inspect 512x512x512",
        "db list",
        "db show 512x512x512",
        "export --format csv -o out.csv",
    ] {
        assert!(is_built_in(folder.path(), arguments), "{arguments}");
    }
    let count = Database::built_in(&Device::h200()).unwrap().records().len();
    let text = fs::read_to_string(folder.path().join("out.csv")).unwrap();
    assert_eq!(text.lines().count(), count + 1);
    let document: Value =
        serde_json::from_str(&said(folder.path(), "lookup 512x512x512 --json").out).unwrap();
    assert_eq!(document["database"], "built-in database");
    assert_eq!(document["source"], "exact");
    let shown = said(folder.path(), "db show 512x512x512").out;
    assert!(shown.contains(" in built-in database"), "{shown}");
    assert!(!folder.path().join("results").exists());
}

#[test]
fn files_come_first_and_a_named_one_stands_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("results")).unwrap();
    for name in ["results/nvidia-h200.toml", "named.toml"] {
        fs::write(folder.path().join(name), first_record()).unwrap();
    }
    let folder = folder.path();
    // A record of a file, though it is slower.
    let said_of = |arguments: &str| said(folder, arguments);
    let own = said_of("lookup 1x4096x4096 --json");
    let document: Value = serde_json::from_str(&own.out).unwrap();
    assert_eq!(document["predicted_us"], 17.991, "{document}");
    assert_eq!(document["database"], Value::Null);
    for (arguments, expected) in [
        ("lookup 1x4096x4096", false),
        ("inspect 1x4096x4096", false),
        ("db show 1x4096x4096", false),
        // Problems that the files have no record of.
        ("lookup 512x512x512", true),
        ("inspect 512x512x512", true),
        ("db show 512x512x512", true),
        // Whole databases.
        ("db list", false),
        ("export --format csv -o out.csv", false),
        ("lookup 512x512x512 --db named.toml", false),
        ("lookup 1x4096x4096 --pin named.toml", false),
        ("db list --db named.toml", false),
    ] {
        assert_eq!(is_built_in(folder, arguments), expected, "{arguments}");
    }
    assert_eq!(fs::read_to_string(folder.join("out.csv")).unwrap().lines().count(), 2);
    assert_eq!(said_of("db show 512x512x512 --db named.toml").code, Some(1));
    // Shapes that nobody tuned are answered from the records of others.
    let unknown = said_of("inspect 513x515x517 --json");
    assert_eq!(unknown.code, Some(0), "{}", unknown.err);
    let document: Value = serde_json::from_str(&unknown.out).unwrap();
    let source = document["source"].as_str();
    assert!(matches!(source, Some("learned" | "neighbour")), "{document}");
}

#[test]
fn a_gpu_without_a_model_is_answered_by_that_of_another_and_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let of_another = |capability: &str| {
        let text = first_record().replace("name = \"NVIDIA H200\"", "name = \"NVIDIA GH200\"");
        text.replace(
            "compute_capability = \"9.0\"",
            &format!("compute_capability = \"{capability}\""),
        )
    };
    for (capability, source) in [("9.0", "learned"), ("8.9", "default")] {
        fs::write(folder.path().join("other.toml"), of_another(capability)).unwrap();
        let said = said(folder.path(), "lookup 960x1100x2048 --db other.toml --json");
        assert_eq!(said.code, Some(0), "{}", said.err);
        let document: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(document["source"], source, "{document}");
        let note = "no learned model of NVIDIA GH200: times are predicted by that of another GPU";
        assert_eq!(said.err.contains(note), source == "learned", "{}", said.err);
    }
}

#[test]
fn an_artifact_chooses_by_the_model_beside_its_database() {
    let folder = tempfile::tempdir().unwrap();
    let renamed = |text: String| text.replace("NVIDIA H200\"", "NVIDIA GH200\"");
    fs::write(folder.path().join("other.toml"), renamed(first_record())).unwrap();
    let model = renamed(fs::read_to_string("results/nvidia-h200.model.json").unwrap());
    let export =
        "export --format c --only-tuned --with-library --db other.toml --changed-templates -o";
    let exported = |out: &str| {
        let said = said(folder.path(), &format!("{export} {out}"));
        assert_eq!(said.code, Some(0), "{}", said.err);
        let source = fs::read_to_string(folder.path().join(out).join("gemm_tuned.c")).unwrap();
        (said.err.contains("no learned model of NVIDIA GH200"), source)
    };
    let (is_noted, without) = exported("without");
    assert!(is_noted);
    fs::write(folder.path().join("other.model.json"), model).unwrap();
    let (is_noted, with) = exported("with");
    assert!(!is_noted && with != without);
}

/// No time is known of other kernels, and predictions for them are guesses.
#[test]
fn models_answer_with_kernels_that_a_search_would_try() {
    let families: Vec<Family> = Families::built_in().unwrap().iter().cloned().collect();
    let templates = Templates::built_in().unwrap();
    let mut random = fastrand::Rng::with_seed(0);
    for device in Device::known() {
        let (predictor, _) =
            Predictor::new(LearnedModel::built_in(&device).unwrap(), &families, &templates);
        let lookup = Lookup::new([], &families, &templates, &device, Regime::default())
            .with_predictor(predictor);
        for dtype in [Dtype::F32, Dtype::Bf16] {
            let types = Problem::new(Shape { m: 1, n: 1, k: 1 }, dtype).types;
            let (mut learned, mut defaults) = (0, 0);
            for _ in 0..150 {
                let Some(problem) = draw(&mut random, types, &DrawLimits::default()) else {
                    continue;
                };
                let question = Question::packed(problem);
                let answer = lookup.answer(&question).unwrap();
                if answer.source != AnswerSource::Learned {
                    defaults += 1;
                    continue;
                }
                learned += 1;
                let broken = answer.family.violated(answer.configuration, &problem, &device);
                assert!(broken.unwrap().is_none(), "{problem}: {}", answer.configuration);
            }
            assert!(learned > 4 * defaults, "{}, {dtype}: {learned}, {defaults}", device.name);
        }
    }
}

/// Who tries the program without a GPU first has a modelled record in `results/`.
#[test]
fn a_modelled_record_hides_no_measured_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("results")).unwrap();
    let modelled = first_record().replace("name = \"NVIDIA H200\"", "name = \"cpu\"");
    fs::write(folder.join("results/cpu.toml"), modelled).unwrap();
    for (arguments, expected) in [
        ("lookup 1x4096x4096", true),
        ("lookup 1x4096x4096 --device-name h200", true),
        ("inspect 1x4096x4096", true),
        ("explain 1x4096x4096", true),
        ("export --format csv -o measured.csv", true),
        ("export --format json --shape 512x512x512 -o one.json", true),
        ("report --shape 512x512x512 -o built-in.html", true),
        ("lookup 1x4096x4096 --device cpu", false),
        ("inspect 1x4096x4096 --device cpu", false),
        ("export --format csv --modelled -o modelled.csv", false),
        ("report --shape 1x4096x4096 -o own.html", false),
        ("db list", false),
    ] {
        assert_eq!(is_built_in(folder, arguments), expected, "{arguments}");
    }
    let rows = |name: &str| fs::read_to_string(folder.join(name)).unwrap().lines().count() - 1;
    assert_eq!(rows("measured.csv"), Database::built_in(&Device::h200()).unwrap().records().len());
    assert_eq!(rows("modelled.csv"), 1);
    let answer = said(folder, "lookup 1x4096x4096 --json");
    let document: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(document["source"], "exact", "{document}");
    assert!(answer.err.contains("answering for NVIDIA H200"), "{}", answer.err);
    let none = said(folder, "export --format csv --shape 7x7x7 -o none.csv");
    let places = "no such record in results/cpu.toml, built-in database;";
    assert!(none.code == Some(1) && none.err.contains(places), "{}", none.err);
}
