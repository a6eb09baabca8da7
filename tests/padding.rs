//! Every family on operands that are not packed, on the `cpu` device: rows that are longer than what
//! they hold, and addresses that are aligned to little. [`Runtime`] passes what it passes on a GPU.
//!
//! What lies between rows was written by nothing, so that reading it is a violation, and holds NaN;
//! nothing is allocated behind the last element.

#![expect(unsafe_code, reason = "operands are addresses")]

use std::sync::{Arc, Mutex};

use gemm_tune::arithmetic::error_bound;
use gemm_tune::compile::{Compile, CompileRequest, Compiler};
use gemm_tune::cpu::{
    ExecutionChecks, GlobalMemory, KernelParameter, LaunchOptions, PtxModule, WriteTracking, launch,
};
use gemm_tune::gpu::{GpuError, KernelArgument, Stream};
use gemm_tune::lookup::Question;
use gemm_tune::model::{
    Configuration, Device, Dtype, GemmType, LaunchShape, Layout, PlacedMap, Problem, Shape, Storage,
};
use gemm_tune::render::{Templates, render_stored};
use gemm_tune::runtime::{
    Catalogue, Driver, GemmOperands, RowsToCopy, RowsToFill, Runtime, RuntimeError, SelectedKernel,
    SelectedLaunch,
};
use gemm_tune::space::{Extents, Families, Family, LegalSpace, Legality};
use gemm_tune::validate::inputs::ValueKind;
use rayon::prelude::*;

use crate::support::cases::cases;
use crate::support::small_tiles::with_small_tiles;
use crate::support::{boxes, compiler_or_skip};

/// What lies between rows: a NaN that no arithmetic makes.
const GAP: u32 = 0x7fc0_dead;

/// Configurations that are drawn until one is legal.
const TRIES: usize = 100;

/// The configuration that is under test.
struct Pinned<'a> {
    family: &'a Family,
    configuration: &'a Configuration,
    device: Device,
    templates: &'a Templates,
    compiler: &'a Compiler,
}

impl Catalogue for Pinned<'_> {
    fn choose(
        &self,
        Question { problem, storage, .. }: &Question,
    ) -> Result<SelectedKernel, RuntimeError> {
        let (configuration, device) = (self.configuration, &self.device);
        let rendered =
            render_stored(self.family, self.templates, configuration, problem, storage, device)
                .map_err(RuntimeError::of_source)?;
        let launches = rendered.plan.kernels.into_iter().map(|kernel| SelectedLaunch {
            packs: None,
            shape: kernel.shape(),
            entry: kernel.entry,
            arguments: kernel.arguments.iter().map(|a| a.name().to_owned()).collect(),
        });
        let workspaces = rendered.plan.workspaces.into_iter();
        Ok(SelectedKernel {
            name: format!("{} {configuration}", self.family.name),
            image: String::new(),
            source: Some(rendered.source.into()),
            launches: launches.collect(),
            workspaces: workspaces.map(|space| (space.name, space.bytes)).collect(),
            tensor_maps: rendered.plan.tensor_maps,
        })
    }

    fn code(&self, chosen: &SelectedKernel) -> Result<Arc<[u8]>, RuntimeError> {
        let source = chosen.source.clone().unwrap();
        let name = "gemm.cu".to_owned();
        let request = CompileRequest { source, name, options: Vec::new() };
        Ok(self.compiler.compile(&request).map_err(RuntimeError::of_source)?.image)
    }
}

/// The `cpu` device, every check on.
struct Host(Mutex<GlobalMemory>);

fn refused(call: &'static str, error: impl ToString) -> GpuError {
    GpuError::Call { call, code: "cpu".to_owned(), message: error.to_string() }
}

impl Driver for &Host {
    type KernelHandle = (Arc<PtxModule>, String);
    type Allocation = (u64, u64);
    type MapHandle = PlacedMap;

    fn load(
        &self,
        image: &[u8],
        kernels: &[(&str, u32)],
    ) -> Result<Vec<Self::KernelHandle>, GpuError> {
        let text = String::from_utf8_lossy(image);
        let program = PtxModule::parse(&text).map_err(|error| refused("load", error))?;
        let program = Arc::new(program);
        Ok(kernels.iter().map(|(entry, _)| (Arc::clone(&program), (*entry).to_owned())).collect())
    }

    fn encode(&self, map: &PlacedMap) -> Result<PlacedMap, GpuError> {
        Ok(*map)
    }

    unsafe fn copy_rows(&self, _: Stream, _: &RowsToCopy) -> Result<(), GpuError> {
        unreachable!("C lies in D")
    }

    unsafe fn fill_rows(&self, _: Stream, _: &RowsToFill) -> Result<(), GpuError> {
        unreachable!("K is not 0")
    }

