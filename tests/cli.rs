//! Output of the program for people and programs, as far as no GPU is needed: usage, bad input,
//! dry runs.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::program::{check, gemm_tune, path};
use crate::support::{CACHE, nvrtc_or_skip};

/// A folder of a family's two files, made from the tests' own family with one text replaced.
fn family_with(replace: &str, with: &str, in_template: bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, template) in [("spaces/faulty.toml", false), ("templates/faulty.cu.tera", true)] {
        let mut text = fs::read_to_string(Path::new("tests/faulty").join(name)).unwrap();
        if template == in_template {
            assert!(text.contains(replace), "{replace}");
            text = text.replacen(replace, with, 1);
        }
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

#[test]
fn wrong_usage_ends_with_2_and_says_what_to_type() {
    for (arguments, words) in [
        (
            &["--shape", "4096x0x8"][..],
            &["`4096x0x8` has N = 0: every dimension is at least 1"][..],
        ),
        (&["--shape", "4096x4096"], &["is not a shape", "as in `4096x4096x1024`"]),
        (&["--shape", "99999999999x1x1"], &["M is above 2147479552"]),
        (
            &["--shape", "2000000000x2000000000x1", "--batch", "2000000000"],
            &["operand A", "above 2^48"],
        ),
        (&[], &["nothing to tune: give a shape"]),
        (
            &["4096", "4096", "1024"],
            &["write `4096x4096x1024` for one shape", "`--shape 4096 --shape"],
        ),
        (&["lookup", "8", "8", "8"], &["are three shapes, each of them a cube"]),
        (
            &["--shapes", "target/none.txt"],
            &["a relative path begins in the current folder", "search-spaces/shapes"],
        ),
        (&["8", "--dtype", "tf32"], &["`--dtype f32 --compute tf32`"]),
        (&["db", "list", "--dtype", "tf32"], &["`--dtype f32 --compute tf32`"]),
        (&["8", "--dtype", "bfloat16"], &["did you mean `bf16`?"]),
        (&["8", "--epilogue", "rleu"], &["did you mean `relu`?"]),
        (&["--shape", "1x1x1", "--dtype", "f23"], &["`f23` is no dtype: choose one of f32, i32"]),
        (&["--shape", "1x1x1", "--compute", "x"], &["`x` is no compute"]),
        (
            &["--shape", "1x1x1", "--layout", "nx"],
            &["`nx` is no layout: choose one of nn, nt, tn, tt"],
        ),
        (&["--shape", "1x1x1", "--batch", "0"], &["batch is 0, not within 1 to"]),
        (
            &["--shape", "1x1x1", "--family", "nave"],
            &["no family is named `nave`", "did you mean `naive`?"],
        ),
        (
            &["--shape", "1x1x1", "--device", "tpu"],
            &["`tpu` is no device: choose `auto`, `cuda:N`, as in `cuda:0`, `cuda:all`, or `cpu`"],
        ),
        (
            &["--shape", "1x1x1", "--cache-policy", "cold"],
            &["`cold` is no cache policy: choose `rotate` or `hot`"],
        ),
        (
            &["--shape", "1x1x1", "--power", "low"],
            &["`low` is no power state: choose `burst` or `sustained`"],
        ),
        (&["check", "--sample", "0"], &["`0` is no sample: write a number from 1 on, or `all`"]),
        (&["check", "--shape", "3x3"], &["`3x3` is not a shape"]),
        (&["check", "--dtype", "f8"], &["`f8` is no dtype: choose one of f32, i32, f16, bf16, i8"]),
        (
            &["check", "--dtype", "f32", "--compute", "i32"],
            &["compute type i32 takes A in i32, not f32"],
        ),
        (&["check", "--out", "i8"], &["compute type f32 takes D in f32 or f16 or bf16, not i8"]),
        (&["--shape", "1x1x1", "--budget", "soon"], &["`soon` is no time: write `60s`"]),
        (&["--shape", "1x1x1", "--budget=-5s"], &["is no time"]),
        (
            &["--shape", "1x1x1", "--search", "best"],
            &["`best` is no search: choose one of", "exhaustive"],
        ),
        (&["replay", SPACE, "--search", "best"], &["`best` is no search"]),
        (&["replay", SPACE, "--repeats", "0"], &["--repeats"]),
        (&["replay"], &["<FILE>"]),
        (&["--shapes", "/nowhere/at/all"], &["cannot read `/nowhere/at/all`"]),
        (&["--shape", "1x1x1", "--max-configs", "0"], &["--max-configs"]),
        (&["--shap", "1x1x1"], &["--shape"]),
    ] {
        check(arguments, 2, words);
    }
}

#[test]
fn a_wrong_line_of_a_shapes_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shapes.txt");
    fs::write(&file, "# two shapes\n64x64x64\n64x64 # here\n").unwrap();
    check(&["--shapes", &file.to_string_lossy()], 2, &["shapes.txt:3: `64x64` is not a shape"]);
    fs::write(&file, "# none\n").unwrap();
    check(&["--shapes", &file.to_string_lossy()], 2, &["has no shape"]);
}

