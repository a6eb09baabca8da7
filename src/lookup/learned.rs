//! Answers by what was learned of a device: a kernel that is known, be it the winner of a record nearby, a
//! default, or one that came near the best of some problem and won nothing.
//!
//! **How.** ProblemFeatures about are a few of them, of which one is nearly always the best for problems like the one in
//! question, and the winners of the nearest records; where none of these is legal, or no list was made for
//! such problems, all, which takes a fifth of a millisecond. The answer is remembered.

use std::collections::HashMap;
use std::sync::RwLock;

use super::answer::{Answer, Question, Rung, Why};
use super::candidates::{Candidate, KernelRef};
use super::index::{Group, Lookup, some_problem};
use super::kernels::KnownKernel;
use super::resolve::first_legal;
use crate::model::Micros;
use crate::predict::ProblemFeatures;
use crate::space::Extents;

/// Records, the nearest ones, whose winners are asked about beside a list, and where there is none: each
/// takes half a microsecond.
const BESIDE_A_LIST: usize = 3;
const ASKED_ABOUT: usize = 64;

/// Room for a list and what is asked about beside it.
const ROOM: usize = 16;

/// Questions whose answers are remembered; one more, and all are found again.
const REMEMBERED: usize = 1 << 16;

/// A kernel with the time in microseconds that is expected of it, and of how many it is the least.
#[derive(Debug, Clone, Copy)]
struct Choice {
    time: f64,
    candidate: Candidate,
    compared: usize,
}

/// Kernels that were learned of.
#[derive(Debug, Default)]
pub(super) struct Learned {
    /// Those that are no defaults, made ready.
    pub(super) kernels: Vec<KnownKernel>,
    /// Which kernel each is that a family's family_model names by a number; none for one that is not legal.
    numbers: Vec<Vec<Option<KernelRef>>>,
}

/// What was chosen so far.
#[derive(Debug, Default)]
pub(super) struct Choices {
    known: RwLock<HashMap<Question, Option<Choice>>>,
}

