//! Answers by what was learned of a device: a kernel that is known, be it the winner of a record nearby, a
//! default, or one that came near the best of some problem and won nothing.
//!
//! **How.** All of these are asked about, which takes half a millisecond; the answer is remembered. A short
//! list for problems that are alike within a factor of 1.4 was tried, six kernels long, which takes 10 µs for
//! a new problem: for 30 problems its answers took 12.6 % longer than the winners, as it had foreseen itself,
//! for tiles that just fit one problem do not fit the next.

use std::collections::HashMap;
use std::sync::RwLock;

use super::answer::{Answer, Question, Rung, Why};
use super::climb::first_legal;
use super::index::{Group, Lookup, some_problem};
use super::known::Kernel;
use super::roster::{Candidate, Who};
use crate::experience::Asked;
use crate::model::{Configuration, Micros};
use crate::space::{Extents, Footprints};

/// Records, the nearest ones, whose winners are asked about: each takes about a microsecond.
const ASKED_ABOUT: usize = 64;

/// Questions whose answers are remembered; one more, and all are found again.
const REMEMBERED: usize = 1 << 16;

/// A kernel with the time in microseconds that is expected of it, and of how many it is the least.
#[derive(Debug, Clone, Copy)]
struct Choice {
    time: f64,
    candidate: Candidate,
    compared: usize,
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
    pub(super) fn by_experience<'a>(
        &'a self,
        group: &'a Group,
        question: &Question,
        near: &[usize],
        extents: &mut Extents,
    ) -> Option<Answer<'a>> {
        let problem = &question.problem;
        if !self.lessons.iter().flatten().any(|lesson| lesson.serves(problem)) {
            return None;
        }
        let choose = || self.choose(group, question, near, extents);
        let Choice { time, candidate: one, compared } = group.choices.of(question, choose)?;
        let kernel = self.kernel(group, one.who);
        let lesson = self.lessons[kernel.family].as_ref();
        let of_default = Answer {
            rung: Rung::Default,
            why: Why::LeastOf { compared },
            family: &self.families[kernel.family].0,
            configuration: &kernel.configuration,
            predicted: Some(self.possible(&question.problem, time)),
            error_percent: lesson.map(|lesson| lesson.error_percent),
            source: None,
            template_changed: false,
        };
        Some(match (one.who, one.source) {
            (Who::Default(_), None) => of_default,
            (Who::Learned(_), None) => Answer { rung: Rung::Learned, ..of_default },
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

    /// The kernels of a group that were measured and won nothing.
    pub(super) fn learned<'a>(&self, group: &'a Group) -> &'a [Kernel] {
        group.learned.get_or_init(|| {
            let Some(pattern) = group.pattern.map(some_problem) else { return Vec::new() };
            let footprints = Footprints::new();
            let families = self.families.iter().zip(&self.lessons).enumerate();
            let of_family = families.filter_map(|(place, ((family, _), lesson))| {
                let (lesson, expert) =
                    (lesson.as_ref()?, self.experience.expert(family, &self.device)?);
                let kernel = |configuration: Configuration| {
                    let of = (None, &self.device);
                    let mut kernel =
                        Kernel::new((place, family), configuration, &pattern, of, &footprints)?;
                    kernel.learn(&expert, &self.device);
                    Some(kernel)
                };
                Some(lesson.kernels(family).filter_map(kernel).collect::<Vec<Kernel>>())
            });
            of_family.flatten().collect()
        })
    }

    /// What a kernel is expected to take, in microseconds.
    fn expects(&self, group: &Group, who: Who, asked: &Asked) -> Option<f64> {
        let kernel = self.kernel(group, who);
        let lesson = self.lessons[kernel.family].as_ref()?;
        Some(lesson.expects(kernel.learned.as_ref()?, asked, &self.device).0)
    }

    /// Of all that is known the legal kernel of which least is expected; `None` where landmarks expect
    /// less of one of which nothing was learned.
    fn choose(
        &self,
        group: &Group,
        question: &Question,
        near: &[usize],
        extents: &mut Extents,
    ) -> Option<Choice> {
        let asked = Asked::of(&question.problem, &question.storage);
        let records = group.own.nearest_first(question).take(ASKED_ABOUT);
        let recorded = group.roster.of_records(&self.known, records, near);
        let learned = (0..self.learned(group).len()).map(Who::Learned);
        let all = recorded.chain(learned.map(|who| Candidate { who, source: None, factor: 1.0 }));
        let candidates: Vec<(f64, Candidate)> =
            all.filter_map(|one| Some((self.expects(group, one.who, &asked)?, one))).collect();
        let mut left: Vec<(f64, &Candidate)> =
            candidates.iter().map(|(time, one)| (*time, one)).collect();
        let (time, candidate) = first_legal(&mut left, |one| {
            let kernel = self.kernel(group, one.who);
            kernel.cost.fits(&question.problem) && self.permits(kernel, extents)
        })?;
        let other = self.least_of_unlearned(group, question, near, extents);
        if other.is_some_and(|other| other.0 < time) {
            return None;
        }
        Some(Choice { time, candidate: *candidate, compared: candidates.len() })
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
        let candidate = Candidate { who: Who::Learned(3), source: None, factor: 1.0 };
        let made = choices.of(&question, || Some(Choice { time: 7.0, candidate, compared: 9 }));
        assert!(made.is_some_and(|made| made.compared == 9));
        let again = choices.of(&question, || unreachable!("it is known"));
        assert_eq!(again.unwrap().candidate.who, Who::Learned(3));
        // Nothing is a choice too.
        let other = Question::packed(Problem { batch: 2, ..problem });
        assert!(choices.of(&other, || None).is_none());
        assert!(choices.of(&other, || unreachable!("it is known")).is_none());
    }
}
