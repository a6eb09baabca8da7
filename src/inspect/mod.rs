//! Inspection of kernels without a GPU: source, resources, data movement of every source line and
//! thread, differences between two kernels, and the explanation of a winner.
//!
//! Pure: values in, values out. `report` formats the results, `cli` parses the requests.

mod difference;
pub mod equivalence;
pub mod explanation;
mod harness;
mod header;
mod inspected;
pub mod landscape;
mod memory;
mod mix;
mod picture;
mod resources;

pub use difference::{KernelDifference, SourceChange, difference};
pub use harness::harness;
pub use inspected::{InspectError, InspectedKernel};
pub use memory::{LineTraffic, Traffic, traffic};
pub use mix::InstructionMix;
pub use picture::{
    BlockShare, ComputedElement, Factor, LoadStage, LoadedElement, PartialSums, Picture, picture,
};
pub use resources::{KernelFigures, ResourceFigures, Waves, figures};
