//! Times products of a bundle by the tuner's protocol, and holds them against sums in f64: the surface `rust` of
//! `results/surfaces`, whose README says how.
//!
//! `cargo run --release -p gemm-tune-runtime --example surfaces -- BUNDLE PROBLEMS`
//!
//! Prints a row for each problem: surface, problem, median microseconds and their interval, the largest error over its
//! bound, and a note.

#![expect(
    unsafe_code,
    reason = "operands are addresses, because their types are not known when this is compiled"
)]
#![expect(clippy::print_stdout, reason = "it shows what it measured")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use gemm_tune_runtime::cudarc::driver::{CudaContext, CudaEvent, CudaStream, result, sys};
use gemm_tune_runtime::model::{
    Compute, Dtype, Epilogue, EpilogueAddresses, EpilogueOp, GemmType, Problem, Shape,
};
use gemm_tune_runtime::{GemmOperands, Multiplier, RuntimeError, Stream, device_count};

type Any = Box<dyn Error>;

const SAMPLES: usize = 31;
/// Ranks of the samples in order that bound their median with 95 %.
const RANKS: [usize; 2] = [9, 21];
/// Launches of a sample take so long together, as in a final of the tuner.
const SAMPLE_US: f64 = 1000.0;
const FIRST_LAUNCHES: usize = 3;
const MOST_LAUNCHES: f64 = 256.0;
const MOST_SETS: u64 = 256;
const MOST_LATE: usize = 100;
/// Most bytes that are overwritten before a sample.
const MOST_FLUSHED: usize = 1 << 31;
/// Rows of D that are compared.
const ROWS: u64 = 8;

fn main() -> Result<(), Any> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [bundle, problems] = &arguments[..] else {
        return Err("usage: surfaces BUNDLE PROBLEMS".into());
    };
    if device_count()? == 0 {
        return Err("the driver reports no CUDA device".into());
    }
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let event = || context.new_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT));
    let cache = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE;
    let mut timer = Timer {
        multiplier: Multiplier::open(&context, Path::new(bundle))?,
        l2_bytes: context.attribute(cache)? as usize,
        flushed: Memory::new(MOST_FLUSHED)?,
        flush_bytes: 0,
        events: [event()?, event()?],
        stream,
    };
    for line in std::fs::read_to_string(problems)?.lines() {
        let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
        if !words.is_empty() {
            println!("rust,\"{}\",{}", words.join(" "), timer.row(&parse(&words)?)?);
        }
    }
    Ok(())
}

/// The problem of a line such as `tf32 f32 nt 4096x4096x2048 bias,gelu`.
fn parse(words: &[&str]) -> Result<Problem, Any> {
    let [dtype, out, layout, shape, epilogue] = words else {
        return Err(format!("`{}` is no problem", words.join(" ")).into());
    };
    let (dtype, compute) = match *dtype {
        "tf32" => (Dtype::F32, Compute::Tf32),
        other => (other.parse()?, GemmType::of(other.parse()?).compute),
    };
    let types = GemmType { d: out.parse()?, compute, ..GemmType::of(dtype) }.check()?;
    let epilogue: Epilogue = if *epilogue == "-" { Epilogue::NONE } else { epilogue.parse()? };
    let epilogue = epilogue.check(types)?;
    Ok(Problem {
        types,
        epilogue,
        layout: layout.parse()?,
        ..Problem::new(shape.parse::<Shape>()?, dtype)
    })
}

/// Device memory, freed at the end.
struct Memory(sys::CUdeviceptr);

impl Memory {
    fn new(bytes: usize) -> Result<Self, Any> {
        // SAFETY: a context is current since it was made.
        Ok(Self(unsafe { result::malloc_sync(bytes.max(1)) }?))
    }

    fn of(bytes: &[u8]) -> Result<Self, Any> {
        let memory = Self::new(bytes.len())?;
        // SAFETY: the memory is as long as the bytes.
        unsafe { result::memcpy_htod_sync(memory.0, bytes) }?;
        Ok(memory)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was allocated by `new`, and all work that uses it has been waited for.
        let _ = unsafe { result::free_sync(self.0) };
    }
}

/// An operand on the host.
struct Operand {
    dtype: Dtype,
    bytes: Vec<u8>,
}

