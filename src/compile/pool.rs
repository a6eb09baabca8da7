//! Compiles on several threads and returns results in order of completion. Works with any
//! [`Compile`].

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::compiler::{Compile, CompileError, CompileRequest, Compiled};
use super::threads::CompileThreads;

/// Result of a request.
pub type CompileResult = Result<Compiled, CompileError>;

/// Longest time that dropping a pool waits for running compiles. In children they end soon; in this
/// process they cannot be stopped (the slowest kernel seen took 2.6 s), and exiting while NVRTC runs
/// is unsafe.
const DROP_TIMEOUT: Duration = Duration::from_secs(10);

/// A queue of compile requests. Dropping it cancels queued requests and waits for running ones.
pub struct CompilePool<T> {
    threads: CompileThreads,
    compiler: Arc<dyn Compile>,
    sender: Sender<(T, CompileResult)>,
    receiver: Receiver<(T, CompileResult)>,
    active: Arc<ActiveJobs>,
}

impl<T: Send + 'static> CompilePool<T> {
    /// Creates a pool on threads that may be shared. Finished results are buffered without limit
    /// until received.
    pub fn new(compiler: Arc<dyn Compile>, threads: CompileThreads) -> Self {
        let (sender, receiver) = unbounded();
        Self { threads, compiler, sender, receiver, active: Arc::default() }
    }

    /// Number of threads available to this pool now.
    pub fn threads(&self) -> usize {
        self.threads.count()
    }

    /// Queues a request and returns at once. Its result is returned with `tag`.
    pub fn submit(&self, tag: T, request: CompileRequest) {
        let compiler = Arc::clone(&self.compiler);
        let sender = self.sender.clone();
        let active = Arc::clone(&self.active);
        self.threads.spawn(move || {
            if active.start() {
                // The receiver is gone once the pool is dropped.
                let _ = sender.send((tag, compile(&*compiler, &request, &active.closed)));
                active.finish();
            }
        });
    }

    /// Channel of results, in order of completion.
    pub fn results(&self) -> &Receiver<(T, CompileResult)> {
        &self.receiver
    }

    /// Cancels queued requests and all later ones, and releases this pool's share of the threads.
    pub fn forget(&mut self) {
        self.active.close(Duration::ZERO);
        self.threads = self.threads.alone();
    }

    /// Returns the next result; `None` when none arrives within `timeout`.
    pub fn recv_timeout(&self, timeout: Duration) -> Option<(T, CompileResult)> {
        self.receiver.recv_timeout(timeout).ok()
    }
}

impl<T> Drop for CompilePool<T> {
    fn drop(&mut self) {
        self.active.close(DROP_TIMEOUT);
    }
}

/// Counter of running compiles that can be closed to new ones.
#[derive(Default)]
struct ActiveJobs {
    /// Cancels running compiles, where the compiler can. Changes under the lock of `running`.
    closed: AtomicBool,
    running: Mutex<usize>,
    finished: Condvar,
}

impl ActiveJobs {
    /// Counts a compile as started; `false` once closed.
    fn start(&self) -> bool {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let open = !self.closed.load(Ordering::Relaxed);
        *running += usize::from(open);
        open
    }

    fn finish(&self) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.finished.notify_all();
    }

    /// Rejects further compiles, cancels the running ones and waits for them, at most for `timeout`.
    fn close(&self, timeout: Duration) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        self.closed.store(true, Ordering::Relaxed);
        // A timeout is ignored: no further action is possible.
        let _ = self.finished.wait_timeout_while(running, timeout, |running| *running > 0);
    }
}

/// Turns a panic into an error; it would otherwise end the process.
fn compile(
    compiler: &dyn Compile,
    request: &CompileRequest,
    cancelled: &AtomicBool,
) -> CompileResult {
    catch_unwind(AssertUnwindSafe(|| compiler.compile_unless(cancelled, request)))
        .unwrap_or_else(|panic| Err(CompileError::Panicked { message: message_of(&*panic) }))
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Instant;

    use indexmap::IndexMap;

    use super::super::compiler::ImageOrigin;
    use super::*;

    /// Sleeps for the milliseconds that the source states, and counts.
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
                origin: ImageOrigin::Compiler,
                elapsed,
            })
        }
    }

    fn pool(jobs: usize) -> (Arc<Sleeper>, CompilePool<u32>) {
        let sleeper = Arc::new(Sleeper::default());
        let jobs = NonZeroUsize::new(jobs).unwrap();
        (Arc::clone(&sleeper), CompilePool::new(sleeper, CompileThreads::new(jobs).unwrap()))
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
        assert!(pool.recv_timeout(LONG).unwrap().1.is_ok(), "the thread keeps running");
    }

    #[test]
    fn dropping_it_cancels_queued_requests_and_waits_for_running_ones() {
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
    fn pools_share_threads_and_end_independently() {
        let threads = CompileThreads::new(NonZeroUsize::MIN).unwrap();
        let sleeper = Arc::new(Sleeper::default());
        let compiler = || Arc::clone(&sleeper) as Arc<dyn Compile>;
        let one = CompilePool::new(compiler(), threads.clone());
        let other = CompilePool::new(compiler(), threads);
        for tag in 0..10 {
            one.submit(tag, request("20"));
            other.submit(tag, request("20"));
        }
        assert_eq!(one.recv_timeout(LONG).unwrap().0, 0);
        drop(one);
        // Queued requests of the dropped pool no longer delay the other.
        let tags: Vec<i32> = (0..10).map(|_| other.recv_timeout(LONG).unwrap().0).collect();
        assert_eq!(tags, (0..10).collect::<Vec<_>>());
        assert!(sleeper.compiled.load(Ordering::Relaxed) < 15);
    }

    #[test]
    fn unreceived_results_do_not_block_a_drop() {
        let (_, pool) = pool(2);
        for tag in 0..100 {
            pool.submit(tag, request("0"));
        }
        thread::sleep(Duration::from_millis(100));
        drop(pool);
    }
}
