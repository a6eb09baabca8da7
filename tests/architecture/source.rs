//! Rust source as the rules of the house see it: without comments, without literals, without code
//! that only tests compile. A reader of tokens, not of syntax: it knows strings, nesting and paths.

use std::ops::Range;

/// A file of the program.
pub(crate) struct Source {
    /// Where it is, from the package's root: `src/space/mod.rs`.
    pub(crate) path: String,
    /// The file as it is.
    pub(crate) text: String,
    /// The file with comments, literals and code for tests replaced by blanks.
    pub(crate) code: String,
    /// The paths that its code names, each with its line: `crate::model::Shape`, `env::var`,
    /// `println!`, a keyword. What a `use` groups in braces is spelt out.
    pub(crate) names: Vec<(usize, String)>,
    /// Its literals as written, each with the line that it begins on.
    pub(crate) literals: Vec<(usize, String)>,
    /// Modules in files of their own that only tests compile, as paths without `.rs`.
    test_modules: Vec<String>,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let (comments, literals) = comments_and_literals(text);
        let mut code = text.to_owned();
        comments.iter().chain(&literals).for_each(|range| blank(&mut code, range));
        let tests = test_items(&code);
        let test_modules = tests
            .iter()
            .filter_map(|item| code[item.clone()].strip_suffix(';')?.rsplit_once("mod "))
            .map(|(_, name)| format!("{}/{}", module_folder(path), name.trim()))
            .collect();
        tests.iter().for_each(|range| blank(&mut code, range));
        let in_tests = |at: usize| tests.iter().any(|item| item.contains(&at));
        Self {
            path: path.to_owned(),
            names: names(&code),
            literals: literals
                .into_iter()
                .filter(|literal| !in_tests(literal.start))
                .map(|literal| (line_of(text, literal.start), text[literal].to_owned()))
                .collect(),
            text: text.to_owned(),
            code,
            test_modules,
        }
    }

    /// Whether `other` is one of the files, or in one of the folders, that this file compiles
    /// for tests only.
    pub(crate) fn keeps_for_tests(&self, other: &str) -> bool {
        self.test_modules.iter().any(|module| {
            other.strip_prefix(module.as_str()).is_some_and(|rest| rest.starts_with(['.', '/']))
        })
    }
}

/// The words of a literal: what is not in them separates them.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !is_word(c)).filter(|word| !word.is_empty())
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The folder that holds the modules which `path` declares.
fn module_folder(path: &str) -> &str {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    ["/mod", "/lib", "/main"].iter().find_map(|root| stem.strip_suffix(root)).unwrap_or(stem)
}

/// Replaces a part by blanks, its line ends excepted.
fn blank(text: &mut String, range: &Range<usize>) {
    let blanks: String =
        text[range.clone()].bytes().map(|b| if b == b'\n' { '\n' } else { ' ' }).collect();
    text.replace_range(range.clone(), &blanks);
}

/// Where comments are, and where strings and characters.
fn comments_and_literals(text: &str) -> (Vec<Range<usize>>, Vec<Range<usize>>) {
    let (mut comments, mut literals) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        let rest = &text[at..];
        let start = at;
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
            comments.push(start..at);
        } else if rest.starts_with("/*") {
            at += block_comment(rest);
            comments.push(start..at);
        } else if let Some(length) = literal(rest) {
            at += length;
            literals.push(start..at);
        } else if is_word(next) {
            // Whole, so that the last letter of `attr` is not taken for a string's prefix.
            at += rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        } else {
            at += next.len_utf8();
        }
    }
    (comments, literals)
}

