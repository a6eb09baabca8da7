//! The kernel set of a learned model: a few of its kernels, of which one is nearly the fastest for any problem.
//! A kernel counts only for problems whose searches would try it.

use rayon::prelude::*;

use super::drawn::{DrawLimits, draw};
use super::features::{FeatureReader, KernelFeatures, ProblemFeatures};
use super::learned_model::FamilyModel;
use crate::model::{Configuration, Device, GemmType, Layout, Problem, Storage};
use crate::space::{Extents, Family, Legality};

/// Problems that kernels are chosen for, as users have them ([`draw`]).
const PROBLEMS: usize = 4000;

/// Mean loss that is accepted, as a logarithm of times, and the loss of a problem that no kernel serves.
const LOSS: f64 = 0.001;
const UNSERVED: f32 = 3.0;

/// Most kernels. Of 2,223 kernels of `wgmma`, 255 lose 1.3 % by prediction, and 600 lose 0.2 %.
const MOST: usize = 600;

/// Chooses the kernel set of a model from its `kernels`, by their predicted times; returns their places.
pub(super) fn choose(model: &FamilyModel, family: &Family, device: &Device) -> Vec<usize> {
    let problems = problems(model.types);
    let of_layout = |layout: &Layout| {
        let own: Vec<&Problem> =
            problems.iter().filter(|problem| problem.layout == *layout).collect();
        let Some(pattern) = own.first() else { return Vec::new() };
        let pool = KernelPool::of((model, family), device, pattern);
        own.par_iter().map(|problem| pool.times(problem)).collect::<Vec<_>>()
    };
    let times: Vec<Vec<f32>> = Layout::ALL.iter().flat_map(of_layout).collect();
    cover(&losses(&times), LOSS, MOST)
}

/// The kernels of a family model, prepared for problems of one layout.
pub(super) struct KernelPool<'m> {
    model: &'m FamilyModel,
    family: &'m Family,
    device: &'m Device,
    /// In the model's order; `None` where no problem of the layout permits the kernel.
    kernels: Vec<Option<(Legality, KernelFeatures)>>,
}

impl<'m> KernelPool<'m> {
    /// `pattern` is any problem of the layout.
    pub(super) fn of(
        (model, family): (&'m FamilyModel, &'m Family),
        device: &'m Device,
        pattern: &Problem,
    ) -> Self {
        let reader = model.reader(family);
        let ready = |configuration: &Configuration| {
            let row =
                reader.as_ref().map(|reader: &FeatureReader<'_>| reader.row(configuration))?;
            let legality = Legality::of_searched(family, configuration, pattern, device)?;
            let cost = super::cost((family, configuration), pattern, device);
            Some((legality, KernelFeatures { row, cost }))
        };
        let kernels: Vec<Configuration> = model.kernels(family).collect();
        Self { model, family, device, kernels: kernels.par_iter().map(ready).collect() }
    }

    /// Logarithms of each kernel's predicted time for a problem; infinity where it is not legal.
    pub(super) fn times(&self, problem: &Problem) -> Vec<f32> {
        let storage = Storage::packed(problem);
        let extents = &mut Extents::new(problem, &storage);
        let mut times = vec![f32::INFINITY; self.kernels.len()];
        let (mut places, mut legal) = (Vec::new(), Vec::new());
        for (place, kernel) in self.kernels.iter().enumerate() {
            let Some((legality, features)) = kernel else { continue };
            if features.cost.fits(problem) && legality.permits(self.family, extents) {
                places.push(place);
                legal.push(features);
            }
        }
        let predicted =
            self.model.times(&legal, &ProblemFeatures::of(problem, &storage), self.device);
        for (place, time) in places.into_iter().zip(predicted) {
            times[place] = time.0.ln() as f32;
        }
        times
    }
}

/// Loss of each kernel against the best, as a logarithm: for each kernel one for every problem that any serves.
/// `times` are logarithms too, a list for each problem.
pub(super) fn losses(times: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let best = |times: &[f32]| times.iter().copied().fold(f32::INFINITY, f32::min);
    let served: Vec<(&[f32], f32)> = times
        .iter()
        .map(|times| (times.as_slice(), best(times)))
        .filter(|(_, best)| best.is_finite())
        .collect();
    let kernels = times.first().map_or(0, Vec::len);
    let loss = |(times, best): &(&[f32], f32), kernel: usize| (times[kernel] - best).min(UNSERVED);
    (0..kernels).map(|kernel| served.iter().map(|one| loss(one, kernel)).collect()).collect()
}

/// Greedy cover: places of rows, at most `most`, until the mean over columns of their least loss is `loss` at most.
pub(super) fn cover(losses: &[Vec<f32>], loss: f64, most: usize) -> Vec<usize> {
    let columns = losses.first().map_or(0, Vec::len);
    let mut left = vec![UNSERVED; columns];
    let mut chosen = Vec::new();
    let sum = |values: &[f32]| values.iter().map(|value| f64::from(*value)).sum::<f64>();
    while sum(&left) > loss * columns as f64 && chosen.len() < most {
        let gain = |own: &Vec<f32>| -> f64 {
            let gains = own.iter().zip(&left).map(|(own, left)| f64::from((left - own).max(0.0)));
            gains.sum()
        };
        let gains: Vec<f64> = losses.iter().map(gain).collect();
        // The first of equals.
        let best = (0..losses.len()).rev().max_by(|a, b| gains[*a].total_cmp(&gains[*b]));
        let Some(best) = best.filter(|best| gains[*best] > 0.0) else { break };
        for (left, own) in left.iter_mut().zip(&losses[best]) {
            *left = left.min(*own);
        }
        chosen.push(best);
    }
    chosen
}

/// Sample problems, always the same.
fn problems(types: GemmType) -> Vec<Problem> {
    let mut random = fastrand::Rng::with_seed(0);
    let limits = DrawLimits::default();
    (0..PROBLEMS).filter_map(|_| draw(&mut random, types, &limits)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cover_has_as_few_rows_as_needed() {
        let losses = [
            vec![0.0, 0.0, 0.5, 0.5, 0.5],
            vec![0.1, 0.1, 0.0, 0.0, 0.5],
            vec![0.1, 0.1, 0.0, 0.0, 0.5],
            vec![0.5, 0.5, 0.5, 0.5, 0.0],
            vec![0.2, 0.2, 0.2, 0.2, 0.2],
        ];
        let mut chosen = cover(&losses, LOSS, MOST);
        chosen.sort_unstable();
        assert!(chosen.starts_with(&[0, 1]) && chosen.contains(&3), "{chosen:?}");
        assert!(!chosen.contains(&2), "{chosen:?}");
        assert!(cover(&[], LOSS, MOST).is_empty());
        // A problem that no kernel serves stays unserved.
        assert_eq!(cover(&[vec![0.0, UNSERVED]], LOSS, MOST), [0]);
    }
}
