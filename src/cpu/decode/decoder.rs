//! State of the decoder while it processes the statements of one kernel.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use super::error::StatementError;
use super::module_scope::ModuleScope;
use super::name_table::NameTable;
use super::variables::{Symbol, Variables};
use crate::cpu::counts::InstructionClass;
use crate::cpu::error::{PtxError, SourceLine};
use crate::cpu::operation::{KernelStep, Operation, PredicateOperand};
use crate::cpu::parse::{Location, SourcePosition};

/// Most calls that are followed from an inlined function to the kernel.
const MAX_CALLS: usize = 16;

/// Target of a branch.
#[derive(Debug, Clone)]
pub(super) enum BranchTarget<'a> {
    /// A label and the scopes to search for it, the innermost first.
    Label(&'a str, Vec<u32>),
    Step(usize),
}

/// A call that is being inlined.
#[derive(Debug)]
pub(super) struct InlinedCall<'a> {
    pub(super) function: &'a str,
    /// Steps that return from the call.
    pub(super) returns: Vec<usize>,
}

/// Decoder of one kernel.
pub(super) struct KernelDecoder<'a, 'm> {
    pub(super) surroundings: &'m ModuleScope<'a, 'm>,
    pub(super) names: NameTable<'a>,
    pub(super) variables: Variables,
    pub(super) steps: Vec<KernelStep>,
    pub(super) sources: Vec<SourceLine>,
    pub(super) source: Option<u32>,
    pub(super) known_sources: HashMap<SourceLine, u32>,
    /// Calls that the code at a position was inlined at.
    pub(super) calls_to: HashMap<SourcePosition, Vec<SourcePosition>>,
    /// Step of each label, by its scope.
    pub(super) labels: HashMap<(u32, &'a str), usize>,
    pub(super) branches: Vec<(usize, BranchTarget<'a>)>,
    /// End of local memory at the start of each open scope.
    pub(super) local_ends: Vec<u64>,
    /// Shared variables, by the function that declares them.
    pub(super) shared: HashMap<(&'a str, &'a str), Symbol>,
    /// Open calls, the innermost last.
    pub(super) calls: Vec<InlinedCall<'a>>,
    pub(super) statements: usize,
    pub(super) declared_registers: u64,
}

impl<'a, 'm> KernelDecoder<'a, 'm> {
    pub(super) fn new(surroundings: &'m ModuleScope<'a, 'm>) -> Self {
        Self {
            surroundings,
            names: NameTable::of_kernel(Rc::clone(&surroundings.names)),
            variables: Variables::default(),
            steps: Vec::new(),
            sources: Vec::new(),
            source: None,
            known_sources: HashMap::new(),
            calls_to: HashMap::new(),
            labels: HashMap::new(),
            branches: Vec::new(),
            local_ends: Vec::new(),
            shared: HashMap::new(),
            calls: Vec::new(),
            statements: 0,
            declared_registers: 0,
        }
    }

    pub(super) fn error(&self, line: u32, text: &str, fault: StatementError) -> PtxError {
        let source_line = self.source.and_then(|at| self.sources.get(at as usize)).cloned();
        PtxError::Statement { line, source_line, text: text.to_owned(), what: fault.0 }
    }

    /// Sets the source line of the statements that follow.
    pub(super) fn location(&mut self, location: &Location) {
        // Line 0 marks code without a source line; it keeps the line of the code before it.
        let SourcePosition { file, line, .. } = location.position;
        let (1.., Some(file)) = (line, self.surroundings.files.get(&file)) else { return };
        let inlined_at = location.inlined_at.map_or_else(Vec::new, |call| {
            let calls = self.calls_to.entry(location.position).or_default();
            if !calls.contains(&call) {
                calls.push(call);
            }
            self.calls(call)
        });
        let source = SourceLine { file: Arc::clone(file), line, inlined_at };
        let known = self.known_sources.get(&source).copied();
        self.source = known.or_else(|| {
            let index = self.sources.len() as u32;
            self.sources.push(source.clone());
            self.known_sources.insert(source, index);
            Some(index)
        });
    }

    /// Lines of the calls from `innermost` to the kernel. A location names one call; the locations before it have those
    /// of the code around the call.
    fn calls(&self, innermost: SourcePosition) -> Vec<Vec<u32>> {
        let (mut calls, mut around) = (Vec::new(), vec![innermost]);
        while !around.is_empty() && calls.len() < MAX_CALLS {
            let mut lines: Vec<u32> = around.iter().map(|call| call.line).collect();
            lines.sort_unstable();
            lines.dedup();
            calls.push(lines);
            let outer = around.iter().filter_map(|call| self.calls_to.get(call)).flatten();
            let outer = outer.filter(|call| call.file == innermost.file);
            around = outer.copied().collect::<HashSet<_>>().into_iter().collect();
        }
        calls
    }

    /// Adds a branch whose target is resolved at the end.
    pub(super) fn branch(
        &mut self,
        line: u32,
        guard: Option<PredicateOperand>,
        target: BranchTarget<'a>,
    ) {
        self.branches.push((self.steps.len(), target));
        self.control(line, guard, Operation::Branch { target: 0, reconvergence: u32::MAX });
    }

    /// Adds a control step: a branch, an exit or a trap.
    pub(super) fn control(
        &mut self,
        line: u32,
        guard: Option<PredicateOperand>,
        operation: Operation,
    ) {
        let (source, class) = (self.source, InstructionClass::Control);
        self.steps.push(KernelStep { guard, operation, line, source, class, begins: true });
    }
}
