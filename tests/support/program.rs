//! Runs the program as a user does. `GEMM_TUNE_BIN` names it where cargo does not.

use std::path::PathBuf;
use std::process::Command;

/// Exit code and output of a call.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn path() -> PathBuf {
    std::env::var_os("GEMM_TUNE_BIN")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_gemm-tune")), PathBuf::from)
}

pub(crate) fn gemm_tune(arguments: &[&str]) -> Said {
    gemm_tune_with(arguments, &[])
}

/// Runs it with further variables in its environment, and without those of a job scheduler.
pub(crate) fn gemm_tune_with(arguments: &[&str], variables: &[(&str, &str)]) -> Said {
    let mut command = Command::new(path());
    for name in ["SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX"] {
        command.env_remove(name);
    }
    command.args(arguments).env("NO_COLOR", "1").envs(variables.iter().copied());
    let output = command.output().expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// The program ends with `code` and says all of `words` on standard error.
pub(crate) fn check(arguments: &[&str], code: i32, words: &[&str]) {
    let said = gemm_tune(arguments);
    assert_eq!(said.code, Some(code), "{arguments:?}: {}", said.err);
    for word in words {
        assert!(said.err.contains(word), "{arguments:?} does not say `{word}`:\n{}", said.err);
    }
    assert!(!said.err.contains("panicked"), "{arguments:?}: {}", said.err);
}
