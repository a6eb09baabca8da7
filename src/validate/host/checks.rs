//! Checks of what a candidate left in memory on the `cpu` device: values, elements that no thread wrote or that only one of
//! two runs wrote, and what lies between the rows of C.

use rayon::prelude::*;

use super::{HostFailure, HostValidator, Scratch};
use crate::cpu::MemoryError;
use crate::model::Mismatch;
use crate::validate::region::Region;
use crate::validate::run::ValidationRun;
use crate::validate::sample::BlockCoverage;

impl HostValidator {
    /// Compares the elements of a region with their references. Returns the largest error.
    pub(super) fn judge(
        &self,
        run: &ValidationRun,
        scratch: &Scratch,
        region: &Region,
    ) -> Result<f64, HostFailure> {
        let elements = region.runs.iter().map(|run| {
            let elements = self.c(scratch).part(run.index(&self.problem), run.length);
            Ok(scratch.memory.elements(elements)?.collect())
        });
        let elements: Vec<Vec<u32>> = elements.collect::<Result<_, MemoryError>>()?;
        let expected = self.references.of(run, region);
        run.judge(region, &expected, &elements).map_err(HostFailure::Wrong)
    }

    /// Checks that the blocks wrote, and that all blocks together wrote all of C.
    pub(super) fn check_complete(
        &self,
        coverage: &BlockCoverage,
        marked: &[bool],
    ) -> Result<(), HostFailure> {
        let missing = self.c_elements() - coverage.elements;
        if coverage.elements > 0 && (missing == 0 || !coverage.whole()) {
            return Ok(());
        }
        let first = marked.iter().position(|marked| !marked).unwrap_or(0);
        let at = self.position(first as u64);
        let what =
            format!("{missing} elements that no thread wrote, the first {at}, of {coverage}");
        Err(unexpected_access(what, missing))
    }

    /// Checks that the second run left unchanged what the first run did not write.
    pub(super) fn check_untouched(
        &self,
        run: &ValidationRun,
        scratch: &Scratch,
        marked: &[bool],
    ) -> Result<(), HostFailure> {
        let bits = self.c(scratch).bits(&scratch.memory)?;
        let touched = bits.par_iter().enumerate().find_first(|(at, bits)| {
            !marked.get(*at).copied().unwrap_or(true) && **bits != run.old_bits(*at as u64)
        });
        let Some((at, _)) = touched else { return Ok(()) };
        let at = self.position(at as u64);
        Err(unexpected_access(format!("{at} was written in one of two runs only"), 1))
    }

    /// Checks that nothing was written between the rows of C.
    pub(super) fn check_gaps(&self, scratch: &Scratch) -> Result<(), HostFailure> {
        let Some([row, behind]) = self.c(scratch).written_gap(&scratch.memory)? else {
            return Ok(());
        };
        let (n, ldc) = (self.problem.shape.n, self.storage.ldc);
        let at = self.position(row * n + n - 1);
        let what = format!(
            "element {behind} behind {at}, the last one of its row, was written: rows are {ldc} elements apart"
        );
        Err(unexpected_access(what, 1))
    }

    /// Formats an element of C by its row and column.
    fn position(&self, at: u64) -> String {
        let (m, n) = (self.problem.shape.m, self.problem.shape.n);
        let (product, row, column) = (at / (m * n), at / n % m, at % n);
        match product {
            0 => format!("C[{row}][{column}]"),
            _ => format!("C[{row}][{column}] of product {product}"),
        }
    }
}

/// Creates a failure that is not about the value of an element.
fn unexpected_access(check: String, wrong: u64) -> HostFailure {
    let error = f64::INFINITY;
    let (got, expected, bound) = (f64::NAN, f64::NAN, 0.0);
    HostFailure::Wrong(Box::new(Mismatch { check, at: None, got, expected, error, bound, wrong }))
}
