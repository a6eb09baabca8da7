//! A Gaussian process over points: what it expects of a point that was not evaluated, and how
//! unsure it is (Rasmussen and Williams 2006, chapters 2 and 5).
//!
//! The correlation of two points is a product over the axes of (1 + w r) / (1 + w), where r is a
//! Matern 5/2 correlation along that axis. The constant lets a point say something of others
//! that differ from it much in one parameter: what the others do carries over.

use fastrand::Rng;
use rayon::prelude::*;

use super::encoding::{Axis, Encoding, Point};
use crate::predict::cholesky::{backward, decompose, dot, forward, row_start};

/// Points that the correlation is fitted to: half of them the best.
const FITTED: usize = 80;

/// Random moves that are tried side by side, as if none of them were made. Where one is, those behind it are
/// drawn and tried anew: fits end where they would one move after the other.
const GUESSED: usize = 4;

/// Points whose equations are solved at once: four registers of four.
const LANES: usize = 16;

/// What says how alike points are.
#[derive(Debug, Clone)]
pub(super) struct Correlation {
    /// Along each axis, in its standard deviations.
    lengths: Vec<f64>,
    /// The w of the module's formula.
    weight: f64,
    /// The variance of noise over that of the process.
    noise: f64,
}

impl Correlation {
    /// Where fitting begins, and what it is drawn to.
    fn prior(axes: usize) -> Self {
        Self { lengths: vec![2.0; axes], weight: 1.0, noise: 1e-3 }
    }

    /// The logarithm of how improbable it is, up to a constant.
    fn penalty(&self) -> f64 {
        let lengths = self.lengths.iter().map(|length| (length / 1.5).ln().powi(2));
        let others = self.weight.ln().powi(2) + (self.noise / 1e-3).ln().powi(2);
        0.15 * lengths.sum::<f64>() + 0.1 * others
    }

    /// Another one nearby.
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

    /// For each axis, the correlation of each two levels.
    fn tables(&self, terrain: &Encoding) -> Vec<Vec<f32>> {
        let axes = terrain.axes.iter().zip(&self.lengths);
        axes.map(|(axis, length)| self.table(axis, *length)).collect()
    }

