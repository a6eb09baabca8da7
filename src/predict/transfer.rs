//! Transfer of timings between related problems of one run: the errors of predictions for one problem correct the
//! predictions for others.
//!
//! A Gaussian process over configurations and problems ([`Posterior`]). Its lengths were chosen on 20 layers of a
//! language model, where the kernel with the lowest predicted time is 1.1 % slower than the best instead of 3.9 %.

use std::collections::{BTreeMap, HashSet};

use rayon::prelude::*;

use super::family_predictor::FamilyPredictor;
use super::features::ProblemFeatures;
use super::gaussian_process::{Posterior, dot, row_start};
use super::training::ProblemTimes;
use crate::model::{Configuration, Device, Micros, Problem, Storage, Value, statistics};
use crate::space::Family;

/// Length scales: the number of differing parameters at which correlation falls to 1/e, the factors of two in
/// extents at which it falls to 1/√e, and the distance of a transposed operand.
const CHANGES: f64 = 4.0;
const OCTAVES: f64 = 3.0;
const TRANSPOSED: f64 = 2.0;

/// Variance of the noise over that of the process.
const NOISE: f64 = 0.6;

/// Logarithms of times over the problem's best above which kernels are left out, and the largest error of one.
const USEFUL: f64 = 0.25;
const MOST_ERROR: f64 = 0.3;

/// Most observations that a correction uses: those of the nearest problems.
const MOST_OBSERVATIONS: usize = 400;

/// Correlation from which two problems are related.
const RELATED: f64 = 0.5;

/// Transfer model: observed errors of the families with a learned model, and the slowness of all families.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct TransferModel {
    observations: BTreeMap<String, Vec<Observation>>,
    /// For each problem, the time of each family's best over the best of all.
    slowness: Vec<(ProblemPoint, BTreeMap<String, f64>)>,
}

/// Error of one prediction.
#[derive(Debug, Clone, PartialEq)]
struct Observation {
    problem: ProblemPoint,
    values: ValueIndices,
    /// Logarithm of measured over predicted time, less the problem's median.
    error: f64,
}

/// A problem's coordinates: binary logarithms of M, N, K and the batch, and 2 for a transposed A and B.
type ProblemPoint = [f64; 6];

/// A configuration: the place of each value among those of its parameter.
type ValueIndices = Vec<usize>;

