//! The operands of a matrix product in device memory.

use crate::error::RuntimeError;
use crate::gpu::KernelArgument;
use crate::model::storage::StorageError;
use crate::model::{Dtype, EpilogueAddresses, GemmType, Problem, Storage};

/// Operands of a product D = epilogue(alpha op(A) op(B) + beta C), row-major; those of a batch lie one after
/// the other. Addresses are device addresses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GemmOperands {
    /// Address of A.
    pub a: u64,
    /// Address of B.
    pub b: u64,
    /// Address of D, which holds C too unless `c` is given.
    pub d: u64,
    /// Elements between rows of A as stored.
    pub lda: u64,
    /// Elements between rows of B as stored.
    pub ldb: u64,
    /// Elements between rows of D.
    pub ldd: u64,
    /// The factor of the product.
    pub alpha: f64,
    /// The factor of C; C is not read where it is 0.
    pub beta: f64,
    /// C, where it lies in a buffer of its own. It is copied to D before the product, unless beta is 0; an addend
    /// that is read once is a `residual` of the epilogue.
    pub c: Option<SeparateC>,
    /// The operands of the epilogue. Values of a column (`bias`, `col-scale`) or a row lie one after the other, those of
    /// the next product behind them. A matrix (`residual`, `mul`) is stored as D is.
    pub epilogue: EpilogueAddresses,
}

/// C in a buffer of its own, which does not overlap D.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeparateC {
    /// Its address.
    pub address: u64,
    /// Elements between rows.
    pub ldc: u64,
}

/// Rows of a matrix to copy, as the driver takes them; all figures in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsToCopy {
    /// Address of the first row, and from each row to the next.
    pub from: (u64, u64),
    /// Where the rows go: address, and from each row to the next.
    pub to: (u64, u64),
    /// Length of a row.
    pub width: u64,
    /// Number of rows.
    pub rows: u64,
}

/// Rows of a matrix to fill with zeros, as the driver takes them; all figures in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsToFill {
    /// Address of the first row, and from each row to the next.
    pub to: (u64, u64),
    /// Length of a row.
    pub width: u64,
    /// Number of rows.
    pub rows: u64,
}

impl GemmOperands {
    /// Packed operands, alpha 1 and beta 0, without an epilogue.
    pub fn packed(problem: &Problem, a: u64, b: u64, d: u64) -> Self {
        let (lda, ldb, ldd) = (problem.lda(), problem.ldb(), problem.ldc());
        let epilogue = EpilogueAddresses::default();
        Self { a, b, d, lda, ldb, ldd, alpha: 1.0, beta: 0.0, c: None, epilogue }
    }

    /// Checks what no kernel can take: null and misaligned addresses, and factors that are no numbers of their dtype.
    pub(crate) fn check(&self, problem: &Problem) -> Result<(), RuntimeError> {
        let types = problem.types;
        let is_read = !self.reads_no_factors(problem);
        for (operand, address, is_needed) in
            [('A', self.a, is_read), ('B', self.b, is_read), ('D', self.d, true)]
        {
            if is_needed && address == 0 {
                return Err(StorageError::Null { operand }.into());
            }
        }
        for operation in problem.epilogue.operands() {
            let (address, dtype) = (self.epilogue.of(operation), operation.operand_dtype(types));
            if address == 0 || address % dtype.bytes() != 0 {
                return Err(RuntimeError::EpilogueOperand { operation, address, dtype });
            }
        }
        if types.scalar() == Dtype::I32 {
            for (name, value) in [("alpha", self.alpha), ("beta", self.beta)] {
                if f64::from(value as i32) != value {
                    return Err(RuntimeError::Factor { name, value });
                }
            }
        }
        Ok(())
    }

    /// Whether A and B are not read: their product is empty, or multiplied by 0.
    pub(crate) fn reads_no_factors(&self, problem: &Problem) -> bool {
        problem.shape.k == 0 || factor(problem.types, self.alpha) == 0.0
    }

    /// Whether D is only C (true) or only zeros (false), where A and B are not read; `None` where it is neither.
    pub(crate) fn is_copy_of_c(&self, problem: &Problem) -> Option<bool> {
        let beta = factor(problem.types, self.beta);
        let is_plain = problem.epilogue.is_empty() && (beta == 0.0 || beta == 1.0);
        is_plain.then_some(beta == 1.0)
    }

    /// What has to be copied before the product: C to D, where it lies elsewhere and is read.
    ///
    /// # Errors
    /// [`RuntimeError::SeparateC`] for an address or rows that C cannot have.
    pub(crate) fn rows_of_c(&self, problem: &Problem) -> Result<Option<RowsToCopy>, RuntimeError> {
        let Some(SeparateC { address, ldc }) = self.c.filter(|_| self.beta != 0.0) else {
            return Ok(None);
        };
        let (n, bytes) = (problem.shape.n, problem.types.d.bytes());
        let Storage { ldc: ldd, .. } = self.storage();
        let overlaps = address == self.d && ldc != ldd;
        let is_possible = address != 0 && address % bytes == 0 && ldc >= n && !overlaps;
        match ldc.checked_mul(bytes).filter(|_| is_possible) {
            None => Err(RuntimeError::SeparateC { address, ldc, n }),
            Some(_) if address == self.d => Ok(None),
            Some(pitch) => Ok(Some(RowsToCopy {
                from: (address, pitch),
                // Extents are checked later.
                to: (self.d, ldd.saturating_mul(bytes)),
                width: n.saturating_mul(bytes),
                rows: problem.shape.m.saturating_mul(problem.batch),
            })),
        }
    }

    /// Their storage. Alignments above 256 bytes are equal for kernels.
    pub(crate) fn storage(&self) -> Storage {
        let lowest = (self.a | self.b | self.d).trailing_zeros();
        let alignment = 1 << lowest.min(Storage::ALLOCATED.trailing_zeros());
        Storage { lda: self.lda, ldb: self.ldb, ldc: self.ldd, alignment }
    }
}

/// Alpha or beta as kernels get it.
fn factor(types: GemmType, value: f64) -> f64 {
    match types.scalar() {
        Dtype::I32 => value,
        _ => f64::from(value as f32),
    }
}

/// Converts alpha or beta to a kernel argument.
pub(crate) fn scalar(types: GemmType, value: f64) -> KernelArgument {
    match types.scalar() {
        Dtype::I32 => KernelArgument::I32(value as i32),
        _ => KernelArgument::F32(value as f32),
    }
}
