//! `gemm-tune compare` with rungs and chosen configurations, on the host: who takes part, in which
//! order, and what is drawn. Times are modelled and not looked at.

use std::fs;

use gemm_tune::model::{Device, Dtype, Problem};
use gemm_tune::space::{Families, ladder};
use serde_json::Value;

use crate::support::program::{Said, gemm_tune, gemm_tune_with};
use crate::support::{cache, nvrtc_or_skip};

/// Rungs of strict f32, and those of tensor cores.
const RUNGS: [&str; 7] = [
    "naive",
    "tiled",
    "tiled, wide K step",
    "coarsened by 8",
    "register tiles",
    "no bank conflicts",
    "double buffered",
];
const TENSOR_CORE_RUNGS: [&str; 8] = [
    "mma.sync",
    "mma.sync, ring of four",
    "wgmma",
    "wgmma, two warpgroups",
    "TMA stores",
    "persistent",
    "clusters",
    "ping-pong",
];

fn compare(arguments: &[&str]) -> Said {
    let cache = cache();
    let variables = [("GEMM_TUNE_CACHE", cache.to_str().unwrap()), ("CUDA_VISIBLE_DEVICES", "")];
    gemm_tune_with(&[&["compare", "--device", "cpu", "--db"], arguments].concat(), &variables)
}

#[test]
fn every_rung_is_legal_on_the_series_of_the_ladder() {
    let (families, device) = (Families::built_in().unwrap(), Device::h200());
    let rungs = ladder(None).unwrap();
    let names: Vec<&str> = rungs.iter().map(|rung| rung.name.as_str()).collect();
    assert_eq!(names, [&RUNGS[..], &TENSOR_CORE_RUNGS].concat());
    let series = fs::read_to_string("search-spaces/shapes/ladder.txt").unwrap();
    let shapes: Vec<&str> = series.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(shapes.len(), 15);
    for shape in shapes {
        for (at, rung) in rungs.iter().enumerate() {
            let dtype = if at < RUNGS.len() { Dtype::F32 } else { Dtype::Bf16 };
            let problem = Problem::new(shape.parse().unwrap(), dtype);
            let (family, set) = rung.config.split_once(':').unwrap();
            let chosen = families.get(family).unwrap().choose(set, &problem, &device);
            chosen.unwrap_or_else(|error| panic!("{shape}, {}: {error}", rung.name));
        }
    }
}

#[test]
fn rungs_and_chosen_configurations_stand_side_by_side() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (database, plot) = (folder.path().join("none.toml"), folder.path().join("plot.svg"));
    let (database, plot) = (database.to_str().unwrap(), plot.to_str().unwrap());
    let shapes = ["--shape", "64x64x64", "--shape", "128x128x64"];
    let chosen = ["--ladder", "--config", "tiled:TILE=8", "--plot", plot];
    let arguments = [&[database], &shapes[..], &chosen[..]].concat();
    let said = compare(&arguments);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let mut rest = said.out.as_str();
    for name in RUNGS.iter().chain(&["tiled:TILE=8"]) {
        let at = rest.find(&format!("\n {name:>18}")).or_else(|| rest.find(name));
        rest = &rest[at.unwrap_or_else(|| panic!("no {name} in its place: {}", said.out))..];
    }
    for words in
        ["modelled", "TFLOP/s", "over M = N, K = 64", "h tiled:TILE=8", "geometric mean of 2"]
    {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
    let svg = fs::read_to_string(plot).unwrap();
    for words in ["<svg", "double buffered", "M = N, K = 64", "peak"] {
        assert!(svg.contains(words), "{words}");
    }

    let document: Value =
        serde_json::from_str(&compare(&[&arguments[..], &["--json"]].concat()).out).unwrap();
    let contestants = document["compared"][1]["contestants"].as_array().unwrap();
    assert_eq!(contestants.len(), 8);
    assert_eq!(contestants[4]["family"], "blocktile");
    assert_eq!(contestants[4]["timing"], "modelled");
    let csv = compare(&[&arguments[..], &["--csv"]].concat()).out;
    assert_eq!(csv.lines().count(), 1 + 2 * 8, "{csv}");
}

#[test]
fn who_cannot_take_part_is_told_and_the_others_do() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    let chosen = ["--config", "tiled:TILE=8", "--config", "tiled:TILE=3"];
    let said = compare(&[&["/nowhere.toml", "--shape", "32x32x32"], &chosen[..]].concat());
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.out.contains("tiled:TILE=3: TILE of family `tiled` is one of"), "{}", said.out);
    assert!(said.err.contains("no winner of 32x32x32"), "{}", said.err);

    let said = compare(&["/nowhere.toml", "--shape", "32x32x32", "--config", "tilde:X=1"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("did you mean `tiled`?"), "{}", said.err);
}

#[test]
fn the_help_names_who_can_take_part() {
    let help = gemm_tune(&["compare", "--help"]).out;
    for word in ["--ladder", "--config", "--plot", "--shapes", "--csv", "--json"] {
        assert!(help.contains(word), "{word}: {help}");
    }
}
