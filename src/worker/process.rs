//! The parent's side: starting a worker, asking it with a deadline, replacing it when it ends.

use std::ffi::OsString;
use std::io::{BufWriter, Read};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::protocol::{Request, Response, VERSION, read_frame, write_frame};
use super::spawner::spawn;
use super::{Announced, Baselines, Conditions, Executor, Loaded, Starter, Work, WorkerError};
use crate::model::{Device, Micros, Problem};

/// How long a worker may take to open its device: a cold driver needs seconds.
const OPEN_SECONDS: f64 = 60.0;

/// How often it is looked whether a worker has ended.
const POLL: Duration = Duration::from_millis(10);

/// How much of a worker's last words is kept.
const LAST_WORDS: usize = 2048;

/// How a worker is started.
#[derive(Debug, Clone)]
pub struct WorkerCommand {
    /// A program that calls [`serve`](super::serve()) when given `arguments`.
    pub program: PathBuf,
    /// What it is given.
    pub arguments: Vec<OsString>,
    /// The CUDA device, as the driver counts.
    pub ordinal: usize,
    /// Where cuBLAS may be: absolute paths, best first.
    pub libraries: Vec<PathBuf>,
}

/// A worker process and the device that it owns.
#[derive(Debug)]
pub struct Worker {
    command: WorkerCommand,
    process: Process,
    device: Device,
    devices: usize,
    deadline_seconds: f64,
}

#[derive(Debug)]
struct Process {
    child: Child,
    /// How it ended, once it was waited for.
    ended: Option<ExitStatus>,
    /// None once it was told to end.
    requests: Option<BufWriter<ChildStdin>>,
    responses: Receiver<std::io::Result<Frame>>,
    last_words: Arc<Mutex<Vec<u8>>>,
}

/// An answer and the raw bytes that came with it; `None` once the pipe is closed.
type Frame = Option<(Response, Vec<u8>)>;

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

impl Worker {
    /// Starts a worker and opens its device.
    ///
    /// # Errors
    /// [`WorkerError::Unavailable`] where the program cannot be run or speaks another protocol,
    /// [`WorkerError::Device`] where there is no usable device.
    pub fn start(command: WorkerCommand) -> Result<Self, WorkerError> {
        let (process, device, devices) = Process::start(&command)?;
        Ok(Self { command, process, device, devices, deadline_seconds: OPEN_SECONDS })
    }

    /// How many devices the driver shows.
    pub fn devices(&self) -> usize {
        self.devices
    }

    fn ask(&mut self, request: &Request) -> Result<Response, WorkerError> {
        self.ask_with(request, &[]).map(|(response, _)| response)
    }

    fn ask_with(
        &mut self,
        request: &Request,
        body: &[u8],
    ) -> Result<(Response, Vec<u8>), WorkerError> {
        self.process.ask(request, body, self.deadline_seconds)
    }

    fn done(&mut self, request: &Request) -> Result<(), WorkerError> {
        match self.ask(request)? {
            Response::Done => Ok(()),
            other => Err(out_of_turn(&other)),
        }
    }

    fn number(&mut self, request: &Request) -> Result<u64, WorkerError> {
        match self.ask(request)? {
            Response::Number(number) => Ok(number),
            other => Err(out_of_turn(&other)),
        }
    }
}

fn out_of_turn(response: &Response) -> WorkerError {
    WorkerError::Unavailable { why: format!("it answered out of turn: {response:?}") }
}

