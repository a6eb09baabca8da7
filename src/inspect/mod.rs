//! What a kernel is and why it behaves as it does, told without a GPU: its source, what it takes of
//! an SM, what every line of it moves, who moves it, and how two of them
//! differ.
//!
//! Pure: values in, values out. How they are shown is for `report` to say, what is asked for `cli`.

mod difference;
pub mod equivalence;
pub mod explanation;
pub mod landscape;
mod memory;
mod mix;
mod picture;
mod resources;
mod subject;

pub use difference::{Change, Difference, difference};
pub use memory::{LineTraffic, Traffic, traffic};
pub use mix::Mix;
pub use picture::{Brought, Computed, Factor, Picture, Stage, picture};
pub use resources::{Figures, KernelFigures, Waves, figures};
pub use subject::{Subject, SubjectError};
