//! Names that the functions of a module share.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use super::variables::Symbol;
use crate::cpu::parse::{ParsedFunction, Variable};

/// Meaning of a name of the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModuleName {
    Variable(Symbol),
    Function,
}

/// Scope of a module.
#[derive(Debug)]
pub(super) struct ModuleScope<'a, 'm> {
    pub(super) files: HashMap<u32, Arc<str>>,
    /// Names of the module, without shared variables, of which each kernel has its own.
    pub(super) names: Rc<HashMap<&'a str, ModuleName>>,
    pub(super) functions: HashMap<&'a str, &'m ParsedFunction<'a>>,
    pub(super) shared: Vec<&'m Variable<'a>>,
}
