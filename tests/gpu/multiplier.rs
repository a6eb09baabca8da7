//! The crate that runs bundles: slices of cudarc, row-major and column-major, extents and factors of 0, and what is
//! refused.

#![expect(unsafe_code, reason = "slices of bf16 are made of 16-bit integers")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream};
use gemm_tune::model::{Dtype, EpilogueOp, GemmType, Layout, Problem, Shape};
use gemm_tune_runtime::{GemmFactor, Multiplier, Operands, RuntimeError};
use half::bf16;
use libtest_mimic::Failed;

use crate::packing_family::packing_family;
use crate::rig::gemm_tune;

/// Arguments of a tuning run each.
const TUNED: [&str; 2] = [
    // All kernels of these spaces pack A.
    "--dtype f32 --layout nn --spaces target/test-artifacts/multiplier/spaces",
    "--dtype bf16 --layout nn --epilogue bias,relu",
];

/// Error of a sum in f32 over the sum of its terms' sizes.
const TOLERANCE: f64 = 1e-5;

/// A bundle of kernels that were hardly searched for.
fn bundle() -> Result<PathBuf, Failed> {
    let folder = Path::new("target/test-artifacts/multiplier");
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder.join("spaces"))?;
    std::fs::write(folder.join("spaces/pipelined.toml"), packing_family())?;
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (database, out) = (at("db.toml"), at("bundle"));
    for words in TUNED {
        let own = ["--shape", "512x384x256", "--max-configs", "10", "--db", &database];
        let arguments: Vec<&str> = words.split(' ').chain(own).collect();
        assert_eq!(gemm_tune(&arguments).1, Some(0), "{words}");
    }
    let arguments = ["export", "--format", "bundle", "-o", &out, "--db", &database];
    assert_eq!(gemm_tune(&arguments).1, Some(0));
    Ok(PathBuf::from(out))
}

/// Matrices of one product, and where their elements are.
struct Sums {
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
    is_column_major: bool,
    /// Elements of a row, or of a column, of A, B and D.
    leading: [u64; 3],
}

impl Sums {
    fn at(&self, place: usize, [row, column]: [u64; 2]) -> usize {
        let leading = self.leading[place];
        let at = if self.is_column_major { column * leading + row } else { row * leading + column };
        at as usize
    }

    /// Asserts that D is alpha A B + beta C.
    fn check(&self, shape: Shape, (alpha, beta): (f64, f64), d: &[f32]) {
        for row in 0..shape.m {
            for column in 0..shape.n {
                let (mut sum, mut size) = (0.0, f64::MIN_POSITIVE);
                for k in 0..shape.k {
                    let a = f64::from(self.a[self.at(0, [row, k])]);
                    let term = alpha * a * f64::from(self.b[self.at(1, [k, column])]);
                    sum += term;
                    size += term.abs();
                }
                let place = self.at(2, [row, column]);
                let of_c = beta * f64::from(self.c[place]);
                let error = (f64::from(d[place]) - sum - of_c).abs() / (size + of_c.abs());
                assert!(error <= TOLERANCE, "{shape} {row} {column}: {error:e}");
            }
        }
    }
}

/// Every safe call, compared with sums in f64.
pub(crate) fn multiplier_checks_and_multiplies() -> Result<(), Failed> {
    let folder = bundle()?;
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let multiplier = Multiplier::open(&context, &folder)?;
    let shape = Shape { m: 100, n: 72, k: 52 };
    let own = Problem::new(shape, Dtype::F32);
    for is_column_major in [false, true] {
        products(&multiplier, &stream, &own, is_column_major)?;
    }
    empty_products(&multiplier, &stream, &own)?;
    epilogue(&multiplier, &stream)?;
    packed_products(&multiplier, &stream)?;
    refusals(&multiplier, &context, &stream, &own)
}