    unsafe fn launch(
        &self,
        _: Stream,
        (program, entry): &Self::KernelHandle,
        LaunchShape { grid, block, dynamic_shared_bytes: shared, .. }: LaunchShape,
        arguments: &[KernelArgument],
        maps: &[PlacedMap],
    ) -> Result<(), GpuError> {
        let parameters = arguments.iter().map(|argument| match *argument {
            KernelArgument::Pointer(address) => KernelParameter::from(address),
            KernelArgument::I32(value) => KernelParameter::from(value),
            KernelArgument::I64(value) => KernelParameter::from(value),
            KernelArgument::F32(value) => KernelParameter::from(value),
            KernelArgument::Map(place) => KernelParameter::from(maps[place]),
        });
        let parameters: Vec<KernelParameter> = parameters.collect();
        let options = LaunchOptions {
            checks: ExecutionChecks::ALL,
            instruction_budget: 1 << 26,
            ..LaunchOptions::default()
        };
        let (kernel, memory) = (program.kernel(entry).unwrap(), self.0.lock().unwrap());
        launch(kernel, (grid, block), shared, &parameters, &memory, &options)
            .map(|_| ())
            .map_err(|error| refused("launch", error))
    }

    fn allocate(&self, bytes: u64) -> Result<(u64, u64), GpuError> {
        let address = self.0.lock().unwrap().allocate(bytes);
        address.map(|at| (at, bytes)).map_err(|error| refused("allocate", error))
    }

    fn address_and_size(memory: &(u64, u64)) -> (u64, u64) {
        *memory
    }
}

/// Matrices one after the other in the device's memory.
#[derive(Clone, Copy)]
struct Matrices {
    count: u64,
    rows: u64,
    /// Elements of a row, and between rows.
    width: u64,
    pitch: u64,
    at: u64,
}

impl Matrices {
    /// An allocation of theirs that begins at a multiple of `alignment` bytes and of no more, where
    /// that is less than what allocations have.
    fn allocate(
        memory: &mut GlobalMemory,
        [count, rows, width, pitch]: [u64; 4],
        alignment: u64,
    ) -> Self {
        let offset = if alignment < Storage::ALLOCATED { alignment } else { 0 };
        let elements = (count * rows - 1) * pitch + width;
        let base = memory.allocate(offset + 4 * elements).unwrap();
        memory.poison(base, GAP, offset / 4 + elements).unwrap();
        Self { count, rows, width, pitch, at: base + offset }
    }

    /// Writes the rows alone.
    fn fill(&self, memory: &GlobalMemory, seed: u64) {
        for row in 0..self.count * self.rows {
            let value = |column| ValueKind::Uniform.at(Dtype::F32, row * self.pitch + column, seed);
            let bytes: Vec<u8> =
                (0..self.width).flat_map(|column| (value(column) as f32).to_le_bytes()).collect();
            memory.write(self.at + 4 * row * self.pitch, &bytes).unwrap();
        }
    }

    /// All words, those between rows too.
    fn words(&self, memory: &GlobalMemory) -> Vec<u32> {
        let elements = (self.count * self.rows - 1) * self.pitch + self.width;
        let bytes = memory.read(self.at, 4 * elements).unwrap();
        bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
    }
}

/// A problem, how it is stored, beta, and the SMs that kernels are for.
#[derive(Debug, Clone, Copy)]
struct Case {
    problem: Problem,
    storage: Storage,
    beta: f64,
    sms: u32,
}

const ALPHA: f64 = -0.75;

impl Case {
    /// Rows are longer than need be, up to a multiple of `multiple`; 0: they are packed.
    fn new(shape: &str, layout: Layout, multiple: u64, alignment: u64) -> Self {
        let problem = Problem { layout, ..Problem::new(shape.parse().unwrap(), Dtype::F32) };
        let longer =
            |row: u64| if multiple == 0 { row } else { (row + 1).next_multiple_of(multiple) };
        let Storage { lda, ldb, ldc, .. } = Storage::packed(&problem);
        let [lda, ldb, ldc] = [lda, ldb, ldc].map(longer);
        let sms = Device::cpu().sms;
        Self { problem, storage: Storage { lda, ldb, ldc, alignment }, beta: 0.0, sms }
    }

    fn device(&self) -> Device {
        Device { sms: self.sms, ..Device::cpu() }
    }

