//! `docs/reference/command-line.md` has every variable that the program reads, `versions.md` the versions of the code, and the
//! documents' index every page.

use super::{files_below, text_of};

const PAGE: &str = "docs/reference/command-line.md";

/// Files that read the environment, besides the options that clap reads.
const READERS: [&str; 2] = ["src/cli/environment.rs", "src/session/shard.rs"];

#[test]
fn every_variable_that_is_read_is_on_its_page() {
    let page = text_of(PAGE);
    let mut names: Vec<String> = Vec::new();
    for path in READERS {
        let source = text_of(path);
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        let is_name = |word: &&str| {
            word.len() > 3 && word.chars().all(|c| c == '_' || c.is_ascii_uppercase())
        };
        names.extend(code.split('"').skip(1).step_by(2).filter(is_name).map(str::to_owned));
    }
    let tree = gemm_tune::cli::command();
    let arguments = tree.get_arguments().filter_map(|own| own.get_env());
    names.extend(arguments.map(|name| name.to_string_lossy().into_owned()));
    assert!(names.len() > 6, "{names:?}");
    for name in names {
        assert!(page.contains(&format!("`{name}`")), "{PAGE} lacks {name}");
    }
}

#[test]
fn the_index_has_every_page() {
    let index = text_of("docs/README.md");
    for path in files_below("docs", "md") {
        let name = path.strip_prefix("docs").unwrap().display().to_string();
        let is_listed = index.contains(&format!("({name})"));
        let elsewhere = name == "README.md" || name.starts_with("decisions/");
        assert!(is_listed || elsewhere, "docs/README.md lacks {name}");
    }
}

/// Page of versions, and the file and the line that say each version.
const VERSIONS: &str = "docs/reference/versions.md";
const DECLARED: [(&str, &str, &str); 10] = [
    ("program", "Cargo.toml", "version = \""),
    (
        "C interface, `gemm_tuned.h`",
        "src/export/artifact/gemm_tuned.h",
        "#define GEMM_TUNED_VERSION ",
    ),
    ("database, `results/*.toml`", "src/database/document.rs", "const SCHEMA: i64 = "),
    ("bundle, `manifest.json`", "crates/runtime/src/manifest.rs", "const SCHEMA: u64 = "),
    ("learned model, `*.model.json`", "src/predict/learned_model.rs", "const VERSION: u32 = "),
    ("trace, `trace.json`", "src/session/trace/file.rs", "const SCHEMA: u32 = "),
    ("family, `NAME.toml`", "src/space/file.rs", "const SCHEMA: i64 = "),
    ("table and set of `dispatch`", "src/dispatch/table.rs", "const SCHEMA: u64 = "),
    ("journal of a search", "src/tune/journal.rs", "const VERSION: u32 = "),
    ("recorded times of `replay`", "src/tune/recording/times.rs", "const VERSION: u32 = "),
];

#[test]
fn the_page_of_versions_has_those_of_the_code() {
    let page = text_of(VERSIONS);
    for (what, path, declaration) in DECLARED {
        let source = text_of(path);
        let (_, rest) =
            source.split_once(declaration).unwrap_or_else(|| panic!("{path}: no {declaration}"));
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let version = rest.split(|c| !is_number(c)).next().unwrap();
        assert!(
            page.contains(&format!("| {what} | {version} |")),
            "{VERSIONS}: {what} has version {version}"
        );
    }
}
