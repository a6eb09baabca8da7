//! Directives of a source that would make the compiler open files. A kernel's source is one text:
//! its parts are templates, which `{% include "NAME" %}` takes from the family's own folder and from
//! the built-in ones. What is left for the preprocessor are headers that a release of NVRTC may have in
//! itself; those that this program installs have none. It gets no folder to search `#include <NAME>` in.
//!
//! A directive is looked for in every place, in comments and literals too: whoever hides one needs
//! only one reading of the text in which it is none. Macros make no directives.

use thiserror::Error;

use crate::quote;

/// A directive that is refused, and its line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: `{text}` is refused, in comments and literals too: {reason}")]
pub struct RefusedDirective {
    /// The line, counted from 1.
    pub line: usize,
    /// The directive.
    pub text: String,
    /// Why.
    pub reason: &'static str,
}

const QUOTED: &str = "a kernel's source is one text, and the compiler opens no file of this machine; \
                      write the part as a template and include it by `{% include \"NAME\" %}`";
const COMPUTED: &str = "the name of a header must be written out, as in `#include <NAME>`";
const OUTSIDE: &str = "a header's name has no `..`, no `\\` and no `/` in front";
const OTHER: &str = "it reads or looks for files; only `#include <NAME>` is allowed";

const LONG: &str = "a comment after `#` ends within 10000 characters";

/// Most blanks and comments within a directive, so that a source is read in linear time.
const LONGEST: usize = 10_000;

/// Words that read or look for files after `#`, besides `include`.
const DIRECTIVES: [&str; 3] = ["include_next", "import", "embed"];

/// Words that do so in any place.
const OPERATORS: [&str; 4] =
    ["__has_include", "__has_include_next", "__has_embed", "include_alias"];

/// Finds a directive that would open a file.
///
/// # Errors
/// The first such directive.
pub fn check_includes(source: &str) -> Result<(), RefusedDirective> {
    let readings = [(false, false), (false, true), (true, false), (true, true)];
    let refused = readings
        .into_iter()
        .filter_map(|(trigraphs, blanks)| check(&resolved(source, trigraphs, blanks)).err());
    refused.min_by_key(|refused| refused.line).map_or(Ok(()), Err)
}

/// A character, and its line.
type Placed = (usize, char);

