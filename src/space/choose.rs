//! One configuration of a family, as a person names it: `BM=128,BN=64`, what is not named from the
//! family's default.

use thiserror::Error;

use super::family::Constraint;
use super::family::Family;
use crate::model::diagnostic::did_you_mean;
use crate::model::{Configuration, Device, Diagnostic, Problem, Value};

/// Why what was named is no configuration of a family for a problem.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ChoiceError {
    /// The family does not serve the problem or the device.
    #[error("family `{family}` {refusal}")]
    Refused {
        /// The family.
        family: String,
        /// What it serves instead.
        refusal: String,
    },
    /// There is nothing to take what is not named from.
    #[error("family `{family}` has no legal default for {problem}: {constraint}")]
    NoDefault {
        /// The family.
        family: String,
        /// The problem.
        problem: Box<Problem>,
        /// The constraint that its first default breaks.
        constraint: String,
    },
    /// It is not written as assignments.
    #[error("`{text}` sets no parameter: write NAME=VALUE,NAME=VALUE, as in `{example}`")]
    Malformed {
        /// What was written.
        text: String,
        /// The family's default, as it would be written.
        example: String,
    },
    /// The family has no such parameter.
    #[error("family `{family}` has no parameter `{name}` ({help})")]
    UnknownParameter {
        /// The family.
        family: String,
        /// What was named.
        name: String,
        /// A guess, or the parameters that there are.
        help: String,
    },
    /// The parameter does not take such a value.
    #[error("{name} of family `{family}` is one of {known}, not {value}")]
    UnknownValue {
        /// The family.
        family: String,
        /// The parameter.
        name: String,
        /// What was given.
        value: String,
        /// What it takes.
        known: String,
    },
    /// The configuration is not legal.
    #[error("{family} {configuration} is not legal for {problem}: {constraint}")]
    Illegal {
        /// The family.
        family: String,
        /// The configuration.
        configuration: String,
        /// The problem.
        problem: Box<Problem>,
        /// What it breaks, and why that must hold.
        constraint: String,
    },
    /// A constraint cannot be evaluated.
    #[error("{}", .0.summary())]
    Expression(#[from] Box<Diagnostic>),
}

impl Family {
    /// The configuration that `text` names for `problem` on `device`; an empty text names the default.
    ///
    /// # Errors
    /// See [`ChoiceError`].
    pub fn choose(
        &self,
        text: &str,
        problem: &Problem,
        device: &Device,
    ) -> Result<Configuration, ChoiceError> {
        let family = || self.name.clone();
        if let Some(refusal) = self.refusal(problem, device) {
            return Err(ChoiceError::Refused { family: family(), refusal });
        }
        let boxed = || Box::new(*problem);
        let mut configuration = self.default_to_change(problem, device)?;
        for assignment in text.split(',').filter(|part| !part.trim().is_empty()) {
            let (name, value) = assignment.split_once('=').ok_or_else(|| {
                let text = assignment.to_owned();
                ChoiceError::Malformed { text, example: written(&configuration) }
            })?;
            let (name, value) = (name.trim(), value.trim());
            let known = self.values_of(name)?;
            let chosen = known.iter().find(|known| known.to_string() == value);
            let chosen = chosen.ok_or_else(|| ChoiceError::UnknownValue {
                family: family(),
                name: name.to_owned(),
                value: value.to_owned(),
                known: known.iter().map(Value::to_string).collect::<Vec<_>>().join(", "),
            })?;
            configuration.0.insert(name.to_owned(), chosen.clone());
        }
        let explain =
            |constraint: &Constraint| format!("`{}` ({})", constraint.text, constraint.because);
        // What somebody names need not be worth a search's time.
        let broken = self.forbidden(&configuration, problem, device)?;
        match broken.map(explain) {
            None => Ok(configuration),
            // There is no other default either.
            Some(constraint) if text.trim().is_empty() => {
                Err(ChoiceError::NoDefault { family: family(), problem: boxed(), constraint })
            }
            Some(constraint) => Err(ChoiceError::Illegal {
                family: family(),
                configuration: configuration.to_string(),
                problem: boxed(),
                constraint,
            }),
        }
    }

    /// The first default that is legal; where none is, the first of all, or that of the family's file: what
    /// is named may make it legal.
    fn default_to_change(
        &self,
        problem: &Problem,
        device: &Device,
    ) -> Result<Configuration, ChoiceError> {
        let legal = self.default_for(problem, device)?;
        let first = || self.defaults(device).first().unwrap_or_else(|| self.default()).clone();
        Ok(legal.unwrap_or_else(first))
    }

    fn values_of(&self, name: &str) -> Result<&[Value], ChoiceError> {
        self.parameters.get(name).map(Vec::as_slice).ok_or_else(|| {
            let names = self.parameters.keys().map(String::as_str);
            let help = did_you_mean(name, names.clone()).unwrap_or_else(|| {
                format!("its parameters are {}", names.collect::<Vec<_>>().join(", "))
            });
            ChoiceError::UnknownParameter { family: self.name.clone(), name: name.to_owned(), help }
        })
    }
}

/// A configuration as [`Family::choose`] reads it.
fn written(configuration: &Configuration) -> String {
    let pairs = configuration.0.iter().map(|(name, value)| format!("{name}={value}"));
    pairs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dtype;

    const FAMILY: &str = r#"
        schema = 1
        name = "f"
        summary = "a family"
        dtypes = ["f32"]
        compute = ["f32"]
        layouts = ["nn"]
        [parameters]
        BM = [32, 64]
        TM = [4, 8, 64]
        FAST = [false, true]
        [[constraints]]
        require = "BM % TM == 0"
        because = "a thread owns a whole tile"
        [[constraints]]
        require = "M > 8"
        because = "it is for large matrices"
        [[kernels]]
        entry = "gemm"
        grid = ["BM"]
        block = ["32"]
        [default]
        BM = 64
        TM = 8
        FAST = true
    "#;

    fn choose(text: &str, shape: &str, dtype: Dtype) -> Result<String, String> {
        let family = Family::parse("f.toml", FAMILY).unwrap();
        let problem = Problem::new(shape.parse().unwrap(), dtype);
        let chosen = family.choose(text, &problem, &Device::h200());
        chosen.map(|one| one.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_not_named_is_the_default() {
        for (text, expected) in [
            ("", "BM=64 TM=8 FAST=true"),
            ("BM=32", "BM=32 TM=8 FAST=true"),
            (" FAST = false , TM = 4,", "BM=64 TM=4 FAST=false"),
        ] {
            assert_eq!(choose(text, "64x64x64", Dtype::F32).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_configuration_is_refused_with_the_way_out() {
        for (text, shape, dtype, message) in [
            ("BM", "64x64x64", Dtype::F32, "write NAME=VALUE,NAME=VALUE, as in `BM=64,TM=8,"),
            (
                "BN=3",
                "64x64x64",
                Dtype::F32,
                "has no parameter `BN` (its parameters are BM, TM, FAST)",
            ),
            ("FASTER=true", "64x64x64", Dtype::F32, "did you mean `FAST`?"),
            ("BM=128", "64x64x64", Dtype::F32, "BM of family `f` is one of 32, 64, not 128"),
            ("BM=32,TM=64", "64x64x64", Dtype::F32, "`BM % TM == 0` (a thread owns a whole tile)"),
            ("", "8x64x64", Dtype::F32, "no legal default for 8x64x64 f32 nn: `M > 8` (it is for"),
            ("", "64x64x64", Dtype::I32, "family `f` serves dtype f32, not i32"),
        ] {
            let error = choose(text, shape, dtype).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
