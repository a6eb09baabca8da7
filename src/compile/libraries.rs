//! Search for NVIDIA's shared libraries and programs on this host. It only looks at folders;
//! whether a library loads and has the right version is checked when it is opened. Also used for
//! cuBLAS.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::files;

/// Search locations in addition to the standard folders. The command line fills them in from its
/// options and the environment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchPaths {
    /// An explicitly given file: the only candidate.
    pub explicit: Option<PathBuf>,
    /// This program's cache folder, where an earlier run may have installed the library.
    pub cache: Option<PathBuf>,
    /// The folders of `LD_LIBRARY_PATH`.
    pub library_path: Vec<PathBuf>,
    /// CUDA toolkits: `CUDA_HOME`, `CUDA_PATH`.
    pub cuda_homes: Vec<PathBuf>,
    /// The Python whose packages may contain the library; `None` skips Python.
    pub python: Option<OsString>,
}

/// Prints the folders of Python's packages, one a line.
const PYTHON_FOLDERS: &str =
    "import site, sys\nprint('\\n'.join(sys.path + [site.getusersitepackages()]))";

/// Library folders of a CUDA toolkit.
const TOOLKIT_FOLDERS: [&str; 3] = ["lib64", "lib", "targets/x86_64-linux/lib"];

/// Library folders of distributions.
const SYSTEM_FOLDERS: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "usr/lib64"];

/// Finds all candidates for the library `stem` (`nvrtc`, `cublasLt`): absolute paths in the order
/// to try them, each file once. Queries Python only when nothing else is found, since that starts a
/// process.
pub fn find(stem: &str, paths: &SearchPaths) -> Vec<PathBuf> {
    let installed = installed(stem, paths);
    if installed.is_empty() { in_python(stem, paths) } else { installed }
}

/// The part of [`find`] that needs no Python.
pub(super) fn installed(stem: &str, paths: &SearchPaths) -> Vec<PathBuf> {
    installed_under(Path::new("/"), stem, paths)
}

/// Finds candidates in Python packages.
pub(super) fn in_python(stem: &str, paths: &SearchPaths) -> Vec<PathBuf> {
    let (None, Some(python)) = (&paths.explicit, &paths.python) else { return vec![] };
    // Isolated and in the root folder: neither the current folder nor `PYTHON*` variables add code
    // or folders. The user's own packages count, and are asked for, since isolation leaves them out.
    let output = Command::new(python)
        .args(["-I", "-c", PYTHON_FOLDERS])
        .current_dir("/")
        .stdin(Stdio::null())
        .output();
    let listing = output.map(|output| output.stdout).unwrap_or_default();
    let folders = String::from_utf8_lossy(&listing)
        .lines()
        .flat_map(|site| wheel_folders(Path::new(site)))
        .collect();
    libraries_in(folders, stem)
}

/// The folders of a tool that earlier runs installed below the cache folder.
fn provided(tool: &str, paths: &SearchPaths) -> Vec<PathBuf> {
    let Some(cache) = &paths.cache else { return Vec::new() };
    newest_first(&absolute(cache).join(tool), "cu")
}

/// Whether only this user and root could have put a file or folder there. What the program installed
/// itself is in no other place.
fn is_trusted(path: &Path) -> bool {
    files::trusted(path).is_ok()
}

/// Folder below `cache` into which the wheel of a CUDA major version is unpacked.
pub(super) fn provided_folder(cache: &Path, tool: &str, major: u32) -> PathBuf {
    cache.join(tool).join(format!("cu{major}"))
}

/// Finds the libraries in an unpacked wheel.
pub(super) fn in_wheel(site: &Path, stem: &str) -> Vec<PathBuf> {
    libraries_in(wheel_folders(site), stem)
}

/// Finds the program in an unpacked wheel.
pub(super) fn program_in_wheel(site: &Path, name: &str) -> Option<PathBuf> {
    let packages = newest_first(&site.join("nvidia"), "cu").into_iter();
    packages.map(|package| package.join("bin").join(name)).find(|path| path.is_file())
}

/// Finds all candidates for the program `name`, as absolute paths in the order to try them: from an
/// earlier run, from toolkits, from the system.
pub fn programs(name: &str, paths: &SearchPaths) -> Vec<PathBuf> {
    programs_under(Path::new("/"), name, paths)
}

fn programs_under(root: &Path, name: &str, paths: &SearchPaths) -> Vec<PathBuf> {
    let provided = provided(name, paths).into_iter();
    let mut found: Vec<PathBuf> = provided
        .filter_map(|site| program_in_wheel(&site, name))
        .filter(|p| is_trusted(p))
        .collect();
    let toolkits = newest_first(&root.join("usr/local"), "cuda");
    let homes = paths.cuda_homes.iter().chain(&toolkits).map(|home| home.join("bin"));
    let folders = homes.chain([root.join("usr/bin")]).filter(|folder| folder.is_absolute());
    found.extend(folders.map(|folder| folder.join(name)).filter(|path| path.is_file()));
    found
}

