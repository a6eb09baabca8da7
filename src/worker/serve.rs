//! The worker's side: a loop that does what it is asked on the GPU that it owns, until the pipe
//! closes. Runs in a process of its own; decides nothing.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::PathBuf;

use thiserror::Error;

use super::protocol::{Request, Response, VERSION, read_frame, write_frame};
use super::spare::Spare;
use super::{Announced, Baselines, Conditions, KernelFacts, Launch, LaunchArgument, Loaded, Work};
use crate::gpu::{
    Cublas, CublasLtPlan, CudaDevice, CudaEvent, CudaGraph, DeviceBuffer, EncodedMap, GpuError,
    GpuKernel, GpuModule, KernelArgument, Sensors, device_count,
};
use crate::model::{PlacedMap, Problem};

/// Why a worker ended before its pipe was closed.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The pipe to the parent broke or carried garbage.
    #[error("the pipe to the parent failed: {0}")]
    Pipe(#[from] io::Error),
    /// The first message was not the one that opens a device.
    #[error("the parent's first message does not open a device")]
    Unopened,
}

/// Serves requests from standard input until it closes. This is the whole life of a worker.
///
/// # Errors
/// See [`ServeError`]; device errors are answers, not errors.
pub fn serve() -> Result<(), ServeError> {
    // A worker stuck in a kernel would not notice that its pipe closed.
    let signal = rustix::process::Signal::KILL;
    rustix::process::set_parent_process_death_signal(Some(signal)).map_err(io::Error::from)?;
    // Answers go to a copy of standard output, and what kernels `printf` goes to standard error.
    let answers = rustix::io::dup(rustix::stdio::stdout()).map_err(io::Error::from)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr()).map_err(io::Error::from)?;
    converse(&mut BufReader::new(io::stdin()), &mut BufWriter::new(std::fs::File::from(answers)))
}

fn converse(input: &mut impl Read, out: &mut impl Write) -> Result<(), ServeError> {
    let Some((Request::Open { version: _, ordinal, libraries }, _)) = read_frame(input)? else {
        return Err(ServeError::Unopened);
    };
    let mut session = match Session::open(ordinal, libraries) {
        Ok(session) => session,
        Err(error) => return Ok(write_frame(out, &failed(&error), &[])?),
    };
    let device = Box::new(session.gpu.device().clone());
    // Cannot fail where a device could be opened.
    let devices = device_count().unwrap_or(1);
    write_frame(out, &Response::Opened { version: VERSION, device, devices }, &[])?;
    while let Some((request, body)) = read_frame::<Request>(input)? {
        let (response, bytes) = match session.answer(request, &body) {
            Ok(answer) => answer,
            Err(error) => (failed(&error), Vec::new()),
        };
        write_frame(out, &response, &bytes)?;
    }
    Ok(())
}

fn failed(error: &GpuError) -> Response {
    match error {
        GpuError::OutOfMemory { .. } => Response::OutOfMemory { message: error.to_string() },
        _ if error.is_absence() => Response::NoDevice { message: error.to_string() },
        _ => Response::Failed { message: error.to_string(), sticky: error.is_sticky() },
    }
}

/// The share of a device's memory that each of its workers keeps at most for when it is wanted again, one in so
/// many: a dozen workers keep a tenth.
const SPARE: u64 = 128;

/// What a worker holds. Fields are dropped in this order: users of memory before memory.
struct Session {
    sequences: HashMap<u32, CudaGraph>,
    modules: HashMap<u32, (GpuModule, HashMap<String, GpuKernel>)>,
    plans: Vec<CublasLtPlan>,
    blas: Option<Cublas>,
    buffers: HashMap<u64, DeviceBuffer>,
    spare: Spare<DeviceBuffer>,
    before: CudaEvent,
    after: CudaEvent,
    sensors: Option<Sensors>,
    libraries: Vec<PathBuf>,
    problem: Option<Problem>,
    /// Tensor maps, each encoded once: operand sets come back launch after launch.
    maps: RefCell<HashMap<PlacedMap, EncodedMap>>,
    next_id: u32,
    gpu: CudaDevice,
}

