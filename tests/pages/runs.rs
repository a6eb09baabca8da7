//! Runs the commands of the pages, each page in a folder of its own, as a reader would: in order, with `gemm-tune` on the
//! path. Blocks with a marker are left out (`blocks`): `cargo test --test suite pages::runs -- --nocapture` lists them, and
//! `GEMM_TUNE_PAGES=gpu` runs those that are marked so too.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::blocks::{FAILS, blocks, transcript};
use super::{files_below, text_of};
use crate::support::program;
use crate::support::{cache, nvrtc_or_skip, without};

/// Separates the outputs of commands.
const MARK: char = '\u{1}';

/// What a page says to copy into its folder, in a comment.
const RUN_IN: &str = "<!-- run in: ";

/// The page's folder in a page's comment, for the files of a checkout.
const CHECKOUT: &str = "checkout";

macro_rules! pages {
    ($($name:ident => $path:literal,)*) => {
        const RUN: &[&str] = &[$($path),*];
        $(#[test] fn $name() { run($path); })*
    };
}

pages! {
    any_shape => "docs/guides/any-shape.md",
    ci => "docs/guides/ci.md",
    compare => "docs/guides/compare.md",
    database => "docs/reference/database.md",
    inspect_and_explain => "docs/guides/inspect-and-explain.md",
    many_machines => "docs/guides/many-machines.md",
    many_shapes => "docs/guides/many-shapes.md",
    ship => "docs/guides/ship.md",
    readme => "README.md",
    without_a_gpu => "docs/guides/without-a-gpu.md",
}

#[test]
fn tutorial() {
    let Some(folder) = run(TUTORIAL) else { return };
    link(folder.path());
}

const TUTORIAL: &str = "docs/tutorial.md";

/// The page whose commands another module runs.
const ELSEWHERE: &str = "docs/tutorial-family.md";

#[test]
fn commands_of_all_pages_are_run_or_marked() {
    let mut unknown = BTreeSet::new();
    let is_decision = |path: &Path| path.starts_with("docs/decisions");
    let mut pages = files_below("docs", "md");
    pages.retain(|path| !is_decision(path));
    pages.push("README.md".into());
    for path in pages {
        let name = path.display().to_string();
        let text = text_of(&path);
        let unmarked =
            blocks(&text).iter().any(|b| b.is_shell() && b.marker.is_none_or(|m| m == FAILS));
        let is_run = RUN.contains(&&*name) || name == TUTORIAL || name == ELSEWHERE;
        if unmarked && !is_run {
            unknown.insert(name);
        }
    }
    assert!(unknown.is_empty(), "list these in {}, or mark their blocks: {unknown:?}", file!());
}

/// Runs a page. The result is its folder, or `None` where a tool is missing that tests may do without.
#[expect(clippy::print_stderr, reason = "blocks that are not run are named")]
fn run(path: &str) -> Option<TempDir> {
    let nvrtc = nvrtc_or_skip()?;
    if Command::new("gcc").arg("--version").output().is_err() {
        without::skip("compilers", "no gcc");
        return None;
    }
    let page = text_of(path);
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path(), &page);
    // One script, so that `cd` and variables last.
    let mut script = String::from("set -eu\nexec 2>&1\n");
    let mut shown: Vec<(usize, String, Vec<String>)> = Vec::new();
    let asked = std::env::var("GEMM_TUNE_PAGES").unwrap_or_default();
    for mut block in blocks(&page) {
        block.marker = block.marker.filter(|marker| asked.split(',').all(|word| word != *marker));
        let mut add = |line: usize, command: &str, output: Vec<String>| {
            writeln!(script, "printf '\\001'\n{command}").unwrap();
            shown.push((line, command.to_owned(), output));
        };
        match (block.language, block.marker) {
            ("sh", None) => add(block.line, &block.text, Vec::new()),
            ("console", None | Some(FAILS)) => {
                for (command, output) in transcript(&block.text) {
                    let command = match block.marker {
                        Some(_) => format!("if {command}; then false; fi"),
                        None => command,
                    };
                    add(block.line, &command, output.into_iter().map(str::to_owned).collect());
                }
            }
            ("sh" | "console", Some(marker)) => {
                eprintln!("{path}:{}: not run ({marker}):\n{}", block.line, block.text);
            }
            ("c", None) => {
                if let Some(name) = block.before.split('`').nth(1).filter(|n| n.ends_with(".c")) {
                    writeln!(script, "cat > {name} <<'END_OF_FILE'\n{}END_OF_FILE", block.text)
                        .unwrap();
                }
            }
            _ => {}
        }
    }
    // Journals of other pages would answer for this one's.
    let own_cache = cache().join("pages").join(path.replace('/', "-"));
    let _ = fs::remove_dir_all(own_cache.join("journal"));
    let mut command = in_folder(folder.path(), &["bash", "-c", &script]);
    command.env("GEMM_TUNE_CACHE", own_cache).env("GEMM_TUNE_NVRTC", nvrtc.path());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let outputs: Vec<&str> = text.split(MARK).skip(1).collect();
    if !output.status.success() {
        let at = outputs.len().saturating_sub(1);
        let last = outputs.last().copied().unwrap_or_default();
        let (line, command, _) = &shown[at];
        panic!("{path}:{line}: `{}` failed ({}):\n{last}", command.trim(), output.status);
    }
    for ((line, command, expected), output) in shown.iter().zip(outputs) {
        let words: BTreeSet<&str> = words(output).collect();
        for shown in expected {
            let missing = self::words(shown).find(|word| !words.contains(word));
            assert!(
                missing.is_none(),
                "{path}:{line}: {missing:?} is not in the output of `{command}`:\n{output}"
            );
        }
    }
    Some(folder)
}

