//! Launches that the C artifact makes, executed on the cpu device: buffers are exactly as large as the operands and the
//! workspace, what lies between rows was written by nothing, and D is held against f64.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use gemm_tune::arithmetic::error_bound;
use gemm_tune::compile::{Compile as _, CompileRequest};
use gemm_tune::cpu::{
    ExecutionChecks, GlobalMemory, KernelParameter, LaunchOptions, PtxModule, WriteTracking, launch,
};
use gemm_tune::export::ExportedKernel;
use gemm_tune::model::{Dtype, EpilogueOp, GemmType, Problem, Shape};
use gemm_tune::runtime::Bundle;
use gemm_tune::validate::inputs::ValueKind;
use half::{bf16, f16};

use super::artifact::{Exported, Kind, Known};
use super::problems::{Bases, Call, Extents, OPERANDS};
use super::record::map_of;
use super::{build, by_program, calls, factors, needed, with_stub};
use crate::support::cases::cases;
use crate::support::compiler_or_skip;

/// Calls that are drawn, and kernels of each family whose launches are executed: each is compiled once.
const DRAWN: usize = 3000;
const KERNELS_OF_A_FAMILY: usize = 8;

/// What lies between rows: a NaN that no arithmetic makes.
const GAP: u32 = 0x7fc0_dead;

/// The addresses of the first allocations.
pub(super) fn bases() -> Bases {
    let mut memory = GlobalMemory::new(WriteTracking::Written);
    Bases([(); 10].map(|()| memory.allocate(1).unwrap()))
}

/// A matrix in memory: address, rows, their length, elements between them, and their dtype.
#[derive(Clone, Copy)]
struct Matrix {
    at: u64,
    rows: u64,
    width: u64,
    pitch: u64,
    dtype: Dtype,
}

impl Matrix {
    fn allocate(memory: &mut GlobalMemory, own: Self) -> Self {
        let bytes = own.bytes();
        let offset = own.at % (1 << 20);
        let base = memory.allocate(offset + bytes).unwrap();
        assert_eq!(base + offset, own.at, "allocations are where the call says");
        memory.poison(base, GAP, (offset + bytes) / 4).unwrap();
        own
    }

    /// From the first element to the last.
    fn bytes(&self) -> u64 {
        ((self.rows - 1) * self.pitch + self.width) * self.dtype.bytes()
    }

    /// Writes the rows: uniform numbers in f32, small integers in other types, whose sums are exact.
    fn fill(&self, memory: &GlobalMemory, kind: ValueKind, seed: u64) {
        for row in 0..self.rows {
            let at = |column| kind.at(self.dtype, row * self.pitch + column, seed);
            let bytes: Vec<u8> =
                (0..self.width).flat_map(|column| element_bytes(self.dtype, at(column))).collect();
            memory.write(self.at + self.dtype.bytes() * row * self.pitch, &bytes).unwrap();
        }
    }

    /// All elements, those between rows too.
    fn values(&self, memory: &GlobalMemory) -> Vec<f64> {
        let bytes = memory.read(self.at, self.bytes()).unwrap();
        let elements = bytes.chunks_exact(self.dtype.bytes() as usize);
        elements.map(|bytes| value_of(self.dtype, bytes)).collect()
    }
}

fn element_bytes(dtype: Dtype, value: f64) -> Vec<u8> {
    match dtype {
        Dtype::F32 => (value as f32).to_le_bytes().to_vec(),
        Dtype::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
        Dtype::Bf16 => bf16::from_f64(value).to_le_bytes().to_vec(),
        Dtype::I32 => (value as i32).to_le_bytes().to_vec(),
        Dtype::I8 => (value as i8).to_le_bytes().to_vec(),
    }
}

fn value_of(dtype: Dtype, bytes: &[u8]) -> f64 {
    let mut word = [0; 4];
    word[..bytes.len()].copy_from_slice(bytes);
    let (word, half) = (u32::from_le_bytes(word), [word[0], word[1]]);
    match dtype {
        Dtype::F32 => f32::from_bits(word).into(),
        Dtype::F16 => f16::from_le_bytes(half).into(),
        Dtype::Bf16 => bf16::from_le_bytes(half).into(),
        Dtype::I32 => word.cast_signed().into(),
        Dtype::I8 => bytes[0].cast_signed().into(),
    }
}

