//! Epilogues: what is done to alpha op(A) op(B) + beta C before it is stored as D.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::{LazyLock, Mutex, PoisonError};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

use super::gemm_type::{Dtype, GemmType};
use super::word::{UnknownWord, named_enum};

named_enum! {
    /// One operation of an epilogue, on the value of each element.
    EpilogueOp, "epilogue operation", {
        /// Adds a value for each column.
        Bias = "bias",
        /// Multiplies by a value for each row.
        RowScale = "row-scale",
        /// Multiplies by a value for each column.
        ColScale = "col-scale",
        /// max(x, 0).
        Relu = "relu",
        /// x Φ(x), with the distribution function of the normal distribution.
        Gelu = "gelu",
        /// The approximation of `gelu` by a hyperbolic tangent: x / 2 (1 + tanh(√(2/π) (x + 0.044715 x³))).
        GeluTanh = "gelu-tanh",
        /// x / (1 + exp(-x)).
        Silu = "silu",
        /// Adds an operand of the shape of C.
        Residual = "residual",
        /// Multiplies by an operand of the shape of C, for gates.
        Mul = "mul",
    }
}

impl EpilogueOp {
    /// Name of its operand among the arguments of kernels; `None` where it has none.
    pub fn operand(self) -> Option<&'static str> {
        match self {
            Self::Bias => Some("bias"),
            Self::RowScale => Some("row_scale"),
            Self::ColScale => Some("col_scale"),
            Self::Residual => Some("residual"),
            Self::Mul => Some("mul"),
            Self::Relu | Self::Gelu | Self::GeluTanh | Self::Silu => None,
        }
    }

    /// Dtype of its operand: scales are f32, others have the dtype of D.
    pub fn operand_dtype(self, types: GemmType) -> Dtype {
        match self {
            Self::RowScale | Self::ColScale => Dtype::F32,
            _ => types.d,
        }
    }

    /// Whether integers stay integers.
    pub fn is_of_integers(self) -> bool {
        matches!(self, Self::Bias | Self::Relu | Self::Residual)
    }

    /// Whether it gives integers a unit, so that D may be floating-point.
    pub fn is_scale(self) -> bool {
        matches!(self, Self::RowScale | Self::ColScale)
    }
}

/// Addresses of the operands of an epilogue, by operation; 0 for those that it has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EpilogueAddresses([u64; EpilogueOp::ALL.len()]);

impl EpilogueAddresses {
    /// The address of an operation's operand.
    pub fn of(&self, operation: EpilogueOp) -> u64 {
        self.0[operation as usize]
    }

    /// Sets the address of an operation's operand.
    pub fn set(&mut self, operation: EpilogueOp, address: u64) {
        self.0[operation as usize] = address;
    }
}

