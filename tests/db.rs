//! What `gemm-tune db` and `--shard` show and do, as a person sees it: on the databases of
//! `tests/databases/`, where `one.toml` and `two.toml` disagree about two problems.

use std::fs;
use std::path::Path;

use crate::support::program::{Said, gemm_tune, gemm_tune_with};
use crate::support::{CACHE, nvrtc_or_skip};

const ONE: &str = "tests/databases/one.toml";
const TWO: &str = "tests/databases/two.toml";

/// What a good call says.
fn good(arguments: &[&str]) -> String {
    let Said { code, out, err } = gemm_tune(arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {err}");
    out
}

fn json(arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&good(&[arguments, &["--json"]].concat())).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_list_has_a_line_for_each_record() {
    insta::assert_snapshot!(good(&["db", "list", "--db", ONE, "--db", TWO]));
    let count = |arguments: &[&str]| {
        let all = [&["db", "list", "--db", TWO], arguments].concat();
        json(&all)["records"].as_array().unwrap().len()
    };
    assert_eq!(count(&[]), 3);
    assert_eq!(count(&["--shape", "33x65x129", "--shape", "4096x4096x1024"]), 2);
    assert_eq!(count(&["--device-name", "h200", "--dtype", "f32", "--layout", "nn"]), 3);
    assert_eq!(count(&["--device-name", "b200"]), 0);
    assert_eq!(count(&["--layout", "tn"]), 0);
}

#[test]
fn a_record_shows_everything_by_its_shape_or_key() {
    let by_shape = good(&["db", "show", "4096x4096x1024", "--db", ONE]);
    insta::assert_snapshot!(by_shape);
    let listed = json(&["db", "list", "--db", ONE, "--shape", "4096x4096x1024"]);
    let key = listed["records"][0]["key"].as_str().unwrap();
    assert_eq!(good(&["db", "show", key, "--db", ONE]), by_shape);
    assert_eq!(good(&["db", "show", &key[..5].to_uppercase(), "--db", ONE]), by_shape);
    let shown = json(&["db", "show", key, "--db", ONE]);
    assert_eq!(shown["records"][0]["confidence"]["rounds"], 40);
    assert_eq!(shown["records"][0]["provenance"]["template_hash"], "9cba0c8ed8b54b9d");
}

#[test]
fn a_merge_tells_what_it_leaves_out() {
    let folder = tempfile::tempdir().unwrap();
    let (out, other) = (folder.path().join("out.toml"), folder.path().join("other.toml"));
    let said = good(&["db", "merge", ONE, TWO, "-o", text(&out)]);
    insta::assert_snapshot!(said.replace(text(folder.path()), "FOLDER"));
    good(&["db", "merge", TWO, ONE, "-o", text(&other)]);
    assert_eq!(fs::read_to_string(&out).unwrap(), fs::read_to_string(&other).unwrap());
    let merged = json(&["db", "merge", ONE, TWO, "-o", text(&out)]);
    assert_eq!(merged["records"], 3, "merging again changes nothing");
    assert_eq!(fs::read_to_string(&out).unwrap(), fs::read_to_string(&other).unwrap());
}

#[test]
fn pruning_tells_first_and_then_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db.toml");
    fs::copy(TWO, &path).unwrap();
    let before = fs::read_to_string(&path).unwrap();
    let prune = ["db", "prune", "--db", text(&path), "--interim"];
    let said = good(&prune);
    insta::assert_snapshot!(said.replace(text(folder.path()), "FOLDER"));
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
    let said = good(&[&prune[..], &["--yes"]].concat());
    assert!(said.contains("1 records removed from"), "{said}");
    let after = fs::read_to_string(&path).unwrap();
    assert!(after.starts_with("# From the second node.\nschema = 2\n"), "{after}");
    assert_eq!(after.matches("[[record]]").count(), 2);
}

#[test]
fn what_cannot_be_done_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let newer = folder.path().join("newer.toml");
    fs::write(&newer, "schema = 99\n").unwrap();
    let newer = text(&newer);
    for (arguments, code, words) in [
        (&["db", "list", "--db", "/nowhere.toml"][..], 1, "cannot read `/nowhere.toml`"),
        (&["db", "list", "--db", newer], 1, "written by a newer gemm-tune (schema 99)"),
        (&["db", "list", "--db", ONE, "--shape", "3x3"], 2, "`3x3` is not a shape"),
        (&["db", "list", "--db", ONE, "--dtype", "f8"], 2, "`f8` is no dtype"),
        (&["db", "show", "xyz", "--db", ONE], 2, "neither a shape"),
        (&["db", "show", "1x1x1", "--db", ONE], 1, "no record of `1x1x1` in tests/databases/one"),
        (&["db", "merge", ONE, newer, "-o", "target/no.toml"], 1, "newer gemm-tune"),
        (&["db", "merge", ONE, "-o", "/proc/none/x.toml"], 1, "cannot write `/proc/none`"),
        (&["db", "merge", "-o", "x.toml"], 2, "<FILE>"),
        (&["db", "prune", "--db", ONE], 2, "nothing says which records go"),
        (&["db", "prune", "--db", ONE, "--nvrtc-before", "new"], 2, "`new` is no version"),
        (&["db"], 2, "Usage"),
        (&["--shape", "1x1x1", "--shard", "1/2"], 2, "--shapes"),
    ] {
        let said = gemm_tune(arguments);
        assert_eq!(said.code, Some(code), "{arguments:?}: {}", said.err);
        assert!(said.err.contains(words), "{arguments:?} does not say `{words}`:\n{}", said.err);
    }
    assert!(!Path::new("target/no.toml").exists());
}

