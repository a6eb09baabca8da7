//! Errors in a compiler's log, located in the templates that the source was rendered from.

use super::compiler::CompileError;
use crate::model::{Diagnostic, LocatedFailure};
use crate::render::SourceMap;

/// Errors that are shown; most follow from the first.
const SHOWN: usize = 3;

/// Advice for an `#include <NAME>`.
const NO_HEADERS: &str = "no header of CUDA or C++ is available: convert elements by `to_value` and `to_element` of \
                          `parts/output.cuh.tera`, and write other instructions as PTX in `asm`";

/// A message of the compiler.
#[derive(Debug, PartialEq, Eq)]
struct CompilerMessage<'a> {
    line: usize,
    severity: &'a str,
    /// The text after the severity, lines that go on with it included.
    text: String,
    /// The column that the caret beneath the line of the source points to, from 1.
    column: Option<usize>,
    /// Lines after the caret.
    notes: Vec<&'a str>,
}

/// The errors of a log as people read them. A log without such errors is shown as it is.
pub fn located_log(log: &str, map: &SourceMap) -> LocatedFailure {
    let messages = messages(log, map.name());
    let mut errors: Vec<Diagnostic> = Vec::new();
    let mut count = 0;
    for message in messages {
        let (text, _) = map.renamed(&message.text);
        if message.severity == "note" {
            if let Some(error) = errors.last_mut().filter(|_| count <= SHOWN) {
                error.help.get_or_insert(text);
            }
            continue;
        }
        if !message.severity.ends_with("error") {
            continue;
        }
        let mut place = map.place(message.line, message.column, format!("error: {text}"));
        // A loop of the template repeats its errors.
        let is_same = |known: &Diagnostic| {
            (&known.file, &known.span, &known.message) == (&place.file, &place.span, &place.message)
        };
        if errors.iter().any(is_same) {
            continue;
        }
        count += 1;
        if count > SHOWN {
            continue;
        }
        let notes: Vec<String> = message.notes.iter().map(|note| map.renamed(note).0).collect();
        if !notes.is_empty() {
            place.help = Some(notes.join("; "));
        } else if text.starts_with("could not open source file") {
            place.help = Some(NO_HEADERS.to_owned());
        } else if text.starts_with("expected a") {
            place.help = before_include(message.line, &place, map);
        }
        errors.push(place);
    }
    if errors.is_empty() {
        errors.extend(at_end(log, map));
    }
    let Some(first) = errors.first() else { return unlocated(log, map) };
    let mut summary = first.summary();
    let more = match count.saturating_sub(1) {
        0 => String::new(),
        1 => "and another error".to_owned(),
        more => format!("and {more} more errors"),
    };
    if count > 1 {
        summary += &format!(" ({more})");
    }
    let mut located = LocatedFailure::at(summary, &errors);
    if count > SHOWN {
        located.text += &format!("\nand {} more errors", count - SHOWN);
    }
    located
}

/// Advice for an error at the begin of an included part: the code before the include may lack something.
fn before_include(line: usize, place: &Diagnostic, map: &SourceMap) -> Option<String> {
    let is_code = |text: &str| !text.trim().is_empty() && !text.trim_start().starts_with("//");
    let before =
        (1..line).rev().find(|line| map.line(*line).is_some_and(|(_, text)| is_code(text)))?;
    let before = map.place(before, None, String::new());
    let at = format!("{}:{}", before.file, before.position().0);
    (before.file != place.file)
        .then(|| format!("the fault may lie before this include: look at {at}"))
}

/// An error that the compiler reports at the end of the source, without a line.
fn at_end(log: &str, map: &SourceMap) -> Option<Diagnostic> {
    let text = log.lines().find_map(|line| line.strip_prefix("At end of source: "))?;
    let lines: Vec<&str> = (1..).map_while(|line| map.line(line)).map(|(_, text)| text).collect();
    let last = lines.iter().rposition(|text| !text.trim().is_empty())? + 1;
    let mut place = map.place(last, None, format!("{text} at the end of the source"));
    let opened = unclosed_brace(&lines).filter(|_| text.contains('}'));
    place.help = opened.map(|line| {
        let opened = map.place(line, None, String::new());
        format!("no `}}` closes the `{{` at {}:{}", opened.file, opened.position().0)
    });
    Some(place)
}

/// The line, from 1, of the first `{` that nothing closes. Comments and literals are left out.
fn unclosed_brace(lines: &[&str]) -> Option<usize> {
    let (mut open, mut in_comment) = (Vec::new(), false);
    for (line, text) in (1..).zip(lines) {
        let mut literal = None;
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            let next = rest.as_str();
            match (c, literal) {
                _ if in_comment => in_comment = !(c == '*' && next.starts_with('/')),
                ('\\', Some(_)) => _ = rest.next(),
                (_, Some(quote)) => literal = (c != quote).then_some(quote),
                ('"' | '\'', None) => literal = Some(c),
                ('/', None) if next.starts_with('/') => break,
                ('/', None) if next.starts_with('*') => in_comment = true,
                ('{', None) => open.push(line),
                ('}', None) => _ = open.pop(),
                _ => {}
            }
        }
    }
    open.first().copied()
}