/// A recorded launch.
struct Recorded<'a> {
    /// Whether it may begin before the launch before it ends.
    programmatic: bool,
    image: &'a str,
    entry: &'a str,
    sizes: [[u32; 3]; 2],
    shared: u32,
    arguments: &'a str,
}

impl<'a> Recorded<'a> {
    fn all(line: &'a str) -> Vec<Self> {
        line.split_terminator(';').map(|text| Self::one(text).unwrap()).collect()
    }

    fn one(text: &'a str) -> Option<Self> {
        let bare = text.trim_start_matches('+');
        let programmatic = bare.len() < text.len();
        let mut parts = bare.split(':');
        let (image, entry) = (parts.next()?, parts.next()?);
        let mut three = || {
            let sizes: Vec<u32> =
                parts.next()?.split(',').map(|size| size.parse().unwrap()).collect();
            sizes.try_into().ok()
        };
        let sizes = [three()?, three()?];
        let shared = parts.next()?.parse().ok()?;
        Some(Self { programmatic, image, entry, sizes, shared, arguments: parts.next()? })
    }

    /// The parameters, whose sizes the draft has.
    fn parameters(&self, kernel: &ExportedKernel) -> Vec<KernelParameter> {
        let text = String::from_utf8_lossy(&kernel.ptx).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{} ", self.entry)));
        let (mut parameters, mut rest) = (Vec::new(), self.arguments);
        for digit in line.unwrap().bytes() {
            if digit == b'm' {
                let (map, after) = rest.strip_prefix('<').unwrap().split_once('>').unwrap();
                parameters.push(KernelParameter::from(map_of(map)));
                rest = after;
                continue;
            }
            let (hex, after) = rest.split_at(2 * usize::from(digit - b'0'));
            let value = u64::from_str_radix(hex, 16).unwrap();
            parameters.push(match hex.len() {
                8 => KernelParameter::Word((value as u32).swap_bytes()),
                _ => KernelParameter::Long(value.swap_bytes()),
            });
            rest = after;
        }
        parameters
    }
}

/// The operands of a call in memory.
struct Operands {
    a: Matrix,
    b: Matrix,
    d: Matrix,
    /// Those of the epilogue, in the order of [`OPERANDS`].
    others: Vec<(EpilogueOp, Matrix)>,
}

impl Operands {
    /// Allocates them in the order of the bases, with the workspace between them, and fills them.
    fn allocate(memory: &mut GlobalMemory, call: &Call, workspace_bytes: u64) -> Self {
        let problem = &call.problem;
        let Problem { shape: Shape { m, n, .. }, batch, types, .. } = *problem;
        let ([a, b, d], [lda, ldb, ldd]) = (call.addresses, call.rows);
        // The matrices of a batch lie one after the other, as rows of one matrix.
        let mut allocate = |at, [rows, width]: [u64; 2], pitch, dtype| {
            let rows = rows * batch;
            Matrix::allocate(memory, Matrix { at, rows, width, pitch, dtype })
        };
        let a = allocate(a, problem.stored_a(), lda, types.a);
        let b = allocate(b, problem.stored_b(), ldb, types.b);
        let d = allocate(d, [m, n], ldd, types.d);
        let place = memory.allocate(workspace_bytes.max(1)).unwrap();
        assert!(workspace_bytes == 0 || place == call.workspace.0, "the workspace is elsewhere");
        let mut others = Vec::new();
        for (operation, at) in OPERANDS.into_iter().zip(call.operands) {
            if at == 0 {
                memory.allocate(1).unwrap();
                continue;
            }
            let dtype = operation.operand_dtype(types);
            let (rows, width, pitch) = match operation {
                EpilogueOp::Bias | EpilogueOp::ColScale => (batch, n, n),
                EpilogueOp::RowScale => (batch, m, m),
                _ => (batch * m, n, ldd),
            };
            let own = Matrix { at, rows, width, pitch, dtype };
            others.push((operation, Matrix::allocate(memory, own)));
        }
        let kind = if is_plain(problem) { ValueKind::Uniform } else { ValueKind::Small };
        let all = [a, b, d].into_iter().chain(others.iter().map(|(_, own)| *own));
        for (matrix, seed) in all.zip(1..) {
            matrix.fill(memory, kind, seed);
        }
        Self { a, b, d, others }
    }
}

