//! Faults planted in small sources, each of which a rule must report.

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
    let late = "`render` uses `tune`, which comes after it in the data flow";
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
    let device = "may use `cudarc`: every other file uses the device through gpu/";
    let promise = "may use `unsafe`: these wrap C libraries or take addresses";
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
        ("src/tune/mod.rs", "env::var_os(x); env::split_paths(x)", vec!["may use `env::var_os`"]),
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
        ("configuration.get(\"BM\")", vec![":1: `BM` is a name in search-spaces/"]),
        ("f(\"\\nBM\"); struct X<const BM: u32>;", vec!["`BM`", "`BM`"]),
        ("mod simt;", vec!["`simt`"]),
        ("// BM\nf(\"BMX simt_2\"); let bm = 1;", vec![]),
        ("#[cfg(test)] mod tests { const X: &str = \"BM\"; }", vec![]),
    ] {
        check(|source| family_names(source, &known), "src/a.rs", text, &expected);
    }
}

fn imports(files: &[(&str, &str)]) -> Imports {
    let sources: Vec<Source> =
        files.iter().map(|(path, text)| Source::new(&format!("src/{path}"), text)).collect();
    Imports::of(&sources.iter().collect::<Vec<_>>())
}

#[test]
fn an_import_leads_to_the_file_that_defines() {
    let files = [
        ("lib.rs", "pub mod a; pub mod b;"),
        ("a/mod.rs", "mod x; mod y; pub use x::{X, Y as Z}; pub use y::*; pub mod deep;"),
        ("a/x.rs", "pub struct X; pub struct Y; pub fn f() {}"),
        ("a/y.rs", "pub enum W { V } words! { Made } mod inner { pub fn g() {} }"),
        ("a/deep.rs", "pub struct D;"),
    ];
    for (text, expected) in [
        ("use crate::a::X;", &["a/x.rs"][..]),
        ("use crate::a::Z;", &["a/x.rs"]),
        ("fn f() -> crate::a::Z {}", &["a/x.rs"]),
        ("use crate::a::W;", &["a/y.rs"]),
        ("fn f() { crate::a::W::V }", &["a/y.rs"]),
        ("use crate::a::y::Made;", &["a/y.rs"]),
        ("use crate::a::y::inner::g;", &["a/y.rs"]),
        ("use crate::a; fn f() { a::x::f() }", &["a/x.rs"]),
        ("use crate::a::{deep::{self, D}, X};", &["a/x.rs", "a/deep.rs"]),
        ("use super::a::deep; fn f(d: deep::D) {}", &["a/deep.rs"]),
        ("use crate::a::*; struct S(W);", &["a/y.rs"]),
        ("use crate::a::*; struct W; struct S(W);", &[]),
        ("fn f() { use crate::a::X; }", &["a/x.rs"]),
        ("mod inner { use crate::a::X; }", &["a/x.rs"]),
        // Passed on, not used; a module alone; a local name; tests; comments.
        ("pub use crate::a::X;", &[]),
        ("pub use crate::a::X; struct S(X);", &["a/x.rs"]),
        ("pub(crate) use crate::a::x::f; fn g(s: S) { let f = s.f(); s.f }", &[]),
        ("use crate::a::deep;", &[]),
        ("struct X; fn f(x: X) {}", &[]),
        ("#[cfg(test)] mod tests { use crate::a::X; }", &[]),
        ("// crate::a::X\nconst S: &str = \"crate::a::X\";", &[]),
    ] {
        let imports = imports(&[&files[..], &[("b.rs", text)]].concat());
        let found = imports.edges().filter(|(from, _)| *from == "src/b.rs");
        let found: Vec<&str> = found.map(|(_, to)| &to["src/".len()..]).collect();
        assert_eq!(found, expected, "{text}");
    }
    let own = imports(&files);
    assert_eq!(own.edges().count(), 0, "a file that passes names on uses nothing");
}

/// Files `a/0.rs`, `a/1.rs`, ... of which each imports the next and the last one the first.
fn ring(length: usize) -> Vec<(String, String)> {
    let file = |at: usize| {
        let text = format!("pub struct S{at}; use super::f{0}::S{0};", (at + 1) % length);
        (format!("a/f{at}.rs"), text)
    };
    (0..length).map(file).collect()
}

