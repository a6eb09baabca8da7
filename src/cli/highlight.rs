//! Colours for C++ on a terminal: the sixteen that the terminal's own palette gives a meaning.

use anstyle::{AnsiColor, Style};
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxSet};
use syntect::util::LinesWithEndings;

/// Colours by the beginning of a scope's name, the first that fits the innermost scope.
const COLORS: [(&str, AnsiColor); 10] = [
    ("comment", AnsiColor::BrightBlack),
    ("punctuation.definition.comment", AnsiColor::BrightBlack),
    ("string", AnsiColor::Green),
    ("constant", AnsiColor::Yellow),
    ("meta.preprocessor", AnsiColor::Magenta),
    ("keyword.control", AnsiColor::Magenta),
    ("keyword.operator.word", AnsiColor::Magenta),
    ("storage", AnsiColor::Cyan),
    ("support", AnsiColor::Cyan),
    ("entity.name.function", AnsiColor::Blue),
];

/// The text with colours, or as it is where the grammar gives up.
pub(super) fn cuda(text: &str) -> String {
    colored(text).unwrap_or_else(|| text.to_owned())
}

fn colored(text: &str) -> Option<String> {
    let grammars = SyntaxSet::load_defaults_newlines();
    let mut state = ParseState::new(grammars.find_syntax_by_extension("cpp")?);
    let colors: Vec<(Scope, AnsiColor)> =
        COLORS.iter().filter_map(|(name, color)| Some((Scope::new(name).ok()?, *color))).collect();
    let color = |stack: &ScopeStack| {
        let of = |scope: &Scope| {
            colors.iter().find(|(prefix, _)| prefix.is_prefix_of(*scope)).map(|(_, color)| *color)
        };
        stack.scopes.iter().rev().find_map(of)
    };
    let mut stack = ScopeStack::new();
    let mut pieces: Vec<(String, Option<AnsiColor>)> = Vec::new();
    let mut append = |piece: &str, color: Option<AnsiColor>| match pieces.last_mut() {
        Some((last, of_last)) if *of_last == color || piece.trim().is_empty() => {
            last.push_str(piece)
        }
        _ => pieces.push((piece.to_owned(), color)),
    };
    for line in LinesWithEndings::from(text) {
        let mut done = 0;
        for (at, operation) in state.parse_line(line, &grammars).ok()? {
            append(&line[done..at], color(&stack));
            stack.apply(&operation).ok()?;
            done = at;
        }
        append(&line[done..], color(&stack));
    }
    let painted = pieces.into_iter().map(|(piece, color)| match color {
        Some(color) => {
            let style = Style::new().fg_color(Some(color.into()));
            format!("{style}{piece}{style:#}")
        }
        None => piece,
    });
    Some(painted.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = "// a comment\n#include <x.h>\nextern \"C\" __global__ void gemm(int m) {\n    \
                          for (int i = 0; i < 3; ++i) { return; }\n}\n";

    #[test]
    fn colors_change_no_character() {
        let colored = cuda(KERNEL);
        assert_eq!(anstream::adapter::strip_str(&colored).to_string(), KERNEL);
        for piece in ["// a comment", "for ", "\"C\"", "void"] {
            let at = colored.find(piece).unwrap_or_else(|| panic!("{piece}: {colored}"));
            assert!(colored[..at].ends_with('m'), "`{piece}` has a color: {colored:?}");
        }
    }
}
