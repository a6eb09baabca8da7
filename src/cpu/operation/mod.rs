//! The compact form of instructions that decoding makes and execution runs.
//!
//! Values of a warp lie in slots, 32 lanes each: words for registers up to 32 bits, longs for 64,
//! bits of one word for predicates. Immediates and special registers have slots of their own, so
//! an operand is always a slot. Every operation reads all of its operands before it writes.

mod engine;
mod operands;
mod slots;
mod together;

pub(super) use engine::{BoxCopy, MbarrierStep, Phase};
pub(super) use operands::{Address, Element, Longs, Register, Slot, Test, Vector, Words};
pub(super) use slots::Use;
pub(super) use together::{Arrival, Asks, ClusterStep, Match, Poll, Publishing, Shuffle, Vote};

use super::numeric::convert::Conversion;
use super::types::Space;

/// What a comparison's result is combined with (`setp.lt.and`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Combined {
    pub(super) logic: Logic,
    pub(super) with: Test,
}

/// Operations on predicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Logic {
    And,
    Or,
    Xor,
}

/// Whether other threads may wait for what an access does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Weak,
    /// `.volatile`, or with an order of its own: seen after what comes before it.
    Strong,
}

/// What an atomic operation does with the old value and its operands.
#[derive(Debug, Clone, Copy)]
pub(super) enum Update {
    /// Of 16 bits: old, first and second operand.
    Half(fn(u32, u32, u32) -> u32),
    /// Of 32 bits.
    Word(fn(u32, u32, u32) -> u32),
    /// Of 64 bits.
    Long(fn(u64, u64, u64) -> u64),
}

/// The elements that `mma` multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MatrixElement {
    F16,
    Bf16,
    Tf32,
}

/// `mma.sync` of 16 x 8 x `depth`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MatrixProduct {
    pub(super) element: MatrixElement,
    pub(super) depth: usize,
    pub(super) d: Vec<Slot>,
    pub(super) a: Vec<Slot>,
    pub(super) b: Vec<Slot>,
    pub(super) c: Vec<Slot>,
    /// Whether C and D are f16 pairs rather than f32.
    pub(super) sums: Sums,
}

/// The format of an `mma`'s sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sums {
    F32,
    F16,
}

/// `ldmatrix` or `stmatrix`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MatrixMove {
    pub(super) direction: Direction,
    pub(super) transposed: bool,
    pub(super) address: Address,
    pub(super) registers: Vec<Slot>,
}

/// To or from registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Load,
    Store,
}

/// What an instruction does. `d` is written, `a`, `b` and `c` are read.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    Word1 {
        run: fn(&Words) -> Words,
        d: Slot,
        a: Slot,
    },
    Word2 {
        run: fn(&Words, &Words) -> Words,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Word3 {
        run: fn(&Words, &Words, &Words) -> Words,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Long1 {
        run: fn(&Longs) -> Longs,
        d: Slot,
        a: Slot,
    },
    Long2 {
        run: fn(&Longs, &Longs) -> Longs,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Long3 {
        run: fn(&Longs, &Longs, &Longs) -> Longs,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    /// Words to longs: `mul.wide`.
    Widen1 {
        run: fn(&Words) -> Longs,
        d: Slot,
        a: Slot,
    },
    Widen2 {
        run: fn(&Words, &Words) -> Longs,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    /// `mad.wide`: the last operand is long.
    Widen3 {
        run: fn(&Words, &Words, &Longs) -> Longs,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Narrow1 {
        run: fn(&Longs) -> Words,
        d: Slot,
        a: Slot,
    },
    /// A shift or another operation whose second operand is a word.
    Shift {
        run: fn(&Longs, &Words) -> Longs,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Convert {
        how: Conversion,
        d: Register,
        a: Register,
    },
    WordCompare {
        run: fn(&Words, &Words) -> u32,
        d: Slot,
        /// Receives the opposite.
        opposite: Option<Slot>,
        a: Slot,
        b: Slot,
        combined: Option<Combined>,
    },
    LongCompare {
        run: fn(&Longs, &Longs) -> u32,
        d: Slot,
        opposite: Option<Slot>,
        a: Slot,
        b: Slot,
        combined: Option<Combined>,
    },
    WordSelect {
        d: Slot,
        a: Slot,
        b: Slot,
        test: Slot,
    },
    LongSelect {
        d: Slot,
        a: Slot,
        b: Slot,
        test: Slot,
    },
    PredicateMove {
        d: Slot,
        a: Test,
    },
    PredicateLogic {
        logic: Logic,
        d: Slot,
        a: Test,
        b: Test,
    },
    /// Parts to a whole, the lowest first: `bits` each.
    Pack {
        bits: u32,
        d: Register,
        parts: Vector,
    },
    Unpack {
        bits: u32,
        parts: Vector,
        a: Register,
    },
    Load {
        space: Space,
        element: Element,
        address: Address,
        d: Vector,
        order: Order,
    },
    Store {
        space: Space,
        element: Element,
        address: Address,
        a: Vector,
        order: Order,
    },
    Atomic {
        space: Space,
        update: Update,
        /// What the address must be a multiple of.
        alignment: u32,
        d: Option<Register>,
        address: Address,
        a: Register,
        b: Option<Register>,
    },
    /// `cp.async` of `bytes`, of which only `source_bytes` are read; the others are zero.
    Copy {
        bytes: u32,
        to: Address,
        from: Address,
        source_bytes: Option<Slot>,
    },
    BoxCopy(Box<BoxCopy>),
    Mbarrier {
        space: Space,
        address: Address,
        step: MbarrierStep,
    },
    CopyCommit,
    /// Waits until at most so many groups are pending; `None`: for everything.
    CopyWait {
        pending: Option<u32>,
    },
    Shuffle {
        how: Shuffle,
        d: Slot,
        inside: Option<Slot>,
        a: Slot,
        lane: Slot,
        clamp: Slot,
        members: Slot,
    },
    Vote {
        how: Vote,
        d: Option<Slot>,
        a: Test,
        members: Slot,
    },
    ActiveMask {
        d: Slot,
    },
    Reduce {
        run: fn(u32, u32) -> u32,
        d: Slot,
        a: Slot,
        members: Slot,
    },
    Match {
        how: Match,
        d: Slot,
        a: Register,
        members: Slot,
    },
    /// Chooses the first of the members.
    Elect {
        d: Option<Slot>,
        chosen: Slot,
        members: Slot,
    },
    /// Warps come to a barrier whole, as `.aligned` asks; that it is not asked for is not told apart.
    Barrier {
        id: Slot,
        threads: Option<Slot>,
        arrival: Arrival,
        poll: Option<Poll>,
    },
    /// Warps come to it whole, too.
    ClusterBarrier(ClusterStep),
    WarpBarrier,
    Fence,
    /// Instructions of the block so far, shifted to the right.
    Clock {
        d: Register,
        shift: u32,
    },
    /// Lets others run.
    Sleep,
    /// Lanes that do not go to `target` go on; they meet again at `meet`.
    Branch {
        target: u32,
        meet: u32,
    },
    Exit,
    Trap,
    MatrixProduct(Box<MatrixProduct>),
    MatrixMove(Box<MatrixMove>),
}

/// Something to execute, and where it comes from.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) guard: Option<Test>,
    pub(super) operation: Operation,
    /// The line of the PTX text.
    pub(super) line: u32,
    /// An index into the kernel's source lines.
    pub(super) source: Option<u32>,
    pub(super) class: super::counts::InstructionClass,
    /// Whether it begins an instruction; others belong to the instruction before.
    pub(super) begins: bool,
}
