//! What the tests share: a Python with the packages they need, a tuned problem, and what is exported
//! of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::support::program::gemm_tune;
use crate::support::{CACHE, nvrtc_or_skip};

/// A Python with Kernel Tuner, jsonschema and the client of Kubernetes, or why there is none. The client has models of the
/// API that say the type of each field up to version 32.
pub(crate) fn python() -> Result<PathBuf, String> {
    python_with(
        "import kernel_tuner, jsonschema, kubernetes",
        &["kernel_tuner", "jsonschema", "kubernetes>=29,<33"],
    )
}

/// The folder of CMake, Ninja and pkg-config, which are Python packages, or why there is none.
pub(super) fn builders() -> Result<PathBuf, String> {
    let python = python_with("import cmake, ninja, pkgconf", &["cmake", "ninja", "pkgconf"])?;
    Ok(python.with_file_name("").canonicalize().unwrap())
}

/// A Python below `target/` with packages, which are installed where `probe` fails.
fn python_with(probe: &str, packages: &[&str]) -> Result<PathBuf, String> {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _alone = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Path::new("target/test-python");
    let python = folder.join("bin/python");
    let run = |program: &Path, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output();
        let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(said) }
    };
    let works = || run(&python, &["-c", probe]);
    if works().is_err() {
        if !python.exists() {
            run(Path::new("python3"), &["-m", "venv", "target/test-python"])?;
        }
        // Byte code of all modules takes half a minute, and few are imported.
        run(&python, &[&["-m", "pip", "install", "--quiet", "--no-compile"], packages].concat())?;
    }
    works().map(|()| python)
}

/// Evaluates every configuration of a family for a problem that no other test has, on the host, and
/// records the winner in the folder's `db.toml`. False for a test that may be skipped for want of an
/// NVRTC.
pub(super) fn tune(folder: &Path, shape: &str, family: &str) -> bool {
    if nvrtc_or_skip().is_none() {
        return false;
    }
    let database = folder.join("db.toml");
    let said = gemm_tune(&[
        "--shape",
        shape,
        "--family",
        family,
        "--device",
        "cpu",
        "--cache",
        CACHE,
        "--db",
        database.to_str().unwrap(),
    ]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    true
}

/// Exports the journal of that problem.
pub(super) fn export(format: &str, out: &Path) {
    let said = gemm_tune(&[
        "export",
        "--format",
        format,
        "-o",
        out.to_str().unwrap(),
        "--shape",
        "44x31x23",
        "--device-name",
        "cpu",
        "--modelled",
        "--cache",
        CACHE,
    ]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.contains("configurations of 44x31x23 f32 nn written to"), "{}", said.out);
}

/// A folder with what was exported of a problem that was tuned on the host, in a form that programs
/// run; `None` for a test that may be skipped for want of an NVRTC. Each format is exported once, and
/// each test has a copy of its own, named as its thread is.
pub(super) fn artifact(format: &str) -> Option<PathBuf> {
    static FORMATS: [(&str, OnceLock<Option<PathBuf>>); 4] = [
        ("c", OnceLock::new()),
        ("python", OnceLock::new()),
        ("bundle", OnceLock::new()),
        ("rust", OnceLock::new()),
    ];
    let (_, exported) = FORMATS.iter().find(|(known, _)| *known == format).unwrap();
    let whole = exported.get_or_init(|| export_artifact(format)).as_ref()?;
    let thread = std::thread::current();
    let own = Path::new(ARTIFACTS).join(thread.name().unwrap_or("main").replace(':', "_"));
    let out = own.join(format);
    let _ = fs::remove_dir_all(&out);
    fs::create_dir_all(&own).unwrap();
    let copied = Command::new("cp").arg("-r").args([whole, &out]).status().unwrap();
    assert!(copied.success(), "{} cannot be copied", whole.display());
    Some(out)
}

/// Kernels for untuned shapes that artifacts have at most: as many as pay take minutes to compile.
pub(super) const MAX_KERNELS: &str = "64";

/// Where artifacts are exported to.
const ARTIFACTS: &str = "target/test-artifacts";

/// The database of the problem that was tuned on the host.
fn database() -> Option<&'static PathBuf> {
    static DATABASE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = Path::new(ARTIFACTS);
    let database = DATABASE.get_or_init(|| {
        fs::create_dir_all(folder).unwrap();
        let _ = fs::remove_file(folder.join("db.toml"));
        tune(folder, "44x31x23", "tiled").then(|| folder.join("db.toml"))
    });
    database.as_ref()
}

/// The C source of the one winner in a folder, with both libraries where `builds`. `None` for a test that may be skipped
/// for want of an NVRTC.
pub(super) fn winner(out: &Path, builds: bool) -> Option<()> {
    let database = database()?.to_str().unwrap();
    let mut arguments =
        vec!["export", "--format", "c", "--only-tuned", "--modelled", "--db", database];
    arguments.extend(["-o", out.to_str().unwrap(), "--cache", CACHE]);
    arguments.extend(builds.then_some("--build"));
    let said = gemm_tune(&arguments);
    assert_eq!(said.code, Some(0), "{}", said.err);
    Some(())
}

fn export_artifact(format: &str) -> Option<PathBuf> {
    let folder = Path::new(ARTIFACTS);
    let database = database()?;
    let out = folder.join("whole").join(format);
    let _ = fs::remove_dir_all(&out);
    let said = gemm_tune(&[
        "export",
        "--format",
        format,
        "-o",
        out.to_str().unwrap(),
        "--db",
        database.to_str().unwrap(),
        "--modelled",
        "--max-kernels",
        MAX_KERNELS,
        "--cache",
        CACHE,
    ]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let (_, others) =
        said.out.split_once("1 winner and ").unwrap_or_else(|| panic!("{}", said.out));
    let others: usize = others.split_once(' ').unwrap().0.parse().unwrap();
    // One that serves everything comes on top.
    assert!((2..=MAX_KERNELS.parse::<usize>().unwrap() + 1).contains(&others), "{}", said.out);
    Some(out)
}
