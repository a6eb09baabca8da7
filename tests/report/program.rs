//! `report --trace`: the products of a program, and what it gains by records of its GPU.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::DATABASE;
use crate::support::program::{Said, gemm_tune};

/// A product of f32, with the time of a call in PyTorch.
fn product([m, n, k]: [u64; 3], layout: &str, count: u64, us: Option<f64>) -> Value {
    json!({ "m": m, "n": n, "k": k, "batch": 1, "dtype": "f32", "compute": "f32", "layout": layout, "epilogue": "",
            "count": count, "torch_us": us, "samples": 3 })
}

/// A trace with a product that gains, one whose kernel is slower, and some without a record or a time.
fn trace(device: &str) -> String {
    let problems = [
        product([1, 4096, 4096], "nn", 100, Some(20.0)),
        product([4096, 4096, 1024], "nn", 10, Some(1000.0)),
        product([4096, 4096, 1024], "nt", 1, Some(2000.0)),
        product([8, 8, 8], "nn", 7, None),
    ];
    let trace = json!({ "schema": 1, "program": ["serve </script>.py"], "torch": "2.9", "device": device,
                        "seconds": 1.5, "problems": problems, "others": { "mm of torch.float64": 3 } });
    trace.to_string()
}

fn report(folder: &Path, device: &str, words: &[&str]) -> Said {
    let path = folder.join("trace.json");
    fs::write(&path, trace(device)).unwrap();
    let own = ["report", "--trace", path.to_str().unwrap(), "--db", DATABASE];
    let said = gemm_tune(&[&own[..], words].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    said
}

#[test]
fn the_gain_of_a_program_is_a_table_rows_and_a_document() {
    let folder = tempfile::tempdir().unwrap();
    let document: Value =
        serde_json::from_str(&report(folder.path(), "NVIDIA H200", &["--json"]).out).unwrap();
    let rows = document["products"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    let of = |m: u64, layout: &str| {
        let is_own = |row: &&Value| row["problem"]["m"] == m && row["problem"]["layout"] == layout;
        rows.iter().find(is_own).unwrap_or_else(|| panic!("{document}"))
    };
    let (large, row) = (of(4096, "nn"), of(1, "nn"));
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{document}"));
    let saved = 10.0 * (1000.0 - number(&large["tuned_us"]));
    assert!((number(&large["saved_us"]) - saved).abs() < 1e-6 && saved > 0.0, "{large}");
    assert!(number(&row["saved_us"]) < 0.0 && number(&row["speedup"]) < 1.0, "{row}");
    assert!(
        (number(&row["share"]) - 2.0 / 14.0).abs() < 1e-4 && row["library_us"] == 19.07,
        "{row}"
    );
    // A kernel that is slower is no gain.
    assert_eq!((number(&document["saved_us"]), number(&document["torch_us"])), (saved, 14000.0));
    for untuned in [of(4096, "nt"), of(8, "nn")] {
        assert!(untuned["tuned_us"].is_null() && untuned["saved_us"].is_null(), "{untuned}");
    }
    let said = report(folder.path(), "NVIDIA H200", &["--csv"]);
    assert_eq!(said.out.lines().count(), 5, "{}", said.out);
    let said = report(folder.path(), "NVIDIA H200", &[]);
    let in_all = "expected gain: ";
    assert!(said.out.contains(in_all) && said.out.contains("2 of 4 problems have"), "{}", said.out);
    assert!(said.out.contains("71.4 %"), "{}", said.out);
}

#[test]
fn the_page_has_the_products_of_the_program_and_its_winners_only() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let said = report(folder.path(), "NVIDIA H200", &["-o", page.to_str().unwrap()]);
    assert!(said.out.contains("2 problems"), "{}", said.out);
    let text = fs::read_to_string(page).unwrap();
    let (_, section) = text.split_once("<section id=\"program\">").unwrap();
    let (section, _) = section.split_once("</section>").unwrap();
    assert_eq!(section.matches("<tr>").count(), 5, "{section}");
    assert_eq!(section.matches("<a href=\"#problem-").count(), 2, "{section}");
    for words in ["What serve &lt;/script&gt;.py gains", "71.4", "3 calls of mm of torch.float64"] {
        assert!(section.contains(words), "{words}: {section}");
    }
    assert!(text.contains("expected gain of the traced products"), "there is no tile");
}

#[test]
fn records_of_another_device_gain_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let said = report(folder.path(), "NVIDIA H100 PCIe", &[]);
    assert!(said.err.contains("no product of the trace has a record"), "{}", said.err);
    assert!(said.out.contains("0 of 4 problems have a tuned kernel"), "{}", said.out);
}
