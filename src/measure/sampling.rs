//! The arithmetic of sampling: how many operand sets, how many launches a sample. Pure.

use std::time::Duration;

use crate::model::{CachePolicy, Device, Micros, Problem};

/// Samples of a candidate that may be among the finalists. The median of 5 normal samples is within
/// 0.9 standard deviations of the true one in 9 of 10 cases (its own is 1.25 / √5 = 0.56): of the 0.1 to
/// 0.3 % that samples scatter on an H200, a fraction of the 1 % that a kernel's times drift by between two
/// visits. With 5 instead of 10, a thousand evaluations for 20 layers took 17 s instead of 22, and what was
/// found was as fast; twenty told the final no more than ten.
pub const SAMPLES: usize = 5;

/// The same at least, of one whose samples each span so much longer than a screened candidate's need to that fewer
/// make up for it: all of them together span as long.
pub const FEWEST_SAMPLES: usize = 3;

/// What a sample should span: 2000 times the half microsecond that events resolve.
const SAMPLE_TIME: Micros = Micros(1000.0);

/// The same of a candidate that is screened, 800 times: how it compares with the best is asked to 1 %.
const SCREENING_TIME: Micros = Micros(400.0);

/// Contestants whose first looks are within this of the fastest's share its launches per sample. A sample of theirs
/// spans up to twice as long then, and what one beyond it reads too much does not matter.
const CLOSE: f64 = 2.0;

/// Most launches of a sample: a recorded sequence has this many nodes, which the host issues
/// while the device overwrites the L2 cache.
const MAX_LAUNCHES: u32 = 256;

/// A candidate this many times slower than the best is not sampled further. A first look errs by a
/// few per cent, so that a factor of 2 never drops a winner.
pub(super) const HOPELESS: f64 = 2.0;

/// What one launch by itself reads at most beyond one of many, for starting it counts: 4 µs on an H200. With such
/// looks taken for times, kernels of 4 µs read 8, and all were dropped but the first.
const START: Micros = Micros(5.0);

/// After a first look of so many samples, one that is slower by so much is not sampled further:
/// on an H200 samples of one kernel lie within 1 % of each other. With two, the faster counts, so
/// that one hiccup drops nobody; three took a third more of the device's time (0.20 instead of
/// 0.16 of [`SAMPLES`] for each, 974 candidates of 4096x4096x1024) and decided the same.
pub(super) const FIRST_LOOK: usize = 2;
pub(super) const CLEARLY_SLOWER: f64 = 1.2;

/// How long the device works without a pause before samples count, where they are to be those of
/// sustained work: once, for it to grow warm, and before the samples of each kernel, for the power
/// that is that kernel's own. Judgements: boards answer to a change of power within 100 ms and to
/// heat within seconds, and an H200 at 648 W of 700 W shows neither (`sgemm` for 5 s).
pub(super) const WARM_UP: Duration = Duration::from_secs(3);
pub(super) const LOAD: Duration = Duration::from_millis(100);

/// Operand sets that launches rotate through: with a hot cache one, else together more than twice the L2
/// cache, so that no launch finds the operands of the one before it there; at most one for each launch of
/// a sample, for the cache is overwritten before every sample.
pub fn sets_for(problem: &Problem, device: &Device, policy: CachePolicy) -> u64 {
    if policy == CachePolicy::Hot {
        return 1;
    }
    let set = set_bytes(problem).into_iter().sum::<u64>();
    (2 * device.l2_bytes / set + 1).min(MAX_LAUNCHES.into())
}

/// Bytes of A, B and C of a set, each padded to the alignment of allocations.
pub(super) fn set_bytes(problem: &Problem) -> [u64; 3] {
    [problem.a_elements(), problem.b_elements(), problem.c_elements()]
        .map(|elements| (elements * problem.batch * problem.dtype.bytes()).next_multiple_of(256))
}

/// Bytes that are overwritten before a sample: twice the L2 cache; none where it is to stay hot.
pub(super) fn flush_bytes(device: &Device, policy: CachePolicy) -> Option<u64> {
    (policy == CachePolicy::Rotate).then(|| (2 * device.l2_bytes).max(1 << 20))
}

/// Launches of the samples of each contestant of a final, whose launches take about as long as these: as many for
/// those that are close as for the fastest of all, for a sample's first launch takes longer, so that with 90
/// launches a kernel of 5.7 µs read 0.35 % more than with 104.
pub(super) fn launches_of_final(ones: &[Micros]) -> Vec<u32> {
    let fastest = ones.iter().map(|one| one.0).fold(f64::INFINITY, f64::min);
    let shared = |one: &Micros| if one.0 < CLOSE * fastest { fastest } else { one.0 };
    ones.iter().map(|one| launches_within(SAMPLE_TIME, Micros(shared(one)))).collect()
}

/// What a launch takes at least that took so long by itself.
pub(super) fn at_least(one: Micros) -> Micros {
    Micros((one.0 - START.0).max(1.0))
}

/// Launches of a sample of a candidate that is screened.
pub(super) fn launches_of_screening(one: Micros) -> u32 {
    launches_within(SCREENING_TIME, one)
}

/// Samples of a candidate that may be among the finalists, where each spans so much.
pub(super) fn samples_of_screening(span: Micros) -> usize {
    let all = SAMPLES as f64 * SCREENING_TIME.0;
    ((all / span.0.max(1.0)).round() as usize).clamp(FEWEST_SAMPLES, SAMPLES)
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
    fn what_starting_takes_makes_no_short_kernel_slow() {
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
    fn who_may_win_is_sampled_over_as_many_launches_as_the_fastest() {
        let looks = [11.0, 10.0, 19.9, 20.0, 100.0].map(Micros);
        assert_eq!(launches_of_final(&looks), [100, 100, 100, 50, 10]);
    }
}
