//! Which questions kernels serve. Kernels of an artifact share most of their conditions, so that each condition is evaluated
//! once for each question.

use indexmap::IndexSet;
use rayon::prelude::*;

use super::draft::KernelDraft;
use crate::lookup::Question;
use crate::space::Formula;
use crate::space::formula::open_values;

/// For each kernel the places of the questions that it serves, in ascending order.
pub(super) fn served(drafts: &[&KernelDraft], questions: &[Question]) -> Vec<Vec<usize>> {
    let mut conditions: IndexSet<&Formula> = IndexSet::new();
    let of_drafts: Vec<Vec<usize>> = drafts
        .iter()
        .map(|draft| {
            draft.bound.serves.iter().map(|condition| conditions.insert_full(condition).0).collect()
        })
        .collect();
    let values: Vec<_> =
        questions.iter().map(|one| open_values(&one.problem, &one.storage)).collect();
    let conditions: Vec<&Formula> = conditions.into_iter().collect();
    let holds: Vec<Vec<bool>> = conditions
        .par_iter()
        .map(|condition| values.iter().map(|values| condition.holds(values)).collect())
        .collect();
    drafts
        .par_iter()
        .zip(of_drafts)
        .map(|(draft, conditions)| {
            let pattern = draft.pattern();
            let is_served = |at: &usize| {
                conditions.iter().all(|condition| holds[*condition][*at])
                    && pattern == questions[*at].problem.pattern()
                    && draft.has_room(&questions[*at], &values[*at])
            };
            (0..questions.len()).filter(is_served).collect()
        })
        .collect()
}
