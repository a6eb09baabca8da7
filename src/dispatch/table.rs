//! Table of measured times (shapes x kernels), as its file has it.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::model::{Shape, Value};

/// Schema of tables and dispatch documents.
pub const SCHEMA: u64 = 1;

/// A kernel of a table or a dispatch set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DispatchKernel {
    /// Its family.
    pub family: String,
    /// The value of each parameter.
    pub parameters: IndexMap<String, Value>,
}

/// Times for one dtype, compute type and layout on one GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeTable {
    /// The schema of the file.
    pub schema: u64,
    /// Name of the GPU, as the driver reports it.
    pub device: String,
    /// Dtype of A, and of the others where they are absent.
    pub dtype: String,
    /// Dtype of B; absent where it is that of A.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b_dtype: Option<String>,
    /// Dtype of C and D; absent where it follows from that of A.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
    /// The arithmetic contract.
    pub compute: String,
    /// Which operands are stored transposed.
    pub layout: String,
    /// What follows the product; absent where nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epilogue: Option<String>,
    /// The shapes.
    pub shapes: Vec<Shape>,
    /// The kernels.
    pub kernels: Vec<DispatchKernel>,
    /// A row for each shape: the median of each kernel in microseconds; null where the kernel is
    /// not legal or not correct.
    pub times_us: Vec<Vec<Option<f64>>>,
}

/// Errors of a table.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TimeTableError {
    /// The text is not a table.
    #[error("not a table of times: {0}")]
    Malformed(String),
    /// A later version wrote it.
    #[error("the table has schema {0} and was written by a newer gemm-tune: update gemm-tune")]
    Newer(u64),
    /// A shape has no time.
    #[error("no kernel has a time for {0}: leave it out, or measure with more kernels")]
    Empty(String),
}

impl TimeTable {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// [`TimeTableError`].
    pub fn parse(text: &str) -> Result<Self, TimeTableError> {
        let malformed =
            |error: &dyn std::fmt::Display| TimeTableError::Malformed(error.to_string());
        let any: serde_json::Value =
            serde_json::from_str(text).map_err(|error| malformed(&error))?;
        if let Some(newer) = any["schema"].as_u64().filter(|schema| *schema > SCHEMA) {
            return Err(TimeTableError::Newer(newer));
        }
        let table: Self = serde_json::from_value(any).map_err(|error| malformed(&error))?;
        let (shapes, kernels) = (table.shapes.len(), table.kernels.len());
        if table.schema != SCHEMA || shapes == 0 || kernels == 0 {
            return Err(malformed(&"it has no shape, no kernel, or no schema from 1"));
        }
        if table.times_us.len() != shapes || table.times_us.iter().any(|row| row.len() != kernels) {
            return Err(malformed(&format!("`times_us` is not {shapes} rows of {kernels} times")));
        }
        let is_time = |time: &f64| time.is_finite() && *time > 0.0;
        if !table.times_us.iter().flatten().flatten().all(is_time) {
            return Err(malformed(&"a time is not above 0"));
        }
        for (row, shape) in table.times_us.iter().zip(&table.shapes) {
            if row.iter().all(Option::is_none) {
                return Err(TimeTableError::Empty(shape.to_string()));
            }
        }
        Ok(table)
    }

    /// Time of a kernel for a shape, both by index.
    pub fn time(&self, shape: usize, kernel: usize) -> Option<f64> {
        *self.times_us.get(shape)?.get(kernel)?
    }

    /// Lowest time for a shape.
    pub fn best(&self, shape: usize) -> f64 {
        let times = self.times_us.get(shape).into_iter().flatten().flatten();
        times.copied().fold(f64::INFINITY, f64::min)
    }

    /// Logarithm of a kernel's time divided by the lowest time; infinite where the kernel has no
    /// time.
    pub(super) fn log_loss(&self, shape: usize, kernel: usize) -> f64 {
        self.time(shape, kernel).map_or(f64::INFINITY, |time| (time / self.best(shape)).ln())
    }
}
