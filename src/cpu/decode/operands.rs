//! Operands of instructions: registers, literals, addresses and vectors, resolved to slots.

use super::error::StatementError;
use super::name_table::NameTable;
use crate::cpu::operation::{
    Address, PredicateOperand, Register, RegisterSlot, SpecialRegister, Vector, special_constant,
};
use crate::cpu::parse::{Guard, ParsedOperand};
use crate::cpu::types::{Class, Space, Type};

impl<'a> NameTable<'a> {
    /// A destination register of a class.
    pub(super) fn written(
        &mut self,
        operand: &ParsedOperand<'a>,
        class: Class,
    ) -> Result<RegisterSlot, StatementError> {
        match operand {
            ParsedOperand::Name(name) => self.of_class(name, class),
            _ => Err(StatementError::new("the destination is not a register")),
        }
    }

    /// A destination register of either number class.
    pub(super) fn written_any(
        &mut self,
        operand: &ParsedOperand<'a>,
    ) -> Result<Register, StatementError> {
        let ParsedOperand::Name(name) = operand else {
            return Err(StatementError::new("the destination is not a register"));
        };
        let (ty, slot) = self.declared(name).ok_or_else(|| self.unknown(name))?;
        register(ty, slot).ok_or_else(|| StatementError::new(format!("`{name}` is a predicate")))
    }

    /// A source operand: a register, a special register, a number or a symbol's address.
    pub(super) fn read(
        &mut self,
        operand: &ParsedOperand<'a>,
        ty: Type,
    ) -> Result<Register, StatementError> {
        let class = ty.class();
        match operand {
            ParsedOperand::Name(name) => {
                if let Some((ty, slot)) = self.declared(name) {
                    return register(ty, slot)
                        .ok_or_else(|| StatementError::new(format!("`{name}` is a predicate")));
                }
                if let Some(value) = special_constant(name) {
                    return Ok(self.value(value, ty));
                }
                if let Some(special) = SpecialRegister::named(name) {
                    return Ok(Register::Word(self.special(special)));
                }
                self.address_value(name, 0, class)
            }
            ParsedOperand::Sum(name, offset) => self.address_value(name, *offset, class),
            ParsedOperand::Integer(value) => Ok(self.value(value.cast_unsigned(), ty)),
            ParsedOperand::Single(bits) if ty == Type::F64 => {
                Ok(self.value(f64::from(f32::from_bits(*bits)).to_bits(), ty))
            }
            ParsedOperand::Single(bits) => Ok(self.value((*bits).into(), ty)),
            ParsedOperand::Double(bits) if class == Class::Word => {
                // ISA section 4.5.2: a double literal is converted for an f32 operand.
                Ok(self.value(((f64::from_bits(*bits) as f32).to_bits()).into(), ty))
            }
            ParsedOperand::Double(bits) => Ok(self.value(*bits, ty)),
            _ => Err(StatementError::new("an operand is neither a register nor a literal")),
        }
    }

    fn value(&mut self, bits: u64, ty: Type) -> Register {
        match ty.bytes() {
            8 => Register::Long(self.long(bits)),
            2 => Register::Word(self.word(bits as u32 & 0xffff)),
            _ => Register::Word(self.word(bits as u32)),
        }
    }

    fn address_value(
        &mut self,
        name: &str,
        offset: i64,
        class: Class,
    ) -> Result<Register, StatementError> {
        let symbol = self.symbol(name).ok_or_else(|| self.unknown(name))?;
        let address = symbol.address.wrapping_add_signed(offset);
        Ok(match class {
            Class::Long => Register::Long(self.long(address)),
            _ => Register::Word(self.word(address as u32)),
        })
    }

    /// A source operand of at most 32 bits.
    pub(super) fn read_word(
        &mut self,
        operand: &ParsedOperand<'a>,
        ty: Type,
    ) -> Result<RegisterSlot, StatementError> {
        match self.read(operand, ty)? {
            Register::Word(slot) => Ok(slot),
            Register::Long(_) => {
                Err(StatementError::new("an operand has 64 bits instead of at most 32"))
            }
        }
    }

    /// A source operand of 64 bits.
    pub(super) fn read_long(
        &mut self,
        operand: &ParsedOperand<'a>,
        ty: Type,
    ) -> Result<RegisterSlot, StatementError> {
        match self.read(operand, ty)? {
            Register::Long(slot) => Ok(slot),
            Register::Word(_) => {
                Err(StatementError::new("an operand has at most 32 bits instead of 64"))
            }
        }
    }

