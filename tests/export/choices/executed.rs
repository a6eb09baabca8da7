//! Launches that the C artifact makes, executed on the cpu device: buffers are exactly as large as the operands and the
//! workspace, what lies between rows was written by nothing, and C is held against f64.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use gemm_tune::arithmetic::error_bound;
use gemm_tune::compile::{Compile as _, CompileRequest};
use gemm_tune::cpu::{
    ExecutionChecks, GlobalMemory, KernelParameter, LaunchOptions, PtxModule, WriteTracking, launch,
};
use gemm_tune::export::ExportedKernel;
use gemm_tune::model::{Dtype, Shape};
use gemm_tune::runtime::Bundle;
use gemm_tune::validate::inputs::ValueKind;

use super::artifact::{Exported, Kind, Known};
use super::problems::{Bases, Call, Extents};
use super::{ALPHA, BETA, build, by_program, calls, needed, with_stub};
use crate::support::cases::cases;
use crate::support::compiler_or_skip;

/// Calls that are drawn, and kernels of each family whose launches are executed: each is compiled once.
const DRAWN: usize = 3000;
const KERNELS_OF_A_FAMILY: usize = 8;

/// What lies between rows: a NaN that no arithmetic makes.
const GAP: u32 = 0x7fc0_dead;

/// The addresses of the first four allocations.
pub(super) fn bases() -> Bases {
    let mut memory = GlobalMemory::new(WriteTracking::Written);
    Bases([(); 4].map(|()| memory.allocate(1).unwrap()))
}

/// A matrix in memory: address, rows, their length, and elements between them.
#[derive(Clone, Copy)]
struct Matrix {
    at: u64,
    rows: u64,
    width: u64,
    pitch: u64,
}

impl Matrix {
    fn allocate(memory: &mut GlobalMemory, at: u64, [rows, width]: [u64; 2], pitch: u64) -> Self {
        let elements = (rows - 1) * pitch + width;
        let offset = at % (1 << 20);
        let base = memory.allocate(offset + 4 * elements).unwrap();
        assert_eq!(base + offset, at, "allocations are where the call says");
        memory.poison(base, GAP, offset / 4 + elements).unwrap();
        Self { at, rows, width, pitch }
    }

    fn fill(&self, memory: &GlobalMemory, seed: u64) {
        for row in 0..self.rows {
            let value = |column| ValueKind::Uniform.at(Dtype::F32, row * self.pitch + column, seed);
            let bytes: Vec<u8> =
                (0..self.width).flat_map(|column| (value(column) as f32).to_le_bytes()).collect();
            memory.write(self.at + 4 * row * self.pitch, &bytes).unwrap();
        }
    }

    fn words(&self, memory: &GlobalMemory) -> Vec<u32> {
        let bytes = memory.read(self.at, 4 * ((self.rows - 1) * self.pitch + self.width)).unwrap();
        bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
    }
}

/// A recorded launch.
struct Recorded<'a> {
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
        let mut parts = text.split(':');
        let (image, entry) = (parts.next()?, parts.next()?);
        let mut three = || {
            let sizes: Vec<u32> =
                parts.next()?.split(',').map(|size| size.parse().unwrap()).collect();
            sizes.try_into().ok()
        };
        let sizes = [three()?, three()?];
        let shared = parts.next()?.parse().ok()?;
        Some(Self { image, entry, sizes, shared, arguments: parts.next()? })
    }

    /// The parameters, whose sizes the draft has.
    fn parameters(&self, kernel: &ExportedKernel) -> Vec<KernelParameter> {
        let text = String::from_utf8_lossy(&kernel.ptx).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{} ", self.entry)));
        let (mut parameters, mut at) = (Vec::new(), 0);
        for size in line.unwrap().bytes().map(|digit| usize::from(digit - b'0')) {
            let hex = &self.arguments[at..at + 2 * size];
            let value = u64::from_str_radix(hex, 16).unwrap();
            parameters.push(match size {
                4 => KernelParameter::Word((value as u32).swap_bytes()),
                _ => KernelParameter::Long(value.swap_bytes()),
            });
            at += 2 * size;
        }
        parameters
    }
}

