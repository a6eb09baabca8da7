//! The chosen device and what its use needs: the worker that owns a GPU, and the compiler for it.

use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use super::arguments::{CommonArguments, DeviceArguments};
use super::console::Console;
use super::environment::{cache_folder, compile_children, network, search_paths, worker_command};
use super::failure::Failure;
use super::request;
use crate::compile::cache::DEFAULT_MAX_BYTES;
use crate::compile::libraries::programs;
use crate::compile::{
    Architecture, CompileTarget, Compiler, CubinCache, Network, NvrtcRequirements, ProvideEvent,
    SearchPaths, acquire, disassemble,
};
use crate::gpu::installed_gpus;
use crate::model::Device;
use crate::tune::{Machine, Sanitizer, TuneError};
use crate::worker::{Executor, GpuWorker, WorkerError};

/// A device as it is named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    /// The first GPU, else the host.
    Auto,
    /// A GPU, numbered as the driver does.
    Gpu(usize),
    /// Every GPU of the same model as the first.
    AllGpus,
    /// The first GPU with this name, or with this part of a name.
    Named(String),
    /// The host.
    Cpu,
}

impl DeviceArguments {
    /// The device that the arguments name.
    pub(super) fn wish(&self) -> Result<Wish, Failure> {
        self.device_name.clone().map_or_else(|| self.device.parse(), |name| Ok(Wish::Named(name)))
    }
}

/// Whether a word names a device: its name or a part of it, ignoring case.
pub(super) fn is_named(device: &Device, word: &str) -> bool {
    !word.is_empty() && device.name.to_lowercase().contains(&word.to_lowercase())
}

/// The known GPU of that name, else the first known one.
pub(super) fn known_device(name: Option<&str>) -> Device {
    let is_meant = |device: &Device| name.is_some_and(|name| is_named(device, name));
    Device::known().into_iter().find(is_meant).unwrap_or_else(Device::h200)
}

impl FromStr for Wish {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let wish = match text {
            "auto" => Some(Self::Auto),
            "cuda" => Some(Self::Gpu(0)),
            "cuda:all" => Some(Self::AllGpus),
            "cpu" => Some(Self::Cpu),
            other => other.strip_prefix("cuda:").and_then(|n| n.parse().ok()).map(Self::Gpu),
        };
        wish.ok_or_else(|| {
            Failure::Usage(format!(
                "`{text}` is no device: choose `auto`, `cuda:N`, as in `cuda:0`, `cuda:all`, or `cpu`"
            ))
        })
    }
}

/// The failure for a GPU that cannot be used.
fn refused(error: &WorkerError) -> Failure {
    Failure::Work(format!("{error}\n`gemm-tune doctor` says what this machine can do"))
}

/// The libraries and caches of this machine.
pub(super) struct Workshop {
    pub(super) cache: PathBuf,
    pub(super) paths: SearchPaths,
    network: Network,
    compile_limit: Duration,
}

impl Workshop {
    pub(super) fn new(common: &CommonArguments) -> Result<Self, Failure> {
        let cache = cache_folder(common)?;
        let paths = search_paths(common, cache.clone());
        let compile_limit = request::time(&common.compile_timeout)?;
        Ok(Self { cache, paths, network: network(common), compile_limit })
    }

    /// Starts a worker for a GPU.
    pub(super) fn worker(&self, ordinal: usize) -> Result<Result<GpuWorker, WorkerError>, Failure> {
        Ok(GpuWorker::start(worker_command(ordinal, &self.paths)?))
    }

    /// The chosen device, ready for work. Where no GPU is found and none was named, it is the host, and a note says so.
    pub(super) fn machine(&self, wish: Wish, console: Console) -> Result<Machine, Failure> {
        let is_auto = wish == Wish::Auto;
        let ordinal = match wish {
            Wish::Cpu => return Ok(Machine::Host),
            Wish::AllGpus => return self.all_gpus(console),
            Wish::Named(name) => return self.named(&name),
            Wish::Auto => 0,
            Wish::Gpu(ordinal) => ordinal,
        };
        match self.worker(ordinal)? {
            Ok(worker) => Ok(Machine::gpus([Box::new(worker) as Box<dyn Executor>])),
            Err(WorkerError::NoDevice { message }) if is_auto => {
                console.detail(&message);
                console.note(
                    "No GPU found; using the cpu device: results are validated, times are modelled \
                     for an NVIDIA H200",
                );
                Ok(Machine::Host)
            }
            Err(error) => Err(refused(&error)),
        }
    }

