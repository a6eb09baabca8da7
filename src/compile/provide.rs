//! Gets NVRTC where there is none: lets pip install NVIDIA's wheel below the cache folder. Decides
//! nothing about which NVRTC is wanted, see [`mod@super::acquire`].

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use thiserror::Error;

use super::libraries::{in_wheel, provided_folder};

/// Whether this run may use the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// It may.
    Allowed,
    /// It may not.
    Forbidden,
}

/// What providing NVRTC is doing; it can take a minute on a slow line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProvideEvent {
    /// Another run is at it; this one waits.
    Waiting {
        /// Where it installs.
        folder: PathBuf,
    },
    /// pip starts. Wheels have 58 to 90 MB.
    Installing {
        /// What is installed, as pip understands it.
        package: String,
        /// Where.
        folder: PathBuf,
    },
    /// It is there.
    Installed {
        /// The library.
        library: PathBuf,
    },
}

/// Why NVRTC could not be provided, and how to get it otherwise.
#[derive(Debug, Error)]
#[error("{reason}\n{}", ways_to_get_nvrtc(*major))]
pub struct ProvideError {
    /// What went wrong.
    pub reason: ProvideFailure,
    /// The CUDA major version that was to be provided.
    pub major: u32,
}

/// What went wrong in providing NVRTC.
#[derive(Debug, Error)]
pub enum ProvideFailure {
    /// The run may not use the network.
    #[error("NVRTC was not installed because this run is offline")]
    Offline,
    /// There is nowhere to install to.
    #[error("NVRTC was not installed because there is no cache folder to install it into")]
    NoCache,
    /// Nothing runs pip.
    #[error("NVRTC was not installed because no Python was found to run pip with")]
    NoPython,
    /// Python does not start.
    #[error("NVRTC was not installed because `{python}` does not start: {error}")]
    Python {
        /// What was to be started.
        python: String,
        /// The system's words.
        error: io::Error,
    },
    /// pip is missing or did not succeed.
    #[error("`{command}` failed:\n{stderr}")]
    Pip {
        /// The command line.
        command: String,
        /// The last lines that it wrote.
        stderr: String,
    },
    /// The wheel is not laid out as those known.
    #[error("{package} was installed into `{}` but has no `libnvrtc.so` in it", folder.display())]
    NoLibrary {
        /// What was installed.
        package: String,
        /// Where.
        folder: PathBuf,
    },
    /// A folder below the cache cannot be used.
    #[error("cannot install NVRTC into `{}`: {error}; make the folder writable", folder.display())]
    Folder {
        /// Where it was to go.
        folder: PathBuf,
        /// The system's words.
        error: io::Error,
    },
}

/// The ways to get an NVRTC by hand, as the end of an error message.
fn ways_to_get_nvrtc(major: u32) -> String {
    let package = package_name(major);
    format!(
        "to get NVRTC, do one of:\n  \
         1. install the CUDA toolkit, or set `CUDA_HOME` to the one you have\n  \
         2. run `python3 -m pip install {package}`\n  \
         3. pass `--nvrtc PATH` or set `GEMM_TUNE_NVRTC` to an existing `libnvrtc.so`"
    )
}

/// NVIDIA's wheels carry the major version in their names up to CUDA 12.
fn package_name(major: u32) -> String {
    if major <= 12 {
        format!("nvidia-cuda-nvrtc-cu{major}")
    } else {
        "nvidia-cuda-nvrtc".to_owned()
    }
}

/// Installs the newest NVRTC of CUDA `major` below `cache`, unless a run did so before, and
/// returns the library. Of runs at the same time, one installs and the others wait.
///
/// # Errors
/// See [`ProvideFailure`]; what was half done is removed.
pub fn provide(
    cache: &Path,
    major: u32,
    python: &OsStr,
    on_event: &mut dyn FnMut(ProvideEvent),
) -> Result<PathBuf, ProvideError> {
    install(cache, major, python, on_event).map_err(|reason| ProvideError { reason, major })
}

fn install(
    cache: &Path,
    major: u32,
    python: &OsStr,
    on_event: &mut dyn FnMut(ProvideEvent),
) -> Result<PathBuf, ProvideFailure> {
    let folder = provided_folder(cache, major);
    let refused = |error| ProvideFailure::Folder { folder: folder.clone(), error };
    let library = || in_wheel(&folder, "nvrtc").into_iter().next();
    // The folder appears whole, so that who finds it has no need of the lock.
    if let Some(library) = library() {
        return Ok(library);
    }

    let parent = folder.parent().unwrap_or(cache);
    fs::create_dir_all(parent).map_err(refused)?;
    let lock = File::create(parent.join(format!("install-{major}.lock"))).map_err(refused)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            on_event(ProvideEvent::Waiting { folder: folder.clone() });
            lock.lock().map_err(refused)?;
        }
        Err(TryLockError::Error(error)) => return Err(refused(error)),
    }
    if let Some(library) = library() {
        return Ok(library);
    }

    let package = format!("{}=={major}.*", package_name(major));
    on_event(ProvideEvent::Installing { package: package.clone(), folder: folder.clone() });
    // Beside the folder, so that renaming makes it appear whole; removed if we fail before.
    let staging =
        tempfile::Builder::new().prefix("staging-").tempdir_in(parent).map_err(refused)?;
    run_pip(python, &package, staging.path())?;
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(refused)?;
    }
    fs::rename(staging.path(), &folder).map_err(refused)?;
    let library = library().ok_or(ProvideFailure::NoLibrary { package, folder: folder.clone() })?;
    on_event(ProvideEvent::Installed { library: library.clone() });
    Ok(library)
}

