//! Configurations that were written down: read under the names that parameters had, and completed where
//! the family has gained parameters since.

use indexmap::IndexMap;
use thiserror::Error;

use super::family::{Family, FormerParameter, RenamedParameter};
use crate::model::{Configuration, Value};

/// A configuration that was written down and that the family cannot express any more.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "parameter {parameter} = {value} is no longer supported by family {family}; tune the shape again"
)]
pub struct OutdatedConfiguration {
    /// The family.
    pub family: String,
    /// The parameter that was removed.
    pub parameter: String,
    /// The value that has no place in today's parameters.
    pub value: String,
}

impl Family {
    /// The name of a configuration of the family in records: [`Configuration::short_name`].
    pub fn short_name(&self, configuration: &Configuration) -> String {
        configuration.short_name(&self.name, &self.parameters)
    }

    /// A configuration of the family as it was once, in today's parameters. Renamed parameters have
    /// their new names. A parameter that is missing has the first of its values, which stands for what
    /// kernels did before there was a choice. A parameter that the family does not know stays as it is.
    ///
    /// # Errors
    /// [`OutdatedConfiguration`] where a removed parameter has a value that today's parameters cannot express.
    pub fn completed(
        &self,
        configuration: Configuration,
    ) -> Result<Configuration, OutdatedConfiguration> {
        let mut removed: Vec<(String, Value)> = Vec::new();
        let mut written: IndexMap<String, Value> = IndexMap::new();
        for (name, value) in configuration.0 {
            if self.removed.contains_key(&name) && !self.parameters.contains_key(&name) {
                removed.push((name, value));
            } else {
                let (name, value) = self.renamed(name, value);
                written.insert(name, value);
            }
        }
        let mut completed = Configuration::default();
        for (name, values) in &self.parameters {
            let value = written.shift_remove(name).or_else(|| values.first().cloned());
            completed.0.extend(value.map(|value| (name.clone(), value)));
        }
        completed.0.extend(written);
        for (name, value) in removed {
            if self.value_of_removed(&name, &completed) != Some(&value) {
                return Err(OutdatedConfiguration {
                    family: self.name.clone(),
                    parameter: name,
                    value: value.to_string(),
                });
            }
        }
        Ok(completed)
    }

    /// The configuration that `text` writes down as [`Configuration`] displays it, `BM=128 PAD=4`, in
    /// today's parameters ([`Family::completed`]); `None` where a parameter is unknown or has a value
    /// that is not listed, or that cannot be expressed any more.
    pub fn read_configuration(&self, text: &str) -> Option<Configuration> {
        let mut configuration = Configuration::default();
        for pair in text.split_whitespace() {
            let (name, word) = pair.split_once('=')?;
            let value = self.value_of_word(name, word)?;
            configuration.0.insert(name.to_owned(), value);
        }
        self.completed(configuration).ok()
    }

    /// Removed parameters that have one value in all kernels of the family, with that value.
    pub(crate) fn fixed_values(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.removed.iter().filter_map(|(name, removed)| match removed {
            FormerParameter::Constant(value) => Some((name.as_str(), value)),
            FormerParameter::Follows(..) => None,
        })
    }

    /// A parameter that was renamed or removed, as configurations of today have it; `None` for others.
    pub(crate) fn former_parameter(&self, name: &str) -> Option<FormerParameter> {
        let renamed = |RenamedParameter { to, values }: &RenamedParameter| {
            let former =
                values.iter().map(|(old, new)| (new.to_string(), Value::Text(old.clone())));
            FormerParameter::Follows(to.clone(), former.collect())
        };
        self.removed.get(name).cloned().or_else(|| self.renamed.get(name).map(renamed))
    }

    /// The name and the value that a parameter and its value have today.
    fn renamed(&self, name: String, value: Value) -> (String, Value) {
        match self.renamed.get(&name) {
            Some(RenamedParameter { to, values }) if !self.parameters.contains_key(&name) => {
                let value = values.get(&value.to_string()).cloned().unwrap_or(value);
                (to.clone(), value)
            }
            _ => (name, value),
        }
    }

    /// The value that a removed parameter has in the kernel of a configuration.
    fn value_of_removed(&self, name: &str, configuration: &Configuration) -> Option<&Value> {
        match self.removed.get(name)? {
            FormerParameter::Constant(value) => Some(value),
            FormerParameter::Follows(other, values) => {
                values.get(&configuration.get(other)?.to_string())
            }
        }
    }

