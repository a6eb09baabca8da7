//! How much of a search's time its strategy takes: what it computes to choose candidates in a space of
//! 20,000 configurations, beside what evaluating them takes on a GPU.
//!
//! The space and its times are made up: six powers of two and two words, times that hang on ratios and
//! products of some. Needs no GPU.

#![expect(clippy::print_stdout, reason = "a program that prints its figures")]

use std::collections::VecDeque;
use std::env;
use std::time::{Duration, Instant};

use gemm_tune::model::{Micros, Value};
use gemm_tune::search::{RecordedRow, Recording, Search};

/// Evaluations, as many as a search of normal effort takes.
const EVALUATIONS: usize = 500;

/// What one takes on a GPU in the mean, and a core to compile it: a search of 4096x4096x1024 on an H200
/// takes 8 to 13 s for 400 to 540, and 16 cores compile 47 kernels a second.
const ON_GPU: Duration = Duration::from_millis(23);
const ON_A_CORE: Duration = Duration::from_millis(340);

/// Candidates that are asked for at once, and that may be under way, with 16 cores.
const BATCH: usize = 12;
const UNDER_WAY: usize = 64;

fn main() {
    // `cargo test` runs benches too, to see that they work.
    let evaluations = if env::args().any(|word| word == "--test") { 60 } else { EVALUATIONS };
    let threads = rayon::current_num_threads();
    let evaluation = ON_GPU.max(ON_A_CORE / threads as u32);
    let recording = Recording::new(&rows()).expect("each row is there once");
    println!(
        "{} configurations, {evaluations} evaluations of {} ms each, {threads} threads\n",
        rows().len(),
        evaluation.as_millis(),
    );
    println!("{:<12} {:>12} {:>16} {:>10}", "strategy", "in all", "an evaluation", "share");
    for search in Search::ALL {
        let spent = play(search, &recording, evaluations).as_secs_f64();
        let own = spent / evaluations as f64;
        println!(
            "{:<12} {:>9.1} ms {:>13.3} ms {:>8.2} %",
            search.to_string(),
            1e3 * spent,
            1e3 * own,
            100.0 * own / (own + evaluation.as_secs_f64())
        );
    }
}

/// The time that a strategy takes itself.
fn play(search: Search, recording: &Recording, evaluations: usize) -> Duration {
    let mut spent = Duration::ZERO;
    let begun = Instant::now();
    let mut strategy = search.begin(recording.search_spaces().to_vec(), 1);
    spent += begun.elapsed();
    let (mut under_way, mut told) = (VecDeque::new(), 0);
    while told < evaluations {
        let begun = Instant::now();
        while under_way.len() + BATCH <= UNDER_WAY {
            let picks = strategy.propose(BATCH);
            if picks.is_empty() {
                break;
            }
            under_way.extend(picks);
        }
        let Some(pick) = under_way.pop_front() else { break };
        strategy.observe(pick, recording.time(pick));
        spent += begun.elapsed();
        told += 1;
    }
    spent
}

fn rows() -> Vec<RecordedRow> {
    let radices = [5, 5, 5, 5, 4, 4, 2];
    let count: usize = radices.iter().product();
    (0..count)
        .map(|mut at| {
            let digits = radices.map(|radix| {
                let digit = at % radix;
                at /= radix;
                digit
            });
            let [a, b, c, d, e, f, g] = digits.map(|digit| digit as f64);
            let time = 100.0
                * (1.0 + (a + b - 4.0).abs() / 3.0 + (a - b + c - 2.0).abs() / 4.0)
                * (1.0 + (d - e).abs() / 5.0 + (f - 1.3).abs() / 9.0 + g / 20.0);
            let names = ["A", "B", "C", "D", "E", "F"];
            let powers = names
                .iter()
                .zip(digits)
                .map(|(name, digit)| ((*name).to_owned(), Value::Int(1 << digit)));
            let word = Value::Text(["plain", "swizzled"][digits[6]].to_owned());
            let configuration = powers.chain([("WORD".to_owned(), word)]).collect();
            RecordedRow { family: "made up".to_owned(), configuration, time: Some(Micros(time)) }
        })
        .collect()
}
