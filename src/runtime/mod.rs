//! Matrix products in a program of one's own: [`Runtime::gemm`] picks the kernel for a problem from a
//! bundle or a database, loads it once, and launches it on the caller's context and stream.
//!
//! Nothing is searched, and nothing is measured. The first call for a problem picks, compiles where the
//! kernel comes from a database, and loads; every later one finds what was prepared and allocates
//! nothing. A [`Runtime`] serves all threads, on each of which the context has to be current.
//!
//! ```no_run
//! use gemm_tune::gpu::Stream;
//! use gemm_tune::model::{Dtype, Problem};
//! use gemm_tune::runtime::{GemmOperands, Runtime};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (a, b, c) = (0, 0, 0);
//! let runtime = Runtime::open_bundle("tuned".as_ref())?; // in the current context
//! let problem = Problem::new("4096x4096x1024".parse()?, Dtype::F32);
//! let operands = GemmOperands::packed(&problem, a, b, c); // device addresses
//! runtime.gemm(Stream::default(), &problem, &operands)?;
//! # Ok(())
//! # }
//! ```

mod bundle;
mod database;
mod maps;
mod pick;
mod prepared;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use thiserror::Error;

pub use bundle::Bundle;
pub use database::DatabaseKernels;
pub use pick::{Catalogue, SelectedKernel, SelectedLaunch};
use prepared::{PreparedKernel, prepare};

use crate::compile::CompileError;
use crate::export::BundleError;
use crate::gpu::{EncodedMap, GpuError, Guest, GuestKernel, GuestMemory, KernelArgument, Stream};
use crate::lookup::{NoAnswer, Question};
use crate::model::storage::StorageError;
use crate::model::{Dtype, PlacedMap, Problem, Storage};
use crate::render::RenderError;

/// The most arguments of a launch.
const MAX_ARGUMENTS: usize = 64;

/// The operands of a product C = alpha op(A) op(B) + beta C, row-major; those of a batch lie one after
/// the other. OperandAddresses are the device's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GemmOperands {
    /// Where A begins.
    pub a: u64,
    /// Where B begins.
    pub b: u64,
    /// Where C begins.
    pub c: u64,
    /// Elements between rows of A as stored.
    pub lda: u64,
    /// Elements between rows of B as stored.
    pub ldb: u64,
    /// Elements between rows of C.
    pub ldc: u64,
    /// The factor of the product.
    pub alpha: f64,
    /// The factor of C, which is not read where it is 0.
    pub beta: f64,
}

impl GemmOperands {
    /// One row after the other, alpha 1 and beta 0.
    pub fn packed(problem: &Problem, a: u64, b: u64, c: u64) -> Self {
        let (lda, ldb, ldc) = (problem.lda(), problem.ldb(), problem.ldc());
        Self { a, b, c, lda, ldb, ldc, alpha: 1.0, beta: 0.0 }
    }

    /// How they lie in memory. OperandAddresses are told apart by what kernels care for: 256 bytes at most.
    fn storage(&self) -> Storage {
        let lowest = (self.a | self.b | self.c).trailing_zeros();
        let alignment = 1 << lowest.min(Storage::ALLOCATED.trailing_zeros());
        Storage { lda: self.lda, ldb: self.ldb, ldc: self.ldc, alignment }
    }
}

/// Why there is no product.
#[derive(Debug, Error)]
pub enum RuntimeError {
    /// The bundle is not whole.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The bundle has nothing for the problem.
    #[error("no kernel of the bundle is right for {problem}{}: export it again with more records", .storage)]
    NoKernel {
        /// The problem.
        problem: String,
        /// How it is stored, where that is not packed.
        storage: String,
    },
    /// The database has nothing for the problem.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// Its kernel has no source.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// Or does not compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The operands cannot lie so.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The launch is beyond what any device takes.
    #[error("{problem} needs a launch that no device takes: {what}")]
    Launch {
        /// The problem.
        problem: String,
        /// Which limit.
        what: String,
    },
    /// The GPU refuses.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

/// What loads and launches. [`Guest`] is a GPU; tests have one that only writes down what it is asked.
pub trait Driver: Send + Sync {
    /// A loaded kernel.
    type Kernel: Clone + Send + Sync;
    /// Device memory.
    type Memory: Send;
    /// A tensor map as kernels are passed it.
    type Map: Send + Sync;