/// The text after trigraphs are replaced, which depends on the standard, and lines joined, which some
/// compilers do where `blanks` follow the backslash too.
fn resolved(source: &str, trigraphs: bool, blanks: bool) -> Vec<Placed> {
    let characters: Vec<char> = source.replace("\r\n", "\n").replace('\r', "\n").chars().collect();
    let mut resolved = Vec::with_capacity(characters.len());
    let (mut line, mut at) = (1, 0);
    while let Some(&first) = characters.get(at) {
        let (mut c, mut length) = (first, 1);
        if trigraphs && first == '?' && characters.get(at + 1) == Some(&'?') {
            let replaced = match characters.get(at + 2) {
                Some('=') => Some('#'),
                Some('/') => Some('\\'),
                _ => None,
            };
            if let Some(replaced) = replaced {
                (c, length) = (replaced, 3);
            }
        }
        if c == '\\' {
            let after = characters[at + length..].iter();
            let skipped = after.take_while(|c| blanks && is_blank(**c)).count();
            if characters.get(at + length + skipped) == Some(&'\n') {
                at += length + skipped + 1;
                line += 1;
                continue;
            }
        }
        resolved.push((line, c));
        line += usize::from(c == '\n');
        at += length;
    }
    resolved
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{b}' | '\u{c}')
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

fn check(text: &[Placed]) -> Result<(), RefusedDirective> {
    let mut at = 0;
    while let Some(&(line, c)) = text.get(at) {
        let begin = at;
        let refuse = |reason| {
            let own = text[begin..].iter().map(|(_, c)| *c).take_while(|c| *c != '\n');
            let text = quote::line(own.take(80).collect::<String>().trim());
            Err(RefusedDirective { line, text, reason })
        };
        if is_word(c) {
            let word = word(text, at);
            at += word.chars().count();
            if OPERATORS.contains(&word.as_str()) {
                return refuse(OTHER);
            }
            continue;
        }
        let sign = match (c, text.get(at + 1)) {
            ('#', _) => 1,
            ('%', Some((_, ':'))) => 2,
            _ => {
                at += 1;
                continue;
            }
        };
        at += sign;
        let Some(name) = blank_end(text, at) else { return refuse(LONG) };
        let word = word(text, name);
        if DIRECTIVES.contains(&word.as_str()) {
            return refuse(OTHER);
        }
        if word == "include" {
            let Some(operand) = blank_end(text, name + word.len()) else { return refuse(LONG) };
            let rest: String =
                text[operand..].iter().map(|(_, c)| *c).take_while(|c| *c != '\n').collect();
            if rest.starts_with('"') {
                return refuse(QUOTED);
            }
            let header = rest.strip_prefix('<').and_then(|rest| rest.split_once('>'));
            let Some((header, _)) = header else { return refuse(COMPUTED) };
            let is_outside = header.starts_with('/')
                || header.contains('\\')
                || header.split('/').any(|part| part.trim() == "..");
            if is_outside || header.trim() != header || header.is_empty() {
                return refuse(OUTSIDE);
            }
        }
    }
    Ok(())
}

/// The word that begins at a place; empty for none.
fn word(text: &[Placed], at: usize) -> String {
    text[at..].iter().map(|(_, c)| *c).take_while(|c| is_word(*c)).collect()
}

/// The place after blanks and comments within a line; none after more than [`LONGEST`] characters.
fn blank_end(text: &[Placed], from: usize) -> Option<usize> {
    let mut at = from;
    let get = |at: usize| text.get(at).map(|(_, c)| *c);
    loop {
        match (get(at), get(at + 1)) {
            (Some(c), _) if is_blank(c) => at += 1,
            (Some('/'), Some('*')) => {
                let mut end = at + 2;
                while (get(end), get(end + 1)) != (Some('*'), Some('/')) {
                    if get(end).is_none() || end - from > LONGEST {
                        return None;
                    }
                    end += 1;
                }
                at = end + 2;
            }
            _ => return Some(at.min(text.len())),
        }
        if at - from > LONGEST {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(source: &str) -> Option<(usize, &'static str)> {
        check_includes(source).err().map(|refused| (refused.line, refused.reason))
    }

    #[test]
    fn directives_that_open_files_are_refused() {
        for (source, line, reason) in [
            ("#include \"/etc/passwd\"", 1, QUOTED),
            ("int x;\n  #  include \"part.cuh\"", 2, QUOTED),
            ("# /* a */ include \"x\"", 1, QUOTED),
            ("/* a\n b */ #include \"x\"", 2, QUOTED),
            ("%:include \"x\"", 1, QUOTED),
            ("??=include \"x\"", 1, QUOTED),
            ("#inc\\\nlude \"x\"", 1, QUOTED),
            ("#inc\\ \t\nlude \"x\"", 1, QUOTED),
            ("#inc??/\nlude \"x\"", 1, QUOTED),
            ("#\\\n\\\ninclude \"x\"", 1, QUOTED),
            ("#inc\\\r\nlude \"x\"", 1, QUOTED),
            ("int x;\r#include \"x\"", 2, QUOTED),
            ("// a comment \\\n goes on\n#include \"x\"", 3, QUOTED),
            // Readings differ: with trigraphs, and with blanks after a backslash, these are comments.
            ("// a comment ??/\n#include \"x\"", 2, QUOTED),
            ("// a comment \\ \n#include \"x\"", 2, QUOTED),
            ("R\"(\n/*\n)\\\n\"; R\"z(\n)\"\n#include \"x\"", 6, QUOTED),
            ("#/* a\n*/include \"x\"", 1, QUOTED),
            ("#/* never ends", 1, LONG),
            ("// #include \"x\"", 1, QUOTED),
            ("const char *s = \"/*\";\n#include \"x\"", 2, QUOTED),
            ("char c = '\"';\n#include \"x\"", 2, QUOTED),
            ("const char *s = R\"(\n)\";\n#include \"x\"", 3, QUOTED),
            ("const char *s = R\"a(\" )\" )a\";\n#include \"x\"", 2, QUOTED),
            ("x = R\"(\n#include \"x\"\n)\";", 2, QUOTED),
            ("#include NAME", 1, COMPUTED),
            ("#define NAME \"/etc/passwd\"\n#include NAME", 2, COMPUTED),
            ("#include", 1, COMPUTED),
            ("#include </etc/passwd>", 1, OUTSIDE),
            ("#include <../x>", 1, OUTSIDE),
            ("#include <a/../../x>", 1, OUTSIDE),
            ("#include_next <x>", 1, OTHER),
            ("#import \"x\"", 1, OTHER),
            ("#embed \"/etc/passwd\"", 1, OTHER),
            ("#if __has_include(\"/etc/passwd\")", 1, OTHER),
            ("#if 1 && __has_\\\nembed(\"/etc/passwd\")", 1, OTHER),
            ("#pragma include_alias(\"a\", \"b\")", 1, OTHER),
            ("#define HAS __has_include", 1, OTHER),
        ] {
            assert_eq!(refused(source), Some((line, reason)), "{source:?}");
        }
    }

    #[test]
    fn ordinary_sources_pass() {
        for source in [
            "",
            "#include <cuda_fp16.h>\n#include <cuda/std/cstdint>",
            "// an include, a # and # include_x",
            "const char *s = \"include\"; // embed import",
            "#\ninclude \"x\"",
            "#define GLUE(a, b) a##b\n#pragma unroll\n#if defined(X)\n#endif",
            "asm(\"mov.u32 %0, %1;\" : \"=r\"(x) : \"r\"(y));",
            "int include = 3; x = a /* b */ / c; y = 1'000;",
        ] {
            assert_eq!(check_includes(source), Ok(()), "{source:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_directive_is_found_after_any_text(text in "[#%:?/\\\\\"'*R( )\n\r a-z]{0,60}") {
            // Where the text ends in a comment after `#`, the directive is its rest.
            proptest::prop_assume!(!text.contains("/*"));
            let with = format!("{text} \n\n#include \"x\"\n");
            proptest::prop_assert!(check_includes(&with).is_err());
        }
    }
}
