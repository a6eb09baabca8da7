//! The call of cuBLASLt for a problem as numbers of its public interface, for programs that load the library
//! themselves.

use cudarc::cublaslt::sys;

use super::cublas::Cublas;
use super::error::GpuError;
use super::library_call::{LibraryCall, LibraryPrecision};
use super::lt_descriptors::{data_type, epilogue};
use crate::model::Problem;

/// Numbers of a call: `cudaDataType_t`, `cublasComputeType_t` and `cublasLtEpilogue_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LibraryNumbers {
    /// Dtype of A and B.
    pub ab: u32,
    /// Dtype of C, D and the bias.
    pub d: u32,
    /// Dtype of alpha and beta.
    pub scale: u32,
    /// Compute type. Strict binary32 is `CUBLAS_COMPUTE_32F`, which rounds no operand.
    pub compute: u32,
    /// Epilogue.
    pub epilogue: u32,
    /// Whether parts of a sum may be added in the dtype of D.
    pub reduces_in_d: bool,
}

impl Cublas {
    /// The numbers of the call that computes a problem.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`]: no routine multiplies these dtypes, or none applies the epilogue.
    pub fn numbers(problem: &Problem) -> Result<LibraryNumbers, GpuError> {
        use sys::cublasComputeType_t as Compute;

        let call = LibraryCall::of(problem)?;
        let scale = match call.precision {
            LibraryPrecision::I32 => sys::cudaDataType::CUDA_R_32I,
            _ => sys::cudaDataType::CUDA_R_32F,
        };
        let compute = match call.precision {
            LibraryPrecision::StrictF32 | LibraryPrecision::F32 => Compute::CUBLAS_COMPUTE_32F,
            LibraryPrecision::Tf32 => Compute::CUBLAS_COMPUTE_32F_FAST_TF32,
            LibraryPrecision::I32 => Compute::CUBLAS_COMPUTE_32I,
        };
        Ok(LibraryNumbers {
            ab: data_type(call.ab) as u32,
            d: data_type(call.d) as u32,
            scale: scale as u32,
            compute: compute as u32,
            epilogue: epilogue(call.epilogue) as u32,
            reduces_in_d: call.reduces_in_d(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, GemmType};

    #[test]
    fn strict_f32_rounds_no_operand_and_epilogues_are_those_of_the_library() {
        let plain = Problem::new("4x5x6".parse().unwrap(), Dtype::F32);
        let numbers = Cublas::numbers(&plain).unwrap();
        let strict =
            LibraryNumbers { ab: 0, d: 0, scale: 0, compute: 68, epilogue: 1, reduces_in_d: true };
        assert_eq!(numbers, strict);
        let types = GemmType::of(Dtype::Bf16);
        let fused = Problem { types, epilogue: "bias,relu".parse().unwrap(), ..plain };
        let bf16 = Cublas::numbers(&fused).unwrap();
        assert_eq!((bf16.ab, bf16.epilogue, bf16.reduces_in_d), (14, 6, false));
        let other = Problem { epilogue: "gelu".parse().unwrap(), ..fused };
        assert!(Cublas::numbers(&other).is_err());
    }
}
