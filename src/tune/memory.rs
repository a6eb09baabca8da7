//! The cache policy that a GPU's free memory allows.
//!
//! Rotation keeps copies of the operands of more than twice the L2 cache. Where a neighbour holds the
//! memory for them, a problem is timed with its operands in the cache, and its record says so. The
//! operands of the validation are then the timed ones, and its references may be computed in parts.

use super::error::TuneError;
use super::event::TuneEvent;
use super::gpu_lease::LeasePriority;
use super::machine::{LeasedGpu, Machine};
use super::settings::Settings;
use crate::measure::Stopwatch;
use crate::model::units::human_bytes;
use crate::model::{CachePolicy, Device, Problem};
use crate::validate::Validator;
use crate::worker::WorkerError;

/// Least bytes that tuning a problem under a policy needs: with references in parts.
fn needed(problem: &Problem, device: &Device, policy: CachePolicy) -> u64 {
    Validator::least(problem) + Stopwatch::footprint(problem, device, policy)
}

/// The policy to use with so many free bytes: the wanted one, or the one that needs least.
fn affordable(free: u64, problem: &Problem, device: &Device, wanted: CachePolicy) -> CachePolicy {
    if needed(problem, device, wanted) <= free { wanted } else { CachePolicy::Hot }
}

/// Bytes that this run may use of a GPU: what other lanes hold is returned before a lane allocates.
pub(super) fn available(gpu: &mut LeasedGpu) -> Result<u64, WorkerError> {
    let _guard = gpu.lease.hold(LeasePriority::Short);
    Ok(gpu.executor.free_memory()?.saturating_add(gpu.lease.reserved()))
}

/// The settings with the policy that the memory of the machine's GPUs allows.
pub(super) fn within_memory(
    settings: &Settings,
    problem: &Problem,
    machine: &mut Machine,
    on_event: &mut dyn FnMut(TuneEvent<'_>),
) -> Result<Settings, TuneError> {
    let mut settings = settings.clone();
    let Machine::Gpus(gpus) = machine else { return Ok(settings) };
    for gpu in gpus {
        let free = available(gpu)?;
        let (device, wanted) = (gpu.executor.device(), settings.regime.cache);
        let policy = affordable(free, problem, device, wanted);
        settings.regime.cache = policy;
        // Otherwise the error that follows states what is needed.
        if policy != wanted && needed(problem, device, policy) <= free {
            on_event(TuneEvent::Note(format!(
                "{} of memory is free on {}, and copies of the operands that keep them out of the L2 cache \
                 need {}: {problem} is timed with its operands in the cache (cache policy `{}`)",
                human_bytes(free),
                device.name,
                human_bytes(needed(problem, device, wanted)),
                policy.name(),
            )));
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, Shape};

    #[test]
    fn operands_stay_in_the_cache_where_copies_do_not_fit() {
        let device = Device::h200();
        let problem = Problem::new(Shape { m: 1000, n: 1000, k: 1000 }, Dtype::F32);
        let [rotate, hot] =
            [CachePolicy::Rotate, CachePolicy::Hot].map(|policy| needed(&problem, &device, policy));
        // 250 MiB more than the product alone takes.
        assert!(rotate > hot + (200 << 20), "{rotate} {hot}");
        for (free, wanted, expected) in [
            (rotate, CachePolicy::Rotate, CachePolicy::Rotate),
            (rotate - 1, CachePolicy::Rotate, CachePolicy::Hot),
            (hot, CachePolicy::Rotate, CachePolicy::Hot),
            (hot, CachePolicy::Hot, CachePolicy::Hot),
            // Too little for either: the error states the least.
            (hot - 1, CachePolicy::Rotate, CachePolicy::Hot),
            (0, CachePolicy::Hot, CachePolicy::Hot),
        ] {
            assert_eq!(affordable(free, &problem, &device, wanted), expected, "{free}");
        }
    }
}
