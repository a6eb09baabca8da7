//! Launches of a plan on the cpu device, one after the other.

use std::sync::Arc;

use super::host::HostFailure;
use crate::cpu::{
    AccessRecord, Counts, GlobalMemory, KernelParameter, LaunchOptions, PtxModule, launch,
};
use crate::worker::LaunchCommand;

/// Most bytes of shared memory that a kernel declares, on all architectures; more are dynamic ones (CUDA C++ Programming
/// Guide, technical specifications per compute capability).
const STATIC_SHARED_LIMIT: u64 = 48 << 10;

/// Executes launches in order. What launches access before one that may begin before they end is recorded: that one
/// has to wait for it. Options say whether the plan follows launches of which nothing is known.
pub(super) fn execute_all(
    program: &PtxModule,
    memory: &GlobalMemory,
    launches: &[(&LaunchCommand, &LaunchOptions)],
    shared_limit: u64,
) -> Result<Vec<Counts>, HostFailure> {
    let mut unfinished: Vec<Arc<AccessRecord>> = Vec::new();
    let mut all_early = true;
    let mut counts = Vec::new();
    for (place, (command, options)) in launches.iter().enumerate() {
        all_early &= command.programmatic;
        if !command.programmatic {
            unfinished.clear();
        }
        let next = launches.get(place + 1);
        let is_recorded = next.is_some_and(|(next, _)| next.programmatic);
        let record = is_recorded.then(|| memory.access_record()).transpose()?.map(Arc::new);
        let options = LaunchOptions {
            record: record.clone(),
            unfinished: unfinished.clone(),
            follows_unknown: options.follows_unknown && all_early,
            ..(*options).clone()
        };
        counts.push(execute(program, command, memory, (&options, shared_limit))?);
        unfinished.extend(record);
    }
    Ok(counts)
}

/// Launches one kernel on the `cpu` device.
fn execute(
    program: &PtxModule,
    call: &LaunchCommand,
    memory: &GlobalMemory,
    (options, shared_limit): (&LaunchOptions, u64),
) -> Result<Counts, HostFailure> {
    let kernel = program.kernel(&call.entry).ok_or_else(|| {
        HostFailure::Unsupported(format!(
            "the source has no `extern \"C\"` kernel `{}`, which is an `entry` of the family file",
            call.entry
        ))
    })?;
    let declared = kernel.facts().static_shared_bytes;
    let shared = declared + u64::from(call.dynamic_shared_bytes);
    if shared > shared_limit {
        return Err(HostFailure::Unsupported(format!(
            "kernel `{}` needs {shared} bytes of shared memory; the limit per block is {shared_limit}: add a constraint \
             with `shared_bytes_per_block` to the search space",
            call.entry
        )));
    }
    if declared > STATIC_SHARED_LIMIT {
        return Err(HostFailure::Unsupported(format!(
            "kernel `{}` declares {declared} bytes of shared memory, and {STATIC_SHARED_LIMIT} is the limit without `extern`: add a \
             constraint to the search space, or declare an `extern` array and set `dynamic_shared_bytes`",
            call.entry
        )));
    }
    let parameters: Vec<KernelParameter> =
        call.arguments.iter().map(|argument| (*argument).into()).collect();
    let extents = (call.grid, call.block);
    Ok(launch(kernel, extents, call.dynamic_shared_bytes, &parameters, memory, options)?)
}
