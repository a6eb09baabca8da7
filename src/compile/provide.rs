//! Installation of NVIDIA tools on demand: lets pip install a wheel below the cache folder.
//! [`mod@super::acquire`] decides the version.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use thiserror::Error;

use super::libraries::{in_wheel, program_in_wheel, provided_folder};
use super::releases::Release;
use super::wheel::{self, WheelError};
use crate::files::{self, LockFile};

/// Name of the file with the package and its checksum, for pip.
const REQUIREMENTS: &str = "requirements.txt";

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
        // Without a package for this platform, the name of the newest is still the one to look for.
        let release = Release::newest(self, major).or_else(|| Release::newest(self, u32::MAX));
        let package = release.map_or("nvidia-cuda-nvrtc", |release| release.package);
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
    /// No package of that CUDA version is known for this platform.
    #[error(
        "no package of it for CUDA {major} is known on {} {}",
        std::env::consts::OS,
        std::env::consts::ARCH
    )]
    NoPackage {
        /// The CUDA major version.
        major: u32,
    },
    /// What pip downloaded is not the package, or cannot be unpacked.
    #[error("{package} was downloaded and not used: {error}")]
    Wheel {
        /// The package.
        package: String,
        /// The reason.
        error: WheelError,
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

/// Installs the newest known `tool` of CUDA `major` or older below `cache`, unless it is there, and
/// returns the library or program. Of concurrent runs one installs and the others wait.
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
    let release = Release::newest(tool, major).ok_or(ProvideFailure::NoPackage { major });
    release
        .and_then(|release| install(release, cache, python, on_event))
        .map_err(|reason| ProvideError { tool, reason, major })
}

fn install(
    release: &Release,
    cache: &Path,
    python: &OsStr,
    on_event: &mut dyn FnMut(ProvideEvent),
) -> Result<PathBuf, ProvideFailure> {
    let Release { tool, major, .. } = *release;
    let folder = provided_folder(cache, tool.folder(), major);
    let refused = |error| ProvideFailure::Folder { folder: folder.clone(), error };
    let file = || tool.in_wheel(&folder);
    // The folder appears atomically, so a reader that finds it needs no lock.
    if let Some(file) = file() {
        return Ok(file);
    }

    let parent = folder.parent().unwrap_or(cache);
    files::make_private(parent).map_err(refused)?;
    let lock = parent.join(format!("install-{major}.lock"));
    let lock = LockFile::open(&lock).map_err(refused)?;
    let waiting = || on_event(ProvideEvent::Waiting { tool, folder: folder.clone() });
    lock.take(waiting).map_err(refused)?;
    if let Some(file) = file() {
        return Ok(file);
    }

    let package = format!("{}=={}", release.package, release.version);
    let started =
        ProvideEvent::Installing { tool, package: package.clone(), folder: folder.clone() };
    on_event(started);
    // On the same file system, so that a rename makes the folder appear atomically.
    let staging =
        tempfile::Builder::new().prefix("staging-").tempdir_in(parent).map_err(refused)?;
    let (downloaded, unpacked) = (staging.path().join("download"), staging.path().join("unpacked"));
    for folder in [&downloaded, &unpacked] {
        files::make_private(folder).map_err(refused)?;
    }
    let wheel = download(python, release, &downloaded)?;
    let unusable = |error| ProvideFailure::Wheel { package: package.clone(), error };
    wheel::unpack(&wheel, release.sha256, &unpacked).map_err(unusable)?;
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(refused)?;
    }
    fs::rename(&unpacked, &folder).map_err(refused)?;
    let missing = ProvideFailure::NoFile { file: tool.file(), package, folder: folder.clone() };
    let file = file().ok_or(missing)?;
    on_event(ProvideEvent::Installed { file: file.clone() });
    Ok(file)
}

