//! Traces: the matrix products of a program, how often it computes them and how long it takes. A session tunes those
//! that are worth it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::model::problem::MAX_BATCH;
use crate::model::{Epilogue, GemmType, Layout, Micros, Problem, Shape};

/// Version of the format.
const SCHEMA: u32 = 1;

/// Most calls of a product: more than any program makes, and few enough for an exact sum in binary64.
const MAX_COUNT: u64 = 1 << 40;

/// Part of the traced time that the problems to tune cover. The others are not worth a search: all of them together
/// take less than the rest.
pub const COVERED: f64 = 0.95;

/// A trace of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// The program's name.
    pub program: Vec<String>,
    /// Version of PyTorch.
    pub torch: String,
    /// The GPU's name, or `cpu`.
    pub device: String,
    /// Time that the program ran for.
    pub seconds: f64,
    /// Its products, each problem once, those that take most of the time first.
    pub products: Vec<TracedProduct>,
    /// Products of other types, with the number of calls.
    pub others: BTreeMap<String, u64>,
}

/// A product of a program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TracedProduct {
    /// Its problem.
    pub problem: Problem,
    /// Number of calls.
    pub count: u64,
    /// Median time of a call; none where no call was timed.
    pub time: Option<Micros>,
    /// Number of timed calls.
    pub samples: u64,
}

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

    /// The trace of several processes of a program; `None` without any.
    pub fn of_processes(traces: Vec<Self>) -> Option<Self> {
        let mut traces = traces.into_iter();
        let mut whole = traces.next()?;
        for other in traces {
            // A process without products on the GPU does not say which one the others used.
            if whole.device == "cpu" {
                whole.device = other.device;
            }
            whole.seconds = whole.seconds.max(other.seconds);
            whole.products.extend(other.products);
            for (name, count) in other.others {
                let own = whole.others.entry(name).or_default();
                *own = own.saturating_add(count).min(MAX_COUNT);
            }
        }
        whole.products = merged(whole.products);
        Some(whole)
    }

    /// Time of all products.
    pub fn total(&self) -> Micros {
        Micros(self.products.iter().filter_map(TracedProduct::total).sum())
    }

    /// The problems that are worth a search: those that take most of the time, until they cover [`COVERED`] of it.
    /// Without times, operations count in their place.
    pub fn worthwhile(&self) -> Vec<Problem> {
        let weights = weights(&self.products);
        let all: f64 = weights.iter().sum();
        let mut covered = 0.0;
        let taken = self.products.iter().zip(&weights).take_while(|(_, weight)| {
            let is_worth_it = covered < COVERED * all;
            covered += **weight;
            is_worth_it
        });
        taken.map(|(product, _)| product.problem).collect()
    }

    /// What the program gains where kernels of these times replace PyTorch's. Problems without a time of both are left
    /// out.
    pub fn gain(&self, tuned: &[(Problem, Micros)]) -> TraceGain {
        let rows = self.products.iter().filter_map(|product| {
            let (_, tuned) = tuned.iter().find(|(problem, _)| *problem == product.problem)?;
            Some(ProductGain { product: *product, torch: product.time?, tuned: *tuned })
        });
        TraceGain { rows: rows.collect(), total: self.total() }
    }
}

/// What a program gains by tuned kernels.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceGain {
    /// The tuned problems.
    pub rows: Vec<ProductGain>,
    /// Time of all products of the trace, the others included.
    pub total: Micros,
}

/// What a program gains by one kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProductGain {
    /// The product.
    pub product: TracedProduct,
    /// Time of a call in PyTorch.
    pub torch: Micros,
    /// Time of the tuned kernel.
    pub tuned: Micros,
}

impl ProductGain {
    /// Time that all calls gain: below 0 where the kernel is slower.
    pub fn saved(&self) -> Micros {
        Micros((self.torch.0 - self.tuned.0) * self.product.count as f64)
    }
}

impl TraceGain {
    /// Time that the program gains where it uses each kernel that is faster than PyTorch.
    pub fn saved(&self) -> Micros {
        Micros(self.rows.iter().map(|row| row.saved().0.max(0.0)).sum())
    }
}

impl TracedProduct {
    /// Time of all calls.
    fn total(&self) -> Option<f64> {
        self.time.map(|time| time.0 * self.count as f64)
    }

    /// Operations of all calls.
    fn operations(&self) -> f64 {
        let Shape { m, n, k } = self.problem.shape;
        2.0 * m as f64 * n as f64 * k as f64 * self.problem.batch as f64 * self.count as f64
    }
}