impl Choices {
    /// The choice for a question, made by `choose` where it is new.
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
    /// The kernel of which least is expected; `None` where nothing was learned, nothing that is known is
    /// legal, or landmarks know of a better one. `near` are records near the problem, the nearest first.
    pub(super) fn by_learned_model<'a>(
        &'a self,
        group: &'a Group,
        question: &Question,
        near: &[usize],
        extents: &mut Extents,
    ) -> Option<Answer<'a>> {
        let problem = &question.problem;
        if !self.lessons.iter().flatten().any(|family_model| family_model.serves(problem)) {
            return None;
        }
        let choose = || self.choose(group, question, near, extents);
        let Choice { time, candidate: one, compared } = group.choices.of(question, choose)?;
        let kernel = self.kernel(group, one.who);
        let family_model = self.lessons[kernel.family].as_ref();
        let of_default = Answer {
            rung: Rung::Default,
            why: Why::LeastOf { compared },
            family: &self.families[kernel.family].0,
            configuration: &kernel.configuration,
            predicted: Some(self.possible(&question.problem, time)),
            error_percent: family_model.map(|family_model| family_model.error_percent),
            source: None,
            template_changed: false,
        };
        Some(match (one.who, one.source) {
            (KernelRef::Default(_), None) => of_default,
            (KernelRef::Learned(_), None) => Answer { rung: Rung::Learned, ..of_default },
            (_, source) => {
                let Answer { why, predicted, error_percent, .. } = of_default;
                let known = &self.known[source?];
                Answer {
                    rung: Rung::Neighbour,
                    why,
                    predicted,
                    error_percent,
                    ..self.exactly(known)
                }
            }
        })
    }

    /// The kernels of a group that were learned of.
    pub(super) fn learned<'a>(&self, group: &'a Group) -> &'a Learned {
        group.learned.get_or_init(|| {
            let mut learned =
                Learned { numbers: vec![Vec::new(); self.families.len()], ..Learned::default() };
            let Some(pattern) = group.pattern.map(some_problem) else { return learned };
            for (place, ((family, _), family_model)) in
                self.families.iter().zip(&self.lessons).enumerate()
            {
                let predictor = self.experience.predictor(family, &self.device);
                let (Some(family_model), Some(predictor)) = (family_model, predictor) else {
                    continue;
                };
                for configuration in family_model.kernels(family) {
                    let is_own = |default: &KnownKernel| {
                        default.family == place && default.configuration == configuration
                    };
                    let default = group.defaults.iter().position(is_own).map(KernelRef::Default);
                    let of = (None, &self.device);
                    let made = || KnownKernel::new((place, family), configuration, &pattern, of);
                    let who = default.or_else(|| {
                        let mut kernel = made()?;
                        kernel.learn(&predictor, &self.device);
                        learned.kernels.push(kernel);
                        Some(KernelRef::Learned(learned.kernels.len() - 1))
                    });
                    learned.numbers[place].push(who);
                }
            }
            learned
        })
    }

    /// The kernels that are worth asking about for a question by what was learned; `None` where that is
    /// not known of a family.
    fn listed(&self, group: &Group, question: &Question) -> Option<Vec<Candidate>> {
        let Question { problem, storage } = question;
        let mut listed = Vec::with_capacity(ROOM);
        for (family_model, numbers) in self.lessons.iter().zip(&self.learned(group).numbers) {
            let Some(family_model) =
                family_model.as_ref().filter(|family_model| family_model.serves(problem))
            else {
                continue;
            };
            let list = family_model.shortlist(problem, storage)?;
            let known = list.iter().filter_map(|kernel| *numbers.get(usize::from(*kernel))?);
            listed.extend(known.map(|who| Candidate { who, source: None, factor: 1.0 }));
        }
        Some(listed)
    }

    /// The legal kernel of which least is expected; `None` where landmarks expect less of one of which
    /// nothing was learned.
    fn choose(
        &self,
        group: &Group,
        question: &Question,
        near: &[usize],
        extents: &mut Extents,
    ) -> Option<Choice> {
        let listed = self.listed(group, question).and_then(|mut listed| {
            let nearest = near.iter().copied().take(BESIDE_A_LIST);
            listed.extend(group.roster.of_records(&self.known, nearest, near));
            self.least_of(group, question, &listed, extents)
        });
        let chosen = listed.or_else(|| {
            let records = group.own.nearest_first(question).take(ASKED_ABOUT);
            let mut all = group.roster.defaults(&self.known, near);
            let winners = group.roster.of_records(&self.known, records, near);
            all.extend(winners.filter(|one| !matches!(one.who, KernelRef::Default(_))));
            let learned = (0..self.learned(group).kernels.len()).map(KernelRef::Learned);
            all.extend(learned.map(|who| Candidate { who, source: None, factor: 1.0 }));
            self.least_of(group, question, &all, extents)
        })?;
        let other = self.least_of_unlearned(group, question, near, extents);
        (!other.is_some_and(|other| other.0 < chosen.time)).then_some(chosen)
    }

    /// Of candidates that something was learned of the legal one of which least is expected.
    fn least_of(
        &self,
        group: &Group,
        question: &Question,
        candidates: &[Candidate],
        extents: &mut Extents,
    ) -> Option<Choice> {
        let asked = ProblemFeatures::of(&question.problem, &question.storage);
        let room = candidates.len();
        let mut left: Vec<(f64, &Candidate)> = Vec::with_capacity(room);
        for (family, family_model) in self.lessons.iter().enumerate() {
            let Some(family_model) = family_model else { continue };
            let (mut kernels, mut own) = (Vec::with_capacity(room), Vec::with_capacity(room));
            for one in candidates {
                let kernel = self.kernel(group, one.who);
                if let Some(known) = kernel.learned.as_ref().filter(|_| kernel.family == family) {
                    kernels.push(known);
                    own.push(one);
                }
            }
            let times = family_model.expects_each(&kernels, &asked, &self.device);
            left.extend(times.into_iter().map(|time| time.0).zip(own));
        }
        let compared = left.len();
        let (time, candidate) = first_legal(&mut left, |one| {
            let kernel = self.kernel(group, one.who);
            kernel.cost.fits(&question.problem) && self.permits(kernel, extents)
        })?;
        Some(Choice { time, candidate: *candidate, compared })
    }

    /// What landmarks expect of the kernel that is best by them, where nothing was learned of its family.
    fn least_of_unlearned(
        &self,
        group: &Group,
        question: &Question,
        near: &[usize],
        extents: &mut Extents,
    ) -> Option<Micros> {
        if group.winning.iter().all(|family| self.lessons[*family].is_some()) {
            return None;
        }
        let answer = self.least_by_landmarks(group, question, near, extents)?;
        let is_learned = self.experience.families.contains_key(&answer.family.name);
        answer.predicted.filter(|_| !is_learned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, Problem};

    #[test]
    fn a_choice_is_made_once() {
        let choices = Choices::default();
        let problem = Problem::new("64x65x66".parse().unwrap(), Dtype::F32);
        let question = Question::packed(problem);
        let candidate = Candidate { who: KernelRef::Learned(3), source: None, factor: 1.0 };
        let made = choices.of(&question, || Some(Choice { time: 7.0, candidate, compared: 9 }));
        assert!(made.is_some_and(|made| made.compared == 9));
        let again = choices.of(&question, || unreachable!("it is known"));
        assert_eq!(again.unwrap().candidate.who, KernelRef::Learned(3));
        // Nothing is a choice too.
        let other = Question::packed(Problem { batch: 2, ..problem });
        assert!(choices.of(&other, || None).is_none());
        assert!(choices.of(&other, || unreachable!("it is known")).is_none());
    }
}
