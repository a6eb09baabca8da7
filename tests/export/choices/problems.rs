//! Random problems as programs put them to an artifact: extents, layouts, padded and misaligned rows, memory for
//! workspaces, and values that kernels cannot take.

use std::fmt;

use gemm_tune::lookup::Question;
use gemm_tune::model::problem::{MAX_BATCH, MAX_EXTENT};
use gemm_tune::model::{Dtype, EpilogueOp, GemmType, Layout, Problem, Shape, Storage};
use gemm_tune::runtime::{EpilogueAddresses, SeparateC};

/// Where A, B, D, the workspace, the operands of epilogues, and a C of its own begin, but for an offset: the first
/// allocations of the cpu device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bases(pub(super) [u64; 10]);

/// Operations with an operand, in the order of their addresses.
pub(super) const OPERANDS: [EpilogueOp; 5] = [
    EpilogueOp::Bias,
    EpilogueOp::RowScale,
    EpilogueOp::ColScale,
    EpilogueOp::Residual,
    EpilogueOp::Mul,
];

/// A call of a product.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) problem: Problem,
    /// Leading dimensions of A, B and C.
    pub(super) rows: [u64; 3],
    pub(super) addresses: [u64; 3],
    /// Address and bytes of the memory for workspaces.
    pub(super) workspace: (u64, u64),
    /// Addresses of the operands of epilogues; those that the problem's does not have are 0.
    pub(super) operands: [u64; 5],
    /// C in a buffer of its own.
    pub(super) c: Option<SeparateC>,
}

/// How large the extents of random problems are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extents {
    /// From 1 to 8192, and some that no kernel takes.
    Any,
    /// Small enough for the cpu device.
    Small,
}

impl Call {
    /// A random call; some of `tuned` are asked as they were tuned.
    pub(super) fn random(
        random: &mut fastrand::Rng,
        tuned: &[Problem],
        bases: Bases,
        extents: Extents,
    ) -> Self {
        let mut problem = *random.choice(tuned).unwrap();
        if extents == Extents::Small || random.u32(..8) > 0 {
            let mut extent = || extent(random, extents);
            problem.shape = Shape { m: extent(), n: extent(), k: extent() };
        }
        if random.u32(..5) == 0 {
            let most: &[u64] =
                if extents == Extents::Any { &[2, 3, 8, 100, 70_000] } else { &[2, 3] };
            problem.batch = *random.choice(most).unwrap();
        }
        let packed = [problem.lda(), problem.ldb(), problem.ldc()];
        let GemmType { a, b, d, .. } = problem.types;
        // Half of the calls are such that tensor maps describe them.
        let wide = if random.bool() { 1 } else { 16 };
        let pads = if random.bool() { [0; 3] } else { [(); 3].map(|()| pad(random) * wide) };
        let mut rows = packed;
        rows.iter_mut().zip(pads).for_each(|(row, pad)| *row += pad);
        let offsets = if random.bool() { [0; 3] } else { [(); 3].map(|()| offset(random)) };
        let mut addresses = [bases.0[0], bases.0[1], bases.0[2]];
        addresses.iter_mut().zip(offsets).for_each(|(address, offset)| *address += offset * wide);
        let mut operands = [0; 5];
        for (place, operation) in OPERANDS.into_iter().enumerate() {
            if problem.epilogue.operands().any(|own| own == operation) {
                let bytes = operation.operand_dtype(problem.types).bytes();
                operands[place] = bases.0[4 + place] + random.u64(..5) * bytes;
            }
        }
        let mut c = None;
        if extents == Extents::Any && random.u32(..6) == 0 {
            let ldc = problem.ldc() + random.u64(..4);
            c = Some(SeparateC { address: bases.0[9] + random.u64(..4) * d.bytes(), ldc });
        }
        if extents == Extents::Any && random.u32(..16) == 0 {
            break_something(random, &mut problem, &mut rows, &mut addresses);
            let broken = random.usize(..5);
            operands[broken] = match random.u32(..4) {
                0 => 0,
                1 => operands[broken] + u64::from(operands[broken] > 0),
                _ => operands[broken],
            };
        }
        // Elements of 8 bits are aligned everywhere; those of others as their dtype is.
        for (address, dtype) in addresses.iter_mut().zip([a, b, d]) {
            if extents == Extents::Small {
                *address -= *address % dtype.bytes();
            }
        }
        Self { problem, rows, addresses, workspace: (bases.0[3], 0), operands, c }.as_seen()
    }

    /// The same as a view of a matrix says it: a single row ends nowhere, and one that is a column too is stored as
    /// it is. Programs that name layout and rows themselves are told these.
    fn as_seen(mut self) -> Self {
        let Shape { m, n, k } = self.problem.shape;
        let (a, lda) = seen([m, k], self.rows[0], self.problem.layout.a_transposed());
        let (b, ldb) = seen([k, n], self.rows[1], self.problem.layout.b_transposed());
        let (_, ldc) = seen([m, n], self.rows[2], false);
        self.problem.layout = match (a, b) {
            (false, false) => Layout::Nn,
            (false, true) => Layout::Nt,
            (true, false) => Layout::Tn,
            (true, true) => Layout::Tt,
        };
        self.rows = [lda, ldb, ldc];
        if let Some(c) = self.c {
            let (_, ldc) = seen([m, n], c.ldc, false);
            self.c = Some(SeparateC { ldc, ..c });
        }
        self
    }

