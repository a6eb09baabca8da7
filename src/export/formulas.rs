//! The formulas by which programs choose among the kernels of an artifact: fitted to lookup's predictions, then balanced.

use rayon::prelude::*;

use super::draft::KernelDraft;
use super::selection::{fit_samples, patterns};
use crate::lookup::{Lookup, Question};
use crate::model::Problem;
use crate::predict::{FormulaSample, fitted_to};

/// Rounds in which formulas are balanced, and the share of a loss that is corrected in the first.
const ROUNDS: u32 = 200;
const RATE: f64 = 0.3;

/// Fits the formulas of drafts to lookup's predictions for the lattice and for drawn problems.
pub(super) fn fit(drafts: &mut [KernelDraft], lookup: &Lookup, sms: u32) {
    for pattern in patterns(drafts) {
        let questions: Vec<Question> = fit_samples(&pattern).collect();
        let is_own = |draft: &KernelDraft| draft.pattern() == pattern.pattern();
        let forecast = |draft: &KernelDraft, question: &Question| {
            let served = is_own(draft) && draft.serves(question);
            let kernel = (&*draft.family, &draft.configuration);
            if served { lookup.forecast(kernel, question).map(|time| time.0) } else { None }
        };
        let forecasts: Vec<Vec<Option<f64>>> = drafts
            .par_iter()
            .map(|draft| questions.iter().map(|question| forecast(draft, question)).collect())
            .collect();
        let best = |place: usize| {
            forecasts.iter().filter_map(|times| times[place]).fold(f64::INFINITY, f64::min)
        };
        let best: Vec<f64> = (0..questions.len()).map(best).collect();
        let own = drafts.par_iter_mut().zip(&forecasts).filter(|(draft, _)| is_own(draft));
        own.for_each(|(draft, times)| {
            let samples = times.iter().zip(&best).zip(&questions);
            let samples = samples.filter_map(|((us, best_us), question)| {
                let Problem { shape, batch, .. } = question.problem;
                Some(FormulaSample { shape, batch, us: (*us)?, best_us: *best_us })
            });
            let samples: Vec<FormulaSample> = samples.collect();
            draft.expectation = fitted_to(&draft.expectation, &samples, sms);
        });
    }
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
pub(super) fn balance(drafts: &mut [KernelDraft], lookup: &Lookup, sms: u32) {
    let patterns = patterns(drafts);
    let known = &*drafts;
    let serving = |question: &Question| -> Vec<Serving> {
        let Problem { shape, batch, .. } = question.problem;
        let own = known.iter().enumerate().filter(|(_, draft)| {
            draft.pattern() == question.problem.pattern() && draft.serves(question)
        });
        let times = own.filter_map(|(place, draft)| {
            let time = lookup.forecast((&draft.family, &draft.configuration), question)?;
            let formula = draft.expectation.cautious_us(&shape, batch, sms);
            Some(Serving { place, predicted: time.0.ln(), formula: formula.ln() })
        });
        times.collect()
    };
    let questions: Vec<Question> = patterns.iter().flat_map(fit_samples).collect();
    let cases: Vec<Vec<Serving>> =
        questions.par_iter().map(serving).filter(|serving| serving.len() > 1).collect();
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
