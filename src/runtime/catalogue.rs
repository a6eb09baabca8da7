//! Where kernels come from, and what is known of one that was chosen.

use std::sync::Arc;

use super::error::RuntimeError;
use crate::lookup::Question;
use crate::model::TensorMap;

/// Knows kernels for problems. Asked once for each problem.
pub trait Catalogue: Send + Sync {
    /// The kernel for a problem as it is stored.
    ///
    /// # Errors
    /// [`RuntimeError`].
    fn choose(&self, question: &Question) -> Result<SelectedKernel, RuntimeError>;

    /// Its code: a cubin or PTX. Asked once for each image.
    ///
    /// # Errors
    /// [`RuntimeError`].
    fn code(&self, chosen: &SelectedKernel) -> Result<Arc<[u8]>, RuntimeError>;
}

/// A kernel for a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedKernel {
    /// What a person calls it.
    pub name: String,
    /// What its code is known by, with the entries and the shared memory that are asked of it.
    pub image: String,
    /// CUDA source, where the code has yet to be compiled.
    pub source: Option<Arc<str>>,
    /// The launches.
    pub launches: Vec<SelectedLaunch>,
    /// Scratch buffers: name and bytes.
    pub workspaces: Vec<(String, u64)>,
    /// Tensor maps, which are encoded once the addresses are known.
    pub tensor_maps: Vec<TensorMap>,
}

/// A launch of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedLaunch {
    /// The name of the kernel.
    pub entry: String,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared_bytes: u32,
    /// Names of arguments, in order.
    pub arguments: Vec<String>,
}

impl SelectedKernel {
    /// A name for an image and what is asked of it when it is loaded.
    pub(super) fn image_of(code: &str, launches: &[SelectedLaunch]) -> String {
        let kernels = launches
            .iter()
            .map(|launch| format!(" {}:{}", launch.entry, launch.dynamic_shared_bytes));
        format!("{code}{}", kernels.collect::<String>())
    }
}
