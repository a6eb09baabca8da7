//! Names of a kernel and the slots of its registers.

use std::collections::HashMap;
use std::rc::Rc;

use super::error::StatementError;
use super::module_scope::ModuleName;
use super::variables::Symbol;
use crate::cpu::kernel_code::InitialSlots;
use crate::cpu::operation::{RegisterSlot, SpecialRegister};
use crate::cpu::types::{Class, Type};

/// Declarations of one `{`.
#[derive(Debug, Default)]
pub(super) struct NameScope<'a> {
    id: u32,
    /// A register's name, or the prefix of numbered registers and their count.
    registers: HashMap<&'a str, (Type, Option<u32>)>,
    symbols: HashMap<&'a str, Symbol>,
}

/// Names of a kernel and of the functions that it calls.
#[derive(Debug, Default)]
pub(super) struct NameTable<'a> {
    /// Open scopes of the present function, the innermost last.
    scopes: Vec<NameScope<'a>>,
    opened: u32,
    registers: HashMap<(u32, &'a str), (Type, RegisterSlot)>,
    of_module: Rc<HashMap<&'a str, ModuleName>>,
    /// Variables that the kernel shares with the functions that it calls.
    of_kernel: HashMap<&'a str, Symbol>,
    words: HashMap<u32, RegisterSlot>,
    longs: HashMap<u64, RegisterSlot>,
    specials: HashMap<SpecialRegister, RegisterSlot>,
    always: Option<RegisterSlot>,
    /// Value of `%is_explicit_cluster`.
    pub(super) explicit_cluster: bool,
    /// Number of slots of each class.
    pub(super) predicate_slots: u32,
    pub(super) word_slots: u32,
    pub(super) long_slots: u32,
}

impl<'a> NameTable<'a> {
    /// Creates a table with the names of a module and one open scope for the kernel.
    pub(super) fn of_kernel(of_module: Rc<HashMap<&'a str, ModuleName>>) -> Self {
        let mut names = Self { of_module, ..Self::default() };
        names.open();
        names
    }

    pub(super) fn open(&mut self) {
        self.scopes.push(NameScope { id: self.opened, ..NameScope::default() });
        self.opened += 1;
    }

    pub(super) fn close(&mut self) {
        self.scopes.pop();
    }

