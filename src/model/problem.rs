//! Problems: C = alpha op(A) op(B) + beta C, row-major throughout.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::epilogue::{Epilogue, EpilogueOp};
use super::gemm_type::{Dtype, GemmType};
use super::unchecked::{UncheckedProblem, UncheckedShape};
use super::word::named_enum;

/// Largest extent of a dimension: kernels take M, N and K as 32-bit signed integers, and a tile
/// that begins inside a matrix ends at most 4096 elements beyond it.
pub const MAX_EXTENT: u64 = i32::MAX as u64 - 4095;

/// Largest batch: kernels count products in 32-bit signed integers, in steps of at most 65535, the
/// grid limit in z.
pub const MAX_BATCH: u64 = i32::MAX as u64 - 65_535;

/// Most bytes of an operand with all products of its batch: more than any GPU addresses (49 bits), and so few that
/// no size of a launch or a workspace, which are computed from extents in 63 bits, overflows.
pub const MAX_OPERAND_BYTES: u64 = 1 << 48;

/// M x N x K: op(A) is M x K, op(B) is K x N, C is M x N. Written `4096x4096x1024`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "UncheckedShape")]
pub struct Shape {
    /// Rows of op(A) and of C.
    pub m: u64,
    /// Columns of op(B) and of C.
    pub n: u64,
    /// Columns of op(A), rows of op(B): the summed dimension.
    pub k: u64,
}

/// Error in the text of a shape.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ShapeError {
    /// Neither three numbers nor one.
    #[error(
        "`{0}` is not a shape: write M, N and K joined by `x`, as in `4096x4096x1024`, or one number for a cube"
    )]
    Malformed(String),
    /// A fourth number.
    #[error(
        "`{text}` has four extents: write a batch of {batch} products as `{shape} --batch {batch}`"
    )]
    Batch {
        /// The text.
        text: String,
        /// The first three extents.
        shape: String,
        /// The fourth.
        batch: String,
    },
    /// A dimension is zero.
    #[error("`{text}` has {dimension} = 0: every dimension is at least 1")]
    Zero {
        /// The text.
        text: String,
        /// `M`, `N` or `K`.
        dimension: char,
    },
    /// A dimension or an operand exceeds what kernels can index.
    #[error("`{text}` is too large: {what}")]
    TooLarge {
        /// The text.
        text: String,
        /// The limit, with the figures.
        what: String,
    },
}

impl FromStr for Shape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let malformed = || ShapeError::Malformed(text.to_owned());
        let parts: Vec<&str> = text.trim().split(['x', 'X', '×', ',']).collect();
        let [m, n, k] = match parts[..] {
            [m, n, k] => [m, n, k],
            [one] => [one; 3],
            [m, n, k, batch] if [m, n, k, batch].iter().all(|extent| is_number(extent.trim())) => {
                let (shape, batch) =
                    (format!("{}x{}x{}", m.trim(), n.trim(), k.trim()), batch.trim());
                return Err(ShapeError::Batch {
                    text: text.to_owned(),
                    shape,
                    batch: batch.to_owned(),
                });
            }
            _ => return Err(malformed()),
        };
        let extent = |dimension: char, digits: &str| {
            if !is_number(digits) {
                return Err(malformed());
            }
            match digits.parse::<u64>() {
                Ok(0) => Err(ShapeError::Zero { text: text.to_owned(), dimension }),
                Ok(extent) if extent <= MAX_EXTENT => Ok(extent),
                _ => Err(ShapeError::TooLarge {
                    text: text.to_owned(),
                    what: format!("{dimension} is above {MAX_EXTENT}"),
                }),
            }
        };
        Ok(Self { m: extent('M', m)?, n: extent('N', n)?, k: extent('K', k)? })
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}x{}x{}", self.m, self.n, self.k))
    }
}

