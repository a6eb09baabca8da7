//! Order statistics of samples. Pure.

/// Returns the `q`-quantile (0 to 1) of `samples` by linear interpolation between closest ranks
/// (Hyndman and Fan 1996, type 7); `None` for an empty slice.
pub fn quantile(samples: &[f64], q: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let position = q.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let above = position.ceil() as usize;
    let fraction = position - below as f64;
    Some(sorted[below] + (sorted[above] - sorted[below]) * fraction)
}

/// Returns the median of `samples`; `None` for an empty slice.
pub fn median(samples: &[f64]) -> Option<f64> {
    quantile(samples, 0.5)
}

/// Returns Spearman's rank correlation of pairs, where equal values share the mean of their ranks; `None` for fewer than
/// two pairs, and where one side has one value only. Further values of a longer side are left out.
pub fn rank_correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let count = a.len().min(b.len());
    let [a, b] = [ranks(&a[..count]), ranks(&b[..count])];
    let mean = (count as f64 - 1.0) / 2.0;
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        a.iter().zip(&b).map(|(a, b)| of(a - mean, b - mean)).sum()
    };
    let scale = (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt();
    (scale > 0.0).then(|| sum(&|a, b| a * b) / scale)
}

/// Ranks from 0; equal values share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for equal in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let rank = first as f64 + (equal.len() as f64 - 1.0) / 2.0;
        equal.iter().for_each(|at| ranks[*at] = rank);
        first += equal.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate_between_ranks() {
        let samples = [4.0, 1.0, 3.0, 2.0];
        for (q, expected) in [(0.0, 1.0), (0.5, 2.5), (1.0, 4.0), (1.0 / 3.0, 2.0), (9.0, 4.0)] {
            assert_eq!(quantile(&samples, q), Some(expected), "q = {q}");
        }
    }

    #[test]
    fn ranks_correlate_whatever_the_values() {
        for (a, b, expected) in [
            (&[1.0, 2.0, 3.0][..], &[10.0, 400.0, 401.0][..], Some(1.0)),
            (&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0], Some(-1.0)),
            (&[1.0, 2.0, 2.0, 3.0], &[1.0, 2.0, 2.0, 3.0], Some(1.0)),
            (&[1.0, 2.0, 3.0, 4.0], &[2.0, 1.0, 4.0, 3.0], Some(0.6)),
            (&[1.0, 1.0], &[1.0, 2.0], None),
            (&[1.0], &[1.0], None),
            (&[], &[], None),
        ] {
            let found = rank_correlation(a, b);
            assert_eq!(found.map(|one| (1e9 * one).round() / 1e9), expected, "{a:?} {b:?}");
        }
    }

    #[test]
    fn an_empty_slice_has_no_median() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[7.0]), Some(7.0));
    }
}
