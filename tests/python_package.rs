//! The Python package of the wheel, with the program of this build. `tests/wheel/build.sh` builds and installs the wheel.

use std::process::Command;

use tempfile::TempDir;

use crate::support::without::skip;
use crate::support::{cache, nvrtc_or_skip, program};

#[test]
fn the_package_tunes_looks_up_and_says_what_is_wrong() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let output = Command::new("python3")
        .args(["-B", "tests/wheel/package.py"])
        .args([folder.path().join("tuned"), cache()])
        .env("PYTHONPATH", "python")
        .env("GEMM_TUNE_PROGRAM", std::path::absolute(program::path()).unwrap())
        .output();
    match output {
        Err(error) => skip("python", &format!("no python3: {error}")),
        Ok(output) => {
            let (out, err) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
            assert_eq!(String::from_utf8_lossy(out).trim(), "right", "{err}");
        }
    }
}
