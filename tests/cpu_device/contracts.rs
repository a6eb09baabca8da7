//! Validation against what each compute type promises: kernels with a fault of precision, or of their epilogue, are
//! refused, and the same kernels without it pass.

use super::harness::{compile, rendered};
use crate::support::cases::cases;
use gemm_tune::cpu::{CountingMode, PtxModule};
use gemm_tune::model::{
    Compute, Device, Dtype, Epilogue, GemmType, Layout, Problem, ProblemPattern,
};
use gemm_tune::validate::{HostFailure, HostValidator};

/// A kernel that breaks the promise of its compute type.
struct Fault {
    name: &'static str,
    types: GemmType,
    epilogue: &'static str,
    /// What is replaced wherever it stands, and by what.
    change: (&'static str, &'static str),
}

const F32: GemmType = GemmType::of(Dtype::F32);
const TF32: GemmType = GemmType { compute: Compute::Tf32, ..F32 };
const F16: GemmType = GemmType::of(Dtype::F16);
const BF16: GemmType = GemmType::of(Dtype::Bf16);
const BF16_TO_F32: GemmType = GemmType { d: Dtype::F32, ..BF16 };
const I8: GemmType = GemmType::of(Dtype::I8);

/// Where the sums of an instruction are, and the end of a fragment of A.
const MULTIPLIED: &str = "multiply(sums[i][j], of_a, of_b[j]);";
const FRAGMENT: &str = "    return fragment;\n}\n\n// Reads the fragment of 8 columns";

/// Sums that keep the bits of f16, rounded to nearest after every instruction.
const SUMS_OF_F16: &str = "{ multiply(sums[i][j], of_a, of_b[j]); for (float& sum : sums[i][j].values) \
                           sum = __uint_as_float((__float_as_uint(sum) + 0x1000) & 0xffffe000); }";

const FAULTS: &[Fault] = &[
    Fault {
        name: "operands of a strict f32 product become tf32",
        types: F32,
        epilogue: "",
        change: (
            "a_at(a, row, k, lda) *",
            "__uint_as_float((__float_as_uint(a_at(a, row, k, lda)) + 0x1000) & 0xffffe000) *",
        ),
    },
    Fault {
        name: "sums of a strict f32 product are kept in 16 bits",
        types: F32,
        epilogue: "",
        change: (
            "sum += a_at(a, row, k, lda) * b_at(b, k, column, ldb);",
            "{ sum += a_at(a, row, k, lda) * b_at(b, k, column, ldb); \
             sum = __uint_as_float((__float_as_uint(sum) + 0x1000) & 0xffffe000); }",
        ),
    },
    Fault {
        name: "values of another row are multiplied by zero",
        types: F32,
        epilogue: "",
        change: (
            "a_at(a, row, k, lda) * b_at(b, k, column, ldb)",
            "a_at(a, row, k, lda) * b_at(b, k, column, ldb) + 0 * a_at(a, (row + 1) % M, k, lda)",
        ),
    },
    Fault {
        name: "operands of a tf32 product are rounded to bf16 first",
        types: TF32,
        epilogue: "",
        change: (
            "\"f\"(__uint_as_float(registers[i]))",
            "\"f\"(__uint_as_float((registers[i] + 0x8000) & 0xffff0000))",
        ),
    },
    Fault {
        name: "sums of a tf32 product are kept in 16 bits",
        types: TF32,
        epilogue: "",
        change: (MULTIPLIED, SUMS_OF_F16),
    },
    Fault {
        name: "operands of f16 lose the bits that bf16 has not",
        types: F16,
        epilogue: "",
        change: (
            FRAGMENT,
            "    for (unsigned& pair : fragment.registers) pair &= 0xfff8fff8u;\n    return fragment;\n}\n\n//",
        ),
    },
    Fault {
        name: "sums of f16 are kept in 16 bits",
        types: F16,
        epilogue: "",
        change: (MULTIPLIED, SUMS_OF_F16),
    },
    Fault {
        name: "operands of bf16 lose a bit",
        types: BF16,
        epilogue: "",
        change: (
            FRAGMENT,
            "    for (unsigned& pair : fragment.registers) pair &= 0xfffefffeu;\n    return fragment;\n}\n\n//",
        ),
    },
    Fault {
        name: "sums of bf16 are kept in 16 bits, and C too",
        types: BF16,
        epilogue: "",
        change: (MULTIPLIED, SUMS_OF_F16),
    },
    Fault {
        name: "sums of bf16 are kept in 16 bits, before an activation",
        types: BF16,
        epilogue: "bias,relu",
        change: (MULTIPLIED, SUMS_OF_F16),
    },
    Fault {
        name: "sums of bf16 are kept in 16 bits, and C is f32",
        types: BF16_TO_F32,
        epilogue: "",
        change: (MULTIPLIED, SUMS_OF_F16),
    },
    Fault {
        name: "sums of i8 wrap at 16 bits",
        types: I8,
        epilogue: "",
        change: (
            MULTIPLIED,
            "{ multiply(sums[i][j], of_a, of_b[j]); for (int& sum : sums[i][j].values) sum = (short)sum; }",
        ),
    },
    Fault {
        name: "a step along K is skipped",
        types: BF16,
        epilogue: "",
        change: (
            "multiply_tiles(sums, stage_of(tile),",
            "if (tile != 1) multiply_tiles(sums, stage_of(tile),",
        ),
    },
    Fault {
        name: "two rows of a tile in shared memory are exchanged",
        types: F16,
        epilogue: "",
        change: ("row + lane % 16", "row + (lane ^ 1) % 16"),
    },
    Fault {
        name: "the order of an epilogue is swapped",
        types: BF16,
        epilogue: "bias,relu",
        change: (
            "value += to_value(bias[(long long)product * N + column]);\n        value = value < 0 ? 0 : value;",
            "value = value < 0 ? 0 : value;\n        value += to_value(bias[(long long)product * N + column]);",
        ),
    },
    Fault {
        name: "scales come after the bias instead of before",
        types: GemmType { d: Dtype::F32, ..I8 },
        epilogue: "row-scale,bias",
        change: (
            "value *= row_scale[(long long)product * M + row];\n        value += to_value(bias[(long long)product * N + column]);",
            "value += to_value(bias[(long long)product * N + column]);\n        value *= row_scale[(long long)product * M + row];",
        ),
    },
    Fault {
        name: "the bias is that of the neighbouring column",
        types: BF16,
        epilogue: "bias,gelu",
        change: ("product * N + column]", "product * N + (column ^ 1)]"),
    },
    Fault {
        name: "the gate is that of the neighbouring row",
        types: BF16,
        epilogue: "bias,silu,mul",
        change: (
            "to_value(mul[at(product, row, column)])",
            "to_value(mul[at(product, row, column) ^ N])",
        ),
    },
    Fault {
        name: "gelu is approximated by a hyperbolic tangent",
        types: BF16_TO_F32,
        epilogue: "gelu",
        change: (
            "value = gelu(value);",
            "value = 0.5f * value * (1 + tanhf(0.79788456f * (value + 0.044715f * value * value * value)));",
        ),
    },
    Fault {
        name: "a value is rounded to bf16 before the residual is added",
        types: BF16,
        epilogue: "residual",
        change: ("float value = alpha * sum;", "float value = to_value(to_element(alpha * sum));"),
    },
    Fault {
        name: "beta C is added after the epilogue",
        types: BF16,
        epilogue: "relu",
        change: (
            "return finished(value, product, row, column);",
            "value = finished(alpha * sum, product, row, column); \
             return adds_c ? value + beta * to_value(C[at(product, row, column)]) : value;",
        ),
    },
];

