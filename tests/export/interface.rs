//! The binary interface of the C library beside the committed one, `tests/export/interface.txt`: exported symbols,
//! declarations, constants, and the sizes and offsets of structures.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::rig::winner;
use crate::support::without::skip;

const HEADER: &str = "src/export/artifact/gemm_tuned.h";
const BASELINE: &str = "tests/export/interface.txt";

/// The header without comments.
fn plain_header() -> String {
    let text = fs::read_to_string(HEADER).unwrap();
    let mut plain = String::new();
    let mut rest = text.as_str();
    while let Some((before, comment)) = rest.split_once("/*") {
        plain.push_str(before);
        rest = comment.split_once("*/").unwrap().1;
    }
    plain + rest
}

/// A text on one line with single spaces.
fn on_a_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What the header declares, a line each, and a program that prints numbers: constants, sizes and offsets.
fn declared(header: &str) -> (Vec<String>, String) {
    let mut lines = Vec::new();
    let mut printed = String::new();
    // Writing to a string does not fail.
    let mut print = |what: &str, value: &str| {
        let _ = writeln!(printed, "    printf(\"{what} = %lld\\n\", (long long)({value}));");
    };
    for name in header.lines().filter_map(|line| line.strip_prefix("#define ")) {
        if let Some((name, _)) = name.split_once(' ') {
            print(&format!("constant {name}"), name);
        }
    }
    for body in header.split("enum {").skip(1) {
        for constant in body.split('}').next().unwrap().split(',') {
            let name = constant.split('=').next().unwrap().trim();
            print(&format!("constant {name}"), name);
        }
    }
    for body in header.split("typedef struct {").skip(1) {
        let (fields, after) = body.split_once('}').unwrap();
        let name = after.split(';').next().unwrap().trim();
        print(&format!("size of {name}"), &format!("sizeof({name})"));
        for field in fields.split(';').map(on_a_line).filter(|field| !field.is_empty()) {
            let words = field.trim_start_matches("const ");
            let (kind, names) = words.split_once(' ').unwrap();
            let (kind, names) = match names.strip_prefix("long ") {
                Some(names) => ("long long", names),
                None => (kind, names),
            };
            for place in names.split(',').map(|one| one.trim().trim_start_matches('*')) {
                print(
                    &format!("offset of {name}.{place} ({kind})"),
                    &format!("offsetof({name}, {place})"),
                );
            }
        }
    }
    // Functions are declared outside of bodies, and end with a semicolon.
    let code = header.lines().filter(|line| !line.trim_start().starts_with('#'));
    let code = code.collect::<Vec<_>>().join("\n");
    for text in code.split(['{', '}', ';']).map(on_a_line) {
        let is_function = text.contains("gemm_tuned_") && text.ends_with(')') && text.contains('(');
        if is_function && !text.contains("static inline") && !text.contains(" = ") {
            lines.push(format!("function {text}"));
        }
    }
    let program = format!(
        "#include <stdio.h>\n#include \"gemm_tuned.h\"\nint main(void)\n{{\n{printed}    return 0;\n}}\n"
    );
    (lines, program)
}

/// What a command prints; `None` for a test that may be skipped for want of it.
fn printed(program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program} {arguments:?}: {error}");
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Err(error) => {
            skip("compilers", &format!("no {program}: {error}"));
            None
        }
    }
}

/// The interface, a line each.
fn interface(folder: &Path) -> Option<BTreeSet<String>> {
    let (functions, program) = declared(&plain_header());
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    fs::write(at("layout.c"), program).unwrap();
    printed("gcc", &["-std=c99", "-I", folder.to_str()?, &at("layout.c"), "-o", &at("layout")])?;
    let numbers = printed(&at("layout"), &[])?;
    let symbols = printed("nm", &["-D", "--defined-only", &at("libgemm_tuned.so")])?;
    // Its own calls go to itself, where a process has another copy of it.
    let calls = printed("readelf", &["-rW", &at("libgemm_tuned.so")])?;
    assert!(!calls.contains("gemm_tuned_"), "{calls}");
    let symbols = symbols.lines().filter_map(|line| line.rsplit(' ').next());
    let symbols = symbols.map(|symbol| format!("symbol {symbol}"));
    Some(functions.into_iter().chain(numbers.lines().map(str::to_owned)).chain(symbols).collect())
}

/// The version in the lines of an interface.
fn version(lines: &BTreeSet<String>) -> &str {
    let version = lines.iter().find_map(|line| line.strip_prefix("constant GEMM_TUNED_VERSION = "));
    version.unwrap_or("none")
}

/// Why the present interface differs from the committed one; `None` where it does not. Structures may grow: their sizes
/// change, and a library takes the earlier ones.
fn difference(before: &BTreeSet<String>, now: &BTreeSet<String>) -> Option<String> {
    let list = |lines: Vec<&String>| -> String {
        lines.iter().map(|line| format!("\n  {line}")).collect()
    };
    let may_change =
        |line: &&String| line.starts_with("size of ") || line.contains("GEMM_TUNED_VERSION = ");
    let gone: Vec<&String> = before.difference(now).filter(|line| !may_change(line)).collect();
    let new: Vec<&String> = now.difference(before).collect();
    if before == now {
        return None;
    }
    let accept =
        format!("`INSTA_UPDATE=always cargo test --test suite interface` writes {BASELINE} anew");
    Some(if !gone.is_empty() {
        format!(
            "the C interface breaks programs: these lines are gone:{}\nand these are new:{}\nkeep the former ({accept})",
            list(gone),
            list(new)
        )
    } else if version(before) == version(now) {
        format!(
            "the C interface grew without a new GEMM_TUNED_VERSION:{}\nraise it in {HEADER}; then {accept}",
            list(new)
        )
    } else {
        format!(
            "the C interface has a new version:{}\nname it in the header and CHANGELOG.md; then {accept}",
            list(new)
        )
    })
}

#[test]
fn the_c_interface_is_the_committed_one() {
    let folder = tempfile::tempdir().unwrap();
    if winner(folder.path(), true).is_none() {
        return;
    }
    let Some(now) = interface(folder.path()) else { return };
    if std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always") {
        let lines: Vec<&str> = now.iter().map(String::as_str).collect();
        fs::write(BASELINE, lines.join("\n") + "\n").unwrap();
    }
    let before = fs::read_to_string(BASELINE).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(difference(&before, &now), None);
}

#[test]
fn changes_of_the_interface_are_named() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<String>>();
    let before = lines("constant GEMM_TUNED_VERSION = 3\nsize of a = 8\nsymbol f");
    for (now, words) in [
        ("constant GEMM_TUNED_VERSION = 3\nsize of a = 8", "are gone:\n  symbol f"),
        (
            "constant GEMM_TUNED_VERSION = 3\nsize of a = 8\nsymbol f\nsymbol g",
            "without a new GEMM_TUNED_VERSION:\n  symbol g",
        ),
        ("constant GEMM_TUNED_VERSION = 4\nsize of a = 16\nsymbol f", "has a new version:"),
    ] {
        let said = difference(&before, &lines(now)).unwrap();
        assert!(said.contains(words) && said.contains("INSTA_UPDATE"), "{said}");
    }
    assert_eq!(difference(&before, &before), None);
}
