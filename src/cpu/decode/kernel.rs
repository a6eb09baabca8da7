//! Decoder of a kernel: statements become steps, with called functions inlined.

use std::collections::BTreeSet;

use super::control_flow::set_reconvergence_points;
use super::decoder::{BranchTarget, KernelDecoder};
use super::error::StatementError;
use super::instruction;
use super::product_registers::{other_uses, product_slots};
use super::slot_allocation::allocate;
use super::variables::Symbol;
use crate::cpu::error::PtxError;
use crate::cpu::kernel_code::{InitialSlots, KernelCode, SlotCounts};
use crate::cpu::operation::{KernelStep, MatrixDirection, Operation, RegisterSlot};
use crate::cpu::parse::{
    Instruction, ParsedFunction, ParsedOperand, Statement, StatementKind, Variable,
};
use crate::cpu::types::{Class, Space, Type};

/// Limit of nested braces. NVRTC opens one for a call and one for inline PTX.
const MAX_NESTING: usize = 64;

/// Limit of the statements of a kernel, with inlined functions counted once per call. The largest
/// kernel of this program has 10 470.
const MAX_STATEMENTS: usize = 1 << 18;

impl<'a, 'm> KernelDecoder<'a, 'm> {
    pub(super) fn kernel(
        mut self,
        function: &'m ParsedFunction<'a>,
    ) -> Result<KernelCode, PtxError> {
        let clusters = function.clusters;
        if clusters.counted {
            let fault =
                StatementError::new("this device does not support grids that count clusters");
            return Err(self.error(function.line, ".blocksareclusters", fault));
        }
        self.names.explicit_cluster = clusters.explicit || clusters.extents.is_some();
        for parameter in &function.parameters {
            let symbol = self.variables.place_parameter(parameter);
            let symbol =
                symbol.map_err(|fault| self.error(parameter.line, parameter.name, fault))?;
            self.names.add_symbol(parameter.name, symbol);
        }
        self.place_shared(function)?;
        self.body(function)?;
        self.finish(function)
    }

    /// Places the shared variables of a kernel, of the functions that it calls, and of the module.
    fn place_shared(&mut self, kernel: &'m ParsedFunction<'a>) -> Result<(), PtxError> {
        let reached = self.reached(kernel);
        let own = reached
            .functions
            .iter()
            .flat_map(|function| own_variables(function).map(|variable| (function.name, variable)));
        let of_module = self.surroundings.shared.iter().map(|variable| ("", *variable));
        let (dynamic, fixed): (Vec<_>, Vec<_>) = own
            .chain(of_module.filter(|(_, variable)| reached.names.contains(variable.name)))
            .filter(|(_, variable)| variable.space == "shared")
            .partition(|(_, variable)| variable.elements.is_none());
        for (function, variable) in fixed {
            let symbol = self.variables.place_shared(variable);
            let symbol = symbol.map_err(|fault| self.error(variable.line, variable.name, fault))?;
            self.shared.insert((function, variable.name), symbol);
            if function.is_empty() {
                self.names.add_to_kernel(variable.name, symbol);
            }
        }
        let address = self.variables.dynamic_shared();
        for (_, variable) in dynamic {
            let symbol = Symbol { space: Space::Shared, address, bytes: 0 };
            self.names.add_to_kernel(variable.name, symbol);
        }
        Ok(())
    }

