//! Large files, which are read and changed in parts: the same as whole documents.

use std::path::Path;

use proptest::prelude::*;

use super::super::chunks::{Chunks, ParsedRecords};
use super::super::document::{Document, RecordChange};
use super::super::file::record_winner_in;
use super::super::texts::RecordTexts;
use super::*;
use crate::database::{ReplacePolicy, StoreOutcome};

const SHIPPED: &str = include_str!("../../../results/nvidia-h200.toml");

fn path() -> &'static Path {
    Path::new("db.toml")
}

fn read(chunks: &Chunks<'_>) -> (Vec<Record>, Vec<super::super::RecordFault>) {
    let ParsedRecords { records, faults, .. } = chunks.read().unwrap();
    (records, faults)
}

fn whole(text: &str) -> (Vec<Record>, Vec<super::super::RecordFault>) {
    Document::parse(text, path()).unwrap().into_records()
}

#[test]
fn parts_hold_what_the_document_holds() {
    let chunks = Chunks::split(SHIPPED, path()).unwrap();
    assert_eq!(read(&chunks), whole(SHIPPED));
}

#[test]
fn a_bad_record_is_named_with_its_place_in_the_file() {
    let at = SHIPPED.match_indices("median_us = ").nth(300).unwrap().0;
    let value = at + "median_us = ".len();
    let end = value + SHIPPED[value..].find([',', '\n', ' ']).unwrap();
    for bad in ["-1.0", "nan"] {
        let text = [&SHIPPED[..value], bad, &SHIPPED[end..]].concat();
        let (records, faults) = read(&Chunks::split(&text, path()).unwrap());
        let (all, expected) = whole(&text);
        assert_eq!((records, &faults), (all, &expected));
        assert_eq!(faults.len(), 1, "{faults:?}");
    }
    for bad in ["true", "= 3"] {
        let text = [&SHIPPED[..value], bad, &SHIPPED[end..]].concat();
        let error = Chunks::split(&text, path()).unwrap().read().unwrap_err();
        let expected = Document::parse(&text, path()).unwrap_err();
        assert_eq!(error.to_string(), expected.to_string());
    }
}

#[test]
fn a_text_laid_out_otherwise_is_left_to_the_document() {
    for text in [
        "",
        "schema = 2\n",
        "schema = 2\nrecord = []\n[[record]]\n",
        "schema = 9\n[[record]]\n",
        "schema = 2\n[[record]]\nfamily = \"\"\"\n[[record]]\n\"\"\"\n",
        "schema = 2\n[[record]]\nfamily = 'a'\n[other]\nb = 1\n",
        "schema = 2\n[[record]]\nlist = [\n[1],\n]\n",
    ] {
        assert!(Chunks::split(text, path()).is_none(), "{text}");
    }
}

#[test]
fn the_nearest_records_of_each_device_are_taken() {
    let chunks = Chunks::split(SHIPPED, path()).unwrap();
    let asked = problem(4096, 4096, 4096);
    let near = chunks.read_near(&asked, 5).unwrap().records;
    assert_eq!(near.len(), 5);
    let (all, _) = whole(SHIPPED);
    let exact = |record: &&Record| record.problem == (&asked).into();
    assert_eq!(near.iter().find(exact), all.iter().find(exact));
    assert_eq!(chunks.read_near(&asked, all.len()).unwrap().records, all);
}

/// The shipped database with comments, unknown keys and a record that is not used.
fn edited() -> String {
    let text = SHIPPED
        .replace("[[record]]\nproblem = { m = 4096", "# here\n[[record]]\nproblem = { m = 4096")
        .replace("family = \"pipelined\"", "family = \"pipelined\" # own\nmine = 3")
        .replace("schema = 2\n", "schema = 2\nowner = \"maintainers\"\n# first\n");
    let at = text.match_indices("median_us = ").nth(300).unwrap().0 + "median_us = ".len();
    [&text[..at], "-", &text[at..], "# the end\n"].concat()
}

#[test]
fn removing_and_replacing_in_parts_gives_the_text_of_the_document() {
    let text = edited();
    for step in [1, 2, 7] {
        let choose = |records: &[Record]| -> Vec<RecordChange> {
            let change = |(index, record): (usize, &Record)| {
                let mut record = record.clone();
                record.provenance.template_hash = "new".to_owned();
                (index, (index % 3 == 0).then_some(record))
            };
            records.iter().enumerate().step_by(step).map(change).collect()
        };
        let changed = Chunks::split(&text, path()).unwrap().changed(choose).unwrap();
        let expected = Document::parse(&text, path()).unwrap().changed(choose).unwrap();
        assert!(changed == expected, "every {step}");
    }
}

#[test]
fn texts_of_parts_are_those_of_the_document() {
    let text = edited();
    let chunks = Chunks::split(&text, path()).unwrap();
    let parts = RecordTexts::of_chunks(&chunks).unwrap();
    let whole = RecordTexts::of_document(Document::parse(&text, path()).unwrap());
    assert_eq!(parts.records, whole.records);
    assert_eq!((&parts.faulty, &parts.faults), (&whole.faulty, &whole.faults));
    assert_eq!(parts.faulty.len(), 1);
    let records: Vec<_> = parts.records.clone();
    let all = || records.iter().map(|(_, text)| &**text);
    let expected = whole.with(all());
    assert_eq!(parts.with(all()), expected);
    assert!(expected.ends_with("# the end\n"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Comments and unknown keys stay, and records lie where a document puts them.
    #[test]
    fn storing_in_parts_gives_the_text_of_the_document(
        m in prop::sample::select(vec![1_u64, 128, 4096, 100_000]),
        median in prop::sample::select(vec![0.5, 1e6]),
        replace in prop::sample::select(vec![ReplacePolicy::IfFaster, ReplacePolicy::Always]),
    ) {
        let text = SHIPPED.replace("[[record]]\nproblem = { m = 4096", "# here\n[[record]]\nproblem = { m = 4096")
            .replace("family = \"pipelined\"", "family = \"pipelined\" # own\nmine = 3");
        let mut record = whole(&text).0[0].clone();
        record.problem = (&problem(m, 4096, 4096)).into();
        record.measurement.median_us = median;
        let (outcome, changed) =
            Chunks::split(&text, path()).unwrap().store(&record, replace).unwrap();
        let (expected, document) = record_winner_in(&text, path(), &record, replace).unwrap();
        prop_assert_eq!(outcome, expected);
        prop_assert_eq!(changed.is_none(), matches!(outcome, StoreOutcome::Kept { .. }));
        prop_assert!(changed == document, "{m} {median}");
    }
}

#[test]
fn a_large_text_of_the_first_schema_is_read_in_parts_too() {
    let newer = edited();
    let older = newer.replacen("schema = 2\n", "schema = 1\n", 1);
    let text = super::super::migrate::migrated(older.clone());
    assert!(text == newer, "only the schema changes");
    let parts = read(&Chunks::split(&text, path()).unwrap());
    assert_eq!(parts, whole(&older));
}
