//! A kernel: its steps, what it is called with, and where its variables lie.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use super::allocate::{SlotCounts, allocate};
use super::flow::set_meeting_points;
use super::names::{Names, Pinned, Symbol};
use super::{Fault, instruction};
use crate::cpu::error::{PtxError, SourceLine};
use crate::cpu::layout::{MAX_LOCAL, MAX_MODULE, MAX_SHARED, MODULE_BASE, SHARED_GUARD, align};
use crate::cpu::operation::{Direction, Operation, Slot, Step};
use crate::cpu::parse::{Function, Instruction, Linkage, Module, Operand, StatementKind, Variable};
use crate::cpu::types::{Class, Space, Type};

/// A stretch of shared memory that a variable has to itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cpu) struct Segment {
    pub(in crate::cpu) name: String,
    pub(in crate::cpu) start: u64,
    pub(in crate::cpu) end: u64,
}

/// A kernel's code, ready to run.
#[derive(Debug)]
pub(in crate::cpu) struct Kernel {
    pub(in crate::cpu) name: String,
    pub(in crate::cpu) steps: Vec<Step>,
    pub(in crate::cpu) sources: Vec<SourceLine>,
    pub(in crate::cpu) slots: SlotCounts,
    pub(in crate::cpu) pinned: Pinned,
    /// Where parameters begin, and their bytes.
    pub(in crate::cpu) parameters: Vec<(u64, u64)>,
    pub(in crate::cpu) segments: Vec<Segment>,
    /// Static shared memory without what lies between variables here.
    pub(in crate::cpu) static_shared_bytes: u64,
    /// Where dynamic shared memory begins.
    pub(in crate::cpu) dynamic_shared: u64,
    pub(in crate::cpu) local_bytes: u64,
    pub(in crate::cpu) declared_registers: u64,
    /// The bytes that checks of shared memory tell apart: those of its smallest access.
    pub(in crate::cpu) granule: u32,
}

/// The memory of a module's variables, which begins at [`MODULE_BASE`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::cpu) struct Contents {
    pub(in crate::cpu) bytes: u64,
    /// What is not zero at first, and where.
    pub(in crate::cpu) values: Vec<(u64, Vec<u8>)>,
}

/// How deep `{` may stand within `{`. NVRTC opens one for a call, and one for inline PTX.
const MAX_NESTING: usize = 64;

/// Decodes a whole module.
pub(in crate::cpu) fn decode(module: &Module<'_>) -> Result<(Vec<Kernel>, Contents), PtxError> {
    let files: HashMap<u32, Arc<str>> =
        module.files.iter().map(|(index, path)| (*index, Arc::from(*path))).collect();
    let mut contents = Contents::default();
    let mut symbols = HashMap::new();
    for variable in &module.variables {
        let located = |fault: Fault| PtxError::Statement {
            line: variable.line,
            source_line: None,
            text: variable.name.to_owned(),
            what: fault.0,
        };
        if matches!(variable.space, "global" | "const") {
            let symbol = place_in_module(variable, &mut contents).map_err(located)?;
            symbols.insert(variable.name, symbol);
        }
    }
    let entries = module.functions.iter().filter(|function| function.linkage == Linkage::Entry);
    let symbols = Rc::new(symbols);
    let kernels =
        entries.map(|function| Decoder::new(&files, Rc::clone(&symbols)).kernel(module, function));
    Ok((kernels.collect::<Result<_, _>>()?, contents))
}

fn size_of(variable: &Variable<'_>) -> Result<(Type, u64, u64), Fault> {
    let ty = Type::named(variable.ty)
        .filter(|ty| *ty != Type::Predicate)
        .ok_or_else(|| Fault::new(format!("`.{}` is no type of a variable", variable.ty)))?;
    let alignment = variable.alignment.unwrap_or(ty.bytes().into());
    if !alignment.is_power_of_two() || alignment > 4096 {
        return Err(Fault::new(format!("{alignment} is no alignment")));
    }
    let elements = variable.elements.ok_or_else(|| Fault::new("it has no size"))?;
    let bytes = elements.checked_mul(ty.bytes().into());
    let bytes = bytes.ok_or_else(|| Fault::new("it is larger than any memory"))?;
    Ok((ty, alignment, bytes))
}

