//! Outcome of a candidate. Failures are data: nothing here ends a run.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::measurement::Measurement;

/// Resource usage of a kernel, from the compiler's log and the driver. For several launches, the
/// maximum of each figure and the minimum occupancy: the computing launch has it, since packing and
/// reduction kernels need little.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Resources {
    /// Registers per thread.
    pub registers: u32,
    /// Bytes per thread that spills write and read.
    pub spill_bytes: u32,
    /// Bytes of shared memory per block, static and dynamic.
    pub shared_bytes: u32,
    /// Resident warps relative to the warp slots of an SM, 0 to 1; `None` without a driver.
    pub occupancy: Option<f64>,
}

/// A passed validation, with its error and bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// Reference of the comparison, such as `f64 on the device`.
    pub reference: String,
    /// The largest |C - reference| / (|alpha| |A| |B| + |beta| |C0|) of any element; 0 for
    /// integers.
    pub max_error: f64,
    /// The bound on `max_error`.
    pub bound: f64,
}

/// A wrong result, with position and error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mismatch {
    /// Description of the failed check.
    pub check: String,
    /// Element with the largest error: product of the batch, row, column; `None` when no element is
    /// concerned, as for overwritten guard bytes.
    pub at: Option<[u64; 3]>,
    /// Value from the kernel.
    #[serde(with = "any_number")]
    pub got: f64,
    /// Expected value.
    #[serde(with = "any_number")]
    pub expected: f64,
    /// Error in the unit of `bound`.
    #[serde(with = "any_number")]
    pub error: f64,
    /// The bound on the error.
    pub bound: f64,
    /// Number of wrong elements.
    pub wrong: u64,
}

/// JSON representation of numbers: NaN and infinities, which JSON lacks, are strings.
mod any_number {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(f64),
        Word(String),
    }

    pub(super) fn serialize<S: Serializer>(value: &f64, out: S) -> Result<S::Ok, S::Error> {
        if value.is_finite() { value.serialize(out) } else { value.to_string().serialize(out) }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<f64, D::Error> {
        match Either::deserialize(input)? {
            Either::Number(value) => Ok(value),
            Either::Word(word) => word.parse().map_err(serde::de::Error::custom),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.check)?;
        if let Some([batch, row, column]) = self.at {
            write!(f, ": {} elements wrong, worst at C[{row}][{column}]", self.wrong)?;
            if batch > 0 {
                write!(f, " of product {batch}")?;
            }
            let (got, expected) = self.values();
            write!(f, ": {got} instead of {expected}; ")?;
            if self.bound == 0.0 {
                write!(f, "the value is exact, and no error is allowed")?;
            } else {
                let (error, bound) = (figures(self.error, 3), figures(self.bound, 3));
                write!(f, "relative to the summed terms the error is {error}, allowed {bound}")?;
            }
        }
        Ok(())
    }
}

impl Mismatch {
    /// Both values with as many digits as show their difference, 7 at least.
    fn values(&self) -> (String, String) {
        let digits =
            [7, 9, 17].map(|digits| (figures(self.got, digits), figures(self.expected, digits)));
        let [.., all] = &digits;
        digits.iter().find(|(got, expected)| got != expected).unwrap_or(all).clone()
    }
}

/// A number with at most `digits` significant digits; integers of up to 15 digits have all.
fn figures(value: f64, digits: usize) -> String {
    let plain = value.abs() < 1e15 && value.fract() == 0.0;
    if plain || !value.is_finite() {
        return value.to_string();
    }
    let rounded = format!("{value:.*e}", digits.saturating_sub(1));
    let (mantissa, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..9).contains(&exponent) {
        let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
        return format!("{mantissa}e{exponent}");
    }
    let decimals = usize::try_from(digits as i32 - 1 - exponent).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Fault of a device during a candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// The operation: loading, launching, timing.
    pub during: String,
    /// The driver's message.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "while {}: {}", self.during, self.message)
    }
}

/// Outcome of a candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum Outcome {
    /// It ran, passed validation and was timed.
    Correct {
        /// Accuracy.
        validation: Validation,
        /// Times.
        measurement: Measurement,
        /// Resource usage.
        resources: Resources,
    },
    /// A constraint excludes it.
    Constraints {
        /// Reason from the family.
        because: String,
    },
    /// It does not render or compile.
    Compile {
        /// The compiler's log.
        log: String,
    },
    /// The device rejected it or faulted.
    Runtime(Fault),
    /// It did not finish in time.
    Timeout {
        /// Time limit.
        seconds: f64,
    },
    /// It ran and its results are wrong.
    Correctness(Mismatch),
}

