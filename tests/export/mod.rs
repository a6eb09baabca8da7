//! What other programs make of exported files: Kernel Tuner itself plays a space, and its schema
//! judges the T4 results; C compilers and Python take the artifacts. Python packages are installed
//! below `target/`.

use std::fs;
use std::path::Path;
use std::process::Command;

use rig::{export, python, tune};

use crate::support::program::gemm_tune;
use crate::support::without::skip;

mod artifacts;
mod bundle;
mod choices;
mod classes;
mod dispatch;
mod interface;
mod jax;
mod left_out;
mod libraries;
mod packed;
pub(crate) mod rig;
mod runtime;
mod surfaces;

const PLAY: &str = r#"
import json, sys, kernel_tuner
path = sys.argv[1]
cache = json.load(open(path))
keys = cache["tune_params_keys"]
known = set(cache["cache"])
restrict = lambda p: ",".join(str(p[k]) for k in keys) in known
def play(strategy, **options):
    results, _ = kernel_tuner.tune_kernel(
        cache["kernel_name"], "", cache["problem_size"], [], cache["tune_params"],
        restrictions=restrict, simulation_mode=True, cache=path, strategy=strategy,
        strategy_options=options, verbose=True, quiet=True)
    return results
best = min(e["time"] for e in cache["cache"].values() if isinstance(e["time"], float))
everything = play("brute_force")
assert len(everything) == len(known), (len(everything), len(known))
assert min(r["time"] for r in everything) == best
some = play("random_sample", max_fevals=4)
assert some and min(r["time"] for r in some) >= best
print("best", best)
"#;

const VALIDATE: &str = r#"
import json, sys, os, kernel_tuner, jsonschema
folder = os.path.join(os.path.dirname(kernel_tuner.__file__), "schema", "T4", "1.0.0")
schema = json.load(open(os.path.join(folder, "results-schema.json")))
document = json.load(open(sys.argv[1]))
jsonschema.validate(document, schema)
assert document["metadata"]["timeunit"] == "milliseconds"
assert document["metadata"]["timing"] == "modelled"
print("valid", len(document["results"]))
"#;

#[test]
fn kernel_tuner_plays_an_exported_space_and_its_schema_takes_the_results() {
    let folder = tempfile::tempdir().unwrap();
    if !tune(folder.path(), "44x31x23", "tiled") {
        return;
    }
    let (cache, results) = (folder.path().join("cache.json"), folder.path().join("t4.json"));
    export("kernel-tuner", &cache);
    export("t4", &results);
    let text = fs::read_to_string(&cache).unwrap();
    assert!(text.ends_with("}\n}\n}"), "Kernel Tuner goes on writing from there");

    let python = match python() {
        Ok(python) => python,
        Err(why) => return skip("python", &format!("no Python with kernel_tuner: {why}")),
    };
    for (program, file, word) in [(PLAY, &cache, "best"), (VALIDATE, &results, "valid")] {
        let output =
            Command::new(&python).args(["-c", program]).arg(file).output().expect("python starts");
        let said = String::from_utf8_lossy(&output.stdout);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains(word), "{said}\n{error}");
    }
}

#[test]
fn records_are_exported_to_files_and_mistakes_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let two = ["--db", "tests/databases/one.toml", "--db", "tests/databases/two.toml"];
    for (format, name, file, words) in [
        ("json", "all.json", "all.json", "\"key\": \""),
        ("csv", "deep/all.csv", "deep/all.csv", "key,m,n,k,batch"),
        ("wisdom", "w", "w/gemm_f32_nn_tiled.wisdom", "\"tunable_parameters\""),
    ] {
        let out = out(name);
        let said = gemm_tune(&[&["export", "--format", format, "-o", &out], &two[..]].concat());
        assert_eq!(said.code, Some(0), "{format}: {}", said.err);
        assert!(said.out.contains("5 records written to"), "{}", said.out);
        let text = fs::read_to_string(folder.path().join(file)).unwrap();
        assert!(text.contains(words), "{format}: {text}");
    }
    let garbage = out("garbage.jsonl");
    fs::write(&garbage, "no journal\n").unwrap();
    let file = out("x");
    for (arguments, code, words) in [
        (&["--format", "xml", "-o", "x"][..], 2, "json"),
        (&["--format", "json"], 2, "-o"),
        (
            &["--format", "json", "-o", "/proc/none/x", two[0], two[1]],
            1,
            "cannot write `/proc/none",
        ),
        (&["--format", "json", "-o", &file, two[0], two[1], "--layout", "tt"], 1, "no such record"),
        (&["--format", "json", "-o", &file, "--db", "/nowhere.toml"], 1, "cannot read"),
        (
            &["--format", "t4", "-o", &file, "--journal", &garbage],
            1,
            "garbage.jsonl: no journal of gemm-tune",
        ),
        (&["--format", "t4", "-o", &file, "--journal", "/nowhere"], 1, "/nowhere: cannot be read"),
        (
            &["--format", "t4", "-o", &file, "--shape", "9x9x9", "--cache", &file],
            1,
            "no such journal",
        ),
    ] {
        let said = gemm_tune(&[&["export"], arguments].concat());
        assert_eq!(said.code, Some(code), "{arguments:?}: {}", said.err);
        assert!(said.err.contains(words), "{arguments:?} does not say `{words}`:\n{}", said.err);
    }
    assert!(!Path::new(&file).exists());
}
