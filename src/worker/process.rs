//! The parent's side of a worker: starts the process, sends requests with a deadline, replaces it
//! after it ended.

use std::ffi::OsString;
use std::io::{BufWriter, Read};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::protocol::{VERSION, WorkerRequest, WorkerResponse, read_frame, write_frame};
use super::spawn::spawn;
use super::{
    Baselines, DeviceConditions, Executor, KernelSetup, LoadedModule, Starter, WorkItem,
    WorkerError,
};
use crate::model::{Device, Micros, Problem};

/// Time limit for opening the device: a cold driver needs seconds.
const OPEN_SECONDS: f64 = 60.0;

/// Polling interval while a worker shuts down.
const POLL: Duration = Duration::from_millis(10);

/// Bytes kept of a worker's error output.
const ERROR_OUTPUT_BYTES: usize = 2048;

/// Command that starts a worker.
#[derive(Debug, Clone)]
pub struct WorkerCommand {
    /// A program that calls [`serve`](super::serve()) when given `arguments`.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Ordinal of the CUDA device.
    pub ordinal: usize,
    /// Candidates for cuBLAS: absolute paths, preferred first.
    pub libraries: Vec<PathBuf>,
}

/// A worker process and its device.
#[derive(Debug)]
pub struct GpuWorker {
    command: WorkerCommand,
    process: WorkerProcess,
    device: Device,
    devices: usize,
    deadline_seconds: f64,
}

#[derive(Debug)]
struct WorkerProcess {
    child: Child,
    /// Exit status, once the process was waited for.
    ended: Option<ExitStatus>,
    /// `None` after shutdown began.
    requests: Option<BufWriter<ChildStdin>>,
    responses: Receiver<std::io::Result<ResponseFrame>>,
    error_output: Arc<Mutex<Vec<u8>>>,
}

/// A response with its raw bytes; `None` once the pipe is closed.
type ResponseFrame = Option<(WorkerResponse, Vec<u8>)>;

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.end();
    }
}

impl GpuWorker {
    /// Starts a worker and opens its device.
    ///
    /// # Errors
    /// [`WorkerError::Unavailable`] when the program cannot be run or has another protocol version,
    /// [`WorkerError::Device`] when there is no usable device.
    pub fn start(command: WorkerCommand) -> Result<Self, WorkerError> {
        let (process, device, devices) = WorkerProcess::start(&command)?;
        Ok(Self { command, process, device, devices, deadline_seconds: OPEN_SECONDS })
    }

    /// Number of devices that the driver reports.
    pub fn devices(&self) -> usize {
        self.devices
    }

    fn ask(&mut self, request: &WorkerRequest) -> Result<WorkerResponse, WorkerError> {
        self.ask_with(request, &[]).map(|(response, _)| response)
    }

    fn ask_with(
        &mut self,
        request: &WorkerRequest,
        body: &[u8],
    ) -> Result<(WorkerResponse, Vec<u8>), WorkerError> {
        self.process.ask(request, body, self.deadline_seconds)
    }

    fn done(&mut self, request: &WorkerRequest) -> Result<(), WorkerError> {
        match self.ask(request)? {
            WorkerResponse::Done => Ok(()),
            other => Err(unexpected_response(&other)),
        }
    }

    fn number(&mut self, request: &WorkerRequest) -> Result<u64, WorkerError> {
        match self.ask(request)? {
            WorkerResponse::Number(number) => Ok(number),
            other => Err(unexpected_response(&other)),
        }
    }
}

fn unexpected_response(response: &WorkerResponse) -> WorkerError {
    WorkerError::Unavailable { why: format!("unexpected response: {response:?}") }
}

impl WorkerProcess {
    fn start(command: &WorkerCommand) -> Result<(Self, Device, usize), WorkerError> {
        let unavailable = |why: String| WorkerError::Unavailable { why };
        let mut program = Command::new(&command.program);
        program
            .args(&command.arguments)
            // Both allow cuBLAS to round operands of a strict f32 product.
            .env_remove("NVIDIA_TF32_OVERRIDE")
            .env_remove("CUBLAS_EMULATE_SINGLE_PRECISION")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Its own process group, which is killed as a whole; Ctrl-C then reaches only the
            // parent.
            .process_group(0);
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
        let mut process = Self {
            child,
            ended: None,
            requests: Some(BufWriter::new(stdin)),
            responses,
            error_output,
        };
        let open = WorkerRequest::Open {
            version: VERSION,
            ordinal: command.ordinal,
            libraries: command.libraries.clone(),
        };
        match process.ask(&open, &[], OPEN_SECONDS)?.0 {
            WorkerResponse::Opened { version: VERSION, device, devices } => {
                Ok((process, *device, devices))
            }
            WorkerResponse::Opened { version, .. } => Err(unavailable(format!(
                "it has protocol version {version}, this program {VERSION}"
            ))),
            other => Err(unexpected_response(&other)),
        }
    }

