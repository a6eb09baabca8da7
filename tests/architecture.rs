//! The house's invariants, checked by reading `src/`: what a room may use, who may print, where
//! `unsafe` may stand, that no family is known by name. Each rule is a function from a file to the
//! faults in it, tested below with planted ones.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use gemm_tune::space::Families;

use source::{Source, words};

#[path = "architecture/source.rs"]
mod source;

/// The rooms in the order of the data's way: a room uses those before it, never one after it.
///
/// `tune` comes before `database`, which makes records of its summaries, and `lookup`, which answers
/// from records; all before `dispatch`, `export`, `runtime`, `inspect` and `report`, which show what was found.
const ROOMS: [&str; 21] = [
    "model", "space", "render", "compile", "gpu", "cpu", "worker", "validate", "measure",
    "predict", "search", "tune", "database", "lookup", "session", "dispatch", "export", "runtime",
    "inspect", "report", "cli",
];

/// Names that only some files may use.
struct Reserved {
    /// Paths, or the last parts of paths; `!` ends a macro's.
    names: &'static [&'static str],
    /// The files, or the folders ending in `/`.
    to: &'static [&'static str],
    because: &'static str,
}

const RESERVED: [Reserved; 3] = [
    Reserved {
        names: &["cudarc", "nvml_wrapper"],
        to: &["src/gpu/"],
        because: "every other room speaks to the device through gpu/",
    },
    Reserved {
        names: &["unsafe"],
        to: &["src/gpu/", "src/compile/nvrtc.rs"],
        because: "these wrap C libraries; the rest of the program needs no promise to the compiler",
    },
    Reserved {
        names: &[
            "print!",
            "println!",
            "eprint!",
            "eprintln!",
            "env::var",
            "env::var_os",
            "env::vars",
            "env::vars_os",
            "env::args",
            "env::args_os",
            "process::exit",
        ],
        to: &["src/cli/", "src/main.rs"],
        because: "a room takes what it needs from its caller and returns what it has to say",
    },
];

/// The longest file. A file is best split from 500 lines on; above this the test insists.
const MAX_LINES: usize = 600;

/// Every file of the program, those that only tests compile left out.
fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    collect(Path::new("src"), &mut sources);
    assert!(!sources.is_empty(), "src/ holds no Rust file");
    let for_tests: Vec<bool> = sources
        .iter()
        .map(|source| sources.iter().any(|other| other.keeps_for_tests(&source.path)))
        .collect();
    sources.into_iter().zip(for_tests).filter(|(_, test)| !test).map(|(source, _)| source).collect()
}