    /// Loads an image and finds kernels in it, each with its dynamic shared memory.
    ///
    /// # Errors
    /// [`GpuError`].
    fn load(&self, image: &[u8], kernels: &[(&str, u32)]) -> Result<Vec<Self::Kernel>, GpuError>;

    /// Makes a tensor map what kernels are passed.
    ///
    /// # Errors
    /// [`GpuError`].
    fn encode(&self, map: &PlacedMap) -> Result<Self::Map, GpuError>;

    /// Launches a kernel with grid, block and bytes of dynamic shared memory. `maps` are those that
    /// arguments name by their place.
    ///
    /// # Errors
    /// [`GpuError`].
    fn launch(
        &self,
        stream: Stream,
        kernel: &Self::Kernel,
        sizes: ([u32; 3], [u32; 3], u32),
        arguments: &[KernelArgument],
        maps: &[Self::Map],
    ) -> Result<(), GpuError>;

    /// Allocates memory.
    ///
    /// # Errors
    /// [`GpuError`].
    fn allocate(&self, bytes: u64) -> Result<Self::Memory, GpuError>;

    /// Where memory begins, and its size.
    fn place(memory: &Self::Memory) -> (u64, u64);
}

impl Driver for Guest {
    type Kernel = GuestKernel;
    type Memory = GuestMemory;
    type Map = EncodedMap;

    fn load(&self, image: &[u8], kernels: &[(&str, u32)]) -> Result<Vec<GuestKernel>, GpuError> {
        Self::load(self, image, kernels)
    }

    fn encode(&self, map: &PlacedMap) -> Result<EncodedMap, GpuError> {
        Self::encode(self, map)
    }

    fn launch(
        &self,
        stream: Stream,
        kernel: &GuestKernel,
        sizes: ([u32; 3], [u32; 3], u32),
        arguments: &[KernelArgument],
        maps: &[EncodedMap],
    ) -> Result<(), GpuError> {
        Self::launch(self, stream, kernel, sizes, arguments, maps)
    }

    fn allocate(&self, bytes: u64) -> Result<GuestMemory, GpuError> {
        Self::allocate(self, bytes)
    }

    fn place(memory: &GuestMemory) -> (u64, u64) {
        (memory.address(), memory.bytes())
    }
}

/// DatabaseKernels for products, by problem.
pub struct Runtime<C: Catalogue, D: Driver = Guest> {
    catalogue: C,
    driver: D,
    prepared: RwLock<HashMap<Question, Arc<PreparedKernel<D>>>>,
    /// Held while a kernel is compiled and loaded, so that it is once: kernels by image.
    images: Mutex<HashMap<String, Vec<D::Kernel>>>,
    /// Scratch memory by stream, used by one product after the other.
    workspaces: Mutex<HashMap<Stream, D::Memory>>,
}

impl Runtime<Bundle> {
    /// The kernels of a bundle, for the GPU whose context is current.
    ///
    /// # Errors
    /// [`RuntimeError`].
    pub fn open_bundle(folder: &Path) -> Result<Self, RuntimeError> {
        let guest = Guest::enter()?;
        let bundle = Bundle::open(folder, guest.device())?;
        Ok(Self::new(bundle, guest))
    }
}

impl<C: Catalogue, D: Driver> Runtime<C, D> {
    /// The kernels of a catalogue, loaded and launched by a driver.
    pub fn new(catalogue: C, driver: D) -> Self {
        Self {
            catalogue,
            driver,
            prepared: RwLock::default(),
            images: Mutex::default(),
            workspaces: Mutex::default(),
        }
    }

