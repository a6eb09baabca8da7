//! Problems as users have them, drawn by a seed: what kernel sets are chosen for, and what maps of a device are made of.

use fastrand::Rng;

use crate::model::{Epilogue, GemmType, Layout, Problem, ProblemPattern, Shape};

/// Largest extent and batch.
const MOST_EXTENT: f64 = 16384.0;
const MOST_BATCH: f64 = 256.0;

/// Rows or columns of a narrow problem, at most. Kernels for such problems have them in their code.
pub const MOST_NARROW: u64 = 16;

/// Extents are multiples of one of these, where they are large enough: alignment decides which kernels are legal.
const MULTIPLES: [u64; 4] = [1, 4, 32, 64];

/// Limits on drawn problems.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DrawLimits {
    /// Most operations.
    pub operations: f64,
    /// Most bytes of all operands together.
    pub bytes: f64,
}

impl Default for DrawLimits {
    /// What a search measures in seconds: 2e12 operations and 4 GB.
    fn default() -> Self {
        Self { operations: 2e12, bytes: 4e9 }
    }
}

/// Attempts to draw a problem within the limits.
const TRIES: usize = 10_000;

/// Draws a problem of a GEMM type. Half have log-uniform extents from 64 to 16384, a quarter up to 16 rows or columns,
/// and a quarter extents from 1 on. A fifth are batches of 2 to 256; all layouts are as frequent. `None` where the limits
/// exclude nearly all of them.
pub fn draw(random: &mut Rng, types: GemmType, limits: &DrawLimits) -> Option<Problem> {
    let mut one = || {
        let [m, n, k] = extents(random);
        let is_batch = random.f64() < 0.2;
        let batch = if is_batch { log_uniform(random, 2.0, MOST_BATCH) } else { 1 };
        let layout = Layout::ALL[random.usize(..Layout::ALL.len())];
        let pattern = ProblemPattern { types, layout, epilogue: Epilogue::NONE };
        Problem { batch, ..pattern.problem(Shape { m, n, k }) }
    };
    let is_within = |problem: &Problem| {
        problem.operations() <= limits.operations && problem.bytes() as f64 <= limits.bytes
    };
    (0..TRIES).map(|_| one()).find(is_within)
}

fn extents(random: &mut Rng) -> [u64; 3] {
    let kind = random.usize(..4);
    let least = if kind == 0 { 1.0 } else { 64.0 };
    let mut extents = [(); 3].map(|()| {
        let extent = log_uniform(random, least, MOST_EXTENT);
        let multiple = MULTIPLES[random.usize(..MULTIPLES.len())];
        if extent < multiple { extent } else { extent / multiple * multiple }
    });
    if kind == 1 {
        extents[random.usize(..2)] = log_uniform(random, 1.0, MOST_NARROW as f64);
    }
    extents
}

/// An integer from `low` to `high` whose logarithm is uniform.
fn log_uniform(random: &mut Rng, low: f64, high: f64) -> u64 {
    ((low * ((high + 1.0) / low).powf(random.f64())) as u64).min(high as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dtype;

    #[test]
    fn drawn_problems_keep_to_the_limits_and_are_of_all_kinds() {
        let mut random = Rng::with_seed(1);
        let limits = DrawLimits { operations: 1e10, bytes: 1e8 };
        let drawn: Vec<Problem> = (0..1000)
            .filter_map(|_| draw(&mut random, GemmType::of(Dtype::F32), &limits))
            .collect();
        assert_eq!(drawn.len(), 1000);
        let none = DrawLimits { operations: 0.0, ..limits };
        assert_eq!(draw(&mut random, GemmType::of(Dtype::F32), &none), None);
        for problem in &drawn {
            assert!(problem.operations() <= 1e10 && problem.bytes() <= 100_000_000, "{problem}");
            assert!(problem.check_size().is_ok(), "{problem}");
        }
        let share = |is: &dyn Fn(&Problem) -> bool| {
            drawn.iter().filter(|problem| is(problem)).count() as f64 / drawn.len() as f64
        };
        let narrow = share(&|problem| problem.shape.m.min(problem.shape.n) <= 16);
        assert!((0.2..0.6).contains(&narrow), "{narrow}");
        let batched = share(&|problem| problem.batch > 1);
        assert!((0.08..0.25).contains(&batched), "{batched}");
        for layout in Layout::ALL {
            let own = share(&|problem| problem.layout == *layout);
            assert!((0.18..0.32).contains(&own), "{layout} {own}");
        }
    }
}
