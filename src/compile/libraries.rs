//! Where NVIDIA's shared libraries may be on this host. Looks at folders only: whether a library
//! loads, and is of the right version, its opener finds out. Also used for cuBLAS.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where to look beside the usual folders. The command line fills it in from its options and the
/// environment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchPaths {
    /// A file that was asked for: nothing else is looked at.
    pub explicit: Option<PathBuf>,
    /// This program's cache folder, where an earlier run may have put the library.
    pub cache: Option<PathBuf>,
    /// The folders of `LD_LIBRARY_PATH`.
    pub library_path: Vec<PathBuf>,
    /// CUDA toolkits: `CUDA_HOME`, `CUDA_PATH`.
    pub cuda_homes: Vec<PathBuf>,
    /// The Python whose packages may hold the library; `None` leaves Python alone.
    pub python: Option<OsString>,
}

/// Where a toolkit keeps its libraries.
const TOOLKIT_FOLDERS: [&str; 3] = ["lib64", "lib", "targets/x86_64-linux/lib"];

/// Where distributions put them.
const SYSTEM_FOLDERS: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "usr/lib64"];

/// The absolute paths of all that may be the library `stem` (`nvrtc`, `cublasLt`), in the order
/// in which to try them; a file that is reached in two ways comes once. Python is asked only
/// where there is nothing else, as that starts a process.
pub fn find(stem: &str, paths: &SearchPaths) -> Vec<PathBuf> {
    let installed = installed(stem, paths);
    if installed.is_empty() { in_python(stem, paths) } else { installed }
}

/// What [`find`] lists without asking Python.
pub(super) fn installed(stem: &str, paths: &SearchPaths) -> Vec<PathBuf> {
    installed_under(Path::new("/"), stem, paths)
}

/// What the packages of Python hold.
pub(super) fn in_python(stem: &str, paths: &SearchPaths) -> Vec<PathBuf> {
    let (None, Some(python)) = (&paths.explicit, &paths.python) else { return vec![] };
    let output = Command::new(python)
        .args(["-c", r"import sys; print('\n'.join(sys.path))"])
        .stdin(Stdio::null())
        .output();
    let listing = output.map(|output| output.stdout).unwrap_or_default();
    let folders = String::from_utf8_lossy(&listing)
        .lines()
        .flat_map(|site| wheel_folders(Path::new(site)))
        .collect();
    libraries_in(folders, stem)
}

/// The folder below `cache` that the wheel of one CUDA major version is unpacked into.
pub(super) fn provided_folder(cache: &Path, tool: &str, major: u32) -> PathBuf {
    cache.join(tool).join(format!("cu{major}"))
}

/// The libraries in an unpacked wheel.
pub(super) fn in_wheel(site: &Path, stem: &str) -> Vec<PathBuf> {
    libraries_in(wheel_folders(site), stem)
}

/// The program in an unpacked wheel.
pub(super) fn program_in_wheel(site: &Path, name: &str) -> Option<PathBuf> {
    let packages = newest_first(&site.join("nvidia"), "cu").into_iter();
    packages.map(|package| package.join("bin").join(name)).find(|path| path.is_file())
}

/// The absolute paths of all that may be the program `name`, in the order in which to try them: that
/// of an earlier run, of toolkits, of the system.
pub fn programs(name: &str, paths: &SearchPaths) -> Vec<PathBuf> {
    programs_under(Path::new("/"), name, paths)
}

fn programs_under(root: &Path, name: &str, paths: &SearchPaths) -> Vec<PathBuf> {
    let provided = paths.cache.iter().flat_map(|cache| newest_first(&cache.join(name), "cu"));
    let mut found: Vec<PathBuf> =
        provided.filter_map(|site| program_in_wheel(&site, name)).collect();
    let toolkits = newest_first(&root.join("usr/local"), "cuda");
    let homes = paths.cuda_homes.iter().chain(&toolkits).map(|home| home.join("bin"));
    let folders = homes.chain([root.join("usr/bin")]);
    found.extend(folders.map(|folder| folder.join(name)).filter(|path| path.is_file()));
    found
}

fn installed_under(root: &Path, stem: &str, paths: &SearchPaths) -> Vec<PathBuf> {
    if let Some(path) = &paths.explicit {
        return vec![absolute(path)];
    }
    let provided = paths.cache.iter().flat_map(|cache| newest_first(&cache.join("nvrtc"), "cu"));
    let toolkits = newest_first(&root.join("usr/local"), "cuda");
    let mut folders: Vec<PathBuf> = provided.flat_map(|site| wheel_folders(&site)).collect();
    folders.extend(paths.library_path.iter().cloned());
    for toolkit in paths.cuda_homes.iter().chain(&toolkits) {
        folders.extend(TOOLKIT_FOLDERS.map(|folder| toolkit.join(folder)));
    }
    folders.extend(SYSTEM_FOLDERS.map(|folder| root.join(folder)));
    libraries_in(folders, stem)
}

/// The library folders of NVIDIA's wheels in a folder of Python packages: `nvidia/cu13/lib` since
/// CUDA 13, `nvidia/cuda_nvrtc/lib`, `nvidia/cublas/lib` and so on before.
fn wheel_folders(site: &Path) -> Vec<PathBuf> {
    let packages = newest_first(&site.join("nvidia"), "cu");
    packages.into_iter().map(|package| package.join("lib")).collect()
}

