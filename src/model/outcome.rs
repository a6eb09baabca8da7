//! What became of a candidate. Failure is data: nothing here ends a run.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::measurement::Measurement;

/// What the compiler's log and the driver say that a kernel takes. Of several launches, the
/// largest figure of each, and the least occupancy: the launch that computes has it, for what packs or
/// adds up needs little.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Resources {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes that a thread spills to local memory, stores and loads together.
    pub spill_bytes: u32,
    /// Bytes of shared memory of a block, static and dynamic.
    pub shared_bytes: u32,
    /// Resident warps over the most that an SM holds, 0 to 1; `None` until a driver was asked.
    pub occupancy: Option<f64>,
}

/// A passed validation: how close to the bound it came.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// What the result was compared with, such as `f64 on the device`.
    pub reference: String,
    /// The largest |C - reference| / (|alpha| |A| |B| + |beta| |C0|) of any element; 0 for
    /// integers.
    pub max_error: f64,
    /// What `max_error` had to stay within.
    pub bound: f64,
}

/// A wrong result: where, and by how much.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mismatch {
    /// Which check failed, as a person would say it.
    pub check: String,
    /// The element with the largest error: product of the batch, row, column; `None` where no
    /// element is to blame, as for a damaged guard zone.
    pub at: Option<[u64; 3]>,
    /// What the kernel wrote there.
    #[serde(with = "any_number")]
    pub got: f64,
    /// What it should have written.
    #[serde(with = "any_number")]
    pub expected: f64,
    /// The error in the unit of `bound`.
    #[serde(with = "any_number")]
    pub error: f64,
    /// What it had to stay within.
    pub bound: f64,
    /// How many elements are wrong.
    pub wrong: u64,
}

/// Numbers in JSON, which has none for NaN and the infinities: those are words.
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

/// Why a device did not finish a candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// What was being done: loading, launching, timing.
    pub during: String,
    /// The driver's words.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "while {}: {}", self.during, self.message)
    }
}

/// What became of a candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum Outcome {
    /// It ran, its results are right, and it was timed.
    Correct {
        /// How right.
        validation: Validation,
        /// How fast.
        measurement: Measurement,
        /// At what cost.
        resources: Resources,
    },
    /// A constraint rules it out.
    Constraints {
        /// The reason that the family gives.
        because: String,
    },
    /// It does not render or compile.
    Compile {
        /// The compiler's log.
        log: String,
    },
    /// The device refused or faulted.
    Runtime(Fault),
    /// It did not end in time.
    Timeout {
        /// How long it was given.
        seconds: f64,
    },
    /// It ran and its results are wrong.
    Correctness(Mismatch),
}

/// An outcome without its particulars, for counting.
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
    /// The word for it, as the T4 results format has it.
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
    /// Which kind it is.
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

    /// The measurement of a correct candidate.
    pub fn measurement(&self) -> Option<&Measurement> {
        match self {
            Self::Correct { measurement, .. } => Some(measurement),
            _ => None,
        }
    }

    /// One line on why it failed; `None` for a correct one.
    pub fn failure(&self) -> Option<String> {
        match self {
            Self::Correct { .. } => None,
            Self::Constraints { because } => Some(because.clone()),
            Self::Compile { log } => {
                let line = log.lines().find(|line| line.contains("error")).or(log.lines().next());
                Some(line.unwrap_or("the compiler gave no reason").trim().to_owned())
            }
            Self::Runtime(fault) => Some(fault.to_string()),
            Self::Timeout { seconds } => Some(format!("did not end within {seconds:.1} s")),
            Self::Correctness(mismatch) => Some(mismatch.to_string()),
        }
    }
}
