//! Records with impossible values: named, kept in the file, and never used.

use super::*;
use crate::database::{
    PruneConditions, ReplacePolicy, StoreOutcome, WritableDatabase, merge, prune, record_winner,
};

/// A file with the record of `problem(2, 2, 2)` between two others, changed so that it is impossible.
fn with_fault(from: &str, to: &str) -> (TempDir, PathBuf, String) {
    let (folder, path) = file_with("");
    for (extent, time) in [(1, 1.0), (2, 2.0), (3, 3.0)] {
        let record = record(problem(extent, extent, extent), time);
        record_winner(&path, &record, ReplacePolicy::Always).unwrap();
    }
    let text = read(&path);
    let second = text.match_indices("[[record]]").nth(1).unwrap().0;
    assert!(text[second..].contains(from), "{text}");
    let text = format!("{}{}", &text[..second], text[second..].replacen(from, to, 1));
    fs::write(&path, &text).unwrap();
    let fault = Database::load(&path).unwrap().faults()[0].to_string();
    (folder, path, fault)
}

#[test]
fn an_impossible_value_is_named_with_its_line_and_the_record_is_not_used() {
    for (from, to, message) in [
        (
            "median_us = 2.0",
            "median_us = -1.0",
            "`measurement.median_us`: -1 is not above 0 and finite",
        ),
        ("median_us = 2.0", "median_us = nan", "`measurement.median_us`: NaN is not above 0"),
        ("median_us = 2.0", "median_us = inf", "`measurement.median_us`: inf is not above 0"),
        ("p05_us = ", "p05_us = -", "`measurement.p05_us`: -"),
        ("m = 2,", "m = 0,", "`problem.m`: 0 is not within 1 to 2147479552"),
        ("m = 2,", "m = 9223372036854775807,", "`problem.m`: 9223372036854775807 is not within"),
        ("batch = 1", "batch = 0", "`problem.batch`: 0 is not within 1 to"),
        (
            "name = \"NVIDIA H200\"",
            "name = \"H200\\u001b[2J\"",
            "`device.name`: `H200\\u{1b}[2J` has characters",
        ),
        ("name = \"NVIDIA H200\"", "name = \"H200\\u202e\"", "`device.name`: `H200\\u{202e}` has"),
        ("sms = 132", "sms = 0", "`device.sms`: 0 is not within 1 to"),
    ] {
        let (_folder, path, fault) = with_fault(from, to);
        let text = read(&path);
        assert!(fault.contains(&format!("{}:", path.display())), "{fault}");
        assert!(fault.contains("record 2, ") && fault.contains(message), "{fault}");
        let second = text.match_indices("[[record]]").nth(1).unwrap().0;
        let place = second + text[second..].find(to).unwrap();
        let line = text[..place].matches('\n').count() + 1;
        assert!(fault.contains(&format!("toml:{line}:")), "{line}: {fault}");
        let database = Database::load(&path).unwrap();
        let extents: Vec<u64> = database.records().iter().map(|r| r.problem.n).collect();
        assert_eq!(extents, [1, 3], "{to}");
        assert_eq!(WritableDatabase::check(&path, &device()).unwrap().unused().len(), 1);
    }
}

#[test]
fn a_faulty_record_blocks_no_winner_and_stays() {
    let (_folder, path, _) = with_fault("median_us = 2.0", "median_us = -1.0");
    let faulty = "median_us = -1.0";
    let winner = record(problem(2, 2, 2), 5.0);
    let stored = record_winner(&path, &winner, ReplacePolicy::IfFaster).unwrap();
    assert_eq!(stored, StoreOutcome::Added);
    let found = Database::load(&path).unwrap();
    assert_eq!(found.find(&problem(2, 2, 2), &device(), Regime::default()), Some(&winner));
    assert!(read(&path).contains(faulty));
    // Replacing and removing records beside it leaves it alone too.
    let faster = record(problem(3, 3, 3), 2.5);
    record_winner(&path, &faster, ReplacePolicy::IfFaster).unwrap();
    let slowest =
        PruneConditions { device_name: Some(device().name), ..PruneConditions::default() };
    assert_eq!(prune(&path, &slowest, false).unwrap().len(), 3);
    let text = read(&path);
    assert!(text.contains(faulty) && text.matches("[[record]]").count() == 1, "{text}");
    assert_eq!(Database::load(&path).unwrap().records(), []);
}

#[test]
fn a_merge_keeps_faulty_records_of_its_output_and_adopts_none() {
    let (folder, output, _) = with_fault("median_us = 2.0", "median_us = -1.0");
    let (_other, input, _) = with_fault("m = 2,", "m = 0,");
    let new = record(problem(9, 9, 9), 9.0);
    record_winner(&input, &new, ReplacePolicy::Always).unwrap();
    let merged = merge(std::slice::from_ref(&input), &output).unwrap();
    assert_eq!((merged.records, merged.faults.len()), (3, 2));
    let text = read(&output);
    assert!(text.contains("median_us = -1.0") && !text.contains("m = 0,"), "{text}");
    let again = Database::load(&output).unwrap();
    assert_eq!((again.records().len(), again.faults().len()), (3, 1));
    drop(folder);
}

#[test]
fn a_path_that_no_record_can_be_stored_at_is_refused_before_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let error = WritableDatabase::check(folder.path(), &device()).unwrap_err();
    assert!(error.to_string().contains("directory"), "{error}");
    let path = folder.path().join("new/db.toml");
    let checked = WritableDatabase::check(&path, &device()).unwrap();
    assert_eq!((checked.path(), checked.unused().len()), (path.as_path(), 0));
    assert!(!path.exists());
}
