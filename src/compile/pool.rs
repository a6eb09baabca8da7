//! Compiles on several threads and hands results back as they come. Knows nothing about NVRTC:
//! any [`Compile`] will do.

use std::any::Any;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};
use thiserror::Error;

use super::compiler::{Compile, CompileError, CompileRequest, Compiled};

/// What became of a request.
pub type CompileResult = Result<Compiled, CompileError>;

/// How long a dropped pool waits for the compiles that run. The slowest kernel seen took 2.6 s
/// (256 x 128 x 32 tile, fully unrolled); leaving NVRTC running while the process exits is unsafe.
const PATIENCE: Duration = Duration::from_secs(10);

/// Threads that compile. Dropping it forgets what is queued and waits for what runs.
pub struct CompilePool<T> {
    threads: ThreadPool,
    compiler: Arc<dyn Compile>,
    sender: SyncSender<(T, CompileResult)>,
    receiver: Receiver<(T, CompileResult)>,
    cancelled: Arc<AtomicBool>,
}

/// The system gives no threads.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot start {jobs} compile threads: {reason}; ask for fewer jobs")]
pub struct PoolError {
    /// How many were asked for.
    pub jobs: NonZeroUsize,
    /// The system's words.
    pub reason: String,
}

impl<T: Send + 'static> CompilePool<T> {
    /// A pool of `jobs` threads. Finished results wait for [`CompilePool::recv_timeout`]; when
    /// there are twice as many as threads, the threads wait too, so that memory stays bounded.
    ///
    /// # Errors
    /// The system gives no threads.
    pub fn new(compiler: Arc<dyn Compile>, jobs: NonZeroUsize) -> Result<Self, PoolError> {
        let threads = ThreadPoolBuilder::new()
            .num_threads(jobs.get())
            .thread_name(|index| format!("compile-{index}"))
            .build()
            .map_err(|error| PoolError { jobs, reason: error.to_string() })?;
        let (sender, receiver) = sync_channel(2 * jobs.get());
        let cancelled = Arc::new(AtomicBool::new(false));
        Ok(Self { threads, compiler, sender, receiver, cancelled })
    }

    /// Queues a request and returns at once. Its result comes back with `tag`.
    pub fn submit(&self, tag: T, request: CompileRequest) {
        let compiler = Arc::clone(&self.compiler);
        let sender = self.sender.clone();
        let cancelled = Arc::clone(&self.cancelled);
        self.threads.spawn_fifo(move || {
            if !cancelled.load(Ordering::Relaxed) {
                // Nobody receives once the pool is dropped, and nobody needs to.
                let _ = sender.send((tag, compile(&*compiler, &request)));
            }
        });
    }

    /// The next result, in order of completion; `None` when none came in `timeout`.
    pub fn recv_timeout(&self, timeout: Duration) -> Option<(T, CompileResult)> {
        self.receiver.recv_timeout(timeout).ok()
    }
}

impl<T> Drop for CompilePool<T> {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
        // Each job holds a sender: without our own, the channel closes when the last job is over.
        self.sender = sync_channel(0).0;
        let deadline = Instant::now() + PATIENCE;
        while self.receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok()
        {
        }
    }
}

/// A panic would take the process down with its thread of the pool.
fn compile(compiler: &dyn Compile, request: &CompileRequest) -> CompileResult {
    catch_unwind(AssertUnwindSafe(|| compiler.compile(request)))
        .unwrap_or_else(|panic| Err(CompileError::Panicked { message: message_of(&*panic) }))
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use indexmap::IndexMap;

    use super::super::compiler::Origin;
    use super::*;

    /// Takes as many milliseconds as the source says, and counts.
    #[derive(Debug, Default)]
    struct Sleeper {
        compiled: AtomicUsize,
    }

    impl Compile for Sleeper {
        fn compile(&self, request: &CompileRequest) -> CompileResult {
            let elapsed = Duration::from_millis(request.source.parse().expect("a number"));
            thread::sleep(elapsed);
            self.compiled.fetch_add(1, Ordering::Relaxed);
            Ok(Compiled {
                image: Arc::new([]),
                log: String::new(),
                resources: IndexMap::new(),
                origin: Origin::Compiler,
                elapsed,
            })
        }
    }

    fn pool(jobs: usize) -> (Arc<Sleeper>, CompilePool<u32>) {
        let sleeper = Arc::new(Sleeper::default());
        let jobs = NonZeroUsize::new(jobs).unwrap();
        (Arc::clone(&sleeper), CompilePool::new(sleeper, jobs).unwrap())
    }

    fn request(source: &str) -> CompileRequest {
        CompileRequest { source: source.into(), name: "sleep.cu".to_owned(), options: vec![] }
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn results_come_in_order_of_completion() {
        let (_, pool) = pool(3);
        for (tag, source) in [(0, "300"), (1, "0"), (2, "150")] {
            pool.submit(tag, request(source));
        }
        let tags: Vec<u32> = (0..3).map(|_| pool.recv_timeout(LONG).unwrap().0).collect();
        assert_eq!(tags, [1, 2, 0]);
        assert!(pool.recv_timeout(Duration::ZERO).is_none());
    }

    #[test]
    fn a_panic_is_a_result() {
        let (_, pool) = pool(1);
        pool.submit(0, request("not a number"));
        pool.submit(1, request("0"));
        let (_, result) = pool.recv_timeout(LONG).unwrap();
        let message = result.unwrap_err().to_string();
        assert!(message.starts_with("compiling panicked: a number"), "{message}");
        assert!(pool.recv_timeout(LONG).unwrap().1.is_ok(), "the thread lives on");
    }

    #[test]
    fn dropping_it_forgets_what_is_queued_and_waits_for_what_runs() {
        let (sleeper, pool) = pool(2);
        for tag in 0..1000 {
            pool.submit(tag, request("50"));
        }
        assert!(pool.recv_timeout(LONG).is_some());
        let start = Instant::now();
        drop(pool);
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        let compiled = sleeper.compiled.load(Ordering::Relaxed);
        thread::sleep(Duration::from_millis(120));
        assert_eq!(sleeper.compiled.load(Ordering::Relaxed), compiled);
    }

    #[test]
    fn results_that_nobody_takes_do_not_block_a_drop() {
        let (_, pool) = pool(2);
        for tag in 0..100 {
            pool.submit(tag, request("0"));
        }
        thread::sleep(Duration::from_millis(100));
        drop(pool);
    }
}
