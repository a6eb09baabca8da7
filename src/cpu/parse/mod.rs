//! Parser of PTX text as NVRTC emits it: from characters to statements with line numbers.
//!
//! Parsing gives no meaning to names. Text that no rule of the grammar accepts is an error with its
//! line; no text makes the parser panic or recurse.

mod grammar;
mod operands;
mod syntax_tree;

pub(super) use grammar::parse;
pub(super) use syntax_tree::{
    ClusterDirectives, Guard, Instruction, Linkage, Location, ParsedFunction, ParsedModule,
    ParsedOperand, SourcePosition, Statement, StatementKind, Variable,
};