    /// The first GPU of this machine with a name, or the host, whose device is named `cpu`.
    fn named(&self, name: &str) -> Result<Machine, Failure> {
        if is_named(&Device::cpu(), name) {
            return Ok(Machine::Host);
        }
        let mut here = Vec::new();
        for worker in self.workers(0..installed_gpus()) {
            match worker? {
                Ok(worker) if is_named(worker.device(), name) => {
                    return Ok(Machine::gpus([Box::new(worker) as Box<dyn Executor>]));
                }
                Ok(worker) => here.push(format!("`{}`", worker.device().name)),
                Err(error) => here.push(error.to_string()),
            }
        }
        let here = if here.is_empty() { "no GPU".to_owned() } else { here.join(", ") };
        Err(Failure::Usage(format!(
            "no GPU of this machine is named `{name}`: it has {here}; measuring needs the GPU itself"
        )))
    }

    /// The first GPU and all of the same model: times of different models are never mixed.
    fn all_gpus(&self, console: Console) -> Result<Machine, Failure> {
        let kind = |device: &Device| (device.name.clone(), device.sms, device.memory_bytes);
        let mut workers = self.workers(0..installed_gpus().max(1));
        let first = workers.remove(0)?.map_err(|error| refused(&error))?;
        let (wanted, others) = (kind(first.device()), first.devices().saturating_sub(1));
        // GPUs that are hidden from CUDA have no worker.
        workers.truncate(others);
        workers.extend(self.workers(1 + workers.len()..1 + others));
        let mut executors: Vec<Box<dyn Executor>> = vec![Box::new(first)];
        for (ordinal, worker) in (1..).zip(workers) {
            match worker? {
                Ok(worker) if kind(worker.device()) == wanted => executors.push(Box::new(worker)),
                Ok(worker) => console.note(&format!(
                    "cuda:{ordinal} is left out: it is an {}, cuda:0 is an {}; tune on it alone \
                     with `--device cuda:{ordinal}`",
                    worker.device().name,
                    wanted.0
                )),
                Err(error) => console.note(&format!("cuda:{ordinal} is left out: {error}")),
            }
        }
        Ok(Machine::gpus(executors))
    }