impl TransferModel {
    /// Adds the times of a problem, in place of its earlier ones. `predictors` has the families with a learned
    /// model.
    pub(super) fn learn(
        &mut self,
        measured: &ProblemTimes,
        predictors: &[(&Family, FamilyPredictor<'_>)],
        device: &Device,
    ) {
        let ProblemTimes { problem, times } = measured;
        let features = ProblemFeatures::of(problem, &Storage::packed(problem));
        let own = point(problem);
        self.slowness.retain(|(other, _)| *other != own);
        self.observations.values_mut().for_each(|all| all.retain(|one| one.problem != own));
        let best = measured.best();
        let mut slowness: BTreeMap<String, f64> = BTreeMap::new();
        for (family, _, time) in times {
            let least = slowness.entry(family.clone()).or_insert(f64::INFINITY);
            *least = least.min(time.0 / best);
        }
        if !slowness.is_empty() {
            self.slowness.push((own, slowness));
        }
        for (family, predictor) in predictors {
            let is_useful = |(name, _, time): &&(String, Configuration, Micros)| {
                *name == family.name && (time.0 / best).ln() <= USEFUL
            };
            let error = |(_, configuration, time): &(String, Configuration, Micros)| {
                let cost = super::cost((family, configuration), problem, device);
                let predicted = predictor.time(configuration, &cost, &features);
                let error = (time.0 / predicted.0).ln().clamp(-MOST_ERROR, MOST_ERROR);
                (values(family, configuration), error)
            };
            let errors: Vec<(ValueIndices, f64)> =
                times.par_iter().filter(is_useful).map(error).collect();
            let all: Vec<f64> = errors.iter().map(|(_, error)| *error).collect();
            let median = statistics::median(&all).unwrap_or(0.0);
            let own_errors = errors.into_iter().map(|(values, error)| Observation {
                problem: own,
                values,
                error: error - median,
            });
            self.observations.entry(family.name.clone()).or_default().extend(own_errors);
        }
    }

    /// Whether a related problem has been observed.
    pub(super) fn has_related(&self, problem: &Problem) -> bool {
        let here = point(problem);
        self.slowness.iter().any(|(other, _)| are_related(&here, other))
    }

    /// Least time of a family's best over the best of all, for related problems; `None` where it was tried for
    /// none.
    pub(super) fn slowness(&self, family: &Family, problem: &Problem) -> Option<f64> {
        let here = point(problem);
        let related = self.slowness.iter().filter(|(other, _)| are_related(&here, other));
        let own = related.filter_map(|(_, slowness)| slowness.get(&family.name).copied());
        own.reduce(f64::min)
    }

    /// The correction of a family's predictions for a problem; `None` without a related one.
    pub(super) fn correction(&self, family: &Family, problem: &Problem) -> Option<Correction<'_>> {
        let here = point(problem);
        let all = self.observations.get(&family.name)?;
        let others = all.iter().filter(|one| one.problem != here);
        let mut near: Vec<(f64, &Observation)> =
            others.map(|one| (correlation(&here, &one.problem), one)).collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        near.truncate(MOST_OBSERVATIONS);
        if near.first().is_none_or(|(correlation, _)| *correlation < RELATED) {
            return None;
        }
        let mut correlations = Vec::with_capacity(row_start(near.len()));
        for (row, (_, one)) in near.iter().enumerate() {
            let others = near[..row].iter().map(|(_, other)| {
                correlation(&one.problem, &other.problem) * similarity(&one.values, &other.values)
            });
            correlations.extend(others);
            correlations.push(1.0 + NOISE);
        }
        let errors: Vec<f64> = near.iter().map(|(_, one)| one.error).collect();
        let mut weights = Posterior::of(correlations, near.len(), &errors)?.weights;
        for (weight, (correlation, _)) in weights.iter_mut().zip(&near) {
            *weight *= correlation;
        }
        let values = near.into_iter().map(|(_, one)| &one.values).collect();
        let [.., a, b] = here;
        let is_alike = |one: &&Observation| matches!(one.problem, [.., x, y] if (x, y) == (a, b));
        let compiled = all.iter().filter(is_alike).map(|one| &one.values).collect();
        Some(Correction { values, weights, compiled })
    }
}

/// Correction of the predictions of one family for one problem.
#[derive(Debug)]
pub(super) struct Correction<'m> {
    values: Vec<&'m ValueIndices>,
    weights: Vec<f64>,
    compiled: HashSet<&'m ValueIndices>,
}

impl Correction<'_> {
    /// Factor on the predicted time of a kernel.
    pub(super) fn factor(&self, family: &Family, configuration: &Configuration) -> f64 {
        let own = values(family, configuration);
        let similar: Vec<f64> = self.values.iter().map(|other| similarity(&own, other)).collect();
        dot(&similar, &self.weights).exp()
    }

    /// Whether a kernel was among the good ones for a problem of the same layout: its source is usually the same,
    /// so that nothing is left to compile.
    pub(super) fn is_compiled(&self, family: &Family, configuration: &Configuration) -> bool {
        self.compiled.contains(&values(family, configuration))
    }
}

/// The coordinates of a problem, of which similar problems have similar ones.
pub(crate) fn point(problem: &Problem) -> [f64; 6] {
    let shape = problem.shape;
    let [m, n, k, batch] =
        [shape.m, shape.n, shape.k, problem.batch].map(|extent| (extent as f64).log2());
    let layout = problem.layout;
    let [a, b] = [layout.a_transposed(), layout.b_transposed()]
        .map(|is| TRANSPOSED * f64::from(u8::from(is)));
    [m, n, k, batch, a, b]
}

/// Whether two problems are related; none is related to itself.
fn are_related(one: &ProblemPoint, other: &ProblemPoint) -> bool {
    one != other && correlation(one, other) >= RELATED
}

/// The correlation of two problems.
fn correlation(one: &ProblemPoint, other: &ProblemPoint) -> f64 {
    let squares: f64 = one.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum();
    (-0.5 * squares / (OCTAVES * OCTAVES)).exp()
}

fn values(family: &Family, configuration: &Configuration) -> ValueIndices {
    let index = |(name, all): (&String, &Vec<Value>)| {
        let value = configuration.get(name).or(all.first());
        value.and_then(|value| all.iter().position(|one| one == value)).unwrap_or(usize::MAX)
    };
    family.parameters.iter().map(index).collect()
}