/// The length of the comment that `rest` begins with; comments nest.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match rest.as_bytes().get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") if depth == 1 => return at + 2,
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of the string or character that `rest` begins with, if it does.
fn literal(rest: &str) -> Option<usize> {
    let opens = |prefix: &&&str| {
        rest.strip_prefix(**prefix).is_some_and(|body| body.starts_with(['"', '\'', '#']))
    };
    let prefix = ["br", "cr", "r", "b", "c", ""].iter().find(opens)?;
    let body = &rest[prefix.len()..];
    let length = if prefix.ends_with('r') { raw_string(body)? } else { quoted(body)? };
    Some(prefix.len() + length)
}

fn raw_string(body: &str) -> Option<usize> {
    let hashes = body.find(|c| c != '#')?;
    let inside = body[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let length = inside.find(&close).map_or(inside.len(), |end| end + close.len());
    Some(hashes + 1 + length)
}

fn quoted(body: &str) -> Option<usize> {
    let mut characters = body.char_indices();
    let (_, quote) = characters.next().filter(|(_, c)| matches!(c, '"' | '\''))?;
    let mut ahead = body.chars().skip(1);
    let lifetime = quote == '\'' && ahead.next() != Some('\\') && ahead.next() != Some('\'');
    if lifetime {
        return None;
    }
    while let Some((at, c)) = characters.next() {
        if c == '\\' {
            characters.next();
        } else if c == quote {
            return Some(at + 1);
        }
    }
    Some(body.len())
}

/// Where code is that only tests compile: items under `#[cfg(test)]` or the like.
fn test_items(code: &str) -> Vec<Range<usize>> {
    let mut items: Vec<Range<usize>> = Vec::new();
    for (start, _) in code.match_indices("#[cfg(") {
        let attribute = &code[start..start + code[start..].find(']').unwrap_or(0)];
        let for_tests = words(attribute).any(|word| word == "test")
            && words(attribute).all(|word| word != "not");
        if for_tests && items.last().is_none_or(|item| !item.contains(&start)) {
            items.push(start..start + item(&code[start..]));
        }
    }
    items
}

/// The length of the item that `rest` begins with, its attributes included: to its `;` or the
/// brace that closes it.
fn item(rest: &str) -> usize {
    let mut depth = 0;
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' => depth -= 1,
            b'}' if depth <= 1 => return at + 1,
            b'}' => depth -= 1,
            b';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// A word, `::`, or a character that is neither a word's nor a blank.
pub(crate) struct Token<'a> {
    pub(crate) line: usize,
    pub(crate) text: &'a str,
}

pub(crate) fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (line, mut rest) in (1..).zip(code.lines()) {
        while let Some(next) = rest.chars().next() {
            let length = match next {
                c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                c => c.len_utf8(),
            };
            let (text, after) = rest.split_at(length);
            if !next.is_whitespace() {
                tokens.push(Token { line, text });
            }
            rest = after;
        }
    }
    tokens
}

/// The paths that `code` names.
fn names(code: &str) -> Vec<(usize, String)> {
    let tokens = tokens(code);
    let mut names = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        at = if tokens[at].text.starts_with(is_word) {
            path(&tokens, at, "", &mut names)
        } else {
            at + 1
        };
    }
    names
}

