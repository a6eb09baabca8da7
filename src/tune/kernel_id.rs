//! The identity of a kernel: its machine code and how it is launched.

use serde::{Deserialize, Serialize};

use crate::compile::Fingerprint;
use crate::model::LaunchPlan;

/// Identifies a kernel by its code and its launches.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KernelId(String);

impl KernelId {
    /// The identity of a source that does not compile.
    pub fn of_source(source: &str) -> Self {
        Self(blake3::hash(source.as_bytes()).to_hex().chars().take(32).collect())
    }

    /// The identity of a compiled candidate. The names of its entry points are no part of it.
    pub fn of(image: &[u8], plan: &LaunchPlan) -> Self {
        let entries: Vec<&str> = plan.kernels.iter().map(|kernel| kernel.entry.as_str()).collect();
        let mut hasher = blake3::Hasher::new();
        hasher.update(Fingerprint::of(image, &entries).as_str().as_bytes());
        for kernel in &plan.kernels {
            let extents = kernel.grid.iter().chain(&kernel.block);
            for number in extents.chain([&kernel.dynamic_shared_bytes]) {
                hasher.update(&number.to_le_bytes());
            }
            if kernel.programmatic {
                hasher.update(b"programmatic");
            }
            for argument in &kernel.arguments {
                hasher.update(argument.name().as_bytes());
                hasher.update(&[0]);
            }
        }
        for workspace in &plan.workspaces {
            hasher.update(workspace.name.as_bytes());
            hasher.update(&workspace.bytes.to_le_bytes());
        }
        for map in &plan.tensor_maps {
            hasher.update(format!("{map:?}").as_bytes());
        }
        Self(hasher.finalize().to_hex().chars().take(32).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CopyRounding, KernelLaunch, STANDARD_ARGUMENTS, Swizzle, TensorMap};

    fn plan(grid: u32) -> LaunchPlan {
        let kernel = KernelLaunch {
            entry: "gemm".to_owned(),
            grid: [grid, 1, 1],
            block: [256, 1, 1],
            dynamic_shared_bytes: 0,
            programmatic: false,
            arguments: STANDARD_ARGUMENTS.to_vec(),
        };
        LaunchPlan { kernels: vec![kernel], ..LaunchPlan::default() }
    }

    #[test]
    fn kernels_differ_by_code_and_launch_and_not_by_name() {
        let image = b"code";
        let id = KernelId::of(image, &plan(4));
        let mut renamed = plan(4);
        renamed.kernels[0].entry = "another".to_owned();
        assert_eq!(KernelId::of(image, &renamed), id);
        assert_ne!(KernelId::of(image, &plan(5)), id);
        assert_ne!(KernelId::of(b"other", &plan(4)), id);
    }

    #[test]
    fn kernels_differ_by_what_their_copies_round_to() {
        let id = |rounds_to| {
            let map = TensorMap {
                name: "a_map".to_owned(),
                operand: "A".to_owned(),
                dtype: None,
                offset: 0,
                extents: vec![64],
                strides: Vec::new(),
                tile: vec![32],
                swizzle: Swizzle::None,
                rounds_to,
            };
            KernelId::of(b"code", &LaunchPlan { tensor_maps: vec![map], ..plan(4) })
        };
        assert_ne!(id(None), id(Some(CopyRounding::Tf32)));
    }
}