#[test]
fn a_mistake_in_a_family_is_shown_at_its_place() {
    for (right, wrong, in_template, words) in [
        (
            "[[kernels]]",
            "[[kernel]]",
            false,
            &["faulty.toml:40:3", "did you mean `kernels`?", "^"][..],
        ),
        (
            "by=TILE",
            "by=TIL",
            false,
            &["unknown name `TIL`", "did you mean `TILE`?", "faulty.toml:42:27"],
        ),
        ("summary =", "summary", false, &["faulty.toml:4:"]),
        (
            "{{ TILE }}",
            "{{ TYLE }}",
            true,
            &["faulty.cu.tera:1:25", "`TYLE`", "did you mean `TILE`?"],
        ),
        ("{%- endif %}", "{%- endfi %}", true, &["faulty.cu.tera:10:5"]),
        (
            "[[kernels]]",
            "[[constraints]]\nrequire = 'M > 10 * K'\nbecause = 'no reason'\n[[kernels]]",
            false,
            &["no configuration is legal", "18 by `M > 10 * K` (no reason)"],
        ),
    ] {
        let folder = family_with(right, wrong, in_template);
        let part = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let (spaces, templates) = (part("spaces"), part("templates"));
        check(
            &["--shape", "64x64x64", "--dry-run", "--spaces", &spaces, "--templates", &templates],
            1,
            words,
        );
    }
}

#[test]
fn a_folder_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_string_lossy();
    check(&["--shape", "1x1x1", "--spaces", &path], 1, &["holds no search space"]);
    check(&["--shape", "1x1x1", "--spaces", "/nowhere"], 1, &["cannot read `/nowhere`"]);
    check(&["--shape", "1x1x1", "--templates", "/nowhere"], 1, &["cannot read `/nowhere`"]);
}

