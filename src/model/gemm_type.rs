//! GEMM types: how A, B and D are stored, and what is multiplied and summed.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::word::named_enum;

named_enum! {
    /// Storage type of an element.
    Dtype, "dtype", {
        /// IEEE binary32.
        F32 = "f32",
        /// 32-bit signed integer, arithmetic modulo 2^32.
        I32 = "i32",
        /// IEEE binary16.
        F16 = "f16",
        /// bfloat16.
        Bf16 = "bf16",
        /// 8-bit signed integer.
        I8 = "i8",
    }
}

named_enum! {
    /// Arithmetic contract, named by what is multiplied.
    Compute, "compute type", {
        /// Strict IEEE binary32 fused multiply-adds.
        F32 = "f32",
        /// Products of operands rounded to tf32, summed in binary32 by tensor cores.
        Tf32 = "tf32",
        /// Tensor cores at binary32-level accuracy.
        F32Emulated = "f32-emulated",
        /// Products of binary16 operands, summed in binary32 by tensor cores.
        F16 = "f16",
        /// Products of bfloat16 operands, summed in binary32 by tensor cores.
        Bf16 = "bf16",
        /// 32-bit integers.
        I32 = "i32",
        /// Products of 8-bit integers, summed in 32-bit integers.
        I8 = "i8",
    }
}

impl Dtype {
    /// Size of an element in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::I8 => 1,
        }
    }

    /// Whether elements are integers.
    pub fn is_integer(self) -> bool {
        matches!(self, Self::I32 | Self::I8)
    }

    /// Compute type of products of operands of this dtype, unless a user names another.
    pub const fn default_compute(self) -> Compute {
        match self {
            Self::F32 => Compute::F32,
            Self::I32 => Compute::I32,
            Self::F16 => Compute::F16,
            Self::Bf16 => Compute::Bf16,
            Self::I8 => Compute::I8,
        }
    }

    /// Dtype of D where A has this dtype, unless a user names another.
    pub const fn default_out(self) -> Self {
        match self {
            Self::I8 => Self::I32,
            Self::F32 | Self::I32 | Self::F16 | Self::Bf16 => self,
        }
    }
}

impl Compute {
    /// Dtypes of A and B that it multiplies.
    pub fn operands(self) -> &'static [Dtype] {
        match self {
            Self::F32 => &[Dtype::F32, Dtype::F16, Dtype::Bf16],
            Self::Tf32 | Self::F32Emulated => &[Dtype::F32],
            Self::F16 => &[Dtype::F16],
            Self::Bf16 => &[Dtype::Bf16],
            Self::I32 => &[Dtype::I32],
            Self::I8 => &[Dtype::I8],
        }
    }

    /// Dtypes that D may have. Sums of 8-bit integers become floating-point numbers with a scale in the epilogue.
    pub fn outputs(self) -> &'static [Dtype] {
        match self {
            Self::I32 => &[Dtype::I32],
            Self::I8 => &[Dtype::I32, Dtype::F32, Dtype::F16, Dtype::Bf16],
            _ => &[Dtype::F32, Dtype::F16, Dtype::Bf16],
        }
    }

    /// Dtype that products are summed in.
    pub fn accumulator(self) -> Dtype {
        match self {
            Self::I32 | Self::I8 => Dtype::I32,
            Self::F32 | Self::Tf32 | Self::F32Emulated | Self::F16 | Self::Bf16 => Dtype::F32,
        }
    }
}

/// The dtypes of a product's operands, and its arithmetic contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "StoredGemmType", try_from = "StoredGemmType")]
pub struct GemmType {
    /// Dtype of A.
    pub a: Dtype,
    /// Dtype of B.
    pub b: Dtype,
    /// Dtype of C and D.
    pub d: Dtype,
    /// Arithmetic contract.
    pub compute: Compute,
}

