//! The tutorial of a family: its files are those that it shows, and its commands do what it says.

use std::fs;

use crate::readme::{arguments, commands};
use crate::support::nvrtc_or_skip;
use crate::support::program::gemm_tune;

const TUTORIAL: &str = include_str!("../docs/tutorial-family.md");

#[test]
fn the_tutorial_shows_the_files_of_its_example() {
    for path in ["spaces/gated.toml", "templates/gated.cu.tera"] {
        let file = fs::read_to_string(format!("examples/families/{path}")).unwrap();
        assert!(TUTORIAL.contains(&format!("\n{file}```\n")), "{path} is another one there");
    }
}

#[test]
fn every_command_of_the_tutorial_works() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("gated.toml");
    let mine = folder.path().join("mine");
    let mut said = Vec::new();
    for command in commands(TUTORIAL) {
        let Some(words) = arguments(&command) else { continue };
        let (own, mine) = (database.to_str().unwrap(), mine.to_str().unwrap());
        let is_new = words[0] == "new-family";
        let mut before = "";
        let words = words.iter().map(|word| {
            let is_folder = ["--spaces", "--templates"].contains(&before);
            before = *word;
            match *word {
                "gated.toml" => own,
                "mine" if is_folder => mine,
                word => word,
            }
        });
        let more = if is_new { ["--dir", mine] } else { ["--cache", "target/test-cache"] };
        let words: Vec<&str> = words.chain(more).collect();
        let one = gemm_tune(&words);
        assert_eq!(one.code, Some(0), "{command}: {}", one.err);
        said.push(one.out);
    }
    let [_, new, checked, shown, tuned] = said.try_into().unwrap();
    assert!(new.contains("80 passed, 0 failed"), "{new}");
    assert!(checked.contains(" 0 failed"), "{checked}");
    assert!(shown.contains("value = times_logistic(value, value);"), "{shown}");
    assert!(tuned.contains("winner for 64x64x64 bf16 nn bias,silu,mul: gated"), "{tuned}");
    let database = fs::read_to_string(database).unwrap();
    assert!(database.contains("epilogue = \"bias,silu,mul\""), "{database}");
}

/// A kernel that takes rows or products of a batch for packed is right on packed operands only.
#[test]
fn mistakes_that_only_padded_rows_show_are_found() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    let template = fs::read_to_string("examples/families/templates/gated.cu.tera").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let check = |from: &str, to: &str| {
        assert!(template.contains(from), "{from}");
        fs::write(folder.path().join("gated.cu.tera"), template.replace(from, to)).unwrap();
        let templates = folder.path().to_str().unwrap();
        let family = ["check", "--family", "gated", "--spaces", "examples/families/spaces"];
        let problem = ["--shape", "7x5x3", "--batch", "2", "--layout", "nn", "--dtype", "bf16"];
        let more = ["--epilogue", "bias,silu,mul", "--cache", "target/test-cache", "--sample", "2"];
        gemm_tune(&[&family[..], &["--templates", templates], &problem, &more].concat())
    };
    let right = check("* lda", "* lda");
    assert_eq!(right.code, Some(0), "{}", right.err);
    assert!(right.out.contains("2 passed, 0 failed; 2 passed on padded rows too"), "{}", right.out);
    for (from, to) in [
        ("* lda", "* K"),
        ("b_k * ldb", "b_k * N"),
        ("product * stride_a", "(long long)product * M * K"),
        ("product * stride_b", "(long long)product * K * N"),
    ] {
        let wrong = check(from, to);
        assert_eq!(wrong.code, Some(1), "{from} for {to}: {}", wrong.out);
        let stored = "lda 4, ldb 6, ldc 6, addresses aligned to 2 bytes";
        assert!(wrong.out.contains(stored), "{from} for {to}: {}", wrong.out);
    }
}