fn installed_under(root: &Path, stem: &str, paths: &SearchPaths) -> Vec<PathBuf> {
    if let Some(path) = &paths.explicit {
        return vec![absolute(path)];
    }
    let toolkits = newest_first(&root.join("usr/local"), "cuda");
    let mut folders: Vec<PathBuf> = provided("nvrtc", paths)
        .iter()
        .flat_map(|site| wheel_folders(site))
        .filter(|folder| is_trusted(folder))
        .collect();
    folders.extend(paths.library_path.iter().cloned());
    for toolkit in paths.cuda_homes.iter().chain(&toolkits) {
        folders.extend(TOOLKIT_FOLDERS.map(|folder| toolkit.join(folder)));
    }
    folders.extend(SYSTEM_FOLDERS.map(|folder| root.join(folder)));
    libraries_in(folders, stem)
}

/// Lists the library folders of NVIDIA's wheels in a folder of Python packages: `nvidia/cu13/lib`
/// since CUDA 13; `nvidia/cuda_nvrtc/lib`, `nvidia/cublas/lib` and so on before.
fn wheel_folders(site: &Path) -> Vec<PathBuf> {
    let packages = newest_first(&site.join("nvidia"), "cu");
    packages.into_iter().map(|package| package.join("lib")).collect()
}

/// Lists `libSTEM.so` and `libSTEM.so.MAJOR` in `folders`, in their order, each file once.
fn libraries_in(folders: Vec<PathBuf>, stem: &str) -> Vec<PathBuf> {
    let prefix = format!("lib{stem}.so");
    let mut seen = HashSet::new();
    folders
        .iter()
        // A relative folder is one of whoever made the current folder.
        .filter(|folder| folder.is_absolute())
        .flat_map(|folder| newest_first(folder, &prefix))
        .filter(|path| file_name(path)[prefix.len()..].chars().all(is_version_character))
        .filter_map(|path| seen.insert(path.canonicalize().ok()?).then(|| absolute(&path)))
        .collect()
}

fn is_version_character(c: char) -> bool {
    c == '.' || c.is_ascii_digit()
}

/// Lists the entries of `folder` whose names begin with `prefix`, highest version first and those
/// without a version last. Empty when the folder does not exist.
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

/// Parses the numbers in a name: 13 and 0 of `cuda-13.0`.
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

    /// Creates a root folder with these empty files.
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
    fn each_file_is_listed_once_by_its_most_specific_name() {
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
    fn names_with_the_same_prefix_are_other_libraries() {
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
    fn relative_folders_are_not_searched() {
        let here = tempfile::tempdir_in(".").unwrap();
        let relative = Path::new(here.path().file_name().unwrap());
        for file in ["libnvrtc.so.13", "lib64/libnvrtc.so.13", "bin/nvdisasm"] {
            let path = here.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let root = root(&[]);
        let found = |folder: &Path| {
            let paths = SearchPaths {
                library_path: vec![PathBuf::new(), folder.to_owned()],
                cuda_homes: vec![folder.to_owned()],
                ..SearchPaths::default()
            };
            let libraries = installed_under(root.path(), "nvrtc", &paths).len();
            (libraries, programs_under(root.path(), "nvdisasm", &paths).len())
        };
        assert_eq!(found(relative), (0, 0));
        assert_eq!(found(&std::path::absolute(relative).unwrap()), (2, 1));
    }

    #[test]
    fn what_others_may_have_put_into_the_cache_is_not_found() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = root(&[
            "cache/nvrtc/cu13/nvidia/cu13/lib/libnvrtc.so.13",
            "cache/nvdisasm/cu13/nvidia/cu13/bin/nvdisasm",
        ]);
        let cache = root.path().join("cache");
        let paths = SearchPaths { cache: Some(cache.clone()), ..SearchPaths::default() };
        let found = || {
            let libraries = installed_under(root.path(), "nvrtc", &paths).len();
            (libraries, programs_under(root.path(), "nvdisasm", &paths).len())
        };
        assert_eq!(found(), (1, 1));
        let set = |mode| fs::set_permissions(&cache, fs::Permissions::from_mode(mode)).unwrap();
        set(0o777);
        assert_eq!(found(), (0, 0));
        set(0o755);
        let library = cache.join("nvrtc/cu13/nvidia/cu13/lib");
        fs::set_permissions(library, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(found(), (0, 1));
    }

    #[test]
    fn the_packages_of_python_are_searched() {
        let root = root(&["site/nvidia/cu13/lib/libnvrtc.so.13"]);
        let site = root.path().join("site");
        // The script runs in the root folder: relative folders would be found there.
        let up = root.path().strip_prefix("/").unwrap().join("site");
        let script = format!(
            "[ \"$1\" = -I ] && [ \"$PWD\" = / ] && echo && echo {} && echo . && echo {}",
            up.display(),
            site.display()
        );
        let python = program(root.path(), "python", &script);
        let paths = SearchPaths { python: Some(python.into()), ..SearchPaths::default() };
        assert_eq!(in_python("nvrtc", &paths), [site.join("nvidia/cu13/lib/libnvrtc.so.13")]);
        let missing = SearchPaths { python: Some("no-python".into()), ..SearchPaths::default() };
        assert!(in_python("nvrtc", &missing).is_empty());
    }
}
