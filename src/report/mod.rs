//! Reports: text tables, plots, HTML pages and JSON documents of results. Pure: values in, text
//! out; `cli` prints.

pub mod answered;
pub mod checked;
pub mod comparison;
pub mod covered;
pub mod explained;
mod failed;
mod figures;
pub mod inspected;
pub mod json;
pub mod learned;
pub mod lineup;
pub mod mapped;
mod margins;
pub mod page;
pub mod picture;
pub mod plot;
mod problem_csv;
pub mod record_changes;
pub mod records;
pub mod regret;
pub mod replayed;
pub mod rows;
mod sequence;
pub mod table;
pub mod traced;
pub mod tuned;
pub mod verified;
