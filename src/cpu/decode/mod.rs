//! From statements to the compact form: names become slots and addresses, opcodes functions.
//!
//! An opcode, a modifier or an operand that is not understood is an error with its place in both
//! texts: a kernel never runs with part of its meaning left out.

mod allocate;
mod arithmetic;
mod atomic;
mod bits;
mod call;
mod cluster;
mod compare;
mod copy;
mod engine;
mod floating;
mod flow;
mod instruction;
mod kernel;
mod lanes;
mod memory;
mod module;
mod moves;
mod names;
mod opcode;
mod special;
mod variables;
mod warp;

pub(super) use allocate::SlotCounts;
pub(super) use kernel::Kernel;
pub(super) use module::decode;
pub(super) use names::Pinned;
pub(super) use special::Special;
pub(super) use variables::Segment;

/// What is wrong with a statement, before its place is known.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault(String);

impl Fault {
    fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }

    fn operands() -> Self {
        Self::new("its operands are not those of an instruction that this device executes")
    }

    fn ty() -> Self {
        Self::new("this device does not execute it with this type")
    }
}
