//! The forms of results, and what the commands have in common: CSV and Markdown, standard output as a file, completions,
//! manual pages, names of devices, and terminals of 80 and 120 columns.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::program::gemm_tune;

const DB: [&str; 2] = ["--db", "tests/databases/h200.toml"];
const NAMED: [&str; 2] = ["--device-name", "h200"];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn good(arguments: &[&str]) -> String {
    let said = gemm_tune(arguments);
    assert_eq!(said.code, Some(0), "{arguments:?}: {}", said.err);
    said.out
}

fn lookup(shapes: &[&str], rest: &[&str]) -> String {
    good(&[&["lookup"], shapes, &DB, &NAMED, rest].concat())
}

#[test]
fn values_are_rows_of_the_results() {
    let csv = lookup(&["33x65x129", "512"], &["--csv"]);
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let header = reader.headers().unwrap().clone();
    let column = |name: &str| header.iter().position(|own| own == name).expect(name);
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let [source, m, family] = ["source", "problem.m", "family"].map(column);
    assert_eq!(rows.len(), 2, "{csv}");
    assert_eq!((&rows[0][source], &rows[0][m]), ("exact", "33"));
    assert_eq!((&rows[1][m], rows[1][family].is_empty()), ("512", false));
    assert_eq!(csv, lookup(&["33x65x129", "512"], &["--output-format", "csv"]));
    let list = good(&[&["db", "list"], &DB[..], &["--csv"]].concat());
    let records = good(&[&["db", "list"], &DB[..], &["--json"]].concat());
    let records: Value = serde_json::from_str(&records).unwrap();
    let count = csv::Reader::from_reader(list.as_bytes()).records().count();
    assert_eq!(Some(count), records["records"].as_array().map(Vec::len), "{list}");
}

#[test]
fn several_shapes_are_several_answers() {
    let document: Value =
        serde_json::from_str(&lookup(&["33x65x129", "512"], &["--json"])).unwrap();
    let answers = document["answers"].as_array().unwrap();
    let shapes: Vec<&Value> = answers.iter().map(|answer| &answer["problem"]["m"]).collect();
    assert_eq!(shapes, [33, 512]);
    let one: Value = serde_json::from_str(&lookup(&["33x65x129"], &["--json"])).unwrap();
    assert_eq!(one, answers[0]);
}

#[test]
fn tables_are_in_markdown() {
    let text = lookup(&["33x65x129"], &["--output-format", "md"]);
    let table: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    assert!(table.len() > 4 && table[1].starts_with("|--"), "{text}");
    assert!(table.iter().any(|line| line.contains("| source ")), "{text}");
    assert!(text.contains("\n\n|"), "a blank line before the table: {text}");
}

#[test]
fn errors_are_documents_in_every_way_to_ask_for_json() {
    for form in [&["--json"][..], &["--output-format", "json"], &["--output-format=json"]] {
        for arguments in [&["lookup", "1x2"][..], &["lookup", "--nonsense"]] {
            let said = gemm_tune(&[arguments, form].concat());
            assert_eq!(said.code, Some(2), "{arguments:?} {form:?}");
            let document: Value = serde_json::from_str(&said.out).unwrap();
            assert!(document["error"].is_string(), "{document}");
        }
    }
}

#[test]
fn standard_output_is_a_file_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| text(&folder.path().join(name)).to_owned();
    let [json, merged] = [at("a.json"), at("a.toml")];
    for (command, file) in [
        (&["export", "--format", "json", "--db", DB[1]][..], &json),
        (&["db", "merge", DB[1]], &merged),
    ] {
        good(&[command, &["-o", file]].concat());
        assert_eq!(good(&[command, &["-o", "-"]].concat()), fs::read_to_string(file).unwrap());
        let both = gemm_tune(&[command, &["-o", "-", "--json"]].concat());
        assert_eq!(both.code, Some(2));
        assert!(both.err.contains("both written to standard output"), "{}", both.err);
    }
    let folder = gemm_tune(&["export", "--format", "bundle", "--db", DB[1], "-o", "-"]);
    assert!(folder.err.contains("`-o DIR`"), "{}", folder.err);
}

#[test]
fn shells_complete_commands_and_pages_name_them() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = good(&["completions", shell]);
        assert!(["lookup", "--output-format"].iter().all(|word| script.contains(word)), "{shell}");
    }
    assert!(good(&["man"]).contains(".TH gemm-tune"));
    let folder = tempfile::tempdir().unwrap();
    good(&["man", "-o", text(folder.path())]);
    let page = fs::read_to_string(folder.path().join("gemm-tune-lookup.1")).unwrap();
    assert!(page.contains("evaluate"), "{page}");
    assert!(!folder.path().join("gemm-tune-worker.1").exists());
}

#[test]
fn a_part_of_a_name_names_a_device() {
    let exact = lookup(&["512"], &[]);
    for name in ["H200", "nvidia h200", "200"] {
        let said = good(&[&["lookup", "512"], &DB[..], &["--device-name", name]].concat());
        assert_eq!(said, exact, "{name}");
    }
    for command in
        [&["inspect", "512", "--emit", "cuda"][..], &["inspect", "512", "--config", "naive"]]
    {
        good(&[command, &DB, &NAMED].concat());
    }
    let list = good(&[&["db", "list", "33x65x129"], &DB[..], &NAMED, &["--batch", "1"]].concat());
    assert_eq!(list.lines().count(), 2, "{list}");
    let absent = gemm_tune(&[&["compare", "8"], &DB[..], &["--device-name", "h9000"]].concat());
    assert_eq!(absent.code, Some(2));
    assert!(absent.err.contains("no GPU of this machine is named `h9000`"), "{}", absent.err);
}

#[test]
fn any_shape_is_inspected_as_lookup_answers() {
    let said = good(&[&["inspect", "40x66x130"], &DB[..], &NAMED, &["--json"]].concat());
    let shown: Value = serde_json::from_str(&said).unwrap();
    let answer: Value = serde_json::from_str(&lookup(&["40x66x130"], &["--json"])).unwrap();
    for field in ["family", "parameters", "source", "because"] {
        assert_eq!(shown[field], answer[field], "{field}");
    }
    assert_ne!(shown["source"], "exact");
}
