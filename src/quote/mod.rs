//! Text of other people in what this program writes: a function for each language, which all outputs
//! use for names, drivers, parameters and reasons.
//!
//! Four formats need none. JSON is written by `serde_json`, TOML by `toml_edit`, and templates of
//! HTML and SVG escape every value. The Python module is the same for all exports and reads JSON.

/// Words that follow `text` in a line of text: control characters, line separators, and characters
/// that reorder or hide others are shown as `\u{..}`.
pub fn line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) { line.extend(c.escape_unicode()) } else { line.push(c) }
    }
    line
}

/// Whether a character has an effect on a text without being seen in it.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
        )
}

/// Words within a comment of C or CUDA, of either form: nothing ends the comment, opens another one
/// or continues its line.
pub fn c_comment(text: &str) -> String {
    let mut comment = String::with_capacity(text.len());
    for c in line(text).chars() {
        let before = comment.chars().next_back();
        match (before, c) {
            // A backslash at the end of a line joins the next one to it.
            (_, '\\') => comment.push_str("\\x5c"),
            // `??/` is a backslash too.
            (Some('*'), '/') | (Some('/'), '*') | (Some('?'), '?') => comment.extend([' ', c]),
            _ => comment.push(c),
        }
    }
    comment
}

/// A string literal of C, its quotes included.
pub fn c_string(text: &str) -> String {
    let mut literal = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' | b'?' => literal.extend(['\\', char::from(byte)]),
            b' '..=b'~' => literal.push(char::from(byte)),
            // Three digits: a digit that follows is no part of it.
            _ => literal.push_str(&format!("\\{byte:03o}")),
        }
    }
    literal + "\""
}

/// Words within a line comment of Rust.
pub fn rust_comment(text: &str) -> String {
    line(text)
}

/// A string literal of Rust, its quotes included.
pub fn rust_string(text: &str) -> String {
    let mut literal = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => literal.extend(['\\', c]),
            c if is_hidden(c) => literal.extend(c.escape_unicode()),
            c => literal.push(c),
        }
    }
    literal + "\""
}

/// A field of CSV, before the writer adds quotes: one line, and no formula of a spreadsheet. A text
/// that would be one gets an apostrophe in front; a number stays one.
pub fn csv_field(text: &str) -> String {
    let field = line(text);
    if field.parse::<f64>().is_ok() {
        return field;
    }
    let starts = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
    let is_formula = field.trim_start().starts_with(starts);
    if is_formula { format!("'{field}") } else { field }
}

/// A word of a shell's command line: quoted, unless every character stands for itself.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A part of a file name: letters, digits, `_`, `-` and dots that are not the first.
pub fn file_name(text: &str) -> String {
    /// Most file systems allow 255 bytes; some are left for what is added.
    const LONGEST: usize = 160;
    let kept = |(at, c): (usize, char)| {
        let allowed = c.is_ascii_alphanumeric() || matches!(c, '_' | '-') || c == '.' && at > 0;
        if allowed { c } else { '_' }
    };
    text.chars().take(LONGEST).enumerate().map(kept).collect()
}

#[cfg(test)]
pub(crate) mod tests;
