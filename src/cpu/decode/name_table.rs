//! What names stand for: registers become slots, symbols addresses, labels places.

use std::collections::HashMap;
use std::rc::Rc;

use super::error::StatementError;
use super::module_scope::ModuleName;
use super::variables::Symbol;
use crate::cpu::kernel_code::InitialSlots;
use crate::cpu::operation::{RegisterSlot, SpecialRegister};
use crate::cpu::types::{Class, Type};

/// What one `{` declares.
#[derive(Debug, Default)]
pub(super) struct Scope<'a> {
    id: u32,
    /// A name, or the beginning of so many numbered names.
    registers: HashMap<&'a str, (Type, Option<u32>)>,
    symbols: HashMap<&'a str, Symbol>,
}

/// All names of a kernel and of what it calls, as their statements are read.
#[derive(Debug, Default)]
pub(super) struct NameTable<'a> {
    /// Those of the function that is read, the innermost last.
    scopes: Vec<Scope<'a>>,
    opened: u32,
    registers: HashMap<(u32, &'a str), (Type, RegisterSlot)>,
    of_module: Rc<HashMap<&'a str, ModuleName>>,
    /// Variables that the kernel shares with what it calls.
    of_kernel: HashMap<&'a str, Symbol>,
    words: HashMap<u32, RegisterSlot>,
    longs: HashMap<u64, RegisterSlot>,
    specials: HashMap<SpecialRegister, RegisterSlot>,
    always: Option<RegisterSlot>,
    /// What `%is_explicit_cluster` tells.
    pub(super) explicit_cluster: bool,
    /// How many slots of each class there are.
    pub(super) predicate_slots: u32,
    pub(super) word_slots: u32,
    pub(super) long_slots: u32,
}

impl<'a> NameTable<'a> {
    /// With the names of a module, and a scope for the kernel's own.
    pub(super) fn of_kernel(of_module: Rc<HashMap<&'a str, ModuleName>>) -> Self {
        let mut names = Self { of_module, ..Self::default() };
        names.open();
        names
    }

    pub(super) fn open(&mut self) {
        self.scopes.push(Scope { id: self.opened, ..Scope::default() });
        self.opened += 1;
    }

    pub(super) fn close(&mut self) {
        self.scopes.pop();
    }

    /// Opens the scope of a function, which sees none of its caller's, and gives back those.
    pub(super) fn enter_function(&mut self) -> Vec<Scope<'a>> {
        let outer = std::mem::take(&mut self.scopes);
        self.open();
        outer
    }

    /// Goes back to the caller's scopes.
    pub(super) fn leave_function(&mut self, outer: Vec<Scope<'a>>) {
        self.scopes = outer;
    }

    /// The innermost scope, by its number.
    pub(super) fn scope(&self) -> u32 {
        self.scopes.last().map_or(0, |scope| scope.id)
    }

    /// All scopes, the innermost first.
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

    /// Adds what every function that the kernel calls sees too.
    pub(super) fn add_to_kernel(&mut self, name: &'a str, symbol: Symbol) {
        self.of_kernel.insert(name, symbol);
    }

    /// The variable of a name.
    pub(super) fn symbol(&self, name: &str) -> Option<Symbol> {
        let scoped = self.scopes.iter().rev().find_map(|scope| scope.symbols.get(name));
        scoped.or_else(|| self.of_kernel.get(name)).copied().or_else(|| {
            match self.of_module.get(name)? {
                ModuleName::Variable(symbol) => Some(*symbol),
                ModuleName::Function => None,
            }
        })
    }

    /// What execution must fill in.
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

    /// The type and slot of a declared register.
    pub(super) fn declared(&mut self, name: &'a str) -> Option<(Type, RegisterSlot)> {
        let numberless = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number: Option<u32> = name[numberless.len()..].parse().ok();
        let (scope, ty) =
            self.scopes.iter().rev().find_map(|Scope { id, registers, .. }| {
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

    /// Whether a name is one of the registers that are declared.
    pub(super) fn is_register(&mut self, name: &'a str) -> bool {
        self.declared(name).is_some()
    }

    pub(super) fn unknown(&self, name: &str) -> StatementError {
        StatementError::new(match self.of_module.get(name) {
            Some(ModuleName::Function) => {
                format!("`{name}` is a function, and only calls by name are executed")
            }
            _ => format!("`{name}` is not declared"),
        })
    }

    /// The slot of a register of a class.
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
            "`{name}` is of another size than the instruction works on"
        )))
    }

    /// A predicate that no name stands for.
    pub(super) fn scratch_predicate(&mut self) -> RegisterSlot {
        self.next_slot(Class::Predicate)
    }

    /// A word that no name stands for.
    pub(super) fn scratch(&mut self) -> RegisterSlot {
        self.next_slot(Class::Word)
    }

    /// A long that no name stands for.
    pub(super) fn scratch_long(&mut self) -> RegisterSlot {
        self.next_slot(Class::Long)
    }

    /// A slot that holds a word from the beginning.
    pub(super) fn word(&mut self, value: u32) -> RegisterSlot {
        if let Some(slot) = self.words.get(&value) {
            return *slot;
        }
        let slot = self.next_slot(Class::Word);
        self.words.insert(value, slot);
        slot
    }

    /// A slot that holds a long from the beginning.
    pub(super) fn long(&mut self, value: u64) -> RegisterSlot {
        if let Some(slot) = self.longs.get(&value) {
            return *slot;
        }
        let slot = self.next_slot(Class::Long);
        self.longs.insert(value, slot);
        slot
    }

    /// The predicate that always holds.
    pub(super) fn always(&mut self) -> RegisterSlot {
        if let Some(slot) = self.always {
            return slot;
        }
        let slot = self.next_slot(Class::Predicate);
        self.always = Some(slot);
        slot
    }

    /// The slot of a special register.
    pub(super) fn special(&mut self, special: SpecialRegister) -> RegisterSlot {
        if let Some(slot) = self.specials.get(&special) {
            return *slot;
        }
        let slot = self.next_slot(Class::Word);
        self.specials.insert(special, slot);
        slot
    }
}
