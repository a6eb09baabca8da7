//! Types and epilogues in the C source: the constants of the header, and the tables by which it reads them.

use super::source::operand_operations;
use crate::model::{Compute, Dtype, Epilogue, EpilogueOp, GemmType, ProblemPattern};

/// Dtypes in the order of their constants in the header.
const DTYPES: [Dtype; 5] = [Dtype::F32, Dtype::F16, Dtype::Bf16, Dtype::I32, Dtype::I8];

/// Bits of an operation in the number of an epilogue: `OPERATION_BITS` in the C source.
const OPERATION_BITS: usize = 4;

/// A name as constants of the header have it: `f32-emulated` is `F32_EMULATED`.
fn upper(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}

/// The number of a dtype, which the header names.
fn dtype_number(dtype: Dtype) -> usize {
    DTYPES.iter().position(|known| *known == dtype).unwrap_or(0)
}

/// Types and layout of a pattern as a call of `TYPES`.
pub(super) fn types_constant(pattern: ProblemPattern) -> String {
    let ProblemPattern { types: GemmType { a, b, d, compute }, layout, .. } = pattern;
    let [a, b, d] = [a, b, d].map(|dtype| format!("GEMM_TUNED_{}", upper(dtype.name())));
    let compute = upper(compute.name());
    let (of_a, of_b) = (i32::from(layout.a_transposed()), i32::from(layout.b_transposed()));
    format!("TYPES({a}, {b}, {d}, GEMM_TUNED_COMPUTE_{compute}, {of_a}, {of_b})")
}

/// The number of an epilogue: its operations, each by its place from 1, the first in the lowest bits.
pub(super) fn epilogue_number(epilogue: Epilogue) -> u64 {
    let place =
        |operation: EpilogueOp| EpilogueOp::ALL.iter().position(|known| *known == operation);
    let numbers = epilogue.operations().filter_map(place).enumerate();
    numbers.fold(0, |all, (at, place)| all | (place as u64 + 1) << (OPERATION_BITS * at))
}

/// Rows of the table of operations.
pub(super) fn operation_table() -> String {
    let row = |operation: &EpilogueOp| {
        let operand = operand_operations().position(|own| own == *operation);
        let operand = operand.map_or(-1, |place| place as i64);
        let flags = [operation.is_scale(), operation.is_of_integers(), operation.is_scale()];
        let [of_f32, of_integers, is_scale] = flags.map(i32::from);
        format!("    {{ \"{operation}\", {operand}, {of_f32}, {of_integers}, {is_scale} }},\n")
    };
    EpilogueOp::ALL.iter().map(row).collect()
}

/// Rows of the table of dtypes.
pub(super) fn dtype_table() -> String {
    let row = |dtype: &Dtype| {
        let (bytes, is_integer) = (dtype.bytes(), i32::from(dtype.is_integer()));
        let (out, compute) = (dtype_number(dtype.default_out()), dtype.default_compute() as usize);
        format!("    {{ {bytes}, {is_integer}, {out}, {compute} }}, /* {dtype} */\n")
    };
    DTYPES.iter().map(row).collect()
}

/// Rows of the table of compute types.
pub(super) fn compute_table() -> String {
    let bits = |dtypes: &[Dtype]| dtypes.iter().fold(0, |all, one| all | 1 << dtype_number(*one));
    let row = |compute: &Compute| {
        let (operands, outputs) = (bits(compute.operands()), bits(compute.outputs()));
        let sums_integers = i32::from(compute.accumulator().is_integer());
        format!("    {{ {operands}, {outputs}, {sums_integers} }}, /* {compute} */\n")
    };
    Compute::ALL.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_of_the_header_have_the_numbers_of_the_tables() {
        let header = include_str!("artifact/gemm_tuned.h");
        for (number, dtype) in DTYPES.iter().enumerate() {
            assert!(header.contains(&format!("GEMM_TUNED_{} = {number}", upper(dtype.name()))));
        }
        for (number, compute) in Compute::ALL.iter().enumerate() {
            let constant = format!("GEMM_TUNED_COMPUTE_{} = {number}", upper(compute.name()));
            assert!(header.contains(&constant), "{constant}");
        }
        assert_eq!(DTYPES.len(), Dtype::ALL.len());
        assert!(EpilogueOp::ALL.len() < 1 << OPERATION_BITS);
        assert!(EpilogueOp::ALL.len() * OPERATION_BITS < 60);
    }
}
