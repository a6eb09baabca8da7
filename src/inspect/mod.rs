//! What a kernel is and why it behaves as it does, told without a GPU: its source, what it takes of
//! an SM, what every line of it moves, who moves it, and how two of them
//! differ.
//!
//! Pure: values in, values out. How they are shown is for `report` to say, what is asked for `cli`.

mod difference;
pub mod explanation;
mod inspected;
pub mod landscape;
mod memory;
mod mix;
mod picture;
mod resources;

pub use difference::{KernelDifference, SourceChange, difference};
pub use inspected::{InspectError, InspectedKernel};
pub use memory::{LineTraffic, Traffic, traffic};
pub use mix::InstructionMix;
pub use picture::{ComputedElement, Factor, LoadStage, LoadedElement, Picture, picture};
pub use resources::{KernelFigures, ResourceFigures, Waves, figures};
