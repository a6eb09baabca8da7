//! The words of a problem, of its libraries and of its validation, exactly as database files and manifests have them.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::model::{
    Dtype, Epilogue, EpilogueError, GemmType, GemmTypeError, Micros, Problem, ProblemPattern,
    Shape, UnknownWord, Validation,
};

/// The problem: C = alpha op(A) op(B) + beta C, row-major.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "ProblemFields", into = "ProblemFields")]
pub struct StoredProblem {
    /// Rows of C.
    pub m: u64,
    /// Columns of C.
    pub n: u64,
    /// The summed dimension.
    pub k: u64,
    /// Number of independent products; operands are packed one after the other.
    pub batch: u64,
    /// The words of its pattern.
    pub pattern: StoredPattern,
}

/// A problem as files have it: without a table of its own for the pattern, and with errors that name a field, which
/// `#[serde(flatten)]` loses.
#[derive(Serialize, Deserialize)]
struct ProblemFields {
    m: u64,
    n: u64,
    k: u64,
    batch: u64,
    dtype: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    b_dtype: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    out: Option<String>,
    compute: String,
    layout: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epilogue: Option<String>,
}

impl From<ProblemFields> for StoredProblem {
    fn from(fields: ProblemFields) -> Self {
        let ProblemFields { m, n, k, batch, dtype, b_dtype, out, compute, layout, epilogue } =
            fields;
        let pattern = StoredPattern { dtype, b_dtype, out, compute, layout, epilogue };
        Self { m, n, k, batch, pattern }
    }
}

impl From<StoredProblem> for ProblemFields {
    fn from(problem: StoredProblem) -> Self {
        let StoredProblem { m, n, k, batch, pattern } = problem;
        let StoredPattern { dtype, b_dtype, out, compute, layout, epilogue } = pattern;
        Self { m, n, k, batch, dtype, b_dtype, out, compute, layout, epilogue }
    }
}

/// A problem without its extents.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoredPattern {
    /// Dtype of A, and of the others where they are absent: `f32`.
    pub dtype: String,
    /// Dtype of B; absent where it is that of A.
    pub b_dtype: Option<String>,
    /// Dtype of C and D; absent where it follows from that of A: `i32` for `i8`, else the same.
    pub out: Option<String>,
    /// The arithmetic contract: `f32`, `tf32`.
    pub compute: String,
    /// Which operands are stored transposed: `nn`, `nt`, `tn`, `tt`.
    pub layout: String,
    /// What follows the product: `bias,gelu`; absent where nothing does.
    pub epilogue: Option<String>,
}

impl StoredPattern {
    /// Whether the GEMM types are the same.
    pub fn has_types_of(&self, other: &Self) -> bool {
        let types = |one: &Self| {
            let Self { dtype, b_dtype, out, compute, .. } = one.clone();
            (dtype, b_dtype, out, compute)
        };
        types(self) == types(other)
    }
}

/// Numbers of a library's algorithm by name, in the library's own values.
pub type LibraryAlgorithm = IndexMap<String, u64>;

/// The fastest library, measured with the winner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredBaseline {
    /// Name of the library and how it was called: `cuBLASLt (best of 16)`.
    pub name: String,
    /// Its median sample.
    pub median_us: f64,
    /// Its time divided by the winner's: above 1 where the winner is faster.
    pub speedup: f64,
    /// What makes its algorithm again, in the library's own numbers; absent for cuBLAS and in earlier records.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub algorithm: LibraryAlgorithm,
    /// All libraries measured, where there is more than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub all: Vec<LibraryTime>,
}

/// Time of a library for the problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LibraryTime {
    /// Name of the library and how it was called.
    pub name: String,
    /// Its median sample.
    pub median_us: f64,
    /// What makes its algorithm again, as in [`StoredBaseline`].
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub algorithm: LibraryAlgorithm,
}

