//! Selection of the NVRTC for a run: the first installed one that fits the driver and the
//! architecture, else one that [`mod@super::provide`] installs.

use std::cmp::Reverse;
use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::libraries::{self, SearchPaths};
use super::nvrtc::{Nvrtc, NvrtcError};
use super::provide::{Network, ProvideError, ProvideEvent, ProvideFailure, Tool, provide};
use super::target::Architecture;

/// The CUDA major version to install when no driver limits it.
const NEWEST_MAJOR: u32 = 13;

/// The oldest architecture that CUDA 13 compiles for; its drivers still run older GPUs. Source:
/// CUDA 13.0 release notes, deprecated architectures.
const OLDEST_OF_CUDA_13: u32 = 75;

/// Requirements on an NVRTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NvrtcRequirements {
    /// The architecture to compile for.
    pub architecture: Architecture,
    /// The CUDA major version of the driver; `None` without a GPU, which selects the newest NVRTC.
    pub driver_major: Option<u32>,
}

/// An installed library that was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The library.
    pub path: PathBuf,
    /// The reason.
    pub reason: RejectionReason,
}

/// Reason for rejecting a library.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RejectionReason {
    /// It does not load, or does not support the architecture.
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
    /// It is newer than the driver, which may reject its output.
    #[error(
        "NVRTC {}.{} at `{}` is too new: the driver supports CUDA {driver_major} and may not load \
         its output; update the driver or use an NVRTC of CUDA {driver_major}",
        version.0, version.1, path.display()
    )]
    NewerThanDriver {
        /// The library.
        path: PathBuf,
        /// Its major and minor version.
        version: (i32, i32),
        /// The CUDA major version of the driver.
        driver_major: u32,
    },
}

