//! Detection of disturbed rounds: changes on the device while samples were taken. Pure; the caller
//! reads the sensors.

use std::fmt;

use crate::model::Micros;
use crate::worker::DeviceConditions;

/// Allowed change of the SM clock within a round, as a fraction. A judgement: two steps of an
/// H200's clock (15 MHz each) are 1.5 %.
const STEADY: f64 = 0.02;

/// Reason that a round is discarded.
#[derive(Debug, Clone, PartialEq)]
pub enum Disturbance {
    /// The throttle reasons changed.
    Throttle {
        /// New reasons.
        began: Vec<String>,
        /// Reasons that ended.
        ended: Vec<String>,
    },
    /// Other processes started to use the device.
    OtherProcesses {
        /// Their number.
        more: u32,
    },
    /// The SM clock changed.
    Clock {
        /// In MHz, before the round.
        before: u32,
        /// In MHz, after it.
        after: u32,
    },
    /// An impossible sample: shorter than any kernel can take, or not positive.
    Impossible {
        /// The sample.
        sample: Micros,
        /// The shortest possible time.
        floor: Micros,
    },
}

impl Disturbance {
    /// Compares two sensor readings around a round; `None` if the round is undisturbed. Both are
    /// read right after work, since an idle device lowers its clocks. Unreadable sensors never
    /// disturb.
    ///
    /// Constant conditions, such as a power cap or another process, are no disturbance: they affect
    /// all entrants of the round, and repeating it does not remove them.
    pub fn between(before: &DeviceConditions, after: &DeviceConditions) -> Option<Self> {
        let company = before.other_processes.zip(after.other_processes);
        if let Some((before, after)) = company
            && before < after
        {
            return Some(Self::OtherProcesses { more: after - before });
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

    /// Finds the first impossible sample; `None` if all are possible.
    pub fn of_samples(samples: impl IntoIterator<Item = Micros>, floor: Micros) -> Option<Self> {
        let possible = |sample: &Micros| sample.0.is_finite() && sample.0 > 0.0 && *sample >= floor;
        let sample = samples.into_iter().find(|sample| !possible(sample))?;
        Some(Self::Impossible { sample, floor })
    }
}

fn without(reasons: &[String], others: &[String]) -> Vec<String> {
    reasons.iter().filter(|reason| !others.contains(reason)).cloned().collect()
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Throttle { began, ended } => match (began.as_slice(), ended.as_slice()) {
                (began, []) => write!(f, "the clocks became limited by {}", began.join(", ")),
                ([], ended) => {
                    write!(f, "the clocks are no longer limited by {}", ended.join(", "))
                }
                (began, ended) => write!(
                    f,
                    "the clocks became limited by {} instead of {}",
                    began.join(", "),
                    ended.join(", ")
                ),
            },
            Self::OtherProcesses { more: 1 } => {
                write!(f, "another process started to use the device")
            }
            Self::OtherProcesses { more } => {
                write!(f, "{more} other processes started to use the device")
            }
            Self::Clock { before, after } => {
                write!(f, "the SM clock changed from {before} to {after} MHz")
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
    fn a_relevant_change_is_reported() {
        let capped = || reading(Some(1980), Some(&["power cap"]), Some(0));
        for (before, after, expected) in [
            (steady(), steady(), None),
            (steady(), reading(Some(1950), Some(&[]), Some(0)), None),
            (
                steady(),
                reading(Some(1935), Some(&[]), Some(0)),
                Some("the SM clock changed from 1980 to 1935 MHz"),
            ),
            (
                reading(Some(345), Some(&[]), Some(0)),
                steady(),
                Some("the SM clock changed from 345 to 1980 MHz"),
            ),
            (steady(), capped(), Some("the clocks became limited by power cap")),
            (capped(), steady(), Some("the clocks are no longer limited by power cap")),
            (capped(), capped(), None),
            (
                capped(),
                reading(Some(1980), Some(&["power brake"]), Some(0)),
                Some("the clocks became limited by power brake instead of power cap"),
            ),
            (
                steady(),
                reading(Some(1980), Some(&[]), Some(1)),
                Some("another process started to use the device"),
            ),
            (
                steady(),
                reading(Some(345), Some(&["power cap"]), Some(3)),
                Some("3 other processes started to use the device"),
            ),
            (reading(Some(1980), Some(&[]), Some(3)), steady(), None),
        ] {
            let disturbance =
                Disturbance::between(&before, &after).map(|disturbance| disturbance.to_string());
            assert_eq!(disturbance.as_deref(), expected, "{before:?} {after:?}");
        }
    }

    #[test]
    fn unreadable_sensors_never_disturb() {
        let blind = DeviceConditions::default();
        for other in [steady(), reading(Some(1), Some(&["power cap"]), Some(9)), blind.clone()] {
            assert_eq!(Disturbance::between(&blind, &other), None);
            assert_eq!(Disturbance::between(&other, &blind), None);
        }
    }

    #[test]
    fn a_sample_below_the_floor_is_impossible() {
        let floor = Micros(10.0);
        assert_eq!(Disturbance::of_samples([Micros(10.0), Micros(11.0)], floor), None);
        for sample in [9.99, 0.0, -1.0, f64::NAN, f64::INFINITY] {
            let disturbance = Disturbance::of_samples([Micros(11.0), Micros(sample)], floor);
            assert!(
                matches!(disturbance, Some(Disturbance::Impossible { .. })),
                "{sample}: {disturbance:?}"
            );
        }
        assert!(Disturbance::of_samples([Micros(0.0)], Micros(0.0)).is_some());
        let disturbance = Disturbance::of_samples([Micros(1.0)], floor).unwrap();
        assert_eq!(
            disturbance.to_string(),
            "a sample of 1.000 µs is impossible (no kernel takes less than 10.00 µs)"
        );
    }
}
