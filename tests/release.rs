//! What makes a release: the workflow names scripts that exist, and the scripts refuse what they promise to refuse.
//! `tools/release/build.sh` builds one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use saphyr_parser::{Event, Parser};

use crate::support::program;
use crate::support::without::skip;

const WORKFLOW: &str = ".github/workflows/release.yml";
const SCRIPTS: &str = "tools/release";

/// The keys and values of a text in YAML, in the order of the text.
fn scalars(text: &str) -> Vec<String> {
    let events = Parser::new_from_str(text).map(|event| event.unwrap().0);
    let scalar = |event: Event<'_>| match event {
        Event::Scalar(text, ..) => Some(text.into_owned()),
        _ => None,
    };
    events.filter_map(scalar).collect()
}

/// Runs a script; whether it ended well, and all that it printed.
fn run(script: &str, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(Path::new(SCRIPTS).join(script)).args(arguments).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn the_workflow_calls_scripts_that_exist() {
    let scalars = scalars(&fs::read_to_string(WORKFLOW).unwrap());
    let words = scalars.iter().flat_map(|text| text.split_whitespace());
    let mut called: Vec<&str> = words.filter(|word| word.starts_with(SCRIPTS)).collect();
    called.sort_unstable();
    for name in ["build.sh", "notes.sh", "try.sh"] {
        assert!(called.contains(&format!("{SCRIPTS}/{name}").as_str()), "{called:?}");
    }
    for path in called {
        let mode =
            fs::metadata(path).unwrap_or_else(|error| panic!("{path}: {error}")).permissions();
        assert!(mode.mode() & 0o111 != 0, "{path} is not executable");
    }
    // Actions of a named version only.
    let uses = scalars.iter().filter(|text| text.starts_with("actions/"));
    assert!(
        uses.clone().count() > 3 && uses.clone().all(|name| name.contains("@v")),
        "{scalars:?}"
    );
    assert!(scalars.contains(&"v*".to_owned()), "{scalars:?}");
}

#[test]
fn scripts_are_written_correctly_and_refuse_what_is_no_release() {
    for entry in fs::read_dir(SCRIPTS).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "sh") {
            let output = Command::new("bash").arg("-n").arg(&path).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    let (is_built, said) = run("build.sh", &["v999.0.0"]);
    assert!(
        !is_built && said.contains("the tag is v999.0.0, and Cargo.toml has version"),
        "{said}"
    );
    let (has_notes, said) = run("notes.sh", &["v999.0.0"]);
    assert!(!has_notes && said.contains("no heading '## 999.0.0' with text"), "{said}");
}

#[test]
fn a_program_that_needs_a_later_glibc_is_refused() {
    if let Err(error) = Command::new("readelf").arg("--version").output() {
        skip("compilers", &format!("no readelf: {error}"));
        return;
    }
    let program = program::path();
    let (fits, said) = run("glibc.sh", &[program.to_str().unwrap(), "999.0"]);
    assert!(fits && said.contains("needs glibc 2."), "{said}");
    let (fits, said) = run("glibc.sh", &[program.to_str().unwrap(), "2.2"]);
    assert!(!fits && said.contains("the limit is glibc 2.2:"), "{said}");
    let (fits, said) = run("glibc.sh", &["README.md", "2.28"]);
    assert!(!fits && said.contains("a static program cannot load the driver"), "{said}");
}

#[test]
fn the_licences_of_all_crates_inside_are_collected() {
    if let Err(error) = Command::new("python3").arg("--version").output() {
        skip("python", &format!("no python3: {error}"));
        return;
    }
    let (is_whole, said) = run("licences.py", &[]);
    assert!(is_whole, "{said}");
    for name in ["cudarc ", "serde ", "toml_edit "] {
        assert!(said.contains(&format!("\n{name}")), "{name} is missing");
    }
    for name in ["insta ", "proptest ", "gemm-tune-cpu "] {
        assert!(!said.contains(&format!("\n{name}")), "{name} is not inside");
    }
    assert!(said.contains("Permission is hereby granted"), "there is no text of a licence");
}