/// Executes the launches of a call and judges C.
fn execute(
    call: &Call,
    launches: &[Recorded<'_>],
    (kernel, module, needed): (&ExportedKernel, &PtxModule, u64),
) -> Result<(), String> {
    let problem = &call.problem;
    let Shape { m, n, k } = problem.shape;
    let mut memory = GlobalMemory::new(WriteTracking::Written);
    let ([a, b, c], [lda, ldb, ldc]) = (call.addresses, call.rows);
    // The matrices of a batch lie one after the other, as rows of one matrix.
    let batched = |[rows, width]: [u64; 2]| [rows * problem.batch, width];
    let a = Matrix::allocate(&mut memory, a, batched(problem.stored_a()), lda);
    let b = Matrix::allocate(&mut memory, b, batched(problem.stored_b()), ldb);
    let c = Matrix::allocate(&mut memory, c, batched([m, n]), ldc);
    if needed > 0 {
        let place = memory.allocate(needed).unwrap();
        assert_eq!(place, call.workspace.0, "the workspace is where the call says");
    }
    for (matrix, seed) in [(a, 1), (b, 2), (c, 3)] {
        matrix.fill(&memory, seed);
    }
    let [of_a, of_b, before] = [a, b, c].map(|matrix| matrix.words(&memory));
    for own in launches {
        let options = LaunchOptions {
            checks: ExecutionChecks::ALL,
            instruction_budget: 1 << 26,
            ..LaunchOptions::default()
        };
        let entry = module.kernel(own.entry).ok_or("the PTX has no such kernel")?;
        let [grid, block] = own.sizes;
        launch(entry, (grid, block), own.shared, &own.parameters(kernel), &memory, &options)
            .map_err(|error| error.to_string())?;
    }
    if a.words(&memory) != of_a || b.words(&memory) != of_b {
        return Err("A or B was changed".to_owned());
    }
    let number = |words: &[u32], at: u64| f64::from(f32::from_bits(words[at as usize]));
    let (bound, layout) = (error_bound(problem), problem.layout);
    for (at, (word, old)) in c.words(&memory).iter().zip(&before).enumerate() {
        let (row, column) = (at as u64 / ldc, at as u64 % ldc);
        if column >= n {
            if word != old {
                return Err(format!("C[{row}][{column}] lies between rows and was written"));
            }
            continue;
        }
        let (product, row) = (row / m, row % m);
        let first_a = product * problem.stored_a()[0] * lda;
        let first_b = product * problem.stored_b()[0] * ldb;
        let (mut sum, mut size) = (0.0, 0.0);
        for step in 0..k {
            let a_at = if layout.a_transposed() { step * lda + row } else { row * lda + step };
            let b_at =
                if layout.b_transposed() { column * ldb + step } else { step * ldb + column };
            let term = ALPHA * number(&of_a, first_a + a_at) * number(&of_b, first_b + b_at);
            sum += term;
            size += term.abs();
        }
        let old = BETA * f64::from(f32::from_bits(*old));
        let got = f64::from(f32::from_bits(*word));
        let error = (got - sum - old).abs();
        if error.is_nan() || error > bound * (size + old.abs()) {
            return Err(format!("C[{product}][{row}][{column}] is {got}, not {}", sum + old));
        }
    }
    Ok(())
}

#[test]
fn what_artifacts_launch_is_right_with_buffers_of_exactly_their_size() {
    let Some(compiler) = compiler_or_skip() else { return };
    let exported = Exported::new(Kind::Small);
    if build(&exported).is_none() {
        return;
    }
    let seed = std::env::var("GEMM_TUNE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    let bundle = Bundle::open(&exported.folder, &Known::shipped().device).unwrap();
    let random = &mut fastrand::Rng::with_seed(seed);
    let calls = calls(&exported, &bundle, (random, DRAWN), Extents::Small);
    let answers =
        by_program(&mut with_stub(&exported.folder.join("choices"), &exported.folder), &calls);
    let answers = answers.unwrap();
    let of_image = |image: &str| {
        let named = |kernel: &&ExportedKernel| {
            format!("{:016x}", super::record::hash(&kernel.ptx)) == image
        };
        exported.kernels.iter().find(named).unwrap()
    };
    // The kernels of each family that most calls use.
    let mut by_image: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, answer) in answers.iter().enumerate() {
        let launches = Recorded::all(answer);
        assert!(!launches.is_empty(), "GEMM_TUNE_SEED={seed}: {} {answer}", calls[place]);
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
    println!("seed {seed}: {executed} launches of {} kernels: {taken:?}", modules.len());
    assert!(executed >= wanted * 3 / 4, "{executed}");
}
