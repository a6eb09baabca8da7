//! What the environment says: where caches and libraries are, which device is meant.

use std::env;
use std::path::PathBuf;

use etcetera::BaseStrategy as _;

use super::Failure;
use super::arguments::CommonArguments;
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

/// Where shared libraries are looked for.
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
        cuda_homes: ["CUDA_HOME", "CUDA_PATH"].into_iter().flat_map(list).collect(),
        ..SearchPaths::default()
    }
}

/// Whether anything may be installed.
pub(super) fn network(common: &CommonArguments) -> Network {
    if common.offline { Network::Forbidden } else { Network::Allowed }
}

/// How the worker for `device` (as typed) is started: as this very program.
pub(super) fn worker_command(device: &str, paths: &SearchPaths) -> Result<WorkerCommand, Failure> {
    let program = env::current_exe()
        .map_err(|error| Failure::Work(format!("cannot find this program's own file: {error}")))?;
    let libraries = find("cublas", &SearchPaths { explicit: None, ..paths.clone() });
    Ok(WorkerCommand {
        program,
        arguments: vec!["worker".to_owned()],
        ordinal: ordinal(device)?,
        libraries,
    })
}

fn ordinal(device: &str) -> Result<usize, Failure> {
    let number = match device {
        "auto" | "cuda" => Some(0),
        other => other.strip_prefix("cuda:").and_then(|number| number.parse().ok()),
    };
    number.ok_or_else(|| {
        Failure::Usage(format!(
            "`{device}` is no device: choose `auto` or `cuda:N`, as in `cuda:0`"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_numbered_as_the_driver_does() {
        for (text, number) in [("auto", 0), ("cuda", 0), ("cuda:3", 3)] {
            assert_eq!(ordinal(text).ok(), Some(number), "{text}");
        }
        for text in ["cuda:", "cuda:x", "cuda:-1", "gpu", "cpu", ""] {
            assert!(matches!(ordinal(text), Err(Failure::Usage(_))), "{text}");
        }
    }
}
