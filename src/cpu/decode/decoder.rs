//! State of the decoder while it reads the statements of one kernel.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use super::error::StatementError;
use super::module_scope::ModuleScope;
use super::name_table::NameTable;
use super::variables::{Symbol, Variables};
use crate::cpu::counts::InstructionClass;
use crate::cpu::error::{PtxError, SourceLine};
use crate::cpu::operation::{KernelStep, Operation, PredicateOperand};
use crate::cpu::parse::Location;

/// Where a branch leads.
#[derive(Debug, Clone)]
pub(super) enum BranchTarget<'a> {
    /// A label, and the scopes in which it is looked for, the innermost first.
    Label(&'a str, Vec<u32>),
    Step(usize),
}

/// A call whose statements are being decoded.
#[derive(Debug)]
pub(super) struct InlinedCall<'a> {
    pub(super) function: &'a str,
    /// The steps that return from it.
    pub(super) returns: Vec<usize>,
}

/// Reads the statements of one kernel.
pub(super) struct KernelDecoder<'a, 'm> {
    pub(super) surroundings: &'m ModuleScope<'a, 'm>,
    pub(super) names: NameTable<'a>,
    pub(super) variables: Variables,
    pub(super) steps: Vec<KernelStep>,
    pub(super) sources: Vec<SourceLine>,
    pub(super) source: Option<u32>,
    pub(super) known_sources: HashMap<SourceLine, u32>,
    /// Labels by the scope that they stand in.
    pub(super) labels: HashMap<(u32, &'a str), usize>,
    pub(super) branches: Vec<(usize, BranchTarget<'a>)>,
    /// How far local memory was taken where each scope begins.
    pub(super) local_ends: Vec<u64>,
    /// Variables in shared memory, by the function that declares them.
    pub(super) shared: HashMap<(&'a str, &'a str), Symbol>,
    /// The calls that the next statement is in.
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
        // Line 0 is code that the compiler made of none: it stays with what is before.
        let (1.., Some(file)) = (location.line, self.surroundings.files.get(&location.file)) else {
            return;
        };
        let (line, inlined_at) = (location.line, location.inlined_at);
        let source = SourceLine { file: Arc::clone(file), line, inlined_at };
        let known = self.known_sources.get(&source).copied();
        self.source = known.or_else(|| {
            let index = self.sources.len() as u32;
            self.sources.push(source.clone());
            self.known_sources.insert(source, index);
            Some(index)
        });
    }

    /// A branch whose target is set when all steps are there.
    pub(super) fn branch(
        &mut self,
        line: u32,
        guard: Option<PredicateOperand>,
        target: BranchTarget<'a>,
    ) {
        self.branches.push((self.steps.len(), target));
        self.control(line, guard, Operation::Branch { target: 0, reconvergence: u32::MAX });
    }

    /// A step of the class of branches and exits.
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
