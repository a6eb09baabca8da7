//! `gemm-tune report`: a page of every record and a search of 20,000 configurations, small, whole
//! and, in a headless Chromium, without a complaint or a request, with plots and a filter that
//! filters. `GEMM_TUNE_CHROMIUM` names the browser where it is not on the PATH.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::program::gemm_tune;

mod browser;
mod program;
mod winners;

use browser::{between, browse, chromium_or_skip};

const DATABASE: &str = "tests/databases/h200.toml";

/// A legible page of 20,000 configurations stays below this.
const MAX_BYTES: usize = 5_000_000;

const CONFIGURATIONS: usize = 20_000;

/// Values of a made-up space, and how often each parameter's first value is tried.
const PARAMETERS: [(&str, &[i64]); 8] = [
    ("BM", &[16, 32, 64, 128, 256]),
    ("BN", &[16, 32, 64, 128, 256]),
    ("BK", &[4, 8, 16, 32]),
    ("TM", &[1, 2, 4, 8, 16]),
    ("TN", &[1, 2, 4, 8, 16]),
    ("VEC", &[1, 2, 4]),
    ("STAGES", &[1, 2, 3, 4]),
    ("PAD", &[0, 4]),
];

/// The digits of a configuration: spread by a generator with a full period, so that none repeats.
fn digits(number: usize) -> Vec<usize> {
    let raw: usize = PARAMETERS.iter().map(|(_, values)| values.len()).product();
    let mut rest = number * 7_919 % raw;
    PARAMETERS
        .iter()
        .map(|(_, values)| {
            let digit = rest % values.len();
            rest /= values.len();
            digit
        })
        .collect()
}

/// A journal of 4096x4096x1024 on an H200: every eleventh configuration fails.
fn journal() -> String {
    let heading = json!({
        "gemm_tune_journal": 2,
        "problem": {
            "shape": { "m": 4096, "n": 4096, "k": 1024 },
            "batch": 1, "dtype": "f32", "compute": "f32", "layout": "nn",
        },
        "device": "NVIDIA H200", "compute_capability": "9.0", "driver": "580.159.04",
        "regime": { "cache": "rotate", "power": "burst" },
    });
    let mut lines = vec![heading.to_string()];
    for number in 0..CONFIGURATIONS {
        let digits = digits(number);
        let parameters: serde_json::Map<String, Value> = PARAMETERS
            .iter()
            .zip(&digits)
            .map(|((name, values), digit)| ((*name).to_owned(), json!(values[*digit])))
            .collect();
        let mut entry = json!({
            "kernel": format!("{number:032x}"),
            "family": if number % 7 == 0 { "other </script><b>" } else { "made-up" },
            "parameters": parameters,
            "after_s": number as f64 / 40.0,
        });
        let outcome = if number % 11 == 3 {
            json!({ "outcome": "runtime", "during": "launching", "message": format!("fault at {number:x}") })
        } else {
            let far: usize = digits.iter().map(|digit| digit.abs_diff(2)).sum();
            json!({
                "outcome": "correct",
                "validation": { "reference": "f64 on the device", "max_error": 1e-7, "bound": 1e-5 },
                "measurement": {
                    "samples": [750.0 + 90.0 * far as f64 + (number % 97) as f64],
                    "launches_per_sample": 1,
                    "regime": { "cache": "rotate", "power": "burst" },
                    "timing": "measured", "sm_clock_mhz": 1980,
                },
                "resources": { "registers": 128, "spill_bytes": 0, "shared_bytes": 0, "occupancy": 0.5 },
            })
        };
        entry.as_object_mut().unwrap().extend(outcome.as_object().unwrap().clone());
        lines.push(entry.to_string());
    }
    lines.join("\n") + "\n"
}

/// The page, in a folder of its own.
fn report() -> (tempfile::TempDir, PathBuf, String) {
    let folder = tempfile::tempdir().unwrap();
    let (journal_path, page) = (folder.path().join("run.jsonl"), folder.path().join("report.html"));
    fs::write(&journal_path, journal()).unwrap();
    let said = gemm_tune(&[
        "report",
        "--db",
        DATABASE,
        "--journal",
        journal_path.to_str().unwrap(),
        "-o",
        page.to_str().unwrap(),
    ]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.contains("1 of them with their searches"), "{}", said.out);
    let text = fs::read_to_string(&page).unwrap();
    (folder, page, text)
}

#[test]
fn a_page_is_small_and_needs_nothing_else() {
    let (_folder, _, text) = report();
    assert!(text.len() < MAX_BYTES, "{} bytes", text.len());
    for outside in ["src=", "http://", "https://", "url(", "@import", "<link", "<iframe"] {
        let text = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!text.contains(outside), "{outside}");
    }
    for word in [
        "4096x4096x1024 f32 nn",
        "Content-Security-Policy",
        "prefers-color-scheme: dark",
        "data-plot=\"rates\"",
        "data-plot=\"distribution\"",
        "data-plot=\"convergence\"",
        "data-plot=\"values\"",
        "search time in seconds",
        "while launching: fault at",
        "580.159.04",
    ] {
        assert!(text.contains(word), "{word}");
    }
    // What a file says is text, whatever it says.
    assert!(!text.contains("</script><b>"), "a family's name is not escaped");
}

