//! A GPU that the `cpu` device executes, with limited memory: an [`Executor`] for tests of what runs
//! on a GPU.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::{Arc, Mutex};

use gemm_tune::cpu::{GlobalMemory, LaunchOptions, MemoryError, PtxModule, WriteTracking, launch};
use gemm_tune::model::{Device, Micros, Problem};
use gemm_tune::worker::{
    Baselines, DeviceConditions, Executor, KernelFacts, KernelSetup, LaunchArgument, LaunchCommand,
    LoadedModule, Starter, WorkItem, WorkerError,
};
use rayon::iter::ParallelIterator as _;

/// Bytes in use, and the most that ever were.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct MemoryUse {
    pub(crate) now: u64,
    pub(crate) most: u64,
}

/// A device with so many bytes of memory.
pub(crate) struct EmulatedGpu {
    device: Device,
    memory: GlobalMemory,
    limit: u64,
    /// Whether launches are executed; otherwise only memory is counted, and every result is 0.
    executes: bool,
    sizes: BTreeMap<u64, u64>,
    used: Arc<Mutex<MemoryUse>>,
    modules: BTreeMap<u32, PtxModule>,
    sequences: BTreeMap<u32, usize>,
    next: u32,
}

impl EmulatedGpu {
    pub(crate) fn new(limit: u64, executes: bool) -> Self {
        Self {
            device: Device::h200(),
            memory: GlobalMemory::new(WriteTracking::Off),
            limit,
            executes,
            sizes: BTreeMap::new(),
            used: Arc::default(),
            modules: BTreeMap::new(),
            sequences: BTreeMap::new(),
            next: 0,
        }
    }

    pub(crate) fn used(&self) -> Arc<Mutex<MemoryUse>> {
        Arc::clone(&self.used)
    }

    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    /// Fills and counts words without the emulator, which would take seconds for guard bytes.
    fn fast(&self, command: &LaunchCommand) -> Option<Result<(), WorkerError>> {
        let &[
            LaunchArgument::Pointer(address),
            LaunchArgument::I64(count),
            LaunchArgument::I32(word),
            ref rest @ ..,
        ] = command.arguments.as_slice()
        else {
            return None;
        };
        let (count, word) = (count as u64, word.cast_unsigned());
        match (command.entry.as_str(), rest) {
            ("fill_words", []) => {
                Some(self.memory.fill_with(address, count, |_| word).map_err(failed))
            }
            ("count_changed_words", [LaunchArgument::Pointer(changed)]) => {
                Some(self.count_changed(address, count, word, *changed).map_err(failed))
            }
            _ => None,
        }
    }

    fn count_changed(
        &self,
        address: u64,
        count: u64,
        word: u32,
        changed: u64,
    ) -> Result<(), MemoryError> {
        let new = self.memory.words(address, count)?.filter(|found| *found != word).count();
        let old = self.memory.read(changed, 8)?;
        let old = old.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        self.memory.write(changed, &(old + new as u64).to_le_bytes())
    }

    fn execute(&self, work: &WorkItem) -> Result<(), WorkerError> {
        let WorkItem::Kernel(command) = work else { return Err(failed("no library")) };
        if let Some(done) = self.fast(command) {
            return done;
        }
        let module = self.modules.get(&command.module).ok_or_else(|| failed("no module"))?;
        let kernel = module.kernel(&command.entry).ok_or_else(|| failed("no kernel"))?;
        let arguments: Vec<_> = command.arguments.iter().map(|value| (*value).into()).collect();
        let extents = (command.grid, command.block);
        let options = LaunchOptions::default();
        launch(kernel, extents, command.dynamic_shared_bytes, &arguments, &self.memory, &options)
            .map(drop)
            .map_err(failed)
    }
}

fn failed(why: impl ToString) -> WorkerError {
    WorkerError::Device { message: why.to_string(), sticky: false }
}

impl Executor for EmulatedGpu {
    fn device(&self) -> &Device {
        &self.device
    }

    fn start_wrapped(&self, _: &[OsString]) -> Result<Box<dyn Executor>, WorkerError> {
        Err(failed("no other worker"))
    }

    fn starter(&self) -> Starter {
        Box::new(|| Err(failed("no other worker")))
    }

    fn finish(self: Box<Self>) -> Result<Option<i32>, WorkerError> {
        Ok(Some(0))
    }

    fn free_memory(&mut self) -> Result<u64, WorkerError> {
        Ok(self.limit - self.used.lock().unwrap().now)
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, WorkerError> {
        let mut used = self.used.lock().unwrap();
        if used.now + bytes > self.limit {
            let message = format!("{bytes} bytes of {} with {} used", self.limit, used.now);
            return Err(WorkerError::OutOfMemory { message });
        }
        used.now += bytes;
        used.most = used.most.max(used.now);
        let address = self.memory.allocate(if self.executes { bytes } else { 4 }).unwrap();
        self.sizes.insert(address, bytes);
        Ok(address)
    }

    fn free(&mut self, address: u64) -> Result<(), WorkerError> {
        self.used.lock().unwrap().now -= self.sizes.remove(&address).expect("an allocation");
        self.memory.free(address).map_err(failed)
    }

    fn fill(&mut self, address: u64, word: u32, words: u64) -> Result<(), WorkerError> {
        if !self.executes {
            return Ok(());
        }
        self.memory.fill_with(address, words, |_| word).map_err(failed)
    }

    fn read(&mut self, address: u64, bytes: u64) -> Result<Vec<u8>, WorkerError> {
        if !self.executes {
            return Ok(vec![0; bytes as usize]);
        }
        self.memory.read(address, bytes).map_err(failed)
    }

    fn load(&mut self, image: &[u8], kernels: &[KernelSetup]) -> Result<LoadedModule, WorkerError> {
        let module = self.number();
        if self.executes {
            let text = String::from_utf8_lossy(image);
            self.modules.insert(module, PtxModule::parse(&text).map_err(failed)?);
        }
        let facts = |_: &KernelSetup| KernelFacts {
            registers: 32,
            local_bytes: 0,
            static_shared_bytes: 0,
            blocks_per_sm: 1,
        };
        Ok(LoadedModule { module, kernels: kernels.iter().map(facts).collect() })
    }

    fn unload(&mut self, module: u32) -> Result<(), WorkerError> {
        self.modules.remove(&module);
        Ok(())
    }

    fn run(&mut self, work: &[WorkItem]) -> Result<(), WorkerError> {
        if !self.executes {
            return Ok(());
        }
        work.iter().try_for_each(|work| self.execute(work))
    }

    fn record(&mut self, work: &[WorkItem]) -> Result<u32, WorkerError> {
        let sequence = self.number();
        self.sequences.insert(sequence, work.len());
        Ok(sequence)
    }

    /// Every launch takes 1 ms; nothing is executed.
    fn replay(&mut self, sequence: u32, _: Option<(u64, u64)>) -> Result<Micros, WorkerError> {
        Ok(Micros(1000.0 * self.sequences[&sequence] as f64))
    }

    fn forget(&mut self, sequence: u32) -> Result<(), WorkerError> {
        self.sequences.remove(&sequence);
        Ok(())
    }

    fn baselines(&mut self, _: &Problem, _: usize) -> Result<Baselines, WorkerError> {
        Ok(Baselines { note: Some("no library".to_owned()), ..Baselines::default() })
    }

    fn conditions(&mut self) -> Result<DeviceConditions, WorkerError> {
        Ok(DeviceConditions::default())
    }

    fn set_deadline(&mut self, _: f64) {}

    fn restart(&mut self) -> Result<(), WorkerError> {
        Err(failed("the worker ended"))
    }
}
