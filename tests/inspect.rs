//! What `inspect` shows of one configuration of every family, with no list to maintain: a new family
//! is shown by being there. Needs no GPU.
//!
//! What a compiler decides is kept as snapshots for each version of NVRTC that they were taken with;
//! with another one only their form is looked at. `INSTA_UPDATE=always cargo test --test inspect`
//! takes them anew.

#![expect(clippy::unwrap_used, reason = "a test says what it sees and may fail")]

#[path = "support/program.rs"]
mod program;
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use gemm_tune::compile::Target;
use gemm_tune::cpu::Program;
use gemm_tune::model::{Device, Dtype, Problem};
use gemm_tune::render::{Templates, render};
use gemm_tune::space::Families;
use program::{gemm_tune, gemm_tune_with};

/// Large enough for a whole tile of every default, small enough to be executed whole.
const SHAPE: &str = "128x128x64";

/// Runs `gemm-tune inspect` as if there were no GPU, and gives what it prints.
fn inspect(arguments: &[&str]) -> Result<String, String> {
    let cache = std::path::absolute(Path::new("target/test-cache")).unwrap();
    let variables = [("GEMM_TUNE_CACHE", cache.to_str().unwrap()), ("CUDA_VISIBLE_DEVICES", "")];
    let said = gemm_tune_with(&[&["inspect"], arguments].concat(), &variables);
    if said.code == Some(0) { Ok(said.out) } else { Err(said.err) }
}

fn shown(family: &str, emit: &str) -> String {
    let arguments = ["--family", family, "--shape", SHAPE, "--emit", emit];
    inspect(&arguments).unwrap_or_else(|error| panic!("{family}, {emit}: {error}"))
}

fn names() -> Vec<String> {
    let device = Device::h200();
    let problem = Problem::new(SHAPE.parse().unwrap(), Dtype::F32);
    let families = Families::built_in().unwrap();
    let serves = families.iter().filter(|family| family.refusal(&problem, &device).is_none());
    serves.map(|family| family.name.clone()).collect()
}

/// The version of the NVRTC of this host, such as `13.0`; `None` after saying that there is none.
fn nvrtc_or_skip() -> Option<String> {
    match support::nvrtc("sm_90".parse().unwrap()) {
        Ok(nvrtc) => Some(format!("{}.{}", nvrtc.version().0, nvrtc.version().1)),
        Err(reason) => {
            say(&format!("skipped: no NVRTC: {reason}"));
            None
        }
    }
}

/// Writes past the test harness, which hides what a passing test prints.
fn say(notice: &str) {
    let _ = writeln!(std::io::stderr(), "{notice}");
}

/// Compares with what was seen with the same NVRTC, or says that there is nothing to compare with.
fn compare(name: &str, nvrtc: &str, text: &str) {
    let name = format!("{name}@nvrtc-{nvrtc}");
    let known = Path::new("tests/snapshots").join(format!("inspect__{name}.snap")).exists();
    if known || std::env::var_os("INSTA_UPDATE").is_some() {
        insta::with_settings!({ omit_expression => true }, {
            insta::assert_snapshot!(name, text);
        });
    } else {
        say(&format!("not compared: {name} was never seen"));
    }
}

/// How often each instruction stands in a text, by the beginning of its line.
fn instructions(text: &str, opcode: impl Fn(&str) -> Option<&str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for opcode in text.lines().filter_map(opcode) {
        *counts.entry(opcode).or_default() += 1;
    }
    counts.iter().map(|(opcode, count)| format!("{count:>5} {opcode}\n")).collect()
}

/// The opcode of a line of PTX, guards left out.
fn of_ptx(line: &str) -> Option<&str> {
    let line = line.strip_prefix('\t')?.trim();
    let words: Vec<&str> = line.split_whitespace().filter(|word| !word.starts_with('@')).collect();
    let opcode = words.first()?.trim_end_matches(';');
    (line.ends_with(';') && !opcode.starts_with(['.', '{', '}', '/'])).then_some(opcode)
}

/// The same of machine code, without modifiers: `/*0010*/  @P0 FFMA.FTZ R1, ...  ;`.
fn of_sass(line: &str) -> Option<&str> {
    let (_, code) = line.trim().strip_prefix("/*")?.split_once("*/")?;
    let opcode = code.split_whitespace().find(|word| !word.starts_with('@'))?;
    code.contains(';').then(|| opcode.split(['.', ';']).next().unwrap_or(opcode))
}

