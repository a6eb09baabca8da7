//! Emitted harnesses on a GPU, built as their first line says.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use libtest_mimic::Failed;

use crate::rig::gemm_tune;

/// Kernels with one launch, with tensor cores and an epilogue, and with tensor maps of a workspace.
const CASES: [&[&str]; 3] = [
    &["300x200x100", "--config", "naive", "--dtype", "i32", "--batch", "3", "--layout", "tt"],
    &["512", "--config", "mma", "--dtype", "bf16", "--epilogue", "bias,gelu", "--layout", "tn"],
    &["500x300x200", "--config", "tma"],
];

/// The search path of programs, with the usual place of nvcc; `None` where there is no nvcc.
fn path_with_nvcc() -> Option<OsString> {
    let known = std::env::var_os("PATH").unwrap_or_default();
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os);
    let homes =
        homes.chain([OsString::from("/usr/local/cuda")]).map(|home| Path::new(&home).join("bin"));
    let folders: Vec<_> = std::env::split_paths(&known).chain(homes).collect();
    let has_nvcc = folders.iter().any(|folder| folder.join("nvcc").is_file());
    has_nvcc.then(|| std::env::join_paths(folders).ok()).flatten()
}

pub(crate) fn harnesses_pass() -> Result<(), Failed> {
    let Some(path) = path_with_nvcc() else {
        println!("skipped: no nvcc on the search path, in CUDA_HOME or in /usr/local/cuda");
        return Ok(());
    };
    for arguments in CASES {
        let (text, code) = gemm_tune(&[&["inspect", "--emit", "harness"], arguments].concat());
        if code != Some(0) {
            println!("skipped: this GPU does not run {arguments:?}");
            continue;
        }
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("kernel.cu"), &text)?;
        let build = text.lines().next().unwrap_or_default().trim_start_matches("// ");
        let mut shell = Command::new("sh");
        let output = shell.args(["-c", build]).env("PATH", &path).current_dir(&folder).output()?;
        let said = [&output.stdout[..], &output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        println!("{arguments:?}: {said}");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {build}\n{said}");
        assert!(said.contains("OP/s at the median"), "{arguments:?}: {said}");
    }
    Ok(())
}
