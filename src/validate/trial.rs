//! One run of a candidate on the host's device, and what its result is held against. Pure: works on
//! words of C, wherever they come from.

use super::bound::relative_bound;
use super::inputs::{Seeds, Values, uneven_scalars};
use super::region::{Region, Run, Source, Sums};
use crate::model::{Dtype, Mismatch, Problem};
use crate::worker::Scalars;

/// What a candidate is run with.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    name: String,
    problem: Problem,
    pub(super) values: Values,
    pub(super) scalars: Scalars,
    pub(super) bound: f64,
    seeds: Seeds,
}

impl Trial {
    /// Small integers, where every bit must be right.
    pub(super) fn small(problem: &Problem, seeds: Seeds) -> Self {
        Self {
            name: "small integers, alpha = 1, beta = 0".to_owned(),
            problem: *problem,
            values: Values::Small,
            scalars: Scalars::PLAIN,
            bound: 0.0,
            seeds,
        }
    }

    /// Uniform values with other factors, within the bound.
    pub(super) fn uniform(problem: &Problem, seeds: Seeds) -> Self {
        let scalars = uneven_scalars(problem.dtype);
        let Scalars { alpha, beta } = scalars;
        Self {
            name: format!("uniform values, alpha = {alpha}, beta = {beta}"),
            problem: *problem,
            values: Values::Uniform,
            scalars,
            bound: relative_bound(problem),
            seeds,
        }
    }

    /// The word that C holds at `index` before the run, where beta is not 0.
    pub(super) fn old_word(&self, index: u64) -> u32 {
        Values::Uniform.word_at(self.problem.dtype, index, self.seeds.c())
    }

    /// Compares what the run left in a region, given run by run, with what should be there. Gives
    /// the largest error.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn judge(&self, region: &Region, words: &[Vec<u32>]) -> Result<f64, Box<Mismatch>> {
        let source = Source { values: self.values, seeds: self.seeds.operands() };
        let sums = region.reference(&self.problem, source);
        let mut worst = Mismatch {
            check: self.name.clone(),
            at: None,
            got: 0.0,
            expected: 0.0,
            error: 0.0,
            bound: self.bound,
            wrong: 0,
        };
        for ((run, sums), words) in region.runs.iter().zip(&sums).zip(words) {
            for (i, word) in words.iter().enumerate() {
                let got = number(self.problem.dtype, *word);
                let (expected, unit) = self.expected(run, sums, i);
                let error = error(got, expected, unit);
                worst.wrong += u64::from(error > self.bound);
                if error > worst.error {
                    let at = Some([run.product, run.row, run.column + i as u64]);
                    worst = Mismatch { at, got, expected, error, ..worst };
                }
            }
        }
        if worst.wrong == 0 { Ok(worst.error) } else { Err(Box::new(worst)) }
    }

    /// What element `i` of a run should hold, and the unit that its error is measured in.
    fn expected(&self, run: &Run, sums: &Sums, i: usize) -> (f64, f64) {
        let (alpha, beta) = (f64::from(self.scalars.alpha), f64::from(self.scalars.beta));
        let mut scaled_old = 0.0;
        if beta != 0.0 {
            let index = run.index(&self.problem) + i as u64;
            scaled_old = beta * Values::Uniform.at(self.problem.dtype, index, self.seeds.c());
        }
        let exact = alpha * sums.values[i] + scaled_old;
        match self.problem.dtype {
            // Integers wrap. Products are below 10^6, so that the sum is exact here.
            Dtype::I32 => (f64::from(exact as i64 as i32), 1.0),
            Dtype::F32 | Dtype::F16 | Dtype::Bf16 if self.bound == 0.0 => (exact, 1.0),
            Dtype::F32 | Dtype::F16 | Dtype::Bf16 => {
                (exact, alpha.abs() * sums.magnitudes[i] + scaled_old.abs())
            }
        }
    }
}

/// The distance in a unit; infinite for what compares with nothing.
fn error(got: f64, expected: f64, unit: f64) -> f64 {
    if got == expected {
        return 0.0;
    }
    let error = (got - expected).abs() / unit;
    if error.is_nan() { f64::INFINITY } else { error }
}

/// The number that a word of C stands for.
fn number(dtype: Dtype, word: u32) -> f64 {
    match dtype {
        Dtype::I32 => f64::from(word.cast_signed()),
        Dtype::F32 | Dtype::F16 | Dtype::Bf16 => f64::from(f32::from_bits(word)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right_words(trial: &Trial, region: &Region) -> Vec<Vec<u32>> {
        let source = Source { values: trial.values, seeds: trial.seeds.operands() };
        let sums = region.reference(&trial.problem, source);
        let runs = region.runs.iter().zip(&sums);
        runs.map(|(run, sums)| {
            let word = |i| match trial.problem.dtype {
                Dtype::I32 => (trial.expected(run, sums, i).0 as i32).cast_unsigned(),
                _ => (trial.expected(run, sums, i).0 as f32).to_bits(),
            };
            (0..run.length as usize).map(word).collect()
        })
        .collect()
    }

    #[test]
    fn the_rounded_product_passes_and_one_wrong_element_is_found() {
        for dtype in [Dtype::F32, Dtype::I32] {
            let problem = Problem::new("9x11x300".parse().unwrap(), dtype);
            let region = Region::of(&problem, &[true; 99]);
            for trial in
                [Trial::small(&problem, Seeds::of(5)), Trial::uniform(&problem, Seeds::of(5))]
            {
                let mut words = right_words(&trial, &region);
                let error = trial.judge(&region, &words).unwrap();
                assert!(error <= trial.bound, "{trial:?}");
                words[4][7] ^= 1 << 20;
                let mismatch = trial.judge(&region, &words).unwrap_err();
                assert_eq!((mismatch.wrong, mismatch.at), (1, Some([0, 4, 7])), "{mismatch}");
                words[4][7] = f32::NAN.to_bits();
                assert!(trial.judge(&region, &words).is_err());
            }
        }
    }
}
