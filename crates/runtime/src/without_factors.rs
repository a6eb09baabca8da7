//! Products that read neither A nor B, because K or alpha is 0: D is the epilogue of beta C.
//!
//! Rows are filled or copied where that is all. Otherwise a kernel multiplies zeros, which lie in the workspace. The C
//! library does the same (`empty.c` of its sources).

#![expect(unsafe_code, reason = "operands are addresses here")]

use std::sync::Arc;

use crate::catalogue::Catalogue;
use crate::driver::Driver;
use crate::error::RuntimeError;
use crate::gemm::{LaunchPart, NOTHING, Runtime};
use crate::gpu::Stream;
use crate::model::{Problem, Shape, Storage};
use crate::operands::{GemmOperands, RowsToFill};
use crate::prepared::{PreparedKernel, WorkspaceAddresses};
use crate::question::Question;

/// K of the zeros that are multiplied: the first that a kernel serves. The last is the problem's own.
const STAND_IN_K: [u64; 3] = [64, 16, 1];

/// A kernel that multiplies zeros.
struct ZeroProduct<D: Driver> {
    problem: Problem,
    prepared: Arc<PreparedKernel<D>>,
    /// Bytes of zeros, which are A and B alike.
    zero_bytes: u64,
}

impl<C: Catalogue, D: Driver> Runtime<C, D> {
    /// Enqueues a product whose K or alpha is 0.
    ///
    /// # Safety
    /// As for [`Runtime::gemm`]; A and B are not read.
    pub(crate) unsafe fn gemm_without_factors(
        &self,
        stream: Stream,
        problem: &Problem,
        operands: &GemmOperands,
    ) -> Result<(), RuntimeError> {
        let rows_of_c = operands.rows_of_c(problem)?;
        if let Some(is_copy) = operands.is_copy_of_c(problem) {
            check_d(problem, operands)?;
            // SAFETY: C and D are the caller's.
            unsafe {
                match (is_copy, rows_of_c) {
                    (false, _) => self.driver.fill_rows(stream, &rows_of_d(problem, operands))?,
                    (true, Some(rows)) => self.driver.copy_rows(stream, &rows)?,
                    // C lies in the place of D.
                    (true, None) => {}
                }
            }
            return Ok(());
        }
        let mut room = Question::ANY;
        loop {
            let zeros = self.zero_product(problem, operands, room)?;
            let needed = zeros.zero_bytes + zeros.prepared.workspace_bytes;
            let mut workspaces = self.workspaces();
            let Some(address) = self.lend(&mut workspaces, stream, needed)? else {
                room = needed - 1;
                continue;
            };
            let ZeroProduct { problem: zero_problem, prepared, zero_bytes } = zeros;
            let fill = RowsToFill { to: (address, zero_bytes), width: zero_bytes, rows: 1 };
            let zero_operands = GemmOperands {
                a: address,
                b: address,
                lda: zero_problem.lda(),
                ldb: zero_problem.ldb(),
                alpha: 1.0,
                ..*operands
            };
            let workspaces = WorkspaceAddresses::at_one(address + zero_bytes);
            let whole = (&*prepared, LaunchPart::Whole);
            // SAFETY: C and D are the caller's; the zeros and the workspace behind them are the stream's.
            unsafe {
                self.driver.fill_rows(stream, &fill)?;
                if let Some(rows) = rows_of_c {
                    self.driver.copy_rows(stream, &rows)?;
                }
                return self.launch(stream, whole, &zero_problem, &zero_operands, workspaces);
            }
        }
    }

    /// The name of the kernel that such a product launches.
    pub(crate) fn name_without_factors(
        &self,
        problem: &Problem,
        operands: &GemmOperands,
    ) -> Result<String, RuntimeError> {
        if operands.is_copy_of_c(problem).is_some() {
            check_d(problem, operands)?;
            return Ok(NOTHING.to_owned());
        }
        Ok(self.zero_product(problem, operands, Question::ANY)?.prepared.name.clone())
    }

    /// Chooses a kernel that multiplies zeros, which with its workspace take at most `room` bytes.
    fn zero_product(
        &self,
        problem: &Problem,
        operands: &GemmOperands,
        room: u64,
    ) -> Result<ZeroProduct<D>, RuntimeError> {
        let mut last = None;
        for k in STAND_IN_K.into_iter().chain(Some(problem.shape.k).filter(|k| *k > 0)) {
            let (problem, storage) = stand_in(problem, operands, k);
            // Before any arithmetic with its extents.
            storage.check(&problem)?;
            let [a, b, _] = problem.operand_bytes();
            let zero_bytes = a.max(b).next_multiple_of(Storage::ALLOCATED);
            let Some(left) = room.checked_sub(zero_bytes) else { continue };
            let left = if room == Question::ANY { Question::ANY } else { left };
            match self.prepare(Question::new(problem, storage).within(left)) {
                Ok(prepared) => return Ok(ZeroProduct { problem, prepared, zero_bytes }),
                Err(error @ RuntimeError::NoKernel { .. }) => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| RuntimeError::NoKernel {
            problem: problem.to_string(),
            storage: format!(" within {room} bytes of workspace"),
        }))
    }
}

/// The same problem with another K and packed factors, and the storage of its operands.
fn stand_in(problem: &Problem, operands: &GemmOperands, k: u64) -> (Problem, Storage) {
    let problem = Problem { shape: Shape { k, ..problem.shape }, ..*problem };
    let nowhere = GemmOperands { a: 0, b: 0, ..*operands };
    let storage = Storage { lda: problem.lda(), ldb: problem.ldb(), ..nowhere.storage() };
    (problem, storage)
}

/// Checks extents, rows and address of D.
fn check_d(problem: &Problem, operands: &GemmOperands) -> Result<(), RuntimeError> {
    let (problem, storage) = stand_in(problem, operands, 1);
    Ok(storage.check(&problem)?)
}

/// The rows of D of all products, which lie one after the other.
fn rows_of_d(problem: &Problem, operands: &GemmOperands) -> RowsToFill {
    let (Shape { m, n, .. }, bytes) = (problem.shape, problem.types.d.bytes());
    RowsToFill { to: (operands.d, operands.ldd * bytes), width: n * bytes, rows: m * problem.batch }
}
