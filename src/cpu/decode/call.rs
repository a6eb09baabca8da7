//! Calls, decoded by inlining: the statements of the function replace the call, with registers of
//! their own. Recursion is an error.

use std::collections::HashSet;

use super::decoder::{BranchTarget, InlinedCall, KernelDecoder};
use super::error::StatementError;
use super::variables::{Symbol, size_of};
use crate::cpu::error::PtxError;
use crate::cpu::operation::{Operation, PredicateOperand};
use crate::cpu::parse::{
    Guard, Instruction, ParsedFunction, ParsedOperand, StatementKind, Variable,
};
use crate::cpu::types::Space;

/// Limit of nested calls.
const MAX_DEPTH: usize = 32;

/// Code that a kernel can reach.
pub(super) struct ReachableCode<'a, 'm> {
    /// The kernel and the functions that it calls, directly or indirectly.
    pub(super) functions: Vec<&'m ParsedFunction<'a>>,
    /// All names in their instructions.
    pub(super) names: HashSet<&'a str>,
}

impl<'a, 'm> KernelDecoder<'a, 'm> {
    pub(super) fn reached(&self, kernel: &'m ParsedFunction<'a>) -> ReachableCode<'a, 'm> {
        let mut functions = vec![kernel];
        let mut names = HashSet::new();
        let mut at = 0;
        while let Some(function) = functions.get(at) {
            at += 1;
            let mut called = Vec::new();
            for statement in &function.body {
                let StatementKind::Instruction(instruction) = &statement.kind else { continue };
                for name in instruction.operands.iter().flat_map(operand_names) {
                    let function = self.surroundings.functions.get(name);
                    if let (true, Some(function)) = (names.insert(name), function) {
                        called.push(*function);
                    }
                }
            }
            functions.extend(called);
        }
        ReachableCode { functions, names }
    }

