//! Types and state spaces of PTX (ISA sections 5.1 and 5.2).

/// A type, as a modifier of an instruction or a declaration names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Type {
    Predicate,
    B8,
    B16,
    B32,
    B64,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    F32,
    F64,
}

/// Class of a register. Registers of 8 and 16 bits are words with zero upper bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Class {
    Predicate,
    Word,
    Long,
}

impl Type {
    /// The type with a modifier's name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "pred" => Self::Predicate,
            "b8" => Self::B8,
            "b16" => Self::B16,
            "b32" => Self::B32,
            "b64" => Self::B64,
            "u8" => Self::U8,
            "u16" => Self::U16,
            "u32" => Self::U32,
            "u64" => Self::U64,
            "s8" => Self::S8,
            "s16" => Self::S16,
            "s32" => Self::S32,
            "s64" => Self::S64,
            "f16" => Self::F16,
            "f16x2" => Self::F16x2,
            "bf16" => Self::Bf16,
            "bf16x2" => Self::Bf16x2,
            "tf32" => Self::Tf32,
            "f32" => Self::F32,
            "f64" => Self::F64,
            _ => return None,
        })
    }

    /// Size in bytes; 0 for a predicate, which has no form in memory.
    pub(super) fn bytes(self) -> u32 {
        match self {
            Self::Predicate => 0,
            Self::B8 | Self::U8 | Self::S8 => 1,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::Bf16 => 2,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 8,
            Self::B32 | Self::U32 | Self::S32 | Self::F16x2 | Self::Bf16x2 => 4,
            Self::Tf32 | Self::F32 => 4,
        }
    }

    /// Class of the registers that hold the type.
    pub(super) fn class(self) -> Class {
        match self.bytes() {
            0 => Class::Predicate,
            8 => Class::Long,
            _ => Class::Word,
        }
    }

    pub(super) fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    pub(super) fn is_float(self) -> bool {
        matches!(
            self,
            Self::F16
                | Self::F16x2
                | Self::Bf16
                | Self::Bf16x2
                | Self::Tf32
                | Self::F32
                | Self::F64
        )
    }
}

/// A state space of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Space {
    Global,
    Shared,
    /// Shared memory of all blocks of the cluster.
    Cluster,
    Local,
    Constant,
    Parameter,
    Generic,
}

impl Space {
    /// The space with a modifier's name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "global" => Self::Global,
            "shared" | "shared::cta" => Self::Shared,
            "shared::cluster" => Self::Cluster,
            "local" => Self::Local,
            "const" => Self::Constant,
            "param" | "param::entry" | "param::func" => Self::Parameter,
            _ => return None,
        })
    }
}
