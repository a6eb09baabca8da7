//! JSON documents of `tune` and `--dry-run`.

use serde_json::{Value, json};

use super::covered;
use crate::database::StoredProblem;
use crate::model::{Configuration, Device, Measurement, Problem};
use crate::tune::{Certainty, Spaces, Standing, Summary};

/// Number of candidates listed.
const TOP: usize = 10;

/// The document of a tuned problem.
pub fn summary(summary: &Summary, device: &Device) -> Value {
    let problem = &summary.problem;
    let ranking: Vec<Value> =
        summary.ranking.iter().take(TOP).map(|entry| standing(entry, problem)).collect();
    let winner = summary.winner().map(|winner| {
        let mut document = standing(winner, problem);
        document["launch"] = json!(winner.plan);
        document["measurement"]["samples_us"] = json!(winner.measurement.samples);
        if let Some(peak) = device.peak(problem) {
            let rate = winner.measurement.tflops(problem);
            document["percent_of_peak"] = json!(100.0 * rate.0 / peak.0);
        }
        if let Some(speedup) = summary.speedup() {
            document["speedup_over_library"] = json!(speedup);
        }
        document
    });
    let baselines: Vec<Value> = summary
        .baselines
        .iter()
        .map(|entry| {
            json!({ "name": entry.name, "measurement": measurement(&entry.measurement, problem) })
        })
        .collect();
    let coverage: Vec<Value> = summary
        .coverage
        .iter()
        .map(|family| {
            let outcomes: serde_json::Map<String, Value> = family
                .outcomes
                .iter()
                .map(|(outcome, count)| (outcome.name().to_owned(), json!(count)))
                .collect();
            let failures: Vec<Value> = family
                .failures
                .iter()
                .map(|group| {
                    json!({
                        "parameters": group.first.configuration,
                        "outcome": group.first.outcome,
                        "message": group.first.failure.message,
                        "count": group.count,
                    })
                })
                .collect();
            json!({
                "family": family.family,
                "raw": family.raw.to_string(),
                "legal": family.legal,
                "evaluated": family.evaluated(),
                "pruned": covered::pruned(family),
                "recalled": family.recalled,
                "outcomes": outcomes,
                "best_us": family.best,
                "failures": failures,
            })
        })
        .collect();
    let phases = &summary.phases;
    json!({
        "problem": problem_document(problem),
        "winner": winner,
        "certainty": summary.certainty.as_ref().map(certainty),
        "baselines": baselines,
        "library_version": summary.library_version,
        "ranking": ranking,
        "coverage": coverage,
        "phases": {
            "prepare_s": phases.prepare.as_secs_f64(),
            "search_s": phases.search.as_secs_f64(),
            "contest_s": phases.contest.as_secs_f64(),
            "compiling_cpu_s": phases.compiling.as_secs_f64(),
            "compiled": phases.compiled,
            "from_cache": phases.from_cache,
        },
        "restarts": summary.restarts,
        "search": covered::document(summary),
        "interim": summary.is_interim(),
    })
}

fn certainty(certainty: &Certainty) -> Value {
    let named = |family: &str, configuration: &Configuration| json!({ "family": family, "parameters": configuration });
    let runner_up = certainty.runner_up.as_ref().map(|(family, configuration, margin)| {
        let mut document = named(family, configuration);
        document["margin_percent"] = json!(margin.percent);
        document["interval_percent"] = json!([margin.low, margin.high]);
        document
    });
    let ties: Vec<Value> =
        certainty.tie_set.iter().map(|(family, values)| named(family, values)).collect();
    let finalists: Vec<Value> = (certainty.finalists.iter())
        .map(|finalist| {
            let mut document = named(&finalist.family, &finalist.configuration);
            document["log_ratios"] = json!(finalist.log_ratios);
            document
        })
        .collect();
    json!({
        "finalists": finalists,
        "runner_up": runner_up,
        "rounds": certainty.rounds,
        "tainted_rounds": certainty.tainted_rounds,
        "taint": certainty.taint,
        "tie_set": ties,
        "ended": certainty.ended.to_string(),
        "conditions": certainty.conditions,
    })
}

fn standing(standing: &Standing, problem: &Problem) -> Value {
    json!({
        "family": standing.family,
        "parameters": standing.configuration,
        "deterministic": !standing.plan.nondeterministic,
        "measurement": measurement(&standing.measurement, problem),
        "validation": standing.validation,
        "also_right_on": standing.also,
        "resources": standing.resources,
        "contested": standing.contested,
    })
}

fn measurement(measurement: &Measurement, problem: &Problem) -> Value {
    json!({
        "median_us": measurement.median(),
        "p05_us": measurement.quantile(0.05),
        "p95_us": measurement.quantile(0.95),
        "samples": measurement.samples.len(),
        "launches_per_sample": measurement.launches_per_sample,
        "tflops": measurement.tflops(problem),
        "timing": measurement.timing,
        "cache_policy": measurement.regime.cache,
        "power": measurement.regime.power,
        "sm_clock_mhz": measurement.sm_clock_mhz,
    })
}

/// Fields of a problem, with the names of the database.
pub fn problem_document(problem: &Problem) -> Value {
    json!(StoredProblem::from(problem))
}

/// The search spaces, for `--dry-run`.
pub fn spaces(spaces: &Spaces, problem: &Problem, candidates: usize) -> Value {
    let families: Vec<Value> = spaces
        .families
        .iter()
        .map(|family| {
            let pruned: Vec<Value> = family
                .space
                .pruned
                .iter()
                .map(|pruned| {
                    json!({
                        "require": pruned.require,
                        "because": pruned.because,
                        "configurations": pruned.configurations.to_string(),
                    })
                })
                .collect();
            json!({
                "family": family.name,
                "raw": family.space.raw.to_string(),
                "legal": family.space.len(),
                "pruned": pruned,
                "default": family.default,
            })
        })
        .collect();
    json!({
        "problem": problem_document(problem),
        "candidates": candidates,
        "families": families,
        "not_used": spaces.refusals.iter().map(|refusal| refusal.trim()).collect::<Vec<_>>(),
    })
}