/// The `libSTEM.so` and `libSTEM.so.MAJOR` in `folders`, in their order, each file once.
fn libraries_in(folders: Vec<PathBuf>, stem: &str) -> Vec<PathBuf> {
    let prefix = format!("lib{stem}.so");
    let mut seen = HashSet::new();
    folders
        .iter()
        .flat_map(|folder| newest_first(folder, &prefix))
        .filter(|path| file_name(path)[prefix.len()..].chars().all(is_version_character))
        .filter_map(|path| seen.insert(path.canonicalize().ok()?).then(|| absolute(&path)))
        .collect()
}

fn is_version_character(c: char) -> bool {
    c == '.' || c.is_ascii_digit()
}

/// What is in `folder` by a name that begins with `prefix`, the highest version first and what
/// has no version last; nothing where there is no such folder.
fn newest_first(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|item| Some(item.ok()?.path()))
        .filter(|path| file_name(path).starts_with(prefix))
        .collect();
    found.sort_by_key(|path| (Reverse(version_of(&file_name(path))), path.clone()));
    found
}

/// The numbers in a name: 13 and 0 of `cuda-13.0`.
fn version_of(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::super::testing::program;
    use super::*;

    /// A root folder with these empty files.
    fn root(files: &[&str]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        root
    }

    fn check(root: &TempDir, stem: &str, paths: &SearchPaths, expected: &[&str]) {
        let found = installed_under(root.path(), stem, paths);
        let found: Vec<&Path> =
            found.iter().map(|path| path.strip_prefix(root.path()).unwrap()).collect();
        assert_eq!(found, expected.iter().map(Path::new).collect::<Vec<_>>());
    }

    #[test]
    fn libraries_come_in_order_of_preference() {
        let root = root(&[
            "usr/lib64/libnvrtc.so.11.2",
            "usr/lib/x86_64-linux-gnu/libnvrtc.so.12",
            "usr/local/cuda-9.2/lib64/libnvrtc.so.9",
            "usr/local/cuda-12.8/lib64/libnvrtc.so.12",
            "usr/local/cuda-13.0/targets/x86_64-linux/lib/libnvrtc.so.13",
            "opt/toolkit/lib/libnvrtc.so.13",
            "opt/libraries/libnvrtc.so",
            "cache/nvrtc/cu12/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
            "cache/nvrtc/cu13/nvidia/cu13/lib/libnvrtc.so.13",
        ]);
        let paths = SearchPaths {
            cache: Some(root.path().join("cache")),
            library_path: vec![PathBuf::new(), root.path().join("opt/libraries")],
            cuda_homes: vec![root.path().join("opt/toolkit")],
            ..SearchPaths::default()
        };
        let expected = [
            "cache/nvrtc/cu13/nvidia/cu13/lib/libnvrtc.so.13",
            "cache/nvrtc/cu12/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
            "opt/libraries/libnvrtc.so",
            "opt/toolkit/lib/libnvrtc.so.13",
            "usr/local/cuda-13.0/targets/x86_64-linux/lib/libnvrtc.so.13",
            "usr/local/cuda-12.8/lib64/libnvrtc.so.12",
            "usr/local/cuda-9.2/lib64/libnvrtc.so.9",
            "usr/lib/x86_64-linux-gnu/libnvrtc.so.12",
            "usr/lib64/libnvrtc.so.11.2",
        ];
        check(&root, "nvrtc", &paths, &expected);
    }

    #[test]
    fn one_file_comes_once_by_its_most_telling_name() {
        let root = root(&["usr/local/cuda-13.0/lib64/libcublas.so.13.1.0.3"]);
        let toolkit = root.path().join("usr/local/cuda-13.0");
        for name in ["libcublas.so", "libcublas.so.13"] {
            symlink("libcublas.so.13.1.0.3", toolkit.join("lib64").join(name)).unwrap();
        }
        symlink("cuda-13.0", root.path().join("usr/local/cuda")).unwrap();
        let expected = ["usr/local/cuda-13.0/lib64/libcublas.so.13.1.0.3"];
        check(&root, "cublas", &SearchPaths::default(), &expected);
    }

    #[test]
    fn names_that_only_begin_alike_are_other_libraries() {
        let root = root(&[
            "usr/lib64/libnvrtc-builtins.so.13.0",
            "usr/lib64/libnvrtc.alt.so.13",
            "usr/lib64/libnvrtc.so.13.bak",
            "usr/lib64/libnvrtc_static.a",
            "usr/lib64/libcublasLt.so.13",
        ]);
        check(&root, "nvrtc", &SearchPaths::default(), &[]);
        check(&root, "cublas", &SearchPaths::default(), &[]);
        check(&root, "cublasLt", &SearchPaths::default(), &["usr/lib64/libcublasLt.so.13"]);
    }

    #[test]
    fn an_explicit_file_is_the_only_one() {
        let root = root(&["usr/lib64/libnvrtc.so.13"]);
        let explicit = root.path().join("mine.so");
        let paths = SearchPaths { explicit: Some(explicit), ..SearchPaths::default() };
        check(&root, "nvrtc", &paths, &["mine.so"]);
    }

    #[test]
    fn the_packages_of_python_are_searched() {
        let root = root(&["site/nvidia/cu13/lib/libnvrtc.so.13"]);
        let site = root.path().join("site");
        let script = format!("echo\necho {}", site.display());
        let python = program(root.path(), "python", &script);
        let paths = SearchPaths { python: Some(python.into()), ..SearchPaths::default() };
        assert_eq!(in_python("nvrtc", &paths), [site.join("nvidia/cu13/lib/libnvrtc.so.13")]);
        let missing = SearchPaths { python: Some("no-python".into()), ..SearchPaths::default() };
        assert!(in_python("nvrtc", &missing).is_empty());
    }
}
