//! Child processes of this program: how they start, talk over pipes and end with it.
//!
//! Work that may crash, hang or fill the memory runs in a child: kernels on a GPU, compiles, and the
//! rendering of a user's templates. A `ChildPool` keeps idle children and kills one whose time is
//! up. What a child does is decided by the rooms that use this one.

mod child;
mod confine;
mod frame;
mod pool;
mod serve;
mod spawn;

pub use child::{ChildCommand, LIBRARY_VARIABLES};
pub(crate) use child::{ChildError, ChildProcess};
pub(crate) use confine::{confine, leave_folder};
pub(crate) use frame::{read_frame, write_frame};
pub(crate) use pool::ChildPool;
pub(crate) use serve::{ParentPipe, limit_resources};
