//! Errors in files written by users: file, position, message and help.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

/// A located error. `Display` draws the excerpt, without a leading `error:`;
/// [`Diagnostic::summary`] is one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// File name for the user.
    pub file: String,
    /// Text of the file.
    pub source: String,
    /// Byte range of the fault in `source`.
    pub span: Range<usize>,
    /// Message: lower case, no final period.
    pub message: String,
    /// Advice on how to fix it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// Returns line and column (from 1, in characters) of the fault.
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

/// Failure of a candidate as people read it: it names places in templates, not in rendered sources.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LocatedFailure {
    /// The failure in one line, with its place.
    pub message: String,
    /// The failure with excerpts of the files that it names.
    pub text: String,
    /// Equal for failures of the same kind at the same places: figures such as addresses are left out.
    pub key: String,
}

impl LocatedFailure {
    /// A failure without a place in a file.
    pub fn plain(message: String) -> Self {
        Self { text: message.clone(), key: without_figures(&message), message }
    }

    /// A failure at `places`, the most telling one first. The first has the whole message.
    pub fn at(message: String, places: &[Diagnostic]) -> Self {
        let mut key = String::new();
        for place in places {
            let line = place.position().0;
            key += &format!("{}:{line}: {}\n", place.file, without_figures(&place.message));
        }
        let text: Vec<String> = places.iter().map(Diagnostic::to_string).collect();
        Self { message, text: text.join("\n"), key }
    }
}

impl From<&Diagnostic> for LocatedFailure {
    fn from(place: &Diagnostic) -> Self {
        Self::at(place.summary(), std::slice::from_ref(place))
    }
}

/// A message with `#` for each number.
fn without_figures(message: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '+' | '-');
    let words = message.split_inclusive(|c| !is_word(c)).map(|piece| {
        let word = piece.trim_end_matches(|c| !is_word(c));
        if word.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit()) {
            format!("#{}", &piece[word.len()..])
        } else {
            piece.to_owned()
        }
    });
    words.collect()
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

/// Returns the word of `known` that `given` most likely means, as a help text.
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
    fn a_diagnostic_shows_the_position_and_the_help() {
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
    fn failures_that_differ_in_figures_have_one_key() {
        let at = |line: usize, message: &str| {
            let source = "a\nb\nc\n".to_owned();
            let span = 2 * line - 2..2 * line - 1;
            let (file, message) = ("f".to_owned(), message.to_owned());
            let place = Diagnostic { file, source, span, message, help: None };
            LocatedFailure::from(&place).key
        };
        let far = "12 bytes at 0x1f, block [0, 1, -2], error 1.5e-3";
        let near = "4 bytes at 0x20, block [9, 1, 20], error 2e3";
        assert_eq!(at(2, far), at(2, near));
        assert_ne!(at(2, far), at(3, far));
        assert_ne!(at(2, "`a1` is undefined"), at(2, "`a2` is undefined"));
        let plain = |text: &str| LocatedFailure::plain(text.to_owned()).key;
        assert_eq!(plain(far), plain(near));
        assert_ne!(plain("a"), plain("b"));
    }

    #[test]
    fn far_words_are_not_suggested() {
        assert_eq!(did_you_mean("quux", ["BM", "BN"]), None);
    }
}