/// Lets pip download a package into `folder`, which it runs in: pip and Python load no code from the
/// folder that the user is in. pip's own settings, such as an index, count.
fn download(python: &OsStr, release: &Release, folder: &Path) -> Result<PathBuf, ProvideFailure> {
    let refused = |error| ProvideFailure::Folder { folder: folder.to_owned(), error };
    files::replace(&folder.join(REQUIREMENTS), release.requirement().as_bytes())
        .map_err(refused)?;
    let mut pip = Command::new(python);
    // Isolated (-I): no code from `PYTHON*` variables or the user's own packages.
    pip.args(["-I", "-m", "pip", "download", "--quiet", "--disable-pip-version-check"])
        .args(["--no-input", "--no-deps", "--only-binary", ":all:", "--require-hashes"])
        .args(["--dest", ".", "--requirement", REQUIREMENTS])
        .current_dir(folder)
        .stdin(Stdio::null());
    let output = pip.output().map_err(|error| ProvideFailure::Python {
        python: python.to_string_lossy().into_owned(),
        error,
    })?;
    let wheel = || {
        let entries = fs::read_dir(folder).ok()?;
        let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        paths.find(|path| path.extension().is_some_and(|extension| extension == "whl"))
    };
    if output.status.success()
        && let Some(wheel) = wheel()
    {
        return Ok(wheel);
    }
    let words: Vec<_> =
        std::iter::once(python).chain(pip.get_args()).map(OsStr::to_string_lossy).collect();
    let said = String::from_utf8_lossy(&output.stderr);
    let stderr = if output.status.success() {
        "  no wheel was downloaded".to_owned()
    } else {
        last_lines(&said)
    };
    let command = format!("{} ({})", words.join(" "), release.requirement().trim());
    Err(ProvideFailure::Pip { command, stderr })
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
    use std::io::Write as _;
    use std::thread;

    use sha2::{Digest as _, Sha256};
    use tempfile::TempDir;
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::super::testing::program;
    use super::*;

    const LIBRARY: &str = "nvidia/cu13/lib/libnvrtc.so.13";

    /// A wheel with one file, a release of it, and a Python whose pip runs the script. `$WHEEL` is
    /// the wheel; the current folder is that of the download.
    fn rig(tool: Tool, file: &str, script: &str) -> (TempDir, Release, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let wheel = folder.path().join("wheel");
        let mut writer = ZipWriter::new(fs::File::create(&wheel).unwrap());
        writer.start_file(file, SimpleFileOptions::default().unix_permissions(0o755)).unwrap();
        writer.write_all(b"code").unwrap();
        writer.finish().unwrap();
        let sha256: &'static str = hex::encode(Sha256::digest(fs::read(&wheel).unwrap())).leak();
        let (package, version) = ("a-package", "13.0.1");
        let release = Release { tool, major: 13, platform: "any", package, version, sha256 };
        let script = format!("WHEEL={}\n{script}", wheel.display());
        let python = program(folder.path(), "python3", &script);
        (folder, release, python)
    }

    const DOWNLOAD: &str = "cp $WHEEL a_package-13.0.1-any.whl";

    #[test]
    fn a_package_is_downloaded_by_its_checksum_in_a_folder_of_its_own_and_unpacked() {
        for (tool, file) in [(Tool::Nvrtc, LIBRARY), (Tool::Nvdisasm, "nvidia/cu13/bin/nvdisasm")] {
            let script = format!(
                "echo \"$@\" >$WHEEL.words; pwd >$WHEEL.folder; cp requirements.txt $WHEEL.required; {DOWNLOAD}"
            );
            let (folder, release, python) = rig(tool, file, &script);
            let mut events = vec![];
            let mut install =
                || install(&release, folder.path(), python.as_os_str(), &mut |e| events.push(e));
            let installed = install().unwrap();
            assert_eq!(install().unwrap(), installed, "the second time it is there");
            let expected = folder.path().join(tool.folder()).join("cu13").join(file);
            assert_eq!(installed, expected);
            assert_eq!(fs::read(&installed).unwrap(), b"code");
            assert!(matches!(
                &events[..],
                [ProvideEvent::Installing { .. }, ProvideEvent::Installed { .. }]
            ));
            let said = |name: &str| {
                fs::read_to_string(folder.path().join(format!("wheel.{name}"))).unwrap()
            };
            assert!(said("words").starts_with("-I -m pip download "), "{}", said("words"));
            assert!(said("words").contains(" --require-hashes "), "{}", said("words"));
            let required = format!("a-package==13.0.1 --hash=sha256:{}\n", release.sha256);
            assert_eq!(said("required"), required);
            assert!(said("folder").contains("/staging-"), "{}", said("folder"));
        }
    }

    #[test]
    fn failures_say_why_and_how_to_get_nvrtc_otherwise() {
        for (script, message) in [
            ("echo noise >&2; echo No module named pip >&2; exit 1", "No module named pip"),
            (":", "no wheel was downloaded"),
            ("echo evil >evil.whl", "not used: its SHA-256 checksum is"),
        ] {
            let (folder, release, python) = rig(Tool::Nvrtc, LIBRARY, script);
            let reason =
                install(&release, folder.path(), python.as_os_str(), &mut |_| {}).unwrap_err();
            let text = ProvideError { tool: Tool::Nvrtc, reason, major: 12 }.to_string();
            assert!(text.contains(message), "{text}");
            for way in ["CUDA_HOME", "pip install nvidia-cuda-nvrtc-cu12`", "--nvrtc PATH"] {
                assert!(text.contains(way), "{text}");
            }
            let left = fs::read_dir(folder.path().join("nvrtc")).unwrap();
            let left: Vec<_> = left.map(|item| item.unwrap().file_name()).collect();
            assert_eq!(left, ["install-13.lock"]);
        }
        let (folder, release, python) = rig(Tool::Nvrtc, "other", DOWNLOAD);
        let error = install(&release, folder.path(), python.as_os_str(), &mut |_| {});
        assert!(error.unwrap_err().to_string().contains("contains no `libnvrtc.so`"));
    }

    #[test]
    fn a_missing_python_or_package_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = |major| {
            let python = OsStr::new("no-python");
            provide(Tool::Nvrtc, folder.path(), major, python, &mut |_| {}).unwrap_err().to_string()
        };
        assert!(error(13).contains("`no-python` does not start"), "{}", error(13));
        assert!(error(10).contains("no package of it for CUDA 10 is known"), "{}", error(10));
    }

    #[test]
    fn of_concurrent_runs_one_installs() {
        let (folder, release, python) =
            rig(Tool::Nvrtc, LIBRARY, &format!("sleep 0.3\n{DOWNLOAD}"));
        let installs: usize = thread::scope(|scope| {
            let runs: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut installs = 0;
                        let count = &mut |event| {
                            installs +=
                                usize::from(matches!(event, ProvideEvent::Installing { .. }));
                        };
                        install(&release, folder.path(), python.as_os_str(), count).unwrap();
                        installs
                    })
                })
                .collect();
            runs.into_iter().map(|run| run.join().unwrap()).sum()
        });
        assert_eq!(installs, 1);
    }
}
