//! Harness: an emitted kernel with a program that checks its result against a reference and times it. `harness.cu` has
//! the text; here are the parts of it that depend on the problem and the launch plan. Pure.

use std::fmt::Write as _;

use super::header::{header, running};
use super::inspected::InspectedKernel;
use crate::arithmetic::{error_bound, slope};
use crate::export::fill;
use crate::model::tensor_map::MAX_RANK;
use crate::model::{
    Argument, CopyRounding, Dtype, EpilogueOp, GemmType, KernelLaunch, LaunchPlan, PlacedMap,
    Problem, Shape, Swizzle, TensorMap,
};

/// The program, below the kernel.
const PROGRAM: &str = include_str!("harness.cu");

/// What encodes tensor maps; for kernels with any.
const ENCODER: &str = include_str!("harness_maps.cu");

/// Headers of a program with tensor maps.
const HEADER_OF_MAPS: &str = "#include <cuda.h>\n#include <cuda_runtime.h>";

/// The source of a kernel with a program that checks and times it, for nvcc. NVRTC takes it too, and sees the kernel
/// alone.
pub fn harness(subject: &InspectedKernel) -> String {
    let InspectedKernel { problem, rendered, .. } = subject;
    let plan = &rendered.plan;
    let program = match plan.tensor_maps[..] {
        [] => PROGRAM.to_owned(),
        _ => PROGRAM.replacen("#include <cuda_runtime.h>", HEADER_OF_MAPS, 1),
    };
    let program = fill(
        &program,
        &[
            ("@VERSION@", env!("CARGO_PKG_VERSION")),
            ("@PROBLEM@", &problem.to_string()),
            ("@CONSTANTS@", &constants(problem)),
            ("@ARGUMENTS@", &arguments(plan, problem)),
            (
                "@LAUNCHES@",
                &plan.kernels.iter().map(|kernel| launch(kernel, plan)).collect::<String>(),
            ),
            ("@OPERATIONS@", &problem.epilogue.operations().map(epilogue).collect::<String>()),
            ("@ENCODER@", if plan.tensor_maps.is_empty() { "" } else { ENCODER }),
            ("@PREPARED@", &prepared(plan, problem)),
            ("@RATE@", if problem.types.accumulator().is_integer() { "TOP/s" } else { "TFLOP/s" }),
        ],
    );
    let kernel = rendered.source.trim_end();
    format!("{}{kernel}\n{program}", header(subject, &running(subject)))
}

/// Extents, types, factors and the allowed error.
fn constants(problem: &Problem) -> String {
    let Shape { m, n, k } = problem.shape;
    let GemmType { a, b, d, .. } = problem.types;
    let [lda, ldb, ldc] = [problem.lda(), problem.ldb(), problem.ldc()];
    let [of_a, of_b, of_c] = [problem.a_elements(), problem.b_elements(), problem.c_elements()];
    let (layout, batch) = (problem.layout, problem.batch);
    let is_whole = d.is_integer();
    // Neither 0 nor 1, and different, so that no factor is left out unseen.
    let (scalar, alpha, beta) =
        if is_whole { ("int", "3", "-2") } else { ("float", "0.75f", "-0.5f") };
    let exact = |integers: bool| if integers { "long long" } else { "double" };
    let sum = exact(problem.types.accumulator().is_integer());
    let (number, bound) = (exact(is_whole), error_bound(problem));
    let rounding = if d.bytes() < 4 { ", without its rounding to 16 bits" } else { "" };
    let allowed = if is_whole {
        "// Integers are exact.".to_owned()
    } else {
        format!(
            "// Largest allowed |C - reference| / (|alpha| |op(A)| |op(B)| + |beta| |C before|) of an element{rounding}:
// the bound of gemm-tune's validation for values that are uniform in [-1, 1). Operations of the epilogue change what
// it is relative to as they change the value."
        )
    };
    format!(
        "constexpr int M = {m}, N = {n}, K = {k}, batch = {batch};
constexpr bool A_TRANSPOSED = {}, B_TRANSPOSED = {};  // whether A is stored K x M, B is stored N x K
constexpr int lda = {lda}, ldb = {ldb}, ldc = {ldc};  // elements between rows as stored
constexpr long long stride_a = {of_a}, stride_b = {of_b}, stride_c = {of_c};  // elements between products
constexpr u64 ELEMENTS_A = {}, ELEMENTS_B = {}, ELEMENTS_C = {};
typedef {a} ElementA;
typedef {b} ElementB;
typedef {d} ElementD;  // of C
typedef {scalar} Scalar;  // of alpha and beta
typedef {sum} Sum;  // of the reference's products
typedef {number} Number;  // of the reference's elements
constexpr Scalar CHECKED_ALPHA = {alpha}, CHECKED_BETA = {beta};
{allowed}
constexpr double MAX_ERROR = {bound:e};",
        layout.a_transposed(),
        layout.b_transposed(),
        of_a * batch,
        of_b * batch,
        of_c * batch,
    )
}

