//! How far the cost model is off near a problem, told from landmarks: the defaults of families, which
//! are measured for every problem that is tuned. It predicts no winner: of a configuration that was
//! measured for one problem, `known` says what is to be expected.
//!
//! **Why.** A kernel is off by about as much for any two problems, and two kernels for one problem are
//! off by as much together: alignment, say, is something that the model does not see. Of 25 problems
//! tuned on an H200, each left out in turn, the default of which the model alone expects the least
//! takes 7.5 % longer than the best kernel known, with what the other problems tell 2.1 %, and the
//! best default, if one knew it, 1.9 %.

use super::near::Position;

/// Steps of a position after which what a problem tells weighs a third. Between 2 and 8 made no
/// difference to the 2.1 %.
const REACH: f64 = 4.0;

/// The weight of what all kernels are off by together, against what a kernel is itself.
const COMMON: f64 = 0.3;

/// What is added to the time of a kernel that nothing is known of hereabouts.
const UNSEEN: f64 = 0.1;

/// For each default of a group, the logarithm of its measured time over the modelled one; no number
/// where it was not measured.
pub(super) type Offs = Box<[f32]>;

/// What the landmarks of near problems tell of a problem.
pub(super) struct Bearings<'a> {
    seen: Vec<(f64, &'a Offs)>,
    common: f64,
}

impl<'a> Bearings<'a> {
    /// From the problems near `here`; `None` where none of them has a landmark.
    pub(super) fn take(
        here: &Position,
        near: impl Iterator<Item = (&'a Position, &'a Offs)>,
    ) -> Option<Self> {
        let weigh = |(there, offs): (&Position, &'a Offs)| {
            let steps: f64 = here.iter().zip(there).map(|(a, b)| (a - b).abs()).sum();
            ((-steps / REACH).exp(), offs)
        };
        let seen: Vec<(f64, &Offs)> =
            near.filter(|(_, offs)| !offs.is_empty()).map(weigh).collect();
        let all = seen.iter().flat_map(|(weight, offs)| {
            offs.iter().filter(|off| !off.is_nan()).map(move |off| (*weight, f64::from(*off)))
        });
        let (sum, weights) = summed(all);
        (weights > 0.0).then(|| Self { seen, common: sum / weights })
    }

    /// By how much a default is expected to take longer than the model says, as a logarithm.
    pub(super) fn off(&self, default: usize) -> f64 {
        let own = self.seen.iter().filter_map(|(weight, offs)| {
            let off = offs.get(default).filter(|off| !off.is_nan())?;
            Some((*weight, f64::from(*off)))
        });
        let (sum, weights) = summed(own);
        let unseen = if weights > 0.0 { 0.0 } else { UNSEEN };
        (sum + COMMON * self.common) / (weights + COMMON) + unseen
    }
}

fn summed(weighted: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    weighted.fold((0.0, 0.0), |(sum, weights), (weight, value)| {
        (sum + weight * value, weights + weight)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_problems_tell_more_than_far_ones_and_a_kernel_of_itself_more_than_of_others() {
        let here = [10.0, 10.0, 10.0, 0.0, 2.0];
        let far = [16.0, 16.0, 16.0, 0.0, 2.0];
        let (near_offs, far_offs): (Offs, Offs) =
            (Box::new([0.1, 0.5, f32::NAN]), Box::new([0.9, 0.5, f32::NAN]));
        let near = [(&here, &near_offs), (&far, &far_offs)];
        let bearings = Bearings::take(&here, near.into_iter()).unwrap();
        assert!((0.1..0.25).contains(&bearings.off(0)), "{}", bearings.off(0));
        assert!((0.4..0.5).contains(&bearings.off(1)), "{}", bearings.off(1));
        // Of the third only what all have in common, and a caution.
        let common = (bearings.off(0) + bearings.off(1)) / 2.0;
        assert!((bearings.off(2) - common - UNSEEN).abs() < 0.05, "{}", bearings.off(2));
    }

    #[test]
    fn without_landmarks_there_are_no_bearings() {
        let here = [10.0; 5];
        let none: Offs = Box::new([]);
        let unmeasured: Offs = Box::new([f32::NAN]);
        assert!(Bearings::take(&here, std::iter::empty()).is_none());
        assert!(
            Bearings::take(&here, [(&here, &none), (&here, &unmeasured)].into_iter()).is_none()
        );
    }
}
