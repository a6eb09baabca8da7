//! Products of tensor cores: a kernel for each `mma.sync` that the cpu device executes, and what it writes there.

use gemm_tune::compile::CompileRequest;
use gemm_tune::cpu::{
    GlobalMemory, KernelParameter, LaunchOptions, PtxModule, WriteTracking, launch,
};

/// Products by a launch, each by a warp of its own.
pub(crate) const PRODUCTS: u32 = 1024;

/// Bytes that the kernel writes.
pub(crate) const BYTES: u64 = PRODUCTS as u64 * 32 * 2 * 16;

/// An instruction: its suffix, registers of A, of B and of C, and its operands.
pub(crate) type TensorInstruction = (&'static str, [usize; 3], TensorOperands);

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum TensorOperands {
    /// Bits of the exponent and of the fraction of an element.
    Float(u32, u32),
    Bytes,
}

const F16: TensorOperands = TensorOperands::Float(5, 10);
const BF16: TensorOperands = TensorOperands::Float(8, 7);
const TF32: TensorOperands = TensorOperands::Float(8, 23);

pub(crate) const INSTRUCTIONS: [TensorInstruction; 13] = [
    ("m16n8k16.row.col.f32.f16.f16.f32", [4, 2, 4], F16),
    ("m16n8k8.row.col.f32.f16.f16.f32", [2, 1, 4], F16),
    ("m16n8k16.row.col.f16.f16.f16.f16", [4, 2, 2], F16),
    ("m16n8k8.row.col.f16.f16.f16.f16", [2, 1, 2], F16),
    ("m16n8k16.row.col.f32.bf16.bf16.f32", [4, 2, 4], BF16),
    ("m16n8k8.row.col.f32.bf16.bf16.f32", [2, 1, 4], BF16),
    ("m16n8k8.row.col.f32.tf32.tf32.f32", [4, 2, 4], TF32),
    ("m16n8k4.row.col.f32.tf32.tf32.f32", [2, 1, 4], TF32),
    ("m16n8k32.row.col.s32.s8.s8.s32", [4, 2, 4], TensorOperands::Bytes),
    ("m16n8k32.row.col.satfinite.s32.u8.s8.s32", [4, 2, 4], TensorOperands::Bytes),
    ("m16n8k16.row.col.s32.s8.u8.s32", [2, 1, 4], TensorOperands::Bytes),
    ("m16n8k16.row.col.satfinite.s32.s8.s8.s32", [2, 1, 4], TensorOperands::Bytes),
    ("m16n8k16.row.col.s32.u8.u8.s32", [2, 1, 4], TensorOperands::Bytes),
];

/// The kernel of an instruction, to be compiled.
pub(crate) fn request(instruction: TensorInstruction) -> CompileRequest {
    CompileRequest {
        source: source(instruction).into(),
        name: "products.cu".to_owned(),
        options: Vec::new(),
    }
}

/// A kernel whose warps multiply values that follow from their numbers. There are five kinds, by `blockIdx.x % 5`:
///
/// 0. arbitrary bits
/// 1. exponents at most 4 from that of 1
/// 2. the same, with zeros
/// 3. exponents at most 16 from that of 1, or 14 for f16
/// 4. as 1; the second product nearly cancels its accumulator
fn source((suffix, registers, operands): TensorInstruction) -> String {
    let [a, b, c] = registers;
    let half_sums = suffix.contains("f16.f16.f16.f16");
    let (of_element, of_sum) = match operands {
        TensorOperands::Bytes => ("bits".to_owned(), "bits".to_owned()),
        TensorOperands::Float(exponent, fraction) => {
            let word = |exponent: u32, fraction: u32| {
                let one = format!("element(bits, kind, {exponent}, {fraction})");
                if exponent + fraction == 31 {
                    one
                } else {
                    format!("{one} | element(mix(bits), kind, {exponent}, {fraction}) << 16")
                }
            };
            let sum = if half_sums { word(5, 10) } else { word(8, 23) };
            (word(exponent, fraction), sum)
        }
    };
    let list = |name: &str, count: usize, first: usize| {
        let names: Vec<String> = (first..first + count).map(|at| format!("{name}{at}")).collect();
        format!("{{{}}}", names.join(","))
    };
    let outputs: Vec<String> = (0..c).map(|at| format!("\"=r\"(d[{at}])")).collect();
    let inputs: Vec<String> = [("a", a), ("b", b), ("c", c)]
        .iter()
        .flat_map(|(name, count)| (0..*count).map(move |at| format!("\"r\"({name}[{at}])")))
        .collect();
    let fragments =
        [list("%", c, 0), list("%", a, c), list("%", b, c + a), list("%", c, c + a + b)];
    let text = if suffix.contains(".f32.") {
        // The kernel has bits, which become registers of binary32 here.
        let moved: String =
            (0..c).map(|at| format!("mov.b32 s{at}, %{};", c + a + b + at)).collect();
        let back: String = (0..c).map(|at| format!("mov.b32 %{at}, t{at};")).collect();
        format!(
            "{{.reg .f32 s<4>, t<4>; {moved} mma.sync.aligned.{suffix} {}, {}, {}, {}; {back}}}",
            list("t", c, 0),
            fragments[1],
            fragments[2],
            list("s", c, 0)
        )
    } else {
        format!("mma.sync.aligned.{suffix} {};", fragments.join(", "))
    };
    format!(
        r#"typedef unsigned int u32;

__device__ u32 mix(u32 x)
{{
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}}

__device__ u32 element(u32 bits, u32 kind, u32 exponent_bits, u32 fraction_bits)
{{
    const u32 width = exponent_bits + fraction_bits, one = (1u << (exponent_bits - 1)) - 1;
    if (kind == 0)
        return bits >> (31 - width);
    if (kind == 2 && bits % 3 == 0)
        return 0;
    const u32 reach = kind == 3 ? (exponent_bits == 5 ? 14 : 16) : 4;
    const u32 exponent = one - reach + (mix(bits) % (2 * reach + 1));
    return (bits >> 31) << width | exponent << fraction_bits | (bits >> 3 & ((1u << fraction_bits) - 1));
}}

extern "C" __global__ void multiply(u32* out)
{{
    const u32 kind = blockIdx.x % 5, seed = blockIdx.x * 32 + threadIdx.x;
    u32 a[{a}], b[{b}], c[{c}], d[{c}];
    for (u32 i = 0; i < {a}; ++i) {{
        const u32 bits = mix(seed * 16 + i);
        a[i] = {of_element};
    }}
    for (u32 i = 0; i < {b}; ++i) {{
        const u32 bits = mix(seed * 16 + 4 + i);
        b[i] = {of_element};
    }}
    for (u32 i = 0; i < {c}; ++i) {{
        const u32 bits = mix(seed * 16 + 8 + i);
        c[i] = {of_sum};
    }}
    for (u32 turn = 0; turn < 2; ++turn) {{
        asm volatile("{text}" : {outputs} : {inputs});
        for (u32 i = 0; i < {c}; ++i) {{
            out[(seed * 2 + turn) * 4 + i] = d[i];
            c[i] = kind == 4 ? d[i] ^ {sign} : d[i];
        }}
        if (kind == 4)
            for (u32 i = 0; i < {a}; ++i)
                a[i] ^= {low};
    }}
}}
"#,
        outputs = outputs.join(", "),
        inputs = inputs.join(", "),
        sign = if half_sums { "0x80008000u" } else { "0x80000000u" },
        low = if operands == TF32 { "0x6000u" } else { "0x00010001u" },
    )
}

/// The words that the kernel writes on the cpu device.
pub(crate) fn on_the_cpu(ptx: &str) -> Vec<u8> {
    let program = PtxModule::parse(ptx).unwrap();
    let mut memory = GlobalMemory::new(WriteTracking::Written);
    let out = memory.allocate(BYTES).unwrap();
    memory.fill_with(out, BYTES / 4, |_| 0).unwrap();
    let extents = ([PRODUCTS, 1, 1], [32, 1, 1]);
    let options = LaunchOptions::default();
    launch(&program.kernels()[0], extents, 0, &[KernelParameter::Long(out)], &memory, &options)
        .unwrap();
    memory.read(out, BYTES).unwrap()
}