    fn table(&self, axis: &Axis, length: f64) -> Vec<f32> {
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

/// A number of the standard normal distribution (Box and Muller 1958).
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * rng.f64().max(1e-300).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

/// A process that knows some points.
#[derive(Debug)]
pub(super) struct Gaussian {
    pub(super) correlation: Correlation,
    tables: Vec<Vec<f32>>,
    /// Those whose targets are known, then those whose targets will be.
    known: Vec<Point>,
    /// Lower triangle, row by row: L of the correlations' Cholesky decomposition.
    factor: Vec<f32>,
    /// What each target weighs: the inverse of the correlations times them.
    weights: Vec<f32>,
    mean: f64,
    deviation: f64,
    /// The variance of the process, in those of the targets.
    amplitude: f64,
}

/// What a process believes of some points.
#[derive(Debug)]
pub(super) struct Belief {
    pub(super) means: Vec<f64>,
    /// Above zero.
    pub(super) variances: Vec<f64>,
    /// L^-1 times the correlations with the known points, for `LANES` points at a time: a row for
    /// each known point, and for each that was taken as observed since.
    whitened: Vec<Vec<[f32; LANES]>>,
}

impl Gaussian {
    /// A process that knows `targets` at the first `known` points, and that it will know those of the others:
    /// how unsure it is of a point does not depend on their values. Its correlation is searched for in so
    /// many random `moves` from where an earlier one ended.
    pub(super) fn fit(
        terrain: &Encoding,
        known: &[&Point],
        targets: &[f64],
        earlier: Option<Correlation>,
        moves: usize,
        rng: &mut Rng,
    ) -> Option<Self> {
        let count = targets.len() as f64;
        let mean = targets.iter().sum::<f64>() / count;
        let squares: f64 = targets.iter().map(|target| (target - mean).powi(2)).sum();
        let deviation = (squares / count).sqrt().max(1e-9);
        let scaled: Vec<f64> = targets.iter().map(|target| (target - mean) / deviation).collect();

        let mut best = earlier.unwrap_or_else(|| Correlation::prior(terrain.axes.len()));
        if moves > 0 {
            let chosen = fitted(&scaled, rng);
            let points: Vec<&Point> = chosen.iter().map(|at| known[*at]).collect();
            let scaled: Vec<f64> = chosen.iter().map(|at| scaled[*at]).collect();
            let likelihood = |correlation: &Correlation| {
                let tables = correlation.tables(terrain);
                let solved = Solved::of(&tables, &points, &scaled, correlation.noise);
                solved.map_or(f64::NEG_INFINITY, |solved| solved.likelihood - correlation.penalty())
            };
            let mut highest = likelihood(&best);
            let mut left = moves;
            while left > 0 {
                // Each with what would be drawn after it.
                let guesses = (0..left.min(GUESSED)).map(|_| (best.moved(rng), rng.clone()));
                let guesses: Vec<(Correlation, Rng)> = guesses.collect();
                let tried = guesses.par_iter().map(|(moved, _)| likelihood(moved));
                let tried: Vec<f64> = tried.collect();
                let made = tried.iter().position(|likelihood| *likelihood > highest);
                left -= made.map_or(tried.len(), |at| at + 1);
                if let Some(at) = made {
                    highest = tried[at];
                    (best, *rng) = guesses[at].clone();
                }
            }
        }
        let tables = best.tables(terrain);
        let solved = Solved::of(&tables, known, &scaled, best.noise)?;
        Some(Self {
            correlation: best,
            tables,
            known: known.iter().map(|point| (*point).clone()).collect(),
            factor: solved.factor.iter().map(|entry| *entry as f32).collect(),
            weights: solved.weights.iter().map(|weight| *weight as f32).collect(),
            mean,
            deviation,
            amplitude: solved.amplitude,
        })
    }

    /// What it believes of `points`.
    pub(super) fn survey(&self, points: &[Point]) -> Belief {
        // Correlations with all known points, by axis and level.
        let rows = self.tables.iter().enumerate().map(|(axis, table)| {
            let levels = width(table);
            let of_level = |level: usize| -> Vec<f32> {
                let others = self.known.iter().map(|known| usize::from(known[axis]));
                others.map(|other| table[level * levels + other]).collect()
            };
            (0..levels).map(of_level).collect::<Vec<_>>()
        });
        let rows: Vec<Vec<Vec<f32>>> = rows.collect();
        let parts: Vec<_> =
            points.par_chunks(LANES).map(|points| self.survey_few(&rows, points)).collect();
        let mut belief = Belief {
            means: Vec::with_capacity(points.len()),
            variances: Vec::with_capacity(points.len()),
            whitened: Vec::with_capacity(parts.len()),
        };
        for (means, variances, whitened) in parts {
            belief.means.extend(means);
            belief.variances.extend(variances);
            belief.whitened.push(whitened);
        }
        belief.means.truncate(points.len());
        belief.variances.truncate(points.len());
        belief
    }

    /// Means, variances and whitened correlations of up to `LANES` points.
    fn survey_few(
        &self,
        rows: &[Vec<Vec<f32>>],
        points: &[Point],
    ) -> ([f64; LANES], [f64; LANES], Vec<[f32; LANES]>) {
        let count = self.known.len();
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
        // Forward substitution, all lanes at once.
        let mut explained = [0f32; LANES];
        for at in 0..count {
            let factors = &self.factor[row_start(at)..][..=at];
            // A copy, for the compiler keeps in registers what nothing else can be.
            let mut row = whitened[at];
            for (factor, solved) in factors.iter().zip(&whitened[..at]) {
                for lane in 0..LANES {
                    row[lane] -= factor * solved[lane];
                }
            }
            let scale = 1.0 / factors[at];
            for lane in 0..LANES {
                row[lane] *= scale;
                explained[lane] += row[lane] * row[lane];
            }
            whitened[at] = row;
        }
        let variance =
            explained.map(|explained| f64::from((1.0 - explained).max(1e-6)) * self.unit());
        (means, variance, whitened)
    }

    /// The variance of a point of which nothing is known.
    fn unit(&self) -> f64 {
        self.amplitude * self.deviation * self.deviation
    }

    fn alike(&self, one: &Point, other: &Point) -> f32 {
        let levels = one.iter().zip(other.iter());
        let tables = levels.zip(&self.tables).map(|((one, other), table)| {
            let levels = width(table);
            table[usize::from(*one) * levels + usize::from(*other)]
        });
        tables.product()
    }

    /// Takes one of the points of a belief as observed, whatever its value: how unsure the others
    /// are does not depend on that.
    pub(super) fn suppose(&self, belief: &mut Belief, points: &[Point], observed: usize) {
        let (block, lane) = (observed / LANES, observed % LANES);
        let own: Vec<f32> = belief.whitened[block].iter().map(|row| row[lane]).collect();
        let known = belief.variances[observed] / self.unit() + self.correlation.noise;
        let scale = 1.0 / known.sqrt() as f32;
        let blocks = belief.whitened.par_iter_mut().zip(belief.variances.par_chunks_mut(LANES));
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
                row[lane] = (self.alike(&points[observed], other) - shared[lane]) * scale;
                let explained = f64::from(row[lane] * row[lane]) * self.unit();
                *variance = (*variance - explained).max(1e-6 * self.unit());
            }
            rows.push(row);
        });
    }
}