/// A compile error for people: what is wrong with a source is shown in its templates.
pub fn located_error(error: CompileError, map: impl FnOnce() -> Option<SourceMap>) -> String {
    match error {
        CompileError::Source { log } => match map() {
            Some(map) => format!("the source does not compile\n{}", located_log(&log, &map).text),
            None => CompileError::Source { log }.to_string(),
        },
        error => error.to_string(),
    }
}

/// A log without an error at a line of the source: of the assembler, or of this program's own checks.
fn unlocated(log: &str, map: &SourceMap) -> LocatedFailure {
    let is_error = |line: &&str| ["error", "fatal"].iter().any(|word| line.contains(word));
    let errors: Vec<&str> = log.lines().filter(is_error).take(SHOWN).collect();
    let mut text = if errors.is_empty() { log.trim().to_owned() } else { errors.join("\n") };
    if text.contains("uses too much shared data") {
        text += "; add a constraint to the search space";
    }
    let (text, mut places) = map.renamed(&text);
    let Some(first) = places.first_mut() else { return LocatedFailure::plain(text) };
    first.place.message.clone_from(&text);
    LocatedFailure::at(text, std::slice::from_ref(&first.place))
}

/// The messages of a log on the source `name`: `NAME(LINE): SEVERITY #NUMBER: TEXT`, the line of the source, and a caret.
fn messages<'a>(log: &'a str, name: &str) -> Vec<CompilerMessage<'a>> {
    let mut found: Vec<CompilerMessage<'a>> = Vec::new();
    let mut lines = log.lines().peekable();
    // Lines belong to a message until an empty one.
    let mut is_open = false;
    while let Some(text) = lines.next() {
        if let Some(message) = header(text, name) {
            found.push(message);
            is_open = true;
            continue;
        }
        is_open &= !text.trim().is_empty();
        let Some(message) = found.last_mut().filter(|_| is_open) else { continue };
        let caret = lines.peek().filter(|next| next.trim() == "^");
        if let Some(caret) = caret {
            // The compiler shows the line of the source after two blanks.
            let at = caret.chars().take_while(|c| *c != '^').count();
            message.column = Some(at.saturating_sub(2) + 1);
            lines.next();
        } else if message.column.is_none() {
            message.text += " ";
            message.text += text.trim();
        } else {
            message.notes.push(text.trim());
        }
    }
    found
}

/// The first line of a message.
fn header<'a>(text: &'a str, name: &str) -> Option<CompilerMessage<'a>> {
    let (line, rest) = text.strip_prefix(name)?.strip_prefix('(')?.split_once("): ")?;
    let (kind, text) = rest.split_once(": ")?;
    let severity = kind.split(" #").next().unwrap_or(kind);
    Some(CompilerMessage {
        line: line.parse().ok()?,
        severity,
        text: text.to_owned(),
        column: None,
        notes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brace_without_end_is_found_beside_comments_and_literals() {
        let lines = [
            "/* { */ struct A { int a; };",
            "void f() {  // {",
            "asm(\"{\\\"{\");",
            "if (c == '{') {",
            "}",
        ];
        assert_eq!(unclosed_brace(&lines), Some(2));
        assert_eq!(unclosed_brace(&lines[..1]), None);
        assert_eq!(unclosed_brace(&["}", "{", "/* }", "} */"]), Some(2));
    }

    #[test]
    fn a_log_is_read_into_messages() {
        let log = "t.cu(60): error: identifier \"x\" is undefined\n      sum += x;\n             ^\n\n\
                   t.cu(4): warning #550-D: set but never used\n  \tint t;\n  \t    ^\n\n\
                   Remark: The warnings can be suppressed\n\n\
                   t.cu(7): error: no instance of \"f\" matches\n            argument types are: (int)\n      f(1);\n      ^\n\
                   \x20         detected during instantiation of \"g\" at line 9\n\n\
                   t.cu(8): catastrophic error: too many\n\n1 error detected in the compilation of \"t.cu\".\n";
        let found = messages(log, "t.cu");
        let brief: Vec<_> = found
            .iter()
            .map(|message| (message.line, message.severity, message.column, message.text.as_str()))
            .collect();
        assert_eq!(
            brief,
            [
                (60, "error", Some(12), "identifier \"x\" is undefined"),
                (4, "warning", Some(6), "set but never used"),
                (7, "error", Some(5), "no instance of \"f\" matches argument types are: (int)"),
                (8, "catastrophic error", None, "too many"),
            ]
        );
        assert_eq!(found[2].notes, ["detected during instantiation of \"g\" at line 9"]);
        assert!(messages("other.cu(1): error: x\nt.cu(x): error: y\nt.cu(1)", "t.cu").is_empty());
    }
}
