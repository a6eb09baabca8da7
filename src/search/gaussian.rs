//! Gaussian process over encoded configurations: expected values of points that were not evaluated, and
//! their uncertainty (Rasmussen and Williams 2006, chapters 2 and 5).
//!
//! The correlation of two points is a product over the axes of (1 + w r) / (1 + w), where r is a
//! Matern 5/2 correlation along that axis. The constant keeps points correlated that differ much in one
//! parameter only.

use fastrand::Rng;
use rayon::prelude::*;

use super::encoding::{EncodedPoint, Encoding, EncodingAxis};
use crate::predict::gaussian_process::{LANES, Posterior, TriangularFactor, row_start};

/// Points that the covariance is fitted to: half of them the best.
const FITTED: usize = 80;

/// Random moves that are evaluated in parallel. After an accepted move the later ones are drawn again, so
/// that fits end where they would with one move at a time.
const SPECULATED: usize = 4;

/// Parameters of the covariance function.
#[derive(Debug, Clone)]
pub(super) struct Covariance {
    /// Length scale along each axis, in its standard deviations.
    lengths: Vec<f64>,
    /// The w of the module's formula.
    weight: f64,
    /// The variance of noise over that of the process.
    noise: f64,
}

impl Covariance {
    /// Start of a fit, and mode of the prior.
    fn prior(axes: usize) -> Self {
        Self { lengths: vec![2.0; axes], weight: 1.0, noise: 1e-3 }
    }

    /// Negative logarithm of the prior, up to a constant.
    fn penalty(&self) -> f64 {
        let lengths = self.lengths.iter().map(|length| (length / 1.5).ln().powi(2));
        let others = self.weight.ln().powi(2) + (self.noise / 1e-3).ln().powi(2);
        0.15 * lengths.sum::<f64>() + 0.1 * others
    }

    /// A random neighbour.
    fn moved(&self, rng: &mut Rng) -> Self {
        let mut moved = self.clone();
        let at = rng.f64();
        if at < 0.7 && !moved.lengths.is_empty() {
            let axis = rng.usize(..moved.lengths.len());
            moved.lengths[axis] = (moved.lengths[axis] * normal(rng).exp()).clamp(0.2, 30.0);
        } else if at < 0.85 {
            let factor = (0.5 * normal(rng)).exp();
            for length in &mut moved.lengths {
                *length = (*length * factor).clamp(0.2, 30.0);
            }
        } else if at < 0.95 {
            moved.weight = (moved.weight * normal(rng).exp()).clamp(0.05, 200.0);
        } else {
            moved.noise = (moved.noise * normal(rng).exp()).clamp(1e-4, 0.1);
        }
        moved
    }

    /// Correlation of each pair of levels, for each axis.
    fn tables(&self, encoding: &Encoding) -> Vec<Vec<f32>> {
        let axes = encoding.axes.iter().zip(&self.lengths);
        axes.map(|(axis, length)| self.table(axis, *length)).collect()
    }

    fn table(&self, axis: &EncodingAxis, length: f64) -> Vec<f32> {
        let levels = 0..axis.values.len() as u8;
        let pairs = levels.clone().flat_map(|one| levels.clone().map(move |other| (one, other)));
        let correlations = pairs.map(|(one, other)| {
            let far = 5f64.sqrt() * f64::from(axis.distance(one, other).abs()) / length;
            let matern = (1.0 + far + far * far / 3.0) * (-far).exp();
            ((1.0 + self.weight * matern) / (1.0 + self.weight)) as f32
        });
        correlations.collect()
    }
}

/// Draws from the standard normal distribution (Box and Muller 1958).
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * rng.f64().max(1e-300).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

/// Process conditioned on evaluated points.
#[derive(Debug)]
pub(super) struct Gaussian {
    pub(super) covariance: Covariance,
    tables: Vec<Vec<f32>>,
    /// Points with targets, then points under evaluation.
    observed: Vec<EncodedPoint>,
    factor: TriangularFactor,
    /// Weight of each target in a mean.
    weights: Vec<f32>,
    mean: f64,
    deviation: f64,
    /// Variance of the process over that of the targets.
    amplitude: f64,
}

