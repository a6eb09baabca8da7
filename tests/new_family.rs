//! `gemm-tune new-family`: its files are a family that works, and nothing is overwritten.

use std::fs;

use gemm_tune::space::Families;
use serde_json::Value;

use crate::readme::arguments;
use crate::support::program::gemm_tune;
use crate::support::{CACHE, nvrtc_or_skip};

#[test]
fn a_new_family_is_correct_and_its_commands_work() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own");
    let said = gemm_tune(&["new-family", "mine", "--dir", own.to_str().unwrap(), "--json"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let document: Value = serde_json::from_str(&said.out).unwrap();
    let commands: Vec<&str> =
        document["commands"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(commands.len(), 3, "{said:?}", said = said.out);
    let database = folder.path().join("db.toml");
    for command in commands {
        let mut words = arguments(command).unwrap();
        if words[0] == "256x256x256" {
            words[0] = "40x30x20";
            words.extend(["--device", "cpu", "--db", database.to_str().unwrap()]);
        }
        if words[0] == "check" {
            // Layouts and edges of all kinds; two types are enough beside f32.
            words.extend(["--sample", "4"]);
        }
        let said = gemm_tune(&[&words[..], &["--cache", CACHE, "-q"]].concat());
        assert_eq!(said.code, Some(0), "{command}: {}{}", said.out, said.err);
        if words[0] == "check" {
            assert!(said.out.contains("nn nt tn tt") && said.out.contains(" 0 failed"));
        }
    }
    let folder = own.to_str().unwrap();
    let check = ["check", "--all-types", "--shape", "33x17x41", "--sample", "1", "--cache", CACHE];
    let said = gemm_tune(&[&check[..], &["--spaces", folder, "--templates", folder]].concat());
    assert!(said.out.contains(" 0 failed") && said.out.contains(" bf16 "), "{}", said.out);
}

#[test]
fn nothing_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let new = || gemm_tune(&["new-family", "mine", "--dir", path]);
    for name in ["mine.toml", "mine.cu.tera"] {
        let own = folder.path().join(name);
        fs::write(&own, "mine").unwrap();
        let said = new();
        assert_eq!(said.code, Some(1), "{}", said.err);
        assert!(said.err.contains(name) && said.err.contains("exists already"), "{}", said.err);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(&own).unwrap(), "mine");
        fs::remove_file(own).unwrap();
    }
    assert_eq!(new().code, Some(0));
    let said = gemm_tune(&["new-family", "mine", "--dir", &format!("{path}/mine.toml")]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("cannot write") && said.err.contains("--dir"), "{}", said.err);
}

#[test]
fn names_that_no_family_can_have_are_refused() {
    let long = "a".repeat(65);
    let built_in = Families::built_in().unwrap().iter().next().unwrap().name.clone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for (name, words) in [
        ("", "is no name for a family"),
        ("a b", "is no name for a family"),
        ("../a", "is no name for a family"),
        ("1a", "is no name for a family"),
        ("a\"\nb", "is no name for a family"),
        ("é", "is no name for a family"),
        (&long, "is no name for a family"),
        (&built_in, "is a built-in family"),
    ] {
        let said = gemm_tune(&["new-family", name, "--dir", path]);
        assert_eq!(said.code, Some(2), "{name}: {}", said.err);
        assert!(said.err.contains(words), "{name}: {}", said.err);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