    /// Executes a configuration; what is wrong with it.
    fn run(&self, pinned: Pinned<'_>) -> Result<(), String> {
        let Self { problem, storage, beta, .. } = *self;
        let Problem { shape: Shape { m, n, k }, batch, layout, .. } = problem;
        let mut memory = GlobalMemory::new(WriteTracking::Written);
        let mut matrices = |rows, width, pitch| {
            Matrices::allocate(&mut memory, [batch, rows, width, pitch], storage.alignment)
        };
        let (a_rows, b_rows) =
            (if layout.a_transposed() { k } else { m }, if layout.b_transposed() { n } else { k });
        let a = matrices(a_rows, problem.lda(), storage.lda);
        let b = matrices(b_rows, problem.ldb(), storage.ldb);
        let c = matrices(m, n, storage.ldc);
        a.fill(&memory, 1);
        b.fill(&memory, 2);
        if beta != 0.0 {
            c.fill(&memory, 3);
        }
        let before = [a, b, c].map(|matrices| matrices.words(&memory));
        let Storage { lda, ldb, ldc, .. } = storage;
        let operands = GemmOperands {
            lda,
            ldb,
            ldd: ldc,
            alpha: ALPHA,
            beta,
            ..GemmOperands::packed(&problem, a.at, b.at, c.at)
        };
        let host = Host(Mutex::new(memory));
        let runtime = Runtime::new(pinned, &host);
        // SAFETY: the driver executes kernels on the host, and checks every access.
        let ran = unsafe { runtime.gemm(Stream::default(), &problem, &operands) };
        ran.map_err(|error| error.to_string())?;
        let memory = host.0.lock().unwrap();
        if a.words(&memory) != before[0] || b.words(&memory) != before[1] {
            return Err("A or B was changed".to_owned());
        }
        self.judge(&before, &c.words(&memory))
    }

    /// Holds C against f64.
    fn judge(&self, [a, b, before]: &[Vec<u32>; 3], after: &[u32]) -> Result<(), String> {
        let Problem { shape: Shape { m, n, k }, layout, .. } = self.problem;
        let Storage { lda, ldb, ldc, .. } = self.storage;
        let number = |words: &[u32], at: u64| f64::from(f32::from_bits(words[at as usize]));
        let bound = error_bound(&self.problem);
        for (at, (word, old)) in after.iter().zip(before).enumerate() {
            let (row, column) = (at as u64 / ldc, at as u64 % ldc);
            let (product, row) = (row / m, row % m);
            let place = format!("C[{row}][{column}] of product {product}");
            if column >= n {
                if word != old {
                    return Err(format!("{place} is behind the end of the row, and was written"));
                }
                continue;
            }
            let (mut sum, mut size) = (0.0, 0.0);
            for step in 0..k {
                let a_at = if layout.a_transposed() {
                    (product * k + step) * lda + row
                } else {
                    (product * m + row) * lda + step
                };
                let b_at = if layout.b_transposed() {
                    (product * n + column) * ldb + step
                } else {
                    (product * k + step) * ldb + column
                };
                let term = number(a, a_at) * number(b, b_at);
                sum += ALPHA * term;
                size += (ALPHA * term).abs();
            }
            if self.beta != 0.0 {
                let old = self.beta * number(before, at as u64);
                sum += old;
                size += old.abs();
            }
            let got = f64::from(f32::from_bits(*word));
            let error = (got - sum).abs();
            if error.is_nan() || error > bound * size {
                return Err(format!("{place} is {got}, not {sum}"));
            }
        }
        Ok(())
    }

    /// Some configurations of a family that are legal for the case: one of those that are for it
    /// packed, one of those that are where all extents are rounded up, one where they are odd.
    fn sample(&self, family: &Family, random: &mut fastrand::Rng) -> Vec<Configuration> {
        let device = self.device();
        let Shape { m, n, k } = self.problem.shape;
        let up = |extent: u64| if extent == 1 { 1 } else { extent.next_multiple_of(4) };
        let round = Shape { m: up(m), n: up(n), k: up(k) };
        let odd = Shape { m: m | 1, n: n | 1, k: k | 1 };
        let drawn = [self.problem.shape, round, odd].into_iter().filter_map(|shape| {
            let packed = Problem { shape, ..self.problem };
            if family.refusal(&packed, &device).is_some() {
                return None;
            }
            let space = LegalSpace::of(family, &packed, &device).unwrap();
            // Most of the one may be illegal for the other.
            let tries = if space.is_empty() { 0 } else { TRIES };
            let mut drawn = (0..tries).filter_map(|_| space.get(random.usize(..space.len())));
            drawn.find(|configuration| self.permits(family, configuration))
        });
        drawn.collect()
    }

    fn permits(&self, family: &Family, configuration: &Configuration) -> bool {
        let legality = Legality::of(family, configuration, &self.problem, &self.device());
        let extents = Extents::new(&self.problem, &self.storage);
        legality.is_some_and(|legality| legality.permits(family, &extents))
    }
}