/// Words of an output that are the same in each run: letters only.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(|c: char| c.is_whitespace() || ",:;()[]".contains(c));
    parts.filter(|word| word.len() > 2 && word.chars().all(|c| c.is_ascii_alphabetic()))
}

/// Copies what a page says that it runs in.
fn fill(folder: &Path, page: &str) {
    let place = page.split_once(RUN_IN).and_then(|(_, rest)| rest.split_once(" -->"));
    let Some((place, _)) = place else { return };
    let own = std::env::current_dir().unwrap();
    if place == CHECKOUT {
        for name in ["search-spaces", "templates", "examples", "tests"] {
            symlink(own.join(name), folder.join(name)).unwrap();
        }
        copy(&own.join("results"), &folder.join("results"));
    } else {
        copy(&own.join(place), folder);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// A command in a page's folder, with the program under test first on the path.
fn in_folder(folder: &Path, words: &[&str]) -> Command {
    let programs = folder.join(".programs");
    fs::create_dir_all(&programs).unwrap();
    let program = programs.join("gemm-tune");
    if !program.exists() {
        symlink(std::path::absolute(program::path()).unwrap(), &program).unwrap();
    }
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(folder).env("NO_COLOR", "1");
    command.env("PATH", format!("{}:{path}", programs.display()));
    for name in ["SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX"] {
        command.env_remove(name);
    }
    command
}

/// Links the tutorial's program as the page says, with the stub in the place of the driver's library.
fn link(folder: &Path) {
    let page = text_of(TUTORIAL);
    let all = blocks(&page);
    let block =
        all.iter().find(|block| block.marker == Some("gpu") && block.text.starts_with("gcc"));
    let command = block.and_then(|block| block.text.lines().next()).expect("the page links");
    let stub = std::path::absolute("tests/artifacts/stub_driver.c").unwrap();
    let script = format!(
        "cd first && mkdir stub && gcc -shared -fPIC {} -Wl,-soname,libcuda.so.1 -o stub/libcuda.so.1 && \
         LIBRARY_PATH=stub {command} && test -x multiply",
        stub.display()
    );
    let output = in_folder(folder, &["bash", "-c", &script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
