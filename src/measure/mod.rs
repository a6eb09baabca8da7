//! How long a correct kernel takes: samples over rotated operands, and the contest in which the
//! finalists and the libraries are sampled in turn.
//!
//! Works on anything that gives work for a set of operands; knows no configuration and no family.
//! Of what the `cpu` device executed the time is modelled, not measured.

mod contest;
mod modelled;
mod sampling;
mod stopwatch;

pub use contest::{Contestant, contest};
pub use modelled::{ExecutedLaunch, modelled_time};
pub use sampling::{SAMPLES, sets_for};
pub use stopwatch::{Stopwatch, WorkFor};
