//! Writes a database of many records, as this program writes them, and times what a search does with
//! it: the check before, the nearest records, and one record added. Then, what commands take:
//!
//! ```sh
//! cargo run --release --example large_database -- 100000 /tmp/large.toml
//! /usr/bin/time -v gemm-tune db list --db /tmp/large.toml >/dev/null
//! /usr/bin/time -v gemm-tune lookup --shape 128x256x512 --device cpu --db /tmp/large.toml
//! /usr/bin/time -v gemm-tune db merge /tmp/large.toml -o /tmp/merged.toml
//! /usr/bin/time -v gemm-tune db prune --db /tmp/merged.toml --gemm-tune-before 9 --yes >/dev/null
//! /usr/bin/time -v gemm-tune tune --shape 33x34x35 --device cpu --max-configs 4 --db /tmp/large.toml
//! ```
//!
//! The record is one that `gemm-tune --device cpu` wrote; the others differ in their extents.

#![expect(clippy::print_stdout, reason = "a program that says what it did")]

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use gemm_tune::database::{Database, ReplacePolicy, WritableDatabase, record_winner};
use gemm_tune::model::{Device, Dtype, Problem};

/// The record of 128x128x128.
const RECORD: &str = include_str!("../tests/data/large-record.toml");

fn main() -> anyhow::Result<()> {
    let mut arguments = env::args().skip(1);
    let count: u64 = arguments.next().context("give the number of records")?.parse()?;
    let path = arguments.next().context("give the file to write")?;
    let mut text = String::from("schema = 1\n");
    for number in 0..count {
        // In the order that the program keeps.
        let [m, n, k] = [1 + number / 10_000, 1 + number / 100 % 100, 1 + number % 100];
        let extents = format!("m = {m}, n = {n}, k = {k}");
        write!(text, "\n{}", RECORD.replace("m = 128, n = 128, k = 128", &extents))?;
    }
    fs::write(&path, &text)?;
    println!("{count} records, {:.1} MB in {path}", text.len() as f64 / 1e6);
    drop(text);
    time_search(Path::new(&path))
}

/// Times what a search of one problem does with the database.
fn time_search(path: &Path) -> anyhow::Result<()> {
    let (device, problem) = (Device::cpu(), Problem::new("33x34x35".parse()?, Dtype::F32));
    let mut began = Instant::now();
    let mut lap = |what: &str| {
        println!("{what}: {:.2} s", began.elapsed().as_secs_f64());
        began = Instant::now();
    };
    WritableDatabase::check(path, &device)?;
    lap("checked before the search");
    let near = Database::load_near_or_empty(path, &problem)?;
    lap("nearest records read");
    let mut record = near.records().first().context("no record is near")?.clone();
    (record.problem.m, record.problem.n, record.problem.k) = (100_000, 34, 35);
    record_winner(path, &record, ReplacePolicy::IfFaster)?;
    lap("one record added");
    Ok(())
}
