//! Jobs of many machines, as docs/guides/many-machines.md has them. `tests/fleet/slurm.sh` runs the Slurm array by hand.

use std::process::Command;

use crate::export::rig::python;
use crate::support::without::skip;

#[test]
fn the_kubernetes_manifest_of_the_guide_is_what_the_api_takes() {
    let python = match python() {
        Ok(python) => python,
        Err(why) => return skip("python", &format!("no Python with kubernetes: {why}")),
    };
    let output = Command::new(python)
        .args(["-B", "tests/fleet/manifest.py", "docs/guides/many-machines.md"])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "right", "{error}");
}
