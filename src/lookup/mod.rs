//! Which kernel to use for a problem on a device, whether or not anybody tuned it, by a ladder of
//! four rungs: the record of that very problem; the winner of another problem on this device, chosen
//! by a model of tiles, waves and alignment ([`CostModel`](crate::predict::CostModel)); a winner of another device of the same
//! compute capability; a family's default. Where the model expects a default to be faster than what
//! was tuned for other problems, the default is the answer. What was learned of a device
//! ([`crate::predict`]) takes the model's place where there is any.
//!
//! The same records say where the search for a problem's best kernel may begin ([`Lookup::hints`]).
//!
//! Pure: from records and families to an answer, in microseconds. What is legal is asked of the
//! family anew for every problem, as its operands are stored.

mod answer;
mod candidates;
mod expectation;
mod hints;
mod index;
mod kernels;
mod landmarks;
mod learned;
mod neighbours;
mod resolve;
#[cfg(test)]
mod tests;

pub use answer::{Answer, NoAnswer, Question, Rung, Why};
pub use expectation::Expectation;
pub use index::{Lookup, Unusable};
