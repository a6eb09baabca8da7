//! Units as types, so that no bare `f64` of unknown unit crosses a module boundary.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A duration in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Micros(pub f64);

impl Micros {
    /// The duration in milliseconds.
    pub fn as_millis(self) -> f64 {
        self.0 / 1e3
    }
}

impl fmt::Display for Micros {
    /// Writes four significant figures in a suitable unit: `8.512 µs`, `1.234 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            us if us < 1e3 => (us, "µs"),
            us if us < 1e6 => (us / 1e3, "ms"),
            us => (us / 1e6, "s"),
        };
        f.pad(&format!("{value:.*} {unit}", decimals_for_four_figures(value)))
    }
}

/// A rate in 10^12 operations a second; one multiply-add counts as two operations.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tflops(pub f64);

impl Tflops {
    /// Returns the rate of `operations` in `time`; zero for a time that is not positive.
    pub fn of(operations: f64, time: Micros) -> Self {
        Self(if time.0 > 0.0 { operations / time.0 / 1e6 } else { 0.0 })
    }
}

impl fmt::Display for Tflops {
    /// Writes four significant figures without the unit, which column headers have.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.*}", decimals_for_four_figures(self.0), self.0))
    }
}

fn decimals_for_four_figures(value: f64) -> usize {
    match value.abs() {
        v if v >= 999.5 => 0,
        v if v >= 99.95 => 1,
        v if v >= 9.995 => 2,
        _ => 3,
    }
}

/// Formats bytes for readers: `512 B`, `1.50 KiB`, `96.0 MiB`.
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = if value < 10.0 { 2 } else { 1 };
    format!("{value:.decimals$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_keep_four_figures() {
        for (us, text) in [
            (8.5123, "8.512 µs"),
            (12.345, "12.35 µs"),
            (999.4, "999.4 µs"),
            (1234.0, "1.234 ms"),
            (2.5e6, "2.500 s"),
        ] {
            assert_eq!(Micros(us).to_string(), text);
        }
    }

    #[test]
    fn a_rate_is_operations_over_time() {
        assert_eq!(Tflops::of(2e12, Micros(1e6)), Tflops(2.0));
        assert_eq!(Tflops::of(1.0, Micros(0.0)), Tflops(0.0));
    }

    #[test]
    fn bytes_are_binary() {
        for (bytes, text) in [(12, "12 B"), (1536, "1.50 KiB"), (96 << 20, "96.0 MiB")] {
            assert_eq!(human_bytes(bytes), text);
        }
    }
}
