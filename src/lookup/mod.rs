//! Lookup of the kernel for a problem on a device, tuned or not. The answer's source is the record of that very
//! problem, else the kernel with the lowest predicted time: by a learned model ([`crate::predict`]) where there is
//! one, else by landmarks and the analytic model among the winners of similar problems, those of devices of the same
//! compute capability, and the families' defaults. The same records give searches their warm starts.
//!
//! Pure: from records and families to an answer, in microseconds. Legality is decided for every problem as its
//! operands are stored.

mod answer;
mod candidates;
mod index;
mod kernels;
mod learned;
mod library;
mod neighbours;
mod resolve;
#[cfg(test)]
mod tests;
mod warm_start;

pub use answer::{Answer, AnswerSource, NoAnswer, Question, Why};
pub use index::{Lookup, Unusable};
pub use library::{LibraryCandidate, is_clearly_faster, measured_library};
