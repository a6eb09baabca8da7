//! The formulas by which programs choose among the kernels of an artifact: fitted to lookup's predictions, then balanced.

use rayon::prelude::*;

use super::draft::KernelDraft;
use super::questions::fit_samples;
use super::selection::{patterns, predictions};
use crate::lookup::{Lookup, Question};
use crate::model::{Micros, Problem};
use crate::predict::{FormulaSample, fitted_to};

/// Rounds in which formulas are balanced, and the share of a loss that is corrected in the first.
const ROUNDS: u32 = 200;
const RATE: f64 = 0.3;

/// Fits the formulas of drafts to lookup's predictions for the lattice and for drawn problems.
pub(super) fn fit(drafts: &mut [KernelDraft], lookup: &Lookup, sms: u32) {
    for pattern in patterns(drafts) {
        let questions: Vec<Question> = fit_samples(&pattern).collect();
        let is_own = |draft: &&mut KernelDraft| draft.pattern() == pattern.pattern();
        let mut own: Vec<&mut KernelDraft> = drafts.iter_mut().filter(is_own).collect();
        let shared: Vec<&KernelDraft> = own.iter().map(|draft| &**draft).collect();
        let known = |times: Vec<(usize, Option<Micros>)>| {
            times.into_iter().filter_map(|(at, time)| Some((at, time?.0))).collect()
        };
        let times = predictions(&shared, &questions, lookup).into_iter().map(known);
        let times: Vec<Vec<(usize, f64)>> = times.collect();
        fit_each(&mut own, &questions, &times, sms);
        balance(&mut own, &questions, &times, sms);
    }
}

/// Fits each formula to its kernel's predicted times: for each draft those of the questions at some places.
fn fit_each(
    drafts: &mut [&mut KernelDraft],
    questions: &[Question],
    times: &[Vec<(usize, f64)>],
    sms: u32,
) {
    let mut best = vec![f64::INFINITY; questions.len()];
    for (at, time) in times.iter().flatten() {
        best[*at] = best[*at].min(*time);
    }
    drafts.par_iter_mut().zip(times).for_each(|(draft, times)| {
        let samples = times.iter().map(|(at, us)| {
            let Problem { shape, batch, .. } = questions[*at].problem;
            FormulaSample { shape, batch, us: *us, best_us: best[*at] }
        });
        let samples: Vec<FormulaSample> = samples.collect();
        draft.expectation = fitted_to(&draft.expectation, &samples, sms);
    });
}

/// A kernel that serves a question: its place among the drafts, and the logarithms of its time by lookup's prediction
/// and by its formula.
struct Serving {
    place: usize,
    predicted: f64,
    formula: f64,
}

/// Makes formulas agree on which kernel is best: kernels that are chosen where another one has a lower predicted time
/// get slower by a factor, and those others faster (a perceptron of one weight for each kernel). The factors with the
/// least mean loss are kept.
fn balance(
    drafts: &mut [&mut KernelDraft],
    questions: &[Question],
    times: &[Vec<(usize, f64)>],
    sms: u32,
) {
    let mut cases: Vec<Vec<Serving>> = questions.iter().map(|_| Vec::new()).collect();
    for (place, (draft, times)) in drafts.iter().zip(times).enumerate() {
        for (at, time) in times {
            let Problem { shape, batch, .. } = questions[*at].problem;
            let formula = draft.expectation.cautious_us(&shape, batch, sms).ln();
            cases[*at].push(Serving { place, predicted: time.ln(), formula });
        }
    }
    cases.retain(|serving| serving.len() > 1);
    let (mut slower, mut least) = (vec![0.0; drafts.len()], (f64::INFINITY, Vec::new()));
    for round in 0..ROUNDS {
        let (mut loss, before) = (0.0, slower.clone());
        for case in &cases {
            let by = |value: &dyn Fn(&Serving) -> f64| {
                case.iter().min_by(|a, b| value(a).total_cmp(&value(b)))
            };
            let chosen = by(&|one| one.formula + slower[one.place]);
            let best = by(&|one| one.predicted);
            let (Some(chosen), Some(best)) = (chosen, best) else { continue };
            let lost = chosen.predicted - best.predicted;
            loss += lost;
            let step = RATE * lost.min(1.0) / f64::from(round + 1).sqrt();
            slower[chosen.place] += step;
            slower[best.place] -= step;
        }
        if loss < least.0 {
            least = (loss, before);
        }
    }
    for (draft, slower) in drafts.iter_mut().zip(least.1) {
        draft.expectation = draft.expectation.slowed_by(f64::exp(slower));
    }
}
