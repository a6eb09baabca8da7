//! Names that the functions of a module share.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use super::variables::Symbol;
use crate::cpu::parse::{ParsedFunction, Variable};

/// What a name of the module means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModuleName {
    Variable(Symbol),
    Function,
}

/// What the functions of a module have in common.
#[derive(Debug)]
pub(super) struct ModuleScope<'a, 'm> {
    pub(super) files: HashMap<u32, Arc<str>>,
    /// Names of the module, but for variables in shared memory: each kernel has its own.
    pub(super) names: Rc<HashMap<&'a str, ModuleName>>,
    pub(super) functions: HashMap<&'a str, &'m ParsedFunction<'a>>,
    pub(super) shared: Vec<&'m Variable<'a>>,
}
