//! Memory and order of a validation on a GPU: operands, and references of all of C or of parts.
//!
//! Where the memory for all references is missing, C is compared in parts of some rows, and each
//! part's reference is computed when it is needed. Every element is compared either way.

use super::guarded_buffer::GuardedBuffer;
use super::readback::readback_bytes;
use crate::model::Problem;

/// Maximum number of parts, unless a part has one row.
const MOST_PARTS: u64 = 64;

/// Rows of C that the reference kernels compute per block.
const TILE_ROWS: u64 = 64;

/// Bytes of references per element of C: an f64 sum and an f32 magnitude of mixed values, and an
/// f32 sum of small values. Parts hold the sums of one run at a time.
const MIXED_BYTES: u64 = 12;
const SMALL_BYTES: u64 = 4;

/// Rows of C, over the whole batch, whose references are in memory at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReferenceRows(u64);

/// Rows of C: those of whole products, or some of one product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// First product.
    pub(super) product: u64,
    /// Number of products.
    pub(super) products: u64,
    /// First row in the product.
    pub(super) row: u64,
    /// Number of rows in each product.
    pub(super) rows: u64,
}

impl Part {
    /// Index of the first element of C.
    pub(super) fn first(&self, problem: &Problem) -> u64 {
        (self.product * problem.shape.m + self.row) * problem.shape.n
    }

    /// Number of elements of C.
    pub(super) fn elements(&self, problem: &Problem) -> u64 {
        self.products * self.rows * problem.shape.n
    }
}

impl ReferenceRows {
    /// All rows: references are computed once.
    pub(super) fn all(problem: &Problem) -> Self {
        Self(problem.batch * problem.shape.m)
    }

    /// The fewest rows, for which a validation needs the least memory.
    pub(super) fn fewest(problem: &Problem) -> Self {
        Self::multiple(Self::all(problem).0.div_ceil(MOST_PARTS), problem)
    }

    /// The rows for a validation within `bytes`. A repeated run needs a second C; of what is left
    /// beside it and parts of the fewest rows, larger parts have half, and workspaces and code the rest.
    pub(super) fn within(problem: &Problem, bytes: u64) -> Self {
        if Self::comfortable(problem) <= bytes {
            return Self::all(problem);
        }
        let fewest = Self::fewest(problem);
        let least = fewest.footprint(problem) + second_c(problem);
        let rows = fewest.0 + bytes.saturating_sub(least) / 2 / (MIXED_BYTES * problem.shape.n);
        Self(Self::multiple(rows, problem).0.max(fewest.0))
    }

    /// Whole tiles or whole products, where there are that many.
    fn multiple(rows: u64, problem: &Problem) -> Self {
        let unit = [problem.shape.m, TILE_ROWS, 1].into_iter().find(|unit| *unit <= rows);
        let rows = unit.map_or(1, |unit| rows / unit * unit);
        Self(rows.clamp(1, Self::all(problem).0))
    }

    /// Whether these are all rows.
    pub(super) fn are_all(self, problem: &Problem) -> bool {
        self == Self::all(problem)
    }

    /// Device memory in bytes for all references and a repeated run.
    pub(super) fn comfortable(problem: &Problem) -> u64 {
        Self::all(problem).footprint(problem) + second_c(problem)
    }

    /// Device memory in bytes for a validation.
    pub(super) fn footprint(self, problem: &Problem) -> u64 {
        guarded_operands(problem) + GuardedBuffer::footprint(self.bytes(problem))
    }

    /// Bytes of references and results.
    pub(super) fn bytes(self, problem: &Problem) -> u64 {
        let small = if self.are_all(problem) { SMALL_BYTES } else { 0 };
        self.mixed_sums(problem) + (MIXED_BYTES + small) * self.elements(problem)
    }

    /// Offset of the sums of mixed values, behind the results.
    pub(super) fn mixed_sums(self, problem: &Problem) -> u64 {
        readback_bytes(self.parts(problem).len())
    }

    /// Offset of the magnitudes of mixed values.
    pub(super) fn magnitudes(self, problem: &Problem) -> u64 {
        self.mixed_sums(problem) + 8 * self.elements(problem)
    }

    /// Offset of the sums of small values. In parts they are where those of mixed values are later.
    pub(super) fn small_sums(self, problem: &Problem) -> u64 {
        if self.are_all(problem) {
            self.mixed_sums(problem) + MIXED_BYTES * self.elements(problem)
        } else {
            self.mixed_sums(problem)
        }
    }

    fn elements(self, problem: &Problem) -> u64 {
        self.0 * problem.shape.n
    }

    /// The parts of C, in order.
    pub(super) fn parts(self, problem: &Problem) -> Vec<Part> {
        let (m, batch) = (problem.shape.m, problem.batch);
        let products = (self.0 / m).max(1);
        let rows = self.0.min(m);
        let starts = (0..batch).step_by(products as usize);
        starts
            .flat_map(|product| {
                (0..m).step_by(rows as usize).map(move |row| Part {
                    product,
                    products: products.min(batch - product),
                    row,
                    rows: rows.min(m - row),
                })
            })
            .collect()
    }
}

fn second_c(problem: &Problem) -> u64 {
    let [.., c] = problem.operand_bytes();
    GuardedBuffer::footprint(c)
}

fn guarded_operands(problem: &Problem) -> u64 {
    let of_epilogue = problem.epilogue_bytes().map(|(_, bytes)| bytes);
    problem.operand_bytes().into_iter().chain(of_epilogue).map(GuardedBuffer::footprint).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, Shape};

    fn problem(m: u64, n: u64, batch: u64) -> Problem {
        Problem { batch, ..Problem::new(Shape { m, n, k: 100 }, Dtype::F32) }
    }

    #[test]
    fn parts_cover_c_once_and_fit() {
        for (m, n, batch) in
            [(1, 1, 1), (1000, 1000, 1), (1, 5000, 1), (7, 5, 1000), (300, 64, 3), (5000, 1, 2)]
        {
            let problem = problem(m, n, batch);
            let least = ReferenceRows::fewest(&problem).footprint(&problem);
            let comfortable = ReferenceRows::comfortable(&problem);
            for step in 0..=50 {
                let bytes = least + (comfortable - least) * step / 50;
                let rows = ReferenceRows::within(&problem, bytes);
                assert!(rows.footprint(&problem) <= bytes, "{problem} {bytes} {rows:?}");
                let parts = rows.parts(&problem);
                assert!(parts.len() as u64 <= 2 * MOST_PARTS, "{problem} {}", parts.len());
                let mut next = 0;
                for part in &parts {
                    assert_eq!(part.first(&problem), next, "{problem} {part:?}");
                    assert!(part.elements(&problem) <= rows.elements(&problem));
                    next += part.elements(&problem);
                }
                assert_eq!(next, problem.c_elements() * batch);
                assert_eq!(parts.len() == 1, rows.are_all(&problem), "{problem} {rows:?}");
            }
            assert!(ReferenceRows::within(&problem, comfortable).are_all(&problem));
        }
    }

    #[test]
    fn the_least_memory_is_little_more_than_the_operands() {
        let problem = Problem::new(Shape { m: 1000, n: 1000, k: 1000 }, Dtype::F32);
        let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
        let least = mib(ReferenceRows::fewest(&problem).footprint(&problem));
        let comfortable = mib(ReferenceRows::comfortable(&problem));
        // 11.4 MiB of operands, 8 MiB of guard bytes.
        assert!((19.5..20.0).contains(&least), "{least}");
        assert!((40.0..41.0).contains(&comfortable), "{comfortable}");
    }
}
