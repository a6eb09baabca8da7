//! One question, and the ladder that is climbed for it. What is known was made ready in `index`.

use super::answer::{Answer, NoAnswer, Question, Rung, Why};
use super::candidates::{Candidate, KernelRef};
use super::index::{FEWEST_CHECKED, Group, Lookup, MOST_LOOKED_AT};
use super::kernels::{KnownKernel, RecordedKernel};
use super::neighbours::NeighbourIndex;
use crate::model::{Micros, Problem, floor};
use crate::space::Extents;

/// A kernel that is legal, and the time it is expected to take.
struct Expected<'a> {
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
        let Question { problem, storage } = question;
        let mut extents = Extents::new(problem, storage);
        let exact = self.record(problem);
        let permitted = exact.filter(|known| self.permits(&known.kernel, &mut extents));
        if self.pinned {
            return self.pinned_answer(problem, exact, permitted);
        }
        if let Some(known) = permitted {
            return Ok(self.exactly(known));
        }
        let Some(group) = self.group_of(problem) else {
            return Err(self.nothing(problem));
        };
        let near = group.own.around(question);
        if let Some(answer) = self.by_learned_model(group, question, &near, &mut extents) {
            return Ok(answer);
        }
        if let Some(answer) = self.least_by_landmarks(group, question, &near, &mut extents) {
            return Ok(answer);
        }
        let (own, mut tried) = self.nearest(&group.own, question, &mut extents);
        let mut rung = Rung::Neighbour;
        let best = own.or_else(|| {
            rung = Rung::Sibling;
            let (sibling, more) = self.nearest(&group.siblings, question, &mut extents);
            tried += more;
            sibling
        });
        let default = self.default(group, best.as_ref(), problem, &mut extents);
        match (best, default) {
            (Some(best), Some((kernel, Some(time)))) if time < best.time => Ok(Answer {
                rung: Rung::Default,
                why: Why::ExpectedFaster { best: Micros(best.time) },
                family: &self.families[kernel.family].0,
                configuration: &kernel.configuration,
                predicted: Some(self.possible(problem, time)),
                error_percent: group.error_percent,
                source: Some(&best.known.record),
                template_changed: false,
            }),
            (Some(best), default) => {
                let default = default.and_then(|(_, time)| time).map(Micros);
                let why = Why::BestOf { compared: best.compared, default };
                let predicted = Some(self.possible(problem, best.time));
                let error_percent = group.error_percent.filter(|_| rung == Rung::Neighbour);
                Ok(Answer { rung, why, predicted, error_percent, ..self.exactly(best.known) })
            }
            (None, Some((kernel, _))) => Ok(Answer {
                rung: Rung::Default,
                why: if tried == 0 { Why::NoRecords } else { Why::NoneLegal { tried } },
                family: &self.families[kernel.family].0,
                configuration: &kernel.configuration,
                predicted: None,
                error_percent: None,
                source: None,
                template_changed: false,
            }),
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
            rung: Rung::Exact,
            why: Why::Tuned,
            family,
            configuration: &known.kernel.configuration,
            predicted: Some(known.record.median()),
            error_percent: Some(100.0 * spread),
            source: Some(&known.record),
            template_changed: known.record.provenance.template_hash != *hash,
        }
    }

    fn nothing(&self, problem: &Problem) -> NoAnswer {
        NoAnswer::Nothing { problem: problem.to_string(), device: self.device.name.clone() }
    }

    /// Of the records near a question whose kernels are legal, the one of which the least is
    /// expected; where none is, the nearest that is. And how many were looked at.
    fn nearest(
        &self,
        near: &NeighbourIndex,
        question: &Question,
        extents: &mut Extents,
    ) -> (Option<Expected<'_>>, usize) {
        let problem = &question.problem;
        let mut legal = |place: usize| self.serves(&self.known[place], problem, extents);
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
            Expected { known, time: known.predict(problem), compared }
        });
        (best, looked_at)
    }

    /// The legal default of which the least is expected, with the time if there is anything to go by.
    fn default<'a>(
        &self,
        group: &'a Group,
        best: Option<&Expected<'_>>,
        problem: &Problem,
        extents: &mut Extents,
    ) -> Option<(&'a KnownKernel, Option<f64>)> {
        let expected = |kernel: &KnownKernel| match best {
            Some(best) => best.known.predict_default(kernel, problem),
            None => kernel.cost.clocks(problem),
        };
        // Defaults are measured in every search: a family that has won none of several here is not
        // expected to, whatever a model says that sees grids alone.
        let told = best.is_some() && group.records >= FEWEST_CHECKED;
        let of_winners =
            group.defaults.iter().filter(|kernel| !told || group.winning.contains(&kernel.family));
        let mut left: Vec<(f64, &KnownKernel)> =
            of_winners.map(|kernel| (expected(kernel), kernel)).collect();
        let is_legal =
            |kernel: &KnownKernel| kernel.cost.fits(problem) && self.permits(kernel, extents);
        let (time, kernel) = first_legal(&mut left, is_legal)?;
        Some((kernel, best.map(|_| time)))
    }

    /// The kernel that a candidate is.
    pub(super) fn kernel<'a>(&'a self, group: &'a Group, who: KernelRef) -> &'a KnownKernel {
        match who {
            KernelRef::Default(at) => &group.defaults[at],
            KernelRef::Winner(place) => &self.known[place].kernel,
            KernelRef::Learned(at) => &self.learned(group).kernels[at],
        }
    }

    /// The winner or default of which the least is expected by what landmarks tell; `None` where the
    /// records at `near` tell nothing.
    pub(super) fn least_by_landmarks<'a>(
        &'a self,
        group: &'a Group,
        question: &Question,
        near: &[usize],
        extents: &mut Extents,
    ) -> Option<Answer<'a>> {
        let candidates = group.roster.around(question, &self.known, near)?;
        let timed = self.by_landmarks(group, &question.problem, &candidates);
        self.least_expected(group, &question.problem, &timed, extents)
    }

    /// Candidates with the times that are expected by what landmarks tell.
    pub(super) fn by_landmarks(
        &self,
        group: &Group,
        problem: &Problem,
        candidates: &[Candidate],
    ) -> Vec<(f64, Candidate)> {
        let timed = |candidate: &Candidate| {
            let kernel = self.kernel(group, candidate.who);
            let modelled = kernel.modelled(problem, self.device.max_sm_clock_mhz);
            (modelled * candidate.factor, *candidate)
        };
        candidates.iter().map(timed).collect()
    }

    /// Of the legal candidates, the winner or default of which the least is expected.
    pub(super) fn least_expected<'a>(
        &'a self,
        group: &'a Group,
        problem: &Problem,
        candidates: &[(f64, Candidate)],
        extents: &mut Extents,
    ) -> Option<Answer<'a>> {
        let kernel = |candidate: &Candidate| self.kernel(group, candidate.who);
        // A default of a family that has won none of several times is not expected to now.
        let told = group.records >= FEWEST_CHECKED;
        let is_serious =
            |candidate: &Candidate| !told || group.winning.contains(&kernel(candidate).family);
        let mut least = |won: bool| {
            let timed = candidates.iter().map(|(time, candidate)| (*time, candidate));
            let mut left: Vec<(f64, &Candidate)> = timed
                .filter(|(_, candidate)| candidate.source.is_some() == won && is_serious(candidate))
                .collect();
            let compared = left.len();
            first_legal(&mut left, |candidate| {
                kernel(candidate).cost.fits(problem) && self.permits(kernel(candidate), extents)
            })
            .map(|(time, candidate)| (time, candidate, compared))
        };
        let (winner, default) = (least(true), least(false));
        let default_time = default.as_ref().map_or(f64::INFINITY, |(time, ..)| *time);
        let source = |candidate: &Candidate| candidate.source.map(|place| &self.known[place]);
        match winner {
            Some((time, candidate, compared)) if time <= default_time => Some(Answer {
                rung: Rung::Neighbour,
                why: Why::BestOf { compared, default: default.map(|(time, ..)| Micros(time)) },
                predicted: Some(self.possible(problem, time)),
                error_percent: group.error_percent,
                ..self.exactly(source(candidate)?)
            }),
            winner => {
                let (time, candidate, _) = default?;
                let kernel = kernel(candidate);
                Some(Answer {
                    rung: Rung::Default,
                    why: match winner {
                        Some((time, ..)) => Why::ExpectedFaster { best: Micros(time) },
                        None => Why::NoneLegal { tried: candidates.len() },
                    },
                    family: &self.families[kernel.family].0,
                    configuration: &kernel.configuration,
                    predicted: Some(self.possible(problem, time)),
                    error_percent: group.error_percent,
                    source: winner
                        .and_then(|(_, candidate, _)| source(candidate))
                        .map(|known| &known.record),
                    template_changed: false,
                })
            }
        }
    }

    /// A predicted time, but none that the device cannot reach: a model of what was measured on one
    /// problem knows no limit on another.
    pub(super) fn possible(&self, problem: &Problem, time: f64) -> Micros {
        Micros(time.max(floor(problem, &self.device).0))
    }
}

/// The first that is legal, from the least up. One of the first two nearly always is: that is found
/// sooner than all are sorted.
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