/// Kind of an outcome, for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutcomeKind {
    /// See [`Outcome::Correct`].
    Correct,
    /// See [`Outcome::Constraints`].
    Constraints,
    /// See [`Outcome::Compile`].
    Compile,
    /// See [`Outcome::Runtime`].
    Runtime,
    /// See [`Outcome::Timeout`].
    Timeout,
    /// See [`Outcome::Correctness`].
    Correctness,
}

impl OutcomeKind {
    /// Name in the T4 results format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Correct => "correct",
            Self::Constraints => "constraints",
            Self::Compile => "compile",
            Self::Runtime => "runtime",
            Self::Timeout => "timeout",
            Self::Correctness => "correctness",
        }
    }
}

impl Outcome {
    /// Kind of the outcome.
    pub fn kind(&self) -> OutcomeKind {
        match self {
            Self::Correct { .. } => OutcomeKind::Correct,
            Self::Constraints { .. } => OutcomeKind::Constraints,
            Self::Compile { .. } => OutcomeKind::Compile,
            Self::Runtime(_) => OutcomeKind::Runtime,
            Self::Timeout { .. } => OutcomeKind::Timeout,
            Self::Correctness(_) => OutcomeKind::Correctness,
        }
    }

    /// Measurement of a correct candidate.
    pub fn measurement(&self) -> Option<&Measurement> {
        match self {
            Self::Correct { measurement, .. } => Some(measurement),
            _ => None,
        }
    }

    /// Reason of the failure in one line; `None` for a correct candidate.
    pub fn failure(&self) -> Option<String> {
        match self {
            Self::Correct { .. } => None,
            Self::Constraints { because } => Some(because.clone()),
            Self::Compile { log } => {
                let line = log.lines().find(|line| line.contains("error")).or(log.lines().next());
                Some(line.unwrap_or("the compiler gave no reason").trim().to_owned())
            }
            Self::Runtime(fault) => Some(fault.to_string()),
            Self::Timeout { seconds } => Some(format!("did not finish within {seconds:.1} s")),
            Self::Correctness(mismatch) => Some(mismatch.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mismatch_names_its_unit_and_has_short_numbers() {
        let mismatch = Mismatch {
            check: "small integers".to_owned(),
            at: Some([0, 1, 45]),
            got: -9.9375,
            expected: 0.537_882_842_739_990_2,
            error: 0.952_345,
            bound: 4.291_534e-6,
            wrong: 2127,
        };
        assert_eq!(
            mismatch.to_string(),
            "small integers: 2127 elements wrong, worst at C[1][45]: -9.9375 instead of 0.5378828; relative to the \
             summed terms the error is 0.952, allowed 4.29e-6"
        );
        let exact =
            Mismatch { at: Some([2, 0, 0]), got: f64::NAN, expected: 3.0, bound: 0.0, ..mismatch };
        assert_eq!(
            exact.to_string(),
            "small integers: 2127 elements wrong, worst at C[0][0] of product 2: NaN instead of 3; the value is exact, \
             and no error is allowed"
        );
    }

    #[test]
    fn numbers_have_few_digits_and_show_their_difference() {
        for (value, text) in [
            (2.0, "2"),
            (-2_147_483_648.0, "-2147483648"),
            (1.461_234_567_8, "1.461235"),
            (12_345_678.9, "12345679"),
            (4.291_534e-39, "4.291534e-39"),
            (0.000_125, "0.000125"),
            (1.5e300, "1.5e300"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(figures(value, 7), text);
        }
        let mismatch = |got| Mismatch {
            check: String::new(),
            at: None,
            got,
            expected: 0.1,
            error: 1.0,
            bound: 0.5,
            wrong: 1,
        };
        let near = mismatch(0.100_000_001_49).values();
        assert_eq!(near, ("0.100000001".to_owned(), "0.1".to_owned()));
        assert_eq!(mismatch(0.125).values(), ("0.125".to_owned(), "0.1".to_owned()));
    }
}
