//! The launch plan: a family's launches with every extent evaluated.

use tera::Context;

use crate::model::Diagnostic;
use crate::model::launch::{KernelLaunch, LaunchPlan, TensorMap, Workspace};
use crate::space::Family;
use crate::space::family::Located;

/// Largest workspace: what a 64-bit signed offset addresses.
const MAX_WORKSPACE: u64 = i64::MAX as u64;

/// Evaluates the launches, workspaces and tensor maps of `family` in `scope`.
pub(super) fn launch_plan(family: &Family, scope: &Context) -> Result<LaunchPlan, Box<Diagnostic>> {
    let size32 = |expression: &Located| {
        family.size(expression, scope, u64::from(u32::MAX)).map(|size| size as u32)
    };
    let three = |extents: &[Located]| -> Result<[u32; 3], Box<Diagnostic>> {
        let mut sizes = [1; 3];
        for (size, expression) in sizes.iter_mut().zip(extents) {
            *size = size32(expression)?;
        }
        Ok(sizes)
    };
    let mut plan = LaunchPlan::default();
    for kernel in &family.kernels {
        plan.kernels.push(KernelLaunch {
            entry: kernel.entry.clone(),
            grid: three(&kernel.grid)?,
            block: three(&kernel.block)?,
            dynamic_shared_bytes: match &kernel.dynamic_shared_bytes {
                Some(bytes) => size32(bytes)?,
                None => 0,
            },
            arguments: kernel.arguments.clone(),
        });
    }
    for workspace in &family.workspaces {
        let bytes = family.size(&workspace.bytes, scope, MAX_WORKSPACE)?;
        plan.workspaces.push(Workspace { name: workspace.name.clone(), bytes });
    }
    for map in &family.tensor_maps {
        plan.tensor_maps.push(TensorMap {
            name: map.name.clone(),
            operand: map.operand.clone(),
            tile: map.tile.iter().map(size32).collect::<Result<_, _>>()?,
            swizzle: map.swizzle.clone(),
        });
    }
    Ok(plan)
}
