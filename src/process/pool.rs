//! A pool of children that do the same work. Each caller has one to itself while it waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::child::{ChildCommand, ChildError, ChildProcess};

/// How long a cancelled request may still be answered. Most compiles end within this time, and
/// keeping the child saves the start of another.
const GRACE: Duration = Duration::from_millis(300);

/// Children that were started and wait for work. As many are kept as ever worked at the same time.
#[derive(Debug)]
pub(crate) struct ChildPool<R> {
    command: ChildCommand,
    /// First message to every child, without an answer.
    opening: serde_json::Value,
    idle: Mutex<Vec<ChildProcess<R>>>,
    /// Ends all requests once set.
    interrupted: Arc<AtomicBool>,
}

impl<R: DeserializeOwned + Send + 'static> ChildPool<R> {
    /// Creates a pool without children.
    pub(crate) fn new(
        command: ChildCommand,
        opening: serde_json::Value,
        interrupted: Arc<AtomicBool>,
    ) -> Self {
        Self { command, opening, idle: Mutex::default(), interrupted }
    }

    /// Sends a request to an idle or a new child and waits for the answer, at most for `limit`, and
    /// not long after `cancelled` or the flag of the pool is set.
    pub(crate) fn ask(
        &self,
        request: &impl Serialize,
        body: &[u8],
        limit: Duration,
        cancelled: &AtomicBool,
    ) -> Result<(R, Vec<u8>), ChildError> {
        let mut child = self.child()?;
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        let mut since = None;
        let mut is_over = || {
            (is_set(&self.interrupted) || is_set(cancelled))
                && since.get_or_insert_with(Instant::now).elapsed() >= GRACE
        };
        let answer = child.ask(request, body, limit, &mut is_over)?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(child);
        Ok(answer)
    }

    fn child(&self) -> Result<ChildProcess<R>, ChildError> {
        if let Some(child) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(child);
        }
        let mut child = ChildProcess::start(&self.command)?;
        child.send(&self.opening, &[])?;
        Ok(child)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::super::frame::write_frame;
    use super::*;

    /// A pool of shell scripts.
    fn pool(script: &str, interrupted: Arc<AtomicBool>) -> ChildPool<String> {
        let arguments = ["-c", script].map(Into::into).to_vec();
        let command = ChildCommand { program: "/bin/sh".into(), arguments };
        ChildPool::new(command, serde_json::Value::Null, interrupted)
    }

    fn ask(pool: &ChildPool<String>, limit: Duration) -> Result<String, ChildError> {
        pool.ask(&"?", &[], limit, &AtomicBool::new(false)).map(|(answer, _)| answer)
    }

    #[test]
    fn a_child_answers_more_than_once() {
        let mut frame = Vec::new();
        write_frame(&mut frame, &"yes", b"").unwrap();
        let octal: String = frame.iter().map(|byte| format!("\\{byte:03o}")).collect();
        let script = format!("printf '{octal}'; sleep 0.2; printf '{octal}'; sleep 60");
        let pool = pool(&script, Arc::default());
        for _ in 0..2 {
            assert_eq!(ask(&pool, Duration::from_secs(20)).unwrap(), "yes");
        }
        assert_eq!(pool.idle.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_child_that_hangs_is_killed() {
        let pool = pool("sleep 60 & wait", Arc::default());
        let error = ask(&pool, Duration::from_millis(100)).unwrap_err();
        assert_eq!(error, ChildError::TimedOut { seconds: 0.1 });
        assert!(pool.idle.lock().unwrap().is_empty());
    }

    #[test]
    fn a_child_that_ends_is_an_error_with_its_status() {
        let pool = pool("head -c 1 >/dev/null; exit 3", Arc::default());
        let error = ask(&pool, Duration::from_secs(20)).unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
    }

    #[test]
    fn an_interruption_ends_all_requests() {
        let interrupted = Arc::new(AtomicBool::new(false));
        let pool = pool("sleep 60", Arc::clone(&interrupted));
        thread::scope(|scope| {
            let asked = [1, 2].map(|_| scope.spawn(|| ask(&pool, Duration::from_secs(60))));
            thread::sleep(Duration::from_millis(100));
            let began = Instant::now();
            interrupted.store(true, Ordering::Relaxed);
            for asked in asked {
                assert_eq!(asked.join().unwrap().unwrap_err(), ChildError::Cancelled);
            }
            assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        });
    }
}
