//! Confines a child to the files that it needs, where the kernel has Landlock: a source or a template
//! that finds a way to open files finds none.

use std::env;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};

/// Newest rules that are asked for. An older kernel enforces those that it knows.
const RULES: ABI = ABI::V6;

/// Files and folders that the loader and the C library read.
const SYSTEM: [&str; 8] = [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/etc/ld.so.cache",
    "/dev/null",
    "/dev/urandom",
    "/sys/devices/system/cpu",
];

/// Goes to the root folder, so that no relative name leads to a user's files.
pub(crate) fn leave_folder() {
    // A folder that cannot be entered changes nothing: names are checked besides.
    let _ = env::set_current_dir("/");
}

/// Confines this thread, and all that it starts, to reading below `folders` and what libraries need;
/// no file is written, and no connection made. Returns whether the kernel enforces any of it: this is the second line of
/// defence, and its absence no reason to stop.
pub(crate) fn confine(folders: &[&Path]) -> bool {
    let readable = folders.iter().map(|folder| folder.to_path_buf());
    let system = SYSTEM.iter().filter(|_| !folders.is_empty()).map(PathBuf::from);
    restrict(readable.chain(system)).is_ok_and(|status| status != RulesetStatus::NotEnforced)
}

fn restrict(places: impl Iterator<Item = PathBuf>) -> Result<RulesetStatus, RulesetError> {
    // What does not exist needs no rule.
    let found = places.filter_map(|path| PathFd::new(path).ok());
    let read = AccessFs::from_read(RULES);
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(RULES))?
        .handle_access(AccessNet::from_all(RULES))?
        .scope(Scope::AbstractUnixSocket)?
        .create()?
        .add_rules(found.map(|path| Ok::<_, RulesetError>(PathBeneath::new(path, read))))?
        .restrict_self()?;
    Ok(status.ruleset)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Landlock confines a thread and what it starts: the test's own thread is left alone.
    #[test]
    fn a_confined_thread_reads_its_folders_only() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("own"), "own").unwrap();
        let path = folder.path().to_owned();
        let confined = std::thread::spawn(move || {
            if !confine(&[&path]) {
                return None;
            }
            let reads = |path: &Path| fs::read(path).is_ok();
            let own = reads(&path.join("own"));
            let writes = fs::write(path.join("new"), "x").is_ok();
            Some((own, reads(Path::new("/etc/passwd")), writes))
        });
        match confined.join().unwrap() {
            Some(found) => assert_eq!(found, (true, false, false)),
            // A kernel without Landlock: the directives of a source are still checked.
            None => drop(std::io::Write::write_all(
                &mut std::io::stderr(),
                b"skipped: this kernel has no Landlock\n",
            )),
        }
        assert!(fs::read("/etc/passwd").is_ok());
    }
}
