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
            write!(
                f,
                ": {} instead of {} (error {:.2e}, bound {:.2e})",
                self.got, self.expected, self.error, self.bound
            )?;
        }
        Ok(())
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
