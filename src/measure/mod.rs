//! How long a correct kernel takes: samples over rotated operands, and the contest in which the
//! finalists and the libraries are sampled in turn.
//!
//! Works on anything that gives work for a set of operands; knows no configuration and no family.

mod contest;
mod sampling;
mod stopwatch;
mod taint;

pub use contest::{Contestant, contest};
pub use sampling::{SAMPLES, sets_for};
pub use stopwatch::{Stopwatch, WorkFor};
pub use taint::Taint;