impl StoredBaseline {
    /// The time of the library where it chooses the algorithm itself: that of cuBLAS where it was measured.
    pub fn own_choice(&self) -> Micros {
        let own = self.all.iter().find(|library| library.name == "cuBLAS");
        Micros(own.map_or(self.median_us, |library| library.median_us))
    }
}

/// How the result was checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredValidation {
    /// Reference of the comparison.
    pub reference: String,
    /// Largest error of any element, in the unit of the bound.
    pub max_error: f64,
    /// Upper limit for `max_error`.
    pub bound: f64,
    /// Further checks that it passed: other values, equal bits in two runs (or both within the
    /// bound), neighbouring shapes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_right_on: Vec<String>,
}

/// Error: a pattern with a word or a combination of dtypes that this version does not define.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnknownPattern {
    /// A word.
    #[error(transparent)]
    Word(#[from] UnknownWord),
    /// A combination of dtypes.
    #[error(transparent)]
    Types(#[from] GemmTypeError),
    /// An epilogue.
    #[error(transparent)]
    Epilogue(#[from] EpilogueError),
}

impl From<&Problem> for StoredProblem {
    fn from(problem: &Problem) -> Self {
        let Shape { m, n, k } = problem.shape;
        Self { m, n, k, batch: problem.batch, pattern: problem.pattern().into() }
    }
}

impl From<ProblemPattern> for StoredPattern {
    fn from(pattern: ProblemPattern) -> Self {
        let ProblemPattern { types: GemmType { a, b, d, compute }, layout, epilogue } = pattern;
        Self {
            dtype: a.to_string(),
            b_dtype: (b != a).then(|| b.to_string()),
            out: (d != a.default_out()).then(|| d.to_string()),
            compute: compute.to_string(),
            layout: layout.to_string(),
            epilogue: (!epilogue.is_empty()).then(|| epilogue.to_string()),
        }
    }
}

impl TryFrom<&StoredPattern> for ProblemPattern {
    type Error = UnknownPattern;

    /// Fails on words and on GEMM types that this version does not define.
    fn try_from(stored: &StoredPattern) -> Result<Self, UnknownPattern> {
        let StoredPattern { dtype, b_dtype, out, compute, layout, epilogue } = stored;
        let a: Dtype = dtype.parse()?;
        let other =
            |word: &Option<String>, usual| word.as_ref().map_or(Ok(usual), |word| word.parse());
        let types = GemmType {
            a,
            b: other(b_dtype, a)?,
            d: other(out, a.default_out())?,
            compute: compute.parse()?,
        };
        let epilogue: Epilogue = epilogue.as_deref().unwrap_or_default().parse()?;
        let epilogue = epilogue.check(types.check()?)?;
        Ok(Self { types, layout: layout.parse()?, epilogue })
    }
}

impl fmt::Display for StoredPattern {
    /// Writes a pattern as problems are written, also one that this version does not define.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Ok(known) = ProblemPattern::try_from(self) {
            return known.fmt(f);
        }
        let Self { dtype, b_dtype, out, compute, layout, epilogue } = self;
        write!(f, "{dtype}")?;
        b_dtype.iter().try_for_each(|b| write!(f, " {b}"))?;
        out.iter().try_for_each(|out| write!(f, " out {out}"))?;
        write!(f, " {compute} {layout}")?;
        epilogue.iter().try_for_each(|epilogue| write!(f, " {epilogue}"))
    }
}

impl TryFrom<&StoredProblem> for Problem {
    type Error = UnknownPattern;

    /// Fails on words and on GEMM types that this version does not define.
    fn try_from(stored: &StoredProblem) -> Result<Self, UnknownPattern> {
        let StoredProblem { m, n, k, batch, pattern } = stored;
        let pattern = ProblemPattern::try_from(pattern)?;
        Ok(Self { batch: *batch, ..pattern.problem(Shape { m: *m, n: *n, k: *k }) })
    }
}

impl From<&StoredValidation> for Validation {
    fn from(stored: &StoredValidation) -> Self {
        Self {
            reference: stored.reference.clone(),
            max_error: stored.max_error,
            bound: stored.bound,
        }
    }
}
