//! State of a worker process: its GPU, modules, sequences, buffers and baselines, and the execution
//! of each request.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;

use super::buffer_cache::BufferCache;
use super::commands::{
    Baselines, DeviceConditions, KernelFacts, KernelSetup, LaunchArgument, LaunchCommand,
    LibraryRoutine, LoadedModule, OfferedRoutine, WorkItem,
};
use super::protocol::{WorkerRequest, WorkerResponse};
use crate::gpu::{
    Cublas, CublasLtPlan, CudaDevice, CudaEvent, CudaGraph, DeviceBuffer, EncodedMap, GpuError,
    GpuKernel, GpuModule, KernelArgument, Sensors,
};
use crate::model::{Device, LaunchShape, PlacedMap, Problem};

/// Limit of each worker's buffer cache, as a fraction 1/128 of the device's memory: a dozen workers
/// keep a tenth.
const CACHE_SHARE: u64 = 128;

/// Everything that a worker owns. Fields are dropped in this order: users of memory before memory.
pub(super) struct DeviceSession {
    sequences: HashMap<u32, CudaGraph>,
    modules: HashMap<u32, (GpuModule, HashMap<String, GpuKernel>)>,
    plans: Vec<CublasLtPlan>,
    blas: Option<Cublas>,
    buffers: HashMap<u64, DeviceBuffer>,
    cached: BufferCache<DeviceBuffer>,
    before: CudaEvent,
    after: CudaEvent,
    sensors: Option<Sensors>,
    libraries: Vec<PathBuf>,
    problem: Option<Problem>,
    /// Encoded tensor maps, reused because operand sets recur from launch to launch.
    maps: RefCell<HashMap<PlacedMap, EncodedMap>>,
    next_id: u32,
    gpu: CudaDevice,
}