/// The second is for long sums, of which errors are a smaller part. N is a power of two, so that faults of a neighbour
/// stay inside of the operands.
const SHAPES: [&str; 2] = ["32x32x256", "34x32x4096"];

/// A family, and the values that a fault needs: a sum over the whole of K.
fn kernel(types: GemmType) -> (&'static str, &'static [(&'static str, i64)]) {
    if types == F32 { ("naive", &[]) } else { ("mma", &[("SPLIT_K", 1)]) }
}

/// What validation says of a kernel after a change: the share of the bound that it needs, or why it is wrong. `None`
/// without a compiler.
pub(super) fn verdict(
    (family, values): (&str, &[(&str, i64)]),
    problem: &Problem,
    change: (&str, &str),
) -> Option<Result<f64, HostFailure>> {
    let rendered = rendered(family, problem, values);
    let (from, to) = change;
    assert!(rendered.source.contains(from), "`{from}` is not in\n{}", rendered.source);
    let program = PtxModule::parse(&compile(&rendered.source.replace(from, to), &[])?).unwrap();
    let validator = HostValidator::prepare(problem, &Device::h200(), 3).unwrap();
    let executed = validator.validate(&program, &rendered.plan, CountingMode::Off);
    Some(executed.map(|executed| executed.validation.max_error / executed.validation.bound))
}

#[test]
fn faults_of_precision_and_of_epilogues_are_refused_and_their_absence_passes() {
    let mut unnoticed = Vec::new();
    for fault in FAULTS {
        let epilogue: Epilogue = fault.epilogue.parse().unwrap();
        let pattern = ProblemPattern { types: fault.types, layout: Layout::Nt, epilogue };
        for shape in &SHAPES[..cases(1, SHAPES.len())] {
            let problem = pattern.problem(shape.parse().unwrap());
            let kernel = kernel(fault.types);
            let unchanged = (fault.change.0, fault.change.0);
            let Some(right) = verdict(kernel, &problem, unchanged) else { return };
            let share = right.unwrap_or_else(|wrong| panic!("{problem} is right: {wrong}"));
            match verdict(kernel, &problem, fault.change) {
                Some(Err(HostFailure::Wrong(wrong))) => println!(
                    "{}, {shape}: {} wrong, {:.1} of the bound; right {share:.3}",
                    fault.name,
                    wrong.wrong,
                    wrong.error / wrong.bound
                ),
                _ => unnoticed.push(format!("{}, {shape}", fault.name)),
            }
        }
    }
    assert!(unnoticed.is_empty(), "unnoticed:\n{}", unnoticed.join("\n"));
}
