//! Configurations that were written down: read as they are displayed, and completed where the family
//! has gained parameters since.

use indexmap::IndexMap;

use super::Family;
use crate::model::{Configuration, Value};

impl Family {
    /// What a configuration of the family is called in records: [`Configuration::short_name`].
    pub fn short_name(&self, configuration: &Configuration) -> String {
        configuration.short_name(&self.name, &self.parameters)
    }

    /// A configuration of the family as it was once, with what it has gained since: a parameter that
    /// is missing has the first of its values, which stands for what kernels did before there was a
    /// choice. What the family does not know stays as it is.
    pub fn completed(&self, mut configuration: Configuration) -> Configuration {
        let mut completed = Configuration::default();
        for (name, values) in &self.parameters {
            let value = configuration.0.shift_remove(name).or_else(|| values.first().cloned());
            completed.0.extend(value.map(|value| (name.clone(), value)));
        }
        completed.0.extend(configuration.0);
        completed
    }

    /// The configuration that `text` writes down as [`Configuration`] displays it, `BM=128 PAD=4`,
    /// completed as above; `None` where a parameter is unknown or has a value that is not listed.
    pub fn read_configuration(&self, text: &str) -> Option<Configuration> {
        let mut written: IndexMap<&str, &str> = IndexMap::new();
        for pair in text.split_whitespace() {
            let (name, value) = pair.split_once('=')?;
            written.insert(name, value);
        }
        let all_known = written.keys().all(|name| self.parameters.contains_key(*name));
        let value = |(name, values): (&String, &Vec<Value>)| {
            let value = match written.get(name.as_str()) {
                Some(word) => values.iter().find(|value| value.to_string() == *word)?,
                None => values.first()?,
            };
            Some((name.clone(), value.clone()))
        };
        all_known.then(|| self.parameters.iter().map(value).collect()).flatten()
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
        let configuration = family.defaults()[0].clone();
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
        let completed = family.completed(written.into_iter().collect());
        assert_eq!(completed.to_string(), "BM=64 LOADER=plain DEEP=true GONE=1");
    }

    #[test]
    fn a_name_stays_when_the_family_gains_a_parameter() {
        let family = Family::parse("f.toml", FAMILY).unwrap();
        let before = FAMILY.replace("DEEP = [false, true]\n", "").replace("\nDEEP = true", "");
        let before = Family::parse("f.toml", &before).unwrap();
        let was = before.read_configuration("BM=64 LOADER=async").unwrap();
        let is = family.completed(was.clone());
        assert_eq!(is.to_string(), "BM=64 LOADER=async DEEP=false");
        assert_eq!(family.short_name(&is), before.short_name(&was));
        assert_ne!(family.short_name(&family.defaults()[0]), family.short_name(&is));
    }
}
