//! Comments and unknown keys survive when a record is replaced or added.

use super::*;
use crate::database::{ReplacePolicy, StoreOutcome, record_winner};
use crate::model::GemmType;

/// A file with a record of 1x1x1 at 100 us, after edits by a user and by a later version.
fn edited() -> (TempDir, PathBuf) {
    let (folder, path) = file_with("");
    let found = Found { libraries: libraries(), ..found(problem(1, 1, 1), 100.0) };
    record_winner(&path, &found.record(), ReplacePolicy::Always).unwrap();
    let mut text = read(&path);
    for (from, to) in [
        ("schema = 2\n", "schema = 2 # the first\nowner = \"maintainers\"\n"),
        ("[[record]]", "# our favourite\n[[record]]"),
        ("family = \"simt\"", "# chosen by hand\nfamily = \"simt\" # not wmma\nstars = 5"),
        ("BM = 128", "OLD_PARAMETER = 1, BM = 128"),
        ("layout = \"nn\" }", "layout = \"nn\", bias = \"none\" }"),
        ("median_us = 100.0", "median_us = 100.0 # on a quiet day\npower_w = 512.5"),
        ("sms = 132", "sms = 1_3_2 # of 144"),
        ("[record.provenance]", "# see the log\n[record.provenance]\nhost = \"lab-3\""),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    text.push_str("\n[record.notes]\nwhy = \"kept\"\n\n[plans]\nnext = \"f16\"\n# the end\n");
    fs::write(&path, text).unwrap();
    (folder, path)
}

/// Text of a user or of a later version that no replacement may lose.
const KEPT: [&str; 15] = [
    "schema = 2 # the first\nowner = \"maintainers\"\n",
    "\n# our favourite\n[[record]]\n",
    "\n# chosen by hand\nfamily = ",
    " # not wmma\n",
    "\nstars = 5\n",
    "layout = \"nn\", bias = \"none\" }\n",
    " # on a quiet day\n",
    "\npower_w = 512.5\n",
    "\nsms = 1_3_2 # of 144\n",
    "\n# see the log\n[record.provenance]\n",
    "\nhost = \"lab-3\"\n",
    "\n[record.notes]\nwhy = \"kept\"\n",
    "\n[plans]\nnext = \"f16\"\n",
    "\n# the end\n",
    "# Kernels found by gemm-tune",
];

#[test]
fn comments_and_unknown_keys_survive_a_replacement() {
    let (_folder, path) = edited();
    let new = Found { family: "wmma".to_owned(), ..found(problem(1, 1, 1), 50.0) }.record();
    assert_eq!(
        record_winner(&path, &new, ReplacePolicy::IfFaster).unwrap(),
        StoreOutcome::Replaced { before: Micros(100.0) }
    );
    let text = read(&path);
    for kept in KEPT {
        assert!(text.contains(kept), "lost {kept:?} from\n{text}");
    }
    for gone in ["OLD_PARAMETER", "baseline", "simt", "100.0"] {
        assert!(!text.contains(gone), "{gone} is still in\n{text}");
    }
    assert_eq!(load(&path), [new]);
}

#[test]
fn a_new_record_leaves_all_text_of_the_others_in_place() {
    let (_folder, path) = edited();
    let before = read(&path);
    for problem in
        [problem(1, 1, 2), Problem { types: GemmType::of(Dtype::Bf16), ..problem(9, 9, 9) }]
    {
        record_winner(&path, &record(problem, 1.0), ReplacePolicy::IfFaster).unwrap();
    }
    let text = read(&path);
    let first = text.find("\n# our favourite").unwrap();
    assert!(text[..first].contains("dtype = \"bf16\""), "not sorted:\n{text}");
    for line in before.lines() {
        assert!(text.contains(line), "lost {line:?} from\n{text}");
    }
    let shapes: Vec<_> = load(&path).iter().map(|record| record.problem.k).collect();
    assert_eq!(shapes, [9, 1, 2]);
}

#[test]
fn a_section_written_in_another_form_is_still_the_same_section() {
    let (_folder, path) = edited();
    let mut text = read(&path);
    for (from, to, form) in [
        (
            "resources = {",
            "\n\n",
            "resources.registers = 1\nresources.spill_bytes = 0 # none\n\
             resources.shared_bytes = 0\nresources.warps = 8",
        ),
        ("parameters = {", "\n", "parameters.ONE = 1"),
        (
            "[[record.launch]]",
            "\n\n",
            "[record.launched]\n[[record.launch]]\nentry = \"e\"\ngrid = [1, 1, 1]\n\
             block = [1, 1, 1]\ndynamic_shared_bytes = 0\narguments = []",
        ),
    ] {
        let start = text.find(from).unwrap();
        let end = start + text[start..].find(to).unwrap();
        text.replace_range(start..end, form);
    }
    fs::write(&path, text).unwrap();
    let new = record(problem(1, 1, 1), 50.0);
    record_winner(&path, &new, ReplacePolicy::IfFaster).unwrap();
    let text = read(&path);
    for kept in [
        "\nresources.registers = 128\n",
        "\nresources.spill_bytes = 0 # none\n",
        "\nresources.warps = 8\n",
        "\nparameters = { BM = 128, ",
        "\n[record.launched]\n",
        "\n[[record.launch]]\nentry = \"gemm_f32_nn\"\n",
    ] {
        assert!(text.contains(kept), "no {kept:?} in\n{text}");
    }
    assert_eq!(load(&path), [new]);
}

#[test]
fn a_field_that_a_short_section_gains_or_loses_leaves_it_tidy() {
    let (_folder, path) = file_with("");
    for (occupancy, line) in [
        (None, "shared_bytes = 0 }\n"),
        (Some(0.5), "shared_bytes = 0, occupancy = 0.5 }\n"),
        (None, "shared_bytes = 0 }\n"),
    ] {
        let resources = Resources { occupancy, ..Resources::default() };
        let found = Found { resources, ..found(problem(1, 1, 1), 50.0) };
        record_winner(&path, &found.record(), ReplacePolicy::Always).unwrap();
        let text = read(&path);
        assert!(text.contains(line), "no {line:?} in\n{text}");
    }
}

/// A file of the first schema becomes one of this schema when it is written to, and is otherwise the same text.
#[test]
fn a_file_of_the_first_schema_keeps_its_text_and_its_records() {
    let (_folder, path) = edited();
    let newer = read(&path);
    let older = newer.replacen("schema = 2 #", "schema = 1 #", 1);
    fs::write(&path, &older).unwrap();
    let records = load(&path);
    assert_eq!(read(&path), older, "reading changes nothing");
    record_winner(&path, &record(problem(1, 1, 2), 1.0), ReplacePolicy::IfFaster).unwrap();
    let text = read(&path);
    for line in newer.lines() {
        assert!(text.contains(line), "lost {line:?} from\n{text}");
    }
    assert!(!text.contains("schema = 1"), "{text}");
    assert_eq!(load(&path)[0], records[0]);
}
