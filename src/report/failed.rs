//! Failures for people: those of one kind at one place are shown once, with their count.

use indexmap::IndexMap;

use crate::model::OutcomeKind;
use crate::tune::{CheckResult, Coverage, FailedCandidate};

/// Groups that are shown.
const SHOWN: usize = 8;

/// The failures of a check. Each is shown with the first configuration and problem that it was seen for.
pub(super) fn of_checks(results: &[CheckResult]) -> String {
    type Key<'a> = (&'a str, OutcomeKind, &'a str);
    let mut groups: IndexMap<Key<'_>, (usize, &CheckResult, &FailedCandidate)> = IndexMap::new();
    for result in results {
        for failed in &result.failures {
            let key = (&*result.family, failed.outcome.kind(), &*failed.failure.key);
            groups.entry(key).or_insert((0, result, failed)).0 += 1;
        }
    }
    let mut text = String::new();
    for (count, result, failed) in groups.values().take(SHOWN) {
        let executions = match count {
            1 => "with".to_owned(),
            count => format!("in {count} executions, such as"),
        };
        text += &format!(
            "\n{} fails {executions} {} for {}:\n{}",
            result.family,
            failed.configuration,
            result.problem,
            told(failed)
        );
    }
    text + &left_out(groups.len())
}

/// The failures of a search.
pub(super) fn of_search(coverage: &[Coverage]) -> String {
    let mut text = String::new();
    let mut count = 0;
    for family in coverage {
        for group in &family.failures {
            count += 1;
            if count > SHOWN {
                continue;
            }
            let candidates = match group.count {
                1 => "with".to_owned(),
                count => format!("in {count} candidates, such as"),
            };
            let (name, first) = (&family.family, &group.first);
            text += &format!("{name} fails {candidates} {}:\n{}", first.configuration, told(first));
        }
    }
    text + &left_out(count)
}

/// The kind of a failure and its text, indented.
fn told(failed: &FailedCandidate) -> String {
    let text = format!("{}: {}", failed.outcome.kind().name(), failed.failure.text);
    text.lines().map(|line| format!("  {line}").trim_end().to_owned() + "\n").collect()
}

fn left_out(groups: usize) -> String {
    match groups.saturating_sub(SHOWN) {
        0 => String::new(),
        1 => "\nand failures of another kind, which `--json` lists\n".to_owned(),
        more => format!("\nand failures of {more} other kinds, which `--json` lists\n"),
    }
}