/// Means and variances of a pool of points.
#[derive(Debug)]
pub(super) struct Prediction {
    pub(super) means: Vec<f64>,
    /// Above zero.
    pub(super) variances: Vec<f64>,
    /// L^-1 times the correlations with the observed points, for `LANES` points at a time: a row for
    /// each observed point and each supposed one.
    whitened: Vec<Vec<[f32; LANES]>>,
}

impl Gaussian {
    /// Conditions a process on `targets` at the first points; the other points are under evaluation. Variances
    /// do not depend on their values. Fits the covariance by random `moves`, starting at an earlier fit.
    pub(super) fn fit(
        encoding: &Encoding,
        observed: &[&EncodedPoint],
        targets: &[f64],
        earlier: Option<Covariance>,
        moves: usize,
        rng: &mut Rng,
    ) -> Option<Self> {
        let count = targets.len() as f64;
        let mean = targets.iter().sum::<f64>() / count;
        let squares: f64 = targets.iter().map(|target| (target - mean).powi(2)).sum();
        let deviation = (squares / count).sqrt().max(1e-9);
        let scaled: Vec<f64> = targets.iter().map(|target| (target - mean) / deviation).collect();

        let mut best = earlier.unwrap_or_else(|| Covariance::prior(encoding.axes.len()));
        if moves > 0 {
            let chosen = fitted(&scaled, rng);
            let points: Vec<&EncodedPoint> = chosen.iter().map(|at| observed[*at]).collect();
            let scaled: Vec<f64> = chosen.iter().map(|at| scaled[*at]).collect();
            let likelihood = |covariance: &Covariance| {
                let tables = covariance.tables(encoding);
                let solved = posterior(&tables, &points, &scaled, covariance.noise);
                solved.map_or(f64::NEG_INFINITY, |solved| solved.likelihood - covariance.penalty())
            };
            let mut highest = likelihood(&best);
            let mut left = moves;
            while left > 0 {
                // Each with the generator's state after it.
                let moves = (0..left.min(SPECULATED)).map(|_| (best.moved(rng), rng.clone()));
                let moves: Vec<(Covariance, Rng)> = moves.collect();
                let tried = moves.par_iter().map(|(moved, _)| likelihood(moved));
                let tried: Vec<f64> = tried.collect();
                let accepted = tried.iter().position(|likelihood| *likelihood > highest);
                left -= accepted.map_or(tried.len(), |at| at + 1);
                if let Some(at) = accepted {
                    highest = tried[at];
                    (best, *rng) = moves[at].clone();
                }
            }
        }
        let tables = best.tables(encoding);
        let solved = posterior(&tables, observed, &scaled, best.noise)?;
        Some(Self {
            covariance: best,
            tables,
            observed: observed.iter().map(|point| (*point).clone()).collect(),
            factor: solved.factor(),
            weights: solved.weights.iter().map(|weight| *weight as f32).collect(),
            mean,
            deviation,
            amplitude: solved.amplitude,
        })
    }

    /// Predicts `points`.
    pub(super) fn predict(&self, points: &[EncodedPoint]) -> Prediction {
        // Correlations with all observed points, by axis and level.
        let rows = self.tables.iter().enumerate().map(|(axis, table)| {
            let levels = width(table);
            let of_level = |level: usize| -> Vec<f32> {
                let others = self.observed.iter().map(|other| usize::from(other[axis]));
                others.map(|other| table[level * levels + other]).collect()
            };
            (0..levels).map(of_level).collect::<Vec<_>>()
        });
        let rows: Vec<Vec<Vec<f32>>> = rows.collect();
        let parts: Vec<_> =
            points.par_chunks(LANES).map(|points| self.predict_batch(&rows, points)).collect();
        let mut prediction = Prediction {
            means: Vec::with_capacity(points.len()),
            variances: Vec::with_capacity(points.len()),
            whitened: Vec::with_capacity(parts.len()),
        };
        for (means, variances, whitened) in parts {
            prediction.means.extend(means);
            prediction.variances.extend(variances);
            prediction.whitened.push(whitened);
        }
        prediction.means.truncate(points.len());
        prediction.variances.truncate(points.len());
        prediction
    }

