//! An error in a file that a person wrote: which file, where in it, what is wrong, what to do.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

/// A located error. `Display` draws the place, without a leading `error:`, which is up to who
/// prints it; [`Diagnostic::summary`] is one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file, as the person knows it.
    pub file: String,
    /// The file's whole text.
    pub source: String,
    /// The bytes of `source` that are to blame.
    pub span: Range<usize>,
    /// What is wrong: lower case, no final period.
    pub message: String,
    /// What to do next.
    pub help: Option<String>,
}

impl Diagnostic {
    /// The line (from 1) and column (from 1, in characters) where the blamed text begins.
    pub fn position(&self) -> (usize, usize) {
        let start = floor_char_boundary(&self.source, self.span.start);
        let before = &self.source[..start];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        (line, column)
    }

    /// `file:line:column: message (help)`.
    pub fn summary(&self) -> String {
        let (line, column) = self.position();
        let help = self.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{}:{line}:{column}: {}{help}", self.file, self.message)
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = floor_char_boundary(&self.source, self.span.start);
        let end = floor_char_boundary(&self.source, self.span.end).max(start);
        let snippet = Snippet::source(&self.source)
            .path(&self.file)
            .annotation(AnnotationKind::Primary.span(start..end));
        let mut group = Level::ERROR.no_name().primary_title(&self.message).element(snippet);
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(help));
        }
        f.write_str(&Renderer::plain().render(&[group]))
    }
}

impl std::error::Error for Diagnostic {}

/// The word of `known` that `given` most likely means, as a help text.
pub fn did_you_mean<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    known
        .into_iter()
        .map(|word| (strsim::normalized_damerau_levenshtein(given, word), word))
        // Below 0.6 the guess is more often noise than help (`TM` for `WMM` has 0.33).
        .filter(|(similarity, _)| *similarity >= 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| format!("did you mean `{word}`?"))
}

/// `str::floor_char_boundary` is not stable yet.
fn floor_char_boundary(text: &str, index: usize) -> usize {
    let mut index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnostic_shows_the_place_and_the_way_out() {
        let source = "name = \"x\"\nrequire = \"WMM > 0\"\n".to_owned();
        let diagnostic = Diagnostic {
            file: "simt.toml".to_owned(),
            span: 22..25,
            source,
            message: "unknown name `WMM`".to_owned(),
            help: did_you_mean("WMM", ["BM", "WM", "TM"]),
        };
        assert_eq!(diagnostic.summary(), "simt.toml:2:12: unknown name `WMM` (did you mean `WM`?)");
        let drawn = diagnostic.to_string();
        assert!(drawn.contains("--> simt.toml:2:12") && drawn.contains("^^^"), "{drawn}");
    }

    #[test]
    fn a_span_beyond_the_text_is_no_panic() {
        let diagnostic = Diagnostic {
            file: "f".to_owned(),
            source: "µ".to_owned(),
            span: 1..99,
            message: "m".to_owned(),
            help: None,
        };
        assert_eq!(diagnostic.position(), (1, 1));
        assert!(!diagnostic.to_string().is_empty());
    }

    #[test]
    fn far_words_are_not_suggested() {
        assert_eq!(did_you_mean("quux", ["BM", "BN"]), None);
    }
}
