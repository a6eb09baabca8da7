//! The few of many kernels that are worth asking about: one that is never expected to be the best, or
//! nearly, only costs time. Of 658 kernels that were among the best of 229 problems on an H200, 119 are
//! enough for an expected loss of 0.1 % over problems of any size.

use rayon::prelude::*;

use super::{Asked, Lesson, cost, traits};
use crate::model::{Configuration, Device, Layout, Problem, Shape, Storage};
use crate::space::{Extents, Family, Legality};

/// Problems that the kernels are chosen for, and their extents, log-uniform; of four, one extent is any
/// number, the others multiples of 4, 32 and 64, for alignment decides what is legal.
const PROBLEMS: usize = 2000;
const EXTENTS: [f64; 2] = [32.0, 8192.0];
const MULTIPLES: [u64; 4] = [1, 4, 32, 64];

/// What may be lost in the mean, as a logarithm of times, and a problem that no kernel serves.
const LOSS: f64 = 0.001;
const UNSERVED: f32 = 3.0;

/// The places of these among the kernels of a lesson, by what it expects.
pub(super) fn few(lesson: &Lesson, family: &Family, device: &Device) -> Vec<usize> {
    let problems = problems(lesson);
    let kernels: Vec<Configuration> = lesson.kernels(family).collect();
    // What each kernel takes over the best, as a logarithm: for each kernel the losses of all problems.
    let times: Vec<Vec<f32>> =
        kernels.par_iter().map(|one| times(lesson, (family, one), device, &problems)).collect();
    let bests: Vec<f32> = (0..problems.len())
        .map(|at| times.iter().map(|own| own[at]).fold(f32::INFINITY, f32::min))
        .collect();
    let loss = |time: f32, best: f32| (time - best).min(UNSERVED);
    let served: Vec<usize> = (0..problems.len()).filter(|at| bests[*at].is_finite()).collect();
    let losses: Vec<Vec<f32>> = times
        .iter()
        .map(|own| served.iter().map(|at| loss(own[*at], bests[*at])).collect())
        .collect();
    cover(&losses)
}

/// Places of rows, as few as a greedy choice needs, of which the mean of the least of each column is
/// [`LOSS`] at most.
fn cover(losses: &[Vec<f32>]) -> Vec<usize> {
    let columns = losses.first().map_or(0, Vec::len);
    let mut left = vec![UNSERVED; columns];
    let mut chosen = Vec::new();
    let sum = |values: &[f32]| values.iter().map(|value| f64::from(*value)).sum::<f64>();
    while sum(&left) > LOSS * columns as f64 && chosen.len() < losses.len() {
        let gain = |own: &Vec<f32>| -> f64 {
            let gains = own.iter().zip(&left).map(|(own, left)| f64::from((left - own).max(0.0)));
            gains.sum()
        };
        let gains: Vec<f64> = losses.par_iter().map(gain).collect();
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

/// The logarithms of what a kernel is expected to take for each problem; infinity where it is not legal.
fn times(
    lesson: &Lesson,
    (family, configuration): (&Family, &Configuration),
    device: &Device,
    problems: &[Problem],
) -> Vec<f32> {
    let reading = traits::Reading::of(family, &lesson.parameters);
    let mut times = vec![f32::INFINITY; problems.len()];
    for layout in Layout::ALL {
        let own = || problems.iter().enumerate().filter(|(_, problem)| problem.layout == *layout);
        let Some((_, pattern)) = own().next() else { continue };
        let Some(reading) = &reading else { continue };
        let Some(legality) = Legality::of(family, configuration, pattern, device) else { continue };
        let cost = cost(family, configuration, pattern, device);
        let known =
            super::Known { of_configuration: reading.of_configuration(configuration), cost };
        for (at, problem) in own() {
            let storage = Storage::packed(problem);
            if cost.fits(problem) && legality.permits(family, &mut Extents::new(problem, &storage))
            {
                let time = lesson.expects(&known, &Asked::of(problem, &storage), device);
                times[at] = time.0.ln() as f32;
            }
        }
    }
    times
}

/// Problems of a lesson's dtype and compute, always the same; every second one is of the layout `nn`, the
/// others are of any.
fn problems(lesson: &Lesson) -> Vec<Problem> {
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
            Problem { shape, batch: 1, dtype: lesson.dtype, compute: lesson.compute, layout }
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
        let mut chosen = cover(&losses);
        chosen.sort_unstable();
        assert!(chosen.starts_with(&[0, 1]) && chosen.contains(&3), "{chosen:?}");
        assert!(!chosen.contains(&2), "{chosen:?}");
        assert!(cover(&[]).is_empty());
        // What nothing serves stays so.
        assert_eq!(cover(&[vec![0.0, UNSERVED]]), [0]);
    }
}