/// Operations in the order in which they are applied, each at most once. Written `bias,gelu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(into = "String")]
pub struct Epilogue(&'static str);

/// Error in the text of an epilogue, or in its combination with a GEMM type.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EpilogueError {
    /// A word that is no operation.
    #[error(transparent)]
    Unknown(#[from] UnknownWord),
    /// An operation occurs twice.
    #[error("`{0}` occurs twice in an epilogue: each operation occurs once at most")]
    Repeated(EpilogueOp),
    /// An operation that integers do not have.
    #[error("`{0}` makes no integers: D of dtype {1} takes `bias`, `relu` and `residual`")]
    Integers(EpilogueOp, Dtype),
    /// Integer sums without a scale.
    #[error("sums of integers become {0} with `row-scale` or `col-scale` in the epilogue only")]
    NoScale(Dtype),
}

/// Texts of epilogues that occurred: operations occur once, so there are not many.
static TEXTS: LazyLock<Mutex<BTreeSet<&'static str>>> = LazyLock::new(Mutex::default);

impl Epilogue {
    /// No operations.
    pub const NONE: Self = Self("");

    /// Makes an epilogue of operations.
    ///
    /// # Errors
    /// [`EpilogueError::Repeated`].
    pub fn new(operations: &[EpilogueOp]) -> Result<Self, EpilogueError> {
        for (at, operation) in operations.iter().enumerate() {
            if operations[..at].contains(operation) {
                return Err(EpilogueError::Repeated(*operation));
            }
        }
        let names: Vec<&str> = operations.iter().map(|operation| operation.name()).collect();
        let text = names.join(",");
        // A set of texts is whole after a panic too.
        let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        let known = texts.get(text.as_str()).copied();
        Ok(Self(known.unwrap_or_else(|| {
            let kept: &'static str = text.leak();
            texts.insert(kept);
            kept
        })))
    }

    /// Whether it has no operations.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The operations joined by commas.
    pub fn text(self) -> &'static str {
        self.0
    }

    /// The operations in order.
    pub fn operations(self) -> impl Iterator<Item = EpilogueOp> {
        // No name, no error: to make one allocates, and the runtime asks at each call.
        let names = self.0.split(',').filter(|name| !name.is_empty());
        names.filter_map(|name| name.parse().ok())
    }

    /// The operations with an operand, in order.
    pub fn operands(self) -> impl Iterator<Item = EpilogueOp> {
        self.operations().filter(|operation| operation.operand().is_some())
    }

    /// Checks that D of these types can have this epilogue.
    ///
    /// # Errors
    /// [`EpilogueError::Integers`] and [`EpilogueError::NoScale`].
    pub fn check(self, types: GemmType) -> Result<Self, EpilogueError> {
        if types.d.is_integer() {
            let other = self.operations().find(|operation| !operation.is_of_integers());
            return other.map_or(Ok(self), |other| Err(EpilogueError::Integers(other, types.d)));
        }
        let is_unscaled =
            types.accumulator().is_integer() && !self.operations().any(EpilogueOp::is_scale);
        if is_unscaled { Err(EpilogueError::NoScale(types.d)) } else { Ok(self) }
    }
}

impl From<EpilogueOp> for Epilogue {
    fn from(operation: EpilogueOp) -> Self {
        Self(operation.name())
    }
}

impl FromStr for Epilogue {
    type Err = EpilogueError;

    fn from_str(text: &str) -> Result<Self, EpilogueError> {
        let names = text.split(',').map(str::trim).filter(|_| !text.trim().is_empty());
        let operations: Vec<EpilogueOp> = names.map(str::parse).collect::<Result<_, _>>()?;
        Self::new(&operations)
    }
}

impl<'de> Deserialize<'de> for Epilogue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl From<Epilogue> for String {
    fn from(epilogue: Epilogue) -> Self {
        epilogue.0.to_owned()
    }
}

impl fmt::Display for Epilogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epilogue_reads_as_it_is_written() {
        for (text, written) in
            [("", ""), (" ", ""), ("bias", "bias"), ("bias, gelu,mul", "bias,gelu,mul")]
        {
            let epilogue: Epilogue = text.parse().unwrap();
            assert_eq!(epilogue.to_string(), written);
            assert_eq!(epilogue, written.parse().unwrap());
            let json = serde_json::to_string(&epilogue).unwrap();
            assert_eq!(serde_json::from_str::<Epilogue>(&json).unwrap(), epilogue);
        }
        let all = Epilogue::new(EpilogueOp::ALL).unwrap();
        assert_eq!(all.operations().collect::<Vec<_>>(), EpilogueOp::ALL);
        assert_eq!(all.operands().count(), 5);
    }

    #[test]
    fn a_wrong_epilogue_says_what_is_wrong() {
        for (text, message) in [
            ("tanh", "`tanh` is no epilogue operation: choose one of bias, row-scale,"),
            ("bias,", "`` is no epilogue operation"),
            ("relu,bias,relu", "`relu` occurs twice in an epilogue"),
        ] {
            let error = text.parse::<Epilogue>().unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn integers_take_what_keeps_them_and_become_others_with_a_scale() {
        let whole = GemmType::of(Dtype::I8);
        let scaled = GemmType { d: Dtype::Bf16, ..whole };
        let check = |text: &str, types| {
            let epilogue: Epilogue = text.parse().unwrap();
            epilogue.check(types).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(check("bias,relu,residual", whole), Ok(()));
        assert_eq!(check("row-scale,col-scale,bias,gelu", scaled), Ok(()));
        assert!(check("bias,silu", whole).unwrap_err().contains("`silu` makes no integers"));
        assert!(check("bias", scaled).unwrap_err().contains("sums of integers become bf16"));
        assert_eq!(check("mul,silu", GemmType::of(Dtype::F32)), Ok(()));
    }
}
