//! Little memory on a GPU: validation in parts judges as validation in one, and a problem is tuned
//! and validated in little more than its operands take.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gemm_tune::compile::{Compile, CompileRequest, CompileThreads};
use gemm_tune::model::{CachePolicy, Dtype, Layout, Mismatch, Problem, Validation};
use gemm_tune::render::Templates;
use gemm_tune::space::{Families, Family};
use gemm_tune::tune::{Hints, Kit, Machine, Settings, Summary, TuneError, TuneEvent, tune};
use gemm_tune::validate::{KERNELS, ValidationSubject, Validator, compile_options};
use gemm_tune::worker::{
    Executor, LaunchArgument, LaunchCommand, OperandAddresses, Scalars, WorkItem,
};

use crate::support::compiler_or_skip;
use crate::support::emulated::{EmulatedGpu, MemoryUse};

const MIB: u64 = 1 << 20;

fn problem(shape: &str) -> Problem {
    Problem::new(shape.parse().unwrap(), Dtype::F32)
}

/// C = alpha op(A) op(B) + beta C, with one element off by `off`; and a write at `at` words from the
/// beginning of B.
const SUBJECT: &str = r#"
extern "C" __global__ void product(const float* A, const float* B, float* C, float alpha, float beta, int M, int N,
                                   int K, int batch, int ta, int tb, long long wrong, float off)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < (long long)batch * M * N) {
        const long long p = i / ((long long)M * N);
        const int row = i / N % M, column = i % N;
        const float* a = A + p * M * K;
        const float* b = B + p * K * N;
        float sum = 0;
        for (int k = 0; k < K; ++k)
            sum += (ta ? a[(long long)k * M + row] : a[(long long)row * K + k])
                 * (tb ? b[(long long)column * K + k] : b[(long long)k * N + column]);
        C[i] = alpha * sum + (beta == 0 ? 0.0f : beta * C[i]) + (i == wrong ? off : 0.0f);
    }
}

extern "C" __global__ void stray(float* B, long long at)
{
    if (at != 0)
        B[at] = 7.0f;
}
"#;

/// What is wrong with the subject: an element of C, by how much, a word of B.
type Fault = (i64, f32, i64);

struct Bench {
    gpu: EmulatedGpu,
    validator: Validator,
    module: u32,
    problem: Problem,
}

impl Bench {
    fn new(compiler: &dyn Compile, problem: Problem, memory: u64) -> Self {
        let mut gpu = EmulatedGpu::new(memory, true);
        let compiled = |name: &str, source: &str, options| {
            let name = name.to_owned();
            compiler.compile(&CompileRequest { source: source.into(), name, options }).unwrap()
        };
        let kernels = compiled("kernels.cu", KERNELS, compile_options(&problem));
        let subject = compiled("product.cu", SUBJECT, Vec::new());
        let module = gpu.load(&subject.image, &[]).unwrap().module;
        let validator = Validator::prepare(&mut gpu, &kernels.image, &problem, 5, memory).unwrap();
        Self { gpu, validator, module, problem }
    }

    fn work(&self, operands: OperandAddresses, scalars: Scalars, fault: Fault) -> Vec<WorkItem> {
        let Problem { shape, batch, layout, .. } = self.problem;
        let pointer = LaunchArgument::Pointer;
        let int = |value: u64| LaunchArgument::I32(value as i32);
        let (wrong, off, stray) = fault;
        let arguments = vec![
            pointer(operands.a),
            pointer(operands.b),
            pointer(operands.c),
            LaunchArgument::F32(scalars.alpha),
            LaunchArgument::F32(scalars.beta),
            int(shape.m),
            int(shape.n),
            int(shape.k),
            int(batch),
            int(layout.a_transposed().into()),
            int(layout.b_transposed().into()),
            LaunchArgument::I64(wrong),
            LaunchArgument::F32(off),
        ];
        let blocks = (batch * shape.m * shape.n).div_ceil(256) as u32;
        let kernel = |entry: &str, blocks: u32, threads: u32, arguments| {
            WorkItem::Kernel(LaunchCommand {
                module: self.module,
                entry: entry.to_owned(),
                grid: [blocks, 1, 1],
                block: [threads, 1, 1],
                dynamic_shared_bytes: 0,
                programmatic: false,
                arguments,
            })
        };
        let stray = vec![pointer(operands.b), LaunchArgument::I64(stray)];
        vec![kernel("product", blocks, 256, arguments), kernel("stray", 1, 1, stray)]
    }

