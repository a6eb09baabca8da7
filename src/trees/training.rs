//! Training: trees that are each fitted to the residuals of those before it. Columns are cut at
//! quantiles of their values, at most [`BINS`], so that splits are found from sums over bins (Ke and others 2017, LightGBM).

use half::f16;
use rayon::prelude::*;

use super::{BoostedTrees, COLUMNS, DEPTH, FeatureRow, LEAVES, Precision, Tree};

/// Trees, and the share of a leaf's residual that it takes up. Of 1,766 problems, each held out, the kernel with the lowest
/// predicted time takes 1.024, 1.022 and 1.020 times the best with 400, 600 and 800 trees.
const TREES: usize = 800;
const LEARNING_RATE: f64 = 0.12;

/// Trees that are added to those of a base. With 0, 25, 50, 100 and 400 trees after a base of another GPU, kernels for 633
/// problems, each held out, take 1.034, 1.033, 1.033, 1.032 and 1.033 times the best; more of them fit the noise of a few
/// problems.
const ADDED_TREES: usize = 100;

/// Bins of a column.
const BINS: usize = 64;

/// The least weight of a leaf; a row's weight is 1 in the mean.
const LEAST_WEIGHT: f64 = 15.0;

/// Rows of a node whose histograms several threads make; one thread makes those of fewer. If all were shared, the system would
/// take 11 % of the CPU time of `learn`.
const SHARED_ROWS: usize = 2000;

/// Training data: rows, targets and weights.
#[derive(Debug, Clone, Default)]
pub struct TrainingRows {
    /// The rows.
    pub values: Vec<FeatureRow>,
    /// What is to be predicted for each.
    pub targets: Vec<f64>,
    /// How much each counts.
    pub weights: Vec<f64>,
}

impl TrainingRows {
    /// Concatenates rows; weights become 1 in the mean.
    pub fn joined<'r>(all: impl Iterator<Item = &'r Self>) -> Self {
        let mut joined = Self::default();
        for rows in all {
            joined.values.extend_from_slice(&rows.values);
            joined.targets.extend_from_slice(&rows.targets);
            joined.weights.extend_from_slice(&rows.weights);
        }
        let mean = joined.weights.iter().sum::<f64>() / joined.weights.len() as f64;
        joined.weights.iter_mut().for_each(|weight| *weight /= mean);
        joined
    }
}

impl BoostedTrees {
    /// Trains on rows; without rows every prediction is zero.
    pub fn learn(rows: &TrainingRows) -> Self {
        Self::default().extended(rows, TREES)
    }

    /// Adds trees that are trained on what these ones are off by.
    pub fn refined(&self, rows: &TrainingRows) -> Self {
        self.extended(rows, ADDED_TREES)
    }

    /// Adds so many trees that are trained on what these ones are off by.
    fn extended(&self, rows: &TrainingRows, count: usize) -> Self {
        let known = |row: &FeatureRow| f64::from(self.predict(row, Precision::Full));
        let off = rows.targets.iter().zip(&rows.values).map(|(target, row)| target - known(row));
        let mut residuals: Vec<f64> = off.collect();
        let total: f64 = rows.weights.iter().sum();
        let sum: f64 = residuals.iter().zip(&rows.weights).map(|(off, weight)| off * weight).sum();
        let mean = if total > 0.0 { sum / total } else { 0.0 };
        residuals.iter_mut().for_each(|off| *off -= mean);
        let columns = BinnedColumn::all(&rows.values);
        let mut trees = self.trees.clone();
        if rows.values.len() > 1 {
            for _ in 0..count {
                trees.push(TreeGrowth::grow(&columns, &rows.weights, &mut residuals));
            }
        }
        Self { base: self.base + mean as f32, trees }
    }
}

/// Column with its values replaced by bins.
struct BinnedColumn {
    /// The highest value of each bin but the last.
    cuts: Vec<f32>,
    bins: Vec<u8>,
}

impl BinnedColumn {
    fn all(rows: &[FeatureRow]) -> Vec<Self> {
        let column = |at: usize| Self::of(rows.iter().map(|row| row[at]).collect());
        (0..COLUMNS).into_par_iter().map(column).collect()
    }

    fn of(values: Vec<f32>) -> Self {
        let mut sorted = values.clone();
        sorted.sort_by(f32::total_cmp);
        let mut distinct = sorted.clone();
        distinct.dedup();
        let mut cuts: Vec<f32> = if distinct.len() <= BINS {
            distinct
        } else {
            (1..=BINS).map(|bin| sorted[bin * (sorted.len() - 1) / BINS]).collect()
        };
        cuts.dedup();
        cuts.pop(); // nothing lies above the highest
        let bin = |value: &f32| cuts.partition_point(|cut| cut < value) as u8;
        let bins = values.iter().map(bin).collect();
        Self { cuts, bins }
    }
}