fn place_in_module(variable: &Variable<'_>, contents: &mut Contents) -> Result<Symbol, Fault> {
    let (ty, alignment, bytes) = size_of(variable)?;
    let start = align(contents.bytes, alignment);
    if bytes > MAX_MODULE || start + bytes > MAX_MODULE {
        return Err(Fault::new("the variables of a module exceed 256 MiB"));
    }
    contents.bytes = start + bytes;
    let element = |value: &u64| value.to_le_bytes().into_iter().take(ty.bytes() as usize);
    let values: Vec<u8> = variable.values.iter().flat_map(element).collect();
    if values.len() as u64 > bytes {
        return Err(Fault::new("it has more values than elements"));
    }
    contents.values.push((start, values));
    let space = if variable.space == "const" { Space::Constant } else { Space::Global };
    Ok(Symbol { space, address: MODULE_BASE + start })
}

/// Reads the statements of one function.
struct Decoder<'a, 'm> {
    files: &'m HashMap<u32, Arc<str>>,
    names: Names<'a>,
    steps: Vec<Step>,
    sources: Vec<SourceLine>,
    source: Option<u32>,
    known_sources: HashMap<SourceLine, u32>,
    /// Labels by the scope that they stand in.
    labels: HashMap<(u32, &'a str), usize>,
    /// Branches, with the scopes from which their label is looked for.
    branches: Vec<(usize, &'a str, Vec<u32>)>,
    scopes: Vec<u32>,
    opened: u32,
    declared_registers: u64,
    segments: Vec<Segment>,
    shared_end: u64,
    static_shared_bytes: u64,
    local_bytes: u64,
}

impl<'a, 'm> Decoder<'a, 'm> {
    fn new(files: &'m HashMap<u32, Arc<str>>, symbols: Rc<HashMap<&'a str, Symbol>>) -> Self {
        Self {
            files,
            names: Names::of_function(symbols),
            steps: Vec::new(),
            sources: Vec::new(),
            source: None,
            known_sources: HashMap::new(),
            labels: HashMap::new(),
            branches: Vec::new(),
            scopes: vec![0],
            opened: 1,
            declared_registers: 0,
            segments: Vec::new(),
            shared_end: 0,
            static_shared_bytes: 0,
            local_bytes: 0,
        }
    }

    fn kernel(mut self, module: &Module<'a>, function: &Function<'a>) -> Result<Kernel, PtxError> {
        let parameters = self.place_parameters(function)?;
        let own = function.body.iter().filter_map(|statement| match &statement.kind {
            StatementKind::Variable(variable) => Some(variable),
            _ => None,
        });
        let shared = module.variables.iter().filter(|variable| variable.space == "shared");
        let (dynamic, fixed): (Vec<_>, Vec<_>) = own
            .chain(shared)
            .partition(|variable| variable.space == "shared" && variable.elements.is_none());
        for variable in fixed {
            self.place(variable)
                .map_err(|fault| self.error(variable.line, variable.name, fault))?;
        }
        // Aligned for any swizzle that a kernel computes from addresses.
        let dynamic_shared = align(self.shared_end, 1024);
        for variable in dynamic {
            let symbol = Symbol { space: Space::Shared, address: dynamic_shared };
            self.names.add_symbol(variable.name, symbol);
        }
        for statement in &function.body {
            self.statement(statement.line, &statement.kind)?;
        }
        self.finish(function, parameters, dynamic_shared)
    }

    fn error(&self, line: u32, text: &str, fault: Fault) -> PtxError {
        let source_line = self.source.and_then(|at| self.sources.get(at as usize)).cloned();
        PtxError::Statement { line, source_line, text: text.to_owned(), what: fault.0 }
    }

    fn place_parameters(&mut self, function: &Function<'a>) -> Result<Vec<(u64, u64)>, PtxError> {
        let mut end = 0;
        let mut parameters = Vec::new();
        for parameter in &function.parameters {
            let located = |fault| self.error(parameter.line, parameter.name, fault);
            let (_, alignment, bytes) = size_of(parameter).map_err(located)?;
            let start = align(end, alignment);
            // The most that a kernel's parameters take (ISA section 5.2.6.1: 32764 bytes).
            if bytes > 32_764 || start + bytes > 32_764 {
                return Err(self.error(
                    parameter.line,
                    parameter.name,
                    Fault::new("the parameters exceed 32764 bytes"),
                ));
            }
            end = start + bytes;
            parameters.push((start, bytes));
            let symbol = Symbol { space: Space::Parameter, address: start };
            self.names.add_symbol(parameter.name, symbol);
        }
        Ok(parameters)
    }

    /// Gives a variable of the function its place.
    fn place(&mut self, variable: &Variable<'a>) -> Result<(), Fault> {
        let (_, alignment, bytes) = size_of(variable)?;
        if variable.space == "local" {
            let start = align(self.local_bytes, alignment);
            if bytes > MAX_LOCAL || start + bytes > MAX_LOCAL {
                return Err(Fault::new("a thread's local memory exceeds 512 KiB"));
            }
            self.local_bytes = start + bytes;
            let symbol = Symbol { space: Space::Local, address: start };
            self.names.add_symbol(variable.name, symbol);
            return Ok(());
        }
        if variable.space != "shared" {
            return Err(Fault::new(format!("a function has no `.{}` variables", variable.space)));
        }
        let start = align(self.shared_end, alignment);
        if bytes > MAX_SHARED || start + bytes > MAX_SHARED {
            return Err(Fault::new("a block's static shared memory exceeds 1 MiB"));
        }
        self.static_shared_bytes = align(self.static_shared_bytes, alignment) + bytes;
        self.segments.push(Segment { name: variable.name.to_owned(), start, end: start + bytes });
        self.shared_end = start + bytes + SHARED_GUARD;
        self.names.add_symbol(variable.name, Symbol { space: Space::Shared, address: start });
        Ok(())
    }

    fn statement(&mut self, line: u32, kind: &StatementKind<'a>) -> Result<(), PtxError> {
        match kind {
            StatementKind::Open => {
                if self.scopes.len() > MAX_NESTING {
                    let what = format!("braces stand more than {MAX_NESTING} deep");
                    return Err(self.error(line, "{", Fault::new(what)));
                }
                self.names.open();
                self.scopes.push(self.opened);
                self.opened += 1;
            }
            StatementKind::Close => {
                self.names.close();
                self.scopes.pop();
            }
            StatementKind::Label(name) => {
                let scope = self.scopes.last().copied().unwrap_or(0);
                if self.labels.insert((scope, *name), self.steps.len()).is_some() {
                    return Err(self.error(line, name, Fault::new("the label stands twice")));
                }
            }
            StatementKind::Location(location) => {
                // Line 0 is code that the compiler made of none: it stays with what is before.
                if let (1.., Some(file)) = (location.line, self.files.get(&location.file)) {
                    let source = SourceLine {
                        file: Arc::clone(file),
                        line: location.line,
                        inlined_at: location.inlined_at,
                    };
                    self.source = Some(self.source_index(source));
                }
            }
            StatementKind::Register { ty, name, count } => {
                let unknown = || Fault::new(format!("`.{ty}` is no type that registers have here"));
                let ty = Type::named(ty).ok_or_else(unknown);
                let ty = ty.map_err(|fault| self.error(line, name, fault))?;
                self.declared_registers += u64::from(count.unwrap_or(1));
                self.names.declare(name, ty, *count);
            }
            StatementKind::Variable(_) => {}
            StatementKind::Instruction(instruction) => {
                self.instruction(line, instruction)
                    .map_err(|fault| self.error(line, instruction.opcode, fault))?;
            }
        }
        Ok(())
    }

    fn source_index(&mut self, source: SourceLine) -> u32 {
        if let Some(index) = self.known_sources.get(&source) {
            return *index;
        }
        let index = self.sources.len() as u32;
        self.sources.push(source.clone());
        self.known_sources.insert(source, index);
        index
    }

    fn instruction(&mut self, line: u32, instruction: &Instruction<'a>) -> Result<(), Fault> {
        let guard = instruction.guard.as_ref().map(|guard| self.names.guard(guard)).transpose()?;
        let operations = match instruction.opcode {
            "bra" | "bra.uni" => {
                let [Operand::Name(label)] = instruction.operands[..] else {
                    return Err(Fault::operands());
                };
                let scopes = self.scopes.iter().rev().copied().collect();
                self.branches.push((self.steps.len(), label, scopes));
                vec![Operation::Branch { target: 0, meet: u32::MAX }]
            }
            _ => instruction::decode(instruction, &mut self.names)?,
        };
        for operation in operations {
            let class = instruction::class(&operation, instruction.opcode);
            self.steps.push(Step { guard, operation, line, source: self.source, class });
        }
        Ok(())
    }

    fn finish(
        mut self,
        function: &Function<'a>,
        parameters: Vec<(u64, u64)>,
        dynamic_shared: u64,
    ) -> Result<Kernel, PtxError> {
        // A label at the end, and a body without `ret`, need a step.
        let line = self.steps.last().map_or(function.line, |step| step.line);
        let class = crate::cpu::counts::InstructionClass::Control;
        let end =
            Step { guard: None, operation: Operation::Exit, line, source: self.source, class };
        self.steps.push(end);
        for (at, label, scopes) in std::mem::take(&mut self.branches) {
            let place = scopes.iter().find_map(|scope| self.labels.get(&(*scope, label)));
            let Some(place) = place else {
                let line = self.steps[at].line;
                return Err(self.error(line, label, Fault::new("there is no such label")));
            };
            // Lanes that go to a `ret` have ended: nobody waits for them to meet others there.
            let target = &self.steps[*place];
            let ends = target.guard.is_none() && matches!(target.operation, Operation::Exit);
            let branch = Operation::Branch { target: *place as u32, meet: u32::MAX };
            self.steps[at].operation = if ends { Operation::Exit } else { branch };
        }
        set_meeting_points(&mut self.steps);
        let (slots, pinned) = self.allocate_slots();
        Ok(Kernel {
            name: function.name.to_owned(),
            granule: granule(&self.steps),
            steps: self.steps,
            sources: self.sources,
            slots,
            pinned,
            parameters,
            segments: self.segments,
            static_shared_bytes: self.static_shared_bytes,
            dynamic_shared,
            local_bytes: self.local_bytes,
            declared_registers: self.declared_registers,
        })
    }

    fn allocate_slots(&mut self) -> (SlotCounts, Pinned) {
        let mut pinned = self.names.pinned();
        let words: BTreeSet<Slot> = (pinned.words.iter().map(|(_, slot)| *slot))
            .chain(pinned.specials.iter().map(|(_, slot)| *slot))
            .collect();
        let longs: BTreeSet<Slot> = pinned.longs.iter().map(|(_, slot)| *slot).collect();
        let always: BTreeSet<Slot> = pinned.always.into_iter().collect();
        let steps = &mut self.steps;
        let (word_at, word_count) = allocate(steps, Class::Word, self.names.word_slots, &words);
        let (long_at, long_count) = allocate(steps, Class::Long, self.names.long_slots, &longs);
        let (predicate_at, predicate_count) =
            allocate(steps, Class::Predicate, self.names.predicate_slots, &always);
        let rename = |at: &[Slot], slot: &mut Slot| *slot = at[slot.0 as usize];
        pinned.words.iter_mut().for_each(|(_, slot)| rename(&word_at, slot));
        pinned.specials.iter_mut().for_each(|(_, slot)| rename(&word_at, slot));
        pinned.longs.iter_mut().for_each(|(_, slot)| rename(&long_at, slot));
        pinned.always.iter_mut().for_each(|slot| rename(&predicate_at, slot));
        let slots =
            SlotCounts { predicates: predicate_count, words: word_count, longs: long_count };
        (slots, pinned)
    }
}

/// The bytes of the smallest access to shared memory, 4 at most.
fn granule(steps: &[Step]) -> u32 {
    let of_step = |step: &Step| match &step.operation {
        Operation::Load { space, element, d: vector, .. }
        | Operation::Store { space, element, a: vector, .. } => {
            let reaches = matches!(space, Space::Shared | Space::Generic);
            reaches.then_some(element.bytes * vector.length)
        }
        Operation::MatrixMove(moved) if moved.direction == Direction::Store && moved.transposed => {
            Some(2)
        }
        _ => None,
    };
    steps.iter().filter_map(of_step).min().unwrap_or(4).min(4)
}
