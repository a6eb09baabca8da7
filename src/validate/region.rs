//! A part of C and its reference: computed on the host in f64, for the elements of that part only.

use rayon::prelude::*;

use super::inputs::{OperandLines, ValueKind};
use crate::cpu::add_products;
use crate::model::Problem;

/// Consecutive elements of a row of C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowSegment {
    pub(super) product: u64,
    pub(super) row: u64,
    pub(super) column: u64,
    pub(super) length: u64,
}

impl RowSegment {
    /// Index of its first element in memory.
    pub(super) fn index(&self, problem: &Problem) -> u64 {
        (self.product * problem.shape.m + self.row) * problem.shape.n + self.column
    }
}

/// Elements of C, as row segments in ascending order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Region {
    pub(super) runs: Vec<RowSegment>,
}

/// Reference of a row segment, by element.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SegmentSums {
    /// op(A) op(B).
    pub(super) values: Vec<f64>,
    /// |op(A)| |op(B)|.
    pub(super) magnitudes: Vec<f64>,
}

/// Definition of the operand values: their kind, and the seeds of A and B.
#[derive(Debug, Clone, Copy)]
pub(super) struct OperandValues {
    pub(super) values: ValueKind,
    pub(super) seeds: [u64; 2],
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Operand {
    A,
    B,
}

impl OperandValues {
    /// The value of an element of A or B.
    pub(super) fn at(self, problem: &Problem, operand: Operand, index: u64) -> f64 {
        let types = problem.types;
        let (dtype, which) = match operand {
            Operand::A => (types.a, 0),
            Operand::B => (types.b, 1),
        };
        let seed = self.seeds[which];
        match self.values {
            ValueKind::Mixed => OperandLines::of(problem)[which].mixed(dtype, index, seed),
            values => values.at(dtype, index, seed),
        }
    }
}

/// Elements of op(B) in memory at a time: 8 MiB.
const PANEL: u64 = 1 << 20;

impl Region {
    /// Collects the marked elements, given for all of C in memory order.
    pub(super) fn of(problem: &Problem, marked: &[bool]) -> Self {
        let (m, n) = (problem.shape.m, problem.shape.n);
        let runs = marked.chunks(n as usize).enumerate().flat_map(|(line, marked)| {
            let (product, row) = (line as u64 / m, line as u64 % m);
            let mut column = 0;
            marked.chunk_by(|a, b| a == b).filter_map(move |chunk| {
                let run = RowSegment { product, row, column, length: chunk.len() as u64 };
                column += run.length;
                chunk[0].then_some(run)
            })
        });
        Self { runs: runs.collect() }
    }

    /// Number of elements.
    pub(super) fn elements(&self) -> u64 {
        self.runs.iter().map(|run| run.length).sum()
    }