fn collect(folder: &Path, sources: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.to_str().unwrap().replace('\\', "/");
            sources.push(Source::new(&name, &fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Panics with all faults that `rule` finds in the program.
fn check_all(rule: impl Fn(&Source) -> Vec<String>) {
    let faults: Vec<String> = sources().iter().flat_map(rule).collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// A room uses earlier rooms only. `lib.rs` and `main.rs` belong to no room.
fn room_order(source: &Source) -> Vec<String> {
    let Some((room, file)) = source.path.strip_prefix("src/").and_then(|path| path.split_once('/'))
    else {
        return Vec::new();
    };
    let place = |room: &str| ROOMS.iter().position(|known| *known == room);
    let Some(own) = place(room) else {
        return vec![format!("{}:1: `{room}` has no place in ROOMS of {}", source.path, file!())];
    };
    // What `super` leads out to from a file of this depth is the crate's root.
    let depth = file.split('/').filter(|part| *part != "mod.rs").count() + 1;
    let root = "super::".repeat(depth);
    let used = |name: &str| {
        let path = name.strip_prefix("crate::").or_else(|| name.strip_prefix(root.as_str()))?;
        path.split("::").next().filter(|used| place(used) > Some(own)).map(str::to_owned)
    };
    let late = source.names.iter().filter_map(|(line, name)| Some((line, used(name)?)));
    late.map(|(line, used)| {
        format!(
            "{}:{line}: `{room}` uses `{used}`, which comes after it on the data's way",
            source.path
        )
    })
    .collect()
}

/// Reserved names stay where they belong.
fn reserved_names(source: &Source) -> Vec<String> {
    let mut faults = Vec::new();
    for Reserved { names, to, because } in RESERVED {
        let may = to.iter().any(|place| {
            source.path == *place || place.ends_with('/') && source.path.starts_with(place)
        });
        if may {
            continue;
        }
        for (line, path) in &source.names {
            let within = |name: &&&str| format!("::{path}::").contains(&format!("::{name}::"));
            if let Some(name) = names.iter().find(within) {
                faults.push(format!(
                    "{}:{line}: only {} may use `{name}`: {because}",
                    source.path,
                    to.join(" and "),
                ));
            }
        }
    }
    faults
}

/// A file says first what it is for.
fn opening(source: &Source) -> Vec<String> {
    if source.text.starts_with("//!") {
        return Vec::new();
    }
    vec![format!("{}:1: a file begins with `//!` and what it is for", source.path)]
}

/// No file outgrows a reader.
fn length(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    if lines <= MAX_LINES {
        return Vec::new();
    }
    vec![format!("{}:{lines}: a file has at most {MAX_LINES} lines, best 500", source.path)]
}

/// The names that search-space files give to families and parameters are no part of the program.
fn family_names(source: &Source, known: &[String]) -> Vec<String> {
    // An escape would join the word after it: `\nBM`.
    let literals = source.literals.iter().map(|(line, text)| (line, text.replace("\\n", " ")));
    let code = source.names.iter().map(|(line, name)| (line, name.clone()));
    let mut faults = Vec::new();
    for (line, text) in code.chain(literals) {
        for name in words(&text).filter(|word| known.iter().any(|name| name == word)) {
            faults.push(format!(
                "{}:{line}: `{name}` is named in search-spaces/: what families call things is data",
                source.path
            ));
        }
    }
    faults
}

#[test]
fn rooms_use_earlier_rooms_only() {
    check_all(room_order);
}

#[test]
fn reserved_names_stay_where_they_belong() {
    check_all(reserved_names);
}

#[test]
fn every_file_opens_with_what_it_is_for() {
    check_all(opening);
}

#[test]
fn no_file_outgrows_a_reader() {
    check_all(length);
}

#[test]
fn families_and_parameters_are_data() {
    let families = Families::built_in().unwrap();
    let known: Vec<String> = families
        .iter()
        .flat_map(|family| family.parameters.keys().chain([&family.name]))
        .cloned()
        .collect();
    assert!(!known.is_empty());
    check_all(|source| family_names(source, &known));
}

mod planted {
    use super::*;

    /// Checks what `rule` says of a file, without the file's name.
    fn check(rule: impl Fn(&Source) -> Vec<String>, path: &str, text: &str, expected: &[&str]) {
        let faults = rule(&Source::new(path, text));
        assert_eq!(faults.len(), expected.len(), "{path}: {text}\n{faults:#?}");
        for (fault, expected) in faults.iter().zip(expected) {
            assert!(fault.starts_with(&format!("{path}:")), "{fault}");
            assert!(fault.contains(expected), "{fault}");
        }
    }

    #[test]
    fn a_later_room_is_reported_wherever_it_is_named() {
        let late = "`render` uses `tune`, which comes after it on the data's way";
        for (text, expected) in [
            ("use crate::tune::Plan;", vec![late]),
            ("use crate::{model::Shape, tune::{Plan, self}};", vec![late, late]),
            ("\nfn f() -> crate::tune::Plan {}", vec![":2: `render` uses `tune`"]),
            ("use super::super::tune::Plan;", vec![late]),
            ("use super::tune;", vec![]),
            ("use crate::model::Shape; use crate::render::x; use std::fmt;", vec![]),
            ("//! [`crate::tune`]\nconst X: &str = \"crate::tune\";", vec![]),
            ("#[cfg(test)] mod tests { use crate::tune::Plan; }", vec![]),
        ] {
            check(room_order, "src/render/plan.rs", text, &expected);
        }
        let named = "use super::tune::Plan; use crate::tune_up;";
        check(room_order, "src/render/mod.rs", named, &[late]);
        check(room_order, "src/database/mod.rs", "use crate::tune::Summary;", &[]);
        check(room_order, "src/main.rs", "use crate::cli;", &[]);
        check(room_order, "src/attic/mod.rs", "", &["`attic` has no place in ROOMS"]);
    }

    #[test]
    fn a_reserved_name_is_reported_outside_its_place() {
        let device = "only src/gpu/ may use `cudarc`";
        let promise = "only src/gpu/ and src/compile/nvrtc.rs may use `unsafe`";
        for (path, text, expected) in [
            ("src/worker/serve.rs", "use cudarc::driver::CudaContext;", vec![device]),
            ("src/worker/serve.rs", "let x: &dyn Fn(cudarc::X);", vec![device]),
            ("src/worker/serve.rs", "use nvml_wrapper::Nvml;", vec!["`nvml_wrapper`"]),
            ("src/gpu/lt.rs", "use cudarc::driver; unsafe { f() }", vec![]),
            ("src/compile/nvrtc.rs", "unsafe { f() }", vec![]),
            ("src/compile/pool.rs", "unsafe { f() }", vec![promise]),
            (
                "src/compile/pool.rs",
                "// unsafe\nconst X: &str = \"unsafe\"; allow(unsafe_code)",
                vec![],
            ),
            ("src/tune/mod.rs", "std::println!(\"x\")", vec!["may use `println!`"]),
            ("src/tune/mod.rs", "use std::env::{self, args};", vec!["may use `env::args`"]),
            (
                "src/tune/mod.rs",
                "env::var_os(x); env::split_paths(x)",
                vec!["may use `env::var_os`"],
            ),
            ("src/tune/mod.rs", "writeln!(out, \"println!\")", vec![]),
            ("src/tune/mod.rs", "#[cfg(test)] fn f() { println!(\"x\") }", vec![]),
            ("src/cli/tune.rs", "println!(\"x\"); std::process::exit(1)", vec![]),
            ("src/client/mod.rs", "std::process::exit(1)", vec!["may use `process::exit`"]),
            ("src/main.rs", "env::args()", vec![]),
        ] {
            check(reserved_names, path, text, &expected);
        }
    }

    #[test]
    fn a_file_without_an_opening_is_reported() {
        check(opening, "src/a.rs", "//! What it is.\n", &[]);
        check(opening, "src/a.rs", "// What it is.\n", &[":1: a file begins with `//!`"]);
        check(opening, "src/a.rs", "\n//! What it is.\n", &[":1: a file begins with `//!`"]);
    }

    #[test]
    fn a_file_beyond_the_limit_is_reported() {
        check(length, "src/a.rs", &"//!\n".repeat(600), &[]);
        check(length, "src/a.rs", &"//!\n".repeat(601), &[":601: a file has at most 600"]);
    }

    #[test]
    fn a_name_from_a_search_space_is_reported() {
        let known = ["simt".to_owned(), "BM".to_owned()];
        for (text, expected) in [
            ("configuration.get(\"BM\")", vec![":1: `BM` is named in search-spaces/"]),
            ("f(\"\\nBM\"); struct X<const BM: u32>;", vec!["`BM`", "`BM`"]),
            ("mod simt;", vec!["`simt`"]),
            ("// BM\nf(\"BMX simt_2\"); let bm = 1;", vec![]),
            ("#[cfg(test)] mod tests { const X: &str = \"BM\"; }", vec![]),
        ] {
            check(|source| family_names(source, &known), "src/a.rs", text, &expected);
        }
    }
}
