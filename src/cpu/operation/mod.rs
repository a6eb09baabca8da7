//! Decoded instructions: the operations that decoding produces and execution runs.
//!
//! Values of a warp lie in slots of 32 lanes: words for registers of up to 32 bits, longs for 64
//! bits, and one bit of a word per lane for predicates. Immediates and special registers have slots
//! of their own, so an operand is always a slot. Every operation reads all of its operands before
//! it writes.

mod matrix;
mod mbarrier;
mod operands;
mod slot_uses;
mod special_registers;
mod step;
mod warp;
mod warpgroup;

pub(super) use matrix::{
    AccumulatorFormat, MatrixDirection, MatrixElement, MatrixMove, MatrixProduct,
};
pub(super) use mbarrier::{
    MbarrierOperation, PhaseOperand, StoreEffect, StoreWait, TensorCopy, TensorStore,
};
pub(super) use operands::{
    Address, AtomicUpdate, Combined, Element, Logic, Longs, MemoryOrder, PredicateOperand,
    Register, RegisterSlot, Vector, Words,
};
pub(super) use slot_uses::SlotUse;
pub(super) use special_registers::{SpecialRegister, special_constant};
pub(super) use step::{KernelStep, Operation};
pub(super) use warp::{
    ArriveOrder, BarrierMode, BarrierReduction, ClusterBarrierStep, MatchMode, ReductionResult,
    ShuffleMode, VoteMode,
};
pub(super) use warpgroup::{
    DescribedMatrix, FactorSource, MajorDimension, WarpgroupOrder, WarpgroupProduct,
};
