//! Property tests: hostile words stay words in every language.

use std::fs;
use std::process::Command;

use proptest::prelude::*;

use super::*;

/// Parts of hostile names, besides random characters.
pub(crate) const PARTS: &[&str] = &[
    "*/",
    "/*",
    "//",
    "\n",
    "\r",
    "\r\n",
    "\\",
    "\\\n",
    "\\ \n",
    "??/",
    "??/\n",
    "\"",
    "'",
    "`",
    "\0",
    "\t",
    "\u{b}",
    "\u{c}",
    "\u{1b}[2J",
    "\u{85}",
    "\u{2028}",
    "\u{2029}",
    "\u{202e}",
    "\u{2066}",
    "\u{200b}",
    "\u{feff}",
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "＝1",
    "|",
    "<script>",
    "&amp;",
    "${x}",
    "{{ 7 }}",
    "{% raw %}",
    "../",
    "/",
    ".",
    "é",
    "名",
    "%s",
    "#include <x>\n",
    "#error reached\n",
    "fn main(){}",
    "\u{10ffff}",
];

/// Hostile words.
pub(crate) fn hostile() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => proptest::sample::select(PARTS).prop_map(str::to_owned),
        1 => proptest::collection::vec(any::<char>(), 0..4)
            .prop_map(|characters| characters.into_iter().collect()),
        1 => "[ -~]{0,6}",
    ];
    proptest::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
}

/// Lines of a text as C, Rust and readers of text count them.
fn lines(text: &str) -> usize {
    let ends = ['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];
    text.split(ends).count()
}

/// The value of a C string literal that [`c_string`] wrote.
fn c_value(literal: &str) -> Vec<u8> {
    let inner = literal.strip_prefix('"').unwrap().strip_suffix('"').unwrap().as_bytes();
    let (mut value, mut at) = (Vec::new(), 0);
    while at < inner.len() {
        match (inner[at], inner.get(at + 1)) {
            (b'\\', Some(b'0'..=b'7')) => {
                let digits = std::str::from_utf8(&inner[at + 1..at + 4]).unwrap();
                value.push(u8::from_str_radix(digits, 8).unwrap());
                at += 4;
            }
            (b'\\', Some(other)) => {
                value.push(*other);
                at += 2;
            }
            (byte, _) => {
                assert!(byte != b'"' && byte.is_ascii_graphic() || byte == b' ');
                value.push(byte);
                at += 1;
            }
        }
    }
    value
}

proptest! {
    #[test]
    fn a_line_is_one_line_that_shows_all_of_itself(text in hostile()) {
        let line = line(&text);
        prop_assert_eq!(lines(&line), 1);
        prop_assert!(!line.chars().any(is_hidden), "{:?}", line);
    }

    #[test]
    fn a_comment_of_c_stays_one(text in hostile()) {
        let comment = c_comment(&text);
        for end in ["*/", "/*", "??/", "??"] {
            prop_assert!(!comment.contains(end), "{:?}", comment);
        }
        prop_assert!(!comment.trim_end().ends_with('\\'));
        prop_assert_eq!(lines(&comment), 1);
    }

    #[test]
    fn a_string_of_c_has_the_value(text in hostile()) {
        prop_assert_eq!(c_value(&c_string(&text)), text.as_bytes());
    }

    #[test]
    fn a_field_is_no_formula(text in hostile()) {
        let field = csv_field(&text);
        prop_assert_eq!(lines(&field), 1);
        let is_formula = field.trim_start().starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']);
        prop_assert!(!is_formula || field.parse::<f64>().is_ok(), "{:?}", field);
    }

    #[test]
    fn a_file_name_stays_in_its_folder(text in hostile()) {
        let name = format!("{}.txt", file_name(&text));
        prop_assert!(!name.contains(['/', '\0', '\\']) && name != "..", "{}", name);
        prop_assert!(name == ".txt" || !name.starts_with('.'), "{}", name);
    }
}

#[test]
fn ordinary_names_stay_as_they_are() {
    let name = "NVIDIA GeForce RTX 4090 (Ada), 2.5 GHz; BM=128";
    assert_eq!(line(name), name);
    assert_eq!(c_comment(name), name);
    assert_eq!(c_string(name), format!("\"{name}\""));
    assert_eq!(csv_field(name), name);
    assert_eq!(file_name("gemm_f32_nn_tiled-2.0"), "gemm_f32_nn_tiled-2.0");
}

/// The compilers are the judges: hostile words in comments and strings of one file compile, and the
/// strings have their values.
#[test]
fn compilers_read_the_words_as_words() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let all: Vec<String> =
        PARTS.iter().flat_map(|a| PARTS.iter().map(move |b| format!("x{a}{b}"))).collect();
    let mut c = String::from("#include <string.h>\n");
    let mut body = String::new();
    for text in &all {
        let (comment, literal) = (c_comment(text), c_string(text));
        c += &format!("// {comment}\n/* {comment} */\n");
        let bytes: Vec<String> = text.bytes().map(|byte| byte.to_string()).collect();
        body += &format!(
            "    {{ const unsigned char own[] = {{ {}, 0 }}; // {comment}\n      if (sizeof({literal}) != sizeof own || \
             memcmp({literal}, own, sizeof own)) return 1; }}\n",
            bytes.join(", ")
        );
    }
    c += &format!("int main(void)\n{{\n{body}    return 0;\n}}\n");
    fs::write(at("words.c"), c).unwrap();
    for standard in ["-std=c99", "-std=gnu11"] {
        let program = at("words");
        let compiled = Command::new("gcc")
            .args([standard, "-trigraphs", "-Wall", "-Werror", "-O0", "-o"])
            .args([&program, &at("words.c")])
            .output();
        let Ok(compiled) = compiled else {
            crate::compile::testing::without::skip("compilers", "no gcc");
            return;
        };
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        assert!(Command::new(&program).status().unwrap().success(), "{standard}");
    }
    let mut rust = String::new();
    let mut body = String::new();
    for text in &all {
        let (comment, literal) = (rust_comment(text), rust_string(text));
        rust += &format!("// {comment}\n");
        let bytes: Vec<String> = text.bytes().map(|byte| byte.to_string()).collect();
        body += &format!(
            "    assert_eq!({literal}.as_bytes(), &[{}]); // {comment}\n",
            bytes.join(", ")
        );
    }
    rust += &format!("fn main() {{\n{body}}}\n");
    fs::write(at("words.rs"), rust).unwrap();
    let compiled = Command::new("rustc")
        .args(["-A", "warnings", "-o"])
        .args([&at("rust"), &at("words.rs")])
        .output();
    let compiled = compiled.unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    assert!(Command::new(at("rust")).status().unwrap().success());
}

#[test]
fn words_of_a_shell_are_read_as_they_are() {
    for (word, expected) in
        [("a/b-c.d_1", "a/b-c.d_1"), ("", "''"), ("a b", "'a b'"), ("it's $x", r"'it'\''s $x'")]
    {
        assert_eq!(shell_word(word), expected);
        let said = Command::new("sh").args(["-c", &format!("printf %s {expected}")]).output();
        assert_eq!(String::from_utf8_lossy(&said.unwrap().stdout), word);
    }
}