impl Process {
    fn start(command: &WorkerCommand) -> Result<(Self, Device, usize), WorkerError> {
        let unavailable = |why: String| WorkerError::Unavailable { why };
        let mut program = Command::new(&command.program);
        program
            .args(&command.arguments)
            // Both would let cuBLAS round operands of a strict f32 product.
            .env_remove("NVIDIA_TF32_OVERRIDE")
            .env_remove("CUBLAS_EMULATE_SINGLE_PRECISION")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Its own group: what it may start ends with it, and a Ctrl-C is the parent's alone.
            .process_group(0);
        let mut child = spawn(program)
            .map_err(|error| unavailable(format!("`{}`: {error}", command.program.display())))?;
        let (Some(stdin), Some(mut stdout), Some(mut stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(unavailable("it has no pipes".to_owned()));
        };
        let (sender, responses) = channel();
        // Reading in a thread is what gives an answer a deadline; it ends with the pipe.
        std::thread::spawn(move || {
            loop {
                let frame = read_frame(&mut stdout);
                let last = !matches!(frame, Ok(Some(_)));
                if sender.send(frame).is_err() || last {
                    return;
                }
            }
        });
        let last_words = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&last_words);
        std::thread::spawn(move || {
            let mut chunk = [0; 512];
            while let Ok(read @ 1..) = stderr.read(&mut chunk) {
                let Ok(mut words) = kept.lock() else { return };
                words.extend_from_slice(&chunk[..read]);
                let excess = words.len().saturating_sub(LAST_WORDS);
                words.drain(..excess);
            }
        });
        let mut process = Self {
            child,
            ended: None,
            requests: Some(BufWriter::new(stdin)),
            responses,
            last_words,
        };
        let open = Request::Open {
            version: VERSION,
            ordinal: command.ordinal,
            libraries: command.libraries.clone(),
        };
        match process.ask(&open, &[], OPEN_SECONDS)?.0 {
            Response::Opened { version: VERSION, device, devices } => {
                Ok((process, *device, devices))
            }
            Response::Opened { version, .. } => {
                Err(unavailable(format!("it speaks protocol {version}, this program {VERSION}")))
            }
            other => Err(out_of_turn(&other)),
        }
    }

    fn ask(
        &mut self,
        request: &Request,
        body: &[u8],
        seconds: f64,
    ) -> Result<(Response, Vec<u8>), WorkerError> {
        let Some(requests) = &mut self.requests else {
            return Err(WorkerError::Unavailable { why: "it was told to end".to_owned() });
        };
        if let Err(error) = write_frame(requests, request, body) {
            return Err(self.died(&error.to_string()));
        }
        let frame = match self.responses.recv_timeout(Duration::from_secs_f64(seconds)) {
            Ok(Ok(Some(frame))) => frame,
            Ok(Ok(None)) | Err(RecvTimeoutError::Disconnected) => {
                return Err(self.died("its pipe closed"));
            }
            Ok(Err(error)) => return Err(self.died(&error.to_string())),
            Err(RecvTimeoutError::Timeout) => {
                self.end();
                return Err(WorkerError::TimedOut { seconds });
            }
        };
        match frame.0 {
            Response::Failed { message, sticky } => Err(WorkerError::Device { message, sticky }),
            Response::OutOfMemory { message } => Err(WorkerError::OutOfMemory { message }),
            Response::NoDevice { message } => Err(WorkerError::NoDevice { message }),
            response => Ok((response, frame.1)),
        }
    }

    /// Closes its pipe, upon which it ends, and waits for that.
    fn finish(&mut self, seconds: f64) -> Result<Option<i32>, WorkerError> {
        self.requests = None;
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    self.ended = Some(status);
                    return Ok(status.code());
                }
                Ok(None) if Instant::now() < until => std::thread::sleep(POLL),
                Ok(None) => {
                    self.end();
                    return Err(WorkerError::TimedOut { seconds });
                }
                Err(error) => return Err(self.died(&error.to_string())),
            }
        }
    }

    /// Ends the process and all that it started. Only once: until it is waited for, its number is
    /// nobody else's.
    fn end(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            // Fails only where nothing is left to be ended.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            self.ended = self.child.wait().ok();
        }
        self.ended
    }

    fn died(&mut self, symptom: &str) -> WorkerError {
        let mut how = match self.end() {
            Some(status) => format!("{symptom}; {status}"),
            None => symptom.to_owned(),
        };
        if let Ok(words) = self.last_words.lock()
            && let Some(line) = String::from_utf8_lossy(&words).trim().lines().last()
        {
            how = format!("{how}; it said: {line}");
        }
        WorkerError::Died { how }
    }
}

