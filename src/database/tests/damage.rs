//! Damaged files: they are neither read nor written, and the message states the position.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::database::{DatabaseError, ReplacePolicy, record_winner};

/// Checks that `text` is refused with `message` (which follows the path) and left untouched.
fn check(text: &str, message: &str) {
    let (_folder, path) = file_with(text);
    let load = Database::load(&path).unwrap_err().to_string();
    let write = record_winner(&path, &record(problem(1, 1, 1), 1.0), ReplacePolicy::Always);
    let expected = format!("{}:{message}", path.display());
    assert!(load.starts_with(&expected), "expected {expected}\n     got {load}");
    assert!(load.contains("--db PATH") || load.contains("[[record]]"), "no next step: {load}");
    assert!(write.is_err());
    assert_eq!(read(&path), text);
}

fn one_record() -> String {
    let (_folder, path) = file_with("");
    record_winner(&path, &record(problem(1, 1, 1), 1.0), ReplacePolicy::Always).unwrap();
    read(&path)
}

fn line_of(text: &str, line: &str) -> usize {
    text.lines().position(|other| other.starts_with(line)).unwrap() + 1
}

#[test]
fn a_missing_or_empty_file_is_an_empty_database() {
    let (folder, path) = file_with(" \n");
    for path in [path, folder.path().join("none.toml"), folder.path().join("no").join("ne.toml")] {
        assert_eq!(Database::load(&path).unwrap(), Database::default());
    }
}

#[test]
fn a_file_compressed_by_gzip_is_read() {
    let whole = one_record();
    let (_folder, path) = file_with(&whole);
    let plain = Database::load(&path).unwrap();
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(whole.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    fs::write(&path, &packed).unwrap();
    assert_eq!(Database::load_existing(&path).unwrap().records(), plain.records());
    fs::write(&path, &packed[..packed.len() / 2]).unwrap();
    let said = Database::load_existing(&path).unwrap_err().to_string();
    assert!(said.contains("nvidia-h200.toml"), "{said}");
}

#[test]
fn a_file_cut_short_says_where_it_ends() {
    let whole = one_record();
    let cut = &whole[..whole.find(", dtype").unwrap() + 3];
    let (line, columns) = (cut.lines().count(), cut.lines().last().unwrap().chars().count());
    check(cut, &format!("{line}:{}: not TOML: ", columns + 1));
}

#[test]
fn a_file_without_its_schema_is_not_a_database() {
    for (text, message) in [
        ("# a\n[[record]]\n", "1:1: `schema` is missing: a tuning database begins with"),
        ("title = \"x\"\nschema = \"one\"\n", "2:10: `schema` is of type string: "),
        ("schema = 2.0\n", "1:10: `schema` is of type float: "),
        ("schema = 0\n", "1:10: `schema` is 0: "),
        ("schema = 2\nrecord = 3\n", "2:10: `record` is integer: write each record under"),
        ("schema = 2\n[record]\n", "2:1: `record` is table: "),
    ] {
        check(text, message);
    }
}

#[test]
fn a_newer_file_is_left_to_a_newer_program() {
    check(
        "schema = 3\n[[winner]]\n",
        " written by a newer gemm-tune (schema 3); update gemm-tune or give another file with `--db PATH`",
    );
}

#[test]
fn a_field_that_is_missing_or_mistyped_is_named_with_its_record_and_line() {
    let good = one_record();
    let second = |change: &dyn Fn(&str) -> String| {
        let record = good[good.find("[[record]]").unwrap()..].replace("m = 1,", "m = 2,");
        format!("{good}\n{}", change(&record))
    };
    let lines = good.lines().count() + 1;
    let tail = &good[good.find("[[record]]").unwrap()..];
    let at = |line: &str| lines + line_of(tail, line);
    for (from, to, position, message) in [
        (
            "median_us = 1.0",
            "median_us = \"fast\"",
            format!("{}:13", at("median_us")),
            "`measurement.median_us`: invalid type: string \"fast\", expected f64",
        ),
        (
            "p05_us",
            "p06_us",
            format!("{}:1", at("[record.measurement]")),
            "`measurement`: missing field `p05_us`",
        ),
        ("m = 2, ", "", format!("{}:11", at("problem")), "`problem`: missing field `m`"),
        (
            "BM = 128",
            "BM = [1]",
            format!("{}:21", at("parameters")),
            "`parameters.BM`: a value is a 64-bit number, true, false or a string",
        ),
        (
            "grid = [32, 32, 1]",
            "grid = [32, 32]",
            format!("{}:8", at("grid")),
            "`launch.grid`: invalid length 2",
        ),
        (
            "time = \"2026",
            "time = \"MMXXVI",
            format!("{}:8", at("time")),
            "`provenance.time`: `MMXXVI-01-31T12:00:00Z` is not a time such as",
        ),
        (
            "seed = 42",
            "seed = -1",
            format!("{}:8", at("seed")),
            "`provenance.seed`: a whole number from 0, or its digits as text",
        ),
    ] {
        let text = second(&|record| record.replacen(from, to, 1));
        check(&text, &format!("{position}: record 2, {message}"));
    }
    let text = second(&|record| record.replacen("family =", "familie =", 1));
    check(&text, &format!("{}:1: record 2: missing field `family`", at("[[record]]")));
}

#[test]
fn a_path_that_is_no_file_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let error = Database::load(folder.path()).unwrap_err();
    assert!(matches!(error, DatabaseError::Unreadable { .. }), "{error}");

    let (_folder, file) = file_with("");
    let below = file.join("gpu.toml");
    let error =
        record_winner(&below, &record(problem(1, 1, 1), 1.0), ReplacePolicy::Always).unwrap_err();
    assert!(matches!(error, DatabaseError::Unwritable { .. }), "{error}");
    assert!(error.to_string().starts_with(&format!("cannot write `{}`: ", file.display())));
}

#[cfg(unix)]
#[test]
fn a_folder_that_is_read_only_is_named() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, path) = file_with("schema = 2\n");
    let set_mode = |mode| {
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(0o555);
    if fs::write(folder.path().join("probe"), "").is_ok() {
        // Not `eprintln!`: the test harness hides what a passing test prints with it.
        writeln!(std::io::stderr(), "skipped: this user writes to read-only folders").unwrap();
        return;
    }
    let error =
        record_winner(&path, &record(problem(1, 1, 1), 1.0), ReplacePolicy::Always).unwrap_err();
    set_mode(0o755);
    let message = error.to_string();
    assert!(matches!(error, DatabaseError::Unwritable { .. }), "{message}");
    assert!(message.contains(folder.path().to_str().unwrap()), "{message}");
    assert!(message.ends_with("or give another file with `--db PATH`"), "{message}");
    assert_eq!(read(&path), "schema = 2\n");
}

#[cfg(unix)]
#[test]
fn a_file_that_is_read_only_stays_as_it_is() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, path) = file_with("schema = 2\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    if fs::OpenOptions::new().append(true).open(&path).is_ok() {
        writeln!(std::io::stderr(), "skipped: this user writes to read-only files").unwrap();
        return;
    }
    let error =
        record_winner(&path, &record(problem(1, 1, 1), 1.0), ReplacePolicy::Always).unwrap_err();
    assert!(error.to_string().starts_with(&format!("cannot write `{}`: ", path.display())));
    assert_eq!(read(&path), "schema = 2\n");
}
