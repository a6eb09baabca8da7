//! Candidates that may win, and the rules by which they enter the final round.

use super::candidate::CompiledCandidate;
use super::kernel_id::KernelId;
use super::ranking::{BaselineTime, Certainty, Standing};
use super::sanitize::Sanitizer;
use crate::measure::TieRule;
use crate::model::{Configuration, LaunchPlan, Outcome, Problem};

/// Most candidates that take part for their speed. A judgement: winners are within 0.4 % of the eighth, so that a sixth
/// finalist could win, by as little.
pub(super) const FINALISTS: usize = 5;

/// Why a candidate may take part in the final round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Admission {
    /// It is among the fastest.
    Speed,
    /// It is the default of its family, and not hopelessly slower than the best.
    Default,
    /// It is the record of the problem, or was named by the user: it takes part however slow it is.
    Always,
}

/// Most times slower than the best that a default in the final is. A slower one cannot win, and its own samples stand.
/// With all defaults the final of 8192x8192x8192 took 38 s on an H200, most of them for a kernel 17 times slower.
const HOPELESS: f64 = 1.1;

impl Admission {
    /// Whether a candidate that is not among the fastest takes part, given its time over the best one.
    pub(super) fn admits(self, times_the_best: f64) -> bool {
        match self {
            Self::Speed => false,
            Self::Default => times_the_best <= HOPELESS,
            Self::Always => true,
        }
    }
}

/// How the final round is held.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FinalOptions<'a> {
    /// Finalists run under it first.
    pub(super) sanitizer: Option<&'a Sanitizer>,
    /// Which differences are decided without their times.
    pub(super) ties: TieRule,
}

/// A correct candidate that may win.
pub(super) struct Finalist {
    /// Why it may take part in the final round.
    pub(super) admission: Admission,
    pub(super) kernel: KernelId,
    pub(super) standing: Standing,
    pub(super) candidate: CompiledCandidate,
    /// Neighbouring problems that its source serves too.
    pub(super) neighbours: Vec<NeighbourPlan>,
}

/// A problem that a candidate's source serves besides its own.
pub(super) struct NeighbourPlan {
    pub(super) problem: Problem,
    /// How it is launched for it.
    pub(super) plan: LaunchPlan,
}

/// A finalist that failed a check of finalists.
pub(super) struct RejectedFinalist {
    pub(super) kernel: KernelId,
    pub(super) family: String,
    pub(super) configuration: Configuration,
    pub(super) outcome: Outcome,
}

/// The ranking that a final round gives.
#[derive(Default)]
pub(super) struct FinalRanking {
    pub(super) ranking: Vec<Standing>,
    pub(super) baselines: Vec<BaselineTime>,
    pub(super) library_version: String,
    /// How sure the winner is; none where no final was held.
    pub(super) certainty: Option<Certainty>,
    /// Finalists that failed a check.
    pub(super) rejected: Vec<RejectedFinalist>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hopelessly_slow_default_is_not_admitted() {
        for (admission, times, admitted) in [
            (Admission::Speed, 1.01, false),
            (Admission::Default, 1.01, true),
            (Admission::Default, 17.0, false),
            (Admission::Default, f64::NAN, false),
            (Admission::Always, 17.0, true),
        ] {
            assert_eq!(admission.admits(times), admitted, "{admission:?} {times}");
        }
        // A default that is the record keeps the stronger reason.
        assert_eq!(Admission::Default.max(Admission::Always), Admission::Always);
    }
}
