//! Finals that are decided again from the rounds in a record.

use super::*;
use crate::database::{ReplacePolicy, StoredConfidence, StoredFinalist, record_winner};
use crate::measure::TieRule;

/// A final of three, in the order that breaks ties: 0.3 % slower than the winner, the winner, and one that
/// left after ten rounds.
fn confidence() -> StoredConfidence {
    let rounds = |mean: i32, count: i32| (0..count).map(|at| mean + 200 * (at % 3 - 1)).collect();
    let finalist =
        |kernel: &str, log_ratios_ppm| StoredFinalist { kernel: kernel.to_owned(), log_ratios_ppm };
    StoredConfidence {
        runner_up: Some("simt BM=32".to_owned()),
        margin_percent: Some(0.3),
        interval_percent: Some([0.28, 0.32]),
        rounds: 20,
        tainted_rounds: 0,
        ended: "tied".to_owned(),
        tie_set: Vec::new(),
        finalists: vec![
            finalist("simt BM=32", rounds(3000, 20)),
            finalist("simt BM=64", vec![0; 20]),
            finalist("simt BM=128", rounds(30_000, 10)),
        ],
    }
}

fn stored(confidence: StoredConfidence) -> (TempDir, PathBuf) {
    let (folder, path) = file_with("");
    let record = Record { confidence: Some(confidence), ..record(problem(2, 2, 2), 2.0) };
    record_winner(&path, &record, ReplacePolicy::Always).unwrap();
    (folder, path)
}

#[test]
fn a_final_is_decided_again_from_the_file() {
    let (_folder, path) = stored(confidence());
    assert!(read(&path).contains("\n    { kernel = \"simt BM=64\", log_ratios_ppm = [0, "));
    let read = Database::load(&path).unwrap();
    let known = read.records()[0].confidence.as_ref().unwrap();
    assert_eq!(known, &confidence());
    assert_eq!(known.winner_by(TieRule::Insignificant), Some("simt BM=64"));
    assert_eq!(known.winner_by(TieRule::Small), Some("simt BM=32"));
    let order = known.decided_by(TieRule::Insignificant).unwrap().order;
    let percents: Vec<String> =
        order.iter().map(|place| format!("{:.1}", place.margin.percent)).collect();
    assert_eq!(percents, ["0.0", "0.3", "3.0"]);
    assert_eq!(order[2].rounds, 10);
    let none = StoredConfidence { finalists: Vec::new(), ..confidence() };
    assert_eq!(none.winner_by(TieRule::Insignificant), None);
}

#[test]
fn impossible_rounds_are_named() {
    let finalist = |ratio: i32, rounds: usize| StoredFinalist {
        kernel: "simt BM=64".to_owned(),
        log_ratios_ppm: vec![ratio; rounds],
    };
    for (finalists, message) in [
        (vec![finalist(0, 1001)], "1001 is not within 0 to 1000"),
        (vec![finalist(i32::MIN, 1)], "2147483648 is not within 0 to 10000000"),
        (vec![finalist(0, 1); 101], "101 is not within 0 to 100"),
    ] {
        let (_folder, path) = stored(StoredConfidence { finalists, ..confidence() });
        let fault = Database::load(&path).unwrap().faults()[0].to_string();
        assert!(fault.contains("confidence.finalists") && fault.contains(message), "{fault}");
    }
}
