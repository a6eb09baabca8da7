//! Parameters of a search-space file that the family had once, under which databases and journals are still read.

use std::ops::Range;

use indexmap::IndexMap;
use toml::Spanned;

use super::{Builder, Parsing};
use crate::model::diagnostic::did_you_mean;
use crate::model::{Diagnostic, Value};
use crate::space::family::{FormerParameter, RenamedParameter};
use crate::space::file::{RemovedFile, RenamedFile};

impl Builder {
    /// Parameters that have another name now.
    pub(super) fn renamed(
        &self,
        parameters: &IndexMap<String, Vec<Value>>,
        declared: IndexMap<Spanned<String>, Spanned<RenamedFile>>,
    ) -> Parsing<IndexMap<String, RenamedParameter>> {
        let mut renamed = IndexMap::new();
        for (name, now) in declared {
            self.retired_name(parameters, &name)?;
            let at = now.span();
            let (to, values) = match now.into_inner() {
                RenamedFile::Name(to) => (to, IndexMap::new()),
                RenamedFile::Values { to, values } => (to, values),
            };
            let known = self.parameter(parameters, &to, &at)?;
            if let Some(value) = values.values().find(|value| !known.contains(*value)) {
                let message = format!("`{to}` has no value {value}");
                return Err(self.source.error(at, message));
            }
            renamed.insert(name.into_inner(), RenamedParameter { to, values });
        }
        Ok(renamed)
    }

    /// Parameters that the family does not have any more.
    pub(super) fn removed(
        &self,
        parameters: &IndexMap<String, Vec<Value>>,
        declared: IndexMap<Spanned<String>, Spanned<RemovedFile>>,
    ) -> Parsing<IndexMap<String, FormerParameter>> {
        let mut removed = IndexMap::new();
        for (name, now) in declared {
            self.retired_name(parameters, &name)?;
            let at = now.span();
            let now = match now.into_inner() {
                RemovedFile::Always(value) => FormerParameter::Constant(value),
                RemovedFile::Follows { follows, values } => {
                    let known = self.parameter(parameters, &follows, &at)?;
                    let missing =
                        known.iter().find(|value| !values.contains_key(&value.to_string()));
                    if let Some(value) = missing {
                        let message = format!("nothing is said of `{follows}` = {value}");
                        return Err(self.source.error(at, message));
                    }
                    FormerParameter::Follows(follows, values)
                }
            };
            removed.insert(name.into_inner(), now);
        }
        Ok(removed)
    }

    /// Checks that a name that the family had once is none that it has now.
    fn retired_name(
        &self,
        parameters: &IndexMap<String, Vec<Value>>,
        name: &Spanned<String>,
    ) -> Parsing<()> {
        if parameters.contains_key(name.get_ref()) {
            let message = format!("`{}` is a parameter", name.get_ref());
            return Err(self.source.error(name.span(), message));
        }
        self.identifier(name, "a name").map(|_| ())
    }

    /// The values of a parameter that `[renamed]` or `[removed]` refers to.
    fn parameter<'p>(
        &self,
        parameters: &'p IndexMap<String, Vec<Value>>,
        name: &str,
        at: &Range<usize>,
    ) -> Parsing<&'p [Value]> {
        parameters.get(name).map(Vec::as_slice).ok_or_else(|| {
            let help = did_you_mean(name, parameters.keys().map(String::as_str));
            let error = self.source.error(at.clone(), format!("`{name}` is no parameter"));
            Diagnostic { help, ..error }
        })
    }
}
