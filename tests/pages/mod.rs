//! Pages of docs/ that are made of other files, and rules for all pages. Generated pages and generated parts of pages are
//! equal to what is generated now; `INSTA_UPDATE=always cargo test --test suite pages` writes them anew.

mod benchmarks;
mod blocks;
mod commands;
mod family_files;
mod formats;
mod pictures;
mod reference;
mod rivals;
mod runs;
mod searches;
mod sentences;
mod surfaces;

use std::fs;
use std::path::{Path, PathBuf};

/// The command that writes generated pages anew.
const COMMAND: &str = "INSTA_UPDATE=always cargo test --test suite pages";

/// Compares a file with what is generated, or writes it where that is asked for.
fn assert_generated(path: &str, generated: &str) {
    let known = fs::read_to_string(path).unwrap_or_default();
    if known == generated {
        return;
    }
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        fs::write(path, generated).unwrap();
        return;
    }
    let differs = known.lines().zip(generated.lines()).position(|(own, new)| own != new);
    let line = differs.unwrap_or_else(|| known.lines().count().min(generated.lines().count()));
    panic!(
        "{path} is not what is generated, from line {}: run `{COMMAND}`\n  now: {}\n  new: {}",
        line + 1,
        known.lines().nth(line).unwrap_or("(the end)"),
        generated.lines().nth(line).unwrap_or("(the end)"),
    );
}

/// A page with the text between `<!-- generated: NAME -->` and `<!-- end -->` replaced.
fn with_part(page: &str, name: &str, text: &str) -> String {
    let begin = format!("<!-- generated: {name} -->\n");
    let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("no part `{name}`"));
    let (_, after) = rest.split_once("<!-- end -->").unwrap_or_else(|| panic!("`{name}` is open"));
    format!("{before}{begin}{text}<!-- end -->{after}")
}

/// Text as the cell of a table: on one line, and without tags of HTML.
fn cell(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let pieces = line.split('`').enumerate();
    let escaped = pieces.map(|(at, piece)| match at % 2 {
        0 => piece.replace('<', "\\<"),
        _ => piece.to_owned(),
    });
    escaped.collect::<Vec<_>>().join("`")
}

/// All files with this extension below a folder, in the order of their names.
fn files_below(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|own| own == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The text of a file of the repository.
fn text_of(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn a_generated_part_replaces_the_one_before() {
    let page = "a\n<!-- generated: t -->\nold\n<!-- end -->\nb\n";
    let expected = "a\n<!-- generated: t -->\nnew\n<!-- end -->\nb\n";
    assert_eq!(with_part(page, "t", "new\n"), expected);
    assert_eq!(cell("a |\n  <b> `<c>`"), "a \\| \\<b> `<c>`");
}