named_enum! {
    /// Layout: which operands are used as stored (`n`) or transposed (`t`); A first, then B.
    Layout, "layout", {
        /// A is stored M x K, B is stored K x N.
        Nn = "nn",
        /// A is stored M x K, B is stored N x K.
        Nt = "nt",
        /// A is stored K x M, B is stored K x N.
        Tn = "tn",
        /// A is stored K x M, B is stored N x K.
        Tt = "tt",
    }
}

impl Layout {
    /// Whether A is stored K x M.
    pub fn a_transposed(self) -> bool {
        matches!(self, Self::Tn | Self::Tt)
    }

    /// Whether B is stored N x K.
    pub fn b_transposed(self) -> bool {
        matches!(self, Self::Nt | Self::Tt)
    }
}

/// GEMM type, layout and epilogue: what problems that one kernel can serve have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProblemPattern {
    /// Dtypes of the operands, and the arithmetic contract.
    pub types: GemmType,
    /// Layout of the operands.
    pub layout: Layout,
    /// What follows the product.
    pub epilogue: Epilogue,
}

impl ProblemPattern {
    /// All patterns without an epilogue.
    pub fn all() -> impl Iterator<Item = Self> {
        let epilogue = Epilogue::NONE;
        GemmType::all().filter(move |types| epilogue.check(*types).is_ok()).flat_map(move |types| {
            Layout::ALL.iter().map(move |&layout| Self { types, layout, epilogue })
        })
    }

    /// As part of an identifier: `f32_nn`, `bf16_nn_bias_gelu`.
    pub fn identifier(self) -> String {
        let Self { types, layout, epilogue } = self;
        let mut text = format!("{}_{layout}", types.identifier());
        for operation in epilogue.operations() {
            text.push_str(&format!("_{}", operation.name().replace('-', "_")));
        }
        text
    }

    /// A single product of this pattern.
    pub fn problem(self, shape: Shape) -> Problem {
        let Self { types, layout, epilogue } = self;
        Problem { shape, batch: 1, types, layout, epilogue }
    }
}

impl fmt::Display for ProblemPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.types, self.layout)?;
        if self.epilogue.is_empty() { Ok(()) } else { write!(f, " {}", self.epilogue) }
    }
}

/// A matrix multiplication to find a kernel for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "UncheckedProblem")]
pub struct Problem {
    /// M, N and K.
    pub shape: Shape,
    /// Number of independent products, with operands packed one after the other.
    pub batch: u64,
    /// Dtypes of the operands, and the arithmetic contract.
    #[serde(flatten)]
    pub types: GemmType,
    /// Layout of the operands.
    pub layout: Layout,
    /// What follows the product.
    #[serde(skip_serializing_if = "Epilogue::is_empty")]
    pub epilogue: Epilogue,
}

impl Problem {
    /// Creates a single product of `shape` with the dtype's default arithmetic and layout `nn`.
    pub fn new(shape: Shape, dtype: Dtype) -> Self {
        let pattern = ProblemPattern {
            types: GemmType::of(dtype),
            layout: Layout::Nn,
            epilogue: Epilogue::NONE,
        };
        pattern.problem(shape)
    }

    /// What problems that one kernel can serve have in common.
    pub fn pattern(&self) -> ProblemPattern {
        ProblemPattern { types: self.types, layout: self.layout, epilogue: self.epilogue }
    }

    /// Checks that packed operands have at most [`MAX_OPERAND_BYTES`].
    ///
    /// # Errors
    /// [`ShapeError::TooLarge`] naming the operand and its size.
    pub fn check_size(&self) -> Result<(), ShapeError> {
        let Shape { m, n, k } = self.shape;
        let GemmType { a, b, d, .. } = self.types;
        for (operand, rows, columns, dtype) in [("A", m, k, a), ("B", k, n, b), ("C", m, n, d)] {
            let bytes = u128::from(rows)
                * u128::from(columns)
                * u128::from(self.batch)
                * u128::from(dtype.bytes());
            if bytes > u128::from(MAX_OPERAND_BYTES) {
                return Err(ShapeError::TooLarge {
                    text: self.shape.to_string(),
                    what: format!("operand {operand} would take {bytes} bytes, above 2^48"),
                });
            }
        }
        Ok(())
    }

