//! `gemm-tune trace` on a Python program with a stand-in for PyTorch (`tests/artifacts/traced`), and `--trace`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::program::{Said, gemm_tune_with as run};
use crate::support::without::skip;
use crate::support::{CACHE, nvrtc_or_skip};

/// Traces the program with a word; `None` for a test that may be skipped for want of a Python.
fn trace(folder: &Path, word: &str) -> Option<Said> {
    let python = std::process::Command::new("python3").arg("--version").output();
    if let Err(error) = python {
        skip("python", &format!("no python3: {error}"));
        return None;
    }
    let tests = fs::canonicalize("tests/artifacts/traced").unwrap();
    let paths = [tests.clone(), tests.join("site")];
    let out = folder.join("trace.json");
    let program = tests.join("program.py");
    let words = ["trace", "-o", out.to_str().unwrap(), "--", "python3", "-B"];
    let arguments = [&words[..], &[program.to_str().unwrap(), word]].concat();
    Some(run(&arguments, &[("PYTHONPATH", std::env::join_paths(paths).unwrap().to_str().unwrap())]))
}

fn written(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join("trace.json")).unwrap()).unwrap()
}

/// The problems of a file, in the order of their names.
fn problems(trace: &Value) -> Vec<String> {
    let words = |one: &Value| {
        let number = |name: &str| one[name].as_u64().unwrap();
        let word = |name: &str| one[name].as_str().unwrap().to_owned();
        let extents = ["m", "n", "k"].map(number).map(|extent| extent.to_string()).join("x");
        let words = [word("dtype"), word("compute"), word("layout"), word("epilogue")].join(" ");
        assert!(one["torch_us"].as_f64().unwrap() > 0.0 && number("samples") > 0, "{one}");
        format!("{extents} x{} {words}: {}", number("batch"), number("count"))
    };
    let mut problems: Vec<String> =
        trace["problems"].as_array().unwrap().iter().map(words).collect();
    problems.sort();
    problems
}

#[test]
fn products_of_a_program_its_threads_and_its_children_are_recorded() {
    let folder = TempDir::new().unwrap();
    for (word, code, small) in [("", 0, 2), ("child", 0, 6), ("exit", 1, 2), ("interrupted", 1, 2)]
    {
        let Some(said) = trace(folder.path(), word) else { return };
        assert_eq!(said.code, Some(code), "{}", said.err);
        let trace = written(folder.path());
        let expected = [
            "64x48x32 x1 f32 f32 nt bias: 100".to_owned(),
            format!("8x24x16 x1 f32 f32 nn : {small}"),
            "8x8x16 x3 bf16 bf16 nn : 1".to_owned(),
        ];
        assert_eq!(problems(&trace), expected, "{word}");
        let empty_and_f64 = json!({ "mm of torch.float32": 1, "mm of torch.float64": 1 });
        assert_eq!((&trace["others"], &trace["torch"]), (&empty_and_f64, &json!("stand-in")));
        // What the user has Python run, and what the program prints, are as before.
        assert_eq!(said.out.contains("user kept"), code == 0, "{}", said.out);
        assert!(said.out.contains("64x48x32 f32 nt bias"), "{}", said.out);
        assert_eq!(
            said.err.contains("has what it multiplied until then"),
            code == 1,
            "{}",
            said.err
        );
        assert!(!said.err.contains("Error in sitecustomize"), "{}", said.err);
    }
}

/// Calls of 60 us of the host with kernels of 14 us are products of 14 us; the first call, in which the GPU waits, has no
/// time.
#[test]
fn times_are_those_of_the_gpu() {
    let folder = TempDir::new().unwrap();
    let Some(said) = trace(folder.path(), "gpu") else { return };
    assert_eq!(said.code, Some(0), "{}", said.err);
    let trace = written(folder.path());
    assert_eq!(trace["device"], "a GPU");
    let product = &trace["problems"][0];
    assert_eq!((&product["count"], &product["samples"]), (&json!(100), &json!(20)), "{product}");
    let time = product["torch_us"].as_f64().unwrap();
    assert!((time - 14.0).abs() < 1e-6, "{time}");
}

#[test]
fn a_program_without_pytorch_leaves_no_trace() {
    let folder = TempDir::new().unwrap();
    let Some(said) = trace(folder.path(), "nothing") else { return };
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("no product of PyTorch was seen: give a program that imports torch"));
    assert!(!folder.path().join("trace.json").exists());
}

#[test]
fn the_problems_of_a_trace_are_tuned() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let problem = |m: u64, dtype: &str, us: f64| {
        json!({ "m": m, "n": 32, "k": 16, "batch": 1, "dtype": dtype, "compute": dtype, "layout": "nt",
                "epilogue": "bias", "count": 10, "torch_us": us, "samples": 3 })
    };
    let problems = [problem(48, "bf16", 50.0), problem(64, "f32", 46.0), problem(24, "f32", 4.0)];
    let trace = json!({ "schema": 1, "program": ["serve.py"], "torch": "2.9", "device": "NVIDIA H200",
                        "seconds": 1.5, "problems": problems, "others": {} });
    fs::write(at("trace.json"), trace.to_string()).unwrap();
    let (path, database) = (at("trace.json"), at("db.toml"));
    let limits = ["--device", "cpu", "--max-configs", "2", "--cache", CACHE, "--json"];
    let said = run(&[&["--trace", &path, "--db", &database][..], &limits].concat(), &[]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(
        said.err.contains("2 of 3 problems of the trace take 95 % of its time"),
        "{}",
        said.err
    );
    let why = "its trace has times of NVIDIA H200, and the kernels were tuned on";
    assert!(said.err.contains(why), "{}", said.err);
    let text = fs::read_to_string(&database).unwrap();
    assert_eq!(text.matches("[[record]]").count(), 2, "{text}");
}
