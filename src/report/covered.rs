//! Report of a search's coverage: evaluated and excluded configurations, and the estimate for the
//! rest.

use serde_json::{Value, json};

use super::tuned::is_modelled;
use crate::model::Micros;
use crate::tune::{Coverage, Rest, SearchEnd, StopRule, Summary};

/// Number of constraints listed: those that exclude most.
const RULES: usize = 3;

/// The coverage as text; verbose, with the constraints that exclude most.
pub fn text(summary: &Summary, verbose: bool) -> String {
    let coverage = &summary.coverage;
    let legal: usize = coverage.iter().map(|family| family.legal).sum();
    let raw: u128 = coverage.iter().map(|family| family.raw).sum();
    let mut text =
        format!("evaluated {} of {legal} candidates: {}\n", summary.evaluated(), end(summary.end));
    let ruled_out = raw.saturating_sub(legal as u128);
    if verbose && ruled_out > 0 {
        text.push_str(&format!(
            "  {} other assignments are excluded, most of them by\n",
            rounded(ruled_out)
        ));
        for (family, require, because, configurations) in most_telling(coverage) {
            text.push_str(&format!(
                "    {} {family} `{require}` ({because})\n",
                rounded(configurations)
            ));
        }
    }
    text.push_str(&rest(summary));
    text
}

/// Reason why the search ended.
fn end(end: SearchEnd) -> String {
    match end {
        SearchEnd::Everything => "all of them".to_owned(),
        SearchEnd::Most => "the limit of `--max-configs` or `--effort` was reached".to_owned(),
        SearchEnd::Unlikely(StopRule { within, chance }) => format!(
            "the chance that a remaining one is better by more than {} is below {}",
            percent(within),
            percent(chance)
        ),
        SearchEnd::OutOfTime => "the time limit (`--budget`) was reached".to_owned(),
        SearchEnd::Interrupted => "the search was interrupted".to_owned(),
    }
}

/// The search's estimate for the candidates that it did not evaluate.
fn rest(summary: &Summary) -> String {
    let Rest { chances, least } = &summary.rest;
    if summary.end == SearchEnd::Everything {
        return String::new();
    }
    let mut text = if chances.is_empty() {
        "  the chance that one of the others is better is not known for this kind of search\n"
            .to_owned()
    } else {
        let mut chances = chances.clone();
        chances.sort_by(|a, b| a.within.total_cmp(&b.within));
        let stated = chances
            .iter()
            .map(|one| format!("{} by more than {}", percent(one.chance), percent(one.within)));
        let stated = stated.collect::<Vec<_>>().join(", ");
        format!("  chance that one of the others is better: {stated}\n")
    };
    let best = summary.coverage.iter().filter_map(|family| family.best).map(|best| best.0);
    let best = best.fold(f64::INFINITY, f64::min);
    if let Some(Micros(least)) = *least
        && best.is_finite()
    {
        let ratio = 100.0 * (least / best - 1.0);
        let kind = if is_modelled(summary) { "modelled" } else { "measured" };
        text.push_str(&format!(
            "  lowest predicted time of the others: {}, {ratio:+.1} % from the best {kind} time\n",
            Micros(least)
        ));
    }
    text
}

/// Constraints that exclude most, with their families.
fn most_telling(coverage: &[Coverage]) -> Vec<(&str, &str, &str, u128)> {
    let mut rules: Vec<(&str, &str, &str, u128)> = coverage
        .iter()
        .flat_map(|family| {
            let name = family.family.as_str();
            let pruned = family.pruned.iter().filter(|pruned| pruned.configurations > 0);
            pruned.map(move |pruned| {
                (name, pruned.require.as_str(), pruned.because.as_str(), pruned.configurations)
            })
        })
        .collect();
    rules.sort_by_key(|(.., configurations)| std::cmp::Reverse(*configurations));
    rules.truncate(RULES);
    rules
}

