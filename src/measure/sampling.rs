//! Numbers of operand sets, launches per sample and samples. Pure.
//!
//! Measurements: `docs/decisions/2026-11-23-samples.md`.

use crate::worker::{EpilogueAddresses, OperandAddresses};
use std::time::Duration;

use crate::model::{CachePolicy, Device, Micros, Problem, Storage};

/// Samples of a candidate that may be a finalist. Ten found no better kernels and took 30 % more
/// time.
pub const SAMPLES: usize = 5;

/// Minimum of samples for a candidate whose samples are longer: all of them together span the same
/// time.
pub const MIN_SAMPLES: usize = 3;

/// Target duration of a sample in the final: 2000 times the event resolution of half a microsecond.
const SAMPLE_TIME: Micros = Micros(1000.0);

/// Target duration of a screening sample, 800 times the resolution: screening compares to 1 %.
const SCREENING_TIME: Micros = Micros(400.0);

/// Entrants whose probes are within this factor of the fastest share its launches per sample.
const CLOSE: f64 = 2.0;

/// Maximum of launches per sample: the host enqueues a sequence of this many nodes while the device
/// overwrites the L2 cache.
const MAX_LAUNCHES: u32 = 256;

/// Slowdown against the best at which a candidate is dropped after its probe. A probe errs by a few
/// per cent, so a factor of 2 never drops a winner.
pub(super) const HOPELESS: f64 = 2.0;

/// Upper bound of the launch overhead in a probe (4 µs on an H200), which a sequence of many
/// launches does not show.
const LAUNCH_OVERHEAD: Micros = Micros(5.0);

/// Number of samples after which a candidate slower by [`CLEARLY_SLOWER`] is dropped. The faster of
/// the two counts, so that one outlier drops no candidate.
pub(super) const FIRST_CHECK: usize = 2;
pub(super) const CLEARLY_SLOWER: f64 = 1.2;

/// Durations of uninterrupted work before samples in the sustained regime: once to warm up, and
/// before each kernel's samples for its own power. Judgements: boards react to power within 100 ms
/// and to heat within seconds.
pub(super) const WARM_UP: Duration = Duration::from_secs(3);
pub(super) const LOAD: Duration = Duration::from_millis(100);

/// Number of operand sets that launches rotate through. One with a hot cache; else enough to exceed
/// twice the L2 cache, so that no launch finds the operands of the previous one, and at most one
/// per launch of a sample, since the cache is flushed before every sample.
pub fn sets_for(problem: &Problem, device: &Device, policy: CachePolicy) -> u64 {
    if policy == CachePolicy::Hot {
        return 1;
    }
    let (_, set) = operand_set(problem, 0);
    (2 * device.l2_bytes / set + 1).min(MAX_LAUNCHES.into())
}

/// The operands of a set that begins at `start`, each at a multiple of the alignment of allocations, and the end of
/// the set.
pub(super) fn operand_set(problem: &Problem, start: u64) -> (OperandAddresses, u64) {
    let mut end = start;
    let mut place = |bytes: u64| {
        let address = end;
        end += bytes.next_multiple_of(Storage::ALLOCATED);
        address
    };
    let [a, b, c] = problem.operand_bytes().map(&mut place);
    let mut epilogue = EpilogueAddresses::default();
    for (operation, bytes) in problem.epilogue_bytes() {
        epilogue.set(operation, place(bytes));
    }
    (OperandAddresses { a, b, c, epilogue }, end)
}

/// Bytes that are overwritten before a sample: twice the L2 cache; `None` for a hot cache.
pub(super) fn flush_bytes(device: &Device, policy: CachePolicy) -> Option<u64> {
    (policy == CachePolicy::Rotate).then(|| (2 * device.l2_bytes).max(1 << 20))
}

/// Returns the launches per sample of each entrant of a final, from their probes. Close entrants
/// get the launches of the fastest, because a sample's first launch takes longer (0.35 % between 90
/// and 104 launches of 5.7 µs).
pub(super) fn launches_of_final(ones: &[Micros]) -> Vec<u32> {
    let fastest = ones.iter().map(|one| one.0).fold(f64::INFINITY, f64::min);
    let shared = |one: &Micros| if one.0 < CLOSE * fastest { fastest } else { one.0 };
    ones.iter().map(|one| launches_within(SAMPLE_TIME, Micros(shared(one)))).collect()
}

/// Lower bound of a launch's time, from its probe.
pub(super) fn at_least(one: Micros) -> Micros {
    Micros((one.0 - LAUNCH_OVERHEAD.0).max(1.0))
}

/// Returns the launches per screening sample.
pub(super) fn launches_of_screening(one: Micros) -> u32 {
    launches_within(SCREENING_TIME, one)
}

/// Returns the samples of a candidate whose samples each span `span`.
pub(super) fn samples_of_screening(span: Micros) -> usize {
    let all = SAMPLES as f64 * SCREENING_TIME.0;
    ((all / span.0.max(1.0)).round() as usize).clamp(MIN_SAMPLES, SAMPLES)
}

fn launches_within(time: Micros, one: Micros) -> u32 {
    let launches = (time.0 / one.0.max(0.1)).ceil();
    (launches as u32).clamp(1, MAX_LAUNCHES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, Shape};

    #[test]
    fn sets_pass_twice_the_cache_or_outnumber_the_launches() {
        let device = Device::h200();
        for (m, n, k, sets) in [(8192, 8192, 8192, 1), (4096, 4096, 1024, 2), (1, 1, 1, 256)] {
            let problem = Problem::new(Shape { m, n, k }, Dtype::F32);
            assert_eq!(sets_for(&problem, &device, CachePolicy::Rotate), sets, "{problem}");
        }
    }

    #[test]
    fn a_hot_cache_holds_one_set() {
        let problem = Problem::new(Shape { m: 64, n: 64, k: 64 }, Dtype::F32);
        assert_eq!(sets_for(&problem, &Device::h200(), CachePolicy::Hot), 1);
    }

    #[test]
    fn screening_spans_two_milliseconds_where_it_can() {
        for (us, launches, samples) in [
            (5000.0, 1, 3),
            (650.0, 1, 3),
            (450.0, 1, 4),
            (300.0, 2, 3),
            (100.0, 4, 5),
            (4.0, 100, 5),
        ] {
            let one = Micros(us);
            assert_eq!(launches_of_screening(one), launches, "{us}");
            let span = Micros(us * f64::from(launches));
            assert_eq!(samples_of_screening(span), samples, "{us}");
        }
        assert_eq!(samples_of_screening(Micros(0.0)), SAMPLES);
    }

    #[test]
    fn launch_overhead_makes_no_short_kernel_slow() {
        for (one, least) in [(8.0, 3.0), (2.0, 1.0), (1000.0, 995.0)] {
            assert_eq!(at_least(Micros(one)), Micros(least));
        }
    }

    #[test]
    fn a_sample_spans_a_millisecond_where_it_can() {
        for (us, launches) in [(5000.0, 1), (700.0, 2), (10.0, 100), (2.0, 256), (0.0, 256)] {
            assert_eq!(launches_of_final(&[Micros(us)]), [launches], "{us}");
        }
        assert_eq!(launches_of_final(&[]), [0; 0]);
    }

    #[test]
    fn close_entrants_have_the_launches_per_sample_of_the_fastest() {
        let probes = [11.0, 10.0, 19.9, 20.0, 100.0].map(Micros);
        assert_eq!(launches_of_final(&probes), [100, 100, 100, 50, 10]);
    }
}
