//! Installation of NVIDIA tools on demand: lets pip install a wheel below the cache folder.
//! [`mod@super::acquire`] decides the version.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use thiserror::Error;

use super::libraries::{in_wheel, program_in_wheel, provided_folder};

/// Whether this run may use the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Network access is allowed.
    Allowed,
    /// Network access is forbidden.
    Forbidden,
}

/// A tool that can be installed on demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// The compiler, a shared library.
    Nvrtc,
    /// The disassembler, a program.
    Nvdisasm,
}

impl Tool {
    /// Name of its wheel. Up to CUDA 12 the name has the major version; the disassembler has no
    /// wheel before 13.
    fn package(self, major: u32) -> String {
        match self {
            Self::Nvrtc if major <= 12 => format!("nvidia-cuda-nvrtc-cu{major}"),
            Self::Nvrtc => "nvidia-cuda-nvrtc".to_owned(),
            Self::Nvdisasm => "nvidia-cuda-nvdisasm".to_owned(),
        }
    }

    /// Finds its file in an unpacked wheel.
    fn in_wheel(self, folder: &Path) -> Option<PathBuf> {
        match self {
            Self::Nvrtc => in_wheel(folder, "nvrtc").into_iter().next(),
            Self::Nvdisasm => program_in_wheel(folder, "nvdisasm"),
        }
    }

    /// Name of that file.
    fn file(self) -> &'static str {
        match self {
            Self::Nvrtc => "libnvrtc.so",
            Self::Nvdisasm => "nvdisasm",
        }
    }

    /// Folder below the cache for its installations.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Self::Nvrtc => "nvrtc",
            Self::Nvdisasm => "nvdisasm",
        }
    }

    /// Approximate download size in MB (12.9 to 13.5).
    pub fn megabytes(self) -> &'static str {
        match self {
            Self::Nvrtc => "60 to 90",
            Self::Nvdisasm => "5",
        }
    }

    /// Instructions to install it by hand, as the end of an error message.
    fn manual_installation(self, major: u32) -> String {
        let package = self.package(major);
        let ways = format!(
            "to get {self}, do one of:\n  \
             1. install the CUDA toolkit, or set `CUDA_HOME` to the one you have\n  \
             2. run `python3 -m pip install {package}`"
        );
        match self {
            Self::Nvrtc => format!(
                "{ways}\n  \
                 3. pass `--nvrtc PATH` or set `GEMM_TUNE_NVRTC` to an existing `libnvrtc.so`"
            ),
            Self::Nvdisasm => ways,
        }
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nvrtc => "NVRTC",
            Self::Nvdisasm => "nvdisasm",
        })
    }
}

/// Progress of an installation, which can take a minute on a slow connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProvideEvent {
    /// Another run is installing; this one waits.
    Waiting {
        /// The tool.
        tool: Tool,
        /// The target folder.
        folder: PathBuf,
    },
    /// pip starts.
    Installing {
        /// The tool.
        tool: Tool,
        /// The requirement passed to pip.
        package: String,
        /// The target folder.
        folder: PathBuf,
    },
    /// The tool is installed.
    Installed {
        /// The library or program.
        file: PathBuf,
    },
}

/// Error: a tool was not installed, with the reason and manual instructions.
#[derive(Debug, Error)]
#[error("{tool} was not installed: {reason}\n{}", tool.manual_installation(*major))]
pub struct ProvideError {
    /// The tool.
    pub tool: Tool,
    /// The reason.
    pub reason: ProvideFailure,
    /// The requested CUDA major version.
    pub major: u32,
}

/// Reason that a tool was not installed.
#[derive(Debug, Error)]
pub enum ProvideFailure {
    /// The run is offline.
    #[error("this run is offline")]
    Offline,
    /// There is no cache folder.
    #[error("there is no cache folder to install it into")]
    NoCache,
    /// There is no Python to run pip.
    #[error("no Python was found to run pip with")]
    NoPython,
    /// Python does not start.
    #[error("`{python}` does not start: {error}")]
    Python {
        /// The command.
        python: String,
        /// The operating system's message.
        error: io::Error,
    },
    /// pip is missing or did not succeed.
    #[error("`{command}` failed:\n{stderr}")]
    Pip {
        /// The command line.
        command: String,
        /// The last lines of its error output.
        stderr: String,
    },
    /// The wheel has an unknown layout.
    #[error("{package} in `{}` contains no `{file}`", folder.display())]
    NoFile {
        /// The missing file.
        file: &'static str,
        /// The installed package.
        package: String,
        /// The target folder.
        folder: PathBuf,
    },
    /// A folder below the cache cannot be written.
    #[error("`{}` cannot be installed into: {error}; make the folder writable", folder.display())]
    Folder {
        /// The target folder.
        folder: PathBuf,
        /// The operating system's message.
        error: io::Error,
    },
}

