//! Resolves one question from the prepared records and families of `index`.

use super::answer::{Answer, AnswerSource, NoAnswer, Question, Why};
use super::candidates::{KernelRef, LookupCandidate};
use super::index::{FEWEST_CHECKED, Group, Lookup, MOST_LOOKED_AT};
use super::kernels::{Demand, KnownKernel, RecordedKernel};
use super::neighbours::NeighbourIndex;
use crate::model::{Micros, Problem};
use crate::predict::{least_time, modelled_error_percent};

/// Legal kernel of a record with its predicted time.
struct PredictedRecord<'a> {
    known: &'a RecordedKernel,
    time: f64,
    compared: usize,
}

impl Lookup {
    /// The kernel to use.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub fn answer(&self, question: &Question) -> Result<Answer<'_>, NoAnswer> {
        let problem = &question.problem;
        let demand = Demand::from(question);
        let exact = self.record(problem);
        let permitted = exact.filter(|known| self.permits(&known.kernel, &demand));
        if self.pinned {
            return self.pinned_answer(problem, exact, permitted);
        }
        if let Some(known) = permitted {
            return Ok(self.exactly(known));
        }
        let group = self.group_of(problem);
        let near = group.own.around(question);
        if let Some(answer) = self.by_learned_model(group, question, &near, &demand) {
            return Ok(answer);
        }
        if let Some(answer) = self.least_by_landmarks(group, question, &near, &demand) {
            return Ok(answer);
        }
        let (own, mut tried) = self.nearest(&group.own, question, &demand);
        let mut source = AnswerSource::Neighbour;
        let best = own.or_else(|| {
            source = AnswerSource::Sibling;
            let (sibling, more) = self.nearest(&group.siblings, question, &demand);
            tried += more;
            sibling
        });
        let default = self.default(group, best.as_ref(), problem, &demand);
        match (best, default) {
            (Some(best), Some((kernel, Some(time)))) if time < best.time => Ok(Answer {
                predicted: Some(self.possible(problem, time)),
                error_percent: group.error_percent,
                record: Some(&best.known.record),
                ..self.untuned(kernel, Why::ExpectedFaster { best: Micros(best.time) })
            }),
            (Some(best), default) => {
                let default = default.and_then(|(_, time)| time).map(Micros);
                let why = Why::BestOf { compared: best.compared, default };
                let predicted = Some(self.possible(problem, best.time));
                let error_percent =
                    group.error_percent.filter(|_| source == AnswerSource::Neighbour);
                Ok(Answer { source, why, predicted, error_percent, ..self.exactly(best.known) })
            }
            (None, Some((kernel, _))) => {
                let why = if tried == 0 { Why::NoRecords } else { Why::NoneLegal { tried } };
                Ok(self.modelled(kernel, problem, why))
            }
            (None, None) => Err(self.nothing(problem)),
        }
    }

    fn pinned_answer<'a>(
        &'a self,
        problem: &Problem,
        exact: Option<&RecordedKernel>,
        permitted: Option<&'a RecordedKernel>,
    ) -> Result<Answer<'a>, NoAnswer> {
        let text = problem.to_string();
        if exact.is_none() {
            let (device, pinned) = (self.device.name.clone(), self.exact.len());
            return Err(NoAnswer::NotPinned { problem: text, device, pinned });
        }
        let Some(known) = permitted else { return Err(NoAnswer::NotLegal { problem: text }) };
        let answer = self.exactly(known);
        if answer.template_changed {
            let family = answer.family.name.clone();
            return Err(NoAnswer::Changed { problem: text, family });
        }
        Ok(answer)
    }

    /// The answer that a record is for its own problem.
    pub(super) fn exactly<'a>(&'a self, known: &'a RecordedKernel) -> Answer<'a> {
        let (family, hash) = &self.families[known.kernel.family];
        let measurement = &known.record.measurement;
        let spread = (measurement.p95_us - measurement.p05_us) / 2.0 / measurement.median_us;
        Answer {
            source: AnswerSource::Exact,
            why: Why::Tuned,
            family,
            configuration: &known.kernel.configuration,
            predicted: Some(known.record.median()),
            error_percent: Some(100.0 * spread),
            record: Some(&known.record),
            template_changed: known.record.provenance.template_hash != *hash,
        }
    }

    /// The answer with a default, and its time where the analytic model predicts times.
    fn modelled<'a>(&'a self, kernel: &'a KnownKernel, problem: &Problem, why: Why) -> Answer<'a> {
        let family = &self.families[kernel.family].0;
        let error_percent = modelled_error_percent(family, &self.device);
        let time = kernel.modelled(problem, self.device.max_sm_clock_mhz);
        let predicted = error_percent.map(|_| self.possible(problem, time));
        Answer { predicted, error_percent, ..self.untuned(kernel, why) }
    }

    /// The answer with a default, without a time.
    pub(super) fn untuned<'a>(&'a self, kernel: &'a KnownKernel, why: Why) -> Answer<'a> {
        Answer {
            source: AnswerSource::Default,
            why,
            family: &self.families[kernel.family].0,
            configuration: &kernel.configuration,
            predicted: None,
            error_percent: None,
            record: None,
            template_changed: false,
        }
    }

    fn nothing(&self, problem: &Problem) -> NoAnswer {
        NoAnswer::Nothing { problem: problem.to_string(), device: self.device.name.clone() }
    }

    /// Of the records near a question with a legal kernel, the one with the lowest predicted time; otherwise the
    /// nearest legal one. Also the number of records tried.
    fn nearest(
        &self,
        near: &NeighbourIndex,
        question: &Question,
        demand: &Demand,
    ) -> (Option<PredictedRecord<'_>>, usize) {
        let problem = &question.problem;
        let legal = |place: usize| self.serves(&self.known[place], problem, demand);
        let around = near.around(question);
        let (mut looked_at, mut compared) = (around.len(), 0);
        let mut best: Option<(f64, usize)> = None;
        for place in around.iter().copied() {
            if legal(place) {
                compared += 1;
                let own = (self.known[place].cautious(problem), place);
                if best.is_none_or(|best| own < best) {
                    best = Some(own);
                }
            }
        }
        let best = best.map(|(_, place)| place).or_else(|| {
            let mut nearest = near.nearest_first(question).take(MOST_LOOKED_AT);
            nearest.find(|place| {
                looked_at += 1;
                compared = 1;
                legal(*place)
            })
        });
        let best = best.map(|place| {
            let known = &self.known[place];
            PredictedRecord { known, time: known.predict(problem), compared }
        });
        (best, looked_at)
    }

    /// The legal default with the lowest predicted time, and that time where a record gives one.
    fn default<'a>(
        &self,
        group: &'a Group,
        best: Option<&PredictedRecord<'_>>,
        problem: &Problem,
        demand: &Demand,
    ) -> Option<(&'a KnownKernel, Option<f64>)> {
        let expected = |kernel: &KnownKernel| match best {
            Some(best) => best.known.predict_default(kernel, problem),
            None => kernel.cost.clocks(problem),
        };
        // Searches measure defaults: a family that has won none of several is left out.
        let has_records = best.is_some() && group.records >= FEWEST_CHECKED;
        let of_winners = group
            .defaults
            .iter()
            .filter(|kernel| !has_records || group.winning.contains(&kernel.family));
        let mut left: Vec<(f64, &KnownKernel)> =
            of_winners.map(|kernel| (expected(kernel), kernel)).collect();
        let is_legal =
            |kernel: &KnownKernel| kernel.cost.fits(problem) && self.permits(kernel, demand);
        let (time, kernel) = first_legal(&mut left, is_legal)?;
        Some((kernel, best.map(|_| time)))
    }

    /// The kernel of a candidate.
    pub(super) fn kernel<'a>(&'a self, group: &'a Group, kernel_ref: KernelRef) -> &'a KnownKernel {
        match kernel_ref {
            KernelRef::Default(at) => &group.defaults[at],
            KernelRef::Winner(place) => &self.known[place].kernel,
            KernelRef::Learned(at) => &self.learned(group).kernels[at],
        }
    }

    /// The winner or default with the lowest time by landmarks; `None` where the records at `near` have none.
    pub(super) fn least_by_landmarks<'a>(
        &'a self,
        group: &'a Group,
        question: &Question,
        near: &[usize],
        demand: &Demand,
    ) -> Option<Answer<'a>> {
        let candidates = group.candidates.around(question, &self.known, near)?;
        let timed = self.by_landmarks(group, &question.problem, &candidates);
        self.fastest(group, &question.problem, &timed, demand)
    }

    /// Candidates with their times by landmarks.
    pub(super) fn by_landmarks(
        &self,
        group: &Group,
        problem: &Problem,
        candidates: &[LookupCandidate],
    ) -> Vec<(f64, LookupCandidate)> {
        let timed = |candidate: &LookupCandidate| {
            let kernel = self.kernel(group, candidate.kernel_ref);
            let modelled = kernel.modelled(problem, self.device.max_sm_clock_mhz);
            (modelled * candidate.factor, *candidate)
        };
        candidates.iter().map(timed).collect()
    }

    /// Of the legal candidates, the winner or default with the lowest time.
    pub(super) fn fastest<'a>(
        &'a self,
        group: &'a Group,
        problem: &Problem,
        candidates: &[(f64, LookupCandidate)],
        demand: &Demand,
    ) -> Option<Answer<'a>> {
        let kernel = |candidate: &LookupCandidate| self.kernel(group, candidate.kernel_ref);
        // A family that has won none of several is left out.
        let has_records = group.records >= FEWEST_CHECKED;
        let is_serious = |candidate: &LookupCandidate| {
            !has_records || group.winning.contains(&kernel(candidate).family)
        };
        let least = |won: bool| {
            let timed = candidates.iter().map(|(time, candidate)| (*time, candidate));
            let mut left: Vec<(f64, &LookupCandidate)> = timed
                .filter(|(_, candidate)| candidate.record.is_some() == won && is_serious(candidate))
                .collect();
            let compared = left.len();
            first_legal(&mut left, |candidate| {
                kernel(candidate).cost.fits(problem) && self.permits(kernel(candidate), demand)
            })
            .map(|(time, candidate)| (time, candidate, compared))
        };
        let (winner, default) = (least(true), least(false));
        let default_time = default.as_ref().map_or(f64::INFINITY, |(time, ..)| *time);
        let record = |candidate: &LookupCandidate| candidate.record.map(|place| &self.known[place]);
        match winner {
            Some((time, candidate, compared)) if time <= default_time => Some(Answer {
                source: AnswerSource::Neighbour,
                why: Why::BestOf { compared, default: default.map(|(time, ..)| Micros(time)) },
                predicted: Some(self.possible(problem, time)),
                error_percent: group.error_percent,
                ..self.exactly(record(candidate)?)
            }),
            winner => {
                let (time, candidate, _) = default?;
                let why = match winner {
                    Some((time, ..)) => Why::ExpectedFaster { best: Micros(time) },
                    None => Why::NoneLegal { tried: candidates.len() },
                };
                let known = winner.and_then(|(_, candidate, _)| record(candidate));
                Some(Answer {
                    predicted: Some(self.possible(problem, time)),
                    error_percent: group.error_percent,
                    record: known.map(|known| &known.record),
                    ..self.untuned(kernel(candidate), why)
                })
            }
        }
    }

    /// A predicted time, but no less than is possible on the device.
    pub(super) fn possible(&self, problem: &Problem, time: f64) -> Micros {
        Micros(time.max(least_time(problem, &self.device, self.regime.cache).0))
    }
}

/// The legal one with the lowest time. One of the first two nearly always is, so that nothing is sorted.
pub(super) fn first_legal<'k, K>(
    left: &mut Vec<(f64, &'k K)>,
    mut is_legal: impl FnMut(&K) -> bool,
) -> Option<(f64, &'k K)> {
    while let Some(at) = (0..left.len()).min_by(|a, b| left[*a].0.total_cmp(&left[*b].0)) {
        let least = left.remove(at);
        if is_legal(least.1) {
            return Some(least);
        }
    }
    None
}