#[test]
fn shards_of_a_file_are_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let shapes = folder.path().join("shapes.txt");
    fs::write(&shapes, "64x64x64\n4096x4096x4096\n32x32x32\n2048x4096x4096\n2048x4096x4095\n")
        .unwrap();
    let searched = |shard: &[&str], variables: &[(&str, &str)]| {
        let dry_run = ["--shapes", text(&shapes), "--dry-run", "--device", "cpu", "--json"];
        let said = gemm_tune_with(&[&dry_run[..], shard].concat(), variables);
        assert_eq!(said.code, Some(0), "{}", said.err);
        let document: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        let runs = document["dry_run"].as_array().unwrap().clone();
        runs.iter().map(|run| run["problem"]["m"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(searched(&["--shard", "1/2"], &[]), [64, 4096]);
    assert_eq!(searched(&["--shard", "2/2"], &[]), [32, 2048, 2048]);
    let slurm = [
        ("SLURM_ARRAY_TASK_ID", "8"),
        ("SLURM_ARRAY_TASK_MIN", "7"),
        ("SLURM_ARRAY_TASK_COUNT", "2"),
    ];
    assert_eq!(searched(&[], &slurm), [32, 2048, 2048]);
    assert_eq!(searched(&["--shard", "1/1"], &slurm).len(), 5);
    assert_eq!(searched(&["--shard", "/2"], &[("JOB_COMPLETION_INDEX", "0")]), [64, 4096]);
}

#[test]
fn verifying_tells_a_record_that_holds_from_one_that_does_not() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cpu.toml");
    let on_cpu = ["--device", "cpu", "--db", text(&path), "--cache", CACHE];
    let tune = ["--shape", "40x30x20", "--family", "tiled", "--max-configs", "4", "--fresh"];
    good(&[&tune[..], &on_cpu].concat());
    let verify = [&["db", "verify"][..], &on_cpu].concat();
    let said = good(&verify);
    assert!(said.contains("40x30x20 f32 nn (key ") && said.contains(") holds\n"), "{said}");
    assert!(said.contains(" %, modelled)"), "{said}");
    assert!(said.contains("1 of 1 records of cpu hold"), "{said}");
    // Modelled times need no final, so that there is nothing to write.
    let before = fs::read_to_string(&path).unwrap();
    let said = good(&[&verify[..], &["--update"]].concat());
    assert!(said.contains("  update          none: no final was held\n"), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
    let said = gemm_tune(&[&verify[..], &["--runner-up-faster"]].concat());
    assert!(said.err.contains("no such record of cpu"), "{}", said.err);

    let recorded = fs::read_to_string(&path).unwrap();
    let line = |name: &str| {
        let found = recorded.lines().find(|line| line.starts_with(name));
        found.unwrap_or_else(|| panic!("no {name} in\n{recorded}")).to_owned()
    };
    let slower = |text: &str, name: &str| text.replace(&line(name), &format!("{name} = 900.0"));
    let late = ["median_us", "p05_us", "p95_us"];
    let late = late.iter().fold(recorded.clone(), |text, name| slower(&text, name));
    for (tampered, words) in [
        (late, "the winner takes "),
        (
            recorded.replace(&line("template_hash"), "template_hash = \"0\""),
            "the template has changed, from 0 to ",
        ),
        (
            recorded.replace("PAD = 0", "PAD = 1"),
            "the winner cannot be confirmed: it is not legal any more: `PAD == 0 or",
        ),
        (recorded.replace("family = \"tiled\"", "family = \"x\""), "no family is named `x`"),
    ] {
        fs::write(&path, &tampered).unwrap();
        let said = gemm_tune(&verify);
        assert_eq!(said.code, Some(1), "{words}: {}", said.err);
        assert!(said.out.contains(words) && said.out.contains(" drifts\n"), "{}", said.out);
        assert!(said.out.contains("0 of 1 records of cpu hold"), "{}", said.out);
        assert_eq!(fs::read_to_string(&path).unwrap(), tampered, "only looked at");
        let said = gemm_tune(&[&verify[..], &["--json"]].concat());
        let document: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(document["verified"][0]["holds"], false);
    }
    let said = gemm_tune(&["db", "verify", "--device", "cpu", "--db", ONE, "--cache", CACHE]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("2 records are of other devices than cpu"), "{}", said.err);
    assert!(said.err.contains("no such record of cpu in tests/databases/one.toml"), "{}", said.err);
}

#[test]
fn a_lookup_states_its_source_and_the_reason() {
    let lookup = |arguments: &[&str]| {
        good(
            &[&["lookup", "--db", ONE, "--db", TWO, "--device-name", "nvidia h200"], arguments]
                .concat(),
        )
    };
    insta::assert_snapshot!(
        [
            lookup(&["--shape", "4096x4096x1024"]),
            lookup(&["--shape", "2048x1111x600"]),
            lookup(&["--shape", "1024x1024x1024", "--lda", "1025", "--align", "16"]),
            lookup(&["--shape", "777x777x777", "--layout", "tt"]),
        ]
        .join("\n")
    );
    // With a learned model, the legal kernel with the lowest time by it.
    let many = "tests/databases/h200.toml";
    let document = json(&["lookup", "--shape", "4096x4096x3072", "--db", many, "--device", "auto"]);
    assert_ne!(document["source"], "exact");
    let because = document["because"].as_str().unwrap();
    assert!(because.contains("by the learned model"), "{because}");
    assert!(document["predicted_us"].as_f64().is_some_and(|time| time > 500.0), "{document}");
}

/// Nothing was learned of `skinny`, which nothing else comes near for few rows or columns.
#[test]
fn a_family_of_which_nothing_was_learned_is_no_worse_for_it() {
    let shipped = ["--db", "results/nvidia-h200.toml", "--device-name", "nvidia h200"];
    for (shape, layout, family) in [
        ("2x4096x4096", "nn", "skinny"),
        ("4096x3x4096", "nn", "skinny"),
        ("2x4096x4096", "tn", "skinny"),
        ("40x4096x4096", "tn", "pipelined"),
    ] {
        let document =
            json(&[&["lookup", "--shape", shape, "--layout", layout], &shipped[..]].concat());
        assert_eq!(document["family"], family, "{shape} {layout}: {document}");
    }
}

#[test]
fn a_lookup_that_cannot_be_answered_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.toml");
    fs::write(&empty, "").unwrap();
    for (arguments, code, words) in [
        (&["--shape", "1x1x1", "--db", text(&empty)][..], 1, "no device to answer for"),
        (&["--shape", "1x1x1", "--db", "/nowhere.toml"], 1, "cannot read `/nowhere.toml`"),
        (&["--shape", "8x8x8", "--db", ONE, "--lda", "7"], 2, "lda is 7: rows of A have 8"),
        (&["--shape", "8x8x8", "--db", ONE, "--align", "6"], 2, "power of two"),
        (&["--shape", "8x8x8", "--db", ONE, "--device-name", "H100"], 2, "one of `NVIDIA H200`"),
        (
            &["--shape", "8x8x8", "--pin", ONE],
            1,
            "is not among the 2 pinned problems of NVIDIA H200",
        ),
        (&["--shape", "8x8x8", "--pin", "/nowhere.toml"], 1, "cannot read `/nowhere.toml`"),
        (&["--shape", "8x8", "--db", ONE], 2, "is not a shape"),
        (&[], 2, "nothing to look up"),
    ] {
        let arguments = [&["lookup"], arguments].concat();
        let said = gemm_tune(&arguments);
        assert_eq!(said.code, Some(code), "{arguments:?}: {}", said.err);
        assert!(said.err.contains(words), "{arguments:?} does not say `{words}`:\n{}", said.err);
    }
}

#[test]
fn records_are_stamped_anew_where_the_machine_code_is_equal() {
    let Some(nvrtc) = nvrtc_or_skip() else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| text(&folder.path().join(name)).to_owned();
    let (db, spaces, templates) = (at("db.toml"), at("spaces"), at("templates"));
    fs::copy("tests/databases/h200.toml", &db).unwrap();
    for folder in [&spaces, &templates] {
        fs::create_dir(folder).unwrap();
    }
    fs::copy("search-spaces/tiled.toml", format!("{spaces}/tiled.toml")).unwrap();
    let template = fs::read_to_string("templates/tiled.cu.tera").unwrap();
    let restamp = |template: &str, form: &str| {
        fs::write(format!("{templates}/tiled.cu.tera"), template).unwrap();
        let own = ["db", "restamp", "--db", &db, "--before-spaces", &spaces];
        let rest = ["--before-templates", &templates, "--random", "2", "--yes"];
        let path = nvrtc.path().to_str().unwrap();
        let variables = [("GEMM_TUNE_NVRTC", path), ("GEMM_TUNE_CACHE", CACHE)];
        gemm_tune_with(&[&own[..], &rest, &["--output-format", form]].concat(), &variables)
    };
    // A comment changes the identity of a template, and no machine code.
    let said = restamp(&format!("// The version before.\n{template}"), "csv");
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let table = said.out;
    assert!(table.starts_with("family,source,problem,verdict,detail,before,after\n"), "{table}");
    assert!(table.lines().skip(1).all(|line| line.starts_with("tiled,")), "{table}");
    let stamped = fs::read_to_string(&db).unwrap();
    // Other machine code: nothing is stamped.
    let other = template.replacen("sum += As", "sum -= As", 1);
    assert_ne!(other, template);
    let said = restamp(&other, "table");
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.out.contains("0 records stamped anew"), "{}", said.out);
    assert_eq!(fs::read_to_string(&db).unwrap(), stamped);
}
