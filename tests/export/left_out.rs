//! What exports leave out, with the reason: modelled records, and kernels that cannot be exported.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::program::{Said, gemm_tune};
use crate::support::{CACHE, nvrtc_or_skip};

/// A problem whose winner needs more shared memory than an SM of `sm_89` has, and one whose winner runs there.
const DEMANDING: &str = "8192x8192x8192";
const PORTABLE: &str = "2048x2048x2048";

/// A database as the cpu device records it.
fn modelled(folder: &Path) -> PathBuf {
    let path = folder.join("cpu.toml");
    let text = fs::read_to_string("tests/databases/one.toml").unwrap();
    let name = text.lines().find(|line| line.starts_with("name = \"NVIDIA")).unwrap();
    let text = text.replace(name, "name = \"cpu\"").replace("\"measured\"", "\"modelled\"");
    fs::write(&path, text).unwrap();
    path
}

fn export(format: &str, out: &Path, more: &[&str]) -> Said {
    let arguments = ["export", "--format", format, "-o", out.to_str().unwrap(), "--cache", CACHE];
    gemm_tune(&[&arguments, more].concat())
}

#[test]
fn modelled_records_are_left_out_unless_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let cpu = modelled(folder.path());
    let cpu = ["--db", cpu.to_str().unwrap()];
    let both = [&cpu[..], &["--db", "tests/databases/two.toml"]].concat();
    let count = |path: &str| fs::read_to_string(path).unwrap().matches("[[record]]").count();
    let (own, others) = (count(cpu[1]), count("tests/databases/two.toml"));
    let reason = format!("{own} left out:\n  {own}: modelled by the cpu device: `--modelled`");
    for format in ["csv", "json", "wisdom", "bundle", "c", "python", "rust"] {
        let out = folder.path().join(format);
        let said = export(format, &out, &cpu);
        assert_eq!(said.code, Some(1), "{format}: {}", said.out);
        let words = format!("nothing is left to export; {reason}");
        assert!(said.err.contains(&words), "{format}: {}", said.err);
        assert!(!out.exists(), "{format}");
    }
    for format in ["csv", "json", "wisdom"] {
        let out = folder.path().join(format);
        let said = export(format, &out, &both);
        assert_eq!(said.code, Some(0), "{format}: {}", said.err);
        let words = format!("{others} records written to {}\n{reason}", out.display());
        assert!(said.out.starts_with(&words), "{format}: {}", said.out);
        let said = export(format, &out, &[&both[..], &["--modelled"]].concat());
        let words = format!("{} records written to {}\n", own + others, out.display());
        assert_eq!(said.out, words, "{format}: {}", said.err);
    }
}

#[test]
fn a_modelled_journal_is_exported_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let text = fs::read_to_string("tests/hostile/naive.jsonl").unwrap();
    fs::write(&journal, text.replace("\"measured\"", "\"modelled\"")).unwrap();
    let journal = ["--journal", journal.to_str().unwrap()];
    for format in ["t4", "kernel-tuner"] {
        let out = folder.path().join(format);
        let said = export(format, &out, &journal);
        assert_eq!(said.code, Some(1), "{format}");
        let words = ["all 2 configurations of ", "the cpu device modelled", "`--modelled`"];
        assert!(words.iter().all(|word| said.err.contains(word)), "{format}: {}", said.err);
        assert!(!out.exists(), "{format}");
        let said = export(format, &out, &[&journal[..], &["--modelled"]].concat());
        assert_eq!(said.code, Some(0), "{format}: {}", said.err);
    }
}

#[test]
fn what_an_architecture_cannot_run_is_left_out_with_the_reason() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let database = ["--db", "results/nvidia-h200.toml", "--dtype", "f32", "--layout", "nn"];
    let demanding = [&database[..], &["--shape", DEMANDING, "--only-tuned"]].concat();
    let both = [&demanding[..], &["--shape", PORTABLE, "--arch", "sm_89"]].concat();
    // The first constraint that it breaks there.
    let why = "MIN_BLOCKS blocks share the shared memory of an SM (sm_89)";
    for format in ["bundle", "c", "python", "rust"] {
        let out = folder.path().join(format);
        let said = export(format, &out, &[&both[..], &["--json"]].concat());
        assert_eq!(said.code, Some(0), "{format}: {}", said.err);
        let document: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(document["left_out"], json!([{ "count": 1, "why": why }]), "{format}");
        assert!(fs::read_dir(&out).unwrap().count() > 0, "{format}");

        let out = folder.path().join(format!("no-{format}"));
        let all = [&demanding[..], &["--arch", "sm_75", "--arch", "sm_90"]].concat();
        let said = export(format, &out, &all);
        assert_eq!(said.code, Some(1), "{format}: {}", said.out);
        assert!(said.err.contains("nothing is left to export; "), "{format}: {}", said.err);
        let needs = "1: needs compute capability 8.0 (sm_75)";
        assert!(said.err.contains(needs), "{format}: {}", said.err);
        assert!(!out.exists(), "{format}");
        let said = export(format, &out, &[&demanding[..], &["--arch", "sm_90"]].concat());
        assert_eq!(said.code, Some(0), "{format}: {}", said.err);
        assert!(!said.out.contains("left out"), "{format}: {}", said.out);
    }
}

#[test]
fn a_kernel_that_does_not_compile_is_left_out_alone() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let templates = folder.path().join("templates");
    fs::create_dir(&templates).unwrap();
    // Of two winners, one is broken.
    let text = fs::read_to_string("templates/pipelined.cu.tera").unwrap();
    let broken = text + "{% if BN == 256 %}\nint broken = ;\n{% endif %}\n";
    fs::write(templates.join("pipelined.cu.tera"), broken).unwrap();
    let out = folder.path().join("out");
    let more = [
        "--db",
        "results/nvidia-h200.toml",
        "--dtype",
        "f32",
        "--layout",
        "nn",
        "--shape",
        DEMANDING,
        "--shape",
        PORTABLE,
        "--templates",
        templates.to_str().unwrap(),
        "--changed-templates",
        "--only-tuned",
        "--json",
    ];
    let said = export("bundle", &out, &more);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let document: Value = serde_json::from_str(&said.out).unwrap();
    let why = document["left_out"][0]["why"].as_str().unwrap();
    assert!(why.starts_with("does not compile for sm_90: ") && why.contains("error"), "{why}");
    assert_ne!(document["exported"], json!("0 winners and 0 other kernels"));
}