/// Extents odd, even and multiples of 4; rows that end in 1, 2 or 4 elements' alignment; products
/// with a side of 1, of few rows and columns, and deep ones, whose K is split.
fn problems() -> Vec<Case> {
    let mut cases = Vec::new();
    for layout in Layout::ALL {
        let case = |shape, multiple, alignment| Case::new(shape, *layout, multiple, alignment);
        cases.extend([
            case("33x65x257", 2, 256),
            case("37x42x515", 4, 16),
            case("70x36x129", 4, 8),
            case("64x96x256", 4, 256),
            case("65x64x132", 0, 8),
            case("40x44x68", 0, 4),
            case("1x1x1030", 2, 256),
            case("1x1x1024", 0, 4),
            case("1x301x516", 4, 16),
            case("302x3x515", 4, 256),
            case("6x128x1024", 1, 256),
        ]);
    }
    for (number, case) in cases.iter_mut().enumerate() {
        case.problem.batch = 1 + u64::from(number % 5 == 0);
        case.beta = if number % 2 == 0 { 0.0 } else { 0.5 };
    }
    // Large for a GPU of 3 SMs: blocks share the last tiles.
    for (number, layout) in Layout::ALL.iter().enumerate() {
        let large = |shape, multiple, alignment, beta| {
            let case = Case::new(shape, *layout, multiple, alignment);
            Case { beta, sms: 3, ..case }
        };
        let beta = if number % 2 == 0 { 0.5 } else { 0.0 };
        cases.extend([large("259x258x133", 4, 256, beta), large("264x256x140", 2, 8, 0.5 - beta)]);
    }
    cases
}

/// A GEMM type that a family serves and whose operands are stored in f32; `None` for families of 16-bit elements, which
/// `gemm-tune check` executes on padded rows.
fn stored_in_f32(family: &Family) -> Option<GemmType> {
    let serves = |types: &GemmType| {
        let problem =
            Problem { types: *types, ..Problem::new("64x64x64".parse().unwrap(), Dtype::F32) };
        types.uniform() == Some(Dtype::F32) && family.refusal(&problem, &Device::cpu()).is_none()
    };
    GemmType::all().find(serves)
}

#[test]
fn every_family_keeps_within_rows_that_are_padded_or_begin_anywhere() {
    let Some(compiler) = compiler_or_skip() else { return };
    // A layout has an odd number of cases, so that every second and every eighth case has other shapes in each.
    let all = problems().into_iter().enumerate();
    let mut chosen: Vec<(usize, Case)> = all.step_by(cases(8, 2)).collect();
    // What a family takes that multiplies f32 along contiguous K only, in rows of multiples of 16 bytes.
    let rows = [("72x80x160", 4, 256), ("65x130x64", 8, 16), ("7x24x36", 4, 256)];
    chosen.extend(rows.into_iter().enumerate().map(|(number, (shape, multiple, alignment))| {
        (number, Case::new(shape, Layout::Nt, multiple, alignment))
    }));
    let (families, templates) = (Families::built_in().unwrap(), Templates::built_in().unwrap());
    let (templates, compiler) = (&templates, &compiler);
    // Searches on this architecture exclude all of `tma`; this variant of it has configurations.
    let others = families.iter().filter(|family| family.name != "tma").map(with_small_tiles);
    for family in others.chain([boxes::boxes()]) {
        let family = &family;
        let Some(types) = stored_in_f32(family) else { continue };
        let executed = chosen.par_iter().flat_map_iter(|&(number, case)| {
            let case = Case { problem: Problem { types, ..case.problem }, ..case };
            let sample = case.sample(family, &mut fastrand::Rng::with_seed(number as u64));
            sample.into_iter().map(move |configuration| {
                let configuration = &configuration;
                let ran = case.run(Pinned {
                    family,
                    configuration,
                    device: case.device(),
                    templates,
                    compiler,
                });
                ran.map_err(|why| format!("{} {configuration} {case:?}: {why}", family.name))
            })
        });
        let executed: Vec<Result<(), String>> = executed.collect();
        let wrong: Vec<&String> = executed.iter().filter_map(|ran| ran.as_ref().err()).collect();
        println!("{}: {} executions, {} wrong", family.name, executed.len(), wrong.len());
        assert!(wrong.is_empty(), "{wrong:#?}");
        let stored = Problem { types, ..Problem::new("64x64x64".parse().unwrap(), Dtype::F32) };
        let is_whole = family.default_for(&stored, &Device::h200()).unwrap().is_some();
        let least = if is_whole { chosen.len() / 2 } else { rows.len() };
        assert!(executed.len() >= least, "{}: {}", family.name, executed.len());
    }
}
