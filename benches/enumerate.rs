//! How long listing the legal configurations of a space takes: a made-up space of 10^6 raw
//! configurations with 10 constraints, and every family that comes with the program.
//!
//! `cargo bench --bench enumerate`

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use gemm_tune::model::{Device, Dtype, Problem, Shape};
use gemm_tune::space::{Families, Family, LegalSpace};

/// 10 x 10 x 10 x 10 x 10 x 10 raw configurations; two in five are legal, so that most of the
/// walk cannot be cut.
const MILLION: &str = "
schema = 1
name = 'million'
summary = 'ten to the sixth'
dtypes = ['f32']
compute = ['f32']
layouts = ['nn']
kernels = [{ entry = 'gemm', grid = [1], block = [1] }]

[parameters]
BM = [16, 32, 48, 64, 96, 128, 160, 192, 224, 256]
BN = [16, 32, 48, 64, 96, 128, 160, 192, 224, 256]
BK = [4, 8, 12, 16, 20, 24, 32, 40, 48, 64]
TM = [1, 2, 4, 6, 8, 10, 12, 14, 16, 20]
TN = [1, 2, 4, 6, 8, 10, 12, 14, 16, 20]
STAGES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]

[derived]
SHARED_BYTES = '4 * STAGES * BK * (BM + BN)'
REGISTERS = 'TM * TN + TM + TN + 24'

[[constraints]]
require = 'BM + BN <= 480'
because = '1'
[[constraints]]
require = 'SHARED_BYTES <= 6 * shared_bytes_per_block'
because = '2'
[[constraints]]
require = 'REGISTERS <= 400'
because = '3'
[[constraints]]
require = 'TM + TN <= 36'
because = '4'
[[constraints]]
require = 'BM * TN != 96'
because = '5'
[[constraints]]
require = 'BN * TM != 96'
because = '6'
[[constraints]]
require = 'STAGES * REGISTERS < 3000'
because = '7'
[[constraints]]
require = 'BK * STAGES <= 400'
because = '8'
[[constraints]]
require = 'BM * BK + STAGES * TN != 777'
because = '9'
[[constraints]]
require = '(TM + TN + STAGES) % 2 == 0'
because = '10'

[default]
BM = 64
BN = 64
BK = 16
TM = 8
TN = 8
STAGES = 2
";

fn enumerate(criterion: &mut Criterion) {
    let problem = Problem::new(Shape { m: 4096, n: 4096, k: 1024 }, Dtype::F32);
    let device = Device::h200();
    let built_in = Families::built_in().expect("the built-in families are tested");
    let million = Family::parse("million.toml", MILLION).expect("the space above parses");
    for family in built_in.iter().chain([&million]) {
        let space = LegalSpace::of(family, &problem, &device).expect("spaces are tested");
        let name = format!("{}: {} of {}", family.name, space.len(), space.raw);
        criterion.bench_function(&name, |bencher| {
            bencher.iter(|| LegalSpace::of(black_box(family), &problem, &device));
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10).measurement_time(Duration::from_secs(3));
    targets = enumerate
}
criterion_main!(benches);