fn products(
    multiplier: &Multiplier,
    stream: &Arc<CudaStream>,
    own: &Problem,
    is_column_major: bool,
) -> Result<(), Failed> {
    let Shape { m, n, k } = own.shape;
    let mut random = fastrand::Rng::with_seed(1);
    for pad in [0, 4] {
        let leading = if is_column_major { [m, k, m] } else { [k, n, n] }.map(|row| row + pad);
        let rows = if is_column_major { [k, n, n] } else { [m, k, m] };
        let [a, b, c] = [0, 1, 2].map(|place| {
            let count = leading[place] * rows[place];
            (0..count).map(|_| random.f32() * 2.0 - 1.0).collect::<Vec<f32>>()
        });
        let sums = Sums { a, b, c, is_column_major, leading };
        let (on_a, on_b) = (stream.clone_htod(&sums.a)?, stream.clone_htod(&sums.b)?);
        let on_c = stream.clone_htod(&sums.c)?;
        let call = |operands: Operands<'_>| match is_column_major {
            true => multiplier.multiply_column_major(stream, own, operands),
            false => multiplier.multiply(stream, own, operands),
        };
        let [lda, ldb, ldd] = leading;
        for (alpha, beta) in [(1.0, 0.0), (1.5, -0.5)] {
            // C in the place of D.
            let mut on_d = stream.clone_htod(&sums.c)?;
            let operands = Operands::new(&on_a, &on_b, &mut on_d).scaled(alpha, beta);
            call(operands.leading_dimensions(lda, ldb, ldd))?;
            sums.check(own.shape, (alpha, beta), &stream.clone_dtoh(&on_d)?);
            // C in a slice of its own.
            let mut on_d = stream.alloc_zeros::<f32>(sums.c.len())?;
            let operands = Operands::new(&on_a, &on_b, &mut on_d).scaled(alpha, beta).with_c(&on_c);
            call(operands.leading_dimensions(lda, ldb, ldd))?;
            sums.check(own.shape, (alpha, beta), &stream.clone_dtoh(&on_d)?);
        }
    }
    Ok(())
}

/// A K or an alpha of 0: D is beta C, whatever A and B hold.
fn empty_products(
    multiplier: &Multiplier,
    stream: &Arc<CudaStream>,
    own: &Problem,
) -> Result<(), Failed> {
    let Shape { m, n, k } = own.shape;
    let nan = vec![f32::NAN; (m * k).max(k * n) as usize];
    let nan = stream.clone_htod(&nan)?;
    let c: Vec<f32> = (0..m * n).map(|at| at as f32 - 100.0).collect();
    let nothing = Problem { shape: Shape { k: 0, ..own.shape }, ..*own };
    for (problem, alpha) in [(&nothing, 1.0), (own, 0.0)] {
        for beta in [0.0, 1.0, 0.5] {
            let mut on_d = stream.clone_htod(&c)?;
            let operands = Operands::new(&nan, &nan, &mut on_d).scaled(alpha, beta);
            multiplier.multiply(stream, problem, operands)?;
            let expected: Vec<f32> = c.iter().map(|value| value * beta as f32).collect();
            assert_eq!(stream.clone_dtoh(&on_d)?, expected, "{problem} alpha {alpha} beta {beta}");
        }
    }
    let none = Problem { shape: Shape { m: 0, ..own.shape }, ..*own };
    let mut on_d = stream.alloc_zeros::<f32>(1)?;
    Ok(multiplier.multiply(stream, &none, Operands::new(&nan, &nan, &mut on_d))?)
}

/// A that is packed once, and a B that no kernel packs alone: the same bits as without packing.
fn packed_products(multiplier: &Multiplier, stream: &Arc<CudaStream>) -> Result<(), Failed> {
    let own = Problem::new(Shape { m: 512, n: 384, k: 256 }, Dtype::F32);
    let mut random = fastrand::Rng::with_seed(2);
    let mut matrix = |count: usize| {
        let values: Vec<f32> = (0..count).map(|_| random.f32() * 2.0 - 1.0).collect();
        stream.clone_htod(&values)
    };
    let (a, b) = (matrix(512 * 256)?, matrix(256 * 384)?);
    let mut d = stream.alloc_zeros::<f32>(512 * 384)?;
    multiplier.multiply(stream, &own, Operands::new(&a, &b, &mut d))?;
    let expected = stream.clone_dtoh(&d)?;
    for (factor, is_packed) in [(GemmFactor::A, true), (GemmFactor::B, false)] {
        let slice = if factor == GemmFactor::A { &a } else { &b };
        let packed = multiplier.prepack(stream, &own, (factor, slice), None)?;
        assert_eq!(packed.is_packed(), is_packed, "{factor:?}");
        for _ in 0..3 {
            let mut d = stream.alloc_zeros::<f32>(512 * 384)?;
            multiplier.multiply_packed(stream, &packed, Operands::new(&a, &b, &mut d))?;
            assert_eq!(stream.clone_dtoh(&d)?, expected, "{factor:?}");
        }
    }
    let other = matrix(512 * 256)?;
    let packed = multiplier.prepack(stream, &own, (GemmFactor::A, &a), None)?;
    let error = multiplier.multiply_packed(stream, &packed, Operands::new(&other, &b, &mut d));
    let error = error.unwrap_err();
    assert!(matches!(error, RuntimeError::OtherFactor { operand: "A" }), "{error}");
    Ok(())
}