    /// A source predicate.
    pub(super) fn test(
        &mut self,
        operand: &ParsedOperand<'a>,
    ) -> Result<PredicateOperand, StatementError> {
        match operand {
            ParsedOperand::Name("%is_explicit_cluster") => {
                Ok(PredicateOperand { slot: self.always(), negated: !self.explicit_cluster })
            }
            ParsedOperand::Name(name) => Ok(PredicateOperand {
                slot: self.of_class(name, Class::Predicate)?,
                negated: false,
            }),
            ParsedOperand::Negated(name) => {
                Ok(PredicateOperand { slot: self.of_class(name, Class::Predicate)?, negated: true })
            }
            ParsedOperand::Integer(value) => {
                Ok(PredicateOperand { slot: self.always(), negated: *value == 0 })
            }
            _ => Err(StatementError::new("an operand is not a predicate")),
        }
    }

    pub(super) fn guard(&mut self, guard: &Guard<'a>) -> Result<PredicateOperand, StatementError> {
        let slot = self.of_class(guard.register, Class::Predicate)?;
        Ok(PredicateOperand { slot, negated: guard.negated })
    }

    /// Destinations `%p|%q` of a comparison.
    pub(super) fn results(
        &mut self,
        operand: &ParsedOperand<'a>,
    ) -> Result<(RegisterSlot, Option<RegisterSlot>), StatementError> {
        match operand {
            ParsedOperand::Pair(first, second) => Ok((
                self.of_class(first, Class::Predicate)?,
                Some(self.of_class(second, Class::Predicate)?),
            )),
            other => Ok((self.written(other, Class::Predicate)?, None)),
        }
    }

    /// Destinations `%r1|%p1` of a shuffle.
    pub(super) fn result_and_test(
        &mut self,
        operand: &ParsedOperand<'a>,
    ) -> Result<(RegisterSlot, Option<RegisterSlot>), StatementError> {
        match operand {
            ParsedOperand::Pair(first, second) => Ok((
                self.of_class(first, Class::Word)?,
                Some(self.of_class(second, Class::Predicate)?),
            )),
            other => Ok((self.written(other, Class::Word)?, None)),
        }
    }

    /// `[%rd1+8]`
    pub(super) fn address(
        &mut self,
        operand: &ParsedOperand<'a>,
    ) -> Result<Address, StatementError> {
        let ParsedOperand::Address { base, offset } = operand else {
            return Err(StatementError::new("an operand is not an address"));
        };
        let Some(base) = base else { return Ok(Address { base: None, offset: *offset }) };
        if let Some((ty, slot)) = self.declared(base) {
            let base = register(ty, slot).ok_or_else(|| {
                StatementError::new(format!("`{base}` is a predicate, not an address"))
            })?;
            return Ok(Address { base: Some(base), offset: *offset });
        }
        let symbol = self.symbol(base).ok_or_else(|| self.unknown(base))?;
        let address = symbol.address.wrapping_add_signed(*offset);
        Ok(Address { base: None, offset: address.cast_signed() })
    }

    /// Space of the variable that an address names.
    pub(super) fn space_of(&self, operand: &ParsedOperand<'_>) -> Option<Space> {
        match operand {
            ParsedOperand::Address { base: Some(base), .. } => Some(self.symbol(base)?.space),
            _ => None,
        }
    }

    /// Registers of `{%r1, _}`, or one register.
    pub(super) fn vector(
        &mut self,
        operand: &ParsedOperand<'a>,
        mut part: impl FnMut(&mut Self, &ParsedOperand<'a>) -> Result<Register, StatementError>,
    ) -> Result<Vector, StatementError> {
        let ParsedOperand::Vector(parts) = operand else {
            return Ok(Vector::of(&[Some(part(self, operand)?)]));
        };
        if parts.len() > 8 {
            return Err(StatementError::new("a vector has more than 8 parts"));
        }
        let parts: Result<Vec<_>, StatementError> = parts
            .iter()
            .map(|operand| match operand {
                ParsedOperand::Name("_") => Ok(None),
                operand => part(self, operand).map(Some),
            })
            .collect();
        Ok(Vector::of(&parts?))
    }
}

fn register(ty: Type, slot: RegisterSlot) -> Option<Register> {
    match ty.class() {
        Class::Predicate => None,
        Class::Word => Some(Register::Word(slot)),
        Class::Long => Some(Register::Long(slot)),
    }
}