    /// Computes the product and the sums of its terms' magnitudes for each segment. Integers are
    /// exact as long as sums stay below 2^53.
    pub(super) fn reference(&self, problem: &Problem, source: OperandValues) -> Vec<SegmentSums> {
        let mut sums = Vec::with_capacity(self.runs.len());
        for runs in self.runs.chunk_by(|a, b| a.product == b.product) {
            sums.extend(product(problem, source, runs));
        }
        sums
    }
}

/// Computes the reference of segments of one product of the batch.
fn product(problem: &Problem, source: OperandValues, runs: &[RowSegment]) -> Vec<SegmentSums> {
    let number = runs.first().map_or(0, |run| run.product);
    let columns = ColumnRanges::of(runs);
    let zeros = |run: &RowSegment| vec![0.0; run.length as usize];
    let mut sums: Vec<SegmentSums> =
        runs.iter().map(|run| SegmentSums { values: zeros(run), magnitudes: zeros(run) }).collect();
    let k = problem.shape.k;
    let step = (PANEL / columns.width.max(1)).clamp(1, k);
    for begin in (0..k).step_by(step as usize) {
        let ks = begin..(begin + step).min(k);
        let panel: Vec<f64> = ks
            .clone()
            .into_par_iter()
            .flat_map_iter(|k| {
                columns.all().map(move |column| b_at(problem, source, number, k, column))
            })
            .collect();
        sums.par_iter_mut().zip(runs).for_each(|(sums, run)| {
            let first = columns.place(run.column) as usize;
            let lines = panel.chunks_exact(columns.width as usize);
            for (k, line) in ks.clone().zip(lines) {
                let a = a_at(problem, source, number, run.row, k);
                let b = &line[first..first + run.length as usize];
                add_products(a, b, &mut sums.values, &mut sums.magnitudes);
            }
        });
    }
    sums
}

fn a_at(problem: &Problem, source: OperandValues, product: u64, row: u64, k: u64) -> f64 {
    let lda = problem.lda();
    let at = if problem.layout.a_transposed() { k * lda + row } else { row * lda + k };
    source.at(problem, Operand::A, product * problem.a_elements() + at)
}

fn b_at(problem: &Problem, source: OperandValues, product: u64, k: u64, column: u64) -> f64 {
    let ldb = problem.ldb();
    let at = if problem.layout.b_transposed() { column * ldb + k } else { k * ldb + column };
    source.at(problem, Operand::B, product * problem.b_elements() + at)
}

/// Columns that occur in any segment: disjoint ranges, with the place of each in a compact row.
struct ColumnRanges {
    /// First column, first column behind, place.
    ranges: Vec<(u64, u64, u64)>,
    width: u64,
}

impl ColumnRanges {
    fn of(runs: &[RowSegment]) -> Self {
        let mut spans: Vec<(u64, u64)> =
            runs.iter().map(|run| (run.column, run.column + run.length)).collect();
        spans.sort_unstable();
        let mut ranges: Vec<(u64, u64, u64)> = Vec::new();
        for (begin, end) in spans {
            match ranges.last_mut() {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                _ => ranges.push((begin, end, 0)),
            }
        }
        let mut width = 0;
        for (begin, end, place) in &mut ranges {
            *place = width;
            width += *end - *begin;
        }
        Self { ranges, width }
    }

    fn all(&self) -> impl Iterator<Item = u64> + '_ {
        self.ranges.iter().flat_map(|(begin, end, _)| *begin..*end)
    }

    /// Place of a column in the compact row; the columns of a segment are within one range.
    fn place(&self, column: u64) -> u64 {
        let at = self.ranges.partition_point(|(begin, _, _)| *begin <= column).saturating_sub(1);
        self.ranges.get(at).map_or(0, |(begin, _, place)| place + (column - begin))
    }
}

#[cfg(test)]
mod tests {
    use super::super::reference::triple_loop;
    use super::*;
    use crate::model::{Dtype, Layout};

    #[test]
    fn a_part_of_c_has_the_values_of_the_whole() {
        for layout in [Layout::Nn, Layout::Nt, Layout::Tn, Layout::Tt] {
            let shape = "13x17x29".parse().unwrap();
            let problem = Problem { batch: 2, layout, ..Problem::new(shape, Dtype::F32) };
            let source = OperandValues { values: ValueKind::Uniform, seeds: [3, 4] };
            let values = |count: u64, seed| -> Vec<f64> {
                (0..count).map(|at| source.values.at(problem.types.a, at, seed)).collect()
            };
            let whole = triple_loop(
                &problem,
                &values(2 * problem.a_elements(), 3),
                &values(2 * problem.b_elements(), 4),
            );
            let marked: Vec<bool> = (0..whole.len()).map(|at| at % 7 < 3 || at > 300).collect();
            let region = Region::of(&problem, &marked);
            assert_eq!(region.elements(), marked.iter().filter(|marked| **marked).count() as u64);
            let sums = region.reference(&problem, source);
            for (run, sums) in region.runs.iter().zip(&sums) {
                let at = ((run.product * 13 + run.row) * 17 + run.column) as usize;
                for (i, value) in sums.values.iter().enumerate() {
                    assert!((value - whole[at + i]).abs() < 1e-12, "{layout} {run:?}");
                    assert!(sums.magnitudes[i] >= value.abs());
                }
            }
        }
    }
}