    /// Opens the scope of a called function, which sees no scope of its caller, and returns the
    /// caller's scopes.
    pub(super) fn enter_function(&mut self) -> Vec<NameScope<'a>> {
        let outer = std::mem::take(&mut self.scopes);
        self.open();
        outer
    }

    /// Restores the caller's scopes.
    pub(super) fn leave_function(&mut self, outer: Vec<NameScope<'a>>) {
        self.scopes = outer;
    }

    /// Number of the innermost scope.
    pub(super) fn scope(&self) -> u32 {
        self.scopes.last().map_or(0, |scope| scope.id)
    }

    /// Numbers of all open scopes, the innermost first.
    pub(super) fn scopes(&self) -> Vec<u32> {
        self.scopes.iter().rev().map(|scope| scope.id).collect()
    }

    pub(super) fn declare(&mut self, name: &'a str, ty: Type, count: Option<u32>) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.registers.insert(name, (ty, count));
        }
    }

    pub(super) fn add_symbol(&mut self, name: &'a str, symbol: Symbol) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.symbols.insert(name, symbol);
        }
    }

    /// Adds a variable that called functions see too.
    pub(super) fn add_to_kernel(&mut self, name: &'a str, symbol: Symbol) {
        self.of_kernel.insert(name, symbol);
    }

    /// Looks up a variable.
    pub(super) fn symbol(&self, name: &str) -> Option<Symbol> {
        let scoped = self.scopes.iter().rev().find_map(|scope| scope.symbols.get(name));
        scoped.or_else(|| self.of_kernel.get(name)).copied().or_else(|| {
            match self.of_module.get(name)? {
                ModuleName::Variable(symbol) => Some(*symbol),
                ModuleName::Function => None,
            }
        })
    }

    /// Slots that execution fills before a block begins.
    pub(super) fn pinned(&self) -> InitialSlots {
        InitialSlots {
            words: self.words.iter().map(|(value, slot)| (*value, *slot)).collect(),
            longs: self.longs.iter().map(|(value, slot)| (*value, *slot)).collect(),
            specials: self.specials.iter().map(|(special, slot)| (*special, *slot)).collect(),
            always: self.always,
        }
    }

    pub(super) fn next_slot(&mut self, class: Class) -> RegisterSlot {
        let count = match class {
            Class::Predicate => &mut self.predicate_slots,
            Class::Word => &mut self.word_slots,
            Class::Long => &mut self.long_slots,
        };
        *count += 1;
        RegisterSlot(*count - 1)
    }

    /// Type and slot of a declared register.
    pub(super) fn declared(&mut self, name: &'a str) -> Option<(Type, RegisterSlot)> {
        let numberless = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number: Option<u32> = name[numberless.len()..].parse().ok();
        let (scope, ty) =
            self.scopes.iter().rev().find_map(|NameScope { id, registers, .. }| {
                if let Some((ty, None)) = registers.get(name) {
                    return Some((*id, *ty));
                }
                match registers.get(numberless) {
                    Some((ty, Some(count))) if number? < *count => Some((*id, *ty)),
                    _ => None,
                }
            })?;
        if let Some(known) = self.registers.get(&(scope, name)) {
            return Some(*known);
        }
        let slot = self.next_slot(ty.class());
        self.registers.insert((scope, name), (ty, slot));
        Some((ty, slot))
    }

    /// Whether a name is a declared register.
    pub(super) fn is_register(&mut self, name: &'a str) -> bool {
        self.declared(name).is_some()
    }

    pub(super) fn unknown(&self, name: &str) -> StatementError {
        StatementError::new(match self.of_module.get(name) {
            Some(ModuleName::Function) => {
                format!("`{name}` is a function; only direct calls are supported")
            }
            _ => format!("`{name}` is not declared"),
        })
    }

    /// Slot of a register that must have a class.
    pub(super) fn of_class(
        &mut self,
        name: &'a str,
        class: Class,
    ) -> Result<RegisterSlot, StatementError> {
        let (ty, slot) = self.declared(name).ok_or_else(|| self.unknown(name))?;
        if ty.class() == class {
            return Ok(slot);
        }
        Err(StatementError::new(format!(
            "`{name}` does not have the operand size of the instruction"
        )))
    }

    /// A new predicate slot without a name.
    pub(super) fn scratch_predicate(&mut self) -> RegisterSlot {
        self.next_slot(Class::Predicate)
    }

    /// A new word slot without a name.
    pub(super) fn scratch(&mut self) -> RegisterSlot {
        self.next_slot(Class::Word)
    }

    /// A new long slot without a name.
    pub(super) fn scratch_long(&mut self) -> RegisterSlot {
        self.next_slot(Class::Long)
    }

    /// Slot of a word constant.
    pub(super) fn word(&mut self, value: u32) -> RegisterSlot {
        if let Some(slot) = self.words.get(&value) {
            return *slot;
        }
        let slot = self.next_slot(Class::Word);
        self.words.insert(value, slot);
        slot
    }

    /// Slot of a long constant.
    pub(super) fn long(&mut self, value: u64) -> RegisterSlot {
        if let Some(slot) = self.longs.get(&value) {
            return *slot;
        }
        let slot = self.next_slot(Class::Long);
        self.longs.insert(value, slot);
        slot
    }

    /// Slot of the predicate that is always true.
    pub(super) fn always(&mut self) -> RegisterSlot {
        if let Some(slot) = self.always {
            return slot;
        }
        let slot = self.next_slot(Class::Predicate);
        self.always = Some(slot);
        slot
    }

    /// Slot of a special register.
    pub(super) fn special(&mut self, special: SpecialRegister) -> RegisterSlot {
        if let Some(slot) = self.specials.get(&special) {
            return *slot;
        }
        let slot = self.next_slot(Class::Word);
        self.specials.insert(special, slot);
        slot
    }
}