impl Operand {
    /// Random elements: uniform in [-factor, factor), or all numbers of 8 bits.
    fn random(dtype: Dtype, elements: u64, factor: f32, random: &mut Random) -> Self {
        let mut bytes = Vec::with_capacity((elements * dtype.bytes()) as usize);
        for _ in 0..elements {
            let value = random.uniform() * factor;
            match dtype {
                Dtype::F32 => bytes.extend(value.to_ne_bytes()),
                Dtype::I8 => bytes.push(random.bits() as u8),
                Dtype::I32 => bytes.extend((random.bits() as i32 >> 22).to_ne_bytes()),
                Dtype::F16 => bytes.extend(half_bits(value).to_ne_bytes()),
                Dtype::Bf16 => bytes.extend(((value.to_bits() >> 16) as u16).to_ne_bytes()),
            }
        }
        Self { dtype, bytes }
    }

    fn element(&self, place: u64) -> f64 {
        let at = place as usize;
        let word = |at: usize| u16::from_ne_bytes([self.bytes[2 * at], self.bytes[2 * at + 1]]);
        let double = |at: usize| {
            let [a, b, c, d] = [0, 1, 2, 3].map(|byte| self.bytes[4 * at + byte]);
            u32::from_ne_bytes([a, b, c, d])
        };
        match self.dtype {
            Dtype::F32 => f64::from(f32::from_bits(double(at))),
            Dtype::I32 => f64::from(double(at) as i32),
            Dtype::I8 => f64::from(self.bytes[at] as i8),
            Dtype::Bf16 => f64::from(f32::from_bits(u32::from(word(at)) << 16)),
            Dtype::F16 => of_half_bits(word(at)),
        }
    }
}

/// The bits of a number of at most 1 in binary16, without those that do not fit.
fn half_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    let (sign, exponent) = ((bits >> 16) as u16 & 0x8000, (bits >> 23) & 255);
    if exponent < 113 {
        return sign;
    }
    sign | (((exponent - 112) << 10) | ((bits >> 13) & 0x3ff)) as u16
}

fn of_half_bits(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10) & 31, f64::from(bits & 1023));
    let size = match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2_f64.powi(exponent - 25),
    };
    if bits & 0x8000 == 0 { size } else { -size }
}

/// Half a unit in the last place of a number, relative to it.
fn roundoff(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F32 => 2_f64.powi(-24),
        Dtype::F16 => 2_f64.powi(-11),
        Dtype::Bf16 => 2_f64.powi(-8),
        Dtype::I32 | Dtype::I8 => 0.0,
    }
}

/// What rounding to a subnormal number adds to that: the exponents of f16 end at 2^-14.
fn least(dtype: Dtype) -> f64 {
    if dtype == Dtype::F16 { 2_f64.powi(-24) } else { 1e-30 }
}

