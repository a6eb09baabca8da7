//! What can be asked, and what an answer says.

use thiserror::Error;

use crate::database::Record;
use crate::model::{Configuration, Micros, Problem, Storage};
use crate::space::Family;

/// A problem as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Question {
    /// What is computed.
    pub problem: Problem,
    /// How its operands lie in memory.
    pub storage: Storage,
}

impl Question {
    /// For operands that are packed.
    pub fn packed(problem: Problem) -> Self {
        Self { problem, storage: Storage::packed(&problem) }
    }
}

/// How an answer was found, from the surest to the least sure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rung {
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

impl Rung {
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

/// Why an answer is of its rung and not of one above.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Why {
    /// It was tuned.
    Tuned,
    /// Of the records near it, the model expects the least of this one.
    BestOf {
        /// How many were compared.
        compared: usize,
        /// What the best default is expected to take, where one is legal.
        default: Option<Micros>,
    },
    /// Of the kernels that were measured for other problems, the least is expected of this one by what
    /// was learned of all.
    LeastOf {
        /// How many were compared.
        compared: usize,
    },
    /// No record is of a problem of this dtype, compute type and layout.
    NoRecords,
    /// None of the records near it is legal for it.
    NoneLegal {
        /// How many were tried.
        tried: usize,
    },
    /// The model expects the default to be faster than the best that was tuned for other problems.
    ExpectedFaster {
        /// What that is expected to take.
        best: Micros,
    },
}

/// The kernel to use.
#[derive(Debug, Clone)]
pub struct Answer<'a> {
    /// How it was found.
    pub rung: Rung,
    /// Why not better.
    pub why: Why,
    /// The family.
    pub family: &'a Family,
    /// The configuration, which is legal for the problem as it is stored.
    pub configuration: &'a Configuration,
    /// The time that it is expected to take; measured, where the rung is exact. Unknown where
    /// nothing was ever measured.
    pub predicted: Option<Micros>,
    /// How far the time may be off: of an exact answer the spread of its samples, otherwise what 9 in
    /// 10 records are predicted within from the others. `None` where there are too few to tell.
    pub error_percent: Option<f64>,
    /// The record that it comes from, or whose time the prediction rests on; the default of an
    /// untuned device has none.
    pub source: Option<&'a Record>,
    /// Whether the family's template is not the one that the record was made with.
    pub template_changed: bool,
}

impl Answer<'_> {
    /// Whether its kernel gives the same bits in each run: only the record of the very problem may be one
    /// that does not.
    pub fn is_deterministic(&self) -> bool {
        self.rung != Rung::Exact || self.source.is_none_or(|record| record.deterministic)
    }

    /// In a sentence, why this is the answer.
    pub fn because(&self) -> String {
        let shape = self.source.map_or(String::new(), |record| {
            let problem = &record.problem;
            let batch =
                if problem.batch == 1 { String::new() } else { format!(" x{}", problem.batch) };
            format!("{}x{}x{}{batch}", problem.m, problem.n, problem.k)
        });
        let device = self.source.map_or("", |record| record.device.name.as_str());
        match (self.rung, self.why) {
            (Rung::Exact, _) | (_, Why::Tuned) if self.is_deterministic() => {
                format!("{shape} was tuned on {device}")
            }
            (Rung::Exact, _) | (_, Why::Tuned) => {
                format!(
                    "{shape} was tuned on {device}, with kernels allowed whose last bits differ from run to run"
                )
            }
            (rung, Why::BestOf { compared, default }) => {
                let against = match default {
                    Some(time) => format!("; the best default is expected to take {time}"),
                    None => String::new(),
                };
                let place = match rung {
                    Rung::Sibling => {
                        format!(
                            " on {device}, which has the same compute capability; nothing fits of this device"
                        )
                    }
                    _ => String::new(),
                };
                format!(
                    "the least is expected of the winner of {shape}{place}, of {compared} winners near it{against}"
                )
            }
            (_, Why::LeastOf { compared }) => format!(
                "the least is expected of it by what other problems took, of {compared} kernels"
            ),
            (_, Why::NoRecords) => "nothing like it was tuned".to_owned(),
            (_, Why::NoneLegal { tried }) => {
                format!("none of the {tried} records near it is legal for it")
            }
            (_, Why::ExpectedFaster { best }) => format!(
                "it is expected to be faster than the best that was tuned near it, for {shape}, which \
                 would take {best}"
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
