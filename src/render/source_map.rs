//! Source map: finds the template's place for a line of a rendered source, for messages that name such lines.
//!
//! It is made once something failed. The templates are rendered a second time, with marks, and the two texts are compared
//! without blanks. Where they differ, which a template can cause that measures its own text, places are those of the
//! rendered source.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::marks::{Origin, origins};
use super::templates::TemplateFile;
use super::{RenderError, Rendered, Templates, render_stored};
use crate::model::{Configuration, Device, Diagnostic, Problem, Storage};
use crate::space::Family;

/// Places of a rendered source in templates.
#[derive(Debug)]
pub struct SourceMap {
    /// Name that messages have for the source.
    name: String,
    /// File of the family's template, as messages name it.
    template: String,
    source: String,
    files: Arc<BTreeMap<String, TemplateFile>>,
    /// Bytes before the text of the template.
    header: usize,
    /// Origin of each character of the text, blanks left out; empty where it is not known.
    origins: Vec<Option<Origin>>,
}

/// A place in a template that a message names.
#[derive(Debug)]
pub struct NamedPlace {
    /// The place, without a message.
    pub place: Diagnostic,
    /// Text of the message between the place before it and this one.
    pub before: String,
}

/// A line of the rendered source that a message names.
struct NamedLine<'a> {
    before: &'a str,
    line: usize,
    after: &'a str,
}

impl SourceMap {
    /// The map of a configuration's source.
    ///
    /// # Errors
    /// As [`render`](super::render).
    pub fn new(
        family: &Family,
        templates: &Templates,
        configuration: &Configuration,
        problem: &Problem,
        device: &Device,
    ) -> Result<Self, RenderError> {
        let storage = Storage::packed(problem);
        let rendered = render_stored(family, templates, configuration, problem, &storage, device)?;
        let Rendered { source, .. } = rendered;
        let scope = family.scope_stored(configuration, problem, &storage, device)?;
        // Without marks every place is one of the rendered source.
        let marked = templates.render_marked(family, &scope).map(|text| origins(&text));
        let header = source.find("\n\n").map_or(0, |at| at + 2);
        let body = source[header..].chars().filter(|c| !c.is_whitespace());
        let origins = match marked {
            Some(marked) if body.eq(marked.iter().map(|(c, _)| *c)) => {
                marked.into_iter().map(|(_, origin)| origin).collect()
            }
            _ => Vec::new(),
        };
        let (name, files) = (source_name(&family.name), templates.files());
        let template =
            files.get(&family.template).map_or_else(String::new, |file| file.path.clone());
        Ok(Self { name, template, source, files, header, origins })
    }

    /// The map of the source behind a text of whole lines, which no template has.
    #[must_use]
    pub fn behind(mut self, text: &str) -> Self {
        self.source.insert_str(0, text);
        self.header += text.len();
        self
    }

    /// The place of a line of the rendered source, and of a column of it (both from 1, in characters), with a message.
    pub fn place(&self, line: usize, column: Option<usize>, message: String) -> Diagnostic {
        self.in_template(line, column, &message)
            .unwrap_or_else(|| self.in_source(line, column, message))
    }

    fn in_template(&self, line: usize, column: Option<usize>, message: &str) -> Option<Diagnostic> {
        let (start, text) = self.line(line)?;
        let before = self.source.get(self.header..start)?;
        let count = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count();
        let first = count(before);
        let within = column.map(|column| {
            let (at, _) =
                text.char_indices().nth(column.saturating_sub(1)).unwrap_or((text.len(), ' '));
            count(&text[..at])
        });
        let on_line = self.origins.get(first..first + count(text))?;
        // A compiler's caret may stand behind the last character.
        let nth = within.map(|nth| nth.min(on_line.len().saturating_sub(1)));
        let origin = on_line.get(nth.unwrap_or(0))?.as_ref()?;
        let (_, file) = self.files.iter().nth(origin.file)?;
        let piece = file.text.get(origin.span.clone())?;
        let span = match column {
            Some(_) if piece.starts_with("{{") => origin.span.clone(),
            Some(_) => origin.span.start..origin.span.start + word_length(piece),
            None => whole_line(&file.text, origin.span.start),
        };
        let (file, source) = (file.path.clone(), file.text.clone());
        Some(Diagnostic { file, source, span, message: message.to_owned(), help: None })
    }

