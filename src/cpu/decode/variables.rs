//! Placement of a kernel's variables: shared memory, local memory and parameters.

use super::error::StatementError;
use crate::cpu::kernel_code::SharedSegment;
use crate::cpu::layout::{MAX_LOCAL, MAX_PARAMETERS, MAX_SHARED, SHARED_GUARD, align};
use crate::cpu::parse::Variable;
use crate::cpu::types::{Space, Type};

/// Space and address of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) space: Space,
    pub(super) address: u64,
    /// 0 where the launch decides.
    pub(super) bytes: u64,
}

/// Variables that are placed so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Variables {
    pub(super) segments: Vec<SharedSegment>,
    shared_end: u64,
    /// Static shared memory without guard bytes.
    pub(super) static_shared_bytes: u64,
    /// Offset of the next local variable, unless local memory is released before.
    local_end: u64,
    /// Peak of local memory.
    pub(super) local_bytes: u64,
    /// Offset and bytes of each parameter.
    pub(super) parameters: Vec<(u64, u64)>,
}

/// Type, alignment and bytes of a variable.
pub(super) fn size_of(variable: &Variable<'_>) -> Result<(Type, u64, u64), StatementError> {
    let ty = Type::named(variable.ty).filter(|ty| *ty != Type::Predicate).ok_or_else(|| {
        StatementError::new(format!("`.{}` is not a type for variables", variable.ty))
    })?;
    let alignment = variable.alignment.unwrap_or(ty.bytes().into());
    if !alignment.is_power_of_two() || alignment > 4096 {
        return Err(StatementError::new(format!("{alignment} is not a valid alignment")));
    }
    let elements =
        variable.elements.ok_or_else(|| StatementError::new("the variable has no size"))?;
    let bytes = elements.checked_mul(ty.bytes().into());
    let bytes =
        bytes.ok_or_else(|| StatementError::new("the variable exceeds the address space"))?;
    Ok((ty, alignment, bytes))
}

/// The name that a variable has in the CUDA source: `_ZZ4gemmE4tile` is `tile` of the function `gemm`.
fn source_name(name: &str) -> &str {
    let Some(mangled) = name.strip_prefix("_ZZ") else { return name };
    let ends = mangled.match_indices('E').map(|(at, _)| &mangled[at + 1..]);
    let mut named = ends.filter_map(|rest| {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (length, rest) = rest.split_at(digits);
        let (own, rest) = rest.split_at_checked(length.parse().ok()?)?;
        // A number follows where a function has several variables of the name.
        (rest.is_empty() || rest.starts_with('_')).then_some(own)
    });
    named.next_back().unwrap_or(name)
}

impl Variables {
    /// Places the next parameter of the kernel.
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

    /// Places a shared variable, for the whole lifetime of a block.
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
        let name = source_name(variable.name).to_owned();
        self.segments.push(SharedSegment { name, start, end: start + bytes });
        self.shared_end = start + bytes + SHARED_GUARD;
        Ok(Symbol { space: Space::Shared, address: start, bytes })
    }

    /// Offset of dynamic shared memory, after all variables. Its alignment suits every swizzle that
    /// a kernel derives from addresses.
    pub(super) fn dynamic_shared(&self) -> u64 {
        align(self.shared_end, 1024)
    }

    /// Places a local variable until local memory is released.
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

    /// End of the local memory in use.
    pub(super) fn local_end(&self) -> u64 {
        self.local_end
    }

    /// Releases local memory from `end` on.
    pub(super) fn release_local(&mut self, end: u64) {
        self.local_end = end;
    }
}

#[cfg(test)]
mod tests {
    use super::source_name;

    #[test]
    fn a_shared_variable_has_the_name_of_the_source() {
        for (mangled, name) in [
            ("_ZZ4gemmE7a_slice", "a_slice"),
            ("_ZZ4gemmE4tile_0", "tile"),
            ("_ZZN4TileILi4EE4loadEPfE3buf", "buf"),
            ("_ZZ4gemmE99tile", "_ZZ4gemmE99tile"),
            ("shared", "shared"),
        ] {
            assert_eq!(source_name(mangled), name);
        }
    }
}
