//! A module: the variables that its kernels share, and what its names mean everywhere.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use super::Fault;
use super::kernel::{Decoder, Kernel};
use super::names::Meaning;
use super::variables::{Symbol, size_of};
use crate::cpu::error::PtxError;
use crate::cpu::layout::{MAX_MODULE, MODULE_BASE, align};
use crate::cpu::parse::{Function, Linkage, Module, Variable};
use crate::cpu::types::Space;

/// The memory of a module's variables, which begins at [`MODULE_BASE`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::cpu) struct Contents {
    pub(in crate::cpu) bytes: u64,
    /// What is not zero at first, and where.
    pub(in crate::cpu) values: Vec<(u64, Vec<u8>)>,
}

/// What the functions of a module have in common.
#[derive(Debug)]
pub(super) struct Surroundings<'a, 'm> {
    pub(super) files: HashMap<u32, Arc<str>>,
    /// Names of the module, but for variables in shared memory: each kernel has its own.
    pub(super) names: Rc<HashMap<&'a str, Meaning>>,
    pub(super) functions: HashMap<&'a str, &'m Function<'a>>,
    pub(super) shared: Vec<&'m Variable<'a>>,
}

/// Decodes a whole module.
pub(in crate::cpu) fn decode(module: &Module<'_>) -> Result<(Vec<Kernel>, Contents), PtxError> {
    let mut contents = Contents::default();
    let mut names = HashMap::new();
    for variable in &module.variables {
        if matches!(variable.space, "global" | "const") {
            let symbol = place(variable, &mut contents).map_err(|fault| PtxError::Statement {
                line: variable.line,
                source_line: None,
                text: variable.name.to_owned(),
                what: fault.0,
            })?;
            names.insert(variable.name, Meaning::Variable(symbol));
        }
    }
    let (kernels, callable): (Vec<_>, Vec<_>) =
        module.functions.iter().partition(|function| function.linkage == Linkage::Entry);
    names.extend(callable.iter().map(|function| (function.name, Meaning::Function)));
    let surroundings = Surroundings {
        files: module.files.iter().map(|(index, path)| (*index, Arc::from(*path))).collect(),
        names: Rc::new(names),
        functions: callable.into_iter().map(|function| (function.name, function)).collect(),
        shared: module.variables.iter().filter(|variable| variable.space == "shared").collect(),
    };
    let kernels = kernels.into_iter().map(|function| Decoder::new(&surroundings).kernel(function));
    Ok((kernels.collect::<Result<_, _>>()?, contents))
}

/// Gives a variable its place among those of the module.
fn place(variable: &Variable<'_>, contents: &mut Contents) -> Result<Symbol, Fault> {
    let (ty, alignment, bytes) = size_of(variable)?;
    let start = align(contents.bytes, alignment);
    if bytes > MAX_MODULE || start + bytes > MAX_MODULE {
        return Err(Fault::new("the variables of a module exceed 256 MiB"));
    }
    contents.bytes = start + bytes;
    let element = |value: &u64| value.to_le_bytes().into_iter().take(ty.bytes() as usize);
    let values: Vec<u8> = variable.values.iter().flat_map(element).collect();
    if values.len() as u64 > bytes {
        return Err(Fault::new("it has more values than elements"));
    }
    contents.values.push((start, values));
    let space = if variable.space == "const" { Space::Constant } else { Space::Global };
    Ok(Symbol { space, address: MODULE_BASE + start, bytes })
}
