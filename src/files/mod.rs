//! Files on disk: opens inputs, replaces outputs, and judges whom folders belong to. No other room
//! opens a file (`tests/architecture.rs` lists the exceptions). Also the files that the program has inside for some GPUs.
//!
//! Paths come from users, and what is there may be hostile: a FIFO that never ends, a device node, a
//! link to a file of someone else, a folder that everybody may write into. Errors are
//! [`std::io::Error`]s whose text follows `cannot read PATH: ` or `cannot write PATH: `.

mod gzip;
mod input;
mod kind;
mod output;
mod shared;
mod shipped_gpus;
mod trust;

pub use gemm_tune_runtime::regular_file::FileKind;
pub use gzip::{decompressed, first_line, read_decompressed, read_decompressed_text};
pub use input::{open, read, read_text};
pub use kind::InputKind;
pub use output::{OutputFile, replace};
pub use shared::{GrowingFile, LockFile};
pub(crate) use shipped_gpus::{SHIPPED_GPUS, ShippedGpu};
pub use trust::{Distrust, check_owner, make_private, trusted};
