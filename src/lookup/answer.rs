//! Questions to the lookup and its answers.

pub use gemm_tune_runtime::Question;
use thiserror::Error;

use crate::database::Record;
use crate::model::{Configuration, Micros};
use crate::space::Family;

/// Source of an answer, from the most to the least certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnswerSource {
    /// The record of this problem on this device.
    Exact,
    /// The winner of another problem on this device.
    Neighbour,
    /// A kernel that was measured on this device and is the record of no problem.
    Learned,
    /// A winner of another device of the same compute capability.
    Sibling,
    /// The default of a family.
    Default,
}

impl AnswerSource {
    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Neighbour => "neighbour",
            Self::Learned => "learned",
            Self::Sibling => "sibling",
            Self::Default => "default",
        }
    }
}

/// Reason for the source of an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Why {
    /// It was tuned.
    Tuned,
    /// It has the lowest predicted time of the records near the problem.
    BestOf {
        /// Kernels compared.
        compared: usize,
        /// Predicted time of the best default, where one is legal.
        default: Option<Micros>,
    },
    /// It has the lowest time by the learned model.
    LeastOf {
        /// Kernels compared.
        compared: usize,
    },
    /// No record has this dtype, compute type and layout.
    NoRecords,
    /// None of the records near the problem is legal for it.
    NoneLegal {
        /// Records tried.
        tried: usize,
    },
    /// The default has a lower predicted time than the best record of other problems.
    ExpectedFaster {
        /// Predicted time of that record.
        best: Micros,
    },
}

/// The kernel to use.
#[derive(Debug, Clone)]
pub struct Answer<'a> {
    /// Its source.
    pub source: AnswerSource,
    /// The reason for that source.
    pub why: Why,
    /// The family.
    pub family: &'a Family,
    /// The configuration, which is legal for the problem as it is stored.
    pub configuration: &'a Configuration,
    /// Predicted time; measured, where the source is exact. `None` where nothing was measured.
    pub predicted: Option<Micros>,
    /// Error of the time: for an exact answer the spread of its samples, otherwise what 9 in 10 predictions of
    /// records from the others are within. `None` where there are too few.
    pub error_percent: Option<f64>,
    /// The record of the kernel, or of the time that the prediction rests on; the default of an untuned device
    /// has none.
    pub record: Option<&'a Record>,
    /// Whether the family's template is not the one that the record was made with.
    pub template_changed: bool,
}

impl Answer<'_> {
    /// Whether its kernel is deterministic: only the record of the very problem may not be.
    pub fn is_deterministic(&self) -> bool {
        self.source != AnswerSource::Exact || self.record.is_none_or(|record| record.deterministic)
    }

    /// The reason for the answer, in a sentence.
    pub fn because(&self) -> String {
        let shape = self.record.map_or(String::new(), |record| {
            let problem = &record.problem;
            let batch =
                if problem.batch == 1 { String::new() } else { format!(" x{}", problem.batch) };
            format!("{}x{}x{}{batch}", problem.m, problem.n, problem.k)
        });
        let device = self.record.map_or("", |record| record.device.name.as_str());
        match (self.source, self.why) {
            (AnswerSource::Exact, _) | (_, Why::Tuned) if self.is_deterministic() => {
                format!("{shape} was tuned on {device}")
            }
            (AnswerSource::Exact, _) | (_, Why::Tuned) => {
                format!("{shape} was tuned on {device}, with non-deterministic kernels allowed")
            }
            (source, Why::BestOf { compared, default }) => {
                let against = match default {
                    Some(time) => format!("; the predicted time of the best default is {time}"),
                    None => String::new(),
                };
                let place = match source {
                    AnswerSource::Sibling => {
                        format!(
                            " on {device}, which has the same compute capability; no record of this device fits"
                        )
                    }
                    _ => String::new(),
                };
                format!(
                    "the winner of {shape}{place} has the lowest predicted time of {compared} winners near it{against}"
                )
            }
            (_, Why::LeastOf { compared }) => {
                format!("it has the lowest time of {compared} kernels by the learned model")
            }
            (_, Why::NoRecords) => "no similar problem was tuned".to_owned(),
            (_, Why::NoneLegal { tried }) => {
                format!("none of the {tried} records near it is legal for it")
            }
            (_, Why::ExpectedFaster { best }) => format!(
                "its predicted time is lower than that of the best winner near it, of {shape}, with {best}"
            ),
        }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoAnswer {
    /// Only what was pinned is answered.
    #[error(
        "{problem} is not among the {pinned} pinned problems of {device}: tune it and pin the result, or ask without `--pin`"
    )]
    NotPinned {
        /// The problem.
        problem: String,
        /// The device.
        device: String,
        /// How many are.
        pinned: usize,
    },
    /// It is pinned, but the program has another kernel now.
    #[error(
        "{problem} is pinned to a kernel of `{family}`, whose template has changed since: use the gemm-tune that it was pinned with, or tune and pin it anew"
    )]
    Changed {
        /// The problem.
        problem: String,
        /// The family.
        family: String,
    },
    /// It is pinned, but the operands are stored in a way that the kernel does not serve.
    #[error(
        "{problem} is pinned to a kernel that is not legal for these leading dimensions and alignment: pin one that was tuned for odd rows, or ask without `--pin`"
    )]
    NotLegal {
        /// The problem.
        problem: String,
    },
    /// No default of any family is legal.
    #[error("no record and no default of a family is legal for {problem} on {device}")]
    Nothing {
        /// The problem.
        problem: String,
        /// The device.
        device: String,
    },
}
