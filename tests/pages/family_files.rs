//! `docs/reference/family-files.md`: every key that the parser knows, every operation of expressions, and every name.

use std::collections::BTreeSet;

use gemm_tune::model::{Device, Dtype, Problem};
use gemm_tune::space::formula::Formula;
use gemm_tune::space::{Family, scope};

use super::{assert_generated, text_of, with_part};

const PAGE: &str = "docs/reference/family-files.md";

/// A key that no table has, and that is near none.
const UNKNOWN: &str = "qqqqqqqqqqqq";

/// Each table of a family file with the heading of its section.
const TABLES: [(&str, &str); 9] = [
    ("", "## Top level"),
    ("[[constraints]]", "## [[constraints]]"),
    ("[[kernels]]", "## [[kernels]]"),
    ("[[kernels]]\n[kernels.packs]", "### [kernels.packs]"),
    ("[[workspaces]]", "## [[workspaces]]"),
    ("[[tensor_maps]]", "## [[tensor_maps]]"),
    ("[work]", "## [work]"),
    ("[work.workspace_bytes]", "### [work.workspace_bytes]"),
    ("[work.stream]", "### [work.stream]"),
];

/// The keys of a table, as the parser lists them where it meets one that it does not know.
fn known_keys(table: &str) -> BTreeSet<String> {
    let error = Family::parse("keys.toml", &format!("{table}\n{UNKNOWN} = 1\n")).unwrap_err();
    let quoted = error.message.split('`').skip(1).step_by(2).map(str::to_owned);
    let keys: BTreeSet<String> = quoted.filter(|key| key != UNKNOWN).collect();
    assert!(keys.len() > 1, "{table}: {}", error.message);
    keys
}

/// The text below a heading, to the next heading.
fn section<'p>(page: &'p str, heading: &str) -> &'p str {
    let below = page.split_once(&format!("\n{heading}\n"));
    let (_, below) = below.unwrap_or_else(|| panic!("{PAGE} has no `{heading}`"));
    below.split("\n#").next().unwrap_or(below)
}

/// The cells of a text's tables without their heads, each cell without the backticks around it.
fn rows(text: &str) -> Vec<Vec<String>> {
    let is_row = |line: &&str| line.starts_with("| `");
    let cells = |line: &str| {
        let line = line.replace("\\|", "\u{0}");
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().trim_matches('`').replace('\u{0}', "|")).collect()
    };
    text.lines().filter(is_row).map(cells).collect()
}

#[test]
fn every_key_of_a_family_file_is_on_its_page() {
    let page = text_of(PAGE);
    for (table, heading) in TABLES {
        let described: BTreeSet<String> =
            rows(section(&page, heading)).into_iter().map(|row| row[0].clone()).collect();
        assert_eq!(described, known_keys(table), "{heading} of {PAGE}");
    }
}

#[test]
fn examples_on_the_page_have_the_types_that_the_parser_reads() {
    let page = text_of(PAGE);
    for (table, heading) in TABLES {
        for row in rows(section(&page, heading)) {
            let (key, example) = (&row[0], &row[3]);
            let text = match example.as_str() {
                "below" => continue,
                // Tables show one of their entries.
                entry if entry.contains(" = ") && !entry.starts_with(['"', '[', '{']) => {
                    format!("[{key}]\n{entry}\n")
                }
                value => format!("{table}\n{key} = {value}\n"),
            };
            let error = Family::parse("example.toml", &text).unwrap_err();
            let is_incomplete = error.message.contains("missing field");
            assert!(is_incomplete, "`{key}`, {heading} of {PAGE}: {}", error.message);
        }
    }
}

/// The value of an expression without names.
fn value(text: &str) -> Option<String> {
    let text = format!("X = {:?}", text.replace('`', "'"));
    let file = format!(
        "schema = 1\nname = 'x'\nsummary = 'x'\ndtypes = ['f32']\ncompute = ['f32']\nlayouts = ['nn']\n\
         [parameters]\nP = [1]\n[derived]\n{text}\n[[kernels]]\nentry = 'x'\ngrid = [1]\nblock = [1]\n\
         [default]\nP = 1\n"
    );
    let family = Family::parse("value.toml", &file).ok()?;
    let problem = Problem::new("8x8x8".parse().unwrap(), Dtype::F32);
    let device = Device::h200();
    let scope = family.scope(family.default(), &problem, &device).ok()?;
    let last = scope.values().last()?;
    Some(last.to_string())
}

#[test]
fn every_operation_of_expressions_is_on_its_page() {
    let page = text_of(PAGE);
    let described = rows(section(&page, "## Expressions"));
    let described: Vec<_> = described.into_iter().filter(|row| row.len() == 4).collect();
    for row in &described {
        assert_eq!(value(&row[1]).as_deref(), Some(row[2].as_str()), "`{}` of {PAGE}", row[1]);
    }
    // Operations of symbols: all of one or two characters that stand between operands.
    let marks: Vec<char> = (33..127).map(char::from).filter(char::is_ascii_punctuation).collect();
    let ones = marks.iter().map(char::to_string);
    let twos = marks.iter().flat_map(|a| marks.iter().map(move |b| format!("{a}{b}")));
    for symbol in ones.chain(twos) {
        // The second character may be the sign of the right operand.
        let is_operation = Formula::try_from(format!("4 {symbol} 2")).is_ok()
            || value(&format!("4 {symbol} 2")).is_some();
        let signed = symbol.len() == 2 && symbol.ends_with('-');
        let is_described = described.iter().any(|row| row[0] == symbol);
        assert!(!is_operation || signed || is_described, "{PAGE} lacks `{symbol}`");
    }
    // Words: those in the source of the parser.
    let source = text_of("crates/runtime/src/formula/read.rs");
    let words = source.split('"').skip(1).step_by(2);
    let is_word =
        |word: &&str| !word.is_empty() && word.chars().all(|c| c == '_' || c.is_alphabetic());
    for word in words.filter(is_word) {
        let said = section(&page, "## Expressions");
        let is_described =
            [format!("`{word}`"), format!("({word}=")].iter().any(|s| said.contains(s));
        assert!(is_described, "{PAGE} lacks `{word}`");
    }
}

#[test]
fn every_built_in_name_is_on_the_page_of_family_files() {
    let mut names = String::from("| name | meaning |\n|---|---|\n");
    for (name, meaning) in scope::BUILT_INS {
        names += &format!("| `{name}` | {meaning} |\n");
    }
    assert_generated(PAGE, &with_part(&text_of(PAGE), "names", &names));
}