    fn validate(&mut self, fault: Fault) -> Result<Validation, Mismatch> {
        let work = |operands, scalars| self.work(operands, scalars, fault);
        // The closure borrows what `validate` does not change.
        let works = [Scalars::PLAIN, Scalars { alpha: 0.75, beta: -0.5 }]
            .map(|scalars| work(self.validator.operands(), scalars));
        let subject = ValidationSubject {
            work: &|_, scalars| works[usize::from(scalars != Scalars::PLAIN)].clone(),
            workspaces: &[],
        };
        self.validator.validate(&mut self.gpu, &subject).unwrap()
    }

    fn repeat(&mut self) -> Result<(), Mismatch> {
        let first = self.validator.operands();
        let module = self.module;
        let own = self.work(first, Scalars { alpha: 0.75, beta: -0.5 }, (-1, 0.0, 0));
        let subject = ValidationSubject {
            work: &|operands, _| {
                let mut own = own.clone();
                if let Some(WorkItem::Kernel(command)) = own.first_mut() {
                    assert_eq!(command.module, module);
                    command.arguments[2] = LaunchArgument::Pointer(operands.c);
                }
                own
            },
            workspaces: &[],
        };
        self.validator.repeat(&mut self.gpu, &subject).unwrap()
    }
}

#[test]
fn parts_judge_as_the_whole() {
    let Some(compiler) = compiler_or_skip() else { return };
    let problems = [
        problem("66x35x9"),
        Problem { layout: Layout::Tt, batch: 3, ..problem("70x33x17") },
        Problem { layout: Layout::Tn, batch: 150, ..problem("5x9x3") },
    ];
    for problem in problems {
        let elements = (problem.c_elements() * problem.batch) as i64;
        let outcomes = [Validator::footprint(&problem), Validator::least(&problem)].map(|memory| {
            let mut bench = Bench::new(&compiler, problem, memory);
            assert_eq!(bench.validator.is_in_parts(), memory < Validator::footprint(&problem));
            let whole = bench.validator.reference(&mut bench.gpu).unwrap();
            let right = bench.validate((-1, 0.0, 0)).unwrap();
            if !bench.validator.is_in_parts() {
                bench.repeat().unwrap();
            }
            let faults = [
                (elements / 2, 1e-3, 0),
                (elements - 1, f32::NAN, 0),
                (0, 1.0, 0),
                // A word of B, of the guard bytes before it, of those behind it.
                (-1, 0.0, 1),
                (-1, 0.0, -100),
                (-1, 0.0, (problem.b_elements() * problem.batch + 100) as i64),
            ];
            // All of them once: the problems differ in their parts only.
            let tried = if problem.batch == 1 { faults.len() } else { 1 };
            let faults = faults.into_iter().take(tried);
            let wrong: Vec<String> =
                faults.map(|fault| format!("{:?}", bench.validate(fault).unwrap_err())).collect();
            // Faults leave no traces.
            assert_eq!(bench.validate((-1, 0.0, 0)).unwrap(), right);
            bench.validator.release(&mut bench.gpu).unwrap();
            assert_eq!(bench.gpu.used().lock().unwrap().now, 0);
            // NaN is equal to itself as bits.
            (whole.into_iter().map(f64::to_bits).collect::<Vec<u64>>(), right, wrong)
        });
        let [whole, parts] = &outcomes;
        assert!(whole.0 == parts.0, "{problem}: the references differ");
        assert_eq!((&whole.1, &whole.2), (&parts.1, &parts.2), "{problem}");
        let [position, ..] = &whole.2[..] else { panic!("{:?}", whole.2) };
        let (m, n) = (problem.shape.m as i64, problem.shape.n as i64);
        let at = elements / 2;
        let place = format!("at: Some([{}, {}, {}])", at / (m * n), at / n % m, at % n);
        assert!(position.contains(&place), "{position}");
    }
}

