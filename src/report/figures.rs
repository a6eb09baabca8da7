//! Text forms of single figures.

/// Formats a number with fixed decimals. A value that rounds to zero has no sign: not `-0`.
///
/// Negative zeros are common: an empty sum of floats is -0.0.
pub(super) fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(digits) if digits.bytes().all(|byte| matches!(byte, b'0' | b'.')) => digits.to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_rounds_to_zero_has_no_sign() {
        for (value, decimals, text) in [
            (-0.0, 0, "0"),
            (-0.0004, 3, "0.000"),
            (-0.0005, 4, "-0.0005"),
            (0.0, 2, "0.00"),
            (-1.5, 1, "-1.5"),
            (f64::NEG_INFINITY, 0, "-inf"),
        ] {
            assert_eq!(fixed(value, decimals), text, "{value}");
        }
        let nothing: [f64; 0] = [];
        assert_eq!(fixed(nothing.iter().sum::<f64>(), 4), "0.0000");
    }
}