fn run_pip(python: &OsStr, package: &str, target: &Path) -> Result<(), ProvideFailure> {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"])
        .args(["--no-deps", "--only-binary", ":all:", "--target"])
        .arg(target)
        .arg(package)
        .stdin(Stdio::null());
    let output = pip.output().map_err(|error| ProvideFailure::Python {
        python: python.to_string_lossy().into_owned(),
        error,
    })?;
    if output.status.success() {
        return Ok(());
    }
    let words: Vec<_> =
        std::iter::once(python).chain(pip.get_args()).map(OsStr::to_string_lossy).collect();
    let stderr = last_lines(&String::from_utf8_lossy(&output.stderr));
    Err(ProvideFailure::Pip { command: words.join(" "), stderr })
}

/// The last lines of an output, indented: the cause is in them, what led to it above.
fn last_lines(text: &str) -> String {
    const LINES: usize = 5;
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    last.iter().map(|line| format!("  {}", line.trim())).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tempfile::TempDir;

    use super::super::testing::program;
    use super::*;

    /// A Python whose pip does what the script says; `$TARGET` is the folder to install into,
    /// `$PACKAGE` what to install.
    fn python(script: &str) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let parse = r#"while [ $# -gt 1 ]; do [ "$1" = --target ] && TARGET=$2; shift; done"#;
        let script = format!("{parse}\nPACKAGE=$1\n{script}");
        let path = program(folder.path(), "python3", &script);
        (folder, path)
    }

    const INSTALL_13: &str = r#"mkdir -p "$TARGET/nvidia/cu13/lib"
        echo "$PACKAGE" > "$TARGET/nvidia/cu13/lib/libnvrtc.so.13""#;
    const INSTALL_12: &str = r#"mkdir -p "$TARGET/nvidia/cuda_nvrtc/lib"
        echo "$PACKAGE" > "$TARGET/nvidia/cuda_nvrtc/lib/libnvrtc.so.12""#;

    #[test]
    fn each_major_version_has_its_wheel() {
        for (major, script, file, package) in [
            (13, INSTALL_13, "cu13/nvidia/cu13/lib/libnvrtc.so.13", "nvidia-cuda-nvrtc==13.*"),
            (
                12,
                INSTALL_12,
                "cu12/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
                "nvidia-cuda-nvrtc-cu12==12.*",
            ),
        ] {
            let (folder, python) = python(script);
            let mut events = vec![];
            let mut provide =
                || provide(folder.path(), major, python.as_os_str(), &mut |e| events.push(e));
            let library = provide().unwrap();
            assert_eq!(provide().unwrap(), library, "the second time it is there");
            assert_eq!(library, folder.path().join("nvrtc").join(file));
            assert_eq!(fs::read_to_string(&library).unwrap().trim(), package);
            assert!(
                matches!(
                    &events[..],
                    [ProvideEvent::Installing { .. }, ProvideEvent::Installed { .. }]
                ),
                "{events:?}"
            );
        }
    }

    #[test]
    fn failures_say_why_and_how_to_get_nvrtc_otherwise() {
        for (script, message) in [
            ("echo noise >&2; echo No module named pip >&2; exit 1", "No module named pip"),
            (":", "has no `libnvrtc.so` in it"),
        ] {
            let (folder, python) = python(script);
            let error = provide(folder.path(), 12, python.as_os_str(), &mut |_| {}).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(message), "{text}");
            for way in ["CUDA_HOME", "pip install nvidia-cuda-nvrtc-cu12`", "--nvrtc PATH"] {
                assert!(text.contains(way), "{text}");
            }
            let left = fs::read_dir(folder.path().join("nvrtc")).unwrap();
            let left: Vec<_> = left.map(|item| item.unwrap().file_name()).collect();
            assert!(
                !left.iter().any(|name| name.to_string_lossy().contains("staging")),
                "{left:?}"
            );
        }
    }

    #[test]
    fn a_missing_python_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = provide(folder.path(), 13, OsStr::new("no-python"), &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("`no-python` does not start"), "{error}");
    }

    #[test]
    fn of_runs_at_the_same_time_one_installs() {
        let (folder, python) = python(&format!("sleep 0.3\n{INSTALL_13}"));
        let installs: usize = thread::scope(|scope| {
            let runs: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut installs = 0;
                        let count = &mut |event| {
                            installs +=
                                usize::from(matches!(event, ProvideEvent::Installing { .. }));
                        };
                        provide(folder.path(), 13, python.as_os_str(), count).unwrap();
                        installs
                    })
                })
                .collect();
            runs.into_iter().map(|run| run.join().unwrap()).sum()
        });
        assert_eq!(installs, 1);
    }
}
