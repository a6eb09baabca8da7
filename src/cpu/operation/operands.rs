//! Operands of operations: register slots of all lanes, and addresses in memory.

/// Values of the 32 lanes of a word slot.
pub(in crate::cpu) type Words = [u32; 32];
/// Values of the 32 lanes of a 64-bit slot.
pub(in crate::cpu) type Longs = [u64; 32];

/// Index of a register's values within its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::cpu) struct RegisterSlot(pub(in crate::cpu) u32);

/// A slot for numbers, of either class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::cpu) enum Register {
    Word(RegisterSlot),
    Long(RegisterSlot),
}

/// A predicate or its negation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) struct PredicateOperand {
    pub(in crate::cpu) slot: RegisterSlot,
    pub(in crate::cpu) negated: bool,
}

/// Address operand: base register plus offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) struct Address {
    /// `None` for an absolute address.
    pub(in crate::cpu) base: Option<Register>,
    pub(in crate::cpu) offset: i64,
}

/// Element of a load or store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) struct Element {
    /// 1, 2, 4 or 8.
    pub(in crate::cpu) bytes: u32,
    /// Whether a load sign-extends.
    pub(in crate::cpu) signed: bool,
}

/// Vector of registers of a load or store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) struct Vector {
    /// `None` for `_`, which discards a loaded value.
    pub(in crate::cpu) registers: [Option<Register>; 8],
    pub(in crate::cpu) length: u32,
}

impl Vector {
    /// Creates a vector of at most 8 registers.
    pub(in crate::cpu) fn of(registers: &[Option<Register>]) -> Self {
        let mut vector = Self { registers: [None; 8], length: registers.len().min(8) as u32 };
        for (to, from) in vector.registers.iter_mut().zip(registers) {
            *to = *from;
        }
        vector
    }

    /// Registers of the vector.
    pub(in crate::cpu) fn parts(&self) -> &[Option<Register>] {
        &self.registers[..self.length as usize]
    }
}

/// Predicate that a comparison's result is combined with (`setp.lt.and`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) struct Combined {
    pub(in crate::cpu) logic: Logic,
    pub(in crate::cpu) with: PredicateOperand,
}

/// Logical operation on predicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum Logic {
    And,
    Or,
    Xor,
}

/// Memory order of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum MemoryOrder {
    Weak,
    /// `.volatile`, or an explicit order: visible after all earlier accesses.
    Strong,
}

/// Function of an atomic operation: from the old value and two operands to the new value.
#[derive(Debug, Clone, Copy)]
pub(in crate::cpu) enum AtomicUpdate {
    /// Of 16 bits.
    Half(fn(u32, u32, u32) -> u32),
    /// Of 32 bits.
    Word(fn(u32, u32, u32) -> u32),
    /// Of 64 bits.
    Long(fn(u64, u64, u64) -> u64),
}