    /// Whether every surface has to refuse it.
    pub(super) fn is_refused(&self) -> bool {
        let is_bad = |(place, operation): (usize, EpilogueOp)| {
            let (at, dtype) = (self.operands[place], operation.operand_dtype(self.problem.types));
            self.problem.epilogue.operands().any(|own| own == operation)
                && (at == 0 || at % dtype.bytes() != 0)
        };
        self.storage().check(&self.problem).is_err()
            || self.addresses.contains(&0)
            || OPERANDS.into_iter().enumerate().any(is_bad)
            || self.c.is_some_and(|c| c.ldc < self.problem.shape.n)
    }

    pub(super) fn epilogue(&self) -> EpilogueAddresses {
        let mut addresses = EpilogueAddresses::default();
        for (operation, address) in OPERANDS.into_iter().zip(self.operands) {
            addresses.set(operation, address);
        }
        addresses
    }

    pub(super) fn storage(&self) -> Storage {
        let [lda, ldb, ldc] = self.rows;
        let lowest = self.addresses.iter().fold(0, |all, one| all | one).trailing_zeros();
        Storage { lda, ldb, ldc, alignment: 1 << lowest.min(8) }
    }

    pub(super) fn question(&self) -> Question {
        Question::new(self.problem, self.storage()).within(self.workspace.1)
    }
}

impl fmt::Display for Call {
    /// As the programs of tests/artifacts read it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { shape: Shape { m, n, k }, batch, layout, .. } = self.problem;
        let ([lda, ldb, ldc], [a, b, c], (place, room)) =
            (self.rows, self.addresses, self.workspace);
        write!(f, "{layout} {m} {n} {k} {batch} {lda} {ldb} {ldc} {a} {b} {c} {place} {room}")?;
        let GemmType { a, b, d, compute } = self.problem.types;
        for dtype in [a, b, d] {
            write!(f, " {}", DTYPES.iter().position(|own| *own == dtype).unwrap_or(9))?;
        }
        write!(f, " {}", compute as usize)?;
        let c = self.c.unwrap_or(SeparateC { address: 0, ldc: 0 });
        for number in self.operands.into_iter().chain([c.address, c.ldc]) {
            write!(f, " {number}")?;
        }
        let epilogue = self.problem.epilogue.text();
        write!(f, " {}", if epilogue.is_empty() { "-" } else { epilogue })
    }
}

/// Dtypes in the order of their numbers in the header.
const DTYPES: [Dtype; 5] = [Dtype::F32, Dtype::F16, Dtype::Bf16, Dtype::I32, Dtype::I8];

/// Whether a view is taken as transposed, and its rows.
fn seen([height, width]: [u64; 2], row: u64, transposed: bool) -> (bool, u64) {
    let [down, across] = if transposed { [1, row] } else { [row, 1] };
    if (across == 1 || width == 1) && (down >= width || height == 1) {
        return (false, if height == 1 { width } else { down });
    }
    if (down == 1 || height == 1) && (across >= height || width == 1) {
        return (true, if width == 1 { height } else { across });
    }
    (transposed, row)
}

fn extent(random: &mut fastrand::Rng, extents: Extents) -> u64 {
    let most = if extents == Extents::Any { 13.0 } else { 6.0 };
    let extent = (random.f64() * most).exp2() as u64;
    match random.u32(..6) {
        0 | 1 => extent.next_multiple_of(32),
        2 => extent.next_multiple_of(4),
        3 => extent.next_multiple_of(4) + 2,
        _ => extent.max(1),
    }
}

fn pad(random: &mut fastrand::Rng) -> u64 {
    *random.choice(&[0, 0, 1, 2, 3, 4, 5, 8, 12, 64]).unwrap()
}

/// Bytes between an aligned address and an operand.
fn offset(random: &mut fastrand::Rng) -> u64 {
    *random.choice(&[0, 0, 0, 256, 16, 32, 8, 8, 24, 4, 12]).unwrap()
}

/// Makes it a call that every surface has to refuse, or one at a limit.
fn break_something(
    random: &mut fastrand::Rng,
    problem: &mut Problem,
    rows: &mut [u64; 3],
    addresses: &mut [u64; 3],
) {
    let place = random.usize(..3);
    let hostile = [MAX_EXTENT, MAX_EXTENT + 1, (1 << 31) - 1, 1 << 31, 3_000_000_000, 1 << 32];
    match random.u32(..6) {
        // A batch of 0 is no mistake.
        5 => problem.batch = *random.choice(&[MAX_BATCH, MAX_BATCH + 1, 1 << 40]).unwrap(),
        0 => addresses[place] += random.u64(1..4),
        1 => addresses[place] = 0,
        2 => rows[place] = *random.choice(&[MAX_EXTENT, MAX_EXTENT + 1, (1 << 32) + 64]).unwrap(),
        3 => rows[place] = rows[place].saturating_sub(1).max(1),
        _ => {
            let own = *random.choice(&hostile).unwrap();
            let others = if random.bool() { 1 } else { 8 };
            let mut extents = [others; 3];
            extents[place] = own;
            let [m, n, k] = extents;
            *problem = Problem { shape: Shape { m, n, k }, batch: 1, ..*problem };
            *rows = [problem.lda(), problem.ldb(), problem.ldc()];
        }
    }
}
