//! Names of the types that a file defines: structs, enums, unions, traits and aliases, private and
//! local ones too. Associated types are no types of their own.

use crate::source::{Source, is_word, tokens};

/// The types that a file defines, each with its line.
pub(crate) fn types(source: &Source) -> Vec<(usize, String)> {
    let tokens = tokens(&source.code);
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let mut found = Vec::new();
    // For each open brace, whether it is that of an `impl` or a `trait`.
    let mut open: Vec<bool> = Vec::new();
    let mut statement = 0;
    for at in 0..tokens.len() {
        let word = text(at);
        match word {
            "{" => {
                let header = || tokens[statement..at].iter().map(|token| token.text);
                let associated = header().any(|word| matches!(word, "impl" | "trait"))
                    && !header().any(|word| word == "fn");
                open.push(associated);
            }
            "}" => drop(open.pop()),
            "struct" | "enum" | "union" | "trait" | "type" => {
                let name = text(at + 1);
                let is_type = word != "type" || open.last() != Some(&true);
                let defines =
                    name.starts_with(|c: char| c.is_uppercase()) && name.starts_with(is_word);
                if is_type && defines {
                    found.push((tokens[at].line, name.to_owned()));
                }
            }
            _ => {}
        }
        if matches!(word, "{" | "}" | ";") {
            statement = at + 1;
        }
    }
    found
}
