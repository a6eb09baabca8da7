//! Multiplies random matrices with the kernels of a bundle, row-major and column-major, and compares elements with sums
//! in f64.
//!
//! `cargo run --release -p gemm-tune-runtime --example multiply -- BUNDLE MxNxK...`

#![expect(clippy::print_stdout, reason = "it shows what it computed")]

use std::error::Error;
use std::path::Path;

use gemm_tune_runtime::cudarc::driver::CudaContext;
use gemm_tune_runtime::model::{Dtype, Layout, Problem, Shape};
use gemm_tune_runtime::{Multiplier, Operands, device_count};

/// Elements of D that are compared.
const COMPARED: u64 = 1000;

/// Largest error over the sum of the products' sizes, which f32 with another order of the sum keeps.
const TOLERANCE: f64 = 1e-5;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [bundle, shapes @ ..] = &arguments[..] else {
        return Err("usage: multiply BUNDLE MxNxK...".into());
    };
    if device_count()? == 0 {
        return Err("the driver reports no CUDA device".into());
    }
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let multiplier = Multiplier::open(&context, Path::new(bundle))?;
    for shape in shapes {
        let problem = Problem::new(shape.parse()?, Dtype::F32);
        let Shape { m, n, k } = problem.shape;
        let mut random = Random(1);
        let a: Vec<f32> = (0..m * k).map(|_| random.next()).collect();
        let b: Vec<f32> = (0..k * n).map(|_| random.next()).collect();
        let (on_a, on_b) = (stream.clone_htod(&a)?, stream.clone_htod(&b)?);
        let mut on_d = stream.alloc_zeros::<f32>((m * n) as usize)?;
        let name = multiplier.warm_up(&problem)?;
        multiplier.multiply(&stream, &problem, Operands::new(&on_a, &on_b, &mut on_d))?;
        let d = stream.clone_dtoh(&on_d)?;

        // The same memory as column-major matrices: K x M and N x K, both transposed, and a D that lies in columns.
        let transposed = Problem { layout: Layout::Tt, ..problem };
        let operands = Operands::new(&on_a, &on_b, &mut on_d);
        let columns = match multiplier.multiply_column_major(&stream, &transposed, operands) {
            Ok(()) => Some(stream.clone_dtoh(&on_d)?),
            Err(error) => {
                println!("{shape} column-major: {error}");
                None
            }
        };

        let mut worst = 0.0_f64;
        for place in 0..COMPARED.min(m * n) {
            let (row, column) = (place * 7919 % m, place * 104_729 % n);
            let (mut sum, mut size) = (0.0, f64::MIN_POSITIVE);
            for step in 0..k {
                let term = f64::from(a[(row * k + step) as usize])
                    * f64::from(b[(step * n + column) as usize]);
                sum += term;
                size += term.abs();
            }
            let mut compare = |found: f32| worst = worst.max((f64::from(found) - sum).abs() / size);
            compare(d[(row * n + column) as usize]);
            if let Some(columns) = &columns {
                compare(columns[(column * m + row) as usize]);
            }
        }
        println!("{shape} {name}: largest error {worst:.1e}");
        if worst > TOLERANCE {
            return Err(format!("{shape}: an error of {worst:e} is above {TOLERANCE:e}").into());
        }
    }
    Ok(())
}

/// Numbers between -1 and 1 (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}
