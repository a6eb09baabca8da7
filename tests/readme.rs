//! What README.md and the documents tell people to type exists: their shell blocks are read, and every option of this
//! program in them is looked for in the program's own help. Nothing that they show is run. Links lead to files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::program::gemm_tune;

/// What a first reader must find.
const ESSENTIAL: [&str; 2] = ["cargo test", "cargo run --release -- --shape 4096x4096x1024"];

/// The command that the program runs where none is named.
const MAIN: &str = "tune";

/// The commands of a text's ```sh and ```console blocks, with or without a marker such as `gpu`; in the latter they stand after `$ `, the
/// rest being output. Lines that end in `\` go on, comments are left out, a line of several
/// commands is taken apart.
pub(crate) fn commands(readme: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut block: Option<&str> = None;
    let mut begun = String::new();
    for line in readme.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            block = match block {
                Some(_) => None,
                None => Some(language.split_whitespace().next().unwrap_or("")),
            };
            continue;
        }
        let typed = match block {
            Some("sh") => line.trim(),
            Some("console") if begun.is_empty() => line.trim().strip_prefix("$ ").unwrap_or(""),
            Some("console") => line.trim().trim_start_matches("> "),
            _ => continue,
        };
        let typed = if typed.starts_with('#') { "" } else { typed };
        let typed = typed.split(" #").next().unwrap_or(typed);
        if let Some(part) = typed.strip_suffix('\\') {
            begun += part;
            continue;
        }
        let whole = std::mem::take(&mut begun) + typed;
        commands.extend(whole.split(['|', ';', '&']).filter_map(spaced));
    }
    commands
}

/// A command with single spaces, without the variables that are set for it; `None` if it is empty.
fn spaced(command: &str) -> Option<String> {
    let is_setting = |word: &&str| word.contains('=') && !word.starts_with('-');
    let words: Vec<&str> = command.split_whitespace().skip_while(is_setting).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// What `command` passes to this program; `None` where it runs something else.
pub(crate) fn arguments(command: &str) -> Option<Vec<&str>> {
    let mut words = command.split(' ');
    let program = words.next()?;
    if program == "cargo" {
        let (cargo, ours) = command.split_once(" -- ")?;
        let other = ["--example", "--bench", "--test"].iter().any(|target| cargo.contains(target));
        return (cargo.starts_with("cargo run") && !other).then(|| ours.split(' ').collect());
    }
    (program.rsplit('/').next() == Some("gemm-tune")).then(|| words.collect())
}

/// The options that a help text lists.
fn options(help: &str) -> BTreeSet<&str> {
    help.lines()
        .filter(|line| line.trim_start().starts_with('-'))
        .flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-'))
        .filter(|word| is_option(word))
        .collect()
}

/// The commands that a help text lists.
fn subcommands(help: &str) -> BTreeSet<&str> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

/// Whether a word is an option: not a negative number, not the `-` that stands for a stream.
fn is_option(word: &str) -> bool {
    word.starts_with("--") || word.starts_with('-') && word[1..].starts_with(char::is_alphabetic)
}

/// What is wrong with a call of the program, as far as its help tells. `help` gives the help of a
/// command; without words, the program's.
fn fault(arguments: &[&str], help: &mut dyn FnMut(&[&str]) -> String) -> Option<String> {
    let mut text = help(&[]);
    let mut depth = 0;
    while let Some(word) = arguments.get(depth).filter(|word| !is_option(word)) {
        let known = subcommands(&text);
        if !known.contains(word) {
            let takes_values = known.is_empty() || text.contains("\nArguments:");
            if takes_values {
                break;
            }
            return Some(format!("`{word}` is no command"));
        }
        depth += 1;
        text = help(&arguments[..depth]);
    }
    if depth == 0 && subcommands(&text).contains(MAIN) {
        text += &help(&[MAIN]);
    }
    let known = options(&text);
    // What follows `--` is of another program.
    let own = arguments[depth..].iter().take_while(|word| **word != "--");
    own.filter(|word| is_option(word))
        .map(|option| option.split('=').next().unwrap_or(option))
        .find(|option| !known.contains(option))
        .map(|option| format!("`{option}` is no option"))
}

/// The help of the program's commands, read once for each.
fn help_of_program() -> impl FnMut(&[&str]) -> String {
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    move |words| {
        let ask = || gemm_tune(&[words, &["--help"]].concat()).out;
        known.entry(words.join(" ")).or_insert_with(ask).clone()
    }
}

/// README.md and all files below docs/, each with its text.
fn documents() -> Vec<(String, String)> {
    let mut found: Vec<PathBuf> = vec!["README.md".into(), "CONTRIBUTING.md".into()];
    let mut folders: Vec<PathBuf> = vec!["docs".into()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|own| own == "md") {
                found.push(path);
            }
        }
    }
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path.display().to_string(), text)
    };
    found.into_iter().map(read).collect()
}