    /// Puts a product into the stream, and does not wait for it.
    ///
    /// The addresses have to be those of operands of the problem in the current context: nothing checks
    /// them, and a kernel that is given others reads and writes what it should not.
    ///
    /// # Errors
    /// [`RuntimeError`].
    pub fn gemm(
        &self,
        stream: Stream,
        problem: &Problem,
        operands: &GemmOperands,
    ) -> Result<(), RuntimeError> {
        let prepared = self.prepare(problem, operands)?;
        if prepared.workspace_bytes == 0 {
            return self.launch(stream, &prepared, problem, operands, 0);
        }
        // Until the last launch: another product on this stream would use the same memory.
        let mut workspaces = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
        let known = workspaces.get(&stream).map(D::place);
        let address = match known {
            Some((address, bytes)) if bytes >= prepared.workspace_bytes => address,
            _ => {
                let memory = self.driver.allocate(prepared.workspace_bytes)?;
                let (address, _) = D::place(&memory);
                // Frees the smaller one, once the device is done with it.
                workspaces.insert(stream, memory);
                address
            }
        };
        self.launch(stream, &prepared, problem, operands, address)
    }

    /// Picks, compiles and loads the kernel for a problem, so that the first [`Runtime::gemm`] takes no
    /// longer than the second. Gives the kernel's name.
    ///
    /// # Errors
    /// [`RuntimeError`].
    pub fn warm_up(
        &self,
        problem: &Problem,
        operands: &GemmOperands,
    ) -> Result<String, RuntimeError> {
        Ok(self.prepare(problem, operands)?.name.clone())
    }

    fn prepare(
        &self,
        problem: &Problem,
        operands: &GemmOperands,
    ) -> Result<Arc<PreparedKernel<D>>, RuntimeError> {
        let question = Question { problem: *problem, storage: operands.storage() };
        let known = self.prepared.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(prepared) = known.get(&question) {
            return Ok(Arc::clone(prepared));
        }
        drop(known);
        question.storage.check(problem)?;
        let chosen = self.catalogue.choose(&question)?;
        let mut images = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        let kernels = match images.get(&chosen.image) {
            Some(kernels) => kernels.clone(),
            None => {
                let code = self.catalogue.code(&chosen)?;
                let entries: Vec<(&str, u32)> = chosen
                    .launches
                    .iter()
                    .map(|launch| (launch.entry.as_str(), launch.dynamic_shared_bytes))
                    .collect();
                let kernels = self.driver.load(&code, &entries)?;
                images.insert(chosen.image.clone(), kernels.clone());
                kernels
            }
        };
        drop(images);
        let prepared = Arc::new(prepare(problem, chosen, kernels)?);
        let mut known = self.prepared.write().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(known.entry(question).or_insert(prepared)))
    }

    fn launch(
        &self,
        stream: Stream,
        prepared: &PreparedKernel<D>,
        problem: &Problem,
        operands: &GemmOperands,
        workspace: u64,
    ) -> Result<(), RuntimeError> {
        let maps = prepared.maps.encoded(&self.driver, operands, workspace)?;
        let maps = maps.as_deref().unwrap_or_default();
        let mut arguments = [KernelArgument::I32(0); MAX_ARGUMENTS];
        for launch in &prepared.launches {
            for (argument, slot) in arguments.iter_mut().zip(&launch.slots) {
                *argument = slot.value(problem, operands, workspace);
            }
            let given = &arguments[..launch.slots.len()];
            self.driver.launch(stream, &launch.kernel, launch.sizes, given, maps)?;
        }
        Ok(())
    }
}

/// alpha and beta as kernels take them.
fn scalar(dtype: Dtype, value: f64) -> KernelArgument {
    match dtype {
        Dtype::I32 => KernelArgument::I32(value as i32),
        Dtype::F32 | Dtype::F16 | Dtype::Bf16 => KernelArgument::F32(value as f32),
    }
}
