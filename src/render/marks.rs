//! Marks in templates: they tell of each piece of a rendered text which place of which template it comes from.
//!
//! A mark stands before each line of literal text and before each `{{ }}`. It is text itself, so that loops, branches,
//! includes and components copy it with what follows. Marks change blanks at most, where a tag trims them.

use std::ops::Range;

use tera::Tera;

use super::language::language;

/// Begins a mark of literal text. Nothing that a compiler reads has these characters of the private use area.
const LITERAL: char = '\u{f0000}';

/// Begins a mark of an expression's value.
const VALUE: char = '\u{f0001}';

/// Ends a mark.
const END: char = '\u{f0002}';

/// Where a character of a rendered text comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    /// Place of the template in the order of names.
    pub(super) file: usize,
    /// Byte range in the template: the character to the end of its line, or the whole `{{ }}`.
    pub(super) span: Range<usize>,
}

/// An engine with marked templates, whose places are those in the order of names; `None` where they do not parse.
pub(super) fn marked_engine<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Option<Tera> {
    let mut engine = language();
    let texts = files.enumerate().map(|(place, (name, text))| (name, marked(text, place)));
    engine.add_raw_templates(texts).ok().map(|()| engine)
}

/// A template with marks. `file` is its place in the order of names.
fn marked(template: &str, file: usize) -> String {
    let mut out = String::with_capacity(2 * template.len());
    let mut at = 0;
    let mark = |out: &mut String, kind: char, span: Range<usize>| {
        out.push_str(&format!("{kind}{file}:{}:{}{END}", span.start, span.end));
    };
    while at < template.len() {
        let tag = next_tag(template, at);
        let literal_end = tag.as_ref().map_or(template.len(), |tag| tag.start);
        for line in template[at..literal_end].split_inclusive('\n') {
            let blanks = line.len() - line.trim_start().len();
            let (start, end) = (at + blanks, at + line.trim_end().len());
            out.push_str(&line[..blanks]);
            if start < end {
                mark(&mut out, LITERAL, start..end);
            }
            out.push_str(&line[blanks..]);
            at += line.len();
        }
        let Some(tag) = tag else { break };
        at = tag.end;
        if template[tag.clone()].starts_with("{{") {
            mark(&mut out, VALUE, tag.clone());
        }
        out.push_str(&template[tag]);
    }
    out
}

/// The next tag: `{{ }}`, `{% %}`, `{# #}`. The text between `{% raw %}` and `{% endraw %}` has none.
fn next_tag(template: &str, from: usize) -> Option<Range<usize>> {
    let opened =
        |at: &(usize, char)| at.1 == '{' && template[at.0 + 1..].starts_with(['{', '%', '#']);
    let is_raw = in_raw(&template[..from]);
    let mut places = template[from..].char_indices().map(|(at, c)| (from + at, c)).filter(opened);
    loop {
        let (start, _) = places.next()?;
        let end = tag_end(template, start);
        if !is_raw || word(&template[start..end]) == Some("endraw") {
            return Some(start..end);
        }
    }
}

/// Whether a text ends with the tag `{% raw %}`.
fn in_raw(before: &str) -> bool {
    let tag = before.rfind("{%").map(|at| &before[at..]);
    tag.is_some_and(|tag| tag.ends_with("%}") && word(tag) == Some("raw"))
}

/// The first word of a tag `{% %}`.
fn word(tag: &str) -> Option<&str> {
    let inner = tag.strip_prefix("{%")?.trim_start_matches('-').trim_start();
    inner.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// The end of the tag that begins at `start`. What closes a tag does not count within quotes.
fn tag_end(template: &str, start: usize) -> usize {
    let closing = match template.as_bytes().get(start + 1) {
        Some(b'{') => "}}",
        Some(b'%') => "%}",
        _ => "#}",
    };
    let mut quote = None;
    for (at, c) in template[start..].char_indices().skip(2) {
        match quote {
            Some(open) if open == c => quote = None,
            Some(_) => {}
            None if template[start + at..].starts_with(closing) => return start + at + 2,
            None if closing != "#}" && matches!(c, '"' | '\'' | '`') => quote = Some(c),
            None => {}
        }
    }
    template.len()
}

/// The characters of a text, except blanks, with their origins. `text` was rendered from templates with marks.
pub(super) fn origins(text: &str) -> Vec<(char, Option<Origin>)> {
    let mut found = Vec::with_capacity(text.len());
    let mut rest = text;
    // The kind and the place of the last mark, and the text after it.
    let mut last: Option<(char, Origin, usize)> = None;
    while let Some(c) = rest.chars().next() {
        if let Some((kind, origin, after)) = mark_at(rest) {
            rest = after;
            last = Some((kind, origin, rest.len()));
            continue;
        }
        if !c.is_whitespace() {
            let origin = last.as_ref().map(|(kind, origin, length)| {
                let passed = if *kind == LITERAL { length - rest.len() } else { 0 };
                let end = origin.span.end;
                let start = origin.span.start.saturating_add(passed).min(end);
                Origin { file: origin.file, span: start..end }
            });
            found.push((c, origin));
        }
        rest = &rest[c.len_utf8()..];
    }
    found
}

/// The mark that a text begins with, and the text after it.
fn mark_at(text: &str) -> Option<(char, Origin, &str)> {
    let kind = text.chars().next().filter(|c| [LITERAL, VALUE].contains(c))?;
    let (mark, after) = text[kind.len_utf8()..].split_once(END)?;
    let mut numbers = mark.splitn(3, ':').map(|number| number.parse().ok());
    let (file, start, end) = (numbers.next()??, numbers.next()??, numbers.next()??);
    Some((kind, Origin { file, span: start..end }, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces of a template that marks name.
    fn pieces(template: &str) -> Vec<&str> {
        let marked = marked(template, 3);
        let mut found = Vec::new();
        let mut rest = marked.as_str();
        while let Some(at) = rest.find([LITERAL, VALUE]) {
            let (_, origin, after) = mark_at(&rest[at..]).unwrap();
            assert_eq!(origin.file, 3);
            found.push(&template[origin.span]);
            rest = after;
        }
        found
    }

    #[test]
    fn lines_of_text_and_values_have_marks() {
        for (template, expected) in [
            ("a\n  b {{ c }} d\n\n", vec!["a", "b", "{{ c }}", "d"]),
            ("{% if a == \"%}\" %}\nb{# c\nd #}e\n{%- endif -%}\n", vec!["b", "e"]),
            ("{{ '}}' ~ a }}x", vec!["{{ '}}' ~ a }}", "x"]),
            ("{% raw -%} {{ a }}\n{% if %} {% endraw %} b", vec!["{{ a }}", "{% if %}", "b"]),
            ("{# it's #} a {# b", vec!["a"]),
            ("{{ open", vec!["{{ open"]),
            ("{", vec!["{"]),
            ("", vec![]),
        ] {
            assert_eq!(pieces(template), expected, "{template}");
        }
    }

    #[test]
    fn characters_are_followed_to_their_place() {
        let template = "ab\n  cd{{ x }}";
        let text = marked(template, 0).replace("{{ x }}", "12");
        let found: Vec<(char, &str)> = origins(&text)
            .into_iter()
            .map(|(c, origin)| (c, &template[origin.unwrap().span]))
            .collect();
        let value = "{{ x }}";
        let expected =
            [('a', "ab"), ('b', "b"), ('c', "cd"), ('d', "d"), ('1', value), ('2', value)];
        assert_eq!(found, expected);
        let odd = format!("a{LITERAL}b{END}{VALUE}");
        assert!(origins(&odd).iter().all(|(_, origin)| origin.is_none()));
    }
}
