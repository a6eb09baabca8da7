//! The environment: folders of caches and libraries, variables, and the file of this program.

use std::env;
use std::path::PathBuf;

use etcetera::BaseStrategy as _;

use super::arguments::CommonArguments;
use super::failure::Failure;
use crate::compile::libraries::find;
use crate::compile::{Network, SearchPaths};
use crate::worker::WorkerCommand;

/// The folder for compiled kernels and for NVRTC.
pub(super) fn cache_folder(common: &CommonArguments) -> Result<PathBuf, Failure> {
    if let Some(folder) = &common.cache {
        return Ok(folder.clone());
    }
    let base = etcetera::choose_base_strategy().map_err(|error| {
        Failure::Work(format!(
            "no cache folder can be found ({error}): give one with `--cache DIR`"
        ))
    })?;
    Ok(base.cache_dir().join("gemm-tune"))
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
        python: Some("python3".into()),
        cuda_homes: ["CUDA_HOME", "CUDA_PATH"].into_iter().flat_map(list).collect(),
    }
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
    let program = env::current_exe()
        .map_err(|error| Failure::Work(format!("cannot find this program's own file: {error}")))?;
    let libraries = find("cublas", &SearchPaths { explicit: None, ..paths.clone() });
    Ok(WorkerCommand { program, arguments: vec!["worker".into()], ordinal, libraries })
}