    /// Starts workers for several GPUs at the same time: a driver takes most of a second for a context.
    fn workers(
        &self,
        ordinals: Range<usize>,
    ) -> Vec<Result<Result<GpuWorker, WorkerError>, Failure>> {
        thread::scope(|scope| {
            let started: Vec<_> =
                ordinals.map(|ordinal| scope.spawn(move || self.worker(ordinal))).collect();
            let joined = started.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| Err(Failure::work(TuneError::Panicked)))
            });
            joined.collect()
        })
    }

    /// The description of the chosen device, without work on it. Where it cannot be queried, that of an NVIDIA H200, and
    /// a note says so.
    pub(super) fn described_device(&self, wish: Wish, console: Console) -> Result<Device, Failure> {
        let ordinal = match wish {
            Wish::Cpu => return Ok(Device::cpu()),
            Wish::Named(name) => {
                let known = Device::known().into_iter().find(|device| is_named(device, &name));
                return known.map_or_else(|| Ok(self.named(&name)?.device()), Ok);
            }
            Wish::Auto | Wish::AllGpus => 0,
            Wish::Gpu(ordinal) => ordinal,
        };
        match self.worker(ordinal)? {
            Ok(worker) => Ok(worker.device().clone()),
            Err(error) => {
                match error {
                    WorkerError::NoDevice { message } => {
                        console.detail(&message);
                        console.note("No GPU found; using the limits of an NVIDIA H200");
                    }
                    other => console.note(&format!("{other}; using the limits of an NVIDIA H200")),
                }
                Ok(Device::h200())
            }
        }
    }

    /// The GPU whose built-in records are meant: that of the name, else the one in this machine, else the first known one.
    pub(super) fn assumed_device(&self, name: Option<&str>) -> Result<Device, Failure> {
        if name.is_some() {
            return Ok(known_device(name));
        }
        let worker = self.worker(0)?;
        Ok(worker.map_or_else(|_| known_device(None), |own| own.device().clone()))
    }

    /// The compiler for a machine: to cubins for a GPU; to PTX for the host, assembled too for its register counts.
    pub(super) fn compiler(
        &self,
        machine: &Machine,
        console: Console,
    ) -> Result<Compiler, Failure> {
        let device = machine.device();
        let architecture = Architecture::from(device.compute_capability);
        match machine {
            Machine::Gpus(_) => {
                let driver_major = u32::try_from(device.driver_cuda / 1000).ok();
                self.compiler_to(CompileTarget::Cubin(architecture), driver_major, console)
            }
            Machine::Host => {
                self.compiler_to(CompileTarget::AssembledPtx(architecture), None, console)
            }
        }
    }

    /// The compiler for kernels that are only executed on the host.
    pub(super) fn compiler_to_ptx(&self, console: Console) -> Result<Compiler, Failure> {
        let architecture = Architecture::from(Device::cpu().compute_capability);
        self.compiler_to(CompileTarget::Ptx(architecture), None, console)
    }

    /// Disassembles machine code.
    pub(super) fn disassemble(&self, cubin: &[u8], console: Console) -> Result<String, Failure> {
        let on_event = &mut |event: ProvideEvent| console.note(&provision(&event));
        disassemble(cubin, &self.paths, self.network, on_event).map_err(Failure::work)
    }

    /// The sanitizer that finalists run under on request.
    pub(super) fn sanitizer(&self) -> Result<Sanitizer, Failure> {
        let found = programs("compute-sanitizer", &self.paths).into_iter().next();
        let program = found.ok_or_else(|| {
            Failure::Usage(
                "compute-sanitizer was found neither below CUDA_HOME nor in /usr/local/cuda or \
                 /usr: install it (it comes with CUDA's toolkit), or leave out `--sanitize`"
                    .to_owned(),
            )
        })?;
        Ok(Sanitizer { program, logs: self.cache.join("sanitizer") })
    }

    /// A compiler for a target.
    pub(super) fn compiler_to(
        &self,
        target: CompileTarget,
        driver_major: Option<u32>,
        console: Console,
    ) -> Result<Compiler, Failure> {
        let wanted = NvrtcRequirements { architecture: target.architecture(), driver_major };
        let on_event = &mut |event: ProvideEvent| console.note(&provision(&event));
        let nvrtc = acquire(&self.paths, &wanted, self.network, on_event).map_err(Failure::work)?;
        let cache = CubinCache::new(self.cache.join("cubin"), DEFAULT_MAX_BYTES);
        let compiler = Compiler::new(nvrtc, Some(cache), target).map_err(Failure::work)?;
        Ok(compiler.in_children(compile_children(self.compile_limit)?))
    }
}

/// The note on a step of providing a tool.
fn provision(event: &ProvideEvent) -> String {
    match event {
        ProvideEvent::Waiting { tool, folder } => {
            format!("another gemm-tune installs {tool} in {}; waiting for it", folder.display())
        }
        ProvideEvent::Installing { tool, package, folder } => format!(
            "no {tool} found: installing {package} through pip into {} (about {} MB)",
            folder.display(),
            tool.megabytes()
        ),
        ProvideEvent::Installed { file } => format!("installed {}", file.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_numbered_as_the_driver_does() {
        for (text, wish) in [
            ("auto", Wish::Auto),
            ("cuda", Wish::Gpu(0)),
            ("cuda:3", Wish::Gpu(3)),
            ("cuda:all", Wish::AllGpus),
            ("cpu", Wish::Cpu),
        ] {
            assert_eq!(text.parse::<Wish>().ok(), Some(wish), "{text}");
        }
        for text in ["cuda:", "cuda:x", "cuda:-1", "gpu", "cpu:0", ""] {
            assert!(matches!(text.parse::<Wish>(), Err(Failure::Usage(_))), "{text}");
        }
    }
}
