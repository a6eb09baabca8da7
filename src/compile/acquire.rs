//! Chooses the NVRTC of a run: the first one on this host that fits the driver and the
//! architecture, else one that [`mod@super::provide`] installs.

use std::cmp::Reverse;
use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::libraries::{self, SearchPaths};
use super::nvrtc::{Nvrtc, NvrtcError};
use super::provide::{Network, ProvideError, ProvideEvent, ProvideFailure, Tool, provide};
use super::target::Architecture;

/// The CUDA major version that is provided where no driver says which it supports.
const NEWEST_MAJOR: u32 = 13;

/// The oldest architecture of CUDA 13; drivers of 13 still run older GPUs. Source: CUDA 13.0
/// release notes, deprecated architectures.
const OLDEST_OF_CUDA_13: u32 = 75;

/// What an NVRTC has to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The architecture to compile for.
    pub architecture: Architecture,
    /// The CUDA major version of the driver; `None` without a GPU, when the newest NVRTC is taken.
    pub driver_major: Option<u32>,
}

/// A library that was found and cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The library.
    pub path: PathBuf,
    /// Why not.
    pub reason: RejectionReason,
}

/// Why a library cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RejectionReason {
    /// It does not load, or does not know the architecture.
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
    /// The driver may refuse what it compiles.
    #[error(
        "NVRTC {}.{} at `{}` is too new: the driver supports CUDA {driver_major} and may not load \
         what it compiles; update the driver or use an NVRTC of CUDA {driver_major}",
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

/// Why a run has no NVRTC.
#[derive(Debug, Error)]
pub enum AcquireError {
    /// The one that was asked for cannot be used.
    #[error("the NVRTC that was asked for cannot be used: {0}")]
    Explicit(Rejection),
    /// None on this host can be used, and none could be provided.
    #[error("no NVRTC can be used on this host\n{}{error}", list(rejected))]
    NotProvided {
        /// Those that were found.
        rejected: Vec<Rejection>,
        /// Why none was provided.
        error: ProvideError,
    },
    /// The one that was provided cannot be used.
    #[error("the NVRTC that was installed cannot be used: {0}")]
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

/// Opens an NVRTC that serves `wanted`: one that was found, in the order of
/// [`libraries::find`] (without a driver, the newest), else one that is installed now.
///
/// # Errors
/// There is none; the error says why each that was found was passed over.
pub fn acquire(
    paths: &SearchPaths,
    wanted: &Wanted,
    network: Network,
    on_event: &mut dyn FnMut(ProvideEvent),
) -> Result<Nvrtc, AcquireError> {
    let mut rejected = vec![];
    for search in [libraries::installed, libraries::in_python] {
        if let Some(nvrtc) = choose(search("nvrtc", paths), wanted, &mut rejected) {
            return Ok(nvrtc);
        }
    }
    if paths.explicit.is_some()
        && let Some(rejection) = rejected.pop()
    {
        return Err(AcquireError::Explicit(rejection));
    }
    let path = match provide_for(paths, wanted, network, on_event) {
        Ok(path) => path,
        Err(error) => return Err(AcquireError::NotProvided { rejected, error }),
    };
    open(&path, wanted).map_err(AcquireError::Provided)
}

/// The first that serves, or the newest where no driver sets a limit.
fn choose(
    candidates: Vec<PathBuf>,
    wanted: &Wanted,
    rejected: &mut Vec<Rejection>,
) -> Option<Nvrtc> {
    let mut usable = candidates
        .iter()
        .filter_map(|path| open(path, wanted).map_err(|rejection| rejected.push(rejection)).ok());
    match wanted.driver_major {
        Some(_) => usable.next(),
        None => usable.min_by_key(|nvrtc| Reverse(nvrtc.version())),
    }
}

fn open(path: &Path, wanted: &Wanted) -> Result<Nvrtc, Rejection> {
    let reject = |reason| Rejection { path: path.to_owned(), reason };
    let nvrtc = Nvrtc::open(path).map_err(|error| reject(error.into()))?;
    let version = nvrtc.version();
    if let Some(driver_major) = wanted.driver_major
        && i64::from(version.0) > i64::from(driver_major)
    {
        let path = path.to_owned();
        return Err(reject(RejectionReason::NewerThanDriver { path, version, driver_major }));
    }
    nvrtc.check_architecture(wanted.architecture).map_err(|error| reject(error.into()))?;
    Ok(nvrtc)
}

fn provide_for(
    paths: &SearchPaths,
    wanted: &Wanted,
    network: Network,
    on_event: &mut dyn FnMut(ProvideEvent),
) -> Result<PathBuf, ProvideError> {
    let major = major_to_provide(wanted);
    let refuse = |reason| Err(ProvideError { tool: Tool::Nvrtc, reason, major });
    if network == Network::Forbidden {
        return refuse(ProvideFailure::Offline);
    }
    let Some(cache) = &paths.cache else { return refuse(ProvideFailure::NoCache) };
    let Some(python) = &paths.python else { return refuse(ProvideFailure::NoPython) };
    provide(Tool::Nvrtc, cache, major, python, on_event)
}

fn major_to_provide(wanted: &Wanted) -> u32 {
    let major = wanted.driver_major.unwrap_or(NEWEST_MAJOR);
    if wanted.architecture.number < OLDEST_OF_CUDA_13 { major.min(12) } else { major }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::testing::nvrtc_or_skip;
    use super::*;

    fn wanted(architecture: &str, driver_major: Option<u32>) -> Wanted {
        Wanted { architecture: architecture.parse().unwrap(), driver_major }
    }

    /// A search that finds `file` only, whatever this host has installed.
    fn only(file: &Path) -> SearchPaths {
        SearchPaths { explicit: Some(file.to_owned()), ..SearchPaths::default() }
    }

    fn refusal(paths: &SearchPaths, wanted: &Wanted) -> String {
        let refused = acquire(paths, wanted, Network::Forbidden, &mut |_| {});
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
            assert_eq!(major_to_provide(&wanted(architecture, driver_major)), expected);
        }
    }

    #[test]
    fn a_file_that_is_no_library_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("libnvrtc.so.13");
        let check = |cause: &str| {
            let error = refusal(&only(&file), &wanted("sm_90", None));
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
        let error = refusal(&only(&other), &wanted("sm_90", None));
        assert!(error.contains("has no symbol `nvrtcVersion`"), "{error}");
    }

    #[test]
    fn an_nvrtc_that_does_not_serve_is_refused_with_both_sides_named() {
        let Some(nvrtc) = nvrtc_or_skip() else { return };
        for (wanted, message) in [
            (wanted("sm_90", Some(11)), "the driver supports CUDA 11"),
            (wanted("sm_999", None), "does not know sm_999"),
            (wanted("sm_999", None), "use a newer NVRTC"),
            (wanted("sm_10", None), "of an earlier major version"),
        ] {
            let error = refusal(&only(nvrtc.path()), &wanted);
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn offline_and_homeless_runs_say_how_to_get_nvrtc() {
        for (network, python, message) in [
            (Network::Forbidden, None, "offline"),
            (Network::Allowed, None, "no Python"),
            (Network::Allowed, Some("no-python".into()), "`no-python` does not start"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let cache = Some(folder.path().to_owned());
            let paths = SearchPaths { cache, python, ..SearchPaths::default() };
            let error = provide_for(&paths, &wanted("sm_90", None), network, &mut |_| {});
            let error = error.unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
            assert!(error.contains("3. pass `--nvrtc PATH`"), "{error}");
        }
    }
}
