//! Decoder: from statements to operations. Names become slots and addresses, opcodes become
//! functions.
//!
//! An opcode, a modifier or an operand that is not supported is an error with its location in both
//! texts. A kernel never runs with a part of its meaning ignored.

mod arithmetic;
mod async_copy;
mod atomic;
mod barriers;
mod bits;
mod call;
mod cluster;
mod compare;
mod control_flow;
mod convert;
mod decoder;
mod error;
mod floating;
mod instruction;
mod kernel;
mod lane_functions;
mod lane_operation;
mod matrix;
mod mbarrier;
mod memory;
mod module;
mod module_scope;
mod moves;
mod name_table;
mod opcode;
mod operands;
mod product_registers;
mod slot_allocation;
mod tensor_copy;
mod variables;
mod warp;
mod warpgroup;

pub(super) use module::decode;