/// The coverage as JSON, without the figures of each family.
pub fn document(summary: &Summary) -> Value {
    let Rest { chances, least } = &summary.rest;
    let rule = match summary.end {
        SearchEnd::Unlikely(StopRule { within, chance }) => {
            json!({ "within": within, "chance": chance })
        }
        _ => Value::Null,
    };
    let stated: Vec<Value> = chances
        .iter()
        .map(|one| json!({ "within": one.within, "chance_of_better": one.chance }))
        .collect();
    json!({
        "evaluated": summary.evaluated(),
        "legal": summary.coverage.iter().map(|family| family.legal).sum::<usize>(),
        "ended": summary.end.name(),
        "ended_early": summary.end.is_early(),
        "rule": rule,
        "rest": {
            "within": chances.first().map(|first| first.within),
            "chance_of_better": chances.first().map(|first| first.chance),
            "chances": stated,
            "least_expected_us": least,
        },
    })
}

/// Constraints of a family with their counts, as JSON.
pub(super) fn pruned(coverage: &Coverage) -> Value {
    let rules = coverage.pruned.iter().filter(|pruned| pruned.configurations > 0);
    rules
        .map(|pruned| {
            json!({
                "require": pruned.require,
                "because": pruned.because,
                "configurations": pruned.configurations.to_string(),
            })
        })
        .collect()
}

/// Formats a fraction as a short percentage.
fn percent(fraction: f64) -> String {
    let percent = 100.0 * fraction;
    if percent >= 10.0 {
        format!("{percent:.0} %")
    } else {
        format!("{} %", (10.0 * percent).round() / 10.0)
    }
}

/// Formats a large count with a unit.
fn rounded(count: u128) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..10_000_000 => format!("{} thousand", count / 1000),
        10_000_000..10_000_000_000 => format!("{} million", count / 1_000_000),
        _ => format!("{} billion", count / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, OutcomeKind, Problem, Shape};
    use crate::space::PrunedCount;
    use crate::tune::{GainChance, Phases};

    fn summary(end: SearchEnd, chance: Option<f64>) -> Summary {
        let pruned = |require: &str, configurations| PrunedCount {
            require: require.to_owned(),
            because: "it must".to_owned(),
            configurations,
        };
        let coverage = Coverage {
            family: "f".to_owned(),
            raw: 46_000_000,
            legal: 4_000,
            pruned: vec![pruned("A", 0), pruned("B", 5_996_000), pruned("C", 40_000_000)],
            outcomes: [(OutcomeKind::Correct, 400)].into(),
            best: Some(Micros(100.0)),
            ..Coverage::default()
        };
        Summary {
            problem: Problem::new(Shape { m: 8, n: 8, k: 8 }, Dtype::F32),
            ranking: Vec::new(),
            baselines: Vec::new(),
            certainty: None,
            library_version: String::new(),
            coverage: vec![coverage],
            landmarks: Vec::new(),
            phases: Phases::default(),
            restarts: 0,
            end,
            rest: Rest {
                chances: (chance.into_iter())
                    .flat_map(|chance| {
                        [(0.01, chance), (0.005, 2.0 * chance)]
                            .map(|(within, chance)| GainChance { within, chance })
                    })
                    .collect(),
                least: chance.map(|_| Micros(99.6)),
            },
        }
    }

    #[test]
    fn a_search_reports_its_coverage_and_its_estimate() {
        let rule = StopRule { within: 0.01, chance: 0.05 };
        assert_eq!(
            text(&summary(SearchEnd::Unlikely(rule), Some(0.0432)), true),
            "evaluated 400 of 4000 candidates: the chance that a remaining one is better by more \
             than 1 % is below 5 %\n  \
             45 million other assignments are excluded, most of them by\n    \
             40 million f `C` (it must)\n    \
             5996 thousand f `B` (it must)\n  \
             chance that one of the others is better: 8.6 % by more than 0.5 %, 4.3 % by more than 1 %\n  \
             lowest predicted time of the others: 99.60 µs, -0.4 % from the best measured time\n"
        );
        assert!(
            text(&summary(SearchEnd::OutOfTime, None), true)
                .ends_with("not known for this kind of search\n")
        );
        assert!(!text(&summary(SearchEnd::Everything, Some(0.0)), true).contains("others"));
        let document = document(&summary(SearchEnd::Unlikely(rule), Some(0.04)));
        assert_eq!(document["ended"], "unlikely");
        assert_eq!(document["rest"]["chance_of_better"], 0.04);
    }
}