/// Whether it is a strict product of f32 without an epilogue, whose error is known.
fn is_plain(problem: &Problem) -> bool {
    problem.types == GemmType::of(Dtype::F32) && problem.epilogue.is_empty()
}

/// Executes the launches of a call and judges D.
fn execute(
    call: &Call,
    launches: &[Recorded<'_>],
    (kernel, module, needed): (&ExportedKernel, &PtxModule, u64),
) -> Result<(), String> {
    let problem = &call.problem;
    let mut memory = GlobalMemory::new(WriteTracking::Written);
    let operands = Operands::allocate(&mut memory, call, needed);
    let Operands { a, b, d, others } = &operands;
    let [of_a, of_b, before] = [a, b, d].map(|matrix| matrix.values(&memory));
    for own in launches {
        let options = LaunchOptions {
            checks: ExecutionChecks::ALL,
            instruction_budget: 1 << 26,
            follows_unknown: launches[0].programmatic && own.programmatic,
            ..LaunchOptions::default()
        };
        let entry = module.kernel(own.entry).ok_or("the PTX has no such kernel")?;
        let [grid, block] = own.sizes;
        launch(entry, (grid, block), own.shared, &own.parameters(kernel), &memory, &options)
            .map_err(|error| error.to_string())?;
    }
    let same = |one: &[f64], other: &[f64]| {
        one.iter().zip(other).all(|(one, other)| one.to_bits() == other.to_bits())
    };
    if !same(&a.values(&memory), &of_a) || !same(&b.values(&memory), &of_b) {
        return Err("A or B was changed".to_owned());
    }
    let read: Vec<(EpilogueOp, Vec<f64>)> =
        others.iter().map(|(operation, own)| (*operation, own.values(&memory))).collect();
    let (n, m, ldd) = (problem.shape.n, problem.shape.m, d.pitch);
    let (_, beta) = factors(problem);
    for (at, (got, old)) in d.values(&memory).iter().zip(&before).enumerate() {
        let (row, column) = (at as u64 / ldd, at as u64 % ldd);
        if column >= n {
            if got.to_bits() != old.to_bits() {
                return Err(format!("D[{row}][{column}] lies between rows and was written"));
            }
            continue;
        }
        let (product, row) = (row / m, row % m);
        let (sum, size) = product_of(call, [product, row, column], [&of_a, &of_b]);
        let mut expected = sum + beta * old;
        for operation in problem.epilogue.operations() {
            let values = read.iter().find(|(own, _)| *own == operation);
            let operand = values.map_or(0.0, |(_, values)| match operation {
                EpilogueOp::Bias | EpilogueOp::ColScale => values[(product * n + column) as usize],
                EpilogueOp::RowScale => values[(product * m + row) as usize],
                _ => values[at],
            });
            expected = applied(operation, expected, operand);
        }
        let bound = match problem.types.d {
            _ if is_plain(problem) => error_bound(problem) * (size + (beta * old).abs()),
            Dtype::Bf16 => expected.abs() / 128.0 + 1e-4,
            Dtype::F16 => expected.abs() / 1024.0 + 1e-4,
            Dtype::F32 => expected.abs() * 1e-5 + 1e-4,
            Dtype::I32 | Dtype::I8 => 0.0,
        };
        let error = (got - expected).abs();
        if error.is_nan() || error > bound {
            return Err(format!("D[{product}][{row}][{column}] is {got}, not {expected}"));
        }
    }
    Ok(())
}

/// alpha op(A) op(B) at an element, and the sum of the magnitudes of its terms.
fn product_of(call: &Call, [product, row, column]: [u64; 3], [a, b]: [&[f64]; 2]) -> (f64, f64) {
    let problem = &call.problem;
    let ([lda, ldb, _], layout, k) = (call.rows, problem.layout, problem.shape.k);
    let (alpha, _) = factors(problem);
    let first_a = product * problem.stored_a()[0] * lda;
    let first_b = product * problem.stored_b()[0] * ldb;
    let (mut sum, mut size) = (0.0, 0.0);
    for step in 0..k {
        let a_at = if layout.a_transposed() { step * lda + row } else { row * lda + step };
        let b_at = if layout.b_transposed() { column * ldb + step } else { step * ldb + column };
        let term = alpha * a[(first_a + a_at) as usize] * b[(first_b + b_at) as usize];
        sum += term;
        size += term.abs();
    }
    (sum, size)
}

/// What an operation makes of a value; those of [`artifact`](super::artifact)'s kernels.
fn applied(operation: EpilogueOp, value: f64, operand: f64) -> f64 {
    match operation {
        EpilogueOp::Bias | EpilogueOp::Residual => value + operand,
        EpilogueOp::RowScale | EpilogueOp::ColScale | EpilogueOp::Mul => value * operand,
        EpilogueOp::Relu => value.max(0.0),
        EpilogueOp::Silu => value / (1.0 + (-value).exp()),
        EpilogueOp::Gelu => value / 2.0 * libm::erfc(-value / 2_f64.sqrt()),
        EpilogueOp::GeluTanh => unreachable!("no kernel of these artifacts has it"),
    }
}

#[test]
fn what_artifacts_launch_is_right_with_buffers_of_exactly_their_size() {
    println!("{}", execute_some(Kind::Small));
}

#[test]
fn launches_of_other_types_and_epilogues_are_right() {
    println!("{}", execute_some(Kind::SmallTypes));
}

/// Executes some of the launches of an artifact, and says which.
fn execute_some(kind: Kind) -> String {
    let Some(compiler) = compiler_or_skip() else { return "skipped".to_owned() };
    let exported = Exported::new(kind);
    if build(&exported).is_none() {
        return "skipped".to_owned();
    }
    let seed = std::env::var("GEMM_TUNE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    let bundle = Bundle::open(&exported.folder, &Known::shipped().device).unwrap();
    let random = &mut fastrand::Rng::with_seed(seed);
    let calls = calls(&exported, &bundle, (random, DRAWN), Extents::Small);
    let answers =
        by_program(&mut with_stub(&exported.folder.join("choices"), &exported.folder), &calls);
    let answers = answers.unwrap();
    // A driver that captures no early launches in graphs gets none.
    let mut older = with_stub(&exported.folder.join("choices"), &exported.folder);
    let bare: Vec<String> = answers.iter().map(|answer| answer.replace('+', "")).collect();
    assert_eq!(by_program(older.env("STUB_CUDA", "12020"), &calls).unwrap(), bare);
    assert_ne!(bare, answers, "launches of both kinds begin early");
    let of_image = |image: &str| {
        let named = |kernel: &&ExportedKernel| {
            format!("{:016x}", super::record::hash(&kernel.ptx)) == image
        };
        exported.kernels.iter().find(named).unwrap()
    };
    // The kernels of each family that most calls use.
    let mut by_image: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, answer) in answers.iter().enumerate() {
        if answer == "none" {
            continue;
        }
        assert!(answer.contains(':'), "GEMM_TUNE_SEED={seed}: {}: {answer}", calls[place]);
        let launches = Recorded::all(answer);
        by_image.entry(launches[0].image).or_default().push(place);
    }
    let mut images: Vec<(&str, Vec<usize>)> = by_image.into_iter().collect();
    images.sort_by_key(|(image, places)| (std::cmp::Reverse(places.len()), *image));
    let mut taken: HashMap<&str, usize> = HashMap::new();
    images.retain(|(image, _)| {
        let count = taken.entry(&of_image(image).draft.family).or_default();
        *count += 1;
        *count <= KERNELS_OF_A_FAMILY
    });
    assert!(taken.len() > 1, "{taken:?}");
    let wanted = cases(120, 320);
    let each = wanted.div_ceil(images.len());
    let (mut executed, mut modules) = (0, HashMap::new());
    for (image, places) in &images {
        let kernel = of_image(image);
        let module = modules.entry(*image).or_insert_with(|| {
            let source = Arc::clone(&kernel.draft.source);
            let compiled = compiler.compile(&CompileRequest::kernel(&kernel.draft.family, source));
            PtxModule::parse(&String::from_utf8_lossy(&compiled.unwrap().image)).unwrap()
        });
        for place in places.iter().take(each) {
            let (call, launches) = (&calls[*place], Recorded::all(&answers[*place]));
            executed += launches.len();
            let needed = needed(&bundle, &call.question());
            let ran = execute(call, &launches, (kernel, module, needed));
            assert_eq!(ran, Ok(()), "GEMM_TUNE_SEED={seed}: {call}, {}", kernel.draft.name());
        }
    }
    assert!(executed >= wanted * 3 / 4, "{executed}");
    format!("seed {seed}: {executed} launches of {} kernels: {taken:?}", modules.len())
}
