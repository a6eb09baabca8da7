//! The default configurations of a search-space file.

use indexmap::IndexMap;
use toml::Spanned;

use super::{Builder, Parsing};
use crate::model::diagnostic::did_you_mean;
use crate::model::{Configuration, Diagnostic, Value};
use crate::space::file::OneOrMany;

impl Builder {
    /// Every default has a listed value for each parameter, and nothing else.
    pub(super) fn defaults(
        &self,
        parameters: &IndexMap<String, Vec<Value>>,
        declared: Spanned<OneOrMany>,
    ) -> Parsing<Vec<Configuration>> {
        let span = declared.span();
        let candidates = match declared.into_inner() {
            OneOrMany::One(values) => vec![values],
            OneOrMany::Many(several) => several,
        };
        let error = |message: String, help: Option<String>| {
            Err(Diagnostic { help, ..self.source.error(span.clone(), message) })
        };
        if candidates.is_empty() {
            return error("a family has at least one default configuration".to_owned(), None);
        }
        let mut defaults = Vec::new();
        for mut values in candidates {
            let mut configuration = Configuration::default();
            for (name, allowed) in parameters {
                let Some(value) = values.shift_remove(name) else {
                    let unknown = values.keys().find(|other| !parameters.contains_key(*other));
                    let help = unknown.map(|unknown| {
                        let meant = did_you_mean(unknown, [name.as_str()]);
                        let meant = meant.map_or_else(String::new, |meant| format!("; {meant}"));
                        format!("`{unknown}` is no parameter{meant}")
                    });
                    return error(format!("the default has no value for `{name}`"), help);
                };
                if !allowed.contains(&value) {
                    let list: Vec<String> = allowed.iter().map(Value::to_string).collect();
                    let message =
                        format!("the default has `{name}` = {value}, which is not listed");
                    return error(message, Some(format!("choose one of {}", list.join(", "))));
                }
                configuration.0.insert(name.clone(), value);
            }
            if let Some(name) = values.keys().next() {
                let help = did_you_mean(name, parameters.keys().map(String::as_str));
                return error(format!("the default sets `{name}`, which is no parameter"), help);
            }
            defaults.push(configuration);
        }
        Ok(defaults)
    }
}
