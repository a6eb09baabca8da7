//! What the C source and the Rust module have in common: which kernels they take, the order of arguments and sizes in
//! their tables, and how a template is filled.

use super::bundle::ExportedKernel;
use crate::model::launch::STANDARD_ARGUMENTS;
use crate::model::tensor_map::{MAX_RANK, operand_dtype};
use crate::model::{Argument, CopyRounding, Dtype, EpilogueOp, LaunchPlan, Swizzle};
use crate::space::Formula;
use crate::space::formula::{Bound, BoundLaunch, BoundMap};

/// Largest number of launches, of workspaces and of tensor maps of a kernel: `MAX_LAUNCHES` in the C source.
const MOST: usize = 8;

/// Puts values in place of their names, in one pass: what a value holds is not looked at again.
pub(crate) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find('@') {
        let (before, after) = rest.split_at(at);
        text.push_str(before);
        let known = values.iter().find(|(name, _)| after.starts_with(name));
        let (value, length) = known.map_or(("@", 1), |(name, value)| (*value, name.len()));
        text.push_str(value);
        rest = &after[length..];
    }
    text + rest
}

/// Index of an item; adds it where it is missing.
pub(super) fn place<T: PartialEq>(items: &mut Vec<T>, item: T) -> usize {
    items.iter().position(|known| *known == item).unwrap_or_else(|| {
        items.push(item);
        items.len() - 1
    })
}

/// Reason why a kernel cannot be in a source; `None` for one that can.
pub(super) fn unfit(kernel: &ExportedKernel) -> Option<&'static str> {
    let draft = &kernel.draft;
    let LaunchPlan { kernels, workspaces, tensor_maps, .. } = &draft.plan;
    let constant = |launch: &BoundLaunch| matches!(launch.dynamic_shared_bytes, Formula::Int(_));
    if [kernels.len(), workspaces.len(), tensor_maps.len()].into_iter().any(|count| count > MOST) {
        Some("it has too many launches, workspaces or tensor maps")
    } else if !draft.bound.launches.iter().all(constant) {
        Some("its shared memory depends on the shape: use a bundle")
    } else {
        None
    }
}

/// Operations of epilogues with an operand, in the order of these among arguments.
pub(super) fn operand_operations() -> impl Iterator<Item = EpilogueOp> {
    EpilogueOp::ALL.iter().copied().filter(|operation| operation.operand().is_some())
}

/// Indices of arguments among the standard ones, the operands of epilogues, the workspaces and the tensor maps.
pub(super) fn argument_places(kernel: &ExportedKernel, arguments: &[Argument]) -> String {
    let LaunchPlan { workspaces, tensor_maps, .. } = &kernel.draft.plan;
    let first_workspace = STANDARD_ARGUMENTS.len() + operand_operations().count();
    let place = |argument: &Argument| match argument {
        Argument::Named(name) => {
            let map = tensor_maps.iter().position(|map| map.name == *name);
            let space = || workspaces.iter().position(|space| space.name == *name).unwrap_or(0);
            first_workspace + map.map_or_else(space, |map| MOST + map)
        }
        Argument::Epilogue(own) => {
            let place = operand_operations().position(|operation| operation == *own);
            STANDARD_ARGUMENTS.len() + place.unwrap_or(0)
        }
        standard => STANDARD_ARGUMENTS.iter().position(|known| known == standard).unwrap_or(0),
    };
    let places: Vec<String> = arguments.iter().map(|one| place(one).to_string()).collect();
    places.join(", ")
}

/// All sizes in table order: grid, block and shared memory of each launch, then the workspaces.
pub(super) fn sizes(bound: &Bound) -> Vec<(usize, &Formula)> {
    let mut sizes: Vec<&Formula> = Vec::new();
    for launch in &bound.launches {
        sizes.extend(launch.grid.iter().chain(&launch.block));
        sizes.push(&launch.dynamic_shared_bytes);
    }
    sizes.extend(bound.workspaces.iter().map(|(_, bytes)| bytes));
    sizes.into_iter().enumerate().collect()
}

/// The sizes of tensor maps with their places: of each the bytes to the first element, then for five dimensions the
/// extents, the elements between neighbours, from the second on, and the extents of a box.
pub(super) fn map_sizes(bound: &Bound) -> Vec<(usize, &Formula)> {
    bound.tensor_maps.iter().enumerate().flat_map(sizes_of_map).collect()
}

fn sizes_of_map((number, map): (usize, &BoundMap)) -> Vec<(usize, &Formula)> {
    let first = number * 3 * MAX_RANK;
    let extents = map.extents.iter().zip(first + 1..);
    let strides = map.strides.iter().zip(first + MAX_RANK + 1..);
    let tile = map.tile.iter().zip(first + 2 * MAX_RANK..);
    let sizes = extents.chain(strides).chain(tile).map(|(size, place)| (place, size));
    std::iter::once((first, &map.offset)).chain(sizes).collect()
}

/// A row of the table of tensor maps: place of the operand (A, B, C, then the workspaces), `CUtensorMapDataType`, bytes
/// of an element, dimensions, and `CUtensorMapSwizzle`.
pub(super) fn map_row(kernel: &ExportedKernel, map: &BoundMap) -> [usize; 5] {
    let draft = &kernel.draft;
    let operand = ["A", "B", "C"].iter().position(|known| *known == map.operand);
    let space = || {
        let spaces = draft.plan.workspaces.iter();
        3 + spaces.clone().position(|space| space.name == map.operand).unwrap_or(0)
    };
    let own = || operand_dtype(&map.operand, draft.problem.types);
    let dtype = map.dtype.unwrap_or_else(own);
    let code = match dtype {
        Dtype::I8 => 0,
        Dtype::I32 => 3,
        Dtype::F16 => 6,
        Dtype::F32 => match map.rounds_to {
            None => 7,
            Some(CopyRounding::Tf32) => 11,
        },
        Dtype::Bf16 => 9,
    };
    let swizzle = match map.swizzle {
        Swizzle::None => 0,
        Swizzle::B32 => 1,
        Swizzle::B64 => 2,
        Swizzle::B128 => 3,
    };
    let operand = operand.unwrap_or_else(space);
    [operand, code, dtype.bytes() as usize, map.extents.len(), swizzle]
}
