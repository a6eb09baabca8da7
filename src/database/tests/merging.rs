//! Merging and pruning: no record is lost silently, in any order of the files.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::database::{
    Conflict, DatabaseError, MergeReport, PruneConditions, ReplacePolicy, Version, merge, prune,
    record_winner,
};

/// A record from a few numbers, so that random ones often share a key.
fn sample(
    (k, device, median, (interim, nondeterministic), second): (u64, u8, u8, (bool, bool), u8),
) -> Record {
    let mut found = found(problem(8, 8, k), f64::from(median));
    found.device.name = format!("NVIDIA {device}");
    found.provenance.interim = interim;
    found.launch.nondeterministic = nondeterministic;
    found.provenance.time = Timestamp::from_second(1_700_000_000 + i64::from(second)).unwrap();
    found.record()
}

fn samples() -> impl Strategy<Value = Vec<Vec<Record>>> {
    let record = (1..4_u64, 0..2_u8, 1..4_u8, any::<(bool, bool)>(), 0..2_u8).prop_map(sample);
    prop::collection::vec(prop::collection::vec(record, 0..5), 1..4)
}

/// Files of records as a user could assemble them, including several records with one key.
fn files(folder: &Path, contents: &[Vec<Record>]) -> Vec<PathBuf> {
    let file = |(number, records): (usize, &Vec<Record>)| {
        let path = folder.join(format!("{number}.toml"));
        let mut text = "schema = 2\n".to_owned();
        for record in records {
            let single = folder.join("single.toml");
            record_winner(&single, record, ReplacePolicy::Always).unwrap();
            let whole = fs::read_to_string(&single).unwrap();
            text += &whole[whole.find("\n[[record]]").unwrap()..];
            fs::remove_file(single).unwrap();
        }
        fs::write(&path, text).unwrap();
        path
    };
    contents.iter().enumerate().map(file).collect()
}

/// A key as text, and a whole record as text.
fn place(record: &Record) -> String {
    record.key()
}

fn text(record: &Record) -> String {
    format!("{record:?}")
}

fn told(merged: &MergeReport) -> BTreeSet<String> {
    let of = |conflict: &Conflict| -> Vec<String> {
        conflict.left_out.iter().map(|contender| text(&contender.record)).collect()
    };
    merged.conflicts.iter().flat_map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_merge_loses_no_record_and_ignores_the_order_of_files(contents in samples()) {
        let folder = tempfile::tempdir().unwrap();
        let inputs = files(folder.path(), &contents);
        let output = folder.path().join("out.toml");
        let merged = merge(&inputs, &output).unwrap();
        let (kept, bytes) = (load(&output), read(&output));

        // Each record is in the output or reported as left out; nothing else is in it.
        let given: BTreeSet<String> = contents.iter().flatten().map(text).collect();
        let there: BTreeSet<String> = kept.iter().map(text).collect();
        let both: BTreeSet<String> = there.union(&told(&merged)).cloned().collect();
        prop_assert_eq!(&both, &given);
        let count = contents.iter().flatten().count();
        let left_out: usize = merged.conflicts.iter().map(|c| c.left_out.len()).sum();
        prop_assert_eq!(kept.len() + left_out + merged.repeated, count);
        prop_assert_eq!(merged.records, kept.len());

        // The output has the best record of each key, and leaves out only records of the same key.
        let places: BTreeSet<String> = contents.iter().flatten().map(place).collect();
        prop_assert_eq!(kept.iter().map(place).collect::<BTreeSet<_>>(), places.clone());
        prop_assert_eq!(kept.len(), places.len());
        for conflict in &merged.conflicts {
            for left in &conflict.left_out {
                prop_assert_eq!(place(&left.record), place(&conflict.kept.record));
                let rank = |r: &Record| {
                    (!r.deterministic, r.provenance.interim, r.measurement.median_us as u64)
                };
                prop_assert!(rank(&conflict.kept.record) <= rank(&left.record));
            }
        }

        // Another order of files, and a repeated merge, give the same bytes.
        let backwards: Vec<PathBuf> = inputs.iter().rev().cloned().collect();
        let other = folder.path().join("other.toml");
        let again = merge(&backwards, &other).unwrap();
        prop_assert_eq!(&read(&other), &bytes);
        prop_assert_eq!(again.conflicts.len(), merged.conflicts.len());
        merge(&backwards, &output).unwrap();
        prop_assert_eq!(&read(&output), &bytes, "into itself");
        let (first, rest) = inputs.split_at(1);
        let stepwise = folder.path().join("stepwise.toml");
        merge(rest, &stepwise).unwrap();
        merge(first, &stepwise).unwrap();
        prop_assert_eq!(&read(&stepwise), &bytes, "step by step");
    }

    #[test]
    fn what_is_pruned_is_told_and_the_rest_stays(
        contents in samples(),
        (superseded, interim, device) in (any::<bool>(), any::<bool>(), prop::option::of(0..2_u8)),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = files(folder.path(), &[contents.concat()]).remove(0);
        let (records, bytes) = (load(&path), read(&path));
        let conditions = PruneConditions {
            superseded,
            interim,
            device_name: device.map(|device| format!("NVIDIA {device}")),
            ..PruneConditions::default()
        };
        let foreseen = prune(&path, &conditions, true).unwrap();
        prop_assert_eq!(&read(&path), &bytes, "a dry run");
        let pruned = prune(&path, &conditions, false).unwrap();
        prop_assert_eq!(&pruned, &foreseen);
        let left = load(&path);
        prop_assert_eq!(left.len() + pruned.len(), records.len());
        for gone in &pruned {
            prop_assert!(!interim || gone.record.provenance.interim);
            prop_assert!(!gone.because.is_empty());
            if superseded {
                prop_assert!(records.iter().any(|r| place(r) == place(&gone.record) && r.median() <= gone.record.median() || r.deterministic || !r.provenance.interim));
            }
        }
        if superseded && !interim && device.is_none() {
            let places: BTreeSet<String> = records.iter().map(place).collect();
            prop_assert_eq!(left.len(), places.len());
        }
        if conditions.is_empty() {
            prop_assert_eq!(read(&path), bytes);
        }
    }
}

