//! The environment: folders of caches and libraries, variables, and the file of this program.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use etcetera::BaseStrategy as _;

use super::arguments::CommonArguments;
use super::failure::Failure;
use super::interrupt;
use crate::compile::libraries::find;
use crate::compile::{CompileChildren, Network, SearchPaths};
use crate::files;
use crate::process::{ChildCommand, LIBRARY_VARIABLES};
use crate::render::RenderChildren;
use crate::worker::WorkerCommand;

/// The folder for compiled kernels and for NVRTC.
pub(super) fn cache_folder(common: &CommonArguments) -> Result<PathBuf, Failure> {
    let folder = match &common.cache {
        Some(folder) => folder.clone(),
        None => default_cache()?,
    };
    // Libraries in it are loaded and kernels in it run.
    files::trusted(&folder).map_err(|distrust| {
        Failure::Work(format!(
            "the cache folder `{}` cannot be trusted: {distrust}; give a folder of your own with \
             `--cache DIR`, or correct its owner and permissions",
            folder.display()
        ))
    })?;
    // Libraries of relative folders are not loaded, and children run in folders of their own.
    std::path::absolute(&folder).map_err(|error| {
        Failure::Usage(format!("`--cache {}` is no folder: {error}", folder.display()))
    })
}

fn default_cache() -> Result<PathBuf, Failure> {
    let base = etcetera::choose_base_strategy().map_err(|error| {
        Failure::Work(format!(
            "no cache folder can be found ({error}): give one with `--cache DIR`"
        ))
    })?;
    let folder = base.cache_dir().join("gemm-tune");
    // A relative `HOME` would make a cache, whose libraries are loaded, of the current folder.
    if folder.is_relative() {
        return Err(Failure::Work(format!(
            "the cache folder would be `{}`, which is relative because `HOME` is: give one with \
             `--cache DIR`",
            folder.display()
        )));
    }
    Ok(folder)
}

/// Folders in which shared libraries are searched.
pub(super) fn search_paths(common: &CommonArguments, cache: PathBuf) -> SearchPaths {
    let list = |name: &str| {
        env::var_os(name)
            .map(|paths| env::split_paths(&paths).filter(|path| path.is_absolute()).collect())
            .unwrap_or_default()
    };
    SearchPaths {
        explicit: common.nvrtc.clone(),
        cache: Some(cache),
        library_path: list("LD_LIBRARY_PATH"),
        python: program("python3").map(PathBuf::into_os_string),
        cuda_homes: ["CUDA_HOME", "CUDA_PATH"].into_iter().flat_map(list).collect(),
    }
}

/// A program of this machine: the first of that name in an absolute folder of `PATH`. A relative or empty one is
/// the current folder, whose programs nobody asked for.
pub(super) fn program(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    let absolute = env::split_paths(&folders).filter(|folder| folder.is_absolute());
    let mut programs = absolute.map(|folder| folder.join(name));
    programs.find(|program| program.is_file())
}

/// Runs this program again without relative folders in `LD_LIBRARY_PATH`, where it has some: the
/// loader would search them, the empty one being the current folder, for the driver and for what
/// libraries load.
pub(crate) fn leave_relative_library_folders() {
    const VARIABLE: &str = "LD_LIBRARY_PATH";
    let Some(folders) = env::var_os(VARIABLE).filter(|folders| !folders.is_empty()) else { return };
    let Some(kept) = absolute_library_folders(&folders) else { return };
    let Ok(program) = env::current_exe() else { return };
    let mut again = Command::new(program);
    again.args(env::args_os().skip(1));
    if kept.is_empty() {
        again.env_remove(VARIABLE);
    } else {
        again.env(VARIABLE, kept);
    }
    // It only returns where it fails; the folders that this program chooses itself stay safe.
    drop(again.exec());
}

/// The absolute folders of the loader's list, where it has others too. The loader knows two
/// separators, and replaces `$ORIGIN` by the folder of a program or library.
fn absolute_library_folders(folders: &OsStr) -> Option<OsString> {
    let folders = folders.as_bytes();
    let all = || folders.split(|byte| matches!(byte, b':' | b';'));
    let is_absolute = |folder: &&[u8]| {
        [&b"/"[..], b"$ORIGIN", b"${ORIGIN}"].iter().any(|start| folder.starts_with(start))
    };
    if all().all(|folder| is_absolute(&folder)) {
        return None;
    }
    Some(OsString::from_vec(all().filter(is_absolute).collect::<Vec<_>>().join(&b':')))
}

/// Whether the network may be used to install tools.
pub(super) fn network(common: &CommonArguments) -> Network {
    if common.offline { Network::Forbidden } else { Network::Allowed }
}

/// The value of an environment variable.
pub(super) fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

/// The command that starts a worker for a GPU, numbered as the driver does: this program itself.
pub(super) fn worker_command(
    ordinal: usize,
    paths: &SearchPaths,
) -> Result<WorkerCommand, Failure> {
    let ChildCommand { program, arguments } = own_command("worker")?;
    let libraries = find("cublas", &SearchPaths { explicit: None, ..paths.clone() });
    let is_set = |name: &&&str| env::var_os(name).is_some();
    let cleared_variables =
        LIBRARY_VARIABLES.iter().filter(is_set).map(ToString::to_string).collect();
    Ok(WorkerCommand { program, arguments, ordinal, libraries, cleared_variables })
}

/// The children that compile: this program itself.
pub(super) fn compile_children(limit: Duration) -> Result<CompileChildren, Failure> {
    let command = own_command("compile-worker")?;
    Ok(CompileChildren { command, limit, interrupted: interrupt::flag() })
}

/// The children that render templates: this program itself.
pub(super) fn render_children() -> Result<RenderChildren, Failure> {
    let command = own_command("render-worker")?;
    Ok(RenderChildren { command, interrupted: interrupt::flag() })
}

fn own_command(command: &str) -> Result<ChildCommand, Failure> {
    let program = env::current_exe()
        .map_err(|error| Failure::Work(format!("cannot find this program's own file: {error}")))?;
    Ok(ChildCommand { program, arguments: vec![command.into()] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_library_folders_are_left() {
        for (folders, kept) in [
            ("/a:/b", None),
            ("$ORIGIN/../lib:/a", None),
            (":/a", Some("/a")),
            ("/a:", Some("/a")),
            ("/a::/b;c", Some("/a:/b")),
            (".", Some("")),
            ("lib:../lib", Some("")),
        ] {
            let found = absolute_library_folders(OsStr::new(folders));
            assert_eq!(found, kept.map(OsString::from), "{folders}");
        }
    }
}