/// Installs the newest `tool` of CUDA `major` below `cache`, unless it is there, and returns the
/// library or program. Of concurrent runs one installs and the others wait.
///
/// # Errors
/// See [`ProvideFailure`]; a partial installation is removed.
pub fn provide(
    tool: Tool,
    cache: &Path,
    major: u32,
    python: &OsStr,
    on_event: &mut dyn FnMut(ProvideEvent),
) -> Result<PathBuf, ProvideError> {
    install(tool, cache, major, python, on_event).map_err(|reason| ProvideError {
        tool,
        reason,
        major,
    })
}

fn install(
    tool: Tool,
    cache: &Path,
    major: u32,
    python: &OsStr,
    on_event: &mut dyn FnMut(ProvideEvent),
) -> Result<PathBuf, ProvideFailure> {
    let folder = provided_folder(cache, tool.folder(), major);
    let refused = |error| ProvideFailure::Folder { folder: folder.clone(), error };
    let file = || tool.in_wheel(&folder);
    // The folder appears atomically, so a reader that finds it needs no lock.
    if let Some(file) = file() {
        return Ok(file);
    }

    let parent = folder.parent().unwrap_or(cache);
    fs::create_dir_all(parent).map_err(refused)?;
    let lock = File::create(parent.join(format!("install-{major}.lock"))).map_err(refused)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            on_event(ProvideEvent::Waiting { tool, folder: folder.clone() });
            lock.lock().map_err(refused)?;
        }
        Err(TryLockError::Error(error)) => return Err(refused(error)),
    }
    if let Some(file) = file() {
        return Ok(file);
    }

    let package = format!("{}=={major}.*", tool.package(major));
    let started =
        ProvideEvent::Installing { tool, package: package.clone(), folder: folder.clone() };
    on_event(started);
    // On the same file system, so that a rename makes the folder appear atomically.
    let staging =
        tempfile::Builder::new().prefix("staging-").tempdir_in(parent).map_err(refused)?;
    run_pip(python, &package, staging.path())?;
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(refused)?;
    }
    fs::rename(staging.path(), &folder).map_err(refused)?;
    let missing = ProvideFailure::NoFile { file: tool.file(), package, folder: folder.clone() };
    let file = file().ok_or(missing)?;
    on_event(ProvideEvent::Installed { file: file.clone() });
    Ok(file)
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

/// Returns the last lines of an output, indented; they hold the cause.
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

    /// Creates a Python whose pip runs the script; `$TARGET` is the target folder and `$PACKAGE`
    /// the package.
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
            let mut provide = || {
                provide(Tool::Nvrtc, folder.path(), major, python.as_os_str(), &mut |e| {
                    events.push(e)
                })
            };
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
    fn a_program_is_found_in_its_wheel() {
        let script = r#"mkdir -p "$TARGET/nvidia/cu13/bin"
            echo "$PACKAGE" > "$TARGET/nvidia/cu13/bin/nvdisasm""#;
        let (folder, python) = python(script);
        let program = provide(Tool::Nvdisasm, folder.path(), 13, python.as_os_str(), &mut |_| {});
        let program = program.unwrap();
        assert_eq!(program, folder.path().join("nvdisasm/cu13/nvidia/cu13/bin/nvdisasm"));
        assert_eq!(fs::read_to_string(program).unwrap().trim(), "nvidia-cuda-nvdisasm==13.*");
    }

    #[test]
    fn failures_say_why_and_how_to_get_nvrtc_otherwise() {
        for (script, message) in [
            ("echo noise >&2; echo No module named pip >&2; exit 1", "No module named pip"),
            (":", "contains no `libnvrtc.so`"),
        ] {
            let (folder, python) = python(script);
            let error = provide(Tool::Nvrtc, folder.path(), 12, python.as_os_str(), &mut |_| {});
            let error = error.unwrap_err();
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
        let error = provide(Tool::Nvrtc, folder.path(), 13, OsStr::new("no-python"), &mut |_| {});
        let error = error.unwrap_err();
        assert!(error.to_string().contains("`no-python` does not start"), "{error}");
    }

    #[test]
    fn of_concurrent_runs_one_installs() {
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
                        provide(Tool::Nvrtc, folder.path(), 13, python.as_os_str(), count).unwrap();
                        installs
                    })
                })
                .collect();
            runs.into_iter().map(|run| run.join().unwrap()).sum()
        });
        assert_eq!(installs, 1);
    }
}
