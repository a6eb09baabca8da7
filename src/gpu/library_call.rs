//! Which call of cuBLAS and cuBLASLt computes a problem: its dtypes, its compute type and a fused epilogue. Pure.

use serde::{Deserialize, Serialize};

use super::error::GpuError;
use crate::model::{Compute, Dtype, Epilogue, EpilogueOp, Problem};

/// Device addresses of a library's operands, packed, multiples of 256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryOperands {
    /// Address of A.
    pub a: u64,
    /// Address of B.
    pub b: u64,
    /// Address of C.
    pub c: u64,
    /// Address of the epilogue's bias; 0 without one.
    pub bias: u64,
}

/// What is computed in which precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LibraryPrecision {
    /// Fused multiply-adds of binary32.
    StrictF32,
    /// Operands rounded to tf32, sums in binary32.
    Tf32,
    /// Sums in binary32 of products of 16-bit operands.
    F32,
    /// Sums in 32-bit integers; so are alpha and beta.
    I32,
}

/// An epilogue that cuBLASLt fuses: a bias for each column, then an activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FusedEpilogue {
    pub(super) bias: bool,
    pub(super) activation: Option<FusedActivation>,
}

/// An activation that cuBLASLt fuses. Its GELU is the approximation by a hyperbolic tangent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FusedActivation {
    Relu,
    GeluTanh,
}

/// The call for a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LibraryCall {
    /// Dtype of A and B.
    pub(super) ab: Dtype,
    /// Dtype of C, D and the bias.
    pub(super) d: Dtype,
    pub(super) precision: LibraryPrecision,
    /// Only cuBLASLt has one that does anything.
    pub(super) epilogue: FusedEpilogue,
}

impl LibraryCall {
    /// The call that computes `problem`.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`]: no routine multiplies these dtypes, or none applies the epilogue.
    pub(super) fn of(problem: &Problem) -> Result<Self, GpuError> {
        let refused = |what: String| GpuError::Unsupported { library: "cuBLAS", what };
        let types = problem.types;
        let precision = match (types.a, types.compute, types.d) {
            (Dtype::F32, Compute::F32, Dtype::F32) => LibraryPrecision::StrictF32,
            (Dtype::F32, Compute::Tf32, Dtype::F32) => LibraryPrecision::Tf32,
            (Dtype::F16, Compute::F16, Dtype::F16 | Dtype::F32)
            | (Dtype::Bf16, Compute::Bf16, Dtype::Bf16 | Dtype::F32) => LibraryPrecision::F32,
            (Dtype::I8, Compute::I8, Dtype::I32) => LibraryPrecision::I32,
            _ => return Err(refused(format!("no routine computes `{types}`"))),
        };
        if types.a != types.b {
            return Err(refused(format!("no routine computes `{types}`")));
        }
        let epilogue = FusedEpilogue::of(problem.epilogue)
            .filter(|epilogue| epilogue.is_none() || precision != LibraryPrecision::I32)
            .ok_or_else(|| {
                refused(format!("no routine applies `{}` to `{types}`", problem.epilogue))
            })?;
        Ok(Self { ab: types.a, d: types.d, precision, epilogue })
    }

    /// Whether cuBLAS has a routine too, which fuses nothing.
    pub(super) fn is_plain(&self) -> bool {
        self.epilogue.is_none()
    }

    /// Whether parts of a sum may be added in the dtype of D: not in one of 16 bits, which would round them more
    /// than once.
    pub(super) fn reduces_in_d(&self) -> bool {
        self.d.bytes() >= 4
    }
}

impl FusedEpilogue {
    /// The fused form of an epilogue; `None` where cuBLASLt has none.
    fn of(epilogue: Epilogue) -> Option<Self> {
        let mut fused = Self::default();
        for operation in epilogue.operations() {
            match operation {
                EpilogueOp::Bias if fused == Self::default() => fused.bias = true,
                EpilogueOp::Relu if fused.activation.is_none() => {
                    fused.activation = Some(FusedActivation::Relu);
                }
                EpilogueOp::GeluTanh if fused.activation.is_none() => {
                    fused.activation = Some(FusedActivation::GeluTanh);
                }
                _ => return None,
            }
        }
        Some(fused)
    }

    fn is_none(self) -> bool {
        self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::GemmType;

    fn problem(types: GemmType, epilogue: &str) -> Problem {
        let shape = "4x5x6".parse().unwrap();
        Problem { types, epilogue: epilogue.parse().unwrap(), ..Problem::new(shape, Dtype::F32) }
    }

    #[test]
    fn a_call_has_the_precision_that_the_gemm_type_promises() {
        let precision = |types| LibraryCall::of(&problem(types, "")).map(|call| call.precision);
        let f32 = GemmType::of(Dtype::F32);
        let f16 = GemmType::of(Dtype::F16);
        assert_eq!(precision(f32).unwrap(), LibraryPrecision::StrictF32);
        assert_eq!(
            precision(GemmType { compute: Compute::Tf32, ..f32 }).unwrap(),
            LibraryPrecision::Tf32
        );
        assert_eq!(precision(GemmType { d: Dtype::F32, ..f16 }).unwrap(), LibraryPrecision::F32);
        assert_eq!(precision(GemmType::of(Dtype::I8)).unwrap(), LibraryPrecision::I32);
        for types in [
            GemmType::of(Dtype::I32),
            GemmType { compute: Compute::F32Emulated, ..f32 },
            GemmType { d: Dtype::Bf16, ..f16 },
            GemmType { compute: Compute::F32, ..f16 },
        ] {
            let error = precision(types).unwrap_err().to_string();
            assert!(error.contains("no routine computes"), "{error}");
        }
    }

    #[test]
    fn a_bias_before_an_activation_is_fused_and_nothing_else() {
        let bf16 = GemmType::of(Dtype::Bf16);
        let fused = |text: &str| LibraryCall::of(&problem(bf16, text)).map(|call| call.epilogue);
        let (relu, gelu) = (Some(FusedActivation::Relu), Some(FusedActivation::GeluTanh));
        for (text, bias, activation) in [
            ("", false, None),
            ("bias", true, None),
            ("relu", false, relu),
            ("bias,relu", true, relu),
            ("bias,gelu-tanh", true, gelu),
        ] {
            assert_eq!(fused(text).unwrap(), FusedEpilogue { bias, activation }, "{text}");
        }
        for text in ["gelu", "relu,bias", "relu,gelu-tanh", "silu", "bias,residual", "col-scale"] {
            let error = fused(text).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
        let integers = problem(GemmType::of(Dtype::I8), "bias");
        assert!(LibraryCall::of(&integers).is_err());
    }
}