    /// The value of a parameter, of today or of once, that is displayed as `word`.
    fn value_of_word(&self, name: &str, word: &str) -> Option<Value> {
        if let Some(values) = self.parameters.get(name) {
            return values.iter().find(|value| value.to_string() == word).cloned();
        }
        if self.removed.contains_key(name) {
            // Removed parameters have no list of values; a word stands for itself.
            let known = [true, false].map(Value::Bool).into_iter();
            let number = word.parse().ok().map(Value::Int);
            let found = known.chain(number).find(|value| value.to_string() == word);
            return Some(found.unwrap_or_else(|| Value::Text(word.to_owned())));
        }
        let RenamedParameter { to, values } = self.renamed.get(name)?;
        let old = values.contains_key(word).then(|| Value::Text(word.to_owned()));
        let listed = || self.parameters.get(to)?.iter().find(|value| value.to_string() == word);
        old.or_else(|| listed().cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAMILY: &str = "schema = 1\nname = 'f'\nsummary = 's'\ndtypes = ['f32']\ncompute = ['f32']\n\
        layouts = ['nn']\n[parameters]\nBM = [32, 64]\nLOADER = ['plain', 'async']\nDEEP = [false, true]\n\
        [[kernels]]\nentry = 'gemm'\ngrid = [1]\nblock = [32]\n[default]\nBM = 32\nLOADER = 'plain'\nDEEP = true\n";

    #[test]
    fn a_configuration_reads_as_it_is_displayed() {
        let family = Family::parse("f.toml", FAMILY).unwrap();
        let configuration = family.default().clone();
        let text = configuration.to_string();
        assert_eq!(text, "BM=32 LOADER=plain DEEP=true");
        assert_eq!(family.read_configuration(&text), Some(configuration));
        for text in ["BM=33 LOADER=plain DEEP=true", "BM LOADER=plain", "BM=32 X=1"] {
            assert_eq!(family.read_configuration(text), None, "{text}");
        }
    }

    #[test]
    fn what_the_family_has_gained_since_has_its_first_value() {
        let family = Family::parse("f.toml", FAMILY).unwrap();
        let read = |text: &str| family.read_configuration(text).unwrap().to_string();
        assert_eq!(read("LOADER=async BM=64"), "BM=64 LOADER=async DEEP=false");

        let written =
            [("DEEP", Value::Bool(true)), ("GONE", Value::Int(1)), ("BM", Value::Int(64))];
        let written = written.map(|(name, value)| (name.to_owned(), value));
        let completed = family.completed(written.into_iter().collect()).unwrap();
        assert_eq!(completed.to_string(), "BM=64 LOADER=plain DEEP=true GONE=1");
    }

    #[test]
    fn a_name_stays_when_the_family_gains_a_parameter() {
        let family = Family::parse("f.toml", FAMILY).unwrap();
        let before = FAMILY.replace("DEEP = [false, true]\n", "").replace("\nDEEP = true", "");
        let before = Family::parse("f.toml", &before).unwrap();
        let was = before.read_configuration("BM=64 LOADER=async").unwrap();
        let is = family.completed(was.clone()).unwrap();
        assert_eq!(is.to_string(), "BM=64 LOADER=async DEEP=false");
        assert_eq!(family.short_name(&is), before.short_name(&was));
        assert_ne!(family.short_name(family.default()), family.short_name(&is));
    }

    const CHANGED: &str = "[renamed]\nWIDTH = 'BM'\nKIND = { to = 'LOADER', values = { simple = 'plain' } }\n\
        [removed]\nOLD = false\nORDER = { follows = 'DEEP', values = { true = 'a', false = 'b' } }\n";

    fn changed() -> Family {
        Family::parse("f.toml", &format!("{FAMILY}{CHANGED}")).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn renamed_and_removed_parameters_are_read_under_their_old_names() {
        let family = changed();
        for (text, expected) in [
            ("WIDTH=64 KIND=simple DEEP=true", Some("BM=64 LOADER=plain DEEP=true")),
            ("WIDTH=64 KIND=async", Some("BM=64 LOADER=async DEEP=false")),
            ("BM=64 LOADER=async OLD=false", Some("BM=64 LOADER=async DEEP=false")),
            ("BM=64 DEEP=true ORDER=a", Some("BM=64 LOADER=plain DEEP=true")),
            ("BM=64 DEEP=true ORDER=b", None),
            ("BM=64 OLD=true", None),
            ("WIDTH=65", None),
            ("KIND=other", None),
        ] {
            let read = family.read_configuration(text).map(|one| one.to_string());
            assert_eq!(read.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_value_that_cannot_be_expressed_any_more_is_named() {
        let written = [("BM", Value::Int(64)), ("OLD", Value::Bool(true))];
        let written = written.map(|(name, value)| (name.to_owned(), value));
        let error = changed().completed(written.into_iter().collect()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "parameter OLD = true is no longer supported by family f; tune the shape again"
        );
    }
}