/// Added to a copy of the page: chooses two values, and writes down what it sees.
const PROBE: &str = r#"<script>
addEventListener("load", () => setTimeout(() => {
  const said = [];
  const counts = () => document.querySelector(".count").textContent;
  const drawn = () => document.querySelectorAll("path.configuration").length;
  const choose = (value) => document.querySelector(`[aria-label="${value}"]`)
    .dispatchEvent(new MouseEvent("click", { bubbles: true }));
  said.push(counts(), drawn());
  choose("BM=32");
  said.push(counts(), document.querySelectorAll('[data-plot="distribution"] .over rect').length > 0);
  choose("BM=64");
  said.push(counts());
  choose("BM=32"); choose("BM=64");
  said.push(counts());
  said.push(performance.getEntriesByType("resource").length);
  const fits = (element) => element.scrollWidth <= element.clientWidth;
  said.push(fits(document.documentElement) && fits(document.querySelector(".lines").parentElement));
  const table = document.querySelector("table.fastest");
  table.querySelectorAll("th button")[1].click();
  said.push(table.tHead.rows[0].cells[1].getAttribute("aria-sort"), table.tBodies[0].rows[0].cells[0].textContent);
  const out = document.createElement("pre");
  out.id = "probe";
  out.textContent = said.join("|");
  document.body.append(out);
}, 200));
</script></body>"#;

#[test]
fn a_browser_shows_plots_and_filters_without_a_complaint() {
    let Some(chromium) = chromium_or_skip() else { return };
    let (folder, page, text) = report();
    let (_, console) = browse(&chromium, &page, 1280);
    assert!(console.is_empty(), "{console:#?}");

    let probed = folder.path().join("probed.html");
    fs::write(&probed, text.replace("</body>", PROBE)).unwrap();
    let probe = |width: u32| -> Vec<String> {
        let (document, console) = browse(&chromium, &probed, width);
        assert!(console.is_empty(), "{console:#?}");
        let said = between(&document, "<pre id=\"probe\">", "</pre>").split('|');
        said.map(str::to_owned).collect()
    };
    let said = probe(1280);
    // Axes are level in a narrow window.
    assert_eq!(probe(500), said);
    let own: Vec<usize> = (0..CONFIGURATIONS).filter(|number| number % 7 != 0).collect();
    let correct = |numbers: &[usize]| numbers.iter().filter(|number| *number % 11 != 3).count();
    let with = |values: &[usize]| -> Vec<usize> {
        own.iter().copied().filter(|number| values.contains(&digits(*number)[0])).collect()
    };
    let counted = |numbers: &[usize]| {
        format!(
            "{} of {} configurations match, {} of them correct",
            numbers.len(),
            own.len(),
            correct(numbers)
        )
    };
    assert!(said[0].starts_with(&counted(&own)), "{said:?}");
    assert_eq!(said[1], "250", "lines");
    assert!(said[2].starts_with(&counted(&with(&[1]))), "{said:?}");
    assert_eq!(said[3], "true", "the distribution of what matches");
    assert!(said[4].starts_with(&counted(&with(&[1, 2]))), "{said:?}");
    assert_eq!(said[5], said[0], "all are shown again");
    assert_eq!(said[6], "0", "requests");
    assert_eq!(said[7], "true", "the page or a plot is wider than the window");
    assert_eq!(said[8..], ["ascending", "25"], "the slowest of the listed ones comes first");
}

/// The check above would see what it looks for.
#[test]
fn a_browser_would_have_complained() {
    let Some(chromium) = chromium_or_skip() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("planted.html");
    fs::write(&page, "<!doctype html><script>console.error('planted'); undefined.x</script>")
        .unwrap();
    let (_, console) = browse(&chromium, &page, 1280);
    assert!(console.iter().any(|line| line.contains("planted")), "{console:?}");
    assert!(console.iter().any(|line| line.contains("Uncaught")), "{console:?}");
}

#[test]
fn what_cannot_be_reported_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("x.html");
    let out = out.to_str().unwrap();
    let wrong = folder.path().join("wrong.jsonl");
    fs::write(&wrong, "{}\n").unwrap();
    for (arguments, words) in [
        (vec!["--db", "/nowhere.toml"], &["/nowhere.toml"][..]),
        (vec!["--db", DATABASE, "--shape", "7x5x3"], &["nothing to report", "--journal FILE"]),
        (vec!["--journal", wrong.to_str().unwrap()], &["no journal of gemm-tune"]),
    ] {
        let said = gemm_tune(&[&["report", "-o", out], &arguments[..]].concat());
        assert_eq!(said.code, Some(1), "{arguments:?}");
        for word in words {
            assert!(said.err.contains(word), "{arguments:?}: {}", said.err);
        }
    }
}
