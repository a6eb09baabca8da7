//! Rounding and text forms of figures in a database file.

use crate::model::Micros;

/// Rounds to a nanosecond. Events resolve half a microsecond, and a sample is a mean over launches.
pub(super) fn round_us(time: Micros) -> f64 {
    (time.0 * 1e3).round() / 1e3
}

/// Rounds to the best precision of rates and ratios of timings.
pub(super) fn four_figures(value: f64) -> f64 {
    // Rounding through text gives the nearest double to a short decimal.
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// Rounds to the precision at which errors are reported.
pub(super) fn three_figures(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// Formats a version that CUDA encodes as a number: 12090 is `12.9`.
pub(super) fn cuda_version(encoded: i32) -> String {
    format!("{}.{}", encoded / 1000, encoded % 1000 / 10)
}

/// Serialises a point in time as RFC 3339 text in UTC: `2026-01-31T12:00:00Z`.
pub(super) mod rfc3339 {
    use jiff::Timestamp;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::database) fn serialize<S: Serializer>(
        time: &Timestamp,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(time)
    }

    pub(in crate::database) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| {
            D::Error::custom(format!("`{text}` is not a time such as `2026-01-31T12:00:00Z`"))
        })
    }

    /// `time` without its fraction of a second.
    pub(in crate::database) fn whole_seconds(time: Timestamp) -> Timestamp {
        Timestamp::from_second(time.as_second()).unwrap_or(time)
    }
}

/// A number of 64 bits without a sign, where TOML's numbers have 63: text where it does not fit.
pub(super) mod wide {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a whole number from 0, or its digits as text")]
    enum Wide {
        Number(u64),
        Digits(String),
    }

    pub(in crate::database) fn serialize<S: Serializer>(
        number: &u64,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match i64::try_from(*number) {
            Ok(number) => serializer.serialize_i64(number),
            Err(_) => serializer.collect_str(number),
        }
    }

    pub(in crate::database) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<u64, D::Error> {
        match Wide::deserialize(deserializer)? {
            Wide::Number(number) => Ok(number),
            Wide::Digits(digits) => digits.parse().map_err(|_| {
                D::Error::custom(format!("`{digits}` is not a whole number of 64 bits"))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_rounded_to_the_nearest_short_decimal() {
        for (given, four, three) in [
            (61.23456, 61.23, 61.2),
            (1.234_56e-7, 1.235e-7, 1.23e-7),
            (0.0, 0.0, 0.0),
            (123_456.0, 123_500.0, 123_000.0),
            (f64::INFINITY, f64::INFINITY, f64::INFINITY),
        ] {
            assert_eq!(four_figures(given), four);
            assert_eq!(three_figures(given), three);
        }
        assert_eq!(round_us(Micros(12.345_678)), 12.346);
    }

    #[test]
    fn cuda_versions_read_as_people_write_them() {
        for (encoded, text) in [(13_000, "13.0"), (12_090, "12.9"), (11_080, "11.8")] {
            assert_eq!(cuda_version(encoded), text);
        }
    }
}
