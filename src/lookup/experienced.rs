//! Candidates with the times that are expected of them by what was learned of a device. Any kernel that
//! a group knows may be the answer, not those alone that were measured nearby.
//!
//! **How.** Problems of one cell, which are alike within a factor of 1.4 in each extent and in what rows
//! are aligned to, share a short list: the kernels of which least is expected for the middle of the cell.
//! For the problem itself only these are looked at, which takes microseconds.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use super::answer::Question;
use super::index::{Group, Lookup};
use super::roster::{Candidate, Who};
use crate::model::{Problem, Shape};
use crate::space::Extents;

/// Kernels of a short list.
const LISTED: usize = 12;

/// Cells for each factor of two in an extent.
const FINENESS: f64 = 2.0;

/// Cells that are remembered; one more, and all are found again.
const REMEMBERED: usize = 1 << 16;

/// Problems that are alike: where their extents lie, the batch, and the alignment of rows of A, B and C.
type Cell = ([u32; 3], u64, [u32; 3]);

/// The short lists that were found so far.
#[derive(Debug, Default)]
pub(super) struct Shortlists {
    found: RwLock<HashMap<Cell, Arc<[Candidate]>>>,
}

impl Shortlists {
    /// The list of a cell, found by `find` where it is new.
    fn of(&self, cell: Cell, find: impl FnOnce() -> Vec<Candidate>) -> Arc<[Candidate]> {
        if let Ok(known) = self.found.read()
            && let Some(list) = known.get(&cell)
        {
            return Arc::clone(list);
        }
        let list: Arc<[Candidate]> = find().into();
        if let Ok(mut known) = self.found.write() {
            if known.len() >= REMEMBERED {
                known.clear();
            }
            known.insert(cell, Arc::clone(&list));
        }
        list
    }
}

impl Lookup {
    /// The kernels of which least is expected for problems like this one, with what is expected of
    /// them for this one; `None` where nothing was learned. `near` are records near it, the nearest
    /// first.
    pub(super) fn by_experience(
        &self,
        group: &Group,
        question: &Question,
        near: &[usize],
    ) -> Option<Vec<(f64, Candidate)>> {
        if self.lessons.iter().all(Option::is_none) {
            return None;
        }
        let find = || self.shortlist(group, &middle(question), near);
        let list = group.shortlists.of(cell(question), find);
        let timed =
            list.iter().filter_map(|one| Some((self.expects(group, one.who, question)?, *one)));
        Some(timed.collect()).filter(|timed: &Vec<_>| !timed.is_empty())
    }

    /// What a kernel is expected to take, in microseconds.
    fn expects(&self, group: &Group, who: Who, question: &Question) -> Option<f64> {
        let kernel = self.kernel(group, who);
        let lesson = self.lessons[kernel.family].as_ref()?;
        let question = (&question.problem, &question.storage);
        Some(lesson.expects(kernel.learned.as_ref()?, question, &self.device).0)
    }

    fn shortlist(&self, group: &Group, question: &Question, near: &[usize]) -> Vec<Candidate> {
        let mut extents = Extents::new(&question.problem, &question.storage);
        let all = group.roster.all(&self.known, near);
        let mut timed: Vec<(f64, Candidate)> =
            all.filter_map(|one| Some((self.expects(group, one.who, question)?, one))).collect();
        timed.sort_by(|a, b| a.0.total_cmp(&b.0));
        let is_legal = |one: &Candidate| {
            let kernel = self.kernel(group, one.who);
            kernel.cost.fits(&question.problem) && self.permits(kernel, &mut extents)
        };
        timed.into_iter().map(|(_, one)| one).filter(is_legal).take(LISTED).collect()
    }
}

/// The cell that a question is in.
fn cell(question: &Question) -> Cell {
    let Question { problem, storage } = question;
    let at = |extent: u64| (FINENESS * (extent as f64).log2()) as u32;
    let Shape { m, n, k } = problem.shape;
    let aligned = storage.leading_dimensions(problem).map(|rows| rows.trailing_zeros().min(2));
    ([m, n, k].map(at), problem.batch, aligned)
}

/// A question from the middle of the cell that one is in: its rows are as far apart as this one's, or the
/// next that are aligned alike.
fn middle(question: &Question) -> Question {
    let Question { problem, storage } = question;
    let (places, _, aligned) = cell(question);
    let [m, n, k] =
        places.map(|at| ((f64::from(at) + 0.5) / FINENESS).exp2().round().max(1.0) as u64);
    let problem = Problem { shape: Shape { m, n, k }, ..*problem };
    let mut middle = Question { storage: *storage, ..Question::packed(problem) };
    let packed = Question::packed(problem).storage;
    let apart = |rows: u64, aligned: u32| {
        let unit = 1_u64 << aligned;
        let units = rows.div_ceil(unit);
        // An odd number of units is aligned to no more.
        unit * if aligned < 2 { units | 1 } else { units }
    };
    middle.storage.lda = apart(packed.lda, aligned[0]);
    middle.storage.ldb = apart(packed.ldb, aligned[1]);
    middle.storage.ldc = apart(packed.ldc, aligned[2]);
    middle
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dtype;

    #[test]
    fn the_middle_of_a_cell_is_in_it() {
        for shape in ["64x64x64", "1000x777x3001", "8191x66x4098", "1x5x3", "4096x4096x1024"] {
            let problem = Problem::new(shape.parse().unwrap(), Dtype::F32);
            let question = Question::packed(problem);
            let middle = middle(&question);
            assert_eq!(cell(&middle).0, cell(&question).0, "{shape}");
            assert_eq!(cell(&middle).2, cell(&question).2, "{shape}");
            assert!(middle.storage.check(&middle.problem).is_ok(), "{shape}");
        }
    }

    #[test]
    fn a_list_is_found_once() {
        let lists = Shortlists::default();
        let cell = ([1, 2, 3], 1, [0, 0, 0]);
        assert!(lists.of(cell, Vec::new).is_empty());
        lists.of(cell, || unreachable!("it is known"));
    }
}