impl DeviceSession {
    pub(super) fn open(ordinal: usize, libraries: Vec<PathBuf>) -> Result<Self, GpuError> {
        let gpu = CudaDevice::open(ordinal)?;
        Ok(Self {
            sequences: HashMap::new(),
            modules: HashMap::new(),
            plans: Vec::new(),
            blas: None,
            buffers: HashMap::new(),
            cached: BufferCache::new(gpu.device().memory_bytes / CACHE_SHARE),
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

    /// The device.
    pub(super) fn device(&self) -> &Device {
        self.gpu.device()
    }

    pub(super) fn answer(
        &mut self,
        request: WorkerRequest,
        body: &[u8],
    ) -> Result<(WorkerResponse, Vec<u8>), GpuError> {
        let response = match request {
            WorkerRequest::Open { .. } => WorkerResponse::Failed {
                message: "the device is open already".into(),
                sticky: false,
            },
            WorkerRequest::FreeMemory => {
                self.cached.clear();
                WorkerResponse::Number(self.gpu.free_memory()?)
            }
            WorkerRequest::Allocate { bytes } => {
                let buffer = self.allocate(bytes.max(1))?;
                let address = buffer.address();
                self.buffers.insert(address, buffer);
                WorkerResponse::Number(address)
            }
            WorkerRequest::Free { address } => {
                if let Some(buffer) = self.buffers.remove(&address) {
                    self.cached.keep(buffer.bytes(), buffer);
                }
                WorkerResponse::Done
            }
            WorkerRequest::Fill { address, word, words } => {
                self.gpu.fill_words(address, word, words)?;
                self.gpu.synchronize()?;
                WorkerResponse::Done
            }
            WorkerRequest::Read { address, bytes } => {
                let mut read = vec![0; bytes as usize];
                self.gpu.copy_to_host(address, &mut read)?;
                return Ok((WorkerResponse::Bytes, read));
            }
            WorkerRequest::Load { kernels } => WorkerResponse::Loaded(self.load(body, &kernels)?),
            WorkerRequest::Unload { module } => {
                self.modules.remove(&module);
                self.maps.get_mut().clear();
                WorkerResponse::Done
            }
            WorkerRequest::Run { work } => {
                for work in &work {
                    self.issue(work)?;
                }
                self.gpu.synchronize()?;
                WorkerResponse::Done
            }
            WorkerRequest::Record { work } => {
                let graph =
                    self.gpu.capture(|_| work.iter().try_for_each(|work| self.issue(work)))?;
                let id = self.new_id();
                self.sequences.insert(id, graph);
                WorkerResponse::Number(id.into())
            }
            WorkerRequest::Replay { sequence, flush } => self.replay(sequence, flush)?,
            WorkerRequest::Forget { sequence } => {
                self.sequences.remove(&sequence);
                WorkerResponse::Done
            }
            WorkerRequest::Baselines { problem, heuristics } => {
                WorkerResponse::Baselines(self.baselines(&problem, heuristics))
            }
            WorkerRequest::Conditions => WorkerResponse::Conditions(self.conditions()),
        };
        Ok((response, Vec::new()))
    }

    fn new_id(&mut self) -> u32 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id
    }

    fn allocate(&mut self, bytes: u64) -> Result<DeviceBuffer, GpuError> {
        if let Some(buffer) = self.cached.take(bytes) {
            return Ok(buffer);
        }
        match self.gpu.allocate(bytes) {
            Err(GpuError::OutOfMemory { .. }) => {
                self.cached.clear();
                self.gpu.allocate(bytes)
            }
            allocated => allocated,
        }
    }

    fn load(&mut self, image: &[u8], announced: &[KernelSetup]) -> Result<LoadedModule, GpuError> {
        let module = match self.gpu.load(image) {
            Err(error) if error.is_out_of_memory() => {
                self.cached.clear();
                self.gpu.load(image)?
            }
            loaded => loaded?,
        };
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
        Ok(LoadedModule { module: id, kernels: facts })
    }

    fn issue(&self, work: &WorkItem) -> Result<(), GpuError> {
        match work {
            WorkItem::Kernel(launch) => self.launch(launch),
            WorkItem::Baseline { routine, operands, scalars } => {
                let (Some(blas), Some(problem)) = (&self.blas, &self.problem) else {
                    return Err(GpuError::Library {
                        name: "cuBLAS",
                        why: "it was not opened for this problem".to_owned(),
                    });
                };
                match routine {
                    LibraryRoutine::Cublas => blas.gemm(problem, *operands, *scalars),
                    LibraryRoutine::CublasLt(index) => {
                        let plan = self.plans.get(*index).ok_or_else(|| GpuError::Library {
                            name: "cuBLASLt",
                            why: format!("it has no heuristic {index} for this problem"),
                        })?;
                        blas.lt_run(plan, *operands, *scalars)
                    }
                }
            }
        }
    }

    fn launch(&self, launch: &LaunchCommand) -> Result<(), GpuError> {
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
        let LaunchCommand { grid, block, dynamic_shared_bytes, programmatic, .. } = *launch;
        let shape = LaunchShape { grid, block, dynamic_shared_bytes, programmatic };
        self.gpu.launch(kernel, shape, &arguments, &maps)
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

    fn replay(&self, sequence: u32, flush: Option<(u64, u64)>) -> Result<WorkerResponse, GpuError> {
        let Some(graph) = self.sequences.get(&sequence) else {
            let message = format!("no sequence {sequence} is recorded");
            return Ok(WorkerResponse::Failed { message, sticky: false });
        };
        if let Some((address, bytes)) = flush {
            // The fill also keeps the device busy while the host enqueues what follows, so that the
            // first event and the sequence run back to back.
            self.gpu.fill_bytes(address, 0x5a, bytes)?;
        }
        self.before.record()?;
        graph.launch()?;
        self.after.record()?;
        self.after.synchronize()?;
        Ok(WorkerResponse::Elapsed { us: self.after.elapsed_since(&self.before)?.0 })
    }

    fn baselines(&mut self, problem: &Problem, heuristics: usize) -> Baselines {
        self.plans.clear();
        self.problem = None;
        if let Some(refusal) = Cublas::refusal(problem) {
            return Baselines { note: Some(refusal.to_string()), ..Baselines::default() };
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
        let name = "cuBLAS".to_owned();
        let own = OfferedRoutine { routine: LibraryRoutine::Cublas, name, algorithm: None };
        let mut routines: Vec<_> =
            Cublas::has_routine(problem).then_some(own).into_iter().collect();
        let mut note = None;
        match blas.lt_plans(problem, heuristics) {
            Ok(plans) => self.plans = plans,
            Err(error) => note = Some(error.to_string()),
        }
        let named = self.plans.iter().enumerate();
        routines.extend(named.map(|(index, plan)| OfferedRoutine {
            routine: LibraryRoutine::CublasLt(index),
            name: plan.name().to_owned(),
            algorithm: Some(plan.algorithm().clone()),
        }));
        self.problem = Some(*problem);
        Baselines { version: blas.version().to_owned(), routines, note, ..Baselines::default() }
    }

    fn conditions(&self) -> DeviceConditions {
        let Some(sensors) = &self.sensors else { return DeviceConditions::default() };
        let reading = sensors.reading();
        DeviceConditions {
            sm_clock_mhz: reading.sm_clock_mhz,
            temperature_c: reading.temperature_c,
            power_w: reading.power_w,
            throttle_reasons: reading.throttle_reasons,
            other_processes: reading.other_processes,
        }
    }
}
