//! The module for JAX: what it says without JAX, and the checks of `tests/jax/host.py` with a Python that has it.

use std::process::Command;

use super::rig::artifact;
use crate::support::without::skip;

/// A Python with JAX, which is too large to be installed for a test.
const JAX: &str = "GEMM_TUNE_TESTS_JAX";

#[test]
fn an_import_without_jax_says_what_to_install() {
    let script = "import sys; sys.path.insert(0, 'src/export/artifact'); sys.modules['jax'] = None; import gemm_tuned_jax";
    match Command::new("python3").args(["-B", "-c", script]).output() {
        Err(error) => skip("python", &format!("no python3: {error}")),
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr);
            let why = "GemmTunedError: gemm_tuned_jax needs JAX, which is not installed: install jax with CUDA";
            assert!(error.contains(why), "{error}");
        }
    }
}

#[test]
fn products_are_traced_lowered_and_differentiated_by_the_real_jax() {
    let Some(python) = std::env::var_os(JAX) else {
        use std::io::Write as _;
        let why = "skipped: no Python with JAX is named by";
        return drop(writeln!(std::io::stderr(), "{why} {JAX}"));
    };
    let Some(folder) = artifact("python") else { return };
    let output =
        Command::new(python).args(["-B", "tests/jax/host.py"]).arg(&folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.trim(), "right", "{}", String::from_utf8_lossy(&output.stderr));
}
