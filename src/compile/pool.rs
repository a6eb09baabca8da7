//! Compiles on several threads and hands results back as they come. Knows nothing about NVRTC:
//! any [`Compile`] will do.

use std::any::Any;
use std::fmt;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use rayon::{ThreadPool, ThreadPoolBuilder};
use thiserror::Error;

use super::compiler::{Compile, CompileError, CompileRequest, Compiled};

/// What became of a request.
pub type CompileResult = Result<Compiled, CompileError>;

/// How long a dropped pool waits for the compiles that run. The slowest kernel seen took 2.6 s
/// (256 x 128 x 32 tile, fully unrolled); leaving NVRTC running while the process exits is unsafe.
const PATIENCE: Duration = Duration::from_secs(10);

/// By how much the threads that compile are nicer than others (nice(2)).
const COURTESY: i32 = 10;

/// Threads that compile for any number of pools, first come, first served.
#[derive(Clone)]
pub struct CompileThreads {
    threads: Arc<ThreadPool>,
    sharers: Arc<AtomicUsize>,
    /// None for who does not share.
    own: Option<Arc<Sharer>>,
}

/// One of those that keep threads busy together, counted as long as it lives.
struct Sharer(Arc<AtomicUsize>);

impl CompileThreads {
    /// So many threads.
    ///
    /// # Errors
    /// The system gives no threads.
    pub fn new(jobs: NonZeroUsize) -> Result<Self, PoolError> {
        let threads = ThreadPoolBuilder::new()
            .num_threads(jobs.get())
            .thread_name(|index| format!("compile-{index}"))
            // Whoever measures meanwhile comes first. Where that is refused, things are as they were.
            .start_handler(|_| {
                let _ = rustix::process::nice(COURTESY);
            })
            .build()
            .map_err(|error| PoolError { jobs, reason: error.to_string() })?;
        Ok(Self { threads: Arc::new(threads), sharers: Arc::default(), own: None })
    }

    /// The same threads, for one more who keeps them busy together with others, for as long as this or a
    /// clone of it is there.
    pub fn shared(&self) -> Self {
        self.sharers.fetch_add(1, Ordering::Relaxed);
        Self { own: Some(Arc::new(Sharer(Arc::clone(&self.sharers)))), ..self.clone() }
    }

    /// The same threads, for one who has them alone for now.
    pub fn alone(&self) -> Self {
        Self { own: None, ..self.clone() }
    }

    /// How many there are for whoever asks: all, or an equal share for each of those that share them now.
    pub fn count(&self) -> usize {
        let all = self.threads.current_num_threads();
        match &self.own {
            Some(own) => (all / own.0.load(Ordering::Relaxed).max(1)).max(1),
            None => all,
        }
    }
}

impl Drop for Sharer {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for CompileThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompileThreads").field("count", &self.count()).finish()
    }
}

/// What one asks to have compiled. Dropping it forgets what is queued and waits for what runs.
pub struct CompilePool<T> {
    threads: CompileThreads,
    compiler: Arc<dyn Compile>,
    sender: Sender<(T, CompileResult)>,
    receiver: Receiver<(T, CompileResult)>,
    door: Arc<Door>,
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
    /// A pool on threads that others may use too. Finished results wait to be received: who
    /// submits without receiving fills the memory.
    pub fn new(compiler: Arc<dyn Compile>, threads: CompileThreads) -> Self {
        let (sender, receiver) = unbounded();
        Self { threads, compiler, sender, receiver, door: Arc::default() }
    }

    /// How many threads there are for this pool now.
    pub fn threads(&self) -> usize {
        self.threads.count()
    }

    /// Queues a request and returns at once. Its result comes back with `tag`.
    pub fn submit(&self, tag: T, request: CompileRequest) {
        let compiler = Arc::clone(&self.compiler);
        let sender = self.sender.clone();
        let door = Arc::clone(&self.door);
        self.threads.threads.spawn_fifo(move || {
            if door.enter() {
                // Nobody receives once the pool is dropped, and nobody needs to.
                let _ = sender.send((tag, compile(&*compiler, &request)));
                door.leave();
            }
        });
    }

    /// Where results come, in order of completion.
    pub fn results(&self) -> &Receiver<(T, CompileResult)> {
        &self.receiver
    }

    /// Forgets what is queued and has not begun; nothing that is submitted later begins, and others have
    /// this one's share of the threads.
    pub fn forget(&mut self) {
        self.door.close(Duration::ZERO);
        self.threads = self.threads.alone();
    }

    /// The next result; `None` when none came in `timeout`.
    pub fn recv_timeout(&self, timeout: Duration) -> Option<(T, CompileResult)> {
        self.receiver.recv_timeout(timeout).ok()
    }
}

impl<T> Drop for CompilePool<T> {
    fn drop(&mut self) {
        self.door.close(PATIENCE);
    }
}

/// What requests pass on their way to the compiler, until it is closed.
#[derive(Default)]
struct Door {
    state: Mutex<DoorState>,
    left: Condvar,
}

#[derive(Default)]
struct DoorState {
    closed: bool,
    inside: usize,
}

impl Door {
    /// Whether the door was open.
    fn enter(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.inside += usize::from(!state.closed);
        !state.closed
    }

    fn leave(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).inside -= 1;
        self.left.notify_all();
    }

    /// Lets nobody in any more and waits until all are out, or the time is over.
    fn close(&self, patience: Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.closed = true;
        // Whether time ran out does not matter: nothing more can be done.
        let _ = self.left.wait_timeout_while(state, patience, |state| state.inside > 0);
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Instant;

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
    fn pools_share_threads_and_end_apart() {
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
        // What is queued of one holds up the other no more.
        let tags: Vec<i32> = (0..10).map(|_| other.recv_timeout(LONG).unwrap().0).collect();
        assert_eq!(tags, (0..10).collect::<Vec<_>>());
        assert!(sleeper.compiled.load(Ordering::Relaxed) < 15);
    }

    #[test]
    fn shares_follow_those_that_are_there() {
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