/// Numbers of xorshift.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32
    }

    /// Uniform in [-1, 1).
    fn uniform(&mut self) -> f32 {
        (self.bits() >> 8) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// A, B and the operands of the epilogue.
struct Operands {
    a: Operand,
    b: Operand,
    others: Vec<(EpilogueOp, Operand)>,
}

impl Operands {
    fn random(problem: &Problem) -> Self {
        let random = &mut Random(1);
        let types = problem.types;
        let a = Operand::random(types.a, problem.a_elements(), 1.0, random);
        let b = Operand::random(types.b, problem.b_elements(), 1.0, random);
        let others = problem.epilogue_bytes().map(|(operation, bytes)| {
            let dtype = operation.operand_dtype(types);
            let factor = if operation.is_scale() { 1.0 / 64.0 } else { 1.0 };
            (operation, Operand::random(dtype, bytes / dtype.bytes(), factor, random))
        });
        let others = others.collect();
        Self { a, b, others }
    }

    /// The largest error over its bound in some rows of D.
    fn largest_error(&self, problem: &Problem, d: &Operand) -> f64 {
        let (Shape { m, n, k }, layout) = (problem.shape, problem.layout);
        let rate = match problem.types.compute {
            Compute::I8 | Compute::I32 => 0.0,
            Compute::Tf32 => 2_f64.powi(-22) * (k as f64).sqrt() + 2_f64.powi(-10),
            _ => 2_f64.powi(-22) * (k as f64).sqrt(),
        };
        let (random, unit, least) = (&mut Random(2), roundoff(d.dtype), least(d.dtype));
        let rows: Vec<u64> = (0..ROWS)
            .map(|place| if place == 0 { m - 1 } else { u64::from(random.bits()) % m })
            .collect();
        let of_a = |row: u64, step: u64| {
            self.a.element(if layout.a_transposed() { step * m + row } else { row * k + step })
        };
        let of_rows: Vec<Vec<f64>> =
            rows.iter().map(|row| (0..k).map(|step| of_a(*row, step)).collect()).collect();
        let mut sums = vec![vec![[0.0; 2]; n as usize]; rows.len()];
        // B in the order in which it is stored, each element converted once.
        for place in 0..k * n {
            let (step, column) =
                if layout.b_transposed() { (place % k, place / k) } else { (place / n, place % n) };
            let of_b = self.b.element(place);
            for (sums, of_row) in sums.iter_mut().zip(&of_rows) {
                let term = of_row[step as usize] * of_b;
                let [sum, size] = &mut sums[column as usize];
                *sum += term;
                *size += term.abs();
            }
        }
        let mut worst = 0.0_f64;
        for (row, sums) in rows.iter().zip(&sums) {
            for (column, [sum, size]) in (0..n).zip(sums) {
                let (value, error) = self.finished(problem, (*sum, rate * size), *row, column);
                let off = (d.element(row * n + column) - value).abs();
                let ratio = off / (error + 2.0 * unit * value.abs() + least);
                worst = worst.max(if ratio.is_nan() { f64::INFINITY } else { ratio });
            }
        }
        worst
    }

    /// The epilogue of a value, and the error behind it.
    fn finished(&self, problem: &Problem, before: (f64, f64), row: u64, column: u64) -> (f64, f64) {
        let (mut value, mut error) = before;
        let small = 2_f64.powi(-22);
        for operation in problem.epilogue.operations() {
            let place = match operation {
                EpilogueOp::Bias | EpilogueOp::ColScale => column,
                EpilogueOp::RowScale => row,
                _ => row * problem.shape.n + column,
            };
            let operand = self.others.iter().find(|(other, _)| *other == operation);
            let operand = operand.map(|(_, operand)| operand.element(place));
            (value, error) = match (operation, operand) {
                (EpilogueOp::Bias | EpilogueOp::Residual, Some(operand)) => {
                    (value + operand, error + small * operand.abs())
                }
                (_, Some(operand)) => {
                    let scaled = value * operand;
                    (scaled, error * operand.abs() + small * scaled.abs())
                }
                (EpilogueOp::Relu, None) => (value.max(0.0), error),
                (EpilogueOp::Silu, None) => (value / (1.0 + (-value).exp()), 1.2 * error + 1e-6),
                (EpilogueOp::Gelu, None) => {
                    (value * normal_distribution(value), 1.2 * error + 1e-6)
                }
                _ => (f64::NAN, error),
            };
        }
        (value, error)
    }
}

/// The distribution function of the normal distribution: 1 / 2 + φ(x) (x + x³ / 3 + x⁵ / 15 + ...), whose terms are all of
/// one sign.
fn normal_distribution(x: f64) -> f64 {
    if x.abs() > 8.0 {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    let (mut sum, mut term, mut odd) = (0.0, x, 1.0);
    while term.abs() > 1e-18 {
        sum += term;
        odd += 2.0;
        term *= x * x / odd;
    }
    0.5 + sum * (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// A device with what times are measured with.
struct Timer {
    multiplier: Multiplier,
    stream: Arc<CudaStream>,
    events: [CudaEvent; 2],
    l2_bytes: usize,
    flushed: Memory,
    flush_bytes: usize,
}

impl Timer {
    /// The columns of a problem behind its name.
    fn row(&mut self, problem: &Problem) -> Result<String, Any> {
        match self.multiplier.warm_up(problem) {
            Err(RuntimeError::NoKernel { .. }) => return Ok(",,,,no kernel".to_owned()),
            other => other?,
        };
        let operands = Operands::random(problem);
        let d_bytes = (problem.c_elements() * problem.types.d.bytes()) as usize;
        let mut d = Operand { dtype: problem.types.d, bytes: vec![0xff; d_bytes] };
        let set_bytes =
            problem.bytes() + problem.epilogue_bytes().map(|(_, bytes)| bytes).sum::<u64>();
        let count = (2 * self.l2_bytes as u64 / set_bytes + 1).min(MOST_SETS);
        let sets: Vec<Set> =
            (0..count).map(|_| Set::of(problem, &operands, &d.bytes)).collect::<Result<_, _>>()?;
        self.run(problem, &sets[0])?;
        self.stream.synchronize()?;
        // SAFETY: D is as long as the buffer, and the product is done.
        unsafe { result::memcpy_dtoh_sync(&mut d.bytes, sets[0].operands.d) }?;
        let error = operands.largest_error(problem, &d);
        self.flush_bytes = 2 * self.l2_bytes;
        let late = || format!(",,,{error:.3},the host is slower than the GPU");
        let Some(first) = self.samples(problem, &sets, FIRST_LAUNCHES, 3)? else {
            return Ok(late());
        };
        let launches = (SAMPLE_US / first[1]).ceil().clamp(1.0, MOST_LAUNCHES) as usize;
        let Some(times) = self.samples(problem, &sets, launches, SAMPLES)? else {
            return Ok(late());
        };
        let [low, high] = RANKS.map(|rank| times[rank]);
        Ok(format!("{:.3},{low:.3},{high:.3},{error:.3e},", times[SAMPLES / 2]))
    }

    fn run(&self, problem: &Problem, set: &Set) -> Result<(), RuntimeError> {
        let stream = Stream::from_raw(self.stream.cu_stream().cast());
        // SAFETY: the stream and the memory are of the multiplier's context. The operands have the problem's sizes, and are
        // freed after the device was waited for.
        unsafe { self.multiplier.multiply_at(stream, problem, &set.operands) }
    }

    /// Times of a product in order. Where the host is late, more is overwritten before the next sample; samples of a late
    /// host do not count. `None` where it is always late.
    fn samples(
        &mut self,
        problem: &Problem,
        sets: &[Set],
        launches: usize,
        count: usize,
    ) -> Result<Option<Vec<f64>>, Any> {
        let (mut taken, mut late) = (Vec::new(), 0);
        while taken.len() < count {
            let (us, is_late) = self.sample(problem, sets, launches)?;
            if !is_late {
                taken.push(us);
                continue;
            }
            late += 1;
            self.flush_bytes = (2 * self.flush_bytes).min(MOST_FLUSHED);
            if late == MOST_LATE {
                return Ok(None);
            }
        }
        taken.sort_by(f64::total_cmp);
        Ok(Some(taken))
    }

    /// A sample of so many launches in microseconds each, and whether the host queued its last launch after the memory had
    /// been overwritten.
    fn sample(&self, problem: &Problem, sets: &[Set], launches: usize) -> Result<(f64, bool), Any> {
        let [begin, end] = &self.events;
        let stream = self.stream.cu_stream();
        // SAFETY: the memory is longer than what is overwritten, and nothing reads it.
        unsafe { result::memset_d8_async(self.flushed.0, 0x5a, self.flush_bytes, stream) }?;
        begin.record(&self.stream)?;
        for set in sets.iter().cycle().take(launches) {
            self.run(problem, set)?;
        }
        end.record(&self.stream)?;
        let is_late = begin.is_complete();
        end.synchronize()?;
        Ok((f64::from(begin.elapsed_ms(end)?) * 1e3 / launches as f64, is_late))
    }
}

/// A set of operands in device memory.
struct Set {
    operands: GemmOperands,
    _memory: Vec<Memory>,
}

impl Set {
    fn of(problem: &Problem, operands: &Operands, d: &[u8]) -> Result<Self, Any> {
        let mut memory = Vec::new();
        let mut put = |bytes: &[u8]| -> Result<u64, Any> {
            let own = Memory::of(bytes)?;
            let address = own.0;
            memory.push(own);
            Ok(address)
        };
        let [a, b, d] = [put(&operands.a.bytes)?, put(&operands.b.bytes)?, put(d)?];
        let mut epilogue = EpilogueAddresses::default();
        for (operation, operand) in &operands.others {
            epilogue.set(*operation, put(&operand.bytes)?);
        }
        let operands = GemmOperands { epilogue, ..GemmOperands::packed(problem, a, b, d) };
        Ok(Self { operands, _memory: memory })
    }
}
