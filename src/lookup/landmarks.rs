//! How far the cost model is off near a problem, told from landmarks: kernels that were measured for
//! many problems, as defaults are in every search and winners in those of near problems. It knows
//! numbers of kernels and places of problems, neither the kernels nor the problems.
//!
//! **How.** The logarithm of measured over modelled time is taken for a sum: what all kernels have in
//! common for a problem (rows that no vectors fit, say, which the model does not see), what a kernel
//! has in common for all problems, and a rest, which changes slowly from problem to problem. The two
//! parts are found by means in turn, as in an analysis of variance with gaps; the rest is averaged
//! over near problems. Only what a kernel has decides between kernels.
//!
//! **Why.** With 97 records of an H200, answers for 30 further problems took 20.8 % longer than a full
//! tune (geometric mean) where of a winner only its own time was known, 13.5 % by landmarks and with
//! 15 more defaults. Of 81 of the records, each left out in turn, the kernel chosen among those
//! measured for it takes 10.3 % longer than the best by the model alone, and 2.8 % so.

use std::collections::BTreeMap;

use super::neighbours::Position;

/// Steps of a position after which what a problem tells weighs a third. From 1 to 4 the choices cost
/// the same within 0.7 %.
const REACH: f64 = 2.0;

/// The weight of what is known of a kernel from all problems, against what near ones tell.
const COMMON: f64 = 0.1;

/// What a kernel is expected to be off by of which nothing is known.
const UNSEEN: f64 = 0.1;

/// How many problems it takes until half of what a kernel was off by there is believed: one that was
/// measured for a single problem won it, and owes a part of that to chance.
const HALF_BELIEVED: f64 = 0.5;

/// Rounds of means in turn: gaps make that one is not enough; after four nothing moves by 0.001.
const ROUNDS: usize = 4;

/// What was measured for one problem: of kernels, by number, the logarithm of measured over modelled
/// time.
pub(super) type Measured = Vec<(usize, f64)>;

/// What the landmarks of one problem tell.
#[derive(Debug, Clone)]
pub(super) struct Sighting {
    /// What all kernels are off by for this problem.
    common: f64,
    /// What each is off by besides.
    rests: Measured,
}

/// What each kernel is off by, whatever the problem.
#[derive(Debug, Clone, Default)]
pub(super) struct Landmarks {
    kernels: Vec<f64>,
}

impl Landmarks {
    /// From what was measured of so many kernels, and what that tells of each problem; nothing of one
    /// without a landmark.
    pub(super) fn survey(kernels: usize, measured: &[Measured]) -> (Self, Vec<Option<Sighting>>) {
        let mut own = vec![0.0; kernels];
        let mut common = vec![None; measured.len()];
        for _ in 0..ROUNDS {
            for (common, one) in common.iter_mut().zip(measured) {
                *common = mean(one.iter().map(|(kernel, off)| (1.0, off - own[*kernel])));
            }
            let mut sums = vec![(0.0, HALF_BELIEVED); kernels];
            for (one, common) in measured.iter().zip(&common) {
                for (kernel, off) in one {
                    sums[*kernel].0 += off - common.unwrap_or(0.0);
                    sums[*kernel].1 += 1.0;
                }
            }
            let seen = |(sum, count): &(f64, f64)| *count > HALF_BELIEVED && sum.is_finite();
            own = sums.iter().map(|own| if seen(own) { own.0 / own.1 } else { UNSEEN }).collect();
        }
        let sighting = |(one, common): (&Measured, Option<f64>)| {
            let common = common?;
            let rests = one.iter().map(|(kernel, off)| (*kernel, off - common)).collect();
            Some(Sighting { common, rests })
        };
        let sightings = measured.iter().zip(common).map(sighting).collect();
        (Self { kernels: own }, sightings)
    }