/// Weight and weighted residual of each bin of a column.
type Histogram = Vec<(f64, f64)>;

/// Rows at one node of a tree.
struct NodeRows {
    rows: Vec<u32>,
    histograms: Vec<Histogram>,
}

#[derive(Debug, Clone, Copy)]
struct Split {
    gain: f64,
    column: usize,
    bin: usize,
}

/// State of one tree in training.
struct TreeGrowth<'a> {
    columns: &'a [BinnedColumn],
    weights: &'a [f64],
    residuals: &'a [f64],
}

impl<'a> TreeGrowth<'a> {
    /// Grows a tree level by level and subtracts its predictions from the residuals.
    fn grow(columns: &'a [BinnedColumn], weights: &'a [f64], residuals: &mut [f64]) -> Tree {
        let growing = TreeGrowth { columns, weights, residuals };
        // Without a gain, a split sends all rows one way.
        let mut tree =
            Tree { columns: [0; LEAVES], cuts: [f32::MAX; LEAVES], leaves: [0.0; LEAVES] };
        let all: Vec<u32> = (0..weights.len() as u32).collect();
        let histograms = growing.histograms(&all);
        let mut level = vec![NodeRows { rows: all, histograms }];
        for depth in 0..DEPTH {
            let first = (1 << depth) - 1;
            let mut next = Vec::with_capacity(2 * level.len());
            for (at, node) in level.into_iter().enumerate() {
                match best_split(&node.histograms) {
                    Some(split) => {
                        tree.columns[first + at] = split.column as u8;
                        tree.cuts[first + at] = columns[split.column].cuts[split.bin];
                        next.extend(growing.split(node, split));
                    }
                    None => {
                        next.extend([node, NodeRows { rows: Vec::new(), histograms: Vec::new() }])
                    }
                }
            }
            level = next;
        }
        let found: Vec<f16> = level.iter().map(|node| f16::from_f64(growing.value(node))).collect();
        for ((leaf, node), found) in tree.leaves.iter_mut().zip(level).zip(found) {
            *leaf = found.into();
            for row in node.rows {
                residuals[row as usize] -= f64::from(found);
            }
        }
        tree
    }

    fn value(&self, node: &NodeRows) -> f64 {
        let of = |row: &u32| (self.weights[*row as usize], self.residuals[*row as usize]);
        let sums = node.rows.iter().map(of).fold((0.0, 0.0), |(weight, sum), (own, residuals)| {
            (weight + own, sum + own * residuals)
        });
        LEARNING_RATE * sums.1 / sums.0.max(f64::MIN_POSITIVE)
    }

    fn histograms(&self, rows: &[u32]) -> Vec<Histogram> {
        let of_column = |column: &BinnedColumn| {
            if column.cuts.is_empty() {
                return Vec::new();
            }
            let mut histogram = vec![(0.0, 0.0); column.cuts.len() + 1];
            for row in rows {
                let (weight, residuals) =
                    (self.weights[*row as usize], self.residuals[*row as usize]);
                let bin = &mut histogram[usize::from(column.bins[*row as usize])];
                bin.0 += weight;
                bin.1 += weight * residuals;
            }
            histogram
        };
        let at_once = if rows.len() < SHARED_ROWS { COLUMNS } else { 1 };
        self.columns.par_iter().with_min_len(at_once).map(of_column).collect()
    }

    /// Splits a node. The larger half's sums are the differences to the smaller half's.
    fn split(&self, node: NodeRows, split: Split) -> [NodeRows; 2] {
        let column = &self.columns[split.column];
        let is_low = |row: &u32| usize::from(column.bins[*row as usize]) <= split.bin;
        let (low, high): (Vec<u32>, Vec<u32>) = node.rows.into_iter().partition(is_low);
        let is_low_smaller = low.len() <= high.len();
        let small = self.histograms(if is_low_smaller { &low } else { &high });
        let mut large = node.histograms;
        for (large, small) in large.iter_mut().zip(&small) {
            for (large, small) in large.iter_mut().zip(small) {
                *large = (large.0 - small.0, large.1 - small.1);
            }
        }
        let (of_low, of_high) = if is_low_smaller { (small, large) } else { (large, small) };
        [NodeRows { rows: low, histograms: of_low }, NodeRows { rows: high, histograms: of_high }]
    }
}

