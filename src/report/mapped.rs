//! Report of the map of a device: how far it is, and the held-out regret over time.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::json::problem_document;
use super::table::{TableStyle, named};
use crate::model::Device;
use crate::session::cover::{CoverState, CoverStep, MapGoal};

/// Points of the regret over time.
const POINTS: usize = 10;

/// One line after a round.
pub fn progress(state: &CoverState, elapsed: Duration) -> String {
    format!(
        "{} after {:.0} s, {}, {} of the model",
        counted(state.problems, "problem"),
        elapsed.as_secs_f64(),
        regret(state),
        counted(state.trainings, "training")
    )
}

/// A number of things.
pub fn counted(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

fn regret(state: &CoverState) -> String {
    match state.regret {
        None => "held-out regret not known yet".to_owned(),
        Some(regret) => format!(
            "held-out regret {:.1} % ({} at random)",
            100.0 * regret,
            counted(state.estimated_from, "problem")
        ),
    }
}

/// For people: the regret over time, and how the map ended.
pub fn summary(
    steps: &[CoverStep],
    state: &CoverState,
    goal: &MapGoal,
    (device, style): (&Device, TableStyle),
) -> String {
    let mut table = style.table();
    table.set_header(named("problems", ["after", "held-out regret", "of problems"]));
    for (count, own, seconds) in history(steps) {
        let percent = own.regret.map_or(String::new(), |regret| format!("{:.1} %", 100.0 * regret));
        table.add_row([
            count.to_string(),
            format!("{seconds:.0} s"),
            percent,
            own.estimated_from.to_string(),
        ]);
    }
    let end = match goal.problems.count() {
        Some(all) if all == state.problems && !state.reaches(goal) => "all are tuned".to_owned(),
        _ => {
            let verdict = if state.reaches(goal) { "reached" } else { "not reached" };
            format!("the goal of {:.1} % is {verdict}", 100.0 * goal.regret)
        }
    };
    let listed = goal.problems.count().map_or(String::new(), |all| format!(" of {all}"));
    format!(
        "{}\n\nmap of {}: {}{listed}, {}; {end}\n",
        style.draw(table),
        device.name,
        counted(state.problems, "problem"),
        regret(state),
    )
}

/// The state after about every tenth of the steps: number of steps, state, and seconds.
fn history(steps: &[CoverStep]) -> Vec<(usize, CoverState, f64)> {
    let mut counts: Vec<usize> =
        (1..=POINTS).map(|point| (steps.len() * point).div_ceil(POINTS)).collect();
    counts.dedup();
    let point = |count: usize| {
        let own = steps.get(..count)?;
        let last = own.last()?;
        Some((count, CoverState::of(own, last.trainings), last.after_s))
    };
    counts.into_iter().filter_map(point).collect()
}

/// For programs.
pub fn document(
    steps: &[CoverStep],
    state: &CoverState,
    device: &Device,
    database: &Path,
) -> Value {
    let step = |step: &CoverStep| {
        json!({
            "problem": problem_document(&step.problem),
            "regret": step.log_regret.map(f64::exp_m1),
            "at_random": step.at_random,
            "trainings": step.trainings,
            "after_s": step.after_s,
        })
    };
    json!({
        "device": device.name,
        "database": database.display().to_string(),
        "problems": state.problems,
        "held_out_regret": state.regret,
        "estimated_from": state.estimated_from,
        "trainings": state.trainings,
        "steps": steps.iter().map(step).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, Problem};
    use crate::session::cover::MapProblems;

    #[test]
    fn the_regret_is_shown_over_time_with_the_goal() {
        let step = |at: u32| CoverStep {
            problem: Problem::new(format!("{}x8x8", at + 1).parse().unwrap(), Dtype::F32),
            log_regret: Some(if at < 40 { 0.5 } else { 0.01 }),
            at_random: true,
            trainings: 0,
            after_s: f64::from(at),
        };
        let steps: Vec<CoverStep> = (0..80).map(step).collect();
        let state = CoverState::of(&steps, 2);
        let list = steps.iter().map(|step| (step.problem, 1.0));
        let goal = MapGoal { regret: 0.05, problems: MapProblems::listed(list), seed: 0 };
        let text =
            summary(&steps, &state, &goal, (&Device::h200(), TableStyle::Text { width: 80 }));
        assert!(text.contains("64.9 %") && text.contains("1.0 %"), "{text}");
        assert!(text.contains("the goal of 5.0 % is reached"), "{text}");
        assert!(text.contains("80 problems of 80"), "{text}");
        let goal = MapGoal { regret: 0.001, ..goal };
        let text =
            summary(&steps, &state, &goal, (&Device::h200(), TableStyle::Text { width: 80 }));
        assert!(text.ends_with("all are tuned\n"), "{text}");
        let line = progress(&CoverState::of(&[], 0), Duration::from_secs(3));
        assert!(line.contains("not known yet"), "{line}");
        let document = document(&steps, &state, &Device::h200(), Path::new("a.toml"));
        assert_eq!(document["steps"].as_array().map(Vec::len), Some(80));
        assert_eq!(document["estimated_from"], 32);
    }
}
