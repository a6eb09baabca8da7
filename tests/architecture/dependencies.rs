//! Licences and sources of all dependencies, by the rules of `deny.toml`. For machines without
//! cargo-deny, whose advisories need the network besides.

use std::process::Command;

use serde_json::Value;

/// The rules that are read of `deny.toml`.
#[derive(serde::Deserialize)]
struct Rules {
    licenses: Licences,
    sources: Sources,
}

#[derive(serde::Deserialize)]
struct Licences {
    allow: Vec<String>,
    exceptions: Vec<Exception>,
}

#[derive(serde::Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

fn rules() -> Rules {
    toml::from_str(&std::fs::read_to_string("deny.toml").unwrap()).unwrap()
}

#[test]
fn dependencies_have_licences_and_sources_that_are_allowed() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let faults = faults(&metadata, &rules());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What is wrong with the packages of `cargo metadata`.
fn faults(metadata: &Value, rules: &Rules) -> Vec<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut faults = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let licence = package["license"].as_str().unwrap_or_default();
        let own = rules.licenses.exceptions.iter().find(|exception| exception.name == name);
        let own = own.map(|exception| exception.allow.as_slice()).unwrap_or_default();
        let allowed =
            |one: &str| rules.licenses.allow.iter().chain(own).any(|allowed| allowed == one);
        if !holds(licence, &allowed) {
            faults.push(format!(
                "{name} has the licence `{licence}`, which deny.toml does not allow"
            ));
        }
        // The program itself has no source.
        let Some(source) = package["source"].as_str() else { continue };
        let registry = source.strip_prefix("registry+").unwrap_or(source);
        if !rules.sources.allow_registry.iter().any(|allowed| allowed == registry) {
            faults.push(format!("{name} is from `{source}`, which deny.toml does not allow"));
        }
    }
    faults
}

/// Whether the allowed licences satisfy an SPDX expression. `/` is the former spelling of OR.
fn holds(expression: &str, allowed: &impl Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let value = any(&words, &mut at, allowed);
    value && at == words.len()
}

fn any(words: &[&str], at: &mut usize, allowed: &impl Fn(&str) -> bool) -> bool {
    let mut value = all(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        value |= all(words, at, allowed);
    }
    value
}

fn all(words: &[&str], at: &mut usize, allowed: &impl Fn(&str) -> bool) -> bool {
    let mut value = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        value &= one(words, at, allowed);
    }
    value
}

fn one(words: &[&str], at: &mut usize, allowed: &impl Fn(&str) -> bool) -> bool {
    let Some(first) = words.get(*at) else { return false };
    *at += 1;
    if *first == "(" {
        let value = any(words, at, allowed);
        *at += 1;
        return value && words.get(*at - 1) == Some(&")");
    }
    if words.get(*at) == Some(&"WITH") {
        let exception = words.get(*at + 1).copied().unwrap_or_default();
        *at += 2;
        return allowed(&format!("{first} WITH {exception}"));
    }
    allowed(first)
}

#[test]
fn a_licence_or_source_that_is_not_allowed_is_named() {
    let allowed = |one: &str| ["MIT", "ISC", "A WITH E"].contains(&one);
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("MIT AND GPL-3.0", false),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("(GPL-3.0 OR MIT) AND X", false),
        ("MIT AND ISC OR X", true),
        ("A WITH E", true),
        ("MIT WITH E", false),
        ("", false),
        ("(MIT", false),
        ("MIT MIT", false),
    ] {
        assert_eq!(holds(expression, &allowed), expected, "{expression}");
    }
    let package = |licence: &str, source: &str| {
        let package = serde_json::json!({ "name": "p", "license": licence, "source": source });
        faults(&serde_json::json!({ "packages": [package] }), &rules())
    };
    let usual = "registry+https://github.com/rust-lang/crates.io-index";
    assert_eq!(package("MIT", usual), [""; 0]);
    assert!(package("GPL-3.0-only", usual)[0].contains("p has the licence `GPL-3.0-only`"));
    assert!(package("MIT", "git+https://github.com/a/b#1")[0].contains("p is from `git+https"));
}
