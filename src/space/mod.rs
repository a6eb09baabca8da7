//! A family file and the configurations that it allows. Pure but for [`load`]: no kernel is
//! rendered, compiled or run here.
//!
//! `file` is the TOML as written, `parse` turns it into a [`family`], [`expression`] is the language
//! of derived values, constraints and launches, [`scope`] the names that expressions may use,
//! [`enumerate`] the walk that lists legal configurations and counts what each constraint removes,
//! [`LegalSpace`] the set that it finds,
//! and [`formula`] what is left of expressions for programs without a template engine.

mod besides;
mod choose;
pub mod enumerate;
pub mod expression;
pub mod family;
mod file;
mod footprint;
mod footprints;
pub mod formula;
mod ladder;
mod legal;
mod legality;
pub mod load;
mod parse;
mod recorded;
pub mod scope;
mod seeds;

pub use besides::Besides;
pub use choose::ChoiceError;
pub use enumerate::SpaceError;
pub use expression::language;
pub use family::Family;
pub use footprint::Footprint;
pub use footprints::Footprints;
pub use formula::Formula;
pub use ladder::Rung;
pub use legal::{LegalSpace, Pruned};
pub use legality::{Extents, Legality};
pub use load::{Families, LoadError, ladder};
pub use recorded::Outdated;
