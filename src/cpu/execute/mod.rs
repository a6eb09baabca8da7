//! Execution of kernels: clusters of blocks in parallel, the warps of a cluster in turn.

mod access;
mod address_space;
mod arguments;
mod async_copy;
mod atomics;
mod barrier_state;
mod barriers;
mod bounds;
mod cluster;
mod cluster_order;
mod cluster_state;
mod collective;
mod compute;
mod context;
mod error;
mod launch;
mod limits;
mod matrix;
mod mbarrier;
mod mbarrier_state;
mod options;
mod progress;
mod registers;
mod remote_access;
mod shared_address;
mod special_values;
mod step;
mod tensor_copy;
mod warp;

pub use arguments::KernelParameter;
pub use error::LaunchError;
pub use launch::launch;
pub use options::{BlockSelection, CountingMode, LaunchOptions};