/// The members of the arguments.
fn arguments(plan: &LaunchPlan, problem: &Problem) -> String {
    let mut text = String::from(
        "    void *A, *B, *C;
    int M, N, K, batch, lda, ldb, ldc;
    long long stride_a, stride_b, stride_c;
    Scalar alpha, beta;
",
    );
    for operand in problem.epilogue.operands().filter_map(EpilogueOp::operand) {
        let _ = writeln!(text, "    void* {operand};  // of the epilogue");
    }
    for space in &plan.workspaces {
        let _ = writeln!(text, "    void* workspace_{};", space.name);
    }
    for map in &plan.tensor_maps {
        let _ = writeln!(text, "    CUtensorMap map_{};", map.name);
    }
    text
}

/// The member that has an argument of this plan.
fn member(argument: &Argument, plan: &LaunchPlan) -> String {
    match argument {
        Argument::Named(name) if plan.tensor_maps.iter().any(|map| map.name == *name) => {
            format!("map_{name}")
        }
        Argument::Named(name) => format!("workspace_{name}"),
        standard => standard.name().to_owned(),
    }
}

/// One launch.
fn launch(kernel: &KernelLaunch, plan: &LaunchPlan) -> String {
    let KernelLaunch { entry, grid, block, dynamic_shared_bytes, programmatic, .. } = kernel;
    let [grid, block] = [grid, block].map(|[x, y, z]| format!("dim3({x}, {y}, {z})"));
    let members =
        kernel.arguments.iter().map(|argument| format!("&with.{}", member(argument, plan)));
    let members = wrapped(&members.collect::<Vec<_>>());
    format!(
        "    {{
        void* arguments[] = {{
{members}        }};
        start((const void*)::{entry}, {grid}, {block}, {dynamic_shared_bytes}, {programmatic}, arguments);
    }}
"
    )
}

/// Items in lines of up to 100 columns.
fn wrapped(items: &[String]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        match lines.last_mut() {
            Some(line) if line.len() + item.len() < 86 => *line += &format!(" {item},"),
            _ => lines.push(format!("{item},")),
        }
    }
    lines.iter().map(|line| format!("            {line}\n")).collect()
}

/// An operation of the epilogue, on the reference and on what the error is relative to.
fn epilogue(operation: EpilogueOp) -> String {
    let operand = operation.operand().unwrap_or_default();
    let place = match operation {
        EpilogueOp::RowScale => "product * M + row",
        EpilogueOp::Bias | EpilogueOp::ColScale => "product * N + column",
        _ => "at",
    };
    let element = if operation.is_scale() { "f32" } else { "ElementD" };
    let loaded = format!(
        "    const Number {operand} = (Number)number(((const {element}*)with.{operand})[{place}]);\n"
    );
    let code = match operation {
        EpilogueOp::Bias | EpilogueOp::Residual => {
            format!("{loaded}    value += {operand};\n    unit += magnitude({operand});\n")
        }
        EpilogueOp::RowScale | EpilogueOp::ColScale | EpilogueOp::Mul => {
            format!("{loaded}    value *= {operand};\n    unit *= magnitude({operand});\n")
        }
        EpilogueOp::Relu => "    value = value < 0 ? 0 : value;\n".to_owned(),
        EpilogueOp::Gelu => "    value *= 0.5 * (1 + erf(value * 0.70710678118654752));\n".to_owned(),
        EpilogueOp::GeluTanh => {
            "    value *= 0.5 * (1 + tanh(0.79788456080286536 * (value + 0.044715 * value * value * value)));\n".to_owned()
        }
        EpilogueOp::Silu => "    value /= 1 + exp(-value);\n".to_owned(),
    };
    let slope = slope(operation);
    let steeper = if slope > 1.0 {
        format!("    unit *= {slope};  // its largest slope\n")
    } else {
        String::new()
    };
    format!("    // {operation}\n{code}{steeper}")
}

