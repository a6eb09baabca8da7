//! What names stand for: registers become slots, symbols addresses, labels places.

use std::collections::HashMap;
use std::rc::Rc;

use super::Fault;
use super::special::{Special, constant};
use super::variables::Symbol;
use crate::cpu::operation::{Address, Register, Slot, Test, Vector};
use crate::cpu::parse::{Guard, Operand};
use crate::cpu::types::{Class, Space, Type};

/// What fills a slot before a block begins.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::cpu) struct Pinned {
    pub(in crate::cpu) words: Vec<(u32, Slot)>,
    pub(in crate::cpu) longs: Vec<(u64, Slot)>,
    pub(in crate::cpu) specials: Vec<(Special, Slot)>,
    /// The predicate that always holds, where one is needed.
    pub(in crate::cpu) always: Option<Slot>,
}

/// What a name of the module means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Variable(Symbol),
    Function,
}

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
pub(super) struct Names<'a> {
    /// Those of the function that is read, the innermost last.
    scopes: Vec<Scope<'a>>,
    opened: u32,
    registers: HashMap<(u32, &'a str), (Type, Slot)>,
    of_module: Rc<HashMap<&'a str, Meaning>>,
    /// Variables that the kernel shares with what it calls.
    of_kernel: HashMap<&'a str, Symbol>,
    words: HashMap<u32, Slot>,
    longs: HashMap<u64, Slot>,
    specials: HashMap<Special, Slot>,
    always: Option<Slot>,
    /// What `%is_explicit_cluster` tells.
    pub(super) explicit_cluster: bool,
    /// How many slots of each class there are.
    pub(super) predicate_slots: u32,
    pub(super) word_slots: u32,
    pub(super) long_slots: u32,
}

