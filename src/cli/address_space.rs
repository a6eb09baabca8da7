//! The limit of this program's address space (`ulimit -v`). Rust ends a program whose allocation
//! fails, so a limit that is too low for any work is refused before the work begins.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use rustix::process::{Resource, getrlimit};

use crate::model::units::human_bytes;

/// Address space of the program with its libraries and a compiler, and of each thread. Searches
/// were seen to fail with 250 MB on 2 processors, and to succeed with 500 MB.
const PROGRAM_BYTES: u64 = 480 << 20;
const THREAD_BYTES: u64 = 8 << 20;

/// Why this program cannot work within the limit of its address space, if it cannot.
pub(super) fn shortage() -> Option<String> {
    let threads = available_parallelism().map_or(1, NonZeroUsize::get) as u64;
    judge(getrlimit(Resource::As).current?, threads)
}

fn judge(limit: u64, threads: u64) -> Option<String> {
    let needed = PROGRAM_BYTES + THREAD_BYTES * threads;
    (limit < needed).then(|| {
        format!(
            "the limit of address space is {}, and gemm-tune needs {} on this machine: raise it with \
             `ulimit -v {}`, or remove it with `ulimit -v unlimited`",
            human_bytes(limit),
            human_bytes(needed),
            needed / 1024,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_limit_is_named_with_what_is_needed() {
        assert_eq!(judge(496 << 20, 2), None);
        let message = judge(60_000 << 10, 2).unwrap();
        assert!(message.starts_with("the limit of address space is 58.6 MiB, "), "{message}");
        assert!(message.contains("needs 496.0 MiB") && message.contains("`ulimit -v 507904`"));
    }
}
