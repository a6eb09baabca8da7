//! Operations, and steps: operations with their guard and their place in the source.

use super::matrix::{MatrixMove, MatrixProduct};
use super::mbarrier::{MbarrierOperation, TensorCopy};
use super::operands::{
    Address, AtomicUpdate, Combined, Element, Logic, Longs, MemoryOrder, PredicateOperand,
    Register, RegisterSlot, Vector, Words,
};
use super::warp::{
    BarrierMode, BarrierReduction, ClusterBarrierStep, MatchMode, ShuffleMode, VoteMode,
};
use crate::cpu::counts::InstructionClass;
use crate::cpu::numeric::convert::Conversion;
use crate::cpu::types::Space;

/// What an instruction does. `d` is written, `a`, `b` and `c` are read.
#[derive(Debug, Clone)]
pub(in crate::cpu) enum Operation {
    Word1 {
        run: fn(&Words) -> Words,
        d: RegisterSlot,
        a: RegisterSlot,
    },
    Word2 {
        run: fn(&Words, &Words) -> Words,
        d: RegisterSlot,
        a: RegisterSlot,
        b: RegisterSlot,
    },
    Word3 {
        run: fn(&Words, &Words, &Words) -> Words,
        d: RegisterSlot,
        a: RegisterSlot,
        b: RegisterSlot,
        c: RegisterSlot,
    },
    Long1 {
        run: fn(&Longs) -> Longs,
        d: RegisterSlot,
        a: RegisterSlot,
    },
    Long2 {
        run: fn(&Longs, &Longs) -> Longs,
        d: RegisterSlot,
        a: RegisterSlot,
        b: RegisterSlot,
    },
    Long3 {
        run: fn(&Longs, &Longs, &Longs) -> Longs,
        d: RegisterSlot,
        a: RegisterSlot,
        b: RegisterSlot,
        c: RegisterSlot,
    },
    /// Words to longs: `mul.wide`.
    Widen1 {
        run: fn(&Words) -> Longs,
        d: RegisterSlot,
        a: RegisterSlot,
    },
    Widen2 {
        run: fn(&Words, &Words) -> Longs,
        d: RegisterSlot,
        a: RegisterSlot,
        b: RegisterSlot,
    },
    /// `mad.wide`: the last operand is long.
    Widen3 {
        run: fn(&Words, &Words, &Longs) -> Longs,
        d: RegisterSlot,
        a: RegisterSlot,
        b: RegisterSlot,
        c: RegisterSlot,
    },
    Narrow1 {
        run: fn(&Longs) -> Words,
        d: RegisterSlot,
        a: RegisterSlot,
    },
    /// A shift or another operation whose second operand is a word.
    Shift {
        run: fn(&Longs, &Words) -> Longs,
        d: RegisterSlot,
        a: RegisterSlot,
        b: RegisterSlot,
    },
    Convert {
        how: Conversion,
        d: Register,
        a: Register,
    },
    WordCompare {
        run: fn(&Words, &Words) -> u32,
        d: RegisterSlot,
        /// Receives the opposite.
        opposite: Option<RegisterSlot>,
        a: RegisterSlot,
        b: RegisterSlot,
        combined: Option<Combined>,
    },
    LongCompare {
        run: fn(&Longs, &Longs) -> u32,
        d: RegisterSlot,
        opposite: Option<RegisterSlot>,
        a: RegisterSlot,
        b: RegisterSlot,
        combined: Option<Combined>,
    },
    WordSelect {
        d: RegisterSlot,
        a: RegisterSlot,
        b: RegisterSlot,
        test: RegisterSlot,
    },
    LongSelect {
        d: RegisterSlot,
        a: RegisterSlot,
        b: RegisterSlot,
        test: RegisterSlot,
    },
    PredicateMove {
        d: RegisterSlot,
        a: PredicateOperand,
    },
    PredicateLogic {
        logic: Logic,
        d: RegisterSlot,
        a: PredicateOperand,
        b: PredicateOperand,
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
        order: MemoryOrder,
    },
    Store {
        space: Space,
        element: Element,
        address: Address,
        a: Vector,
        order: MemoryOrder,
    },
    Atomic {
        space: Space,
        update: AtomicUpdate,
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
        source_bytes: Option<RegisterSlot>,
    },
    TensorCopy(Box<TensorCopy>),
    Mbarrier {
        space: Space,
        address: Address,
        step: MbarrierOperation,
    },
    CopyCommit,
    /// Waits until at most so many groups are pending; `None`: for everything.
    CopyWait {
        pending: Option<u32>,
    },
    Shuffle {
        how: ShuffleMode,
        d: RegisterSlot,
        inside: Option<RegisterSlot>,
        a: RegisterSlot,
        lane: RegisterSlot,
        clamp: RegisterSlot,
        members: RegisterSlot,
    },
    Vote {
        how: VoteMode,
        d: Option<RegisterSlot>,
        a: PredicateOperand,
        members: RegisterSlot,
    },
    ActiveMask {
        d: RegisterSlot,
    },
    Reduce {
        run: fn(u32, u32) -> u32,
        d: RegisterSlot,
        a: RegisterSlot,
        members: RegisterSlot,
    },
    Match {
        how: MatchMode,
        d: RegisterSlot,
        a: Register,
        members: RegisterSlot,
    },
    /// Chooses the first of the members.
    Elect {
        d: Option<RegisterSlot>,
        chosen: RegisterSlot,
        members: RegisterSlot,
    },
    /// Warps come to a barrier whole, as `.aligned` asks; that it is not asked for is not told apart.
    Barrier {
        id: RegisterSlot,
        threads: Option<RegisterSlot>,
        mode: BarrierMode,
        poll: Option<BarrierReduction>,
    },
    /// Warps come to it whole, too.
    ClusterBarrier(ClusterBarrierStep),
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
        reconvergence: u32,
    },
    Exit,
    Trap,
    MatrixProduct(Box<MatrixProduct>),
    MatrixMove(Box<MatrixMove>),
}

/// Something to execute, and where it comes from.
#[derive(Debug, Clone)]
pub(in crate::cpu) struct KernelStep {
    pub(in crate::cpu) guard: Option<PredicateOperand>,
    pub(in crate::cpu) operation: Operation,
    /// The line of the PTX text.
    pub(in crate::cpu) line: u32,
    /// An index into the kernel's source lines.
    pub(in crate::cpu) source: Option<u32>,
    pub(in crate::cpu) class: InstructionClass,
    /// Whether it begins an instruction; others belong to the instruction before.
    pub(in crate::cpu) begins: bool,
}