    /// What is to be expected at `here` from the problems near it; `None` where none of them tells
    /// anything.
    pub(super) fn bearings<'s>(
        &self,
        here: &Position,
        near: impl Iterator<Item = (&'s Position, &'s Sighting)>,
    ) -> Option<Bearings> {
        let (mut commons, mut seen) = (Vec::new(), BTreeMap::<usize, (f64, f64)>::new());
        for (there, sighting) in near {
            let steps: f64 = here.iter().zip(there).map(|(a, b)| (a - b).abs()).sum();
            let weight = (-steps / REACH).exp();
            commons.push((weight, sighting.common));
            for (kernel, rest) in &sighting.rests {
                let sum = seen.entry(*kernel).or_default();
                *sum = (sum.0 + weight * rest, sum.1 + weight);
            }
        }
        let common = mean(commons.into_iter())?;
        let off = |(kernel, (sum, weight)): (usize, (f64, f64))| {
            (kernel, (sum + COMMON * self.kernels[kernel]) / (weight + COMMON))
        };
        Some(Bearings { common, seen: seen.into_iter().map(off).collect() })
    }

    /// How many times as long as modelled a kernel is expected to take.
    pub(super) fn factor(&self, bearings: &Bearings, kernel: usize) -> f64 {
        let everywhere = self.kernels.get(kernel).copied().unwrap_or(UNSEEN);
        (bearings.common + bearings.seen.get(&kernel).copied().unwrap_or(everywhere)).exp()
    }
}

/// What is expected of kernels for a problem.
#[derive(Debug)]
pub(super) struct Bearings {
    /// What all are off by.
    common: f64,
    /// What those that were measured nearby are off by besides.
    seen: BTreeMap<usize, f64>,
}

impl Bearings {
    /// The kernels that were measured nearby, in order.
    pub(super) fn seen(&self) -> impl Iterator<Item = usize> {
        self.seen.keys().copied()
    }
}

/// The mean of values by their weights; `None` of none.
fn mean(weighted: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let (sum, weights) = weighted.fold((0.0, 0.0), |(sum, weights), (weight, value)| {
        (sum + weight * value, weights + weight)
    });
    (weights > 0.0 && sum.is_finite()).then(|| sum / weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Problems that are off by a tenth, three tenths and a half; kernels by 0, 0.2 and -0.1.
    fn measured() -> Vec<Measured> {
        vec![vec![(0, 0.1), (1, 0.3), (2, 0.0)], vec![(0, 0.3), (2, 0.2)], vec![(0, 0.5), (1, 0.7)]]
    }

    fn at(place: f64) -> Position {
        [place, place, place, 0.0, 2.0]
    }

    #[test]
    fn what_problems_and_what_kernels_have_in_common_is_told_apart() {
        let (landmarks, sightings) = Landmarks::survey(4, &measured());
        let common: Vec<f64> = sightings.iter().flatten().map(|sighting| sighting.common).collect();
        assert!((common[2] - common[0] - 0.4).abs() < 0.1, "{common:?}");
        let second = sightings[1].as_ref().unwrap();
        let bearings = landmarks.bearings(&at(10.0), [(&at(10.0), second)].into_iter()).unwrap();
        assert_eq!(bearings.seen().collect::<Vec<usize>>(), [0, 2]);
        // Where a kernel was not measured, what it is elsewhere stands for it.
        let [first, other, _, unseen] =
            [0, 1, 2, 3].map(|kernel| landmarks.factor(&bearings, kernel).ln());
        assert!((0.1..0.25).contains(&(other - first)), "{first} {other}");
        assert!((unseen - bearings.common - UNSEEN).abs() < 1e-9, "{unseen}");
    }

    #[test]
    fn near_problems_tell_more_than_far_ones() {
        let (landmarks, sightings) = Landmarks::survey(4, &measured());
        let near = |here: f64| {
            let places = [&at(8.0), &at(12.0)];
            let near = places.into_iter().zip(sightings[..2].iter().flatten());
            landmarks.bearings(&at(here), near).unwrap().common
        };
        assert!(near(8.0) < near(10.0) && near(10.0) < near(12.0));
    }

    #[test]
    fn a_winner_of_one_problem_is_believed_less_the_farther_it_won() {
        let mut measured = measured();
        measured[0].push((3, -0.4));
        let (landmarks, sightings) = Landmarks::survey(4, &measured);
        let sighting = sightings[0].as_ref().unwrap();
        let off = |there: f64| {
            let near = [(&at(8.0), sighting), (&at(there), sighting)];
            let bearings = landmarks.bearings(&at(8.0), near[1..].iter().copied()).unwrap();
            landmarks.factor(&bearings, 3).ln() - bearings.common
        };
        assert!(off(8.0) < off(9.0) && off(9.0) < off(11.0), "{} {}", off(8.0), off(11.0));
        assert!(off(8.0) < 0.95 * landmarks.kernels[3], "{}", off(8.0));
    }

    #[test]
    fn without_landmarks_there_are_no_bearings() {
        let (landmarks, sightings) = Landmarks::survey(1, &[Vec::new()]);
        assert!(sightings[0].is_none());
        assert!(landmarks.bearings(&at(10.0), std::iter::empty()).is_none());
    }
}
