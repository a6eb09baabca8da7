//! No sentence of the documents is longer than a reader can hold.

use super::{files_below, text_of};

/// Most words of a sentence. Code in backticks is a word.
const MOST_WORDS: usize = 30;

/// Pages made of other texts, and dated notes.
const LEFT_OUT: [&str; 3] =
    ["docs/reference/commands.md", "docs/reference/formats.md", "docs/decisions"];

#[test]
fn no_sentence_of_the_documents_is_too_long() {
    let mut pages = files_below("docs", "md");
    pages.retain(|path| !LEFT_OUT.iter().any(|left_out| path.starts_with(left_out)));
    pages.extend(["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].map(Into::into));
    let mut faults = Vec::new();
    for path in pages {
        for sentence in too_long(&text_of(&path)) {
            faults.push(format!("{}: {sentence}", path.display()));
        }
    }
    assert!(faults.is_empty(), "{} sentences are too long:\n{}\n", faults.len(), faults.join("\n"));
}

/// The sentences of a page with more than [`MOST_WORDS`] words.
fn too_long(page: &str) -> Vec<String> {
    let paragraphs = paragraphs(page);
    let sentences = paragraphs.iter().flat_map(|text| sentences(text));
    let count = |text: &String| text.split_whitespace().filter(|word| is_word(word)).count();
    sentences.filter(|text| count(text) > MOST_WORDS).collect()
}

fn is_word(text: &str) -> bool {
    text.contains(char::is_alphanumeric)
}

/// Texts that end where sentences end: paragraphs, items of lists, cells of tables. Without code and headings.
fn paragraphs(page: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut in_code = false;
    for line in page.lines().map(str::trim) {
        if line.starts_with("```") {
            in_code = !in_code;
            found.push(String::new());
        } else if in_code || line.is_empty() || line.starts_with(['#', '<', '>']) {
            found.push(String::new());
        } else if line.starts_with('|') {
            found.extend(line.split('|').map(plain));
            found.push(String::new());
        } else {
            let begins = line.starts_with("- ") || line.starts_with("* ");
            let numbered = line.split_once(". ").is_some_and(|(n, _)| n.parse::<u8>().is_ok());
            if begins || numbered {
                found.push(String::new());
            }
            if let Some(last) = found.last_mut() {
                last.push_str(line);
                last.push(' ');
            }
        }
    }
    found.iter().map(|text| plain(text)).filter(|text| !text.trim().is_empty()).collect()
}

/// A text with a word for each piece of code, and without the targets of links.
fn plain(text: &str) -> String {
    let pieces = text.split('`').enumerate();
    let words: String =
        pieces.map(|(at, piece)| if at % 2 == 1 { "CODE" } else { piece }).collect();
    let mut plain = String::new();
    let mut rest = words.as_str();
    while let Some((before, after)) = rest.split_once("](") {
        plain.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    plain + rest
}

/// The sentences of a text: they end with a full stop, a question mark or an exclamation mark before a space, or with a colon
/// at the end of a line that leads to a list.
fn sentences(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut sentence = String::new();
    for word in text.split_whitespace() {
        sentence.push_str(word);
        sentence.push(' ');
        let end = word.trim_end_matches(['*', ')', '"', '_', ']']);
        if end.ends_with(['.', '!', '?']) && !end.ends_with("e.g.") {
            found.push(std::mem::take(&mut sentence).trim_end().to_owned());
        }
    }
    found.push(sentence.trim_end().to_owned());
    found
}

#[test]
fn long_sentences_are_found_where_readers_meet_them() {
    let long = "word ".repeat(31);
    for (page, count) in [
        (format!("{long}."), 1),
        (format!("a. {}.", "word ".repeat(30)), 0),
        (format!("```\n{long}\n```"), 0),
        (format!("- {}\n- {}", "word ".repeat(16), "word ".repeat(16)), 0),
        (format!("| {} | {} |", "word ".repeat(16), "word ".repeat(16)), 0),
        (format!("`{long}` [{}]({long})", "word ".repeat(29)), 0),
        (format!("{}\n{}", "word ".repeat(16), "word ".repeat(16)), 1),
    ] {
        assert_eq!(too_long(&page).len(), count, "{page}");
    }
}