/// Which targets a correlation is fitted to: the best, which it should get right, and some others.
fn fitted(targets: &[f64], rng: &mut Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..targets.len()).collect();
    if order.len() > FITTED {
        order.sort_by(|a, b| targets[*a].total_cmp(&targets[*b]));
        rng.shuffle(&mut order[FITTED / 2..]);
        order.truncate(FITTED);
    }
    order
}

/// The equations of a process.
struct Solved {
    factor: Vec<f64>,
    weights: Vec<f64>,
    amplitude: f64,
    /// The logarithm of the likelihood of the targets, with the amplitude that makes it highest, up
    /// to a constant; times two.
    likelihood: f64,
}

impl Solved {
    /// The first points are those of the targets. None where points are so alike that the equations cannot
    /// be solved.
    fn of(tables: &[Vec<f32>], points: &[&Point], targets: &[f64], noise: f64) -> Option<Self> {
        let mut factor = Vec::with_capacity(row_start(points.len()));
        let axes: Vec<(usize, &[f32])> =
            tables.iter().map(|table| (width(table), table.as_slice())).collect();
        // The correlations of a point's levels with all others, for each axis.
        let mut rows: Vec<&[f32]> = Vec::with_capacity(axes.len());
        for (row, point) in points.iter().enumerate() {
            rows.clear();
            for (level, (width, table)) in point.iter().zip(&axes) {
                rows.push(&table[usize::from(*level) * width..][..*width]);
            }
            factor.extend(points[..row].iter().map(|other| {
                let levels = other.iter().zip(&rows);
                f64::from(levels.map(|(level, row)| row[usize::from(*level)]).product::<f32>())
            }));
            factor.push(1.0 + noise);
        }
        decompose(&mut factor, points.len())?;

        let count = targets.len();
        let mut whitened = targets.to_vec();
        forward(&factor, &mut whitened);
        let amplitude = dot(&whitened, &whitened) / count as f64;
        let determinant: f64 = (0..count).map(|row| factor[row_start(row) + row].ln()).sum();
        let likelihood = -0.5 * count as f64 * amplitude.max(1e-12).ln() - determinant;
        let mut weights = whitened;
        backward(&factor, &mut weights);
        Some(Self { factor, weights, amplitude, likelihood })
    }
}

