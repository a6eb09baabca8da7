//! Blocks of code of a page: their language, their markers, and the text before them.

/// Markers of blocks that no test runs: they need a GPU, a cluster's scheduler, a build of the program, or tools and keys
/// of the reader.
pub(super) const MARKERS: [&str; 4] = ["gpu", "cluster", "build", "yours"];

/// Marker of a block whose commands end with an error, as the page says.
pub(super) const FAILS: &str = "fails";

/// A block between lines of three backticks.
pub(super) struct Block<'p> {
    pub(super) language: &'p str,
    pub(super) marker: Option<&'p str>,
    /// Its lines, each with its end.
    pub(super) text: String,
    /// The last line of text before it.
    pub(super) before: &'p str,
    /// The number of its first line on the page.
    pub(super) line: usize,
}

impl Block<'_> {
    /// Whether it has commands.
    pub(super) fn is_shell(&self) -> bool {
        matches!(self.language, "sh" | "console")
    }
}

/// The blocks of a page.
///
/// # Panics
/// A shell block has a marker that is unknown.
pub(super) fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    let mut before = "";
    for (line, text) in (1..).zip(page.lines()) {
        if let Some(info) = text.trim_start().strip_prefix("```") {
            if let Some(block) = open.take() {
                blocks.push(block);
                continue;
            }
            let mut words = info.split_whitespace();
            let (language, marker) = (words.next().unwrap_or(""), words.next());
            open = Some(Block { language, marker, text: String::new(), before, line: line + 1 });
        } else if let Some(block) = &mut open {
            block.text += text;
            block.text.push('\n');
        } else if !text.trim().is_empty() {
            before = text;
        }
    }
    for block in blocks.iter().filter(|block| block.is_shell()) {
        let known = block.marker.is_none_or(|marker| marker == FAILS || MARKERS.contains(&marker));
        assert!(known, "line {}: `{:?}` is no marker", block.line, block.marker);
    }
    blocks
}

/// The commands of a ```console block, each with the output that is shown.
pub(super) fn transcript(text: &str) -> Vec<(String, Vec<&str>)> {
    let mut calls: Vec<(String, Vec<&str>)> = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            calls.push((command.to_owned(), Vec::new()));
        } else if let Some((_, shown)) = calls.last_mut() {
            shown.push(line);
        }
    }
    calls
}

#[test]
fn blocks_have_languages_markers_and_text() {
    let page = "a\n```sh gpu\nb\n```\n\nc `d.c`:\n\n```c\ne\n```\n";
    let blocks = blocks(page);
    let found: Vec<_> = blocks.iter().map(|b| (b.language, b.marker, &*b.text, b.before)).collect();
    assert_eq!(found, [("sh", Some("gpu"), "b\n", "a"), ("c", None, "e\n", "c `d.c`:")]);
    let expected = [("a".to_owned(), vec!["b"]), ("c".to_owned(), vec![])];
    assert_eq!(transcript("$ a\nb\n$ c\n"), expected);
}
