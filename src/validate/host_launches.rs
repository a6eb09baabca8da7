//! Launches of a plan on the cpu device, one after the other.

use std::sync::Arc;

use super::host::HostFailure;
use crate::cpu::{
    AccessRecord, Counts, GlobalMemory, KernelParameter, LaunchOptions, PtxModule, launch,
};
use crate::worker::LaunchCommand;

/// Executes launches in order. What launches access before one that may begin before they end is recorded: that one
/// has to wait for it.
pub(super) fn execute_all(
    program: &PtxModule,
    memory: &GlobalMemory,
    launches: &[(&LaunchCommand, &LaunchOptions)],
    shared_limit: u64,
) -> Result<Vec<Counts>, HostFailure> {
    let mut unfinished: Vec<Arc<AccessRecord>> = Vec::new();
    let mut counts = Vec::new();
    for (place, (command, options)) in launches.iter().enumerate() {
        if !command.programmatic {
            unfinished.clear();
        }
        let next = launches.get(place + 1);
        let is_recorded = next.is_some_and(|(next, _)| next.programmatic);
        let record = is_recorded.then(|| memory.access_record()).transpose()?.map(Arc::new);
        let options = LaunchOptions {
            record: record.clone(),
            unfinished: unfinished.clone(),
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
        HostFailure::Unsupported(format!("the program has no kernel `{}`", call.entry))
    })?;
    let shared = kernel.facts().static_shared_bytes + u64::from(call.dynamic_shared_bytes);
    if shared > shared_limit {
        return Err(HostFailure::Unsupported(format!(
            "kernel `{}` needs {shared} bytes of shared memory; the limit per block is {}",
            call.entry, shared_limit
        )));
    }
    let parameters: Vec<KernelParameter> =
        call.arguments.iter().map(|argument| (*argument).into()).collect();
    let extents = (call.grid, call.block);
    Ok(launch(kernel, extents, call.dynamic_shared_bytes, &parameters, memory, options)?)
}