/// Reads the path, or the braces full of paths, that begin at `at`; returns where they end.
fn path(
    tokens: &[Token<'_>],
    mut at: usize,
    before: &str,
    names: &mut Vec<(usize, String)>,
) -> usize {
    let text = |at: usize| tokens.get(at).map_or("}", |token| token.text);
    let mut name = before.to_owned();
    loop {
        if text(at) == "{" {
            at += 1;
            while text(at) != "}" {
                at = if text(at) == "," { at + 1 } else { path(tokens, at, &name, names) };
            }
            return at + 1;
        }
        name += text(at);
        at += 1;
        if text(at) != "::" {
            break;
        }
        name += "::";
        at += 1;
    }
    if text(at) == "!" && text(at + 1) != "=" {
        name += "!";
    }
    names.push((tokens[at - 1].line, name));
    at
}

mod tests {
    use super::*;

    #[test]
    fn code_is_told_from_comments_and_literals() {
        for (text, code, literals) in [
            ("a // b \" c\nd", "a d", vec![]),
            ("a /* b /* c */ d */ e /*/ f */ g", "a e g", vec![]),
            (r#"a "b // c \" d" e"#, "a e", vec![r#""b // c \" d""#]),
            (r##"a r#"b " c"# d"##, "a d", vec![r##"r#"b " c"#"##]),
            (r#"a b"b" br"c" d"#, "a d", vec![r#"b"b""#, r#"br"c""#]),
            (r#"a '"' '\'' 'b' b'c' d"#, "a d", vec![r#"'"'"#, r"'\''", "'b'", "b'c'"]),
            ("r#type", "r # type", vec![]),
            ("for<'a> b: &'a c", "for < ' a > b : & ' a c", vec![]),
        ] {
            let (comments, found) = comments_and_literals(text);
            let mut left = text.to_owned();
            comments.iter().chain(&found).for_each(|range| blank(&mut left, range));
            let left: Vec<&str> = tokens(&left).iter().map(|token| token.text).collect();
            assert_eq!(left.join(" "), code, "{text}");
            assert_eq!(found.into_iter().map(|range| &text[range]).collect::<Vec<_>>(), literals);
        }
    }

    #[test]
    fn code_for_tests_is_left_out() {
        for (text, left) in [
            ("a; #[cfg(test)] mod t { b; { c } } d", "a d"),
            ("a; #[cfg(test)] #[path = x] mod t; d", "a d"),
            ("a; #[cfg(all(test, unix))] fn t(x: [u8; 2]) { \"}\" } d", "a d"),
            ("a; #[cfg(test)] const X: [u8; 2] = b; d", "a d"),
            ("#[cfg(not(test))] mod t;", "cfg not test mod t"),
            ("#[cfg(unix)] mod t;", "cfg unix mod t"),
        ] {
            let source = Source::new("src/a.rs", text);
            let names: Vec<&str> = source.names.iter().map(|(_, name)| name.as_str()).collect();
            assert_eq!(names.join(" "), left, "{text}");
            assert_eq!(source.literals, [], "{text}");
        }
    }

    #[test]
    fn files_for_tests_are_known_by_their_declaration() {
        for (path, tests) in [
            ("src/lib.rs", "src/fakes.rs"),
            ("src/gpu/mod.rs", "src/gpu/fakes.rs"),
            ("src/gpu/mod.rs", "src/gpu/fakes/deep.rs"),
            ("src/gpu/lt.rs", "src/gpu/lt/fakes.rs"),
        ] {
            let source = Source::new(path, "#[cfg(test)]\npub(crate) mod fakes;\nmod real;");
            assert!(source.keeps_for_tests(tests), "{path} declares {tests}");
            for other in ["fakes_not", "real"] {
                let other = tests.replace("fakes", other);
                assert!(!source.keeps_for_tests(&other), "{path} declares {other}");
            }
        }
    }

    #[test]
    fn paths_are_spelt_out() {
        for (code, expected) in [
            ("use crate::model::Shape;", "use crate::model::Shape"),
            ("use a::{b, c::{d, e}, *};", "use a::b a::c::d a::c::e a::*"),
            ("println!(x)", "println! x"),
            ("a != b", "a b"),
            ("let x = std :: env\n::var(y);", "let x std::env::var y"),
            ("struct S { a: B }", "struct S a B"),
            ("use a::{b", "use a::b"),
        ] {
            let names: Vec<String> = names(code).into_iter().map(|(_, name)| name).collect();
            assert_eq!(names.join(" "), expected);
        }
    }

    #[test]
    fn lines_survive_what_is_left_out() {
        let source = Source::new("src/a.rs", "/* 1\n2 */\n\"3\n4\"; five;\n\n#[cfg(test)]\n");
        assert_eq!(source.names[0], (4, "five".to_owned()));
        assert_eq!(source.literals[0].0, 3);
    }
}