    fn ask(
        &mut self,
        request: &WorkerRequest,
        body: &[u8],
        seconds: f64,
    ) -> Result<(WorkerResponse, Vec<u8>), WorkerError> {
        let Some(requests) = &mut self.requests else {
            return Err(WorkerError::Unavailable { why: "it was shut down".to_owned() });
        };
        if let Err(error) = write_frame(requests, request, body) {
            return Err(self.exited(&error.to_string()));
        }
        let frame = match self.responses.recv_timeout(Duration::from_secs_f64(seconds)) {
            Ok(Ok(Some(frame))) => frame,
            Ok(Ok(None)) | Err(RecvTimeoutError::Disconnected) => {
                return Err(self.exited("its pipe closed"));
            }
            Ok(Err(error)) => return Err(self.exited(&error.to_string())),
            Err(RecvTimeoutError::Timeout) => {
                self.end();
                return Err(WorkerError::TimedOut { seconds });
            }
        };
        match frame.0 {
            WorkerResponse::Failed { message, sticky } => {
                Err(WorkerError::Device { message, sticky })
            }
            WorkerResponse::OutOfMemory { message } => Err(WorkerError::OutOfMemory { message }),
            WorkerResponse::NoDevice { message } => Err(WorkerError::NoDevice { message }),
            response => Ok((response, frame.1)),
        }
    }

    /// Closes the pipe, which ends the worker, and waits for its exit.
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
                Err(error) => return Err(self.exited(&error.to_string())),
            }
        }
    }

    /// Kills the process group, once: until the process is waited for, its number is not reused.
    fn end(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            // Fails only if no process of the group is left.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            self.ended = self.child.wait().ok();
        }
        self.ended
    }

    fn exited(&mut self, symptom: &str) -> WorkerError {
        let mut how = match self.end() {
            Some(status) => format!("{symptom}; {status}"),
            None => symptom.to_owned(),
        };
        if let Ok(words) = self.error_output.lock()
            && let Some(line) = String::from_utf8_lossy(&words).trim().lines().last()
        {
            how = format!("{how}; stderr: {line}");
        }
        WorkerError::Exited { how }
    }
}

impl Executor for GpuWorker {
    fn device(&self) -> &Device {
        &self.device
    }

    fn start_wrapped(&self, wrapper: &[OsString]) -> Result<Box<dyn Executor>, WorkerError> {
        let mut command = self.command.clone();
        if let Some((program, arguments)) = wrapper.split_first() {
            let own = std::mem::replace(&mut command.program, program.into());
            let own = std::iter::once(own.into_os_string()).chain(command.arguments);
            command.arguments = arguments.iter().cloned().chain(own).collect();
        }
        Ok(Box::new(Self::start(command)?))
    }

    fn starter(&self) -> Starter {
        let command = self.command.clone();
        Box::new(move || Ok(Box::new(Self::start(command)?)))
    }

    fn finish(mut self: Box<Self>) -> Result<Option<i32>, WorkerError> {
        self.process.finish(self.deadline_seconds)
    }

    fn free_memory(&mut self) -> Result<u64, WorkerError> {
        self.number(&WorkerRequest::FreeMemory)
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, WorkerError> {
        self.number(&WorkerRequest::Allocate { bytes })
    }

    fn free(&mut self, address: u64) -> Result<(), WorkerError> {
        self.done(&WorkerRequest::Free { address })
    }

    fn fill(&mut self, address: u64, word: u32, words: u64) -> Result<(), WorkerError> {
        self.done(&WorkerRequest::Fill { address, word, words })
    }

    fn read(&mut self, address: u64, bytes: u64) -> Result<Vec<u8>, WorkerError> {
        match self.ask_with(&WorkerRequest::Read { address, bytes }, &[])? {
            (WorkerResponse::Bytes, read) if read.len() as u64 == bytes => Ok(read),
            (other, _) => Err(unexpected_response(&other)),
        }
    }

    fn load(&mut self, image: &[u8], kernels: &[KernelSetup]) -> Result<LoadedModule, WorkerError> {
        match self.ask_with(&WorkerRequest::Load { kernels: kernels.to_vec() }, image)? {
            (WorkerResponse::Loaded(loaded), _) => Ok(loaded),
            (other, _) => Err(unexpected_response(&other)),
        }
    }

    fn unload(&mut self, module: u32) -> Result<(), WorkerError> {
        self.done(&WorkerRequest::Unload { module })
    }

    fn run(&mut self, work: &[WorkItem]) -> Result<(), WorkerError> {
        self.done(&WorkerRequest::Run { work: work.to_vec() })
    }

    fn record(&mut self, work: &[WorkItem]) -> Result<u32, WorkerError> {
        self.number(&WorkerRequest::Record { work: work.to_vec() }).map(|id| id as u32)
    }

    fn replay(&mut self, sequence: u32, flush: Option<(u64, u64)>) -> Result<Micros, WorkerError> {
        match self.ask(&WorkerRequest::Replay { sequence, flush })? {
            WorkerResponse::Elapsed { us } => Ok(Micros(us)),
            other => Err(unexpected_response(&other)),
        }
    }

    fn forget(&mut self, sequence: u32) -> Result<(), WorkerError> {
        self.done(&WorkerRequest::Forget { sequence })
    }

    fn baselines(
        &mut self,
        problem: &Problem,
        heuristics: usize,
    ) -> Result<Baselines, WorkerError> {
        match self.ask(&WorkerRequest::Baselines { problem: *problem, heuristics })? {
            WorkerResponse::Baselines(baselines) => Ok(baselines),
            other => Err(unexpected_response(&other)),
        }
    }

    fn conditions(&mut self) -> Result<DeviceConditions, WorkerError> {
        match self.ask(&WorkerRequest::Conditions)? {
            WorkerResponse::Conditions(conditions) => Ok(conditions),
            other => Err(unexpected_response(&other)),
        }
    }

    fn set_deadline(&mut self, seconds: f64) {
        self.deadline_seconds = seconds;
    }

    fn restart(&mut self) -> Result<(), WorkerError> {
        (self.process, self.device, self.devices) = WorkerProcess::start(&self.command)?;
        Ok(())
    }
}
