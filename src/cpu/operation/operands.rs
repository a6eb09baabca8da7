//! What operations read and write: registers of all lanes, and places in memory.

/// The 32 lanes of a slot.
pub(in crate::cpu) type Words = [u32; 32];
/// The 32 lanes of a 64-bit slot.
pub(in crate::cpu) type Longs = [u64; 32];

/// The place of a register's values within its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::cpu) struct RegisterSlot(pub(in crate::cpu) u32);

/// A slot of either class that holds numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::cpu) enum Register {
    Word(RegisterSlot),
    Long(RegisterSlot),
}

/// A predicate, or its opposite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) struct PredicateOperand {
    pub(in crate::cpu) slot: RegisterSlot,
    pub(in crate::cpu) negated: bool,
}

/// Where an access begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) struct Address {
    /// None where the address is the offset alone.
    pub(in crate::cpu) base: Option<Register>,
    pub(in crate::cpu) offset: i64,
}

/// How values lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) struct Element {
    /// 1, 2, 4 or 8.
    pub(in crate::cpu) bytes: u32,
    /// Whether a load extends the sign.
    pub(in crate::cpu) signed: bool,
}

/// The vector of a load or store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) struct Vector {
    /// `None` for `_`, which a load drops.
    pub(in crate::cpu) registers: [Option<Register>; 8],
    pub(in crate::cpu) length: u32,
}

impl Vector {
    /// A vector of the given registers, 8 at most.
    pub(in crate::cpu) fn of(registers: &[Option<Register>]) -> Self {
        let mut vector = Self { registers: [None; 8], length: registers.len().min(8) as u32 };
        for (to, from) in vector.registers.iter_mut().zip(registers) {
            *to = *from;
        }
        vector
    }

    /// Its registers.
    pub(in crate::cpu) fn parts(&self) -> &[Option<Register>] {
        &self.registers[..self.length as usize]
    }
}

/// What a comparison's result is combined with (`setp.lt.and`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) struct Combined {
    pub(in crate::cpu) logic: Logic,
    pub(in crate::cpu) with: PredicateOperand,
}

/// Operations on predicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum Logic {
    And,
    Or,
    Xor,
}

/// Whether other threads may wait for what an access does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum MemoryOrder {
    Weak,
    /// `.volatile`, or with an order of its own: seen after what comes before it.
    Strong,
}

/// What an atomic operation does with the old value and its operands.
#[derive(Debug, Clone, Copy)]
pub(in crate::cpu) enum AtomicUpdate {
    /// Of 16 bits: old, first and second operand.
    Half(fn(u32, u32, u32) -> u32),
    /// Of 32 bits.
    Word(fn(u32, u32, u32) -> u32),
    /// Of 64 bits.
    Long(fn(u64, u64, u64) -> u64),
}