#[test]
fn comments_and_unknown_keys_stay_with_their_records() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for (name, k) in [("a.toml", 1), ("b.toml", 2)] {
        record_winner(&path(name), &record(problem(8, 8, k), 1.0), ReplacePolicy::IfFaster)
            .unwrap();
        let text = read(&path(name))
            .replace("schema = 2\n", &format!("schema = 2\nsite = \"{name}\"\n"))
            .replace("[[record]]\n", &format!("# of {name}\n[[record]]\nnote = {k}\n"));
        fs::write(path(name), text).unwrap();
    }
    let merged = merge(&[path("b.toml"), path("a.toml")], &path("out.toml")).unwrap();
    assert_eq!(merged.differing_keys, ["site"]);
    let text = read(&path("out.toml"));
    for words in ["# of a.toml\n[[record]]\nnote = 1", "# of b.toml\n[[record]]\nnote = 2"] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    assert!(text.contains("site = \"a.toml\""), "{text}");
    assert_eq!(load(&path("out.toml")).len(), 2);
}

#[test]
fn files_that_cannot_be_merged_leave_the_output_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let output = path("out.toml");
    record_winner(&output, &record(problem(8, 8, 8), 1.0), ReplacePolicy::IfFaster).unwrap();
    let before = read(&output);
    let mut modelled = found(problem(8, 8, 9), 1.0);
    modelled.device = Device::cpu();
    record_winner(&path("cpu.toml"), &modelled.record(), ReplacePolicy::IfFaster).unwrap();
    fs::write(path("newer.toml"), "schema = 99\n").unwrap();
    fs::write(path("older.toml"), "schema = 0\n").unwrap();
    fs::write(path("cut.toml"), &before[..before.len() / 2]).unwrap();
    fs::write(path("bytes.toml"), b"\xff\xfe\0").unwrap();
    for (name, words) in [
        ("missing.toml", "cannot read"),
        ("cpu.toml", "they cannot share a file"),
        ("newer.toml", "written by a newer gemm-tune (schema 99)"),
        ("older.toml", "`schema` is 0"),
        ("cut.toml", "cut.toml:"),
        ("bytes.toml", "cannot read"),
    ] {
        let error = merge(&[path(name)], &output).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains(name), "{name}: {error}");
        assert_eq!(read(&output), before, "{name}");
    }
    let inputs = [path("out.toml"), path("cpu.toml")];
    let error = merge(&inputs, &path("fresh.toml")).unwrap_err();
    assert!(matches!(error, DatabaseError::MixedInputs { .. }), "{error}");
    assert!(!path("fresh.toml").exists());
    let unwritable = merge(&[output], Path::new("/proc/none/out.toml")).unwrap_err().to_string();
    assert!(unwritable.contains("cannot write `/proc/none`"), "{unwritable}");
}

#[test]
fn toolchain_versions_compare_as_numbers() {
    for (older, newer) in [("9.2", "13.0"), ("12.9", "13"), ("0.9.10", "0.10.0")] {
        assert!(Version::parse(older) < Version::parse(newer), "{older} < {newer}");
    }
    assert_eq!(Version::parse("13.0"), Version::parse("13"));
    for text in ["", "x", "1..2", "13.0-rc1", "-1"] {
        assert_eq!(Version::parse(text), None, "{text}");
    }
    let (_folder, path) = file_with("");
    for (k, nvrtc) in [(1, "12.9"), (2, "13.0"), (3, "unknown")] {
        let mut found = found(problem(8, 8, k), 1.0);
        found.provenance.nvrtc = nvrtc.to_owned();
        record_winner(&path, &found.record(), ReplacePolicy::IfFaster).unwrap();
    }
    let conditions =
        PruneConditions { nvrtc_before: Version::parse("13.0"), ..PruneConditions::default() };
    let pruned = prune(&path, &conditions, false).unwrap();
    assert_eq!(pruned.len(), 1);
    assert_eq!(pruned[0].because, ["NVRTC 12.9"]);
    let error = prune(Path::new("/nowhere/db.toml"), &conditions, false).unwrap_err();
    assert!(error.to_string().contains("cannot read `/nowhere/db.toml`"), "{error}");
}
