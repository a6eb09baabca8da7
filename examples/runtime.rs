//! Multiplies random matrices through `gemm_tune::runtime` on a GPU, with the kernels of a bundle: for
//! each shape, the largest error of sampled elements over its bound, the median time, and what a call
//! costs the host.
//!
//! `cargo run --release --example runtime -- BUNDLE MxNxK[+PAD][:US]...`, where rows are longer by PAD
//! elements and US is what the tuner measured.

#![expect(unsafe_code, reason = "operands are addresses")]
#![expect(clippy::print_stdout, reason = "it shows what it measured")]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use gemm_tune::arithmetic::error_bound;
use gemm_tune::gpu::{CudaDevice, DeviceBuffer};
use gemm_tune::model::{Dtype, Micros, Problem};
use gemm_tune::runtime::{GemmOperands, Runtime};

const SAMPLES: usize = 40;
const LAUNCHES: usize = 10;
const ELEMENTS: usize = 4000;
/// GemmOperands rotate through so much, more than twice the L2 cache of an H200.
const ROTATED_BYTES: u64 = 160 << 20;
const MAX_SETS: u64 = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [bundle, shapes @ ..] = &arguments[..] else {
        return Err("usage: runtime BUNDLE MxNxK[+PAD][:US]...".into());
    };
    // Its context is current from here on: a foreign context for the runtime.
    let gpu = CudaDevice::open(0)?;
    let runtime = Runtime::open_bundle(Path::new(bundle))?;
    let flushed = gpu.allocate(ROTATED_BYTES)?;
    let mut right = true;
    for word in shapes {
        let (shape, expected) = word.split_once(':').unwrap_or((word, ""));
        let (shape, pad) = shape.split_once('+').unwrap_or((shape, "0"));
        let problem = Problem::new(shape.parse()?, Dtype::F32);
        let pad: u64 = pad.parse()?;
        let (m, n, k) = (problem.shape.m, problem.shape.n, problem.shape.k);
        let (lda, ldb, ldc) = (k + pad, n + pad, n + pad);
        let mut random = fastrand::Rng::with_seed(1);
        let mut matrix =
            |count: u64| -> Vec<f32> { (0..count).map(|_| random.f32() * 2.0 - 1.0).collect() };
        let (a, b) = (matrix(m * lda), matrix(k * ldb));
        let mut c = vec![f32::NAN; (m * ldc) as usize];
        let bytes =
            |values: &[f32]| values.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>();
        let (a_bytes, b_bytes, c_bytes) = (bytes(&a), bytes(&b), bytes(&c));
        let all = (a_bytes.len() + b_bytes.len() + c_bytes.len()) as u64;
        let sets = (0..(ROTATED_BYTES / all + 1).min(MAX_SETS))
            .map(|_| Ok([put(&gpu, &a_bytes)?, put(&gpu, &b_bytes)?, put(&gpu, &c_bytes)?]))
            .collect::<Result<Vec<[DeviceBuffer; 3]>, Box<dyn Error>>>()?;
        let call = |turn: usize| {
            let [a, b, c] = sets[turn % sets.len()].each_ref().map(DeviceBuffer::address);
            let operands =
                GemmOperands { lda, ldb, ldd: ldc, ..GemmOperands::packed(&problem, a, b, c) };
            // SAFETY: the buffers have the problem's sizes, and live until the device is done.
            unsafe { runtime.gemm(gpu.stream(), &problem, &operands) }
        };
        call(0)?;
        let mut back = c_bytes.clone();
        gpu.copy_to_host(sets[0][2].address(), &mut back)?;
        for (value, bytes) in c.iter_mut().zip(back.chunks_exact(4)) {
            *value = f32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        let bound = error_bound(&problem);
        let worst = (0..ELEMENTS)
            .map(|_| {
                let (row, column) = (random.u64(0..m), random.u64(0..n));
                let (mut sum, mut size) = (0.0, 0.0);
                for step in 0..k {
                    let term = f64::from(a[(row * lda + step) as usize])
                        * f64::from(b[(step * ldb + column) as usize]);
                    sum += term;
                    size += term.abs();
                }
                let error =
                    (f64::from(c[(row * ldc + column) as usize]) - sum).abs() / size / bound;
                if error.is_nan() { f64::INFINITY } else { error }
            })
            .fold(0.0, f64::max);
        // Replays of recorded launches, as the tuner's samples are: without the host's time.
        let graph = gpu.capture(|_| {
            (0..LAUNCHES).try_for_each(|turn| {
                call(turn).map_err(|error| match error {
                    gemm_tune::runtime::RuntimeError::Gpu(error) => error,
                    other => unreachable!("prepared before: {other}"),
                })
            })
        })?;
        let (begin, end) = (gpu.event()?, gpu.event()?);
        let mut times = Vec::new();
        for sample in 0..SAMPLES {
            for _ in 0..2 {
                gpu.fill_bytes(flushed.address(), sample as u8, ROTATED_BYTES)?;
            }
            begin.record()?;
            graph.launch()?;
            end.record()?;
            end.synchronize()?;
            let Micros(time) = end.elapsed_since(&begin)?;
            times.push(time / LAUNCHES as f64);
        }
        times.sort_by(f64::total_cmp);
        let began = Instant::now();
        (0..200).try_for_each(&call)?;
        let host = began.elapsed().as_secs_f64() * 1e6 / 200.0;
        gpu.synchronize()?;
        let median = times[SAMPLES / 2];
        let against = match expected.parse::<f64>() {
            Ok(us) => format!("  tuner {us:9.2} us  ratio {:.3}", median / us),
            Err(_) => String::new(),
        };
        println!(
            "rust   {word:18} error/bound {worst:.3}  {median:9.2} us{against}  host {host:.2} us a call"
        );
        right &= worst <= 1.0;
    }
    if right { Ok(()) } else { Err("a result is beyond its bound".into()) }
}

fn put(gpu: &CudaDevice, bytes: &[u8]) -> Result<DeviceBuffer, Box<dyn Error>> {
    let buffer = gpu.allocate(bytes.len() as u64)?;
    gpu.copy_to_device(buffer.address(), bytes)?;
    Ok(buffer)
}