#[test]
fn a_database_that_cannot_be_written_is_refused_before_any_work() {
    check(
        &["--shape", "1x1x1", "--db", "/proc/none/db.toml"],
        1,
        &["cannot write", "/proc/none", "--db PATH"],
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("db.toml");
    for (text, words) in [
        ("schema = 99\n", "written by a newer gemm-tune (schema 99)"),
        ("schema = \n", "db.toml:1:"),
    ] {
        fs::write(&file, text).unwrap();
        check(&["--shape", "1x1x1", "--db", &file.to_string_lossy()], 1, &[words]);
        assert_eq!(fs::read_to_string(&file).unwrap(), text, "the file is left alone");
    }
}

#[test]
fn a_dry_run_says_what_would_be_searched_and_why_not_more() {
    let said = gemm_tune(&["--shape", "1023x1025x1027", "--dry-run", "--family", "naive"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    for word in
        ["1023x1025x1027 f32 nn: 24 of 24 candidates", "BOUNDS_CHECK or", "must cover C exactly"]
    {
        assert!(said.out.contains(word), "{word}: {}", said.out);
    }
}

#[test]
fn what_gives_other_bits_in_each_run_is_searched_where_it_is_allowed() {
    let spaces = |allowed: &[&str]| {
        let usual = ["--shape", "512x512x512", "--family", "pipelined", "--dry-run", "--json"];
        let said = gemm_tune(&[&usual, allowed].concat());
        let document: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        let family = document["dry_run"][0]["families"][0].clone();
        let rules = family["pruned"].as_array().unwrap().clone();
        let rule = rules.into_iter().find(|rule| rule["require"] == "not (REDUCTION == 'atomic')");
        (family["legal"].as_u64().unwrap(), rule)
    };
    let (usual, rule) = spaces(&[]);
    let rule = rule.unwrap();
    assert_ne!(rule["configurations"], "0");
    assert!(rule["because"].as_str().unwrap().contains("`--allow-nondeterministic`"), "{rule}");
    let (allowed, rule) = spaces(&["--allow-nondeterministic"]);
    assert_eq!(rule, None);
    assert!(allowed > usual, "{allowed} {usual}");
}

#[test]
fn json_is_one_document_also_on_failure() {
    let said = gemm_tune(&["--shape", "64x64x64", "--dry-run", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(said.code, Some(0));
    assert!(document["dry_run"][0]["families"].as_array().is_some_and(|list| list.len() >= 4));

    let said = gemm_tune(&["--shape", "64x64", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(said.code, Some(2));
    assert!(document["error"].as_str().is_some_and(|error| error.contains("is not a shape")));
}

/// A recorded space.
const SPACE: &str = "tests/data/spaces/xgemm-rtx-2080-ti.json.gz";

#[test]
fn a_search_is_replayed_against_recorded_times() {
    let arguments = ["replay", SPACE, "--repeats", "3", "--max-configs", "120"];
    let said = gemm_tune(&arguments);
    assert_eq!(said.code, Some(0), "{}", said.err);
    for words in ["4489 configurations, 0 of them failed; the best takes 12.30 ms", "worst"] {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
    let said = gemm_tune(&[&arguments[..], &["--json"]].concat());
    let document: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let levels = document.as_array().unwrap();
    let evaluations: Vec<_> = levels.iter().map(|level| level["evaluations"].as_u64()).collect();
    assert_eq!(evaluations, [25, 50, 100, 120].map(Some));
    for level in levels {
        let [worst, median, mean] =
            ["worst", "median", "mean"].map(|name| level[name].as_f64().unwrap());
        assert!(0.0 < worst && worst <= median.min(mean) && mean <= 1.0, "{level}");
    }
    check(&["replay", "Cargo.toml"], 1, &["Cargo.toml:1:2: expected value"]);
    check(&["replay", "/nowhere"], 1, &["/nowhere: cannot be read"]);
}

#[test]
fn a_journal_is_replayed_as_a_search_of_its_problem_begins() {
    let journal = "tests/data/journals/4096x4096x1024.jsonl.gz";
    let arguments = ["replay", journal, "--repeats", "1", "--max-configs", "25", "--json"];
    let fraction = |arguments: &[&str]| {
        let document: serde_json::Value = serde_json::from_str(&gemm_tune(arguments).out).unwrap();
        document[0]["worst"].as_f64().unwrap()
    };
    // The best is among those with the lowest predicted times.
    assert!(fraction(&arguments) < 0.99);
    assert_eq!(fraction(&[&arguments[..], &["--informed"]].concat()), 1.0);
    let expected =
        ["rtx-2080-ti.json.gz: no journal of this program", "where a search would begin"];
    check(&["replay", SPACE, "--informed"], 1, &expected);
}

#[test]
fn learn_reports_the_regret_for_held_out_problems() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("db.model.json");
    let journals = "tests/data/journals";
    // Five of these eight are of `pipelined`, too few to learn from.
    check(&["learn", journals], 1, &["too few problems to learn of any family (8)"]);
    check(&["learn"], 2, &["<JOURNAL>"]);
    check(&["learn", "/nowhere"], 1, &["/nowhere: cannot be read"]);
    check(&["learn", "Cargo.toml"], 1, &["Cargo.toml: no journal of gemm-tune"]);
    let none = folder.path().to_str().unwrap();
    check(&["learn", none], 1, &["no journal is left to learn from"]);
    let few = ["learn", "--libraries", "tests/databases/one.toml"];
    check(&few, 1, &["too few records of NVIDIA H200 with times of a library"]);
    let enough = gemm_tune(&["learn", "--libraries", "tests/databases/h200.toml"]);
    assert_eq!(enough.code, Some(0), "{}", enough.err);
    assert!(enough.out.contains("cuBLASLt f32, own choice"), "{}", enough.out);
    // Copies that are of other problems: what is learned of one is true of all.
    let text = include_bytes!("data/journals/64x64x64-x256.jsonl.gz");
    let mut journal = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&text[..]), &mut journal)
        .unwrap();
    let lines: Vec<&str> = journal.lines().step_by(60).collect();
    for batch in 200..210 {
        let renamed = lines.join("\n").replacen("\"batch\":256", &format!("\"batch\":{batch}"), 1);
        std::fs::write(folder.path().join(format!("{batch}.jsonl")), renamed).unwrap();
    }
    let held_out = folder.path().join("205.jsonl");
    let [held_out, out] = [&held_out, &file].map(|path| path.to_str().unwrap());
    let learn = ["learn", none, "--hold-out", held_out, "-o", out, "--json"];
    let said = gemm_tune(&learn);
    let document: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let learned = &document["learned"];
    assert_eq!(learned["families"][0]["problems"], 9, "{learned}");
    let found = learned["held_out"][0]["found"].as_array().unwrap();
    assert!(found[2]["over_best"].as_f64().unwrap() < 1.05, "{learned}");
    // The times alone, in one file, give the same model.
    let times = folder.path().join("times.gz");
    let again = folder.path().join("again.json");
    let [times, again] = [&times, &again].map(|path| path.to_str().unwrap());
    gemm_tune(&[&learn[..], &["--times", times]].concat());
    let learn = ["learn", times, "-o", again];
    assert_eq!(gemm_tune(&learn).code, Some(0));
    let models = [out, again].map(|path| {
        let model: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        ["problems", "times", "template_hash"]
            .map(|key| model["families"]["pipelined"][0][key].clone())
    });
    assert_eq!(models[0], models[1]);
    // What nothing is learned of is kept from another model.
    let update = ["learn", journals, "--update", out, "-o", again];
    check(&update, 1, &["too few problems to learn of any family (8)"]);
    // The file is read where it lies beside a database.
    let database = folder.path().join("db.toml");
    std::fs::copy("tests/databases/one.toml", &database).unwrap();
    let ask = |file: &std::path::Path| {
        let database = file.to_str().unwrap();
        gemm_tune(&[
            "lookup",
            "--db",
            database,
            "--device-name",
            "nvidia h200",
            "--shape",
            "96x96x96",
        ])
    };
    assert!(ask(&database).out.contains("by the learned model"), "{}", ask(&database).err);
    // A model of other code is not used, and the user is told.
    let text = std::fs::read_to_string(&file).unwrap();
    let stale = text.replacen("\"template_hash\":\"", "\"template_hash\":\"0", 1);
    std::fs::write(&file, stale).unwrap();
    let said = ask(&database);
    assert!(said.err.contains("belongs to other code and is not used"), "{}", said.err);
    assert!(!said.out.contains("by the learned model"), "{}", said.out);
    std::fs::write(&file, "{}").unwrap();
    assert!(ask(&database).err.contains("db.model.json`: no file of `gemm-tune learn`"));
}

#[test]
fn compare_refuses_conditions_that_are_not_measured() {
    let on_the_host = ["compare", "64x64x64", "--device", "cpu", "--config", "naive"];
    for (conditions, words) in [
        (["--power", "sustained"], "leave out `--cache-policy` and `--power`"),
        (["--cache-policy", "hot"], "leave out `--cache-policy` and `--power`"),
        (["--power", "warm"], "choose `burst` or `sustained`"),
    ] {
        check(&[&on_the_host[..], &conditions].concat(), 2, &[words]);
    }
}

#[test]
fn without_a_gpu_the_program_says_so_and_where_to_look() {
    let said = gemm_tune(&["doctor", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    if document["works"] == true {
        println!("skipped: this machine has a GPU");
        return;
    }
    let arguments = ["--shape", "64x64x64", "--device", "cuda:0", "--db", "target/no.toml"];
    check(&arguments, 1, &["gemm-tune doctor"]);
    // Nothing stands in for a GPU where libraries are compared.
    let compared = gemm_tune(&["compare", "64x64x64", "32x32x32", "--csv"]);
    assert_eq!((compared.code, compared.out.as_str()), (Some(1), ""), "{}", compared.err);
    assert_eq!(compared.err.matches("error:").count(), 1, "{}", compared.err);
    assert!(!compared.err.contains("1 of 2"), "{}", compared.err);
    let examined = gemm_tune(&["doctor"]).out;
    assert!(examined.contains("GPU: missing"), "{examined}");
    if !examined.contains("cannot tune yet") {
        assert!(examined.contains("`gemm-tune 128x128x64 --device cpu`"), "{examined}");
    }
    let arguments = ["--shape", "64x64x64", "--dry-run"];
    check(&arguments, 0, &["using the limits of an NVIDIA H200"]);
}

#[test]
fn without_nvrtc_and_python_the_program_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(path())
        .args(["check", "--family", "naive", "--shape", "1x1x1", "--cache"])
        .arg(folder.path())
        .env("PATH", "")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        println!("skipped: this machine has an NVRTC of its own");
        return;
    }
    assert!(said.contains("no Python was found to run pip with"), "{said}");
}

#[test]
fn the_cpu_device_tunes_and_its_records_say_that_times_are_modelled() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("db.toml");
    let path = database.to_string_lossy().into_owned();
    let tune = |shape: &str, database: &str| {
        gemm_tune(&[
            "--shape",
            shape,
            "--device",
            "cpu",
            "--max-configs",
            "6",
            "--db",
            database,
            "--cache",
            CACHE,
        ])
    };
    let said = tune("40x30x20", &path);
    assert_eq!(said.code, Some(0), "{}", said.err);
    for words in ["modelled", "the peak of an NVIDIA H200", "f64 on the host, all", "recorded in"] {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
    let stored = fs::read_to_string(&database).unwrap();
    assert!(stored.contains("timing = \"modelled\"") && stored.contains("name = \"cpu\""));

    // The winner is compared where it was recorded; the host knows no library.
    let compare = |shape: &str, form: &str| {
        let wanted = ["--shape", shape, "--device", "cpu", "--db", &path, "--cache", CACHE];
        gemm_tune(&[&["compare"], &wanted[..], &[form]].concat())
    };
    let said = compare("40x30x20", "-q");
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.contains("no library was measured on cpu"), "{}", said.out);
    let values = compare("40x30x20", "--csv").out;
    let (header, row) = values.trim_end().split_once('\n').unwrap();
    assert!(header.starts_with("m,n,k,batch,dtype,layout,epilogue,family,parameters,median_us"));
    assert!(row.starts_with("40,30,20,1,f32,nn,"), "{row}");
    let said = compare("40x30x21", "-q");
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.out.contains("no record of cpu in `"), "{}", said.out);

    // A GPU's database takes no modelled times.
    let measured = stored.replace("name = \"cpu\"", "name = \"NVIDIA H200\"");
    fs::write(&database, &measured).unwrap();
    let said = tune("40x30x20", &path);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("holds records of NVIDIA H200"), "{}", said.err);
    assert_eq!(fs::read_to_string(&database).unwrap(), measured);
}

#[test]
fn checking_names_the_fault_of_a_family() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    let files = ["--spaces", "tests/faulty/spaces", "--templates", "tests/faulty/templates"];
    let shape =
        ["check", "--family", "faulty", "--shape", "50x40x48", "--layout", "nn", "--sample", "all"];
    let arguments = [&shape[..], &files[..], &["--cache", CACHE]].concat();
    let said = gemm_tune(&arguments);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.out.contains("3 passed, 15 failed"), "{}", said.out);
    let said = gemm_tune(&[&arguments[..], &["--json"]].concat());
    let document: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let failures = document["checked"][0]["failures"].as_array().unwrap();
    let race = failures.iter().find(|failure| failure["parameters"]["FAULT"] == "missing_barrier");
    let message = race.unwrap()["message"].as_str().unwrap();
    assert!(message.contains("race: ") && message.contains("faulty.cu.tera:"), "{message}");

    let arguments = ["check", "--family", "tiled", "--shape", "20x30x40", "--cache", CACHE];
    let said = gemm_tune(&arguments);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.contains("nn nt tn tt") && said.out.contains(" 0 failed"), "{}", said.out);
}

#[test]
fn help_names_every_command_and_flag() {
    let help = gemm_tune(&["--help"]).out;
    for word in [
        "check",
        "new-family",
        "compare",
        "lookup",
        "export",
        "dispatch",
        "completions",
        "man",
        "db",
        "doctor",
        "--shape",
        "--shapes",
        "--shard",
        "--dtype",
        "--compute",
        "--layout",
        "--family",
        "--device",
        "--batch",
        "--db",
        "--force",
        "--fresh",
        "--search",
        "replay",
        "--budget",
        "--effort",
        "--stop-within",
        "--sanitize",
        "--max-configs",
        "--seed",
        "--jobs",
        "--spaces",
        "--templates",
        "--dry-run",
        "--json",
        "--offline",
        "--quiet",
        "--verbose",
        "Exit codes",
    ] {
        assert!(help.contains(word), "{word}");
    }
}