#[test]
fn commands_in_the_documents_exist() {
    let readme = fs::read_to_string("README.md").expect("README.md is there");
    let typed = commands(&readme);
    for essential in ESSENTIAL {
        assert!(typed.iter().any(|command| command == essential), "README.md lacks `{essential}`");
    }
    let mut help = help_of_program();
    let mut faults = Vec::new();
    // Decisions are dated: their commands are those of their day.
    for (name, text) in documents().iter().filter(|(name, _)| !name.contains("decisions")) {
        for command in commands(text) {
            let Some(arguments) = arguments(&command) else { continue };
            if let Some(fault) = fault(&arguments, &mut help) {
                faults.push(format!("{name} says `{command}`, but {fault}"));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// Where the links of a text lead: `(TARGET)` behind `]`, without the part of a page.
fn links(text: &str) -> Vec<&str> {
    let after = text.split("](").skip(1);
    let targets = after.filter_map(|rest| rest.split_once(')')?.0.split('#').next());
    targets.filter(|target| !target.is_empty() && !target.contains("://")).collect()
}

#[test]
fn links_in_the_documents_lead_to_files() {
    let mut faults = Vec::new();
    for (name, text) in documents() {
        let folder = Path::new(&name).parent().unwrap().to_owned();
        for target in links(&text) {
            if !folder.join(target).exists() {
                faults.push(format!("{name} links to `{target}`, which is not there"));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    assert_eq!(links("[a](b.md) [c](https://d) [e](#f) ![g](h.svg#i)"), ["b.md", "h.svg"]);
}

#[test]
fn the_readme_is_short() {
    let lines = fs::read_to_string("README.md").unwrap().lines().count();
    assert!(lines <= 150, "README.md has {lines} lines: a page of docs/ takes the rest");
}

#[test]
fn commands_are_read_from_shell_blocks_only() {
    for (readme, expected) in [
        ("```sh\na b\n\n# no\nc  d # why\n```\ne\n", vec!["a b", "c d"]),
        ("```console\n$ a b\noutput\n$ c\n```\n", vec!["a b", "c"]),
        ("```rust\na\n```\n```sh\nb\n```\n```\nc\n```\n", vec!["b"]),
        ("```sh gpu\na b\n```\n", vec!["a b"]),
        ("```sh\na \\\n  --b \\\n  c\nd\n```\n", vec!["a --b c", "d"]),
        ("```console\n$ a \\\n> --b\noutput\n```\n", vec!["a --b"]),
        ("```sh\nX=1 Y=2 a --b=c && d | e; f\n```\n", vec!["a --b=c", "d", "e", "f"]),
    ] {
        assert_eq!(commands(readme), expected, "{readme}");
    }
}

#[test]
fn calls_of_the_program_are_told_from_others() {
    for (command, expected) in [
        ("gemm-tune --shape 1x2x3", Some(vec!["--shape", "1x2x3"])),
        ("./target/release/gemm-tune db list", Some(vec!["db", "list"])),
        ("cargo run --release -- lookup", Some(vec!["lookup"])),
        ("cargo run --example render -- naive", None),
        ("cargo test", None),
        ("cargo test -- --nocapture", None),
        ("cargo install gemm-tune", None),
        ("gemm-tuner --shape 1x2x3", None),
    ] {
        assert_eq!(arguments(command), expected, "{command}");
    }
}

#[test]
fn what_help_does_not_show_is_a_fault() {
    let mut help = |words: &[&str]| {
        let text = match words {
            [] => {
                "Usage: gemm-tune\n\nCommands:\n  tune  Tune, with --care\n  db    Look\n\n\
                 Options:\n  -h, --help\n"
            }
            ["tune"] => "Options:\n  -s, --shape <MxNxK>  Repeats\n      --jobs[=<N>]\n",
            ["db"] => "Commands:\n  list  List\n\nOptions:\n  -h, --help\n",
            ["db", "list"] => "Arguments:\n  [FILE]\n\nOptions:\n      --json\n",
            words => panic!("{words:?}"),
        };
        text.to_owned()
    };
    for (call, expected) in [
        ("--shape 1x2x3 --jobs=4 -s 1x1x1", None),
        ("--jobs -1 -s -", None),
        ("tune --shape 1x2x3", None),
        ("tune --help-me", Some("`--help-me` is no option")),
        ("--shap 1x2x3", Some("`--shap` is no option")),
        ("--care", Some("`--care` is no option")),
        ("--json", Some("`--json` is no option")),
        ("db list --json results/a.toml", None),
        ("db list results/a.toml --shape", Some("`--shape` is no option")),
        ("db lost", Some("`lost` is no command")),
        ("look", Some("`look` is no command")),
    ] {
        let arguments: Vec<&str> = call.split(' ').collect();
        assert_eq!(fault(&arguments, &mut help).as_deref(), expected, "{call}");
    }
}

/// The search space that shows how a family is added is one.
#[test]
fn the_family_in_the_reference_parses() {
    let text = fs::read_to_string("docs/reference/family-files.md").unwrap();
    let example = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let family = gemm_tune::space::Family::parse("family-files.md", example.expect("there is one"));
    assert_eq!(family.map(|family| family.name), Ok("mine".to_owned()));
}