/// The correlation of two configurations.
fn similarity(one: &ValueIndices, other: &ValueIndices) -> f64 {
    let changes = one.iter().zip(other).filter(|(a, b)| a != b).count();
    (-(changes as f64) / CHANGES).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dtype;
    use crate::predict::{LearnedModel, PredictedTime, Predictor};
    use crate::render::Templates;
    use crate::space::Families;

    fn problem(shape: &str) -> Problem {
        Problem::new(shape.parse().unwrap(), Dtype::F32)
    }

    /// The learned model of `pipelined` and that family.
    fn built_in() -> (Predictor, Vec<Family>) {
        let families = vec![Families::built_in().unwrap().get("pipelined").unwrap().clone()];
        let learned = LearnedModel::built_in(&Device::h200()).unwrap();
        let (predictor, stale) =
            Predictor::new(learned, &families, &Templates::built_in().unwrap());
        assert!(stale.is_empty(), "{stale:?}");
        (predictor, families)
    }

    /// Some configurations of a family, with their predicted times for a problem.
    fn predicted(
        predictor: &Predictor,
        family: &Family,
        shape: &str,
    ) -> Vec<(Configuration, PredictedTime)> {
        let (device, problem) = (Device::h200(), problem(shape));
        let own = predictor.family(family, &problem, &device).unwrap();
        let kernels = own.model.kernels(family).take(40);
        let time = |configuration: Configuration| {
            let time = predictor.time((family, &configuration), &problem, &device);
            (configuration, time)
        };
        kernels.map(time).collect()
    }

    #[test]
    fn errors_correct_the_same_and_similar_kernels_for_related_problems() {
        let (mut predictor, families) = built_in();
        let (family, device) = (&families[0], Device::h200());
        let all = predicted(&predictor, family, "1024x2048x2048");
        let least = all.iter().map(|(_, one)| one.time.0).fold(f64::INFINITY, f64::min);
        let good: Vec<_> = all.into_iter().filter(|(_, one)| one.time.0 < 1.2 * least).collect();
        assert!(good.len() > 5, "{}", good.len());
        // The first is 10 % slower than predicted, the others are as predicted.
        let times = good.iter().enumerate().map(|(at, (configuration, one))| {
            let factor = if at == 0 { 1.1 } else { 1.0 };
            ("pipelined".to_owned(), configuration.clone(), Micros(one.time.0 * factor))
        });
        let measured = ProblemTimes { problem: problem("1024x2048x2048"), times: times.collect() };
        predictor.observe(&measured, &families, &device);
        let transfer = predictor.transfer_model();
        let factor = |shape: &str, at: usize| {
            let correction = transfer.correction(family, &problem(shape))?;
            Some(correction.factor(family, &good[at].0))
        };
        let near = factor("1024x4096x2048", 0).unwrap();
        assert!((1.02..1.1).contains(&near), "{near}");
        let other = factor("1024x4096x2048", good.len() - 1).unwrap();
        assert!(other < near && (0.97..1.03).contains(&other), "{other}");
        let farther = factor("512x8192x1024", 0).unwrap();
        assert!(farther < near, "{farther} {near}");
        assert_eq!(factor("64x64x65536", 0), None, "it is not related");
        assert_eq!(factor("1024x2048x2048", 0), None, "nor is it to itself");
        let correction = transfer.correction(family, &problem("1024x4096x2048")).unwrap();
        assert!(correction.is_compiled(family, &good[0].0));
        let others = predicted(&predictor, family, "64x64x64");
        let is_other = |configuration: &Configuration| good.iter().all(|(c, _)| c != configuration);
        let other = others.iter().map(|(configuration, _)| configuration).find(|c| is_other(c));
        assert!(!correction.is_compiled(family, other.unwrap()));
        let mut again = predictor.clone();
        again.observe(&measured, &families, &device);
        assert_eq!(again.transfer_model(), transfer, "new times replace those of the same problem");
        let slowness = transfer.slowness(family, &problem("1024x4096x2048"));
        assert_eq!(slowness, Some(1.0), "no other family was tried");
        assert_eq!(transfer.slowness(family, &problem("64x64x65536")), None);
    }

    #[test]
    fn without_times_there_is_no_correction() {
        let (mut predictor, families) = built_in();
        let before = predictor.transfer_model().clone();
        assert!(before.correction(&families[0], &problem("64x64x64")).is_none());
        let nothing = ProblemTimes { problem: problem("64x64x64"), times: Vec::new() };
        predictor.observe(&nothing, &families, &Device::h200());
        assert!(!predictor.has_related(&problem("64x64x128")));
    }
}
