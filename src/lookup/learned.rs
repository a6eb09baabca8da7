//! Answers by the learned models of a device. Candidates are the kernel sets, the defaults, and the winners of the nearest
//! records. Coarse predictions choose those that are predicted fully. Answers are cached.

use std::collections::HashMap;
use std::sync::RwLock;

use rayon::prelude::*;

use super::answer::{Answer, AnswerSource, Question, Why};
use super::candidates::{KernelRef, LookupCandidate};
use super::index::{Group, Lookup, some_problem};
use super::kernels::{Demand, KnownKernel, LearnedKernels};
use crate::model::{Configuration, Micros, Problem};
use crate::predict::{CostModel, FamilyModel, KernelFeatures, ProblemFeatures};
use crate::trees::Precision;

/// Nearest records whose winners are candidates.
const NEAREST: usize = 64;

/// Legal kernels of a family that are predicted by the whole model: those with the lowest coarse predictions.
const FINALISTS: usize = 24;

/// Capacity of the cache; it is cleared when full.
const REMEMBERED: usize = 1 << 16;

/// Kernel with its predicted time in microseconds, and the number of kernels compared.
#[derive(Debug, Clone, Copy)]
struct Choice {
    time: f64,
    candidate: LookupCandidate,
    compared: usize,
}

/// Cache of choices.
#[derive(Debug, Default)]
pub(super) struct Choices {
    known: RwLock<HashMap<Question, Option<Choice>>>,
}

impl Choices {
    /// The choice for a question, computed by `choose` where it is new.
    fn of(&self, question: &Question, choose: impl FnOnce() -> Option<Choice>) -> Option<Choice> {
        if let Ok(known) = self.known.read()
            && let Some(choice) = known.get(question)
        {
            return *choice;
        }
        let choice = choose();
        if let Ok(mut known) = self.known.write() {
            if known.len() >= REMEMBERED {
                known.clear();
            }
            known.insert(*question, choice);
        }
        choice
    }
}

