//! A bundle is taken whole or refused with what is wrong with it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use gemm_tune::export::{CHECKSUMS, MANIFEST, open_bundle, seal};

use super::rig::{artifact, python};
use crate::support::without::skip;

type Files = BTreeMap<String, Vec<u8>>;

fn files_of(folder: &Path) -> Files {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| {
            (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())
        })
        .collect()
}

/// What is said of a bundle; nothing of one that is whole.
fn said(files: &Files) -> String {
    let read = |name: &str| {
        files.get(name).cloned().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    };
    open_bundle(read).map_or_else(|error| error.to_string(), |_| String::new())
}

#[test]
fn a_bundle_that_was_changed_is_refused() {
    let Some(folder) = artifact("bundle") else { return };
    let whole = files_of(&folder);
    assert_eq!(said(&whole), "");
    let cubin = whole.keys().find(|name| name.ends_with(".cubin")).unwrap().clone();
    let edit = |from: &str, to: &str| {
        let mut files = whole.clone();
        let text = String::from_utf8(files[MANIFEST].clone()).unwrap();
        assert!(text.contains(from), "{from}");
        files.insert(MANIFEST.to_owned(), text.replacen(from, to, 1).into_bytes());
        files
    };
    let mut flipped = whole.clone();
    flipped.get_mut(&cubin).unwrap()[100] ^= 1;
    let mut short = whole.clone();
    short.get_mut(&cubin).unwrap().truncate(1000);
    let mut missing = whole.clone();
    missing.remove(&cubin);
    let mut unlisted = seal(whole.clone());
    let sums = String::from_utf8(unlisted[CHECKSUMS].clone()).unwrap();
    let without: String = sums
        .lines()
        .filter(|line| !line.ends_with(&cubin))
        .map(|line| format!("{line}\n"))
        .collect();
    unlisted.insert(CHECKSUMS.to_owned(), without.into_bytes());
    let leading = |name: &str| {
        let mut files = whole.clone();
        let line = format!("{}  {name}\n", "0".repeat(64));
        files.get_mut(CHECKSUMS).unwrap().extend(line.bytes());
        files
    };
    for (files, words) in [
        (flipped, vec![&*cubin, "was changed after the export: its SHA-256"]),
        (short, vec![&*cubin, "was changed after the export"]),
        (missing, vec!["cannot read", &*cubin]),
        (unlisted, vec!["does not list", &*cubin]),
        (edit("\"tuned\": true", "\"tuned\": false"), vec![MANIFEST, "was changed"]),
        (
            seal(edit(&format!("\"file\": \"{cubin}\""), "\"file\": \"../../etc/passwd\"")),
            vec!["names `../../etc/passwd`, which is not a plain file name"],
        ),
        (leading("../x"), vec!["SHA256SUMS names `../x`"]),
        (leading("/etc/passwd"), vec!["SHA256SUMS names `/etc/passwd`"]),
        (leading(".hidden"), vec!["names `.hidden`"]),
        (seal(edit("\"schema\": 2", "\"schema\": 3")), vec!["written by a newer gemm-tune"]),
        (seal(edit("\"schema\": 2", "\"schema\": \"x\"")), vec!["is not a valid manifest"]),
        (seal(edit("\"beta\"", "\"gamma\"")), vec!["takes `gamma`, which is no standard argument"]),
        (seal(edit("ceil_div(", "launch(")), vec!["is no formula"]),
        (seal(edit("\"bytes\": ", "\"bytes\": 1")), vec!["bytes, `manifest.json` says 1"]),
    ] {
        let said = said(&files);
        assert!(words.iter().all(|word| said.contains(word)), "{words:?} are not in: {said}");
    }
}

const VALIDATE: &str = r#"
import json, sys, tomllib, jsonschema
schema, document = sys.argv[1:]
with open(document, "rb") as file:
    content = tomllib.load(file) if document.endswith(".toml") else json.load(file)
def plain(value):
    if isinstance(value, dict): return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list): return [plain(v) for v in value]
    return value
schema = json.load(open(schema))
jsonschema.Draft202012Validator.check_schema(schema)
jsonschema.Draft202012Validator(schema).validate(plain(content))
"#;

#[test]
fn manifests_and_databases_are_what_their_schemas_say() {
    let Some(folder) = artifact("bundle") else { return };
    let python = match python() {
        Ok(python) => python,
        Err(why) => return skip("python", &format!("no Python with jsonschema: {why}")),
    };
    let manifest = folder.join(MANIFEST);
    for (schema, document) in [
        ("schemas/manifest.schema.json", manifest.to_str().unwrap()),
        ("schemas/database.schema.json", "results/nvidia-h200.toml"),
        ("schemas/database.schema.json", "tests/databases/one.toml"),
        ("schemas/database.schema.json", "target/test-artifacts/db.toml"),
        ("schemas/trace.schema.json", "tests/data/trace.json"),
    ] {
        let output =
            Command::new(&python).args(["-c", VALIDATE, schema, document]).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{document} is not as {schema} says: {error}");
    }
    let sums = Command::new("sha256sum").args(["--check", CHECKSUMS]).current_dir(&folder).output();
    assert!(sums.unwrap().status.success(), "{CHECKSUMS} is what sha256sum reads");
}
