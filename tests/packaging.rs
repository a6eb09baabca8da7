//! The published packages have every file that their sources embed. `.ci/run` builds them too.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// Macros that embed a file or a folder, as the sources call them.
const EMBEDDING: [&str; 3] =
    ["include_str!(\"", "include_bytes!(\"", "include_dir!(\"$CARGO_MANIFEST_DIR/"];

/// The files of a package, relative to its folder.
fn packaged(package: &str) -> BTreeSet<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["package", "--list", "--offline", "--allow-dirty", "--package", package];
    let output = Command::new(cargo).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(PathBuf::from).collect()
}

/// Every file below a folder, but for folders that are packages of their own.
fn below(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_dir() {
            files.push(path);
        } else if !path.join("Cargo.toml").exists() {
            below(&path, files);
        }
    }
}

/// A path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// The files that the sources below a folder embed, relative to the package's.
fn embedded(folder: &Path) -> BTreeSet<PathBuf> {
    let mut sources = Vec::new();
    below(folder, &mut sources);
    let mut found = BTreeSet::new();
    for source in sources.iter().filter(|path| path.extension().is_some_and(|name| name == "rs")) {
        let text = fs::read_to_string(source).unwrap();
        for call in EMBEDDING {
            for (_, rest) in
                text.match_indices(call).map(|(at, call)| text.split_at(at + call.len()))
            {
                let named = Path::new(rest.split('"').next().unwrap());
                let is_folder = call.contains("include_dir");
                let path = if is_folder {
                    named.to_owned()
                } else {
                    source.with_file_name("").join(named)
                };
                let path = normal(&path);
                if is_folder {
                    let mut files = Vec::new();
                    below(&path, &mut files);
                    found.extend(files);
                } else {
                    found.insert(path);
                }
            }
        }
    }
    found
}

#[test]
fn a_package_has_every_file_that_its_sources_embed() {
    // The database that `build.rs` compresses, and files that the sources include.
    let own = embedded(Path::new("src"));
    let some =
        ["results/nvidia-h200.model.json", "devices/nvidia-h200.toml", "src/report/page/page.css"];
    for name in some {
        assert!(own.contains(Path::new(name)), "the search misses `{name}`: {own:?}");
    }
    let packaged_own = packaged("gemm-tune");
    let built = [PathBuf::from("build.rs"), PathBuf::from("results/nvidia-h200.toml")];
    let missing: Vec<&PathBuf> =
        own.iter().chain(&built).filter(|path| !packaged_own.contains(*path)).collect();
    assert!(missing.is_empty(), "add to `include` in Cargo.toml: {missing:?}");
    for (package, folder) in [
        ("gemm-tune-cpu", "src/cpu"),
        ("gemm-tune-model", "src/model"),
        ("gemm-tune-runtime", "crates/runtime"),
        ("gemm-tune-trees", "src/trees"),
    ] {
        let packaged = packaged(package);
        let missing: Vec<PathBuf> = embedded(Path::new(folder))
            .into_iter()
            .filter(|path| !path.strip_prefix(folder).is_ok_and(|path| packaged.contains(path)))
            .collect();
        assert!(missing.is_empty(), "{package}: {missing:?}");
    }
}

/// The most crates that a program gets with `gemm-tune-runtime`, itself included; the documentation states the number.
const MAX_RUNTIME_CRATES: usize = 40;

/// Crates of the whole program that running a bundle needs not.
const NOT_FOR_RUNTIME: [&str; 6] = ["clap", "indicatif", "rayon", "syntect", "tera", "toml"];

#[test]
fn the_runtime_has_few_dependencies() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments =
        "tree --package gemm-tune-runtime --edges normal --prefix none --format {p} --offline";
    let output = Command::new(cargo).args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let crates: BTreeSet<String> = text
        .lines()
        .map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "))
        .filter(|name| !name.is_empty())
        .collect();
    assert!(crates.len() <= MAX_RUNTIME_CRATES, "{} crates: {crates:?}", crates.len());
    let names: BTreeSet<&str> = crates.iter().filter_map(|name| name.split(' ').next()).collect();
    let unwanted: Vec<&&str> =
        NOT_FOR_RUNTIME.iter().filter(|name| names.contains(**name)).collect();
    assert!(unwanted.is_empty(), "{unwanted:?}");
    // What the documentation says of the number.
    for page in ["docs/guides/ship.md", "crates/runtime/README.md"] {
        let stated = format!("It has {} crates with itself", crates.len());
        assert!(fs::read_to_string(page).unwrap().contains(&stated), "{page}: {stated}");
    }
}