    /// Means, variances and whitened correlations of up to `LANES` points.
    fn predict_batch(
        &self,
        rows: &[Vec<Vec<f32>>],
        points: &[EncodedPoint],
    ) -> ([f64; LANES], [f64; LANES], Vec<[f32; LANES]>) {
        let count = self.observed.len();
        let mut whitened = vec![[0f32; LANES]; count];
        let mut means = [0f64; LANES];
        let mut correlations = vec![1f32; count];
        for (lane, point) in points.iter().enumerate() {
            correlations.fill(1.0);
            for (levels, level) in rows.iter().zip(point.iter()) {
                for (correlation, factor) in
                    correlations.iter_mut().zip(&levels[usize::from(*level)])
                {
                    *correlation *= factor;
                }
            }
            let weighted = correlations.iter().zip(&self.weights).map(|(a, b)| a * b);
            means[lane] = self.mean + self.deviation * f64::from(weighted.sum::<f32>());
            for (row, correlation) in whitened.iter_mut().zip(&correlations) {
                row[lane] = *correlation;
            }
        }
        let explained = self.factor.whiten(&mut whitened);
        let variance =
            explained.map(|explained| f64::from((1.0 - explained).max(1e-6)) * self.unit());
        (means, variance, whitened)
    }

    /// Prior variance of a point.
    fn unit(&self) -> f64 {
        self.amplitude * self.deviation * self.deviation
    }

    fn correlation(&self, one: &EncodedPoint, other: &EncodedPoint) -> f32 {
        let levels = one.iter().zip(other.iter());
        let tables = levels.zip(&self.tables).map(|((one, other), table)| {
            let levels = width(table);
            table[usize::from(*one) * levels + usize::from(*other)]
        });
        tables.product()
    }

    /// Conditions variances on one of the predicted points, as if it were observed. They do not depend on its
    /// value.
    pub(super) fn suppose(
        &self,
        prediction: &mut Prediction,
        points: &[EncodedPoint],
        observed: usize,
    ) {
        let (block, lane) = (observed / LANES, observed % LANES);
        let own: Vec<f32> = prediction.whitened[block].iter().map(|row| row[lane]).collect();
        let own_variance = prediction.variances[observed] / self.unit() + self.covariance.noise;
        let scale = 1.0 / own_variance.sqrt() as f32;
        let blocks =
            prediction.whitened.par_iter_mut().zip(prediction.variances.par_chunks_mut(LANES));
        let blocks = blocks.zip(points.par_chunks(LANES)).with_min_len(8);
        blocks.for_each(|((rows, variances), others)| {
            let mut shared = [0f32; LANES];
            for (own, row) in own.iter().zip(rows.iter()) {
                for lane in 0..LANES {
                    shared[lane] += own * row[lane];
                }
            }
            let mut row = [0f32; LANES];
            for (lane, (other, variance)) in others.iter().zip(variances).enumerate() {
                row[lane] = (self.correlation(&points[observed], other) - shared[lane]) * scale;
                let explained = f64::from(row[lane] * row[lane]) * self.unit();
                *variance = (*variance - explained).max(1e-6 * self.unit());
            }
            rows.push(row);
        });
    }
}

/// Targets that a covariance is fitted to: the best and a random sample of the others.
fn fitted(targets: &[f64], rng: &mut Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..targets.len()).collect();
    if order.len() > FITTED {
        order.sort_by(|a, b| targets[*a].total_cmp(&targets[*b]));
        rng.shuffle(&mut order[FITTED / 2..]);
        order.truncate(FITTED);
    }
    order
}

/// Conditions on `targets` at the first points. `None` where points are too much alike.
fn posterior(
    tables: &[Vec<f32>],
    points: &[&EncodedPoint],
    targets: &[f64],
    noise: f64,
) -> Option<Posterior> {
    let mut correlations = Vec::with_capacity(row_start(points.len()));
    let axes: Vec<(usize, &[f32])> =
        tables.iter().map(|table| (width(table), table.as_slice())).collect();
    // The correlations of a point's levels with all others, for each axis.
    let mut rows: Vec<&[f32]> = Vec::with_capacity(axes.len());
    for (row, point) in points.iter().enumerate() {
        rows.clear();
        for (level, (width, table)) in point.iter().zip(&axes) {
            rows.push(&table[usize::from(*level) * width..][..*width]);
        }
        correlations.extend(points[..row].iter().map(|other| {
            let levels = other.iter().zip(&rows);
            f64::from(levels.map(|(level, row)| row[usize::from(*level)]).product::<f32>())
        }));
        correlations.push(1.0 + noise);
    }
    Posterior::of(correlations, points.len(), targets)
}