/// Error: dtypes that a compute type does not combine.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("compute type {compute} takes {operand} in {}, not {given}", words(.known))]
pub struct GemmTypeError {
    compute: Compute,
    /// `A`, `B` or `D`.
    operand: char,
    given: Dtype,
    known: &'static [Dtype],
}

fn words(known: &[Dtype]) -> String {
    known.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(" or ")
}

impl GemmType {
    /// A and B in `dtype`, with its default arithmetic and output.
    pub const fn of(dtype: Dtype) -> Self {
        Self { a: dtype, b: dtype, d: dtype.default_out(), compute: dtype.default_compute() }
    }

    /// Whether kernels of both take much the same time: operands of as many bytes, multiplied by the same instructions
    /// at the same rate. Tensor cores multiply f16 as fast as bf16. Outputs may differ.
    pub fn multiplies_like(&self, other: &Self) -> bool {
        let is_16_bit = |types: &Self| matches!(types.compute, Compute::F16 | Compute::Bf16);
        self.a.bytes() == other.a.bytes()
            && self.b.bytes() == other.b.bytes()
            && (self.compute == other.compute || (is_16_bit(self) && is_16_bit(other)))
    }

    /// All types that [`GemmType::check`] accepts.
    pub fn all() -> impl Iterator<Item = Self> {
        Compute::ALL.iter().flat_map(|&compute| {
            compute.operands().iter().flat_map(move |&a| {
                compute.operands().iter().flat_map(move |&b| {
                    compute.outputs().iter().map(move |&d| Self { a, b, d, compute })
                })
            })
        })
    }

    /// Checks that the compute type combines these dtypes.
    ///
    /// # Errors
    /// [`GemmTypeError`] with the dtypes that it takes.
    pub fn check(self) -> Result<Self, GemmTypeError> {
        let Self { a, b, d, compute } = self;
        for (operand, given, known) in [
            ('A', a, compute.operands()),
            ('B', b, compute.operands()),
            ('D', d, compute.outputs()),
        ] {
            if !known.contains(&given) {
                return Err(GemmTypeError { compute, operand, given, known });
            }
        }
        Ok(self)
    }

    /// Dtype that products are summed in.
    pub fn accumulator(self) -> Dtype {
        self.compute.accumulator()
    }

    /// Dtype of alpha and beta: i32 where D is an integer, else f32 whatever the elements are, as in cuBLAS.
    pub fn scalar(self) -> Dtype {
        if self.d.is_integer() { Dtype::I32 } else { Dtype::F32 }
    }

    /// The one dtype of all operands; `None` where they differ.
    pub fn uniform(self) -> Option<Dtype> {
        (self.a == self.b && self.b == self.d).then_some(self.a)
    }

    /// Bytes of the largest element of an operand.
    pub fn widest_bytes(self) -> u64 {
        self.a.bytes().max(self.b.bytes()).max(self.d.bytes())
    }

    /// As part of an identifier: `f32`, `bf16_out_f32`, `f32_tf32`.
    pub fn identifier(self) -> String {
        self.words("_").replace('-', "_")
    }

    /// What differs from [`GemmType::of`] stands behind the dtype of A.
    fn words(self, space: &str) -> String {
        let Self { a, b, d, compute } = self;
        let mut text = a.to_string();
        if b != a {
            text.push_str(&format!("{space}{b}"));
        }
        if d != a.default_out() {
            text.push_str(&format!("{space}out{space}{d}"));
        }
        if compute != a.default_compute() {
            text.push_str(&format!("{space}{compute}"));
        }
        text
    }
}

impl fmt::Display for GemmType {
    /// Writes `f32`, `bf16 out f32`, `f32 tf32`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.words(" "))
    }
}

/// A type as files have it: dtypes that follow from that of A are absent.
#[derive(Serialize, Deserialize)]
struct StoredGemmType {
    dtype: Dtype,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    b_dtype: Option<Dtype>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    out: Option<Dtype>,
    compute: Compute,
}