impl Lookup {
    /// The kernel with the lowest predicted time; `None` without a learned model or a legal kernel, or where
    /// landmarks predict a lower time. `near` are records near the problem, the nearest first.
    pub(super) fn by_learned_model<'a>(
        &'a self,
        group: &'a Group,
        question: &Question,
        near: &[usize],
        demand: &Demand,
    ) -> Option<Answer<'a>> {
        let problem = &question.problem;
        if self.models(problem).all(|model| model.is_none()) {
            return None;
        }
        let choose = || self.choose(group, question, near, demand);
        let Choice { time, candidate: one, compared } = group.choices.of(question, choose)?;
        let kernel = self.kernel(group, one.kernel_ref);
        let model = self.model(kernel.family, problem);
        let of_default = Answer {
            predicted: Some(self.possible(problem, time)),
            error_percent: model.map(|model| model.error_percent),
            ..self.untuned(kernel, Why::LeastOf { compared })
        };
        Some(match (one.kernel_ref, one.record) {
            (KernelRef::Default(_), None) => of_default,
            (KernelRef::Learned(_), None) => Answer { source: AnswerSource::Learned, ..of_default },
            (_, record) => {
                let Answer { why, predicted, error_percent, .. } = of_default;
                let known = &self.known[record?];
                Answer {
                    source: AnswerSource::Neighbour,
                    why,
                    predicted,
                    error_percent,
                    ..self.exactly(known)
                }
            }
        })
    }

    /// The learned model of a family, by its index, for a problem's GEMM type.
    fn model(&self, family: usize, problem: &Problem) -> Option<&FamilyModel> {
        self.predictor.model(&self.families[family].0, problem, &self.device)
    }

    /// The predicted time of a kernel: see [`Self::forecasts`].
    pub fn forecast(&self, kernel: (&str, &Configuration), question: &Question) -> Option<Micros> {
        self.forecasts(kernel, std::slice::from_ref(question), Precision::Full).pop().flatten()
    }

    /// The predicted times of a kernel for questions, whether or not it serves them: by the learned model of its family,
    /// else by the landmarks of the records near the question; `None` where neither knows it. Questions of one GEMM type
    /// and layout in a row are much faster than one by one.
    pub fn forecasts(
        &self,
        (family, configuration): (&str, &Configuration),
        questions: &[Question],
        precision: Precision,
    ) -> Vec<Option<Micros>> {
        let Some(place) = self.families.iter().position(|(own, _)| own.name == family) else {
            return vec![None; questions.len()];
        };
        let is_alike = |a: &Question, b: &Question| a.problem.pattern() == b.problem.pattern();
        let mut times = Vec::with_capacity(questions.len());
        for questions in questions.chunk_by(is_alike) {
            let problem = &questions[0].problem;
            let own = &self.families[place].0;
            let Some(predictor) = self.predictor.family(own, problem, &self.device) else {
                times.extend(self.by_nearest((place, configuration), questions));
                continue;
            };
            let cost = CostModel::of((own, configuration), problem, (&self.device, None));
            let kernel = predictor.prepare(configuration, &cost);
            // Memory for workspaces changes no time.
            let is_same =
                |a: &Question, b: &Question| (a.problem, a.storage) == (b.problem, b.storage);
            let groups: Vec<&[Question]> = questions.chunk_by(is_same).collect();
            let features = |group: &&[Question]| {
                let Question { problem, storage, .. } = &group[0];
                ProblemFeatures::of(problem, storage)
            };
            let features: Vec<ProblemFeatures> = groups.iter().map(features).collect();
            let own = predictor.model.times_for(&kernel, &features, (&self.device, precision));
            for (time, group) in own.into_iter().zip(groups) {
                let time = self.possible(&group[0].problem, time.0);
                times.extend(std::iter::repeat_n(Some(time), group.len()));
            }
        }
        times
    }

    /// The predicted times of a kernel, given by the place of its family, by the landmarks of the records near each of the
    /// questions, which are of one GEMM type and layout.
    fn by_nearest(
        &self,
        (family, configuration): (usize, &Configuration),
        questions: &[Question],
    ) -> Vec<Option<Micros>> {
        let Some(first) = questions.first() else { return Vec::new() };
        let group = self.group_of(&first.problem);
        let is_it = |kernel_ref: &KernelRef| {
            let kernel = self.kernel(group, *kernel_ref);
            kernel.family == family && kernel.configuration == *configuration
        };
        let same: Vec<KernelRef> = group.candidates.kernels().filter(is_it).collect();
        let time = |question: &Question| {
            if same.is_empty() {
                return None;
            }
            let near = group.own.around(question);
            let candidates = group.candidates.around(question, &self.known, &near)?;
            let own = candidates.iter().find(|candidate| same.contains(&candidate.kernel_ref))?;
            let problem = &question.problem;
            let time = self.by_landmarks(group, problem, std::slice::from_ref(own)).pop()?.0;
            Some(self.possible(problem, time))
        };
        questions.iter().map(time).collect()
    }

    /// The learned models of all families, in order.
    fn models(&self, problem: &Problem) -> impl Iterator<Item = Option<&FamilyModel>> {
        (0..self.families.len()).map(|family| self.model(family, problem))
    }

    /// The kernel sets of all learned models for a group, without those that are defaults or never legal.
    pub(super) fn learned<'a>(&self, group: &'a Group) -> &'a LearnedKernels {
        group.learned.get_or_init(|| LearnedKernels::from(self.prepare_learned(group)))
    }

    fn prepare_learned(&self, group: &Group) -> Vec<KnownKernel> {
        let mut learned = Vec::new();
        let Some(pattern) = group.pattern.map(some_problem) else { return learned };
        for (place, (family, _)) in self.families.iter().enumerate() {
            let predictor = self.predictor.family(family, &pattern, &self.device);
            let Some(predictor) = predictor else { continue };
            let kernels: Vec<Configuration> = predictor.model.kernels(family).collect();
            let made = kernels.into_par_iter().filter_map(|configuration| {
                let is_own = |default: &KnownKernel| {
                    default.family == place && default.configuration == configuration
                };
                if group.defaults.iter().any(is_own) {
                    return None;
                }
                let own = (place, family);
                let mut kernel = KnownKernel::of_set(own, configuration, &pattern, &self.device)?;
                kernel.prepare(&predictor, &self.device);
                Some(kernel)
            });
            learned.par_extend(made);
        }
        learned
    }

    /// The legal kernel with the lowest predicted time; `None` where landmarks predict a lower one of a family
    /// without a learned model.
    fn choose(
        &self,
        group: &Group,
        question: &Question,
        near: &[usize],
        demand: &Demand,
    ) -> Option<Choice> {
        let records = group.own.nearest_first(question).take(NEAREST);
        let mut all = group.candidates.defaults(&self.known, near);
        let winners = group.candidates.of_records(&self.known, records, near);
        all.extend(winners.filter(|one| !matches!(one.kernel_ref, KernelRef::Default(_))));
        let learned = (0..self.learned(group).kernels.len()).map(KernelRef::Learned);
        all.extend(learned.map(|kernel_ref| LookupCandidate {
            kernel_ref,
            record: None,
            factor: 1.0,
        }));
        let chosen = self.least_of(group, question, &all, demand)?;
        let other = self.least_of_unlearned(group, question, near, demand);
        (!other.is_some_and(|other| other.0 < chosen.time)).then_some(chosen)
    }

    /// Of candidates with a learned model, the legal one with the lowest predicted time.
    fn least_of(
        &self,
        group: &Group,
        question: &Question,
        candidates: &[LookupCandidate],
        demand: &Demand,
    ) -> Option<Choice> {
        let features = ProblemFeatures::of(&question.problem, &question.storage);
        let conditions_hold = self.learned(group).conditions.hold(&demand.extents);
        let is_legal = |kernel_ref: KernelRef, kernel: &KnownKernel| {
            kernel.cost.fits(&question.problem)
                && match kernel_ref {
                    KernelRef::Learned(at) => {
                        let family = &self.families[kernel.family].0;
                        conditions_hold[at] && kernel.meets_rest(demand, family, &self.device)
                    }
                    _ => self.permits(kernel, demand),
                }
        };
        let (mut least, mut compared) = (None, 0);
        for (family, model) in self.models(&question.problem).enumerate() {
            let Some(model) = model else { continue };
            // Most kernels are refused by their first conditions, in less time than a coarse prediction takes.
            let known = |one: &LookupCandidate| {
                let kernel = self.kernel(group, one.kernel_ref);
                let features = kernel.features.as_ref().filter(|_| kernel.family == family)?;
                is_legal(one.kernel_ref, kernel).then_some(features)
            };
            let (own, kernels): (Vec<&LookupCandidate>, Vec<&KernelFeatures>) =
                candidates.iter().filter_map(|one| Some((one, known(one)?))).unzip();
            compared += own.len();
            let coarse = model.coarse_times(&kernels, &features, &self.device);
            let mut places: Vec<usize> = (0..own.len()).collect();
            places.sort_by(|a, b| coarse[*a].0.total_cmp(&coarse[*b].0));
            places.truncate(FINALISTS);
            let finalists: Vec<&KernelFeatures> =
                places.iter().map(|place| kernels[*place]).collect();
            let times = model.times(&finalists, &features, &self.device);
            for (time, place) in times.into_iter().zip(places) {
                if least.is_none_or(|(known, _)| time.0 < known) {
                    least = Some((time.0, *own[place]));
                }
            }
        }
        let (time, candidate) = least?;
        Some(Choice { time, candidate, compared })
    }

    /// The predicted time of the best kernel by landmarks, where its family has no learned model.
    fn least_of_unlearned(
        &self,
        group: &Group,
        question: &Question,
        near: &[usize],
        demand: &Demand,
    ) -> Option<Micros> {
        let problem = &question.problem;
        if group.winning.iter().all(|family| self.model(*family, problem).is_some()) {
            return None;
        }
        let answer = self.least_by_landmarks(group, question, near, demand)?;
        let is_learned = self.predictor.model(answer.family, problem, &self.device).is_some();
        answer.predicted.filter(|_| !is_learned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, Problem};

    #[test]
    fn a_choice_is_computed_once() {
        let choices = Choices::default();
        let problem = Problem::new("64x65x66".parse().unwrap(), Dtype::F32);
        let question = Question::packed(problem);
        let candidate =
            LookupCandidate { kernel_ref: KernelRef::Learned(3), record: None, factor: 1.0 };
        let made = choices.of(&question, || Some(Choice { time: 7.0, candidate, compared: 9 }));
        assert!(made.is_some_and(|made| made.compared == 9));
        let again = choices.of(&question, || unreachable!("it is cached"));
        assert_eq!(again.unwrap().candidate.kernel_ref, KernelRef::Learned(3));
        // An empty choice is cached too.
        let other = Question::packed(Problem { batch: 2, ..problem });
        assert!(choices.of(&other, || None).is_none());
        assert!(choices.of(&other, || unreachable!("it is cached")).is_none());
    }
}