/// Reason that a run has no NVRTC.
#[derive(Debug, Error)]
pub enum AcquireError {
    /// The requested NVRTC cannot be used.
    #[error("the requested NVRTC cannot be used: {0}")]
    Explicit(Rejection),
    /// No NVRTC on this host can be used, and none could be installed.
    #[error("no NVRTC can be used on this host\n{}{error}", list(rejected))]
    NotProvided {
        /// The rejected ones.
        rejected: Vec<Rejection>,
        /// The reason that none was installed.
        error: ProvideError,
    },
    /// The installed NVRTC cannot be used.
    #[error("the installed NVRTC cannot be used: {0}")]
    Provided(Rejection),
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

fn list(rejected: &[Rejection]) -> String {
    rejected.iter().map(|rejection| format!("{rejection}\n")).collect()
}

/// Opens an NVRTC that meets `required`: an existing one in the order of [`libraries::find`] (the
/// newest without a driver), else one that it installs.
///
/// # Errors
/// No NVRTC is usable; the error lists the reason for each rejection.
pub fn acquire(
    paths: &SearchPaths,
    required: &NvrtcRequirements,
    network: Network,
    on_event: &mut dyn FnMut(ProvideEvent),
) -> Result<Nvrtc, AcquireError> {
    let mut rejected = vec![];
    for search in [libraries::installed, libraries::in_python] {
        if let Some(nvrtc) = choose(search("nvrtc", paths), required, &mut rejected) {
            return Ok(nvrtc);
        }
    }
    if paths.explicit.is_some()
        && let Some(rejection) = rejected.pop()
    {
        return Err(AcquireError::Explicit(rejection));
    }
    let path = match provide_for(paths, required, network, on_event) {
        Ok(path) => path,
        Err(error) => return Err(AcquireError::NotProvided { rejected, error }),
    };
    open(&path, required).map_err(AcquireError::Provided)
}

/// Returns the first usable library, or the newest when no driver sets a limit.
fn choose(
    candidates: Vec<PathBuf>,
    required: &NvrtcRequirements,
    rejected: &mut Vec<Rejection>,
) -> Option<Nvrtc> {
    let mut usable = candidates
        .iter()
        .filter_map(|path| open(path, required).map_err(|rejection| rejected.push(rejection)).ok());
    match required.driver_major {
        Some(_) => usable.next(),
        None => usable.min_by_key(|nvrtc| Reverse(nvrtc.version())),
    }
}

fn open(path: &Path, required: &NvrtcRequirements) -> Result<Nvrtc, Rejection> {
    let reject = |reason| Rejection { path: path.to_owned(), reason };
    let nvrtc = Nvrtc::open(path).map_err(|error| reject(error.into()))?;
    let version = nvrtc.version();
    if let Some(driver_major) = required.driver_major
        && i64::from(version.0) > i64::from(driver_major)
    {
        let path = path.to_owned();
        return Err(reject(RejectionReason::NewerThanDriver { path, version, driver_major }));
    }
    nvrtc.check_architecture(required.architecture).map_err(|error| reject(error.into()))?;
    Ok(nvrtc)
}

fn provide_for(
    paths: &SearchPaths,
    required: &NvrtcRequirements,
    network: Network,
    on_event: &mut dyn FnMut(ProvideEvent),
) -> Result<PathBuf, ProvideError> {
    let major = major_to_provide(required);
    let refuse = |reason| Err(ProvideError { tool: Tool::Nvrtc, reason, major });
    if network == Network::Forbidden {
        return refuse(ProvideFailure::Offline);
    }
    let Some(cache) = &paths.cache else { return refuse(ProvideFailure::NoCache) };
    let Some(python) = &paths.python else { return refuse(ProvideFailure::NoPython) };
    provide(Tool::Nvrtc, cache, major, python, on_event)
}

fn major_to_provide(required: &NvrtcRequirements) -> u32 {
    let major = required.driver_major.unwrap_or(NEWEST_MAJOR);
    if required.architecture.number < OLDEST_OF_CUDA_13 { major.min(12) } else { major }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::testing::nvrtc_or_skip;
    use super::*;

    fn required(architecture: &str, driver_major: Option<u32>) -> NvrtcRequirements {
        NvrtcRequirements { architecture: architecture.parse().unwrap(), driver_major }
    }

    /// Search paths that find only `file`, independent of this host.
    fn only(file: &Path) -> SearchPaths {
        SearchPaths { explicit: Some(file.to_owned()), ..SearchPaths::default() }
    }

    fn refusal(paths: &SearchPaths, required: &NvrtcRequirements) -> String {
        let refused = acquire(paths, required, Network::Forbidden, &mut |_| {});
        refused.unwrap_err().to_string()
    }

    #[test]
    fn the_major_version_to_provide_fits_driver_and_architecture() {
        for (architecture, driver_major, expected) in [
            ("sm_90", Some(12), 12),
            ("sm_90", Some(13), 13),
            ("sm_90", None, 13),
            ("sm_70", Some(13), 12),
            ("sm_70", Some(11), 11),
        ] {
            assert_eq!(major_to_provide(&required(architecture, driver_major)), expected);
        }
    }

    #[test]
    fn a_file_that_is_no_library_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("libnvrtc.so.13");
        let check = |cause: &str| {
            let error = refusal(&only(&file), &required("sm_90", None));
            for words in ["cannot load", "libnvrtc.so.13`", cause] {
                assert!(error.contains(words), "{error}");
            }
        };
        check("No such file");
        fs::write(&file, "no library").unwrap();
        check("file too short");
    }

    #[test]
    fn a_library_without_the_symbols_is_an_error_that_names_one() {
        let Some(nvrtc) = nvrtc_or_skip() else { return };
        let (major, minor) = nvrtc.version();
        let real = nvrtc.path().canonicalize().unwrap();
        let other = real.with_file_name(format!("libnvrtc-builtins.so.{major}.{minor}"));
        let error = refusal(&only(&other), &required("sm_90", None));
        assert!(error.contains("has no symbol `nvrtcVersion`"), "{error}");
    }

    #[test]
    fn an_unsuitable_nvrtc_is_rejected_with_both_versions_named() {
        let Some(nvrtc) = nvrtc_or_skip() else { return };
        for (required, message) in [
            (required("sm_90", Some(11)), "the driver supports CUDA 11"),
            (required("sm_999", None), "does not support sm_999"),
            (required("sm_999", None), "use a newer NVRTC"),
            (required("sm_10", None), "of an earlier major version"),
        ] {
            let error = refusal(&only(nvrtc.path()), &required);
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn offline_runs_and_runs_without_python_say_how_to_get_nvrtc() {
        for (network, python, message) in [
            (Network::Forbidden, None, "offline"),
            (Network::Allowed, None, "no Python"),
            (Network::Allowed, Some("no-python".into()), "`no-python` does not start"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let cache = Some(folder.path().to_owned());
            let paths = SearchPaths { cache, python, ..SearchPaths::default() };
            let error = provide_for(&paths, &required("sm_90", None), network, &mut |_| {});
            let error = error.unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
            assert!(error.contains("3. pass `--nvrtc PATH`"), "{error}");
        }
    }
}
