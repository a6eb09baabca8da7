//! Named configurations in an order worth comparing: the rungs of a ladder, read from
//! `ladder/rungs.toml` beside the families.

use serde::Deserialize;

use super::load::LoadError;
use crate::model::Diagnostic;

/// Where a folder of search spaces keeps its ladder.
pub(super) const FILE: &str = "ladder/rungs.toml";

/// A rung.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rung {
    /// What it adds to the one below it.
    pub name: String,
    /// `FAMILY:NAME=VALUE,NAME=VALUE`; what is not named is the family's default.
    pub config: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ladder {
    rung: Vec<Rung>,
}

/// The rungs that a text lists, lowest first. `file` is its name in messages.
pub(super) fn parse(file: &str, text: &str) -> Result<Vec<Rung>, LoadError> {
    let ladder: Result<Ladder, _> = toml::from_str(text);
    ladder.map(|ladder| ladder.rung).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        LoadError::File(Box::new(Diagnostic {
            file: file.to_owned(),
            source: text.into(),
            span,
            message: error.message().to_owned(),
            help: None,
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_are_read_in_their_order() {
        let text = "[[rung]]\nname = 'a'\nconfig = 'x:P=1'\n[[rung]]\nname = 'b'\nconfig = 'y'\n";
        let rungs = parse(FILE, text).unwrap();
        let names: Vec<&str> = rungs.iter().map(|rung| rung.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn what_is_wrong_is_blamed_with_its_place() {
        let error = parse(FILE, "[[rung]]\nname = 'a'\nconfigs = 'x'\n").unwrap_err().to_string();
        assert!(error.contains("ladder/rungs.toml:3"), "{error}");
        assert!(error.contains("configs"), "{error}");
    }
}
