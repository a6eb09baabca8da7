//! The parent's side of a child process: starts it, sends requests with a deadline, and kills it.

use std::ffi::OsString;
use std::io::{self, BufWriter, Read};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::frame::{read_frame, write_frame};
use super::serve::Greeting;
use super::spawn::spawn;

/// Polling interval while a child shuts down, and for a request to give up.
const POLL: Duration = Duration::from_millis(10);

/// Most of one interval that counts towards a deadline. A longer one means that this program was
/// stopped itself, or the machine suspended, which is not the child's fault.
const LONGEST_INTERVAL: Duration = Duration::from_millis(500);

/// Bytes kept of a child's error output.
const ERROR_OUTPUT_BYTES: usize = 2048;

/// Variables that change the arithmetic of cuBLAS: the first turns tf32 off, the others allow
/// emulation of binary32 (<https://docs.nvidia.com/cuda/cublas/>). Children start without them.
pub const LIBRARY_VARIABLES: [&str; 4] = [
    "NVIDIA_TF32_OVERRIDE",
    "CUBLAS_EMULATE_SINGLE_PRECISION",
    "CUBLAS_EMULATION_STRATEGY",
    "CUBLAS_EMULATION_SPECIAL_VALUES_SUPPORT_MASK",
];

/// Command that starts a child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// Reason that a child gave no answer. The child has ended.
#[derive(Debug, Clone, PartialEq, Error)]
pub(crate) enum ChildError {
    /// It cannot be started.
    #[error("{why}")]
    Unavailable { why: String },
    /// It ended.
    #[error("it ended unexpectedly ({how})")]
    Exited { how: String },
    /// The deadline passed; it was killed.
    #[error("it did not answer within {seconds:.1} s")]
    TimedOut { seconds: f64 },
    /// The answer is not wanted any more; it was killed.
    #[error("it was cancelled")]
    Cancelled,
}

/// A response with its raw bytes; `None` once the pipe is closed.
type ResponseFrame<R> = Option<(R, Vec<u8>)>;

/// A child process that answers requests with messages of type `R`. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct ChildProcess<R> {
    child: Child,
    /// Exit status, once the process was waited for.
    ended: Option<ExitStatus>,
    /// `None` after shutdown began.
    requests: Option<BufWriter<ChildStdin>>,
    responses: Receiver<io::Result<ResponseFrame<R>>>,
    error_output: Arc<Mutex<Vec<u8>>>,
}

impl<R: DeserializeOwned + Send + 'static> ChildProcess<R> {
    /// Starts a child.
    pub(crate) fn start(command: &ChildCommand) -> Result<Self, ChildError> {
        let unavailable = |why: String| ChildError::Unavailable { why };
        let mut program = Command::new(&command.program);
        program
            .args(&command.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Its own process group, which is killed as a whole; Ctrl-C then reaches only the
            // parent.
            .process_group(0);
        for name in LIBRARY_VARIABLES {
            program.env_remove(name);
        }
        let mut child = spawn(program)
            .map_err(|error| unavailable(format!("`{}`: {error}", command.program.display())))?;
        let (Some(stdin), Some(mut stdout), Some(mut stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(unavailable("it has no pipes".to_owned()));
        };
        let (sender, responses) = channel();
        // A reader thread allows a deadline for responses; it ends with the pipe.
        std::thread::spawn(move || {
            loop {
                let frame = read_frame(&mut stdout);
                let last = !matches!(frame, Ok(Some(_)));
                if sender.send(frame).is_err() || last {
                    return;
                }
            }
        });
        let error_output = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&error_output);
        std::thread::spawn(move || {
            let mut chunk = [0; 512];
            while let Ok(read @ 1..) = stderr.read(&mut chunk) {
                let Ok(mut words) = kept.lock() else { return };
                words.extend_from_slice(&chunk[..read]);
                let excess = words.len().saturating_sub(ERROR_OUTPUT_BYTES);
                words.drain(..excess);
            }
        });
        let requests = Some(BufWriter::new(stdin));
        let mut process = Self { child, ended: None, requests, responses, error_output };
        process.send(&Greeting::new(), &[])?;
        Ok(process)
    }

    /// Sends a message that has no answer.
    pub(crate) fn send(&mut self, message: &impl Serialize, body: &[u8]) -> Result<(), ChildError> {
        let Some(requests) = &mut self.requests else {
            return Err(ChildError::Unavailable { why: "it was shut down".to_owned() });
        };
        let sent = write_frame(requests, message, body);
        sent.map_err(|error| self.exited(&error.to_string()))
    }

    /// Sends a request and waits for its answer, until `limit` passed or `cancelled` says so. Time
    /// in which this program was stopped does not count.
    pub(crate) fn ask(
        &mut self,
        request: &impl Serialize,
        body: &[u8],
        limit: Duration,
        cancelled: &mut dyn FnMut() -> bool,
    ) -> Result<(R, Vec<u8>), ChildError> {
        self.send(request, body)?;
        let mut waited = Duration::ZERO;
        loop {
            let began = Instant::now();
            match self.responses.recv_timeout(POLL.min(limit.saturating_sub(waited))) {
                Ok(Ok(Some(frame))) => return Ok(frame),
                Ok(Ok(None)) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.exited("its pipe closed"));
                }
                Ok(Err(error)) => return Err(self.exited(&error.to_string())),
                Err(RecvTimeoutError::Timeout) => {}
            }
            waited += began.elapsed().min(LONGEST_INTERVAL);
            if cancelled() {
                self.end();
                return Err(ChildError::Cancelled);
            }
            if waited >= limit {
                self.end();
                return Err(ChildError::TimedOut { seconds: limit.as_secs_f64() });
            }
        }
    }

    /// Closes the pipe, which ends the child, and waits for its exit. Gives its exit code, `None`
    /// after a signal.
    pub(crate) fn finish(&mut self, limit: Duration) -> Result<Option<i32>, ChildError> {
        self.requests = None;
        let until = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    self.ended = Some(status);
                    return Ok(status.code());
                }
                Ok(None) if Instant::now() < until => std::thread::sleep(POLL),
                Ok(None) => {
                    self.end();
                    return Err(ChildError::TimedOut { seconds: limit.as_secs_f64() });
                }
                Err(error) => return Err(self.exited(&error.to_string())),
            }
        }
    }

    /// Kills the child, and describes how it ended.
    fn exited(&mut self, symptom: &str) -> ChildError {
        let mut how = match self.end() {
            Some(status) => format!("{symptom}; {status}"),
            None => symptom.to_owned(),
        };
        if let Ok(words) = self.error_output.lock()
            && let Some(line) = last_message(&String::from_utf8_lossy(&words))
        {
            how = format!("{how}; stderr: {line}");
        }
        ChildError::Exited { how }
    }
}

/// The last line of error output that is a message, and not a hint on backtraces.
fn last_message(words: &str) -> Option<&str> {
    let lines = words.trim().lines().rev();
    lines.map(str::trim).find(|line| {
        let is_frame = line.starts_with("at ") || line.starts_with(|c: char| c.is_ascii_digit());
        !line.is_empty()
            && !line.starts_with("note: ")
            && !line.ends_with("backtrace:")
            && !is_frame
    })
}

impl<R> ChildProcess<R> {
    /// Kills the process group, once: until the process is waited for, its number is not reused.
    fn end(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            // Fails only if no process of the group is left.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            self.ended = self.child.wait().ok();
        }
        self.ended
    }
}

impl<R> Drop for ChildProcess<R> {
    fn drop(&mut self) {
        self.end();
    }
}
