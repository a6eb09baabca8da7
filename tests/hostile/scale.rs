//! A database of 10,000 records: what reads and changes it stays within time and within the least address
//! space that the program works with. The figures for 100,000 records are in
//! `docs/decisions/2026-11-23-large-databases.md`.

use super::case::{Case, case};

/// A record as `gemm-tune --device cpu` wrote it.
const RECORD: &str = include_str!("../data/large-record.toml");

const RECORDS: u64 = 10_000;

/// The limit of address space below which the program refuses to work, as an option of `ulimit`. A
/// document of all records does not fit.
fn least_memory() -> String {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    format!("-v {}", (480 + 8 * threads) << 10)
}

/// Records in the order that the program keeps.
fn database(records: impl Iterator<Item = u64>) -> String {
    let own = |number: u64| {
        let [m, n, k] = [1 + number / 10_000, 1 + number / 100 % 100, 1 + number % 100];
        RECORD.replace("m = 128, n = 128, k = 128", &format!("m = {m}, n = {n}, k = {k}"))
    };
    format!("schema = 1\n\n{}", records.map(own).collect::<Vec<_>>().join("\n"))
}

pub(super) fn cases() -> Vec<Case> {
    let large = database(0..RECORDS);
    let row = |call: &str| {
        let row = case(call).file("d.toml", &*large).run(call).within(30.0);
        // Each thread reserves address space.
        row.env("RAYON_NUM_THREADS", "2").ulimit(&least_memory())
    };
    let without = |name: &'static str, word: &'static str| {
        move |folder: &std::path::Path| {
            let text = std::fs::read_to_string(folder.join(name)).map_err(|e| e.to_string())?;
            if text.contains(word) { Err(format!("  - {name} has {word}")) } else { Ok(()) }
        }
    };
    vec![
        row("db list --db d.toml").prints(["1x1x1 f32 nn", "1x100x100 f32 nn"]),
        row("db list --db d.toml --json").prints(["\"records\": [", "\"k\": 100,"]),
        row("db show 1x20x50 --db d.toml").prints(["1x20x50 f32 nn\n"]),
        row("lookup --shape 1x20x50 --device cpu --db d.toml").prints(["naive"]),
        row("db merge d.toml e.toml -o out.toml")
            .file("e.toml", database(RECORDS - 10..RECORDS + 10))
            .prints(["10020 records of 2 files: 10010 in out.toml, 10 repeated, 0 left out"]),
        row("db prune --db d.toml --gemm-tune-before 9 --yes")
            .prints(["10000 records removed from d.toml"])
            .changes("d.toml")
            .after(without("d.toml", "[[record]]")),
    ]
}