impl Executor for Worker {
    fn device(&self) -> &Device {
        &self.device
    }

    fn under(&self, wrapper: &[OsString]) -> Result<Box<dyn Executor>, WorkerError> {
        let mut command = self.command.clone();
        if let Some((program, arguments)) = wrapper.split_first() {
            let own = std::mem::replace(&mut command.program, program.into());
            let own = std::iter::once(own.into_os_string()).chain(command.arguments);
            command.arguments = arguments.iter().cloned().chain(own).collect();
        }
        Ok(Box::new(Self::start(command)?))
    }

    fn another(&self) -> Starter {
        let command = self.command.clone();
        Box::new(move || Ok(Box::new(Self::start(command)?)))
    }

    fn finish(mut self: Box<Self>) -> Result<Option<i32>, WorkerError> {
        self.process.finish(self.deadline_seconds)
    }

    fn free_memory(&mut self) -> Result<u64, WorkerError> {
        self.number(&Request::FreeMemory)
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, WorkerError> {
        self.number(&Request::Allocate { bytes })
    }

    fn free(&mut self, address: u64) -> Result<(), WorkerError> {
        self.done(&Request::Free { address })
    }

    fn fill(&mut self, address: u64, word: u32, words: u64) -> Result<(), WorkerError> {
        self.done(&Request::Fill { address, word, words })
    }

    fn read(&mut self, address: u64, bytes: u64) -> Result<Vec<u8>, WorkerError> {
        match self.ask_with(&Request::Read { address, bytes }, &[])? {
            (Response::Bytes, read) if read.len() as u64 == bytes => Ok(read),
            (other, _) => Err(out_of_turn(&other)),
        }
    }

    fn load(&mut self, image: &[u8], kernels: &[Announced]) -> Result<Loaded, WorkerError> {
        match self.ask_with(&Request::Load { kernels: kernels.to_vec() }, image)? {
            (Response::Loaded(loaded), _) => Ok(loaded),
            (other, _) => Err(out_of_turn(&other)),
        }
    }

    fn unload(&mut self, module: u32) -> Result<(), WorkerError> {
        self.done(&Request::Unload { module })
    }

    fn run(&mut self, work: &[Work]) -> Result<(), WorkerError> {
        self.done(&Request::Run { work: work.to_vec() })
    }

    fn record(&mut self, work: &[Work]) -> Result<u32, WorkerError> {
        self.number(&Request::Record { work: work.to_vec() }).map(|id| id as u32)
    }

    fn replay(&mut self, sequence: u32, flush: Option<(u64, u64)>) -> Result<Micros, WorkerError> {
        match self.ask(&Request::Replay { sequence, flush })? {
            Response::Elapsed { us } => Ok(Micros(us)),
            other => Err(out_of_turn(&other)),
        }
    }

    fn forget(&mut self, sequence: u32) -> Result<(), WorkerError> {
        self.done(&Request::Forget { sequence })
    }

    fn baselines(
        &mut self,
        problem: &Problem,
        heuristics: usize,
    ) -> Result<Baselines, WorkerError> {
        match self.ask(&Request::Baselines { problem: *problem, heuristics })? {
            Response::Baselines(baselines) => Ok(baselines),
            other => Err(out_of_turn(&other)),
        }
    }

    fn conditions(&mut self) -> Result<Conditions, WorkerError> {
        match self.ask(&Request::Conditions)? {
            Response::Conditions(conditions) => Ok(conditions),
            other => Err(out_of_turn(&other)),
        }
    }

    fn set_deadline(&mut self, seconds: f64) {
        self.deadline_seconds = seconds;
    }

    fn restart(&mut self) -> Result<(), WorkerError> {
        (self.process, self.device, self.devices) = Process::start(&self.command)?;
        Ok(())
    }
}