#[test]
fn the_source_of_every_family_is_what_is_compiled_and_compiles_as_it_is() {
    let architecture = "sm_90".parse().unwrap();
    let nvrtc = support::nvrtc(architecture);
    if let Err(reason) = &nvrtc {
        say(&format!("not compiled: no NVRTC: {reason}"));
    }
    let (families, templates) = (Families::built_in().unwrap(), Templates::built_in().unwrap());
    let (problem, device) = (Problem::new(SHAPE.parse().unwrap(), Dtype::F32), Device::h200());
    for name in names() {
        let source = shown(&name, "cuda");
        let family = families.get(&name).unwrap();
        let default = family.default_for(&problem, &device).unwrap().unwrap();
        let rendered = render(family, &templates, &default, &problem, &device).unwrap();
        assert_eq!(source, rendered.source, "{name}");
        if let Ok(nvrtc) = &nvrtc {
            let compiled = nvrtc.compile(&source, "kernel.cu", Target::Cubin(architecture), &[]);
            compiled.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}

#[test]
fn ptx_is_a_program_with_known_instructions() {
    let Some(nvrtc) = nvrtc_or_skip() else { return };
    for name in names() {
        let ptx = shown(&name, "ptx");
        Program::parse(&ptx).unwrap_or_else(|error| panic!("{name}: {error}"));
        compare(&format!("{name}-ptx"), &nvrtc, &instructions(&ptx, of_ptx));
    }
}

#[test]
fn sass_is_machine_code_with_known_instructions() {
    let Some(nvrtc) = nvrtc_or_skip() else { return };
    for name in names() {
        let arguments = ["--family", &name, "--shape", SHAPE, "--emit", "sass"];
        let sass = match inspect(&arguments) {
            Ok(sass) => sass,
            Err(error) if error.contains("nvdisasm was not installed") => {
                say(&format!("skipped: {error}"));
                return;
            }
            Err(error) => panic!("{name}: {error}"),
        };
        let instructions = instructions(&sass, of_sass);
        for opcode in [" FFMA\n", " LDG\n", " STG\n", " EXIT\n"] {
            assert!(instructions.contains(opcode), "{name}: {instructions}");
        }
        compare(&format!("{name}-sass"), &nvrtc, &instructions);
    }
}

#[test]
fn resources_and_memory_are_tables() {
    let Some(nvrtc) = nvrtc_or_skip() else { return };
    for name in names() {
        for (emit, words) in [
            ("resources", ["registers", "occupancy", "waves", "arithmetic floor"]),
            ("memory", ["requests", "sectors", "wavefronts", "global store"]),
        ] {
            let text = shown(&name, emit);
            for word in words {
                assert!(text.contains(word), "{name}, {emit}: {text}");
            }
            compare(&format!("{name}-{emit}"), &nvrtc, &text);
        }
    }
}

#[test]
fn two_kernels_are_compared() {
    let Some(nvrtc) = nvrtc_or_skip() else { return };
    for (name, x, y) in
        [("padding", "tiled:TILE=32,PAD=0", "tiled:TILE=32,PAD=1"), ("families", "naive", "tiled")]
    {
        let text = inspect(&["--shape", SHAPE, "--layout", "tn", "--diff", x, y]).unwrap();
        compare(&format!("difference-of-{name}"), &nvrtc, &text);
    }
    let same = inspect(&["--diff", "tiled", "tiled", "--shape", SHAPE]).unwrap();
    assert!(same.contains("the sources are the same"), "{same}");
    assert!(!same.contains('*'), "{same}");
}

#[test]
fn a_recorded_winner_is_found_and_documents_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("winners.toml");
    fs::copy("results/nvidia-h200.toml", &database).unwrap();
    let database = database.to_str().unwrap();
    let document = |arguments: &[&str]| -> serde_json::Value {
        let mut all = vec!["--db", database, "--json"];
        all.extend(arguments);
        serde_json::from_str(&inspect(&all).unwrap()).unwrap()
    };
    let winner = document(&["--shape", "33x65x129"]);
    assert_eq!(winner["family"], "tiled");
    assert_eq!(winner["parameters"]["K_TILES"], 4);
    assert!(winner["cuda"].as_str().unwrap().contains("__global__"), "{winner}");
    if nvrtc_or_skip().is_some() {
        let shape = ["--shape", "33x65x129"];
        let memory = document(&[&shape[..], &["--emit", "memory"]].concat());
        assert_eq!(memory["memory"][0]["blocks"], memory["memory"][0]["blocks_executed"]);
        let diff = document(&[&shape[..], &["--diff", "winner", "naive"]].concat());
        assert_eq!(
            (&diff["x"]["family"], &diff["y"]["family"]),
            (&"tiled".into(), &"naive".into())
        );
    }
}

#[test]
fn the_help_names_what_can_be_shown() {
    let help = gemm_tune(&["inspect", "--help"]).out;
    for word in ["cuda", "ptx", "sass", "resources", "memory", "--diff"] {
        assert!(help.contains(word), "{word}: {help}");
    }
}

#[test]
fn what_cannot_be_inspected_says_what_to_do() {
    for (arguments, words) in [
        (&[][..], &["nothing to inspect", "--family NAME"][..]),
        (&["--family", "nave"], &["no family is named `nave`", "did you mean `naive`?"]),
        (
            &["--family", "tiled", "--set", "TILES=3"],
            &["no parameter `TILES`", "did you mean `TILE`?"],
        ),
        (&["--family", "tiled", "--set", "TILE=3"], &["TILE of family `tiled` is one of", "not 3"]),
        (&["--family", "tiled", "--dtype", "f16"], &["serves dtype"]),
        (&["--shape", "2x3x5", "--db", "/nowhere.toml"], &["no winner for 2x3x5", "--family NAME"]),
        (&["--diff", "tiled"], &["2 values required"]),
        (&["--diff", "tiled", "nave"], &["did you mean `naive`?"]),
        (&["--set", "TILE=3"], &["--family"]),
    ] {
        let error = inspect(arguments).unwrap_err();
        for word in words {
            assert!(error.contains(word), "{arguments:?} does not say `{word}`: {error}");
        }
    }
}
