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
    fn an_empty_slice_has_no_median() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[7.0]), Some(7.0));
    }
}