/// Values of the arguments: extents, operands of the epilogue, workspaces, tensor maps.
fn prepared(plan: &LaunchPlan, problem: &Problem) -> String {
    let mut text = String::from(
        "    with.M = M, with.N = N, with.K = K, with.batch = batch;
    with.lda = lda, with.ldb = ldb, with.ldc = ldc;
    with.stride_a = stride_a, with.stride_b = stride_b, with.stride_c = stride_c;
",
    );
    for (number, operation) in (1..).zip(problem.epilogue.operands()) {
        let operand = operation.operand().unwrap_or_default();
        let count = problem.epilogue_elements(operation).unwrap_or_default();
        let element = operation.operand_dtype(problem.types);
        let _ =
            writeln!(text, "    with.{operand} = filled<{element}>({count}, SEED_C + {number});");
    }
    for space in &plan.workspaces {
        let _ = writeln!(text, "    with.workspace_{} = workspace({});", space.name, space.bytes);
    }
    for map in &plan.tensor_maps {
        text.push_str(&encoded(map, plan, problem));
    }
    text
}

/// A tensor map, with strides in bytes.
fn encoded(map: &TensorMap, plan: &LaunchPlan, problem: &Problem) -> String {
    let placed = map.placed(0, problem.types);
    let rank = map.extents.len().min(MAX_RANK);
    let list = |values: &[u64]| {
        let values: Vec<String> = values.iter().map(ToString::to_string).collect();
        format!("{{{}}}", values.join(", "))
    };
    let tile = placed.tile.map(u64::from);
    let operand = member(&Argument::from(map.operand.clone()), plan);
    format!(
        "    const MapFields fields_{name} = {{{}, {rank}, {}, {}, {}, {}}};
    with.map_{name} = encoded(fields_{name}, with.{operand}, {});
",
        data_type(&placed),
        list(&placed.extents[..rank]),
        list(&placed.strides[..rank.saturating_sub(1)]),
        list(&tile[..rank]),
        swizzle(placed.swizzle),
        map.offset,
        name = map.name,
    )
}

fn data_type(map: &PlacedMap) -> &'static str {
    match map.dtype {
        Dtype::F32 => match map.rounds_to {
            Some(CopyRounding::Tf32) => "CU_TENSOR_MAP_DATA_TYPE_TFLOAT32",
            None => "CU_TENSOR_MAP_DATA_TYPE_FLOAT32",
        },
        Dtype::I32 => "CU_TENSOR_MAP_DATA_TYPE_INT32",
        Dtype::F16 => "CU_TENSOR_MAP_DATA_TYPE_FLOAT16",
        Dtype::Bf16 => "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16",
        Dtype::I8 => "CU_TENSOR_MAP_DATA_TYPE_UINT8",
    }
}

fn swizzle(swizzle: Swizzle) -> &'static str {
    match swizzle {
        Swizzle::None => "CU_TENSOR_MAP_SWIZZLE_NONE",
        Swizzle::B32 => "CU_TENSOR_MAP_SWIZZLE_32B",
        Swizzle::B64 => "CU_TENSOR_MAP_SWIZZLE_64B",
        Swizzle::B128 => "CU_TENSOR_MAP_SWIZZLE_128B",
    }
}
