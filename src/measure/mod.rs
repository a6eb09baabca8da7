//! How long a correct kernel takes: samples over rotated operands, the race that screens
//! candidates, the final in which the best and the libraries take turns, and what its rounds say.
//!
//! Works on anything that gives work for a set of operands; knows no configuration and no family.
//! Of what the `cpu` device executed the time is modelled, not measured.

mod conditions;
mod finals;
mod margin;
mod race;
mod sampling;
mod stage;
mod stopwatch;
mod taint;
#[cfg(test)]
mod tests;
mod turns;

pub use conditions::ConditionsRange;
pub use finals::{Confidence, Ended, Entrant, Final, Place, Rules, Stage, Verdict};
pub use margin::{FEWEST_ROUNDS, Margin};
pub use race::{Race, Racer, Reason, Step};
pub use sampling::{FEWEST_SAMPLES, SAMPLES, sets_for};
pub use stage::{Held, hold};
pub use stopwatch::{Stopwatch, WorkFor};
pub use taint::Taint;
