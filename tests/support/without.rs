//! What tests need beside Rust, and the variable that lets them run without it. A test that cannot
//! run fails, unless `GEMM_TUNE_TESTS_WITHOUT` names what is missing: `nvrtc,chromium`.
//!
//! Tests of a GPU do not need this: `tests/gpu` lists what it skipped and why.

use std::env;
use std::io::Write as _;

const VARIABLE: &str = "GEMM_TUNE_TESTS_WITHOUT";

/// The words of the variable: NVRTC (with nvdisasm) in the version of the snapshots; a Chromium; a
/// Python 3 that can install packages; gcc and g++.
const NEEDS: [&str; 4] = ["nvrtc", "chromium", "python", "compilers"];

/// Skips a test that cannot run without `need`; says so past the test harness, which hides the
/// output of a passing test.
///
/// # Panics
/// The variable does not allow it.
#[track_caller]
pub(crate) fn skip(need: &str, why: &str) {
    let list = env::var(VARIABLE).unwrap_or_default();
    match allows(&list, need) {
        Ok(true) => drop(writeln!(std::io::stderr(), "skipped: {why}")),
        Ok(false) => panic!("{why}; {VARIABLE}={need} lets tests run without it"),
        Err(error) => panic!("{error}"),
    }
}

/// Whether a list of needs, separated by commas, names `need`.
fn allows(list: &str, need: &str) -> Result<bool, String> {
    let words = || list.split(',').map(str::trim).filter(|word| !word.is_empty());
    for word in words().chain([need]) {
        if !NEEDS.contains(&word) {
            let known = NEEDS.join(", ");
            return Err(format!("{VARIABLE} has the unknown word `{word}`: choose from {known}"));
        }
    }
    Ok(words().any(|word| word == need))
}

mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_tolerated_only_where_the_list_names_it() {
        for (list, need, expected) in [
            ("", "nvrtc", Ok(false)),
            ("nvrtc", "nvrtc", Ok(true)),
            ("chromium", "nvrtc", Ok(false)),
            (" chromium , nvrtc,", "nvrtc", Ok(true)),
            ("nvrtc,chrome", "nvrtc", Err("unknown word `chrome`: choose from nvrtc, ")),
            ("nvrtc", "gpu", Err("unknown word `gpu`")),
        ] {
            match (allows(list, need), expected) {
                (Err(error), Err(words)) => assert!(error.contains(words), "{error}"),
                (found, expected) => assert_eq!(found, expected.map_err(str::to_owned), "{list}"),
            }
        }
    }
}