impl From<GemmType> for StoredGemmType {
    fn from(types: GemmType) -> Self {
        let GemmType { a, b, d, compute } = types;
        let different = |dtype, usual| (dtype != usual).then_some(dtype);
        Self { dtype: a, b_dtype: different(b, a), out: different(d, a.default_out()), compute }
    }
}

impl TryFrom<StoredGemmType> for GemmType {
    type Error = GemmTypeError;

    fn try_from(stored: StoredGemmType) -> Result<Self, GemmTypeError> {
        let StoredGemmType { dtype: a, b_dtype, out, compute } = stored;
        let b = b_dtype.unwrap_or(a);
        Self { a, b, d: out.unwrap_or(a.default_out()), compute }.check()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_type_has_its_own_text_and_identifier_and_reads_as_it_is_written() {
        let all: Vec<GemmType> = GemmType::all().collect();
        for names in [GemmType::identifier, |types: GemmType| types.to_string()] {
            let names: BTreeSet<String> = all.iter().map(|types| names(*types)).collect();
            assert_eq!(names.len(), all.len());
        }
        for types in all {
            let text = serde_json::to_string(&types).unwrap();
            assert_eq!(serde_json::from_str::<GemmType>(&text).unwrap(), types, "{text}");
        }
    }

    #[test]
    fn types_of_16_bits_multiply_alike_whatever_their_output() {
        let bf16 = GemmType::of(Dtype::Bf16);
        for (other, is_alike) in [
            (GemmType::of(Dtype::F16), true),
            (GemmType { d: Dtype::F32, ..GemmType::of(Dtype::F16) }, true),
            // The same operands, multiplied in f32 outside of tensor cores.
            (GemmType { compute: Compute::F32, ..bf16 }, false),
            (GemmType::of(Dtype::F32), false),
            (GemmType::of(Dtype::I8), false),
        ] {
            assert_eq!(bf16.multiplies_like(&other), is_alike, "{other}");
            assert_eq!(other.multiplies_like(&bf16), is_alike, "{other}");
        }
        let f32 = GemmType::of(Dtype::F32);
        assert!(!f32.multiplies_like(&GemmType { compute: Compute::Tf32, ..f32 }));
    }

    #[test]
    fn a_type_whose_dtypes_follow_from_that_of_a_is_written_without_them() {
        for (types, text, words) in [
            (GemmType::of(Dtype::F32), r#"{"dtype":"f32","compute":"f32"}"#, "f32"),
            (GemmType::of(Dtype::I8), r#"{"dtype":"i8","compute":"i8"}"#, "i8"),
            (
                GemmType { d: Dtype::F32, ..GemmType::of(Dtype::Bf16) },
                r#"{"dtype":"bf16","out":"f32","compute":"bf16"}"#,
                "bf16 out f32",
            ),
            (
                GemmType { compute: Compute::F32Emulated, ..GemmType::of(Dtype::F32) },
                r#"{"dtype":"f32","compute":"f32-emulated"}"#,
                "f32 f32-emulated",
            ),
        ] {
            assert_eq!(serde_json::to_string(&types).unwrap(), text);
            assert_eq!(types.to_string(), words);
        }
    }

    #[test]
    fn a_compute_type_refuses_dtypes_that_it_does_not_multiply() {
        let f32 = GemmType::of(Dtype::F32);
        for (types, message) in [
            (
                GemmType { compute: Compute::Bf16, ..f32 },
                "compute type bf16 takes A in bf16, not f32",
            ),
            (
                GemmType { b: Dtype::I8, ..f32 },
                "compute type f32 takes B in f32 or f16 or bf16, not i8",
            ),
            (
                GemmType { d: Dtype::I8, ..GemmType::of(Dtype::I8) },
                "compute type i8 takes D in i32 or f32 or f16 or bf16, not i8",
            ),
        ] {
            assert_eq!(types.check().unwrap_err().to_string(), message);
        }
    }
}