impl<'a> Names<'a> {
    /// With the names of a module, and a scope for the kernel's own.
    pub(super) fn of_kernel(of_module: Rc<HashMap<&'a str, Meaning>>) -> Self {
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
                Meaning::Variable(symbol) => Some(*symbol),
                Meaning::Function => None,
            }
        })
    }

    /// What execution must fill in.
    pub(super) fn pinned(&self) -> Pinned {
        Pinned {
            words: self.words.iter().map(|(value, slot)| (*value, *slot)).collect(),
            longs: self.longs.iter().map(|(value, slot)| (*value, *slot)).collect(),
            specials: self.specials.iter().map(|(special, slot)| (*special, *slot)).collect(),
            always: self.always,
        }
    }

    fn next_slot(&mut self, class: Class) -> Slot {
        let count = match class {
            Class::Predicate => &mut self.predicate_slots,
            Class::Word => &mut self.word_slots,
            Class::Long => &mut self.long_slots,
        };
        *count += 1;
        Slot(*count - 1)
    }

    /// The type and slot of a declared register.
    fn declared(&mut self, name: &'a str) -> Option<(Type, Slot)> {
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

    fn unknown(&self, name: &str) -> Fault {
        Fault::new(match self.of_module.get(name) {
            Some(Meaning::Function) => {
                format!("`{name}` is a function, and only calls by name are executed")
            }
            _ => format!("`{name}` is not declared"),
        })
    }

    /// The slot of a register of a class.
    fn of_class(&mut self, name: &'a str, class: Class) -> Result<Slot, Fault> {
        let (ty, slot) = self.declared(name).ok_or_else(|| self.unknown(name))?;
        if ty.class() == class {
            return Ok(slot);
        }
        Err(Fault::new(format!("`{name}` is of another size than the instruction works on")))
    }

    /// A predicate that no name stands for.
    pub(super) fn scratch_predicate(&mut self) -> Slot {
        self.next_slot(Class::Predicate)
    }

    /// A word that no name stands for.
    pub(super) fn scratch(&mut self) -> Slot {
        self.next_slot(Class::Word)
    }

    /// A long that no name stands for.
    pub(super) fn scratch_long(&mut self) -> Slot {
        self.next_slot(Class::Long)
    }

    /// A slot that holds a word from the beginning.
    pub(super) fn word(&mut self, value: u32) -> Slot {
        if let Some(slot) = self.words.get(&value) {
            return *slot;
        }
        let slot = self.next_slot(Class::Word);
        self.words.insert(value, slot);
        slot
    }

    /// A slot that holds a long from the beginning.
    pub(super) fn long(&mut self, value: u64) -> Slot {
        if let Some(slot) = self.longs.get(&value) {
            return *slot;
        }
        let slot = self.next_slot(Class::Long);
        self.longs.insert(value, slot);
        slot
    }

    /// The predicate that always holds.
    fn always(&mut self) -> Slot {
        if let Some(slot) = self.always {
            return slot;
        }
        let slot = self.next_slot(Class::Predicate);
        self.always = Some(slot);
        slot
    }

    /// A register that is written, of the class that an instruction works on.
    pub(super) fn written(&mut self, operand: &Operand<'a>, class: Class) -> Result<Slot, Fault> {
        match operand {
            Operand::Name(name) => self.of_class(name, class),
            _ => Err(Fault::new("its result is no register")),
        }
    }

    /// A register of either class that is written.
    pub(super) fn written_any(&mut self, operand: &Operand<'a>) -> Result<Register, Fault> {
        let Operand::Name(name) = operand else {
            return Err(Fault::new("its result is no register"));
        };
        let (ty, slot) = self.declared(name).ok_or_else(|| self.unknown(name))?;
        register(ty, slot).ok_or_else(|| Fault::new(format!("`{name}` is a predicate")))
    }

    /// An operand that is read: a register, a special register, a number or a symbol's address.
    pub(super) fn read(&mut self, operand: &Operand<'a>, ty: Type) -> Result<Register, Fault> {
        let class = ty.class();
        match operand {
            Operand::Name(name) => {
                if let Some((ty, slot)) = self.declared(name) {
                    return register(ty, slot)
                        .ok_or_else(|| Fault::new(format!("`{name}` is a predicate")));
                }
                if let Some(value) = constant(name) {
                    return Ok(self.value(value, ty));
                }
                if let Some(special) = Special::named(name) {
                    return Ok(Register::Word(self.special(special)));
                }
                self.address_value(name, 0, class)
            }
            Operand::Sum(name, offset) => self.address_value(name, *offset, class),
            Operand::Integer(value) => Ok(self.value(value.cast_unsigned(), ty)),
            Operand::Single(bits) if ty == Type::F64 => {
                Ok(self.value(f64::from(f32::from_bits(*bits)).to_bits(), ty))
            }
            Operand::Single(bits) => Ok(self.value((*bits).into(), ty)),
            Operand::Double(bits) if class == Class::Word => {
                // ISA section 4.5.2: a double literal is converted where f32 is wanted.
                Ok(self.value(((f64::from_bits(*bits) as f32).to_bits()).into(), ty))
            }
            Operand::Double(bits) => Ok(self.value(*bits, ty)),
            _ => Err(Fault::new("an operand is neither a register nor a number")),
        }
    }

    fn value(&mut self, bits: u64, ty: Type) -> Register {
        match ty.bytes() {
            8 => Register::Long(self.long(bits)),
            2 => Register::Word(self.word(bits as u32 & 0xffff)),
            _ => Register::Word(self.word(bits as u32)),
        }
    }

    fn special(&mut self, special: Special) -> Slot {
        if let Some(slot) = self.specials.get(&special) {
            return *slot;
        }
        let slot = self.next_slot(Class::Word);
        self.specials.insert(special, slot);
        slot
    }

    fn address_value(&mut self, name: &str, offset: i64, class: Class) -> Result<Register, Fault> {
        let symbol = self.symbol(name).ok_or_else(|| self.unknown(name))?;
        let address = symbol.address.wrapping_add_signed(offset);
        Ok(match class {
            Class::Long => Register::Long(self.long(address)),
            _ => Register::Word(self.word(address as u32)),
        })
    }

    /// An operand of the class that an instruction works on.
    pub(super) fn read_word(&mut self, operand: &Operand<'a>, ty: Type) -> Result<Slot, Fault> {
        match self.read(operand, ty)? {
            Register::Word(slot) => Ok(slot),
            Register::Long(_) => Err(Fault::new("an operand has 64 bits, not at most 32")),
        }
    }

    /// An operand of 64 bits.
    pub(super) fn read_long(&mut self, operand: &Operand<'a>, ty: Type) -> Result<Slot, Fault> {
        match self.read(operand, ty)? {
            Register::Long(slot) => Ok(slot),
            Register::Word(_) => Err(Fault::new("an operand has at most 32 bits, not 64")),
        }
    }

    /// A predicate that is read.
    pub(super) fn test(&mut self, operand: &Operand<'a>) -> Result<Test, Fault> {
        match operand {
            Operand::Name("%is_explicit_cluster") => {
                Ok(Test { slot: self.always(), negated: !self.explicit_cluster })
            }
            Operand::Name(name) => {
                Ok(Test { slot: self.of_class(name, Class::Predicate)?, negated: false })
            }
            Operand::Negated(name) => {
                Ok(Test { slot: self.of_class(name, Class::Predicate)?, negated: true })
            }
            Operand::Integer(value) => Ok(Test { slot: self.always(), negated: *value == 0 }),
            _ => Err(Fault::new("an operand is no predicate")),
        }
    }

    pub(super) fn guard(&mut self, guard: &Guard<'a>) -> Result<Test, Fault> {
        let slot = self.of_class(guard.register, Class::Predicate)?;
        Ok(Test { slot, negated: guard.negated })
    }

    /// The destinations `%p|%q` of a comparison.
    pub(super) fn results(&mut self, operand: &Operand<'a>) -> Result<(Slot, Option<Slot>), Fault> {
        match operand {
            Operand::Pair(first, second) => Ok((
                self.of_class(first, Class::Predicate)?,
                Some(self.of_class(second, Class::Predicate)?),
            )),
            other => Ok((self.written(other, Class::Predicate)?, None)),
        }
    }

    /// `%r1|%p1` of a shuffle.
    pub(super) fn result_and_test(
        &mut self,
        operand: &Operand<'a>,
    ) -> Result<(Slot, Option<Slot>), Fault> {
        match operand {
            Operand::Pair(first, second) => Ok((
                self.of_class(first, Class::Word)?,
                Some(self.of_class(second, Class::Predicate)?),
            )),
            other => Ok((self.written(other, Class::Word)?, None)),
        }
    }

    /// `[%rd1+8]`
    pub(super) fn address(&mut self, operand: &Operand<'a>) -> Result<Address, Fault> {
        let Operand::Address { base, offset } = operand else {
            return Err(Fault::new("an operand is no address"));
        };
        let Some(base) = base else { return Ok(Address { base: None, offset: *offset }) };
        if let Some((ty, slot)) = self.declared(base) {
            let base = register(ty, slot)
                .ok_or_else(|| Fault::new(format!("`{base}` is a predicate, no address")))?;
            return Ok(Address { base: Some(base), offset: *offset });
        }
        let symbol = self.symbol(base).ok_or_else(|| self.unknown(base))?;
        let address = symbol.address.wrapping_add_signed(*offset);
        Ok(Address { base: None, offset: address.cast_signed() })
    }

    /// The space of the variable that an address names.
    pub(super) fn space_of(&self, operand: &Operand<'_>) -> Option<Space> {
        match operand {
            Operand::Address { base: Some(base), .. } => Some(self.symbol(base)?.space),
            _ => None,
        }
    }

    /// The registers of `{%r1, _}`, or of one register.
    pub(super) fn vector(
        &mut self,
        operand: &Operand<'a>,
        mut part: impl FnMut(&mut Self, &Operand<'a>) -> Result<Register, Fault>,
    ) -> Result<Vector, Fault> {
        let Operand::Vector(parts) = operand else {
            return Ok(Vector::of(&[Some(part(self, operand)?)]));
        };
        if parts.len() > 8 {
            return Err(Fault::new("a vector has more than 8 parts"));
        }
        let parts: Result<Vec<_>, Fault> = parts
            .iter()
            .map(|operand| match operand {
                Operand::Name("_") => Ok(None),
                operand => part(self, operand).map(Some),
            })
            .collect();
        Ok(Vector::of(&parts?))
    }
}

fn register(ty: Type, slot: Slot) -> Option<Register> {
    match ty.class() {
        Class::Predicate => None,
        Class::Word => Some(Register::Word(slot)),
        Class::Long => Some(Register::Long(slot)),
    }
}
