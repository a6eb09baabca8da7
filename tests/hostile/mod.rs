//! Hostile-input suite: tables of bad inputs and faults, and what the program promises for each.
//!
//! `cargo test --test suite hostile` runs all of it. `GEMM_TUNE_HOSTILE=words` runs the cases whose
//! name contains the words, and prints what each one said.
//!
//! A module of cases has `pub(super) fn cases() -> Vec<Case>` and a line in [`suite`]. A case reads:
//!
//! ```ignore
//! case("a database that is a folder")           // unique; says what is wrong
//!     .folder("db.toml", 0o755)                 // made in a fresh folder, the current one of the call
//!     .run("lookup --shape 8x8x8 --db db.toml") // words; `.argument(..)` adds one with blanks or bytes
//!     .fails(1)                                 // exit code; checks what follows below
//!     .says(["`db.toml`", "is a folder"])       // fragments of standard error
//! ```
//!
//! Checked for every case, with nothing to write: it ends within its limit (10 s), by an exit code and
//! not by a signal, and not with 101 or 134; nothing says `panicked`; a failure says something; what the
//! case made lies there unchanged (else `.changes("name")`); no temporary file is left. A failing call is repeated with `--json`: it must print one document with `error`.

mod arguments;
mod bundles;
mod case;
mod checks;
mod databases;
mod endings;
mod execution;
mod families;
mod harness;
mod outputs;
mod recordings;
mod runner;
mod scale;
mod security;

use case::Case;

/// Modules of cases, by name.
fn suite() -> Vec<(&'static str, Vec<Case>)> {
    vec![
        ("arguments", arguments::cases()),
        ("bundles", bundles::cases()),
        ("databases", databases::cases()),
        ("endings", endings::cases()),
        ("execution", execution::cases()),
        ("families", families::cases()),
        ("outputs", outputs::cases()),
        ("recordings", recordings::cases()),
        ("scale", scale::cases()),
        ("security", security::cases()),
    ]
}

#[test]
fn every_case_holds() {
    let cases = suite()
        .into_iter()
        .flat_map(|(module, cases)| cases.into_iter().map(move |case| case.of_module(module)));
    runner::run(cases.collect());
}
