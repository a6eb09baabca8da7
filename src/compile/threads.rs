//! Threads that compile, shared by several pools.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::{ThreadPool, ThreadPoolBuilder};
use thiserror::Error;

/// Niceness added to compile threads (nice(2)).
const COMPILE_NICENESS: i32 = 10;

/// Threads that compile for any number of pools, in FIFO order.
#[derive(Clone)]
pub struct CompileThreads {
    threads: Arc<ThreadPool>,
    shares: Arc<AtomicUsize>,
    /// `None` for a handle that does not share.
    share: Option<Arc<ThreadShare>>,
}

/// One of the handles that share the threads, counted while it lives.
struct ThreadShare(Arc<AtomicUsize>);

impl CompileThreads {
    /// Starts `jobs` threads.
    ///
    /// # Errors
    /// The system cannot start the threads.
    pub fn new(jobs: NonZeroUsize) -> Result<Self, ThreadsError> {
        let threads = ThreadPoolBuilder::new()
            .num_threads(jobs.get())
            .thread_name(|index| format!("compile-{index}"))
            // Measurements have priority. A refusal leaves the default priority.
            .start_handler(|_| {
                let _ = rustix::process::nice(COMPILE_NICENESS);
            })
            .build()
            .map_err(|error| ThreadsError { jobs, reason: error.to_string() })?;
        Ok(Self { threads: Arc::new(threads), shares: Arc::default(), share: None })
    }

    /// Returns a handle to the same threads that takes an equal share, for as long as it or a clone
    /// of it lives.
    pub fn shared(&self) -> Self {
        self.shares.fetch_add(1, Ordering::Relaxed);
        Self { share: Some(Arc::new(ThreadShare(Arc::clone(&self.shares)))), ..self.clone() }
    }

    /// Returns a handle to the same threads that counts all of them as its own.
    pub fn alone(&self) -> Self {
        Self { share: None, ..self.clone() }
    }

    /// Queues a job, first in, first out.
    pub(super) fn spawn(&self, job: impl FnOnce() + Send + 'static) {
        self.threads.spawn_fifo(job);
    }

    /// Number of threads for this handle: all, or an equal share among the current handles.
    pub fn count(&self) -> usize {
        let all = self.threads.current_num_threads();
        match &self.share {
            Some(share) => (all / share.0.load(Ordering::Relaxed).max(1)).max(1),
            None => all,
        }
    }
}

impl Drop for ThreadShare {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for CompileThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompileThreads").field("count", &self.count()).finish()
    }
}

/// Error: the system cannot start compile threads.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot start {jobs} compile threads: {reason}; ask for fewer jobs")]
pub struct ThreadsError {
    /// The requested number.
    pub jobs: NonZeroUsize,
    /// The operating system's message.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_the_living_handles() {
        let threads = CompileThreads::new(NonZeroUsize::new(8).unwrap()).unwrap();
        let first = threads.shared();
        assert_eq!((threads.count(), first.count()), (8, 8));
        let others: Vec<CompileThreads> = (0..2).map(|_| threads.shared()).collect();
        let clone = others[0].clone();
        assert_eq!((first.count(), clone.count(), first.alone().count()), (2, 2, 8));
        drop(others);
        assert_eq!(first.count(), 4, "the clone shares them");
        drop(clone);
        assert_eq!(first.count(), 8);
        let crowd: Vec<CompileThreads> = (0..20).map(|_| threads.shared()).collect();
        assert_eq!(crowd[0].count(), 1);
    }
}
