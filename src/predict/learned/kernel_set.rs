//! The few of many kernels that are worth asking about: one that is never expected to be the best, or
//! nearly, only costs time. Of 658 kernels that were among the best of 229 problems on an H200, and its
//! family's defaults, 121 are enough for an expected loss of 0.1 % over problems of any size.

use rayon::prelude::*;

use super::FamilyModel;
use super::kernel_pool::Pool;
use crate::model::{Device, Layout, Problem, Shape};
use crate::space::Family;

/// Problems that the kernels are chosen for, and their extents, log-uniform; of four, one extent is any
/// number, the others multiples of 4, 32 and 64, for alignment decides what is legal.
const PROBLEMS: usize = 2000;
const EXTENTS: [f64; 2] = [32.0, 8192.0];
const MULTIPLES: [u64; 4] = [1, 4, 32, 64];

/// What may be lost in the mean, as a logarithm of times, and by a problem that no kernel serves.
const LOSS: f64 = 0.001;
const UNSERVED: f32 = 3.0;

/// Kernels at most: lists name each by a byte, of which one stands for none.
const MOST: usize = 255;

/// The places of these among the kernels of a family_model, by what it expects.
pub(super) fn few(family_model: &FamilyModel, family: &Family, device: &Device) -> Vec<usize> {
    let problems = problems(family_model);
    let of_layout = |layout: &Layout| {
        let own: Vec<&Problem> =
            problems.iter().filter(|problem| problem.layout == *layout).collect();
        let Some(pattern) = own.first() else { return Vec::new() };
        let pool = Pool::of((family_model, family), device, pattern);
        own.par_iter().map(|problem| pool.times(problem)).collect::<Vec<_>>()
    };
    let times: Vec<Vec<f32>> = Layout::ALL.iter().flat_map(of_layout).collect();
    cover(&losses(&times), LOSS, MOST)
}

/// What each kernel takes over the best, as a logarithm: for each kernel the losses of all problems that
/// any serves. Of `times`, also logarithms, each problem has its own.
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

/// Places of rows, as few as a greedy choice needs and `most` at most, of which the mean of the least of
/// each column is `loss` at most.
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

/// Problems of a family_model's dtype and compute, always the same; every second one is of the layout `nn`, the
/// others are of any.
fn problems(family_model: &FamilyModel) -> Vec<Problem> {
    let mut random = fastrand::Rng::with_seed(0);
    let mut extent = || {
        let [least, most] = EXTENTS;
        let extent = least * (most / least).powf(random.f64());
        let multiple = MULTIPLES[random.usize(..MULTIPLES.len())];
        (extent as u64).next_multiple_of(multiple)
    };
    (0..PROBLEMS)
        .map(|number| {
            let shape = Shape { m: extent(), n: extent(), k: extent() };
            let transposed = Layout::ALL[number / 2 % Layout::ALL.len()];
            let layout = if number % 2 == 0 { Layout::Nn } else { transposed };
            Problem {
                shape,
                batch: 1,
                dtype: family_model.dtype,
                compute: family_model.compute,
                layout,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_few_rows_as_are_needed_cover_all_columns() {
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
        // What nothing serves stays so.
        assert_eq!(cover(&[vec![0.0, UNSERVED]], LOSS, MOST), [0]);
    }
}
