//! Measurement of correct kernels: samples over rotated operands, the race that screens candidates,
//! and the final, which samples the best candidates and the libraries in interleaved rounds and
//! compares them.
//!
//! Works on anything that creates work for a set of operands, independent of configurations and
//! families. Times of the `cpu` device are modelled, not measured.

mod conditions;
mod device_final;
mod disturbance;
mod finals;
mod margin;
mod race;
mod sampling;
mod sampling_order;
mod stopwatch;
#[cfg(test)]
mod tests;

pub use conditions::ConditionsRange;
pub use device_final::{FinalMeasurements, run_final};
pub use disturbance::Disturbance;
pub use finals::{
    Confidence, Entrant, EntrantSampler, Final, FinalEnd, FinalResult, FinalRules, FinalStanding,
    TieRule,
};
pub use margin::{MIN_ROUNDS, Margin};
pub use race::{DropReason, Race, RaceStep, RacingCandidate};
pub use sampling::{MIN_SAMPLES, SAMPLES, sets_for};
pub use stopwatch::{Stopwatch, WorkFor};
