//! Configurations: one value for each parameter of a family.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Value of a parameter or expression.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a value is a 64-bit number, true, false or a string")]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A real number; occurs in expressions, not in parameters.
    Float(f64),
    /// A string, such as the name of a loader.
    Text(String),
}

impl Value {
    /// Name of the kind, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Bool(_) => "boolean",
            Self::Int(_) => "integer",
            Self::Float(_) => "float",
            Self::Text(_) => "string",
        }
    }

    /// The value as a number; `None` for strings.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Bool(value) => Some(f64::from(u8::from(*value))),
            Self::Int(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            Self::Text(_) => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Text(value) => write!(f, "{value}"),
        }
    }
}

/// A value for each parameter, in the order that the family declares them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Configuration(pub IndexMap<String, Value>);

impl Configuration {
    /// Returns the value of `parameter`, if any.
    pub fn get(&self, parameter: &str) -> Option<&Value> {
        self.0.get(parameter)
    }

    /// The parameters whose values differ from those of `other`, or that `other` lacks.
    pub fn changes_from(&self, other: &Self) -> Self {
        let differs = |(name, value): &(&String, &Value)| other.get(name) != Some(*value);
        self.0.iter().filter(differs).map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Returns a short, permanent name for this configuration of `family`: `pipelined-1d746c42`. It
    /// is derived from the SHA-256 of the values that differ from the first of their parameter,
    /// sorted by name. A parameter added later, whose first value stands for the earlier behaviour,
    /// changes no name.
    pub fn short_name<'p>(
        &self,
        family: &str,
        parameters: impl IntoIterator<Item = (&'p String, &'p Vec<Value>)>,
    ) -> String {
        let others = parameters.into_iter().filter_map(|(name, values)| {
            let value = self.get(name).filter(|value| Some(*value) != values.first())?;
            Some((name.clone(), value.clone()))
        });
        let mut others: Self = others.collect();
        others.0.sort_unstable_keys();
        let digest = Sha256::digest(others.to_string());
        let first: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("{family}-{first}")
    }
}

impl fmt::Display for Configuration {
    /// `BM=128 BN=64 DOUBLE_BUFFER=true`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> =
            self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        f.pad(&pairs.join(" "))
    }
}

impl FromIterator<(String, Value)> for Configuration {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}