/// Number of levels in a table of their correlations.
fn width(table: &[f32]) -> usize {
    table.len().isqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Value;
    use crate::space::LegalSpace;

    /// Two axes of eight values, and a target that depends on both.
    fn grid() -> (Encoding, Vec<EncodedPoint>, Vec<f64>) {
        let values = (0..8).map(|value| Value::Int(1 << value)).collect::<Vec<_>>();
        let parameters = vec![("X".to_owned(), values.clone()), ("Y".to_owned(), values)];
        let all: Vec<Vec<usize>> = (0..64).map(|at| vec![at / 8, at % 8]).collect();
        let space = LegalSpace::of_recorded(parameters, all.clone()).unwrap();
        let encoding = Encoding::of(&space);
        let points = all.iter().map(|indices| encoding.point(indices)).collect();
        let target = |indices: &Vec<usize>| {
            (indices[0] as f64 - 4.5).powi(2) / 9.0 + (indices[1] as f64 / 2.0).sin()
        };
        (encoding, points, all.iter().map(target).collect())
    }

    #[test]
    fn a_process_reproduces_observations_and_interpolates_between_them() {
        let (encoding, points, targets) = grid();
        let observed: Vec<usize> = (0..64).filter(|at| at % 3 != 0).collect();
        let known: Vec<&EncodedPoint> = observed.iter().map(|at| &points[*at]).collect();
        let known_targets: Vec<f64> = observed.iter().map(|at| targets[*at]).collect();
        let mut rng = Rng::with_seed(1);
        let process = Gaussian::fit(&encoding, &known, &known_targets, None, 80, &mut rng).unwrap();
        let prediction = process.predict(&points);
        for (at, (mean, target)) in prediction.means.iter().zip(&targets).enumerate() {
            let (near, sure) = if at % 3 == 0 { (0.25, 0.5) } else { (0.05, 0.1) };
            assert!((mean - target).abs() < near, "{at}: {mean} for {target}");
            assert!(prediction.variances[at].sqrt() < sure, "{at}: {}", prediction.variances[at]);
        }
    }

    #[test]
    fn supposing_a_point_gives_the_variances_of_observing_it() {
        let (encoding, points, targets) = grid();
        let known: Vec<&EncodedPoint> = points.iter().step_by(5).collect();
        let known_targets: Vec<f64> = targets.iter().copied().step_by(5).collect();
        let mut rng = Rng::with_seed(2);
        let process = Gaussian::fit(&encoding, &known, &known_targets, None, 0, &mut rng).unwrap();
        let mut supposed = process.predict(&points);
        process.suppose(&mut supposed, &points, 33);
        process.suppose(&mut supposed, &points, 12);
        let mut more = known;
        more.extend([&points[33], &points[12]]);
        // Their values have no effect.
        let conditioned =
            Gaussian::fit(&encoding, &more, &known_targets, None, 0, &mut rng).unwrap();
        let expected = conditioned.predict(&points);
        assert_eq!(expected.means, supposed.means);

        // Both variances, by the formula.
        let mut correlations = Vec::new();
        for (row, one) in more.iter().enumerate() {
            let others = more[..row].iter();
            correlations.extend(others.map(|other| f64::from(process.correlation(one, other))));
            correlations.push(1.0 + process.covariance.noise);
        }
        let factor = Posterior::of(correlations, more.len(), &[]).unwrap().factor();
        for (at, point) in points.iter().enumerate() {
            let row = |other: &&EncodedPoint| [process.correlation(point, other); LANES];
            let explained = factor.whiten(&mut more.iter().map(row).collect::<Vec<_>>())[0];
            let variance = (1.0 - f64::from(explained)) * process.unit();
            for found in [supposed.variances[at], expected.variances[at]] {
                let off = (found - variance).abs();
                assert!(off < 1e-3 * process.unit(), "{at}: {found} {variance}");
            }
        }
    }

    #[test]
    fn equal_points_need_noise() {
        let tables = [vec![1f32; 4]];
        let point: EncodedPoint = Box::new([0]);
        assert!(posterior(&tables, &[&point, &point], &[1.0, 2.0], 0.0).is_none());
        assert!(posterior(&tables, &[&point, &point], &[1.0, 2.0], 1e-3).is_some());
    }
}