/// Tunes a problem on a device with so much memory.
fn tuned(
    compiler: Arc<dyn Compile>,
    problem: &Problem,
    memory: u64,
    executes: bool,
) -> (Result<Summary, TuneError>, Vec<String>, MemoryUse) {
    let gpu = EmulatedGpu::new(memory, executes);
    let used = gpu.used();
    let families = Families::built_in().unwrap();
    let families: Vec<Family> =
        families.iter().filter(|known| known.name == "blocktile").cloned().collect();
    let mut kit = Kit {
        families,
        templates: Templates::built_in().unwrap(),
        compiler,
        threads: CompileThreads::new(NonZeroUsize::MIN).unwrap(),
        machine: Machine::gpus([Box::new(gpu) as Box<dyn Executor>]),
        predictor: Arc::default(),
    };
    let settings = Settings { max_configs: Some(2), ..Settings::default() };
    let mut notes = Vec::new();
    let result = tune(
        problem,
        &Hints::default(),
        &mut kit,
        &settings,
        &AtomicBool::new(false),
        &mut |event| {
            if let TuneEvent::Note(note) = event {
                notes.push(note);
            }
        },
    );
    let used = *used.lock().unwrap();
    (result, notes, used)
}

#[test]
fn a_large_product_is_tuned_in_little_more_than_its_operands() {
    let Some(compiler) = compiler_or_skip() else { return };
    let compiler: Arc<dyn Compile> = Arc::new(compiler);
    let problem = problem("1000x1000x1000");
    let least = Validator::least(&problem);
    // 11.4 MiB of operands, 8 MiB of guard bytes, 0.2 MiB of references.
    assert!(least < 20 * MIB, "{least}");
    for memory in [least, 26 * MIB, 41 * MIB, 96 * MIB, 1 << 30] {
        let (result, notes, used) = tuned(Arc::clone(&compiler), &problem, memory, false);
        let summary = result.unwrap_or_else(|error| panic!("{memory}: {error}"));
        let best = summary.ranking.first().expect("a winner");
        let is_hot = best.measurement.regime.cache == CachePolicy::Hot;
        assert_eq!(is_hot, memory < 200 * MIB, "{memory}");
        assert!(
            notes.iter().any(|note| note.contains("cache policy `hot`")) == is_hot,
            "{notes:?}"
        );
        // All checks ran, but a second C beside the operands needs 6 MiB more.
        let left_out = notes.iter().filter(|note| note.contains("not checked")).count();
        assert_eq!(left_out > 0, memory == least, "{memory}: {notes:?}");
        assert_eq!(best.also.is_empty(), memory == least, "{memory}: {:?}", best.also);
        assert!(used.most <= memory && used.now == 0, "{memory}: {used:?}");
    }
    let (result, _, used) = tuned(compiler, &problem, least - 1, false);
    let error = result.map(drop).expect_err("too little").to_string();
    assert!(error.contains("needs at least") && error.contains("end other programs"), "{error}");
    assert_eq!((used.most, used.now), (0, 0));
}

#[test]
fn a_small_product_is_tuned_and_validated_in_parts() {
    let Some(compiler) = compiler_or_skip() else { return };
    let problem = problem("150x90x40");
    let memory = Validator::least(&problem) + 3 * MIB;
    let (result, notes, used) = tuned(Arc::new(compiler), &problem, memory, true);
    let summary = result.unwrap();
    let best = summary.ranking.first().expect("a winner");
    assert_eq!(best.measurement.regime.cache, CachePolicy::Hot);
    assert!(best.validation.max_error > 0.0 && best.validation.max_error < best.validation.bound);
    assert!(best.also.iter().any(|check| check.contains("the same bits twice")), "{notes:?}");
    assert!(best.also.iter().any(|check| check.contains("151x90x40")), "{:?}", best.also);
    assert!(used.most <= memory && used.now == 0, "{used:?}");
}
