//! The file of a trace: its format, and what is refused.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Trace, TracedProduct, merged};
use crate::model::problem::MAX_BATCH;
use crate::model::{Epilogue, GemmType, Layout, Micros, Problem, Shape};

/// Version of the format.
const SCHEMA: u32 = 1;

/// Most calls of a product: more than any program makes, and few enough for an exact sum in binary64.
pub(super) const MAX_COUNT: u64 = 1 << 40;

/// Why a text is no trace.
#[derive(Debug, Error)]
pub enum TraceError {
    /// It is no JSON of this form.
    #[error("{0}; write a trace with `gemm-tune trace`")]
    Malformed(#[from] serde_json::Error),
    /// Another version of the format.
    #[error("it has schema {0}, and this program reads {SCHEMA}: trace the program again")]
    Schema(u32),
    /// A field is out of range.
    #[error("{field} is {value}: {wanted}")]
    Field {
        /// The field.
        field: String,
        /// Its value.
        value: String,
        /// Its range.
        wanted: String,
    },
    /// A problem that cannot be computed.
    #[error("problem {number}: {why}")]
    Problem {
        /// Its place, from 1.
        number: usize,
        /// The reason.
        why: String,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceFile {
    schema: u32,
    program: Vec<String>,
    torch: String,
    device: String,
    seconds: f64,
    problems: Vec<TraceEntry>,
    others: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceEntry {
    m: u64,
    n: u64,
    k: u64,
    batch: u64,
    dtype: String,
    compute: String,
    layout: String,
    epilogue: String,
    count: u64,
    torch_us: Option<f64>,
    samples: u64,
}

impl Trace {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// [`TraceError`] with the field, its value and its range.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let file: TraceFile = serde_json::from_str(text)?;
        if file.schema != SCHEMA {
            return Err(TraceError::Schema(file.schema));
        }
        if !(0.0..1e12).contains(&file.seconds) {
            return Err(out_of_range("seconds", file.seconds, "give 0 or more"));
        }
        for (name, count) in &file.others {
            check_count(&format!("`others.{name}`"), *count)?;
        }
        let products = file.problems.into_iter().enumerate().map(|(place, entry)| {
            entry.product().map_err(|why| TraceError::Problem { number: place + 1, why })
        });
        Ok(Self {
            program: file.program,
            torch: file.torch,
            device: file.device,
            seconds: file.seconds,
            products: merged(products.collect::<Result<_, _>>()?),
            others: file.others,
        })
    }

    /// The text of a file.
    pub fn text(&self) -> String {
        let file = TraceFile {
            schema: SCHEMA,
            program: self.program.clone(),
            torch: self.torch.clone(),
            device: self.device.clone(),
            seconds: self.seconds,
            problems: self.products.iter().map(TraceEntry::of).collect(),
            others: self.others.clone(),
        };
        serde_json::to_string_pretty(&file).unwrap_or_default() + "\n"
    }
}

fn out_of_range(field: &str, value: impl std::fmt::Display, wanted: &str) -> TraceError {
    let (field, wanted) = (field.to_owned(), wanted.to_owned());
    TraceError::Field { field, value: value.to_string(), wanted }
}

fn check_count(field: &str, count: u64) -> Result<(), TraceError> {
    if (1..=MAX_COUNT).contains(&count) {
        return Ok(());
    }
    Err(out_of_range(field, count, &format!("give 1 to {MAX_COUNT}")))
}

impl TraceEntry {
    fn of(product: &TracedProduct) -> Self {
        let Problem { shape, batch, types, layout, epilogue } = product.problem;
        Self {
            m: shape.m,
            n: shape.n,
            k: shape.k,
            batch,
            dtype: types.a.to_string(),
            compute: types.compute.to_string(),
            layout: layout.to_string(),
            epilogue: epilogue.to_string(),
            count: product.count,
            torch_us: product.time.map(|time| time.0),
            samples: product.samples,
        }
    }

    /// The product, or why it is none.
    fn product(&self) -> Result<TracedProduct, String> {
        fn words(error: impl std::fmt::Display) -> String {
            error.to_string()
        }
        let shape: Shape = format!("{}x{}x{}", self.m, self.n, self.k).parse().map_err(words)?;
        let compute = self.compute.parse().map_err(words)?;
        let types = GemmType { compute, ..GemmType::of(self.dtype.parse().map_err(words)?) };
        let types = types.check().map_err(words)?;
        let layout: Layout = self.layout.parse().map_err(words)?;
        let epilogue: Epilogue = self.epilogue.parse().map_err(words)?;
        let epilogue = epilogue.check(types).map_err(words)?;
        if !(1..=MAX_BATCH).contains(&self.batch) {
            return Err(format!("batch is {}: give 1 to {MAX_BATCH}", self.batch));
        }
        let problem = Problem { shape, batch: self.batch, types, layout, epilogue };
        problem.check_size().map_err(words)?;
        check_count("count", self.count).map_err(words)?;
        if let Some(us) = self.torch_us.filter(|us| !(*us > 0.0 && *us < 1e12)) {
            return Err(format!("torch_us is {us}: give microseconds above 0, or null"));
        }
        let time = self.torch_us.map(Micros);
        Ok(TracedProduct { problem, count: self.count, time, samples: self.samples })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{product, trace};
    use super::*;

    #[test]
    fn a_trace_is_written_and_read() {
        let before = trace(vec![product(512, 9, Some(7.25)), product(256, 1, None)]);
        assert_eq!(Trace::parse(&before.text()).unwrap(), before);
    }
}
