//! A family file and the configurations that it allows. Pure but for [`load`]: no kernel is
//! rendered, compiled or run here.
//!
//! `file` is the TOML as written, `parse` makes a [`family`] of it, [`formula`] is the language of its
//! expressions, [`scope`] the names that they may use, `evaluate` their evaluation, [`enumerate`] finds the
//! legal configurations of a [`LegalSpace`] and counts those that each constraint removes, and [`Work`]
//! is what a configuration's blocks compute.

mod block_work;
mod choose;
pub mod enumerate;
mod evaluate;
mod expression;
pub mod family;
mod file;
pub mod formula;
mod ladder;
mod legal;
mod legality;
pub mod load;
mod parse;
mod recorded;
pub mod scope;
mod seeds;
mod streamed;
mod tensor_cores;
mod work;
mod workspaces;

pub use choose::ChoiceError;
pub use enumerate::SpaceError;
pub(crate) use expression::Expression;
pub use family::{Family, FormerParameter};
pub use formula::Formula;
pub use ladder::Rung;
pub use legal::{LegalSpace, PrunedCount};
pub use legality::{Extents, Legality, SharedConditions};
pub use load::{Families, LoadError, ladder};
pub use recorded::OutdatedConfiguration;
pub use scope::Scope;
pub use streamed::{StreamedBlock, StreamedWork};
pub use tensor_cores::{TensorCoreBlock, TensorCoreWork};
pub use work::{Tiling, Work};
pub use workspaces::WorkspaceSizes;