/// How many levels a table of their correlations has.
fn width(table: &[f32]) -> usize {
    table.len().isqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Value;
    use crate::space::LegalSpace;

    /// Two axes of eight values, and a target that hangs on both.
    fn terrain() -> (Encoding, Vec<Point>, Vec<f64>) {
        let values = (0..8).map(|value| Value::Int(1 << value)).collect::<Vec<_>>();
        let parameters = vec![("X".to_owned(), values.clone()), ("Y".to_owned(), values)];
        let all: Vec<Vec<usize>> = (0..64).map(|at| vec![at / 8, at % 8]).collect();
        let space = LegalSpace::of_recorded(parameters, all.clone()).unwrap();
        let terrain = Encoding::of(&space);
        let points = all.iter().map(|indices| terrain.point(indices)).collect();
        let target = |indices: &Vec<usize>| {
            (indices[0] as f64 - 4.5).powi(2) / 9.0 + (indices[1] as f64 / 2.0).sin()
        };
        (terrain, points, all.iter().map(target).collect())
    }

    #[test]
    fn a_process_knows_what_it_was_told_and_guesses_what_is_near() {
        let (terrain, points, targets) = terrain();
        let told: Vec<usize> = (0..64).filter(|at| at % 3 != 0).collect();
        let known: Vec<&Point> = told.iter().map(|at| &points[*at]).collect();
        let known_targets: Vec<f64> = told.iter().map(|at| targets[*at]).collect();
        let mut rng = Rng::with_seed(1);
        let process = Gaussian::fit(&terrain, &known, &known_targets, None, 80, &mut rng).unwrap();
        let belief = process.survey(&points);
        for (at, (mean, target)) in belief.means.iter().zip(&targets).enumerate() {
            let (near, sure) = if at % 3 == 0 { (0.25, 0.5) } else { (0.05, 0.1) };
            assert!((mean - target).abs() < near, "{at}: {mean} for {target}");
            assert!(belief.variances[at].sqrt() < sure, "{at}: {}", belief.variances[at]);
        }
    }

    #[test]
    fn supposing_a_point_is_as_sure_as_knowing_it() {
        let (terrain, points, targets) = terrain();
        let known: Vec<&Point> = points.iter().step_by(5).collect();
        let known_targets: Vec<f64> = targets.iter().copied().step_by(5).collect();
        let mut rng = Rng::with_seed(2);
        let process = Gaussian::fit(&terrain, &known, &known_targets, None, 0, &mut rng).unwrap();
        let mut supposed = process.survey(&points);
        process.suppose(&mut supposed, &points, 33);
        process.suppose(&mut supposed, &points, 12);
        let mut more = known;
        more.extend([&points[33], &points[12]]);
        // Their values are not known, and do not matter.
        let knowing = Gaussian::fit(&terrain, &more, &known_targets, None, 0, &mut rng).unwrap();
        let knows = knowing.survey(&points);
        assert_eq!(knows.means, supposed.means);

        // What either is unsure of, by the formula.
        let mut factor = Vec::new();
        for (row, one) in more.iter().enumerate() {
            factor.extend(more[..row].iter().map(|other| f64::from(process.alike(one, other))));
            factor.push(1.0 + process.correlation.noise);
        }
        decompose(&mut factor, more.len()).unwrap();
        for (at, point) in points.iter().enumerate() {
            let mut whitened: Vec<f64> =
                more.iter().map(|other| f64::from(process.alike(point, other))).collect();
            forward(&factor, &mut whitened);
            let variance = (1.0 - dot(&whitened, &whitened)) * process.unit();
            for found in [supposed.variances[at], knows.variances[at]] {
                let off = (found - variance).abs();
                assert!(off < 1e-3 * process.unit(), "{at}: {found} {variance}");
            }
        }
    }

    #[test]
    fn points_that_are_the_same_cannot_be_solved_without_noise() {
        let tables = [vec![1f32; 4]];
        let point: Point = Box::new([0]);
        assert!(Solved::of(&tables, &[&point, &point], &[1.0, 2.0], 0.0).is_none());
        assert!(Solved::of(&tables, &[&point, &point], &[1.0, 2.0], 1e-3).is_some());
    }
}
