//! Axis: maps values to pixels and places ticks.

use serde::Serialize;

/// Scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences have equal distances.
    Linear,
    /// Equal ratios have equal distances; ticks at 1, 2 and 5 times powers of ten.
    Logarithmic,
    /// Equal ratios have equal distances; ticks at powers of two.
    Binary,
}

/// A range of values over a range of pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlotAxis {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

/// A tick of an axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tick {
    /// Its pixel.
    pub at: f64,
    /// Its label.
    pub label: String,
}

impl PlotAxis {
    /// Maps values from `low` to `high` to pixels. An empty range is widened.
    pub fn new(scale: Scale, [low, high]: [f64; 2], [from, to]: [f64; 2]) -> Self {
        let (low, high) = match scale {
            Scale::Linear if high > low => (low, high),
            Scale::Linear => (low - 0.5, low + 0.5),
            _ if low > 0.0 && high > low => (low, high),
            _ => {
                let middle = if low > 0.0 { low } else { 1.0 };
                (middle / 1.5, middle * 1.5)
            }
        };
        Self { scale, low, high, from, to }
    }

    /// Pixel of a value, to a tenth; values outside are clamped.
    pub fn at(&self, value: f64) -> f64 {
        let place = |value: f64| match self.scale {
            Scale::Linear => value,
            _ => value.max(f64::MIN_POSITIVE).ln(),
        };
        let (low, high) = (place(self.low), place(self.high));
        let share = ((place(value) - low) / (high - low)).clamp(0.0, 1.0);
        tenths(self.from + share * (self.to - self.from))
    }

    /// Ticks, about `wanted` of them, at round numbers.
    pub fn ticks(&self, wanted: usize) -> Vec<Tick> {
        let values = match self.scale {
            Scale::Linear => self.round_numbers(wanted),
            Scale::Binary => thinned(powers(2.0, &[1.0], self.low, self.high), wanted),
            Scale::Logarithmic => {
                let [sparse, dense] = [&[1.0][..], &[1.0, 2.0, 5.0]]
                    .map(|steps| powers(10.0, steps, self.low, self.high));
                let values = if sparse.len() * 2 > wanted { sparse } else { dense };
                // A range below a decade may have only one such number.
                if values.len() > 1 { thinned(values, wanted) } else { self.round_numbers(wanted) }
            }
        };
        values.into_iter().map(|value| Tick { at: self.at(value), label: label(value) }).collect()
    }

    /// Multiples of 1, 2 or 5 times a power of ten.
    fn round_numbers(&self, wanted: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / wanted.max(1) as f64;
        let decade = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * decade);
        let step = step.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(10.0 * decade);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step * (1.0 + 1e-12)).floor() as i64;
        (first..=last).map(|multiple| multiple as f64 * step).collect()
    }
}

/// `steps` times powers of `base` within a range.
fn powers(base: f64, steps: &[f64], low: f64, high: f64) -> Vec<f64> {
    let first = low.log(base).floor() as i32;
    let last = high.log(base).ceil() as i32;
    let all =
        (first..=last).flat_map(|power| steps.iter().map(move |step| step * base.powi(power)));
    all.filter(|value| (low * 0.999..=high * 1.001).contains(value)).collect()
}

/// Keeps every nth value, so that about `wanted` are left.
fn thinned(values: Vec<f64>, wanted: usize) -> Vec<f64> {
    let every = values.len().div_ceil(wanted.max(1)).max(1);
    values.into_iter().step_by(every).collect()
}

/// Formats a value briefly: `0.5`, `20`, `1.5k`, `2M`.
pub fn label(value: f64) -> String {
    let (value, unit) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    // Rounds to four figures, so that 0.1 + 0.2 gives 0.3.
    let short: f64 = format!("{value:.3e}").parse().unwrap_or(value);
    format!("{short}{unit}")
}

/// Rounds to tenths of a pixel, which keeps drawings short.
pub fn tenths(pixels: f64) -> f64 {
    (pixels * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, low: f64, high: f64, wanted: usize) -> Vec<String> {
        let axis = PlotAxis::new(scale, [low, high], [0.0, 100.0]);
        axis.ticks(wanted).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        for (scale, low, high, wanted, expected) in [
            (Scale::Linear, 0.0, 66.9, 5, &["0", "20", "40", "60"][..]),
            (Scale::Linear, 0.0, 1.0, 4, &["0", "0.5", "1"]),
            (Scale::Linear, 99.0, 101.0, 4, &["99", "99.5", "100", "100.5", "101"]),
            (Scale::Logarithmic, 1.0, 1000.0, 6, &["1", "10", "100", "1000"]),
            (Scale::Logarithmic, 1.0, 30.0, 6, &["1", "2", "5", "10", "20"]),
            (Scale::Logarithmic, 700.0, 900.0, 4, &["700", "750", "800", "850", "900"]),
            (
                Scale::Binary,
                128.0,
                16384.0,
                8,
                &["128", "256", "512", "1024", "2048", "4096", "8192", "16.38k"],
            ),
        ] {
            assert_eq!(labels(scale, low, high, wanted), expected, "{scale:?} {low} to {high}");
        }
    }

    #[test]
    fn values_are_placed_by_the_scale_and_stay_inside() {
        let linear = PlotAxis::new(Scale::Linear, [0.0, 10.0], [50.0, 150.0]);
        assert_eq!([linear.at(0.0), linear.at(5.0), linear.at(99.0)], [50.0, 100.0, 150.0]);
        let down = PlotAxis::new(Scale::Logarithmic, [1.0, 100.0], [100.0, 0.0]);
        assert_eq!([down.at(1.0), down.at(10.0), down.at(0.0)], [100.0, 50.0, 100.0]);
    }

    #[test]
    fn an_empty_range_is_widened() {
        for (scale, value) in
            [(Scale::Linear, 3.0), (Scale::Logarithmic, 3.0), (Scale::Binary, 0.0)]
        {
            let axis = PlotAxis::new(scale, [value, value], [0.0, 100.0]);
            assert!(axis.at(value).is_finite(), "{scale:?}");
            axis.ticks(4);
        }
    }
}