    /// A place of the rendered source.
    fn in_source(&self, line: usize, column: Option<usize>, message: String) -> Diagnostic {
        let (start, text) = self.line(line).unwrap_or((self.source.len(), ""));
        let at = column.and_then(|column| text.char_indices().nth(column.saturating_sub(1)));
        let span = match at {
            Some((at, _)) => start + at..start + at + word_length(&text[at..]),
            None => whole_line(&self.source, start),
        };
        let help = "this is a line of the rendered source, which `gemm-tune inspect --emit cuda` \
                    prints; no line of a template was found for it";
        Diagnostic {
            file: self.name.clone(),
            source: self.source.clone(),
            span,
            message,
            help: Some(help.to_owned()),
        }
    }

    /// Where a line of the rendered source begins, and its text.
    pub fn line(&self, line: usize) -> Option<(usize, &str)> {
        let mut start = 0;
        for (at, text) in self.source.split('\n').enumerate() {
            if at + 1 == line {
                return Some((start, text));
            }
            start += text.len() + 1;
        }
        None
    }

    /// A message with its lines of the rendered source replaced by places in templates, and these places in the order
    /// of the message.
    pub fn renamed(&self, message: &str) -> (String, Vec<NamedPlace>) {
        let (mut text, mut places) = (String::new(), Vec::new());
        let mut rest = message;
        while let Some(NamedLine { before, line, after }) = self.next_line(rest) {
            let place = self.place(line, None, String::new());
            text += &format!("{before}{}:{}", place.file, place.position().0);
            places.push(NamedPlace { place, before: before.to_owned() });
            rest = after;
        }
        (text + rest, places)
    }

    /// The first line that a message names: `NAME:1`, `NAME(1)`, `NAME: line 1`, `at line 1` or `or line 1`.
    fn next_line<'a>(&self, message: &'a str) -> Option<NamedLine<'a>> {
        let forms = [
            (format!("{}:", self.name), "", 0),
            (format!("{}(", self.name), ")", 0),
            (format!("{}: line ", self.name), "", 0),
            ("at line ".to_owned(), "", "at ".len()),
            ("or line ".to_owned(), "", "or ".len()),
        ];
        let found = forms.iter().filter_map(|(form, closing, kept)| {
            message.match_indices(form.as_str()).find_map(|(at, _)| {
                let number = &message[at + form.len()..];
                let digits =
                    number.len() - number.trim_start_matches(|c: char| c.is_ascii_digit()).len();
                let line = number[..digits].parse().ok()?;
                let after = number[digits..].strip_prefix(closing)?;
                Some(NamedLine { before: &message[..at + kept], line, after })
            })
        });
        found.min_by_key(|found| found.before.len())
    }

    /// Whether a message names a line of a family's rendered source.
    pub fn is_named(message: &str, family: &str) -> bool {
        message.contains(&source_name(family))
    }

    /// Whether a place is in the family's template, and not in a part that it includes.
    pub fn is_in_family_template(&self, place: &Diagnostic) -> bool {
        place.file == self.template
    }

    /// Name that messages have for the source.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The name that compilers are told for the source of a family.
pub fn source_name(family: &str) -> String {
    format!("{family}.cu")
}

/// Bytes of the word or of the character that a text begins with.
fn word_length(text: &str) -> usize {
    let word =
        text.len() - text.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').len();
    word.max(text.chars().next().map_or(0, char::len_utf8))
}

/// The line of a text around a byte, without the blanks at its ends.
fn whole_line(text: &str, at: usize) -> std::ops::Range<usize> {
    let start = text[..at].rfind('\n').map_or(0, |at| at + 1);
    let end = text[at..].find('\n').map_or(text.len(), |length| at + length);
    let line = &text[start..end];
    let blanks = line.len() - line.trim_start().len();
    start + blanks..start + line.trim_end().len().max(blanks)
}
