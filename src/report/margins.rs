//! Words for the margin of a winner over its runner-up: which of them is faster, and whether the difference
//! is significant. Margins are the runner-up's extra time in per cent.

use crate::database::StoredConfidence;
use crate::measure::Margin;

/// Says how a winner compares with its runner-up: `0.62 % faster than the runner-up (0.51 to 0.74)`. A
/// missing interval had too few rounds.
pub(super) fn against_runner_up(percent: f64, interval: Option<[f64; 2]>) -> String {
    match interval {
        Some([low, high]) if low > 0.0 => {
            format!("{percent:.2} % faster than the runner-up ({low:.2} to {high:.2})")
        }
        // Of both ends, the one nearer to zero first, as above.
        Some([low, high]) if high < 0.0 => format!(
            "{:.2} % slower than the runner-up ({:.2} to {:.2}): it uses fewer resources, and `--stable` \
             takes differences below 0.5 % as ties, as earlier versions did",
            -percent, -high, -low
        ),
        Some([low, high]) => {
            format!("as fast as the runner-up, which takes {low:+.2} to {high:+.2} %")
        }
        None => format!(
            "compared with a runner-up that takes {percent:+.2} % in too few rounds for an interval"
        ),
    }
}

/// The same of a margin, whose interval is infinite with too few rounds.
pub(super) fn of_margin(Margin { percent, low, high }: &Margin) -> String {
    against_runner_up(*percent, high.is_finite().then_some([*low, *high]))
}

/// The same of a record; `None` without a runner-up.
pub(super) fn of_record(confidence: &StoredConfidence) -> Option<String> {
    Some(against_runner_up(confidence.margin_percent?, confidence.interval_percent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_faster_one_is_named_with_its_lead() {
        for (percent, interval, words) in [
            (0.62, Some([0.51, 0.74]), "0.62 % faster than the runner-up (0.51 to 0.74)"),
            (
                -0.41,
                Some([-0.52, -0.3]),
                "0.41 % slower than the runner-up (0.30 to 0.52): it uses",
            ),
            (0.05, Some([-0.1, 0.2]), "as fast as the runner-up, which takes -0.10 to +0.20 %"),
            (3.0, None, "a runner-up that takes +3.00 % in too few rounds"),
        ] {
            let said = against_runner_up(percent, interval);
            assert!(said.contains(words), "{said}");
        }
    }
}
