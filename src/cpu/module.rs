//! A PTX module as callers see it.

use std::sync::Arc;

use super::allocation::{Allocation, MemoryError, WriteTracking};
use super::decode;
use super::error::PtxError;
use super::kernel_code::KernelCode;
use super::layout::MODULE_BASE;
use super::parse;

/// A module: its kernels, and the variables that they share.
#[derive(Debug, Clone)]
pub struct PtxModule {
    kernels: Vec<PtxKernel>,
}

/// A kernel of a [`PtxModule`], ready to be launched.
#[derive(Debug, Clone)]
pub struct PtxKernel {
    pub(super) code: Arc<KernelCode>,
    /// The variables of its module; launches change them as they do on a GPU.
    pub(super) variables: Arc<Allocation>,
}

/// What is known of a kernel before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Registers that the text declares: one for each value computed, far more than a GPU uses.
    pub declared_registers: u64,
    /// The most 32-bit registers that are in use at once if values keep the text's order. The
    /// assembler reorders and needs fewer: 250 where this says 457.
    pub live_registers: u64,
    /// Bytes of static shared memory of a block.
    pub static_shared_bytes: u64,
    /// Bytes of local memory of a thread.
    pub local_bytes: u64,
    /// The size of each parameter in bytes.
    pub parameters: Vec<u64>,
    /// Blocks of a cluster in x, y and z: one of a kernel that asks for no clusters.
    pub cluster: [u32; 3],
}

/// Why a text did not become a program.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PtxLoadError {
    /// It is not understood.
    #[error(transparent)]
    Ptx(#[from] PtxError),
    /// Its variables do not fit into the host's memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

impl PtxModule {
    /// Reads a module as NVRTC writes it.
    ///
    /// # Errors
    /// [`PtxError`] with the line of what this device does not know, and the CUDA line that it
    /// comes from if the text was compiled with `--generate-line-info`.
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

    /// The kernel of a name.
    pub fn kernel(&self, name: &str) -> Option<&PtxKernel> {
        self.kernels.iter().find(|kernel| kernel.code.name == name)
    }

    /// All kernels, in the order of the text.
    pub fn kernels(&self) -> &[PtxKernel] {
        &self.kernels
    }
}

impl PtxKernel {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.code.name
    }

    /// What is known before it runs.
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