    /// Decodes the statements of a function in the scope opened for it.
    pub(super) fn body(&mut self, function: &'m ParsedFunction<'a>) -> Result<(), PtxError> {
        for variable in own_variables(function) {
            let symbol = match variable.space {
                "shared" => match self.shared.get(&(function.name, variable.name)) {
                    Some(symbol) => Ok(*symbol),
                    None => continue,
                },
                "local" => self.variables.place_local(variable),
                "param" => continue,
                other => Err(StatementError::new(format!(
                    "`.{other}` variables are not supported in functions"
                ))),
            };
            let symbol = symbol.map_err(|fault| self.error(variable.line, variable.name, fault))?;
            self.names.add_symbol(variable.name, symbol);
        }
        function.body.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &'m Statement<'a>) -> Result<(), PtxError> {
        let line = statement.line;
        self.statements += 1;
        if self.statements > MAX_STATEMENTS {
            let what = format!(
                "the kernel exceeds {MAX_STATEMENTS} statements, including inlined functions"
            );
            return Err(self.error(line, "", StatementError::new(what)));
        }
        match &statement.kind {
            StatementKind::Open => {
                if self.local_ends.len() >= MAX_NESTING {
                    let what = format!("braces are nested more than {MAX_NESTING} deep");
                    return Err(self.error(line, "{", StatementError::new(what)));
                }
                self.names.open();
                self.local_ends.push(self.variables.local_end());
            }
            StatementKind::Close => {
                self.names.close();
                let end = self.local_ends.pop().unwrap_or(0);
                self.variables.release_local(end);
            }
            StatementKind::Label(name) => {
                if self.labels.insert((self.names.scope(), *name), self.steps.len()).is_some() {
                    return Err(self.error(
                        line,
                        name,
                        StatementError::new("the label is defined twice"),
                    ));
                }
            }
            StatementKind::Location(location) => self.location(location),
            StatementKind::Register { ty, name, count } => {
                let unknown =
                    || StatementError::new(format!("`.{ty}` is not a supported register type"));
                let ty = Type::named(ty).ok_or_else(unknown);
                let ty = ty.map_err(|fault| self.error(line, name, fault))?;
                self.declared_registers += u64::from(count.unwrap_or(1));
                self.names.declare(name, ty, *count);
            }
            // Parameters of a call; other variables are already placed.
            StatementKind::Variable(variable) if variable.space == "param" => {
                let symbol = self.variables.place_local(variable);
                let symbol = symbol.map_err(|fault| self.error(line, variable.name, fault))?;
                self.names.add_symbol(variable.name, symbol);
            }
            StatementKind::Variable(_) => {}
            StatementKind::Instruction(instruction) => {
                if instruction.opcode == "call" || instruction.opcode == "call.uni" {
                    return self.call(line, instruction);
                }
                self.instruction(line, instruction)
                    .map_err(|fault| self.error(line, instruction.opcode, fault))?;
            }
        }
        Ok(())
    }

    fn instruction(
        &mut self,
        line: u32,
        instruction: &Instruction<'a>,
    ) -> Result<(), StatementError> {
        let guard = instruction.guard.as_ref().map(|guard| self.names.guard(guard)).transpose()?;
        match instruction.opcode {
            "bra" | "bra.uni" => {
                let [ParsedOperand::Name(label)] = instruction.operands[..] else {
                    return Err(StatementError::operands());
                };
                let target = BranchTarget::Label(label, self.names.scopes());
                self.branch(line, guard, target);
            }
            "ret" | "ret.uni" if !self.calls.is_empty() => self.return_from_call(line, guard),
            _ => {
                let operations = instruction::decode(instruction, &mut self.names)?;
                for (at, operation) in operations.into_iter().enumerate() {
                    let class = instruction::class(&operation, instruction.opcode);
                    let source = self.source;
                    let begins = at == 0;
                    self.steps.push(KernelStep { guard, operation, line, source, class, begins });
                }
            }
        }
        Ok(())
    }

