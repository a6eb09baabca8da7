//! Extra checks for finalists: other inputs, a second run, neighbouring shapes.
//!
//! The second run must give the same bits, which reveals races; the result of a non-deterministic kernel must be within
//! the bound again. Neighbouring shapes are one larger and one smaller in each dimension, where the source serves them.

use super::error::TuneError;
use super::event::TuneEvent;
use super::finalist::Finalist;
use super::prepared_gpu::{PreparedGpu, outcome_of};
use super::ranking::Standing;
use crate::model::{LaunchPlan, Mismatch, Outcome, Problem};
use crate::validate::ValidationSubject;
use crate::worker::WorkerError;

/// Distinguishes the input values of the checks from those of the validation.
const OTHER_VALUES: u64 = 1 << 32;

/// A problem to check candidates on: their places, and how each is launched for it.
struct FinalistTrial {
    problem: Problem,
    candidates: Vec<(usize, LaunchPlan)>,
}

/// Checks finalists. Gives the outcomes of those that fail, in the order given; the others get a note of the checks that
/// they passed.
///
/// # Errors
/// Only where the device cannot be used any more.
pub(super) fn check_finalists(
    gpu: &mut PreparedGpu<'_>,
    finalists: &mut [Finalist],
    on_event: &mut dyn FnMut(TuneEvent<'_>),
) -> Result<Vec<Option<Outcome>>, TuneError> {
    let mut failed: Vec<Option<Outcome>> = finalists.iter().map(|_| None).collect();
    for mut trial in trials(gpu.problem, finalists) {
        // After each candidate that ended the worker again, without that candidate.
        loop {
            trial.candidates.retain(|(place, _)| failed[*place].is_none());
            if trial.candidates.is_empty() {
                break;
            }
            match run_trial(gpu, &mut trial, finalists, &mut failed, on_event) {
                Ok(()) => break,
                Err(error) if error.ends_worker() => gpu.restart()?,
                // Too little memory, for example: a check that does not run is not noted.
                Err(error) => {
                    let FinalistTrial { problem, .. } = trial;
                    on_event(TuneEvent::Note(format!(
                        "finalists are not checked on {problem}: {error}"
                    )));
                    break;
                }
            }
        }
    }
    Ok(failed)
}

/// The trials: the problem itself first, then its neighbours.
fn trials(problem: Problem, finalists: &[Finalist]) -> Vec<FinalistTrial> {
    let own = |(place, finalist): (usize, &Finalist)| (place, finalist.candidate.plan.clone());
    let mut trials = vec![FinalistTrial {
        problem,
        candidates: finalists.iter().enumerate().map(own).collect(),
    }];
    for (place, finalist) in finalists.iter().enumerate() {
        for neighbour in &finalist.neighbours {
            let candidate = (place, neighbour.plan.clone());
            match trials.iter_mut().find(|trial| trial.problem == neighbour.problem) {
                Some(trial) => trial.candidates.push(candidate),
                None => trials.push(FinalistTrial {
                    problem: neighbour.problem,
                    candidates: vec![candidate],
                }),
            }
        }
    }
    trials
}

/// Checks the candidates of a trial and removes them from it. An error is not a candidate's, or it ended the worker.
fn run_trial(
    gpu: &mut PreparedGpu<'_>,
    trial: &mut FinalistTrial,
    finalists: &mut [Finalist],
    failed: &mut [Option<Outcome>],
    on_event: &mut dyn FnMut(TuneEvent<'_>),
) -> Result<(), WorkerError> {
    let problem = trial.problem;
    let is_own = problem == gpu.problem;
    gpu.validate_on(&problem, OTHER_VALUES)?;
    while let Some((place, plan)) = trial.candidates.pop() {
        gpu.allow_kernel(&problem, None);
        match check_candidate(gpu, &finalists[place], &plan, &problem) {
            Ok(Ok(())) => {
                let also = &mut finalists[place].standing.also;
                if is_own {
                    let twice =
                        if plan.nondeterministic { "within the bound" } else { "the same bits" };
                    also.push(format!("other values, {twice} twice"));
                } else {
                    also.push(problem.shape.to_string());
                }
            }
            Ok(Err(mismatch)) => failed[place] = Some(Outcome::Correctness(mismatch)),
            Err(WorkerError::OutOfMemory { message }) => {
                let Standing { family, configuration, .. } = &finalists[place].standing;
                on_event(TuneEvent::Note(format!(
                    "{family} {configuration} is not checked on {problem}: {message}"
                )));
            }
            Err(error) => {
                let ends_worker = error.ends_worker();
                failed[place] = Some(outcome_of(error.clone(), "validating the finalist"));
                if ends_worker {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// Validates one candidate on other values, and compares two of its runs: bit for bit, or by validating the second run
/// too where the kernel is non-deterministic.
fn check_candidate(
    gpu: &mut PreparedGpu<'_>,
    finalist: &Finalist,
    plan: &LaunchPlan,
    problem: &Problem,
) -> Result<Result<(), Mismatch>, WorkerError> {
    let mounted = gpu.mount(&[(&finalist.candidate.compiled.image, plan)], problem)?;
    let work = |operands, scalars| mounted.work(0, operands, scalars);
    let subject = ValidationSubject { work: &work, workspaces: mounted.workspaces() };
    let judged = judge(gpu, &subject, plan.nondeterministic);
    if !judged.as_ref().is_err_and(WorkerError::ends_worker) {
        gpu.unmount(mounted)?;
    }
    let neighbour = |mismatch: Mismatch| Mismatch {
        check: format!("on {}: {}", problem.shape, mismatch.check),
        ..mismatch
    };
    Ok(judged?.map_err(neighbour))
}

fn judge(
    gpu: &mut PreparedGpu<'_>,
    subject: &ValidationSubject<'_>,
    nondeterministic: bool,
) -> Result<Result<(), Mismatch>, WorkerError> {
    let validator = &gpu.validator;
    match validator.validate(gpu.executor, subject)? {
        Err(mismatch) => Ok(Err(mismatch)),
        Ok(_) if nondeterministic => Ok(validator.validate(gpu.executor, subject)?.map(|_| ())),
        Ok(_) => validator.repeat(gpu.executor, subject),
    }
}
