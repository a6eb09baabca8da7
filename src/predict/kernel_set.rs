//! The kernel set of a learned model: a few of its kernels, of which one is nearly the fastest for any problem.
//! A kernel counts only for problems whose searches would try it.

use rayon::prelude::*;

use super::drawn::{DrawLimits, draw};
use super::features::{FeatureReader, KernelFeatures, ProblemFeatures};
use super::greedy_cover::{GreedyCover, ServedCases};
use super::learned_model::FamilyModel;
use crate::model::{Configuration, Device, GemmType, Layout, Problem, Storage};
use crate::space::{Extents, Family, Legality};

/// Problems that kernels are chosen for, as users have them ([`draw`]).
const PROBLEMS: usize = 4000;

/// Mean loss that is accepted, as a logarithm of times, and the loss of a problem that no kernel serves.
const LOSS: f64 = 0.001;
const UNSERVED: f64 = 3.0;

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

/// The problems that each kernel serves, with its loss there against the best as a logarithm. `times` are logarithms too,
/// a list for each problem.
pub(super) fn losses(times: &[Vec<f32>]) -> Vec<ServedCases> {
    let best = |times: &[f32]| times.iter().copied().fold(f32::INFINITY, f32::min);
    let served: Vec<(&[f32], f32)> = times
        .iter()
        .map(|times| (times.as_slice(), best(times)))
        .filter(|(_, best)| best.is_finite())
        .collect();
    let kernels = times.first().map_or(0, Vec::len);
    let of_kernel = |kernel: usize| {
        let own = served.iter().map(|(times, best)| f64::from(times[kernel] - best)).enumerate();
        own.filter(|(_, loss)| *loss < UNSERVED).collect()
    };
    (0..kernels).map(of_kernel).collect()
}

/// Places of at most `most` kernels: until the mean loss over problems that any kernel serves is `loss` at most.
pub(super) fn cover(served: &[ServedCases], loss: f64, most: usize) -> Vec<usize> {
    let problems = served.iter().flatten().map(|(problem, _)| problem + 1).max().unwrap_or(0);
    let weights = vec![1.0; problems];
    let mut cover = GreedyCover::new(vec![UNSERVED; problems], &weights, served);
    let mut chosen = Vec::new();
    while cover.losses().iter().sum::<f64>() > loss * problems as f64 && chosen.len() < most {
        let Some(kernel) = cover.grow(0.0) else { break };
        chosen.push(kernel);
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
        let every = |losses: [f64; 5]| losses.into_iter().enumerate().collect::<ServedCases>();
        let losses = [
            [0.0, 0.0, 0.5, 0.5, 0.5],
            [0.1, 0.1, 0.0, 0.0, 0.5],
            [0.1, 0.1, 0.0, 0.0, 0.5],
            [0.5, 0.5, 0.5, 0.5, 0.0],
            [0.2, 0.2, 0.2, 0.2, 0.2],
        ]
        .map(every);
        let mut chosen = cover(&losses, LOSS, MOST);
        chosen.sort_unstable();
        assert!(chosen.starts_with(&[0, 1]) && chosen.contains(&3), "{chosen:?}");
        assert!(!chosen.contains(&2), "{chosen:?}");
        assert!(cover(&[], LOSS, MOST).is_empty());
    }

    #[test]
    fn a_kernel_serves_where_it_has_a_time() {
        let times = [vec![0.0, f32::INFINITY], vec![f32::INFINITY; 2], vec![0.5, 0.25]];
        assert_eq!(losses(&times), [vec![(0, 0.0), (1, 0.25)], vec![(1, 0.0)]]);
        assert_eq!(cover(&losses(&times), LOSS, MOST), [0, 1]);
    }
}