    fn finish(mut self, function: &ParsedFunction<'a>) -> Result<KernelCode, PtxError> {
        // A final label, and a body without `ret`, need a step to refer to.
        let line = self.steps.last().map_or(function.line, |step| step.line);
        self.control(line, None, Operation::Exit);
        for (at, target) in std::mem::take(&mut self.branches) {
            let place = match &target {
                BranchTarget::Step(place) => *place,
                BranchTarget::Label(label, scopes) => {
                    let places = scopes.iter().map(|scope| self.labels.get(&(*scope, label)));
                    let Some(place) = places.flatten().next() else {
                        let fault = StatementError::new("the label is not defined");
                        return Err(self.error(self.steps[at].line, label, fault));
                    };
                    *place
                }
            };
            // Lanes that branch to `ret` exit immediately and do not reconverge there.
            let found = &self.steps[place];
            let ends = found.guard.is_none() && matches!(found.operation, Operation::Exit);
            let branch = Operation::Branch { target: place as u32, reconvergence: u32::MAX };
            self.steps[at].operation = if ends { Operation::Exit } else { branch };
        }
        set_reconvergence_points(&mut self.steps);
        let (slots, pinned) = self.allocate_slots();
        let dynamic_shared = self.variables.dynamic_shared();
        Ok(KernelCode {
            name: function.name.to_owned(),
            granule: granule(&self.steps),
            product_uses: other_uses(&mut self.steps),
            steps: self.steps,
            sources: self.sources.into(),
            slots,
            pinned,
            parameters: self.variables.parameters,
            segments: self.variables.segments,
            static_shared_bytes: self.variables.static_shared_bytes,
            dynamic_shared,
            local_bytes: self.variables.local_bytes,
            clusters: function.clusters,
            declared_registers: self.declared_registers,
        })
    }

    fn allocate_slots(&mut self) -> (SlotCounts, InitialSlots) {
        let mut pinned = self.names.pinned();
        let words: BTreeSet<RegisterSlot> = (pinned.words.iter().map(|(_, slot)| *slot))
            .chain(pinned.specials.iter().map(|(_, slot)| *slot))
            .chain(product_slots(&self.steps))
            .collect();
        let longs: BTreeSet<RegisterSlot> = pinned.longs.iter().map(|(_, slot)| *slot).collect();
        let always: BTreeSet<RegisterSlot> = pinned.always.into_iter().collect();
        let steps = &mut self.steps;
        let (word_at, word_count) = allocate(steps, Class::Word, self.names.word_slots, &words);
        let (long_at, long_count) = allocate(steps, Class::Long, self.names.long_slots, &longs);
        let (predicate_at, predicate_count) =
            allocate(steps, Class::Predicate, self.names.predicate_slots, &always);
        let rename = |at: &[RegisterSlot], slot: &mut RegisterSlot| *slot = at[slot.0 as usize];
        pinned.words.iter_mut().for_each(|(_, slot)| rename(&word_at, slot));
        pinned.specials.iter_mut().for_each(|(_, slot)| rename(&word_at, slot));
        pinned.longs.iter_mut().for_each(|(_, slot)| rename(&long_at, slot));
        pinned.always.iter_mut().for_each(|slot| rename(&predicate_at, slot));
        let slots =
            SlotCounts { predicates: predicate_count, words: word_count, longs: long_count };
        (slots, pinned)
    }
}

/// Variables that a function declares.
fn own_variables<'a, 'm>(
    function: &'m ParsedFunction<'a>,
) -> impl Iterator<Item = &'m Variable<'a>> + use<'a, 'm> {
    function.body.iter().filter_map(|statement| match &statement.kind {
        StatementKind::Variable(variable) => Some(variable),
        _ => None,
    })
}

/// Bytes of the smallest access to shared memory, 4 at most.
fn granule(steps: &[KernelStep]) -> u32 {
    let of_step = |step: &KernelStep| match &step.operation {
        Operation::Load { space, element, d: vector, .. }
        | Operation::Store { space, element, a: vector, .. } => {
            let remote_accesses = matches!(space, Space::Shared | Space::Cluster | Space::Generic);
            remote_accesses.then_some(element.bytes * vector.length)
        }
        Operation::MatrixMove(moved)
            if moved.direction == MatrixDirection::Store && moved.transposed =>
        {
            Some(2)
        }
        _ => None,
    };
    steps.iter().filter_map(of_step).min().unwrap_or(4).min(4)
}