/// The split with the largest reduction of squares; none where a half would be too light.
fn best_split(histograms: &[Histogram]) -> Option<Split> {
    let mut best: Option<Split> = None;
    for (column, histogram) in histograms.iter().enumerate() {
        let all = histogram.iter().fold((0.0, 0.0), |all, bin| (all.0 + bin.0, all.1 + bin.1));
        let mut low = (0.0, 0.0);
        for (bin, own) in histogram.iter().enumerate().take(histogram.len().saturating_sub(1)) {
            low = (low.0 + own.0, low.1 + own.1);
            let high = (all.0 - low.0, all.1 - low.1);
            if low.0 < LEAST_WEIGHT || high.0 < LEAST_WEIGHT {
                continue;
            }
            let gain = low.1 * low.1 / low.0 + high.1 * high.1 / high.0 - all.1 * all.1 / all.0;
            if gain > 1e-9 && best.is_none_or(|best| gain > best.gain) {
                best = Some(Split { gain, column, bin });
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::super::LANES;
    use super::*;

    fn row(values: &[f32]) -> FeatureRow {
        let mut row = [0.0; COLUMNS];
        row[..values.len()].copy_from_slice(values);
        row
    }

    /// A grid of rows with three columns, the last without effect.
    fn rows(target: impl Fn(f32, f32) -> f32) -> TrainingRows {
        let mut rows = TrainingRows::default();
        for at in 0..4000_u32 {
            let (x, y) = ((at % 50) as f32, (at / 50 % 40) as f32);
            rows.values.push(row(&[x, y, (at % 7) as f32]));
            rows.targets.push(f64::from(target(x, y)));
            rows.weights.push(1.0);
        }
        rows
    }

    #[test]
    fn interactions_of_two_columns_are_learned() {
        let target = |x: f32, y: f32| if x > 20.0 && y > 10.0 { 2.0 } else { 0.01 * x };
        let learned = BoostedTrees::learn(&rows(target));
        for (x, y) in [(5.0, 5.0), (30.0, 5.0), (30.0, 30.0), (19.0, 39.0)] {
            let found = learned.predict(&row(&[x, y, 3.0]), Precision::Full);
            assert!((found - target(x, y)).abs() < 0.1, "{x} {y}: {found}");
        }
    }

    #[test]
    fn few_rows_correct_what_many_of_another_device_taught() {
        let other = BoostedTrees::learn(&rows(|x, y| if x > 20.0 { y } else { 0.01 * x }));
        let target = |x: f32, y: f32| if x > 20.0 { y + 1.5 } else { 0.01 * x + 0.5 };
        let all = rows(target);
        let few = |at: &usize| at.is_multiple_of(50) || at % 83 == 1;
        let few: Vec<usize> = (0..all.targets.len()).filter(few).collect();
        let few = TrainingRows {
            values: few.iter().map(|at| all.values[*at]).collect(),
            targets: few.iter().map(|at| all.targets[*at]).collect(),
            weights: vec![1.0; few.len()],
        };
        let refined = other.refined(&few);
        assert_eq!(refined.trees.len(), other.trees.len() + ADDED_TREES);
        for (x, y) in [(5.0, 5.0), (30.0, 5.0), (30.0, 30.0)] {
            let found = |trees: &BoostedTrees| trees.predict(&row(&[x, y, 3.0]), Precision::Full);
            let [refined, fresh, wanted] =
                [found(&refined), found(&BoostedTrees::learn(&few)), target(x, y)];
            assert!((refined - wanted).abs() < 0.5, "{x} {y}: {refined}");
            assert!((refined - wanted).abs() <= (fresh - wanted).abs() + 0.1, "{x} {y}: {fresh}");
        }
    }

    #[test]
    fn light_rows_count_little() {
        let mut rows = rows(|x, _| x);
        for at in 0..400_u32 {
            rows.values.push(row(&[at as f32 / 8.0, 0.0, 0.0]));
            rows.targets.push(500.0);
            rows.weights.push(1e-6);
        }
        assert!(
            BoostedTrees::learn(&rows).predict(&row(&[25.0, 0.0, 0.0]), Precision::Full) < 40.0
        );
    }

    #[test]
    fn nothing_to_learn_from_predicts_the_mean() {
        assert_eq!(
            BoostedTrees::learn(&TrainingRows::default()).predict(&row(&[1.0]), Precision::Full),
            0.0
        );
        let one =
            TrainingRows { values: vec![row(&[3.0])], targets: vec![2.5], weights: vec![4.0] };
        assert_eq!(BoostedTrees::learn(&one).predict(&row(&[0.0]), Precision::Full), 2.5);
    }

    #[test]
    fn rows_alone_and_side_by_side_are_predicted_alike() {
        let learned = BoostedTrees::learn(&rows(|x, y| x * y));
        let all: Vec<FeatureRow> = rows(|_, _| 0.0).values[700..700 + LANES].to_vec();
        let lanes = std::array::from_fn(|column| std::array::from_fn(|lane| all[lane][column]));
        for precision in [Precision::Coarse, Precision::Full] {
            let alone = std::array::from_fn(|lane| learned.predict(&all[lane], precision));
            assert_eq!(learned.predict_lanes(&lanes, precision), alone);
        }
    }
}
