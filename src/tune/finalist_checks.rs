//! What a candidate goes through before it may be in the final, beyond the validation of all: other
//! values, a second run that must give the same bits (a race shows itself there) or, of a kernel whose
//! family says that its bits differ, be within the bound as the first is, and the shapes one larger and
//! one smaller in each dimension as far as its source serves them.

use super::evaluator::Kept;
use super::gpu_evaluator::{GpuEvaluator, outcome_of};
use super::{Event, TuneError};
use crate::model::{LaunchPlan, Mismatch, Outcome, Problem};
use crate::validate::{ValidationSubject, Validator};
use crate::worker::WorkerError;

/// What distinguishes the values of the second run from those of the first.
const OTHER_VALUES: u64 = 1 << 32;

/// A problem to be tried, and who is: places among the candidates, and how each is launched there.
struct Trial {
    problem: Problem,
    who: Vec<(usize, LaunchPlan)>,
}

/// Tries candidates. Those that fail get their outcome, in the order given; the others a note of
/// what they passed.
///
/// # Errors
/// Only where the device cannot be used any more.
pub(super) fn check_finalist(
    evaluator: &mut GpuEvaluator<'_>,
    candidates: &mut [Kept],
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<Vec<Option<Outcome>>, TuneError> {
    let mut failed: Vec<Option<Outcome>> = candidates.iter().map(|_| None).collect();
    for mut trial in trials(evaluator.problem, candidates) {
        // Again after each candidate that cost the worker, without that one.
        loop {
            trial.who.retain(|(place, _)| failed[*place].is_none());
            if trial.who.is_empty() {
                break;
            }
            match hold(evaluator, &mut trial, candidates, &mut failed) {
                Ok(()) => break,
                Err(error) if error.ends_worker() => evaluator.restart()?,
                // Too little memory, say: what is not tried is not claimed.
                Err(error) => {
                    let Trial { problem, .. } = trial;
                    on_event(Event::Note(format!(
                        "finalists were not tried on {problem}: {error}"
                    )));
                    break;
                }
            }
        }
    }
    Ok(failed)
}

/// The problem itself first, then its neighbours.
fn trials(problem: Problem, candidates: &[Kept]) -> Vec<Trial> {
    let own = |(place, kept): (usize, &Kept)| (place, kept.candidate.plan.clone());
    let mut trials = vec![Trial { problem, who: candidates.iter().enumerate().map(own).collect() }];
    for (place, kept) in candidates.iter().enumerate() {
        for elsewhere in &kept.elsewhere {
            let who = (place, elsewhere.plan.clone());
            match trials.iter_mut().find(|trial| trial.problem == elsewhere.problem) {
                Some(trial) => trial.who.push(who),
                None => trials.push(Trial { problem: elsewhere.problem, who: vec![who] }),
            }
        }
    }
    trials
}

/// Tries all that are left of a trial, which it takes from it. An error is not theirs, or it ended
/// the worker.
fn hold(
    evaluator: &mut GpuEvaluator<'_>,
    trial: &mut Trial,
    candidates: &mut [Kept],
    failed: &mut [Option<Outcome>],
) -> Result<(), WorkerError> {
    let problem = trial.problem;
    let is_own = problem == evaluator.problem;
    let validator = evaluator.other_validator(&problem, OTHER_VALUES)?;
    while let Some((place, plan)) = trial.who.pop() {
        evaluator.expect(&problem);
        match examine(evaluator, &validator, &candidates[place], &plan, &problem) {
            Ok(Ok(())) => {
                let also = &mut candidates[place].standing.also;
                if is_own {
                    let twice =
                        if plan.nondeterministic { "within the bound" } else { "the same bits" };
                    also.push(format!("other values, {twice} twice"));
                } else {
                    also.push(problem.shape.to_string());
                }
            }
            Ok(Err(mismatch)) => failed[place] = Some(Outcome::Correctness(mismatch)),
            Err(error) => {
                let ends_worker = error.ends_worker();
                failed[place] = Some(outcome_of(error.clone(), "validating the finalist"));
                if ends_worker {
                    return Err(error);
                }
            }
        }
    }
    validator.release(evaluator.executor)
}

/// Validates one candidate on other values, and compares two of its runs: bit for bit, or by validating
/// the second as well where bits may differ.
fn examine(
    evaluator: &mut GpuEvaluator<'_>,
    validator: &Validator,
    kept: &Kept,
    plan: &LaunchPlan,
    problem: &Problem,
) -> Result<Result<(), Mismatch>, WorkerError> {
    let mounted = evaluator.mount(&[(&kept.candidate.compiled.image, plan)], problem)?;
    let work = |operands, scalars| mounted.work(0, operands, scalars);
    let subject = ValidationSubject { work: &work, workspaces: mounted.workspaces() };
    let mut judged = validator.validate(evaluator.executor, &subject)?.map(|_| ());
    if judged.is_ok() {
        judged = if plan.nondeterministic {
            validator.validate(evaluator.executor, &subject)?.map(|_| ())
        } else {
            validator.repeat(evaluator.executor, &subject)?
        };
    }
    evaluator.unmount(mounted)?;
    let neighbour = |mismatch: Mismatch| Mismatch {
        check: format!("on {}: {}", problem.shape, mismatch.check),
        ..mismatch
    };
    Ok(judged.map_err(neighbour))
}
