//! Decoder of a module: the variables that its kernels share, and its kernels.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use super::decoder::KernelDecoder;
use super::error::StatementError;
use super::module_scope::{ModuleName, ModuleScope};
use super::variables::{Symbol, size_of};
use crate::cpu::error::PtxError;
use crate::cpu::kernel_code::KernelCode;
use crate::cpu::layout::{MAX_MODULE, MODULE_BASE, align};
use crate::cpu::parse::{Linkage, ParsedModule, Variable};
use crate::cpu::types::Space;

/// Initial contents of a module's variables, which begin at [`MODULE_BASE`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::cpu) struct ModuleData {
    pub(in crate::cpu) bytes: u64,
    /// Offset and bytes of the initial values that are not zero.
    pub(in crate::cpu) values: Vec<(u64, Vec<u8>)>,
}

/// Decodes a module.
pub(in crate::cpu) fn decode(
    module: &ParsedModule<'_>,
) -> Result<(Vec<KernelCode>, ModuleData), PtxError> {
    let mut contents = ModuleData::default();
    let mut names = HashMap::new();
    for variable in &module.variables {
        if matches!(variable.space, "global" | "const") {
            let symbol = place(variable, &mut contents).map_err(|fault| PtxError::Statement {
                line: variable.line,
                source_line: None,
                text: variable.name.to_owned(),
                what: fault.0,
            })?;
            names.insert(variable.name, ModuleName::Variable(symbol));
        }
    }
    let (kernels, callable): (Vec<_>, Vec<_>) =
        module.functions.iter().partition(|function| function.linkage == Linkage::Entry);
    names.extend(callable.iter().map(|function| (function.name, ModuleName::Function)));
    let surroundings = ModuleScope {
        files: module.files.iter().map(|(index, path)| (*index, Arc::from(*path))).collect(),
        names: Rc::new(names),
        functions: callable.into_iter().map(|function| (function.name, function)).collect(),
        shared: module.variables.iter().filter(|variable| variable.space == "shared").collect(),
    };
    let kernels =
        kernels.into_iter().map(|function| KernelDecoder::new(&surroundings).kernel(function));
    Ok((kernels.collect::<Result<_, _>>()?, contents))
}

/// Places a variable of the module.
fn place(variable: &Variable<'_>, contents: &mut ModuleData) -> Result<Symbol, StatementError> {
    let (ty, alignment, bytes) = size_of(variable)?;
    let start = align(contents.bytes, alignment);
    if bytes > MAX_MODULE || start + bytes > MAX_MODULE {
        return Err(StatementError::new("the variables of a module exceed 256 MiB"));
    }
    contents.bytes = start + bytes;
    let element = |value: &u64| value.to_le_bytes().into_iter().take(ty.bytes() as usize);
    let values: Vec<u8> = variable.values.iter().flat_map(element).collect();
    if values.len() as u64 > bytes {
        return Err(StatementError::new("the variable has more values than elements"));
    }
    contents.values.push((start, values));
    let space = if variable.space == "const" { Space::Constant } else { Space::Global };
    Ok(Symbol { space, address: MODULE_BASE + start, bytes })
}
