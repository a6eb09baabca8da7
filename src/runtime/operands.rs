//! The operands of a matrix product in device memory.

use super::error::RuntimeError;
use crate::gpu::KernelArgument;
use crate::model::storage::StorageError;
use crate::model::{Dtype, GemmType, Problem, Storage};

/// Operands of a product C = alpha op(A) op(B) + beta C, row-major; those of a batch lie one after
/// the other. Addresses are device addresses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GemmOperands {
    /// Address of A.
    pub a: u64,
    /// Address of B.
    pub b: u64,
    /// Address of C.
    pub c: u64,
    /// Elements between rows of A as stored.
    pub lda: u64,
    /// Elements between rows of B as stored.
    pub ldb: u64,
    /// Elements between rows of C.
    pub ldc: u64,
    /// The factor of the product.
    pub alpha: f64,
    /// The factor of C; C is not read where it is 0.
    pub beta: f64,
}

impl GemmOperands {
    /// Packed operands, alpha 1 and beta 0.
    pub fn packed(problem: &Problem, a: u64, b: u64, c: u64) -> Self {
        let (lda, ldb, ldc) = (problem.lda(), problem.ldb(), problem.ldc());
        Self { a, b, c, lda, ldb, ldc, alpha: 1.0, beta: 0.0 }
    }

    /// Checks what no kernel can take: null addresses, and factors that are no numbers of their dtype.
    pub(super) fn check(&self, problem: &Problem) -> Result<(), RuntimeError> {
        for (operand, address) in [('A', self.a), ('B', self.b), ('C', self.c)] {
            if address == 0 {
                return Err(StorageError::Null { operand }.into());
            }
        }
        if problem.types.scalar() == Dtype::I32 {
            for (name, value) in [("alpha", self.alpha), ("beta", self.beta)] {
                if f64::from(value as i32) != value {
                    return Err(RuntimeError::Factor { name, value });
                }
            }
        }
        Ok(())
    }

    /// Their storage. Alignments above 256 bytes are equal for kernels.
    pub(super) fn storage(&self) -> Storage {
        let lowest = (self.a | self.b | self.c).trailing_zeros();
        let alignment = 1 << lowest.min(Storage::ALLOCATED.trailing_zeros());
        Storage { lda: self.lda, ldb: self.ldb, ldc: self.ldc, alignment }
    }
}

/// Converts alpha or beta to a kernel argument.
pub(super) fn scalar(types: GemmType, value: f64) -> KernelArgument {
    match types.scalar() {
        Dtype::I32 => KernelArgument::I32(value as i32),
        _ => KernelArgument::F32(value as f32),
    }
}
