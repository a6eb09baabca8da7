//! PTX modules and their kernels: the public form of decoded code.

use std::sync::Arc;

use super::allocation::{Allocation, MemoryError, WriteTracking};
use super::decode;
use super::error::PtxError;
use super::kernel_code::KernelCode;
use super::layout::MODULE_BASE;
use super::parse;

/// A PTX module: its kernels and the variables that they share.
#[derive(Debug, Clone)]
pub struct PtxModule {
    kernels: Vec<PtxKernel>,
}

/// A kernel of a [`PtxModule`], ready to launch.
#[derive(Debug, Clone)]
pub struct PtxKernel {
    pub(super) code: Arc<KernelCode>,
    /// Variables of the module. Launches modify them, as on a GPU.
    pub(super) variables: Arc<Allocation>,
}

/// Static properties of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Registers that the text declares: one per computed value, far more than a GPU uses.
    pub declared_registers: u64,
    /// Peak of live 32-bit registers in the order of the text. The assembler reorders and needs
    /// fewer, e.g. 250 where this value is 457.
    pub live_registers: u64,
    /// Static shared memory of a block, in bytes.
    pub static_shared_bytes: u64,
    /// Local memory of a thread, in bytes.
    pub local_bytes: u64,
    /// Bytes of each parameter.
    pub parameters: Vec<u64>,
    /// Blocks of a cluster in x, y and z; one block for a kernel without clusters.
    pub cluster: [u32; 3],
}

/// Error of loading a module.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PtxLoadError {
    /// The text is invalid or not supported.
    #[error(transparent)]
    Ptx(#[from] PtxError),
    /// The variables of the module do not fit into host memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

impl PtxModule {
    /// Parses and decodes a module as NVRTC emits it.
    ///
    /// # Errors
    /// [`PtxError`] with the line of the statement that this device does not support, and with its
    /// CUDA source line if the text was compiled with `--generate-line-info`.
    pub fn parse(ptx: &str) -> Result<Self, PtxLoadError> {
        let module = parse::parse(ptx)?;
        let (kernels, contents) = decode::decode(&module)?;
        let variables = Allocation::new(MODULE_BASE, contents.bytes, WriteTracking::Off)?;
        for (start, values) in &contents.values {
            for (at, byte) in values.iter().enumerate() {
                variables.store_part(start + at as u64, 1, (*byte).into());
            }
        }
        let variables = Arc::new(variables);
        let kernel = |code| PtxKernel { code: Arc::new(code), variables: Arc::clone(&variables) };
        Ok(Self { kernels: kernels.into_iter().map(kernel).collect() })
    }

    /// Looks up a kernel by name.
    pub fn kernel(&self, name: &str) -> Option<&PtxKernel> {
        self.kernels.iter().find(|kernel| kernel.code.name == name)
    }

    /// All kernels, in the order of the text.
    pub fn kernels(&self) -> &[PtxKernel] {
        &self.kernels
    }
}

impl PtxKernel {
    /// Name of the kernel.
    pub fn name(&self) -> &str {
        &self.code.name
    }

    /// Static properties of the kernel.
    pub fn facts(&self) -> Facts {
        Facts {
            declared_registers: self.code.declared_registers,
            live_registers: u64::from(self.code.slots.words) + 2 * u64::from(self.code.slots.longs),
            static_shared_bytes: self.code.static_shared_bytes,
            local_bytes: self.code.local_bytes,
            parameters: self.code.parameters.iter().map(|(_, bytes)| *bytes).collect(),
            cluster: self.cluster(),
        }
    }

    /// Blocks of a cluster in x, y and z.
    pub(super) fn cluster(&self) -> [u32; 3] {
        self.code.clusters.extents.unwrap_or([1; 3])
    }
}