/// Time of each product, or operations at the mean rate of the timed ones.
fn weights(products: &[TracedProduct]) -> Vec<f64> {
    let timed = products.iter().filter_map(|one| Some((one.total()?, one.operations())));
    let (time, operations) =
        timed.fold((0.0, 0.0), |(time, all), (own, count)| (time + own, all + count));
    let per_operation = if operations > 0.0 { time / operations } else { 1.0 };
    let weight =
        |one: &TracedProduct| one.total().unwrap_or_else(|| one.operations() * per_operation);
    products.iter().map(weight).collect()
}

/// Products with each problem once, those that take most of the time first. The time of a problem is the mean of its
/// medians, by calls.
fn merged(products: Vec<TracedProduct>) -> Vec<TracedProduct> {
    let mut by_problem: BTreeMap<Problem, TracedProduct> = BTreeMap::new();
    for product in products {
        match by_problem.get_mut(&product.problem) {
            None => drop(by_problem.insert(product.problem, product)),
            Some(own) => {
                let both = own.count.saturating_add(product.count);
                let mean = |(own_time, time): (Micros, Micros)| {
                    let sum = own_time.0 * own.count as f64 + time.0 * product.count as f64;
                    Micros(sum / both as f64)
                };
                own.time = own.time.zip(product.time).map(mean).or(own.time).or(product.time);
                own.count = both.min(MAX_COUNT);
                own.samples = own.samples.saturating_add(product.samples);
            }
        }
    }
    let products: Vec<TracedProduct> = by_problem.into_values().collect();
    let weights = weights(&products);
    let mut sorted: Vec<_> = weights.into_iter().zip(products).collect();
    sorted.sort_by(|(weight, _), (other, _)| other.total_cmp(weight));
    sorted.into_iter().map(|(_, product)| product).collect()
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
    use super::*;
    use crate::model::Dtype;

    fn product(extent: u64, count: u64, time: Option<f64>) -> TracedProduct {
        let problem = Problem::new(Shape { m: extent, n: extent, k: extent }, Dtype::Bf16);
        TracedProduct { problem, count, time: time.map(Micros), samples: 3 }
    }

    fn trace(products: Vec<TracedProduct>) -> Trace {
        Trace {
            program: vec!["serve.py".to_owned()],
            torch: "2.9".to_owned(),
            device: "NVIDIA H200".to_owned(),
            seconds: 2.5,
            products: merged(products),
            others: BTreeMap::from([("mm of torch.float64".to_owned(), 3)]),
        }
    }

    #[test]
    fn a_trace_is_written_and_read() {
        let before = trace(vec![product(512, 9, Some(7.25)), product(256, 1, None)]);
        assert_eq!(Trace::parse(&before.text()).unwrap(), before);
    }

    #[test]
    fn processes_are_joined_and_problems_with_most_time_come_first() {
        let parts = vec![
            trace(vec![product(512, 3, Some(10.0)), product(64, 5, Some(1.0))]),
            trace(vec![product(512, 1, Some(30.0)), product(1024, 10, Some(90.0))]),
        ];
        let whole = Trace::of_processes(parts).unwrap();
        let found: Vec<_> = whole
            .products
            .iter()
            .map(|one| (one.problem.shape.m, one.count, one.time.unwrap().0))
            .collect();
        assert_eq!(found, [(1024, 10, 90.0), (512, 4, 15.0), (64, 5, 1.0)]);
        assert_eq!(whole.others["mm of torch.float64"], 6);
        assert!(Trace::of_processes(Vec::new()).is_none());
    }

    #[test]
    fn problems_are_tuned_until_the_rest_takes_little_time() {
        let extents = |trace: &Trace| -> Vec<u64> {
            trace.worthwhile().iter().map(|problem| problem.shape.m).collect()
        };
        let times = [(100, 80.0), (200, 16.0), (300, 3.0), (400, 1.0)];
        let of = |scale: f64| times.map(|(extent, time)| product(extent, 1, Some(time * scale)));
        assert_eq!(extents(&trace(of(1.0).to_vec())), [100, 200]);
        // Of 100 small problems alike, 95 are tuned.
        let alike = (1..=100).map(|extent| product(extent, 2, Some(4.0)));
        assert_eq!(extents(&trace(alike.collect())).len(), 95);
        // Without times, operations count.
        assert_eq!(extents(&trace(vec![product(8, 1, None), product(800, 1, None)])), [800]);
        assert!(trace(Vec::new()).worthwhile().is_empty());
    }

    #[test]
    fn the_gain_is_that_of_kernels_that_are_faster() {
        let trace = trace(vec![product(512, 10, Some(20.0)), product(64, 100, Some(5.0))]);
        let [large, small] = [512, 64].map(|extent| product(extent, 1, None).problem);
        let gain = trace.gain(&[(large, Micros(15.0)), (small, Micros(6.0))]);
        let saved: Vec<f64> = gain.rows.iter().map(|row| row.saved().0).collect();
        assert_eq!((saved, gain.saved().0, gain.total.0), (vec![-100.0, 50.0], 50.0, 700.0));
    }
}
