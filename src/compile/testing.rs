//! Test support: an NVRTC (installed, else provided by pip below `target/`), and scripts that stand
//! in for real programs.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::acquire::{NvrtcRequirements, acquire};
use super::libraries::SearchPaths;
use super::nvrtc::Nvrtc;
use super::provide::Network;

#[path = "../../tests/support/without.rs"]
pub(crate) mod without;

/// Returns the NVRTC that tests share; `None` for a test that may be skipped without one.
pub(crate) fn nvrtc_or_skip() -> Option<Nvrtc> {
    static NVRTC: OnceLock<Result<Nvrtc, String>> = OnceLock::new();
    match NVRTC.get_or_init(find) {
        Ok(nvrtc) => Some(nvrtc.clone()),
        Err(reason) => {
            without::skip("nvrtc", &format!("no NVRTC: {reason}"));
            None
        }
    }
}

fn find() -> Result<Nvrtc, String> {
    let folders = |name| env::var_os(name).map(|value| env::split_paths(&value).collect());
    let paths = SearchPaths {
        explicit: env::var_os("GEMM_TUNE_NVRTC").map(Into::into),
        cache: Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("target/test-cache")),
        library_path: folders("LD_LIBRARY_PATH").unwrap_or_default(),
        cuda_homes: folders("CUDA_HOME").unwrap_or_default(),
        python: Some("python3".into()),
    };
    let architecture = "sm_90".parse().map_err(|_| "sm_90 is an architecture")?;
    let required = NvrtcRequirements { architecture, driver_major: None };
    acquire(&paths, &required, Network::Allowed, &mut |_| {}).map_err(|error| error.to_string())
}

/// Creates a program in `folder` from a shell script.
pub(crate) fn program(folder: &Path, name: &str, script: &str) -> PathBuf {
    let (text, program) = (folder.join(format!("{name}.sh")), folder.join(name));
    fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).unwrap();
    // Copied by another process. A file written here could be inherited open by a child that
    // another test starts, and running it would fail with "text file busy".
    let copied = Command::new("cp").arg(&text).arg(&program).status().unwrap();
    assert!(copied.success(), "{copied}");
    program
}