    /// Returns the problems whose shape is one larger or smaller in one dimension.
    pub fn neighbours(&self) -> Vec<Self> {
        let Shape { m, n, k } = self.shape;
        let shapes = [
            (m.saturating_sub(1), n, k),
            (m + 1, n, k),
            (m, n.saturating_sub(1), k),
            (m, n + 1, k),
            (m, n, k.saturating_sub(1)),
            (m, n, k + 1),
        ];
        let within = |extent: &u64| (1..=MAX_EXTENT).contains(extent);
        shapes
            .into_iter()
            .filter(|(m, n, k)| [m, n, k].into_iter().all(within))
            .map(|(m, n, k)| Self { shape: Shape { m, n, k }, ..*self })
            .filter(|problem| problem.check_size().is_ok())
            .collect()
    }

    /// Whether a tuned kernel for the other problem says much about this one: the GEMM type is the same, and the extents and
    /// the batch differ by 10 % at most, whatever the layouts.
    pub fn is_like(&self, other: &Self) -> bool {
        let extents = |one: &Self| [one.shape.m, one.shape.n, one.shape.k, one.batch];
        let is_near = |(a, b): (u64, u64)| {
            let (less, more) = (a.min(b) as f64, a.max(b) as f64);
            more <= 1.1 * less
        };
        (self.types, self.epilogue) == (other.types, other.epilogue)
            && extents(self).into_iter().zip(extents(other)).all(is_near)
    }

    /// Operations of all products: 2 M N K per product; a multiply-add counts as two.
    pub fn operations(&self) -> f64 {
        let Shape { m, n, k } = self.shape;
        2.0 * m as f64 * n as f64 * k as f64 * self.batch as f64
    }

    /// Elements of one stored A.
    pub fn a_elements(&self) -> u64 {
        self.shape.m * self.shape.k
    }

    /// Elements of one stored B.
    pub fn b_elements(&self) -> u64 {
        self.shape.k * self.shape.n
    }

    /// Elements of one C.
    pub fn c_elements(&self) -> u64 {
        self.shape.m * self.shape.n
    }

    /// Minimum memory traffic in bytes: every operand element once, over the whole batch.
    pub fn bytes(&self) -> u64 {
        self.operand_bytes().iter().sum()
    }

    /// Bytes of A, B and C, each packed, over the whole batch.
    pub fn operand_bytes(&self) -> [u64; 3] {
        let GemmType { a, b, d, .. } = self.types;
        let one = [
            self.a_elements() * a.bytes(),
            self.b_elements() * b.bytes(),
            self.c_elements() * d.bytes(),
        ];
        one.map(|bytes| bytes * self.batch)
    }

    /// Elements of an epilogue's operand over the whole batch: vectors and matrices of each product, packed. `None`
    /// where the operation has no operand.
    pub fn epilogue_elements(&self, operation: EpilogueOp) -> Option<u64> {
        let Shape { m, n, .. } = self.shape;
        let one = match operation {
            EpilogueOp::Bias | EpilogueOp::ColScale => n,
            EpilogueOp::RowScale => m,
            EpilogueOp::Residual | EpilogueOp::Mul => m * n,
            EpilogueOp::Relu | EpilogueOp::Gelu | EpilogueOp::GeluTanh | EpilogueOp::Silu => {
                return None;
            }
        };
        Some(one * self.batch)
    }

