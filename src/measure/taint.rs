//! Whether a round's samples can be trusted: what changed on the device while they were taken.
//! Pure; the readings are the caller's.

use std::fmt;

use crate::model::Micros;
use crate::worker::DeviceConditions;

/// How far the SM clock may move within a round, as a share. A judgement: two steps of 15 MHz, in
/// which an H200's clock moves, are 1.5 %.
const STEADY: f64 = 0.02;

/// Why a round does not count.
#[derive(Debug, Clone, PartialEq)]
pub enum Taint {
    /// What holds the clocks down changed.
    Throttle {
        /// Reasons that were not there before.
        began: Vec<String>,
        /// Reasons that are there no more.
        ended: Vec<String>,
    },
    /// More processes compute on the device than before.
    Company {
        /// How many more.
        more: u32,
    },
    /// The SM clock moved.
    Clock {
        /// In MHz, before the round.
        before: u32,
        /// In MHz, after it.
        after: u32,
    },
    /// A sample that cannot be true: shorter than any kernel can take, or no positive time at all.
    Impossible {
        /// What was measured.
        sample: Micros,
        /// The shortest believable time.
        floor: Micros,
    },
}

impl Taint {
    /// What tells that samples taken between two readings are not to be compared; `None` where
    /// nothing does. Both are read right after work, for an idle device lowers its clocks. What a
    /// machine without NVML cannot read taints nothing.
    ///
    /// Conditions that are merely bad, such as a power cap or another process all the time, are no
    /// taint: everyone in the round has them, and no repeat is free of them.
    pub fn between(before: &DeviceConditions, after: &DeviceConditions) -> Option<Self> {
        let company = before.other_processes.zip(after.other_processes);
        if let Some((before, after)) = company
            && before < after
        {
            return Some(Self::Company { more: after - before });
        }
        let reasons = before.throttle_reasons.as_deref().zip(after.throttle_reasons.as_deref());
        if let Some((before, after)) = reasons {
            let (began, ended) = (without(after, before), without(before, after));
            if !began.is_empty() || !ended.is_empty() {
                return Some(Self::Throttle { began, ended });
            }
        }
        let (before, after) = before.sm_clock_mhz.zip(after.sm_clock_mhz)?;
        let moved = f64::from(before.abs_diff(after)) > STEADY * f64::from(before.max(after));
        moved.then_some(Self::Clock { before, after })
    }

    /// What is wrong with the first of `samples` that cannot be true; `None` where all can.
    pub fn of_samples(samples: impl IntoIterator<Item = Micros>, floor: Micros) -> Option<Self> {
        let believable =
            |sample: &Micros| sample.0.is_finite() && sample.0 > 0.0 && *sample >= floor;
        let sample = samples.into_iter().find(|sample| !believable(sample))?;
        Some(Self::Impossible { sample, floor })
    }
}

fn without(reasons: &[String], others: &[String]) -> Vec<String> {
    reasons.iter().filter(|reason| !others.contains(reason)).cloned().collect()
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Throttle { began, ended } => match (began.as_slice(), ended.as_slice()) {
                (began, []) => write!(f, "clocks began to be held down by {}", began.join(", ")),
                ([], ended) => write!(f, "clocks ceased to be held down by {}", ended.join(", ")),
                (began, ended) => write!(
                    f,
                    "clocks began to be held down by {} in place of {}",
                    began.join(", "),
                    ended.join(", ")
                ),
            },
            Self::Company { more: 1 } => write!(f, "another process began to use the device"),
            Self::Company { more } => write!(f, "{more} other processes began to use the device"),
            Self::Clock { before, after } => {
                write!(f, "the SM clock moved from {before} to {after} MHz")
            }
            Self::Impossible { sample, floor } => {
                write!(f, "a sample of {sample} is impossible (no kernel takes less than {floor})")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(
        clock: Option<u32>,
        reasons: Option<&[&str]>,
        others: Option<u32>,
    ) -> DeviceConditions {
        DeviceConditions {
            sm_clock_mhz: clock,
            throttle_reasons: reasons
                .map(|reasons| reasons.iter().map(|reason| (*reason).to_owned()).collect()),
            other_processes: others,
            ..DeviceConditions::default()
        }
    }

    fn steady() -> DeviceConditions {
        reading(Some(1980), Some(&[]), Some(0))
    }

    #[test]
    fn a_change_that_matters_is_said_in_words() {
        let capped = || reading(Some(1980), Some(&["power cap"]), Some(0));
        for (before, after, expected) in [
            (steady(), steady(), None),
            (steady(), reading(Some(1950), Some(&[]), Some(0)), None),
            (
                steady(),
                reading(Some(1935), Some(&[]), Some(0)),
                Some("the SM clock moved from 1980 to 1935 MHz"),
            ),
            (
                reading(Some(345), Some(&[]), Some(0)),
                steady(),
                Some("the SM clock moved from 345 to 1980 MHz"),
            ),
            (steady(), capped(), Some("clocks began to be held down by power cap")),
            (capped(), steady(), Some("clocks ceased to be held down by power cap")),
            (capped(), capped(), None),
            (
                capped(),
                reading(Some(1980), Some(&["power brake"]), Some(0)),
                Some("clocks began to be held down by power brake in place of power cap"),
            ),
            (
                steady(),
                reading(Some(1980), Some(&[]), Some(1)),
                Some("another process began to use the device"),
            ),
            (
                steady(),
                reading(Some(345), Some(&["power cap"]), Some(3)),
                Some("3 other processes began to use the device"),
            ),
            (reading(Some(1980), Some(&[]), Some(3)), steady(), None),
        ] {
            let taint = Taint::between(&before, &after).map(|taint| taint.to_string());
            assert_eq!(taint.as_deref(), expected, "{before:?} {after:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_taints_nothing() {
        let blind = DeviceConditions::default();
        for other in [steady(), reading(Some(1), Some(&["power cap"]), Some(9)), blind.clone()] {
            assert_eq!(Taint::between(&blind, &other), None);
            assert_eq!(Taint::between(&other, &blind), None);
        }
    }

    #[test]
    fn what_beats_the_floor_is_no_time() {
        let floor = Micros(10.0);
        assert_eq!(Taint::of_samples([Micros(10.0), Micros(11.0)], floor), None);
        for sample in [9.99, 0.0, -1.0, f64::NAN, f64::INFINITY] {
            let taint = Taint::of_samples([Micros(11.0), Micros(sample)], floor);
            assert!(matches!(taint, Some(Taint::Impossible { .. })), "{sample}: {taint:?}");
        }
        assert!(Taint::of_samples([Micros(0.0)], Micros(0.0)).is_some());
        let taint = Taint::of_samples([Micros(1.0)], floor).unwrap();
        assert_eq!(
            taint.to_string(),
            "a sample of 1.000 µs is impossible (no kernel takes less than 10.00 µs)"
        );
    }
}