impl Session {
    fn open(ordinal: usize, libraries: Vec<PathBuf>) -> Result<Self, GpuError> {
        let gpu = CudaDevice::open(ordinal)?;
        Ok(Self {
            sequences: HashMap::new(),
            modules: HashMap::new(),
            plans: Vec::new(),
            blas: None,
            buffers: HashMap::new(),
            spare: Spare::new(gpu.device().memory_bytes / SPARE),
            before: gpu.event()?,
            after: gpu.event()?,
            sensors: Sensors::open(gpu.pci_bus_id()).ok(),
            libraries,
            problem: None,
            maps: RefCell::default(),
            next_id: 0,
            gpu,
        })
    }

    fn answer(&mut self, request: Request, body: &[u8]) -> Result<(Response, Vec<u8>), GpuError> {
        let response = match request {
            Request::Open { .. } => {
                Response::Failed { message: "the device is open already".into(), sticky: false }
            }
            Request::FreeMemory => {
                self.spare.clear();
                Response::Number(self.gpu.memory()?.free)
            }
            Request::Allocate { bytes } => {
                let buffer = self.allocate(bytes.max(1))?;
                let address = buffer.address();
                self.buffers.insert(address, buffer);
                Response::Number(address)
            }
            Request::Free { address } => {
                if let Some(buffer) = self.buffers.remove(&address) {
                    self.spare.keep(buffer.bytes(), buffer);
                }
                Response::Done
            }
            Request::Fill { address, word, words } => {
                self.gpu.fill_words(address, word, words)?;
                self.gpu.synchronize()?;
                Response::Done
            }
            Request::Read { address, bytes } => {
                let mut read = vec![0; bytes as usize];
                self.gpu.copy_to_host(address, &mut read)?;
                return Ok((Response::Bytes, read));
            }
            Request::Load { kernels } => Response::Loaded(self.load(body, &kernels)?),
            Request::Unload { module } => {
                self.modules.remove(&module);
                self.maps.get_mut().clear();
                Response::Done
            }
            Request::Run { work } => {
                for work in &work {
                    self.issue(work)?;
                }
                self.gpu.synchronize()?;
                Response::Done
            }
            Request::Record { work } => {
                let graph =
                    self.gpu.capture(|_| work.iter().try_for_each(|work| self.issue(work)))?;
                let id = self.new_id();
                self.sequences.insert(id, graph);
                Response::Number(id.into())
            }
            Request::Replay { sequence, flush } => self.replay(sequence, flush)?,
            Request::Forget { sequence } => {
                self.sequences.remove(&sequence);
                Response::Done
            }
            Request::Baselines { problem, heuristics } => {
                Response::Baselines(self.baselines(&problem, heuristics))
            }
            Request::Conditions => Response::Conditions(self.conditions()),
        };
        Ok((response, Vec::new()))
    }

