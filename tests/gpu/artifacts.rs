//! What other programs get: the runtime in a context of the user's, and exported artifacts.

#![expect(unsafe_code, reason = "operands are addresses")]

use std::path::Path;
use std::process::Command;

use gemm_tune::arithmetic::error_bound;
use gemm_tune::database::{Database, Record};
use gemm_tune::gpu::{CudaDevice, DeviceBuffer, ForeignContext};
use gemm_tune::lookup::Lookup;
use gemm_tune::model::{Layout, Problem, Regime};
use gemm_tune::render::Templates;
use gemm_tune::runtime::{DatabaseKernels, GemmOperands, Runtime, SeparateC};
use gemm_tune::space::{Families, Family};
use libtest_mimic::Failed;

use crate::rig::{boxes, compiler, gemm_tune, problem, worker};

const SAMPLED: usize = 2000;

fn put(gpu: &CudaDevice, values: &[f32]) -> DeviceBuffer {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    let buffer = gpu.allocate(bytes.len() as u64).unwrap();
    gpu.copy_to_device(buffer.address(), &bytes).unwrap();
    buffer
}

fn get(gpu: &CudaDevice, buffer: &DeviceBuffer) -> Vec<f32> {
    let mut bytes = vec![0; buffer.bytes() as usize];
    gpu.copy_to_host(buffer.address(), &mut bytes).unwrap();
    bytes.chunks_exact(4).map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// The runtime on the families' defaults: every layout, odd sizes, padded rows, alpha and beta.
pub(crate) fn runtime_multiplies() -> Result<(), Failed> {
    let families: Vec<Family> = Families::built_in()?.iter().cloned().collect();
    multiplies(
        &families,
        &[],
        &[
            ([512, 512, 512], Layout::Nn, 0),
            ([777, 1001, 513], Layout::Nn, 5),
            ([64, 64, 4096], Layout::Tn, 0),
            ([1, 3000, 700], Layout::Nt, 1),
            ([300, 2, 900], Layout::Tt, 0),
            ([2048, 1024, 640], Layout::Nt, 4),
        ],
    )
}

/// The runtime on kernels with tensor maps: of operands, also with padded rows, and of what was packed.
pub(crate) fn runtime_encodes_maps() -> Result<(), Failed> {
    multiplies(
        &[boxes()],
        &[],
        &[
            ([512, 512, 512], Layout::Nn, 0),
            ([780, 1000, 513], Layout::Tn, 4),
            ([64, 64, 4096], Layout::Tn, 0),
            ([2048, 1024, 640], Layout::Nt, 4),
        ],
    )
}

/// The runtime on families and records, in the context that is current.
fn runtime_on(
    families: &[Family],
    records: &[Record],
) -> Result<Runtime<DatabaseKernels, ForeignContext>, Failed> {
    let worker = worker();
    let compiler = compiler(&worker);
    drop(worker);
    let guest = ForeignContext::enter()?;
    let device = guest.device().clone();
    let templates = Templates::built_in()?;
    let lookup = Lookup::new(records, families, &templates, &device, Regime::default());
    let kernels = DatabaseKernels::new(lookup, templates, Box::new(compiler), &device);
    Ok(Runtime::new(kernels, guest))
}

/// Products of these shapes, with their layout and the elements between rows, against f64. Each is made
/// twice, the second time with copies of the operands.
fn multiplies(
    families: &[Family],
    records: &[Record],
    cases: &[([u64; 3], Layout, u64)],
) -> Result<(), Failed> {
    let gpu = CudaDevice::open(0)?;
    let runtime = runtime_on(families, records)?;
    let mut random = fastrand::Rng::with_seed(1);
    let mut matrix =
        |count: u64| (0..count).map(|_| random.f32() * 2.0 - 1.0).collect::<Vec<f32>>();
    let mut places = fastrand::Rng::with_seed(2);
    for ([m, n, k], layout, pad) in cases.iter().copied() {
        let problem = Problem { layout, ..problem(m, n, k) };
        let (lda, ldb, ldc) = (problem.lda() + pad, problem.ldb() + pad, n + pad);
        let a = matrix(lda * if layout.a_transposed() { k } else { m });
        let b = matrix(ldb * if layout.b_transposed() { n } else { k });
        let c = matrix(ldc * m);
        let on_gpu = [put(&gpu, &a), put(&gpu, &b), put(&gpu, &c)];
        let [at_a, at_b, at_c] = on_gpu.each_ref().map(DeviceBuffer::address);
        let operands = GemmOperands {
            lda,
            ldb,
            ldd: ldc,
            alpha: 1.5,
            beta: -0.5,
            ..GemmOperands::packed(&problem, at_a, at_b, at_c)
        };
        let name = runtime.warm_up(&problem, &operands)?;
        let elsewhere = [put(&gpu, &b), put(&gpu, &a), put(&gpu, &c)];
        let [b_there, a_there, c_there] = elsewhere.each_ref().map(DeviceBuffer::address);
        let others = GemmOperands { a: a_there, b: b_there, d: c_there, ..operands };
        // C in a buffer of its own, and other numbers in the rows of D.
        let overwritten = c.iter().zip(0..).map(|(c, at)| if at % ldc < n { 7.0 } else { *c });
        let separate = [put(&gpu, &c), put(&gpu, &overwritten.collect::<Vec<f32>>())];
        let [c_alone, d_alone] = separate.each_ref().map(DeviceBuffer::address);
        let c_alone = Some(SeparateC { address: c_alone, ldc });
        let apart = GemmOperands { d: d_alone, c: c_alone, ..operands };
        for operands in [&operands, &others, &apart] {
            // SAFETY: the buffers have the problem's sizes, and live until the device is done.
            unsafe { runtime.gemm(gpu.stream(), &problem, operands)? };
        }
        gpu.synchronize()?;
        for other in [&elsewhere[2], &separate[1]] {
            assert_eq!(get(&gpu, &on_gpu[2]), get(&gpu, other), "{problem}: {name}");
        }
        let result = get(&gpu, &on_gpu[2]);
        let bound = error_bound(&problem);
        let mut worst = 0.0_f64;
        for _ in 0..SAMPLED {
            let (row, column) = (places.u64(0..m), places.u64(0..n));
            let (mut sum, mut size) = (0.0, 0.0);
            for step in 0..k {
                let a_at = if layout.a_transposed() { step * lda + row } else { row * lda + step };
                let b_at =
                    if layout.b_transposed() { column * ldb + step } else { step * ldb + column };
                let term = f64::from(a[a_at as usize]) * f64::from(b[b_at as usize]);
                sum += 1.5 * term;
                size += 1.5 * term.abs();
            }
            let at = (row * ldc + column) as usize;
            let before = f64::from(c[at]);
            let error = (f64::from(result[at]) - sum + 0.5 * before).abs();
            worst = worst.max(error / (size + 0.5 * before.abs()) / bound);
            assert!(!error.is_nan(), "{problem}: {name}");
        }
        println!("{problem} +{pad}: error/bound {worst:.3}, {name}");
        assert!(worst <= 1.0, "{problem}: {name}");
        // What lies between the rows stays as it was.
        for row in 0..m {
            let gap = (row * ldc + n) as usize..((row + 1) * ldc) as usize;
            assert_eq!(result[gap.clone()], c[gap], "{problem}: {name}");
        }
    }
    Ok(())
}

/// How tests/artifacts/check.c samples, and what it calls too slow.
const SAMPLES: usize = 40;
const SAMPLE_US: f64 = 1000.0;
const MOST_LAUNCHES: f64 = 256.0;
const FLUSHES: usize = 8;
const ROTATED_BYTES: u64 = 160 << 20;
const SLOWEST: f64 = 1.03;

/// The runtime on records: products of tuned and of other shapes, and its times for the former, of recorded
/// launches on operands that are not in the cache, beside those of the records.
fn runtime_is_as_fast(records: &[Record]) -> Result<(), Failed> {
    let families: Vec<Family> = Families::built_in()?.iter().cloned().collect();
    let tuned: Vec<Problem> = records
        .iter()
        .map(|record| Problem::try_from(&record.problem))
        .collect::<Result<_, _>>()?;
    let packed = tuned.iter().map(|problem| {
        let shape = problem.shape;
        ([shape.m, shape.n, shape.k], Layout::Nn, 0)
    });
    let others = [
        ([1500, 700, 900], Layout::Nn, 0),
        ([3000, 2500, 640], Layout::Nn, 0),
        ([777, 1001, 513], Layout::Nn, 5),
    ];
    multiplies(&families, records, &packed.chain(others).collect::<Vec<_>>())?;

    let gpu = CudaDevice::open(0)?;
    let runtime = runtime_on(&families, records)?;
    let flushed = gpu.allocate(ROTATED_BYTES)?;
    let mut random = fastrand::Rng::with_seed(3);
    for (problem, record) in tuned.iter().zip(records) {
        let measured = record.measurement.median_us;
        let mut matrix = |count: u64| {
            put(&gpu, &(0..count).map(|_| random.f32() * 2.0 - 1.0).collect::<Vec<f32>>())
        };
        let sets: Vec<[DeviceBuffer; 3]> = (0..ROTATED_BYTES / problem.bytes() + 1)
            .map(|_| {
                [problem.a_elements(), problem.b_elements(), problem.c_elements()].map(&mut matrix)
            })
            .collect();
        let count = (SAMPLE_US / measured).ceil().clamp(1.0, MOST_LAUNCHES) as usize;
        let launch_all = |gpu: &CudaDevice| {
            for [a, b, c] in sets.iter().cycle().take(count) {
                let operands = GemmOperands::packed(problem, a.address(), b.address(), c.address());
                // SAFETY: the buffers have the problem's sizes, and live until the device is done.
                unsafe { runtime.gemm(gpu.stream(), problem, &operands).unwrap() };
            }
            Ok(())
        };
        launch_all(&gpu)?;
        let graph = gpu.capture(launch_all)?;
        let (before, after) = (gpu.event()?, gpu.event()?);
        let mut samples = Vec::new();
        for _ in 0..SAMPLES {
            for _ in 0..FLUSHES {
                gpu.fill_bytes(flushed.address(), 1, ROTATED_BYTES)?;
            }
            before.record()?;
            graph.launch()?;
            after.record()?;
            after.synchronize()?;
            samples.push(after.elapsed_since(&before)?.0 / count as f64);
        }
        samples.sort_by(f64::total_cmp);
        let median = samples[SAMPLES / 2];
        let ratio = median / measured;
        println!("runtime {problem}: {median:.2} us  tuner {measured:.2} us  ratio {ratio:.3}");
        assert!(ratio <= SLOWEST, "{problem}");
    }
    Ok(())
}

/// What tests/artifacts/types.py multiplies: arguments of a tuning run each.
const TYPES: [&str; 5] = [
    "--dtype bf16 --epilogue bias,gelu --family mma",
    "--dtype f16 --out f32 --layout nt --family wgmma",
    "--compute tf32 --layout nt --epilogue silu,mul --family wgmma",
    "--dtype i8 --layout nt --family wgmma",
    "--epilogue row-scale,residual",
];

/// Tunes problems of several types and with epilogues, and multiplies with the exported Python module.
pub(crate) fn artifacts_have_types() -> Result<(), Failed> {
    let out = module_of("types", &TYPES)?;
    runs_well(Command::new("python3").args(["-B", "tests/artifacts/types.py", &out]))
}

/// What a model multiplies, forward and backward: arguments of a tuning run each.
const OF_MODELS: [&str; 14] = [
    "--dtype f32 --layout nn",
    "--dtype f32 --layout nt",
    "--dtype f32 --layout tn",
    "--compute tf32 --layout nn",
    "--compute tf32 --layout nt",
    "--dtype f16 --layout nn",
    "--dtype f16 --layout nt",
    "--dtype bf16 --layout nn",
    "--dtype bf16 --layout nt",
    "--dtype bf16 --layout tn",
    "--dtype bf16 --layout nt --epilogue bias",
    "--dtype bf16 --layout nt --epilogue bias,gelu",
    "--dtype f16 --layout nt --epilogue bias,silu",
    "--dtype i8 --layout nt --family wgmma",
];

/// The operators of the exported Python module in PyTorch, on kernels that were hardly searched for.
pub(crate) fn operators_multiply() -> Result<(), Failed> {
    let out = module_of("operators", &OF_MODELS)?;
    runs_well(Command::new("python3").args(["-B", "tests/pytorch/gpu.py", &out]))
}

/// The same kernels in JAX.
pub(crate) fn products_multiply_in_jax() -> Result<(), Failed> {
    let out = module_of("jax", &OF_MODELS)?;
    runs_well(Command::new("python3").args(["-B", "tests/jax/gpu.py", &out]))
}

/// Tunes problems a little, and exports a Python module of their kernels and a few for untuned shapes.
fn module_of(name: &str, problems: &[&str]) -> Result<String, Failed> {
    let folder = &Path::new("target/test-artifacts").join(name);
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder)?;
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (database, out) = (at("db.toml"), at("python"));
    for words in problems {
        let own = ["--shape", "512x384x256", "--max-configs", "10", "--db", &database];
        let arguments: Vec<&str> = words.split(' ').chain(own).collect();
        assert_eq!(gemm_tune(&arguments).1, Some(0), "{words}");
    }
    let few = ["--max-kernels", "16", "-o", &out, "--db", &database];
    let arguments = [&["export", "--format", "python"][..], &few].concat();
    assert_eq!(gemm_tune(&arguments).1, Some(0));
    Ok(out)
}

