//! Where the variables of a kernel and of what it calls lie: shared and local memory, parameters.

use super::error::StatementError;
use crate::cpu::kernel_code::SharedSegment;
use crate::cpu::layout::{MAX_LOCAL, MAX_PARAMETERS, MAX_SHARED, SHARED_GUARD, align};
use crate::cpu::parse::Variable;
use crate::cpu::types::{Space, Type};

/// A variable's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) space: Space,
    pub(super) address: u64,
    /// 0 where a launch decides.
    pub(super) bytes: u64,
}

/// What is placed so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Variables {
    pub(super) segments: Vec<SharedSegment>,
    shared_end: u64,
    /// Static shared memory without what lies between variables here.
    pub(super) static_shared_bytes: u64,
    /// Where the next variable in local memory begins, if nothing that is over is given back.
    local_end: u64,
    /// The most local memory that is in use at once.
    pub(super) local_bytes: u64,
    /// Where parameters of the kernel begin, and their bytes.
    pub(super) parameters: Vec<(u64, u64)>,
}

/// Type, alignment and bytes of a variable.
pub(super) fn size_of(variable: &Variable<'_>) -> Result<(Type, u64, u64), StatementError> {
    let ty = Type::named(variable.ty).filter(|ty| *ty != Type::Predicate).ok_or_else(|| {
        StatementError::new(format!("`.{}` is no type of a variable", variable.ty))
    })?;
    let alignment = variable.alignment.unwrap_or(ty.bytes().into());
    if !alignment.is_power_of_two() || alignment > 4096 {
        return Err(StatementError::new(format!("{alignment} is no alignment")));
    }
    let elements = variable.elements.ok_or_else(|| StatementError::new("it has no size"))?;
    let bytes = elements.checked_mul(ty.bytes().into());
    let bytes = bytes.ok_or_else(|| StatementError::new("it is larger than any memory"))?;
    Ok((ty, alignment, bytes))
}

impl Variables {
    /// The next parameter of the kernel.
    pub(super) fn place_parameter(
        &mut self,
        variable: &Variable<'_>,
    ) -> Result<Symbol, StatementError> {
        let (_, alignment, bytes) = size_of(variable)?;
        let end = self.parameters.last().map_or(0, |(start, bytes)| start + bytes);
        let start = align(end, alignment);
        if bytes > MAX_PARAMETERS || start + bytes > MAX_PARAMETERS {
            return Err(StatementError::new(format!(
                "the parameters exceed {MAX_PARAMETERS} bytes"
            )));
        }
        self.parameters.push((start, bytes));
        Ok(Symbol { space: Space::Parameter, address: start, bytes })
    }

    /// A variable in shared memory, which a block has as long as it runs.
    pub(super) fn place_shared(
        &mut self,
        variable: &Variable<'_>,
    ) -> Result<Symbol, StatementError> {
        let (_, alignment, bytes) = size_of(variable)?;
        let start = align(self.shared_end, alignment);
        if bytes > MAX_SHARED || start + bytes > MAX_SHARED {
            return Err(StatementError::new("a block's static shared memory exceeds 1 MiB"));
        }
        self.static_shared_bytes = align(self.static_shared_bytes, alignment) + bytes;
        let name = variable.name.to_owned();
        self.segments.push(SharedSegment { name, start, end: start + bytes });
        self.shared_end = start + bytes + SHARED_GUARD;
        Ok(Symbol { space: Space::Shared, address: start, bytes })
    }

    /// Where dynamic shared memory begins, behind all that is placed: aligned for any swizzle that
    /// a kernel computes from addresses.
    pub(super) fn dynamic_shared(&self) -> u64 {
        align(self.shared_end, 1024)
    }

    /// A variable in local memory, until what is placed is given back.
    pub(super) fn place_local(
        &mut self,
        variable: &Variable<'_>,
    ) -> Result<Symbol, StatementError> {
        let (_, alignment, bytes) = size_of(variable)?;
        let start = align(self.local_end, alignment);
        if bytes > MAX_LOCAL || start + bytes > MAX_LOCAL {
            return Err(StatementError::new("a thread's local memory exceeds 512 KiB"));
        }
        self.local_end = start + bytes;
        self.local_bytes = self.local_bytes.max(self.local_end);
        Ok(Symbol { space: Space::Local, address: start, bytes })
    }

    /// How far local memory is taken.
    pub(super) fn local_end(&self) -> u64 {
        self.local_end
    }

    /// Gives back the local memory behind `end`.
    pub(super) fn give_back_local(&mut self, end: u64) {
        self.local_end = end;
    }
}