/// Slices of bf16 with a bias: the epilogue of nothing is relu(bias), and of ones relu(K + bias).
fn epilogue(multiplier: &Multiplier, stream: &Arc<CudaStream>) -> Result<(), Failed> {
    let problem = Problem {
        types: GemmType::of(Dtype::Bf16),
        epilogue: "bias,relu".parse()?,
        ..Problem::new(Shape { m: 64, n: 48, k: 32 }, Dtype::Bf16)
    };
    let bits = |value: f32| bf16::from_f32(value).to_bits();
    let ones = stream.clone_htod(&vec![bits(1.0); 64 * 48])?;
    let bias: Vec<u16> = (0..48_u8).map(|column| bits(f32::from(column) - 24.0)).collect();
    let bias = stream.clone_htod(&bias)?;
    let mut d = stream.alloc_zeros::<u16>(64 * 48)?;
    for (alpha, product) in [(1.0, 32.0), (0.0, 0.0)] {
        {
            // SAFETY: bf16 has the size of the integer, and every pattern of bits is a value.
            let (ones, bias, mut d) = unsafe {
                let ones = ones.transmute::<bf16>(64 * 48).unwrap();
                let bias = bias.transmute::<bf16>(48).unwrap();
                (ones, bias, d.transmute_mut::<bf16>(64 * 48).unwrap())
            };
            let operands = Operands::new(&ones, &ones, &mut d).scaled(alpha, 0.0);
            multiplier.multiply(stream, &problem, operands.with(EpilogueOp::Bias, &bias))?;
        }
        for (place, value) in stream.clone_dtoh(&d)?.into_iter().enumerate() {
            let expected = (product + (place % 48) as f32 - 24.0).max(0.0);
            assert_eq!(bf16::from_bits(value).to_f32(), expected, "alpha {alpha}, place {place}");
        }
    }
    Ok(())
}

fn refusals(
    multiplier: &Multiplier,
    context: &Arc<CudaContext>,
    stream: &Arc<CudaStream>,
    own: &Problem,
) -> Result<(), Failed> {
    let Shape { m, n, k } = own.shape;
    let (a, b) = (stream.alloc_zeros::<f32>((m * k) as usize)?, (k * n) as usize);
    let (b, short) = (stream.alloc_zeros::<f32>(b)?, stream.alloc_zeros::<f32>(b - 1)?);
    let other_type = stream.alloc_zeros::<i32>((k * n) as usize)?;
    let mut d = stream.alloc_zeros::<f32>((m * n) as usize)?;
    let elsewhere = CudaContext::new_non_primary(0, 0)?;
    let other_stream = elsewhere.new_stream()?;
    let there = other_stream.alloc_zeros::<f32>((k * n) as usize)?;
    context.bind_to_thread()?;
    let error = multiplier.multiply(stream, own, Operands::new(&a, &short, &mut d)).unwrap_err();
    assert!(matches!(error, RuntimeError::TooShort { operand: "B", .. }), "{error}");
    let error = multiplier.multiply(stream, own, Operands::new(&a, &other_type, &mut d));
    let error = error.unwrap_err();
    assert!(matches!(error, RuntimeError::WrongDtype { operand: "B", .. }), "{error}");
    let error = multiplier.multiply(stream, own, Operands::new(&a, &there, &mut d)).unwrap_err();
    assert!(matches!(error, RuntimeError::OtherContext { operand: "B" }), "{error}");
    let error = multiplier.multiply(&other_stream, own, Operands::new(&a, &b, &mut d));
    let error = error.unwrap_err();
    assert!(matches!(error, RuntimeError::OtherContext { operand: "the stream" }), "{error}");
    // Names of a column-major product.
    let error = multiplier.multiply_column_major(stream, own, Operands::new(&a, &short, &mut d));
    let error = error.unwrap_err();
    assert!(matches!(error, RuntimeError::TooShort { operand: "B", .. }), "{error}");
    let unserved = Problem { layout: Layout::Tt, ..*own };
    let error = multiplier.multiply(stream, &unserved, Operands::new(&a, &b, &mut d)).unwrap_err();
    assert!(matches!(error, RuntimeError::NoKernel { .. }), "{error}");
    Ok(())
}
