//! The parent's side of a worker: starts the process, sends requests with a deadline, replaces it
//! after it ended.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::protocol::{VERSION, WorkerRequest, WorkerResponse};
use super::{
    Baselines, DeviceConditions, Executor, KernelSetup, LoadedModule, Starter, WorkItem,
    WorkerError,
};
use crate::model::{Device, Micros, Problem};
use crate::process::{ChildCommand, ChildError, ChildProcess};

/// Time limit for opening the device: a cold driver needs seconds.
const OPEN_SECONDS: f64 = 60.0;

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
    /// Those of [`LIBRARY_VARIABLES`](crate::process::LIBRARY_VARIABLES) that are set here; the worker starts without
    /// them.
    pub cleared_variables: Vec<String>,
}

/// A worker process and its device.
#[derive(Debug)]
pub struct GpuWorker {
    command: WorkerCommand,
    process: ChildProcess<WorkerResponse>,
    device: Device,
    devices: usize,
    deadline_seconds: f64,
}

impl GpuWorker {
    /// Starts a worker and opens its device.
    ///
    /// # Errors
    /// [`WorkerError::Unavailable`] when the program cannot be run or has another protocol version,
    /// [`WorkerError::Device`] when there is no usable device.
    pub fn start(command: WorkerCommand) -> Result<Self, WorkerError> {
        let (process, device, devices) = open(&command)?;
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
        ask(&mut self.process, request, body, self.deadline_seconds)
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

/// Starts a worker and opens its device. Gives the device, and the number of devices.
fn open(
    command: &WorkerCommand,
) -> Result<(ChildProcess<WorkerResponse>, Device, usize), WorkerError> {
    let program =
        ChildCommand { program: command.program.clone(), arguments: command.arguments.clone() };
    let mut process = ChildProcess::start(&program)?;
    let request = WorkerRequest::Open {
        version: VERSION,
        ordinal: command.ordinal,
        libraries: command.libraries.clone(),
    };
    match ask(&mut process, &request, &[], OPEN_SECONDS)?.0 {
        WorkerResponse::Opened { version: VERSION, device, devices } => {
            Ok((process, *device, devices))
        }
        WorkerResponse::Opened { version, .. } => Err(WorkerError::Unavailable {
            why: format!("it has protocol version {version}, this program {VERSION}"),
        }),
        other => Err(unexpected_response(&other)),
    }
}

fn ask(
    process: &mut ChildProcess<WorkerResponse>,
    request: &WorkerRequest,
    body: &[u8],
    seconds: f64,
) -> Result<(WorkerResponse, Vec<u8>), WorkerError> {
    let limit = Duration::from_secs_f64(seconds);
    let (response, body) = process.ask(request, body, limit, &mut || false)?;
    match response {
        WorkerResponse::Failed { message, sticky } => Err(WorkerError::Device { message, sticky }),
        WorkerResponse::OutOfMemory { message } => Err(WorkerError::OutOfMemory { message }),
        WorkerResponse::NoDevice { message } => Err(WorkerError::NoDevice { message }),
        response => Ok((response, body)),
    }
}

impl From<ChildError> for WorkerError {
    fn from(error: ChildError) -> Self {
        match error {
            ChildError::Unavailable { why } => Self::Unavailable { why },
            ChildError::Exited { how } => Self::Exited { how },
            ChildError::TimedOut { seconds } => Self::TimedOut { seconds },
            ChildError::Cancelled => Self::Exited { how: error.to_string() },
        }
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
        Ok(self.process.finish(Duration::from_secs_f64(self.deadline_seconds))?)
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
            WorkerResponse::Baselines(baselines) => {
                let cleared = self.command.cleared_variables.clone();
                Ok(Baselines { cleared, ..baselines })
            }
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
        (self.process, self.device, self.devices) = open(&self.command)?;
        Ok(())
    }
}
