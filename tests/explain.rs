//! `gemm-tune explain`, on a machine with no GPU: a recorded winner beside a journal of four.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::support::program::{Said, gemm_tune, gemm_tune_with};
use crate::support::{cache, nvrtc_or_skip};

/// A record of the database: 16, 4 and 0 of these parameters.
const SHAPE: &str = "33x65x129";
const PARAMETERS: [&str; 3] = ["TILE", "K_TILES", "PAD"];

fn journal(folder: &Path, m: u64, n: u64, k: u64) -> PathBuf {
    let regime = json!({ "cache": "rotate", "power": "burst" });
    let heading = json!({
        "gemm_tune_journal": 2,
        "problem": {
            "shape": { "m": m, "n": n, "k": k },
            "batch": 1, "dtype": "f32", "compute": "f32", "layout": "nn",
        },
        "device": "NVIDIA H200", "compute_capability": "9.0", "driver": "580.159.04",
        "regime": regime,
    });
    let mut lines = vec![heading.to_string()];
    let entries = [([16, 4, 0], Some(4.5)), ([32, 4, 0], Some(5.4)), ([16, 1, 0], Some(4.59))];
    for (number, (values, time)) in entries.into_iter().chain([([8, 1, 0], None)]).enumerate() {
        let parameters: serde_json::Map<String, Value> = PARAMETERS
            .iter()
            .zip(values)
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect();
        let mut entry = json!({
            "kernel": format!("{number:032x}"), "family": "tiled", "parameters": parameters,
        });
        let outcome = match time {
            Some(time) => json!({
                "outcome": "correct",
                "validation": { "reference": "f64", "max_error": 1e-7, "bound": 1e-5 },
                "measurement": {
                    "samples": [time], "launches_per_sample": 1, "regime": regime,
                    "timing": "measured", "sm_clock_mhz": 1980,
                },
                "resources": { "registers": 32, "spill_bytes": 0, "shared_bytes": 0, "occupancy": 1.0 },
            }),
            None => json!({ "outcome": "runtime", "during": "launching", "message": "a fault" }),
        };
        entry.as_object_mut().unwrap().extend(outcome.as_object().unwrap().clone());
        lines.push(entry.to_string());
    }
    let path = folder.join(format!("{m}x{n}x{k}.jsonl"));
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    path
}

fn explain(arguments: &[&str]) -> Said {
    let cache = cache();
    let variables = [("GEMM_TUNE_CACHE", cache.to_str().unwrap()), ("CUDA_VISIBLE_DEVICES", "")];
    gemm_tune_with(&[&["explain"], arguments].concat(), &variables)
}

#[test]
fn a_winner_is_explained_by_its_limits_neighbours_and_losers() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let journal = journal(folder.path(), 33, 65, 129);
    let database = folder.path().join("winners.toml");
    fs::copy("tests/databases/h200.toml", &database).unwrap();
    let (journal, database) = (journal.to_str().unwrap(), database.to_str().unwrap());
    let arguments = ["--shape", SHAPE, "--db", database, "--journal", journal];
    let said = explain(&[&arguments[..], &["--verbose"]].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    for words in [
        "4.546 µs, 0.122 TFLOP/s",
        "1.094 times as fast as cuBLASLt",
        "shared memory",
        "issue slots",
        "TILE=16    32 +20.0 % (+20.0 %), 8 none correct",
        "K_TILES=4  1 +2.0 % (+2.0 %)",
        "+2.0 %  tiled: as the winner but K_TILES=1",
        "neighbours one value away: 2 measured, 1 legal and not tried, 1 excluded, 0 of these promising",
        "PAD=1 breaks `PAD == 0 or a_transposed or b_transposed` (padding",
        "not tried: TILE=8",
    ] {
        assert!(said.out.contains(words), "`{words}` in:\n{}", said.out);
    }

    let packed = folder.path().join("packed");
    let bytes = fs::read(journal).unwrap();
    let mut encoder = GzEncoder::new(fs::File::create(&packed).unwrap(), Compression::default());
    encoder.write_all(&bytes).unwrap();
    encoder.finish().unwrap();
    let of_packed = explain(&[&arguments[..5], &[packed.to_str().unwrap(), "--verbose"]].concat());
    assert_eq!((said.out, said.code), (of_packed.out, of_packed.code), "{}", of_packed.err);

    let document: Value =
        serde_json::from_str(&explain(&[&arguments[..], &["--json"]].concat()).out).unwrap();
    assert_eq!(document["parameters"]["TILE"], 16);
    assert_eq!(document["limits"][0]["name"], "busiest SM");
    assert_eq!(document["losers"][0]["differing"][0], json!(["K_TILES", 1]));
    let effects = document["effects"].as_array().unwrap();
    let tile = effects.iter().find(|effect| effect["parameter"] == "TILE").unwrap();
    assert_eq!(tile["others"].as_array().unwrap().len(), 2);
}

#[test]
fn what_cannot_be_explained_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let other = journal(folder.path(), 8, 8, 8);
    let other = other.to_str().unwrap();
    for (arguments, code, words) in [
        (&["--shape", "2x3x5", "--db", "/nowhere.toml"][..], 1, "cannot read"),
        (&["--shape", SHAPE, "--journal", other], 2, "is of 8x8x8 f32 nn on NVIDIA H200, not of"),
        (&["--shape", "2x3"], 2, "is not a shape"),
        (&["--shape", SHAPE, "--journal", "/nowhere.jsonl"], 1, "cannot be read"),
    ] {
        let said = explain(arguments);
        assert_eq!(said.code, Some(code), "{arguments:?}: {}", said.err);
        assert!(said.err.contains(words), "{arguments:?}: {}", said.err);
    }
}

#[test]
fn a_shape_that_nobody_tuned_is_explained_by_the_answer_of_lookup() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    let arguments = ["40x66x130", "--db", "tests/databases/h200.toml", "--device-name", "h200"];
    let said = explain(&arguments);
    assert_eq!(said.code, Some(0), "{}", said.err);
    for words in ["for 40x66x130 f32 nn on NVIDIA H200", "source: ", "predicted ", "lower bounds"] {
        assert!(said.out.contains(words), "`{words}` in:\n{}", said.out);
    }
    let document: Value =
        serde_json::from_str(&explain(&[&arguments[..], &["--json"]].concat()).out).unwrap();
    assert_eq!(document["timing"], "predicted");
    assert_ne!(document["source"], "exact");
}

#[test]
fn the_help_says_where_it_is_known_from() {
    let help = gemm_tune(&["explain", "--help"]).out;
    for word in ["--journal", "--shape", "cache folder"] {
        assert!(help.contains(word), "{word}: {help}");
    }
}
