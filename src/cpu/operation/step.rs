//! Operations and steps. A step is an operation with its guard and its source location.

use super::matrix::{MatrixMove, MatrixProduct};
use super::mbarrier::{MbarrierOperation, StoreWait, TensorCopy, TensorStore};
use super::operands::{
    Address, AtomicUpdate, Combined, Element, Logic, Longs, MemoryOrder, PredicateOperand,
    Register, RegisterSlot, Vector, Words,
};
use super::warp::{
    BarrierMode, BarrierReduction, ClusterBarrierStep, MatchMode, ShuffleMode, VoteMode,
};
use super::warpgroup::{WarpgroupOrder, WarpgroupProduct};
use crate::cpu::counts::InstructionClass;
use crate::cpu::numeric::convert::Conversion;
use crate::cpu::types::Space;

/// Operation of a decoded instruction. `d` is written; `a`, `b` and `c` are read.
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
    /// `mad.wide`: the last operand is a long.
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
    /// A shift, or another operation whose second operand is a word.
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
        /// Receives the negated result.
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
    /// Packs parts of `bits` bits each into one register, the lowest first.
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
        /// Required alignment of the address.
        alignment: u32,
        d: Option<Register>,
        address: Address,
        a: Register,
        b: Option<Register>,
    },
    /// `cp.async` of `bytes` bytes. It reads `source_bytes` of them and fills the rest with zeros.
    Copy {
        bytes: u32,
        to: Address,
        from: Address,
        source_bytes: Option<RegisterSlot>,
    },
    TensorCopy(Box<TensorCopy>),
    TensorStore(Box<TensorStore>),
    StoreCommit,
    /// Waits until at most `pending` groups of bulk stores are incomplete.
    StoreWait {
        pending: u32,
        what: StoreWait,
    },
    Mbarrier {
        space: Space,
        address: Address,
        step: MbarrierOperation,
    },
    CopyCommit,
    /// Waits until at most `pending` groups are incomplete; `None` waits for all copies.
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
    /// Elects the lowest of the member lanes.
    Elect {
        d: Option<RegisterSlot>,
        chosen: RegisterSlot,
        members: RegisterSlot,
    },
    /// Barrier of the block. Warps must reach it converged, as for `.aligned`, even where the
    /// instruction lacks that modifier.
    Barrier {
        id: RegisterSlot,
        threads: Option<RegisterSlot>,
        mode: BarrierMode,
        poll: Option<BarrierReduction>,
    },
    /// Barrier of the cluster; warps must reach it converged.
    ClusterBarrier(ClusterBarrierStep),
    WarpBarrier,
    Fence,
    /// `fence.proxy.async`: orders ordinary accesses before asynchronous ones.
    ProxyFence,
    /// `griddepcontrol.wait`: waits for the end of earlier launches.
    LaunchWait,
    /// Instructions that the block has executed, shifted right.
    Clock {
        d: Register,
        shift: u32,
    },
    /// Yields to other warps.
    Sleep,
    /// Lanes for which the guard holds jump to `target`; all lanes reconverge at `reconvergence`.
    Branch {
        target: u32,
        reconvergence: u32,
    },
    Exit,
    Trap,
    MatrixProduct(Box<MatrixProduct>),
    MatrixMove(Box<MatrixMove>),
    WarpgroupProduct(Box<WarpgroupProduct>),
    WarpgroupOrder(WarpgroupOrder),
}

/// A step of a kernel: an operation and where it comes from.
#[derive(Debug, Clone)]
pub(in crate::cpu) struct KernelStep {
    pub(in crate::cpu) guard: Option<PredicateOperand>,
    pub(in crate::cpu) operation: Operation,
    /// Line of the PTX text.
    pub(in crate::cpu) line: u32,
    /// Index into the kernel's source lines.
    pub(in crate::cpu) source: Option<u32>,
    pub(in crate::cpu) class: InstructionClass,
    /// True for the first step of an instruction; further steps belong to the same instruction.
    pub(in crate::cpu) begins: bool,
}
