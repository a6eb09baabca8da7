//! Description of a kernel in comments, with which its emitted source begins: problem, device, and everything that its
//! launches need. Pure.

use super::inspected::InspectedKernel;
use crate::compile::{Architecture, CompileTarget};
use crate::model::{Argument, KernelLaunch, Problem, TensorMap};
use crate::quote;

/// What to do with an emitted text, in two lines: so are the lines of the kernel the same in all of them.
pub(super) type Usage = [String; 2];

/// How nvcc is called: for the architecture that the kernel is compiled for here, with the suffix `a` where it has
/// instructions of one only. `-arch=sm_90a` is not enough: nvcc 13.5 adds PTX for `compute_90`, which lacks them.
fn nvcc(subject: &InspectedKernel) -> String {
    let portable = Architecture::from(subject.device.compute_capability);
    let target = CompileTarget::Cubin(portable).for_source(&subject.rendered.source);
    let real = target.architecture().to_string();
    let number = real.trim_start_matches("sm_");
    format!("nvcc -O3 -std=c++17 -gencode arch=compute_{number},code={real}")
}

/// Usage of the kernel alone.
pub(super) fn compiling(subject: &InspectedKernel) -> Usage {
    [
        format!("{} -cubin kernel.cu", nvcc(subject)),
        "`--emit harness` adds a program that checks and times it".to_owned(),
    ]
}

/// Usage of the kernel with the program that runs it.
pub(super) fn running(subject: &InspectedKernel) -> Usage {
    let entries: Vec<&str> =
        subject.rendered.plan.kernels.iter().map(|kernel| kernel.entry.as_str()).collect();
    let (names, count) = (entries.join("|"), entries.len());
    [
        format!("{} kernel.cu -o kernel && ./kernel", nvcc(subject)),
        // The first launches are those of the check, whose beta is not 0.
        format!(
            "ncu --set full --kernel-name 'regex:^({names})$' --launch-skip {count} --launch-count {count} ./kernel"
        ),
    ]
}

/// The description below the usage, as lines that begin with `//`.
pub(super) fn header(subject: &InspectedKernel, usage: &[String]) -> String {
    let InspectedKernel { problem, device, chosen, rendered, .. } = subject;
    let plan = &rendered.plan;
    let mut lines = usage.to_vec();
    // Family and configuration are in the rendered source.
    lines.push(format!("{problem} on {}", device.name));
    if let Some((source, because)) = chosen {
        lines.push(format!("source: {}, because {because}", source.name()));
    }
    if plan.nondeterministic {
        lines.push("not deterministic: two runs may differ in their last bits".to_owned());
    }
    for (number, launch) in (1..).zip(&plan.kernels) {
        lines.extend(launched(number, launch));
    }
    for space in &plan.workspaces {
        lines.push(format!(
            "workspace {}: {} bytes, aligned to {}",
            space.name, space.bytes, space.align
        ));
    }
    lines.extend(plan.tensor_maps.iter().map(|map| mapped(map, problem)));
    lines.iter().map(|line| format!("// {}\n", quote::c_comment(line))).collect()
}

/// A launch and its arguments.
fn launched(number: usize, launch: &KernelLaunch) -> [String; 2] {
    let KernelLaunch { entry, dynamic_shared_bytes, programmatic, arguments, .. } = launch;
    let [grid, block] = [launch.grid, launch.block].map(|[x, y, z]| format!("{x} x {y} x {z}"));
    let early = if *programmatic { ", may begin before the launch before it ends" } else { "" };
    let arguments: Vec<&str> = arguments.iter().map(Argument::name).collect();
    [
        format!(
            "launch {number}: {entry}, grid {grid}, block {block}, {dynamic_shared_bytes} bytes of dynamic shared \
             memory{early}"
        ),
        format!("  arguments: {}", arguments.join(", ")),
    ]
}

/// A tensor map.
fn mapped(map: &TensorMap, problem: &Problem) -> String {
    let TensorMap { name, operand, offset, swizzle, .. } = map;
    let rounded =
        map.rounds_to.map_or_else(String::new, |to| format!(", rounded to {to} by copies"));
    let joined =
        |extents: &[u64]| extents.iter().map(ToString::to_string).collect::<Vec<_>>().join(" x ");
    let tile: Vec<u64> = map.tile.iter().map(|extent| u64::from(*extent)).collect();
    format!(
        "tensor map {name}: {} of {operand} from byte {offset}, extents {}, strides {} elements, box {}, swizzle \
         {swizzle}{rounded}",
        map.element(problem.types),
        joined(&map.extents),
        joined(&map.strides),
        joined(&tile),
    )
}
