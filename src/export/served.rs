//! Which questions the kernels of an artifact serve.

use rayon::prelude::*;

use super::draft::KernelDraft;
use crate::lookup::Question;
use crate::space::{Extents, SharedConditions};

/// For each kernel the places of the questions that it serves, in ascending order.
pub(super) fn served(drafts: &[&KernelDraft], questions: &[Question]) -> Vec<Vec<usize>> {
    let conditions = SharedConditions::of(drafts.iter().map(|draft| &*draft.bound.serves));
    let extents = |one: &Question| Extents::new(&one.problem, &one.storage);
    let extents: Vec<Extents> = questions.iter().map(extents).collect();
    let hold: Vec<Vec<bool>> = extents.par_iter().map(|own| conditions.hold(own)).collect();
    let of_draft = |(number, draft): (usize, &&KernelDraft)| {
        let pattern = draft.pattern();
        let is_served = |at: &usize| {
            hold[*at][number]
                && pattern == questions[*at].problem.pattern()
                && draft.has_room(&questions[*at], extents[*at].values())
        };
        (0..questions.len()).filter(is_served).collect()
    };
    drafts.par_iter().enumerate().map(of_draft).collect()
}
