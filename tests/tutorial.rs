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
