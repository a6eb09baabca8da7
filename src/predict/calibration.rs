//! Calibration of predictions: the error that is stated with a predicted time.

use crate::model::statistics;

/// Share of predictions that is within the stated error.
const WITHIN: f64 = 0.9;

/// The error in per cent of the time that nine in ten predictions are within; `None` of none.
/// `errors` are logarithms of measured over predicted times.
pub fn error_percent(errors: impl IntoIterator<Item = f64>) -> Option<f64> {
    let percent = errors.into_iter().map(|error| 100.0 * error.abs().exp_m1());
    statistics::quantile(&percent.collect::<Vec<f64>>(), WITHIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_in_ten_predictions_are_within_the_error() {
        let errors = (0..=10).map(|tenths| f64::from(tenths - 5) * 0.02);
        let error = error_percent(errors).unwrap();
        assert!((error - 100.0 * 0.1_f64.exp_m1()).abs() < 1e-9, "{error}");
        assert_eq!(error_percent([]), None);
    }
}