    fn new_id(&mut self) -> u32 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id
    }

    fn allocate(&mut self, bytes: u64) -> Result<DeviceBuffer, GpuError> {
        if let Some(buffer) = self.spare.take(bytes) {
            return Ok(buffer);
        }
        match self.gpu.allocate(bytes) {
            Err(GpuError::OutOfMemory { .. }) => {
                self.spare.clear();
                self.gpu.allocate(bytes)
            }
            allocated => allocated,
        }
    }

    fn load(&mut self, image: &[u8], announced: &[Announced]) -> Result<Loaded, GpuError> {
        let module = self.gpu.load(image)?;
        let mut kernels = HashMap::new();
        let mut facts = Vec::new();
        for launch in announced {
            let kernel = module.kernel(&launch.entry)?;
            kernel.allow_dynamic_shared(launch.dynamic_shared_bytes)?;
            facts.push(KernelFacts {
                registers: kernel.registers(),
                local_bytes: kernel.local_bytes(),
                static_shared_bytes: kernel.static_shared_bytes(),
                blocks_per_sm: kernel.blocks_per_sm(launch.threads, launch.dynamic_shared_bytes)?,
            });
            kernels.insert(launch.entry.clone(), kernel);
        }
        let id = self.new_id();
        self.modules.insert(id, (module, kernels));
        Ok(Loaded { module: id, kernels: facts })
    }

    fn issue(&self, work: &Work) -> Result<(), GpuError> {
        match work {
            Work::Kernel(launch) => self.launch(launch),
            Work::Baseline { index, a, b, c, alpha, beta } => {
                let (Some(blas), Some(problem)) = (&self.blas, &self.problem) else {
                    return Err(GpuError::Library {
                        name: "cuBLAS",
                        why: "it was not opened for this problem".to_owned(),
                    });
                };
                match index.checked_sub(1).and_then(|plan| self.plans.get(plan)) {
                    Some(plan) => blas.lt_run(plan, *a, *b, *c, *alpha, *beta),
                    None => blas.sgemm(problem, *a, *b, *c, *alpha, *beta),
                }
            }
        }
    }

    fn launch(&self, launch: &Launch) -> Result<(), GpuError> {
        let kernel = self
            .modules
            .get(&launch.module)
            .and_then(|(_, kernels)| kernels.get(&launch.entry))
            .ok_or_else(|| GpuError::NoEntry { entry: launch.entry.clone() })?;
        let mut maps = Vec::new();
        let arguments = launch.arguments.iter().map(|argument| {
            Ok(match *argument {
                LaunchArgument::Pointer(address) => KernelArgument::Pointer(address),
                LaunchArgument::I32(value) => KernelArgument::I32(value),
                LaunchArgument::I64(value) => KernelArgument::I64(value),
                LaunchArgument::F32(value) => KernelArgument::F32(value),
                LaunchArgument::Map(map) => {
                    maps.push(self.encoded(map)?);
                    KernelArgument::Map(maps.len() - 1)
                }
            })
        });
        let arguments = arguments.collect::<Result<Vec<_>, GpuError>>()?;
        let sizes = (launch.grid, launch.block, launch.dynamic_shared_bytes);
        self.gpu.launch(kernel, sizes, &arguments, &maps)
    }

    fn encoded(&self, map: PlacedMap) -> Result<EncodedMap, GpuError> {
        let mut known = self.maps.borrow_mut();
        if let Some(encoded) = known.get(&map) {
            return Ok(*encoded);
        }
        let encoded = self.gpu.encode(&map)?;
        known.insert(map, encoded);
        Ok(encoded)
    }

    fn replay(&self, sequence: u32, flush: Option<(u64, u64)>) -> Result<Response, GpuError> {
        let Some(graph) = self.sequences.get(&sequence) else {
            let message = format!("no sequence {sequence} is recorded");
            return Ok(Response::Failed { message, sticky: false });
        };
        if let Some((address, bytes)) = flush {
            // The fill also keeps the device busy while the host issues what follows, so that
            // the first event and the sequence run back to back.
            self.gpu.fill_bytes(address, 0x5a, bytes)?;
        }
        self.before.record()?;
        graph.launch()?;
        self.after.record()?;
        self.after.synchronize()?;
        Ok(Response::Elapsed { us: self.after.elapsed_since(&self.before)?.0 })
    }

    fn baselines(&mut self, problem: &Problem, heuristics: usize) -> Baselines {
        self.plans.clear();
        self.problem = None;
        if !Cublas::supports(problem) {
            let note = Some(format!("no library routine computes {problem}"));
            return Baselines { note, ..Baselines::default() };
        }
        if self.blas.is_none() {
            match Cublas::open(&self.gpu, &self.libraries) {
                Ok(blas) => self.blas = Some(blas),
                Err(error) => {
                    return Baselines { note: Some(error.to_string()), ..Baselines::default() };
                }
            }
        }
        let Some(blas) = &self.blas else { return Baselines::default() };
        let mut names = vec!["cuBLAS".to_owned()];
        let mut note = None;
        match blas.lt_plans(problem, heuristics) {
            Ok(plans) => self.plans = plans,
            Err(error) => note = Some(error.to_string()),
        }
        names.extend(self.plans.iter().map(|plan| plan.name().to_owned()));
        self.problem = Some(*problem);
        Baselines { version: blas.version().to_owned(), names, note }
    }

    fn conditions(&self) -> Conditions {
        let Some(sensors) = &self.sensors else { return Conditions::default() };
        let reading = sensors.reading();
        Conditions {
            sm_clock_mhz: reading.sm_clock_mhz,
            temperature_c: reading.temperature_c,
            power_w: reading.power_w,
            throttle_reasons: reading.throttle_reasons,
            other_processes: reading.other_processes,
        }
    }
}
