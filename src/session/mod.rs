//! Several problems in one run: the scheduler that deals problems to lanes, the transfer of timings between
//! related problems, and the share of a list that one of several jobs tunes.

mod scheduler;
mod shard;
mod transfer;

pub use scheduler::{Claim, Lane, Scheduler, SearchSlot};
pub use shard::share;
pub use transfer::{TransferHub, TransferObserver};
