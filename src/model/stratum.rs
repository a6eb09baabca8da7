//! Strata: kinds of problems that evaluations are reported by. A problem has one layout and any number of others.

use std::fmt;

use super::problem::{Layout, Problem};
use super::storage::Storage;

/// Kind of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stratum {
    /// M, N and K are equal.
    Cube,
    /// M or N is 16 at most.
    Narrow,
    /// K is 8 times as long as M and N, or more.
    LongK,
    /// One of M and N is 8 times as long as the other or more, and that one is above 16.
    Tall,
    /// As few operations as a cube of 128, or fewer.
    Tiny,
    /// A row of A, B or C is no multiple of four elements.
    OddRows,
    /// Several products.
    Batch,
    /// How A and B are stored.
    Stored(Layout),
}

/// M or N up to which a problem is narrow.
const NARROW: u64 = 16;

/// Ratio of extents from which one counts as long.
const LONG: u64 = 8;

/// Operations up to which a problem is tiny.
const TINY: f64 = 2.0 * 128.0 * 128.0 * 128.0;

impl Stratum {
    /// All strata, in the order of reports.
    pub fn all() -> impl Iterator<Item = Self> {
        let kinds = [
            Self::Cube,
            Self::Narrow,
            Self::LongK,
            Self::Tall,
            Self::Tiny,
            Self::OddRows,
            Self::Batch,
        ];
        kinds.into_iter().chain(Layout::ALL.iter().copied().map(Self::Stored))
    }

    /// Whether a problem is of this kind.
    pub fn has(self, problem: &Problem) -> bool {
        let shape = problem.shape;
        let (short, long) = (shape.m.min(shape.n), shape.m.max(shape.n));
        match self {
            Self::Cube => shape.m == shape.n && shape.n == shape.k,
            Self::Narrow => short <= NARROW,
            Self::LongK => shape.k >= long.saturating_mul(LONG),
            Self::Tall => short > NARROW && long >= short.saturating_mul(LONG),
            Self::Tiny => problem.operations() <= TINY,
            Self::OddRows => {
                Storage::packed(problem).leading_dimensions(problem).iter().any(|row| row % 4 != 0)
            }
            Self::Batch => problem.batch > 1,
            Self::Stored(layout) => problem.layout == layout,
        }
    }
}

impl fmt::Display for Stratum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cube => f.pad("cube"),
            Self::Narrow => f.pad("M or N up to 16"),
            Self::LongK => f.pad("long K"),
            Self::Tall => f.pad("tall or wide"),
            Self::Tiny => f.pad("tiny"),
            Self::OddRows => f.pad("odd rows"),
            Self::Batch => f.pad("batch"),
            Self::Stored(layout) => f.pad(&format!("layout {layout}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dtype;

    #[test]
    fn problems_have_their_strata() {
        for (shape, batch, layout, expected) in [
            ("512x512x512", 1, Layout::Nn, "cube, layout nn"),
            ("64x64x64", 16, Layout::Nt, "cube, batch, layout nt"),
            ("128x128x128", 1, Layout::Nn, "cube, tiny, layout nn"),
            ("16x4096x4096", 1, Layout::Nn, "M or N up to 16, layout nn"),
            ("17x4096x4096", 1, Layout::Nn, "tall or wide, layout nn"),
            ("17x4096x4096", 1, Layout::Tn, "tall or wide, odd rows, layout tn"),
            ("100x100x800", 1, Layout::Tt, "long K, layout tt"),
            ("1000x1001x1000", 1, Layout::Nn, "odd rows, layout nn"),
        ] {
            let shape = shape.parse().unwrap();
            let problem = Problem { batch, layout, ..Problem::new(shape, Dtype::F32) };
            let own: Vec<String> = Stratum::all()
                .filter(|stratum| stratum.has(&problem))
                .map(|stratum| stratum.to_string())
                .collect();
            assert_eq!(own.join(", "), expected, "{problem}");
        }
    }
}