/// Tunes a little, exports, and multiplies with C, Python and the runtime.
pub(crate) fn artifacts_multiply() -> Result<(), Failed> {
    let folder = Path::new("target/test-artifacts/gpu");
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder)?;
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let database = at("db.toml");
    let shapes =
        ["--shape", "512x512x512", "--shape", "1000x1000x1000", "--shape", "2048x2048x512"];
    let (_, code) = gemm_tune(&[&shapes[..], &["--max-configs", "60", "--db", &database]].concat());
    assert_eq!(code, Some(0));
    let out = at("python");
    let arguments = ["export", "--format", "python", "-o", &out, "--db", &database];
    assert_eq!(gemm_tune(&arguments).1, Some(0));
    let database = Database::load_existing(Path::new(&database))?;
    runtime_is_as_fast(database.records())?;
    let tuned = database.records().iter().map(|record| {
        format!(
            "{}:{}",
            Problem::try_from(&record.problem).unwrap().shape,
            record.measurement.median_us
        )
    });
    let others = ["1500x700x900", "3000x2500x640", "777x1001x513+5", "200x300x64x24"];
    let program = &mut Command::new("sh");
    runs_well(program.args(["tests/artifacts/check.sh", &out]).args(tuned).args(others))
}

/// Runs a program, prints what it says, and fails where it does.
pub(crate) fn runs_well(program: &mut Command) -> Result<(), Failed> {
    let output = program.output()?;
    print!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success());
    Ok(())
}
