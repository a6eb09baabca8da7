//! Sources of kernels, and the description of a selected kernel.

use std::sync::Arc;

use crate::error::RuntimeError;
use crate::manifest::BundledPacking;
use crate::model::launch::WORKSPACE_ALIGNMENT;
use crate::model::{KernelLaunch, LaunchPlan, LaunchShape, Storage, TensorMap, Workspace};
use crate::question::Question;

/// A source of kernels, called once for each problem.
pub trait Catalogue: Send + Sync {
    /// Selects the kernel for a problem and its storage.
    ///
    /// # Errors
    /// [`RuntimeError`].
    fn choose(&self, question: &Question) -> Result<SelectedKernel, RuntimeError>;

    /// Returns its code, a cubin or PTX. Called once for each image.
    ///
    /// # Errors
    /// [`RuntimeError`].
    fn code(&self, chosen: &SelectedKernel) -> Result<Arc<[u8]>, RuntimeError>;
}

/// A kernel selected for a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedKernel {
    /// Its name for messages.
    pub name: String,
    /// Key of its loaded image: code, entry points and dynamic shared memory.
    pub image: String,
    /// CUDA source, where the code is not compiled yet.
    pub source: Option<Arc<str>>,
    /// Its launches.
    pub launches: Vec<SelectedLaunch>,
    /// Scratch buffers: name and bytes.
    pub workspaces: Vec<(String, u64)>,
    /// Tensor maps, which are encoded when addresses are known.
    pub tensor_maps: Vec<TensorMap>,
}

/// A launch of a selected kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedLaunch {
    /// The name of the kernel.
    pub entry: String,
    /// Its extents and attributes.
    pub shape: LaunchShape,
    /// The operands that it copies to a workspace, where it does nothing else.
    pub packs: Option<BundledPacking>,
    /// Names of arguments, in order.
    pub arguments: Vec<String>,
}

impl SelectedKernel {
    /// Its launches, workspaces and tensor maps, without arguments.
    pub(crate) fn plan(&self) -> LaunchPlan {
        let launches = self.launches.iter().map(|launch| KernelLaunch {
            entry: launch.entry.clone(),
            grid: launch.shape.grid,
            block: launch.shape.block,
            dynamic_shared_bytes: launch.shape.dynamic_shared_bytes,
            programmatic: launch.shape.programmatic,
            arguments: Vec::new(),
        });
        let workspaces = self.workspaces.iter();
        LaunchPlan {
            kernels: launches.collect(),
            workspaces: workspaces
                .map(|(name, bytes)| Workspace {
                    name: name.clone(),
                    bytes: *bytes,
                    align: WORKSPACE_ALIGNMENT,
                })
                .collect(),
            tensor_maps: self.tensor_maps.clone(),
            ..LaunchPlan::default()
        }
    }

    /// Bytes of its workspaces, each aligned; `None` for more than 64 bits.
    pub(crate) fn workspace_bytes(&self) -> Option<u64> {
        let mut spaces = self.workspaces.iter();
        spaces.try_fold(0_u64, |sum, (_, bytes)| {
            sum.checked_add(bytes.checked_next_multiple_of(Storage::ALLOCATED)?)
        })
    }

    /// Key of an image with its entry points and their dynamic shared memory.
    #[doc(hidden)]
    pub fn image_of(code: &str, launches: &[SelectedLaunch]) -> String {
        let kernels = launches
            .iter()
            .map(|launch| format!(" {}:{}", launch.entry, launch.shape.dynamic_shared_bytes));
        format!("{code}{}", kernels.collect::<String>())
    }
}