    /// The operands of the epilogue, in its order, each with its bytes over the whole batch.
    pub fn epilogue_bytes(&self) -> impl Iterator<Item = (EpilogueOp, u64)> + '_ {
        self.epilogue.operations().filter_map(|operation| {
            let bytes = operation.operand_dtype(self.types).bytes();
            Some((operation, self.epilogue_elements(operation)? * bytes))
        })
    }

    /// Rows of A as stored, and their elements.
    pub fn stored_a(&self) -> [u64; 2] {
        let Shape { m, k, .. } = self.shape;
        if self.layout.a_transposed() { [k, m] } else { [m, k] }
    }

    /// Rows of B as stored, and their elements.
    pub fn stored_b(&self) -> [u64; 2] {
        let Shape { n, k, .. } = self.shape;
        if self.layout.b_transposed() { [n, k] } else { [k, n] }
    }

    /// Elements between consecutive rows of A as stored.
    pub fn lda(&self) -> u64 {
        self.stored_a()[1]
    }

    /// Elements between consecutive rows of B as stored.
    pub fn ldb(&self) -> u64 {
        self.stored_b()[1]
    }

    /// Elements between consecutive rows of C.
    pub fn ldc(&self) -> u64 {
        self.shape.n
    }
}

impl fmt::Display for Problem {
    /// Writes `4096x4096x1024 f32 nn`, with the batch and unusual types where present.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.shape, self.types, self.layout)?;
        if self.batch != 1 {
            write!(f, " x{}", self.batch)?;
        }
        if !self.epilogue.is_empty() {
            write!(f, " {}", self.epilogue)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_reads_as_it_is_written() {
        for text in ["4096x4096x1024", "1x1x1", "2147479552x1x1"] {
            assert_eq!(text.parse::<Shape>().unwrap().to_string(), text);
        }
        assert_eq!("8X4×2".parse(), Ok(Shape { m: 8, n: 4, k: 2 }));
    }

    #[test]
    fn a_malformed_shape_says_what_is_wrong() {
        for (text, message) in [
            ("4096x4096", "is not a shape"),
            ("4096x0x8", "has N = 0"),
            ("ax1x1", "is not a shape"),
            ("-1x1x1", "is not a shape"),
            ("", "is not a shape"),
            ("1x1x1x1x1", "is not a shape"),
            ("1x1x1xa", "is not a shape"),
            ("33x65x129x3", "write a batch of 3 products as `33x65x129 --batch 3`"),
            ("99999999999999999999x1x1", "M is above 2147479552"),
            ("1x2147479553x1", "N is above 2147479552"),
        ] {
            let error = text.parse::<Shape>().unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn an_operand_beyond_64_bits_is_refused() {
        let shape = Shape { m: MAX_EXTENT, n: 1, k: MAX_EXTENT };
        let error = Problem::new(shape, Dtype::F32).check_size().unwrap_err().to_string();
        assert!(error.contains("operand A would take"), "{error}");
    }

    #[test]
    fn leading_dimensions_follow_the_layout() {
        let shape = Shape { m: 2, n: 3, k: 5 };
        for (layout, lda, ldb) in
            [(Layout::Nn, 5, 3), (Layout::Nt, 5, 5), (Layout::Tn, 2, 3), (Layout::Tt, 2, 5)]
        {
            let problem = Problem { layout, ..Problem::new(shape, Dtype::F32) };
            assert_eq!((problem.lda(), problem.ldb(), problem.ldc()), (lda, ldb, 3), "{layout}");
        }
    }

    #[test]
    fn an_unknown_word_lists_the_known_ones() {
        let known = "choose one of f32, i32, f16, bf16, i8";
        for (given, guess) in [
            ("f23", " (did you mean `f32`?)"),
            ("F32", " (did you mean `f32`?)"),
            ("fp16", " (did you mean `f16`?)"),
            ("half", " (did you mean `f16`?)"),
            ("bfloat16", " (did you mean `bf16`?)"),
            ("float32", " (did you mean `f32`?)"),
            ("int8", " (did you mean `i8`?)"),
            ("double", ""),
        ] {
            let error = given.parse::<Dtype>().unwrap_err().to_string();
            assert_eq!(error, format!("`{given}` is no dtype: {known}{guess}"));
        }
    }
}