    /// `call (result), function, (parameters);`
    pub(super) fn call(
        &mut self,
        line: u32,
        instruction: &Instruction<'a>,
    ) -> Result<(), PtxError> {
        let located = |decoder: &Self, fault| decoder.error(line, instruction.opcode, fault);
        let none: &[ParsedOperand<'a>] = &[];
        let (results, name, arguments) = match &instruction.operands[..] {
            [ParsedOperand::Name(name)] => (none, *name, none),
            [ParsedOperand::Name(name), ParsedOperand::List(arguments)] => {
                (none, *name, &arguments[..])
            }
            [ParsedOperand::List(results), ParsedOperand::Name(name)] => {
                (&results[..], *name, none)
            }
            [
                ParsedOperand::List(results),
                ParsedOperand::Name(name),
                ParsedOperand::List(arguments),
            ] => (&results[..], *name, &arguments[..]),
            _ => return Err(located(self, StatementError::new("only direct calls are supported"))),
        };
        let guard = instruction.guard.as_ref();
        let guard = guard.map(|guard: &Guard<'a>| self.names.guard(guard)).transpose();
        let guard = guard.map_err(|fault| located(self, fault))?;
        if name == "__assertfail" {
            self.control(line, guard, Operation::Trap);
            return Ok(());
        }
        let function = self.callee(name).map_err(|fault| located(self, fault))?;
        let bound = self
            .bound(function.results.iter(), results)
            .and_then(|mut bound| {
                bound.extend(self.bound(function.parameters.iter(), arguments)?);
                Ok(bound)
            })
            .map_err(|fault| located(self, fault))?;

        let skipping = self.steps.len();
        if let Some(guard) = guard {
            let others = PredicateOperand { negated: !guard.negated, ..guard };
            self.branch(line, Some(others), BranchTarget::Step(0));
        }
        let (outer, source) = (self.names.enter_function(), self.source);
        let local_end = self.variables.local_end();
        for (name, symbol) in bound {
            self.names.add_symbol(name, symbol);
        }
        self.calls.push(InlinedCall { function: name, returns: Vec::new() });
        self.body(function)?;
        self.names.leave_function(outer);
        self.source = source;
        self.variables.release_local(local_end);
        let returns = self.calls.pop().map(|call| call.returns).unwrap_or_default();
        let end = self.steps.len();
        self.branches.extend(returns.into_iter().map(|at| (at, BranchTarget::Step(end))));
        if guard.is_some() {
            let branch = self.branches.iter_mut().find(|(at, _)| *at == skipping);
            branch.into_iter().for_each(|(_, target)| *target = BranchTarget::Step(end));
        }
        Ok(())
    }

    /// Looks up a function that can be called here.
    fn callee(&self, name: &str) -> Result<&'m ParsedFunction<'a>, StatementError> {
        let Some(function) = self.surroundings.functions.get(name) else {
            return Err(StatementError::new(match name {
                "vprintf" => "this device does not support `printf`; remove the call".to_owned(),
                _ if name.starts_with('%') => "only direct calls are supported".to_owned(),
                _ => format!("`{name}` has no body in this module"),
            }));
        };
        if self.calls.iter().any(|call| call.function == name) {
            return Err(StatementError::new(format!(
                "`{name}` is recursive, which is not supported"
            )));
        }
        if self.calls.len() >= MAX_DEPTH {
            return Err(StatementError::new(format!(
                "calls are nested more than {MAX_DEPTH} deep"
            )));
        }
        Ok(function)
    }

    /// Pairs the names of a function's parameters with the variables of the caller.
    fn bound(
        &self,
        parameters: std::slice::Iter<'m, Variable<'a>>,
        arguments: &[ParsedOperand<'a>],
    ) -> Result<Vec<(&'a str, Symbol)>, StatementError> {
        if parameters.len() != arguments.len() {
            let (expected, given) = (parameters.len(), arguments.len());
            return Err(StatementError::new(format!(
                "the call passes {given} parameters, but the function has {expected}"
            )));
        }
        let bind = |(parameter, argument): (&'m Variable<'a>, &ParsedOperand<'a>)| {
            let (_, _, bytes) = size_of(parameter)?;
            let symbol = match argument {
                ParsedOperand::Name(name) => self.names.symbol(name),
                _ => None,
            };
            let symbol = symbol.filter(|symbol| symbol.space == Space::Local);
            let name = parameter.name;
            match symbol {
                Some(symbol) if symbol.bytes == bytes => Ok((name, symbol)),
                Some(symbol) => Err(StatementError::new(format!(
                    "`{name}` has {bytes} bytes, but the argument has {}",
                    symbol.bytes
                ))),
                None => Err(StatementError::new(format!(
                    "the argument for `{name}` is not a `.param` variable"
                ))),
            }
        };
        parameters.zip(arguments).map(bind).collect()
    }

    /// `ret` in an inlined function.
    pub(super) fn return_from_call(&mut self, line: u32, guard: Option<PredicateOperand>) {
        let at = self.steps.len();
        if let Some(call) = self.calls.last_mut() {
            call.returns.push(at);
        }
        self.control(line, guard, Operation::Branch { target: 0, reconvergence: u32::MAX });
    }
}

/// All names in an operand.
fn operand_names<'a>(operand: &ParsedOperand<'a>) -> Vec<&'a str> {
    match operand {
        ParsedOperand::Name(name) | ParsedOperand::Negated(name) | ParsedOperand::Sum(name, _) => {
            vec![*name]
        }
        ParsedOperand::Pair(first, second) => vec![*first, *second],
        ParsedOperand::Address { base, .. } => base.iter().copied().collect(),
        ParsedOperand::TensorBox { base, coordinates, .. } => {
            base.iter().copied().chain(coordinates.iter().flat_map(operand_names)).collect()
        }
        ParsedOperand::Vector(parts) | ParsedOperand::List(parts) => {
            parts.iter().flat_map(operand_names).collect()
        }
        ParsedOperand::Integer(_) | ParsedOperand::Single(_) | ParsedOperand::Double(_) => {
            Vec::new()
        }
    }
}