fn of_ring(length: usize) -> Imports {
    let files = ring(length);
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    imports(&[&files[..], &[("a/mod.rs", "pub use f0::S0;"), ("lib.rs", "")]].concat())
}

#[test]
fn a_large_circle_is_reported_and_drawn() {
    assert_eq!(circles(&of_ring(MAX_CIRCLE), &[]), [""; 0]);
    let large = of_ring(MAX_CIRCLE + 1);
    let faults = circles(&large, &[]);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].starts_with("src/a/f0.rs: 4 files import each other"), "{faults:?}");
    assert!(faults[0].contains("    src/a/f3.rs -> src/a/f0.rs (S0)\n"), "{faults:?}");
    let dot = large.dot();
    assert!(dot.contains("\"src/a/f3.rs\" -> \"src/a/f0.rs\" [color=red];"), "{dot}");
    assert!(dot.contains("\"src/a/f1.rs\" [label=\"f1.rs\"];"), "{dot}");
}

#[test]
fn an_exception_for_a_circle_that_is_gone_is_reported() {
    let known = |within| Circle { within, because: "of history" };
    assert_eq!(circles(&of_ring(5), &[known("src/a/")]), [""; 0]);
    assert_eq!(circles(&of_ring(5), &[known("src/b/")]).len(), 2);
    let faults = circles(&of_ring(3), &[known("src/a/")]);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains("remove it from CIRCLES (of history)"), "{faults:?}");
}

#[test]
fn a_name_that_two_types_share_is_reported() {
    let source = |path: &str, text: &str| Source::new(path, text);
    let first =
        "pub struct Known; impl X { type Err = Y; type Output = Z; } trait T { type Item; }";
    for (path, text, expected) in [
        ("src/b.rs", "enum Known {}", Some("src/a.rs:1, src/b.rs:1: `Known`")),
        ("src/b.rs", "\ntype Known = u8;", Some("src/a.rs:1, src/b.rs:2: `Known`")),
        ("src/b.rs", "fn f() { struct Known; }", Some("`Known`")),
        ("src/b.rs", "trait Known {} ", Some("`Known`")),
        ("src/b.rs", "impl Y { type Err = Y; } impl Iterator for S { type Item = u8; }", None),
        ("src/b.rs", "#[cfg(test)] mod tests { struct Known; }", None),
        ("src/b.rs", "struct KnownBy; fn known(struct_: Known) {} // struct Known", None),
        ("src/export/artifact/b.rs", "struct Known;", None),
    ] {
        let faults = shared_names(&[source("src/a.rs", first), source(path, text)], &[]);
        assert_eq!(faults.len(), usize::from(expected.is_some()), "{text}: {faults:?}");
        assert!(faults.iter().all(|fault| fault.contains(expected.unwrap())), "{faults:?}");
    }
    let twice = [source("src/a.rs", first), source("src/b.rs", first)];
    assert_eq!(shared_names(&twice, &["Known", "T"]), [""; 0]);
    let faults = shared_names(&twice[..1], &["Known"]);
    assert_eq!(faults, ["`Known` is not shared any more; remove it from SHARED_NAMES"]);
}

#[test]
fn a_room_without_its_sentence_is_reported() {
    let table = "| room | what it is | start at |\n|---|---|---|\n\
                 | `a` | Does one thing. | `mod.rs` |\n| `b` | Does another. | `mod.rs` |\n\
                 | `--flag` | in a table of other things |\n";
    assert_eq!(room_table(table, &["a", "b"]), [""; 0]);
    for (rooms, change, expected) in [
        (&["a", "b", "c"][..], ("", ""), "lists the rooms"),
        (&["b", "a"], ("", ""), "lists the rooms"),
        (&["a", "b"], ("another.", ""), "`b` needs one sentence"),
        (&["a", "b"], ("another.", "another. And more."), "`b` needs one sentence"),
        (&["a", "b"], ("Does one thing.", ""), "`a` needs one sentence"),
    ] {
        let faults = room_table(&table.replace(change.0, change.1), rooms);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].contains(expected), "{faults:?}");
    }
}
