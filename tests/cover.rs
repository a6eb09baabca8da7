//! `gemm-tune cover` on the cpu device: how a map ends, and what it is made of.

use std::collections::BTreeMap;
use std::fs;

use gemm_tune::model::{Dtype, Layout, Problem};
use gemm_tune::session::{Trace, TracedProduct};

use crate::support::program::{check, gemm_tune};

#[test]
fn a_map_ends_with_its_budget_and_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let [db, cache] = ["map.toml", "cache"].map(|name| folder.path().join(name));
    let [db, cache] = [&db, &cache].map(|path| path.to_str().unwrap());
    let log = folder.path().join("map.cover.jsonl");
    let problem =
        r#"{"shape":{"m":5,"n":6,"k":7},"batch":1,"dtype":"f32","compute":"f32","layout":"nn"}"#;
    let step = format!(
        "{{\"problem\":{problem},\"log_regret\":0.5,\"at_random\":true,\"trainings\":0,\"after_s\":9.0}}\n"
    );
    fs::write(&log, step).unwrap();
    let arguments = [
        "cover",
        "--device",
        "cpu",
        "--budget",
        "1s",
        "--max-operations",
        "1e6",
        "--db",
        db,
        "--cache",
        cache,
    ];
    let said = gemm_tune(&arguments);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("going on after 1 problem"), "{}", said.err);
    assert!(said.out.contains("64.9 %"), "{}", said.out);
    assert!(said.out.contains("not reached"), "{}", said.out);
    // Without the built-in model, it goes on with what the map knows itself.
    let said = gemm_tune(&[&arguments[..], &["--uninformed"]].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("going on after"), "{}", said.err);
    check(&["cover", "--max-operations", "3"], 2, &["leaves too few problems"]);
    check(&["cover", "--regret", "x"], 2, &["x"]);
}

#[test]
fn a_map_of_a_list_tunes_its_problems_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let [db, cache, list, trace] = ["map.toml", "cache", "list.txt", "trace.json"]
        .map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    fs::write(&list, "8x8x8\n16x8x8 tn # twice\n16x8x8 tn\n").unwrap();
    let call = ["cover", "--device", "cpu", "--family", "naive", "--db", &db, "--cache", &cache];
    let said = gemm_tune(&[&call[..], &["--shapes", &list]].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("a map of 2 problems"), "{}", said.err);
    assert!(
        said.out.contains("2 problems of 2") && said.out.contains("all are tuned"),
        "{}",
        said.out
    );
    let records = fs::read_to_string(&db).unwrap();
    assert_eq!(records.matches("[[record]]").count(), 2, "{records}");
    // Those of a trace, of which one is known already.
    let product = |shape: &str, layout, epilogue: &str| {
        let shape = shape.parse().unwrap();
        let plain = Problem { layout, ..Problem::new(shape, Dtype::F32) };
        let problem = Problem { epilogue: epilogue.parse().unwrap(), ..plain };
        TracedProduct { problem, count: 3, time: None, samples: 0 }
    };
    let of = |products: Vec<TracedProduct>| {
        let (program, torch, device) =
            (vec!["a.py".to_owned()], "2.9".to_owned(), "cpu".to_owned());
        Trace { program, torch, device, seconds: 1.0, products, others: BTreeMap::new() }.text()
    };
    let products = vec![product("16x8x8", Layout::Tn, "bias"), product("24x8x8", Layout::Nn, "")];
    fs::write(&trace, of(products)).unwrap();
    let said = gemm_tune(&[&call[..], &["--trace", &trace]].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("going on after 1 problem"), "{}", said.err);
    assert!(said.out.contains("2 problems of 2"), "{}", said.out);
    check(&["cover", "--shapes", &list, "--trace", &trace], 2, &["cannot be used with"]);
    fs::write(&trace, of(Vec::new())).unwrap();
    check(&["cover", "--trace", &trace], 2, &["no product to tune"]);
}
