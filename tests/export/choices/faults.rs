//! Faults that every surface has to stand: missing memory, callers at the same time, launches that no device has.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use gemm_tune::export::{CHECKSUMS, MANIFEST, seal};
use gemm_tune::lookup::Question;
use gemm_tune::model::{Dtype, Layout, Problem};
use gemm_tune::runtime::{Bundle, Catalogue as _};

use super::artifact::{Exported, Kind, Known};
use super::{build, with_stub};
use crate::support::without::skip;

const CHOOSE: &str = r#"
import sys
sys.path.insert(0, sys.argv[1])
import gemm_tuned
print(gemm_tuned.kernel_for(4096, 4096, 4096, layout="nt"))
"#;

/// What Python prints, with the stub of the artifact's folder as the driver.
fn python(exported: &Exported, arguments: &[&str]) -> Option<String> {
    let mut command = with_stub(Path::new("python3"), &exported.folder);
    match command.arg("-B").args(arguments).arg(&exported.folder).output() {
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{error}");
            Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        Err(error) => {
            skip("python", &format!("no python3: {error}"));
            None
        }
    }
}

#[test]
fn operators_of_pytorch_launch_what_the_module_does() {
    let exported = Exported::new(Kind::Operators);
    if build(&exported).is_none() {
        return;
    }
    let Some(said) = python(&exported, &["tests/artifacts/operators.py"]) else { return };
    assert_eq!(said, "right");
}

/// Pythons with PyTorch and with CuPy, which are too large to be installed for a test.
const PYTORCH: &str = "GEMM_TUNE_TESTS_PYTORCH";
const CUPY: &str = "GEMM_TUNE_TESTS_CUPY";

/// Runs scripts with the modules by the Python that a variable names, where it names one.
fn by_python_of(variable: &str, scripts: &[&str]) {
    let Some(python) = std::env::var_os(variable) else {
        use std::io::Write as _;
        let why = "skipped: no Python with the package is named by";
        return drop(writeln!(std::io::stderr(), "{why} {variable}"));
    };
    for script in scripts {
        let output = std::process::Command::new(&python)
            .args(["-B", "-W", "ignore", script, "src/export/artifact"])
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    }
}

#[test]
fn operators_work_in_the_real_pytorch() {
    let scripts =
        ["tests/pytorch/host.py", "tests/pytorch/functions.py", "tests/pytorch/matmul.py"];
    by_python_of(PYTORCH, &scripts);
}

#[test]
fn arrays_of_the_real_cupy_are_read_as_they_lie() {
    by_python_of(CUPY, &["tests/cupy/host_time.py"]);
}

#[test]
fn missing_memory_and_mistakes_are_survived_and_a_launch_that_no_device_has_is_not_begun() {
    let exported = Exported::new(Kind::Faults);
    if build(&exported).is_none() {
        return;
    }
    let Some(said) = python(&exported, &["tests/artifacts/faults.py"]) else { return };
    assert_eq!(said, "right");

    // The second launch of the kernel that is chosen gets a grid that no device has: another one is chosen.
    let device = &Known::shipped().device;
    let problem = Problem::new("4096x4096x4096".parse().unwrap(), Dtype::F32);
    let question = Question::packed(Problem { layout: Layout::Nt, ..problem });
    let name = || Bundle::open(&exported.folder, device).unwrap().choose(&question).unwrap().name;
    let before = name();
    assert_eq!(python(&exported, &["-c", CHOOSE]).unwrap(), before);
    let at = |name: &str| exported.folder.join(name);
    let mut manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(at(MANIFEST)).unwrap()).unwrap();
    let kernels = manifest["kernels"].as_array_mut().unwrap();
    let place = kernels.iter().position(|kernel| kernel["name"] == *before).unwrap();
    let kernel = &mut kernels[place];
    let launches = kernel["launches"].as_array_mut().unwrap();
    let count = launches.len();
    assert!(count > 1, "{before} packs an operand first");
    launches.last_mut().unwrap()["formulas"]["grid"][1] = "65536".into();
    let sums = fs::read_to_string(at(CHECKSUMS)).unwrap();
    let names = sums.lines().filter_map(|line| line.split_once("  ")).map(|(_, name)| name);
    let mut files: BTreeMap<String, Vec<u8>> =
        names.map(|name| (name.to_owned(), fs::read(at(name)).unwrap())).collect();
    files.insert(MANIFEST.to_owned(), manifest.to_string().into_bytes());
    for (name, bytes) in seal(files) {
        fs::write(at(&name), bytes).unwrap();
    }
    // The same in the C source, whose kernels are in the same order.
    let last = format!("s[{}] = ", 7 * (count - 1) + 1);
    let source = fs::read_to_string(at("gemm_tuned.c")).unwrap();
    let (before_it, sizes) = source.split_once(&format!("static void sizes_{place}(")).unwrap();
    let (start, rest) = sizes.split_once(&last).unwrap();
    let (_, rest) = rest.split_once(';').unwrap();
    let edited = format!("{before_it}static void sizes_{place}({start}{last}65536;{rest}");
    fs::write(at("gemm_tuned.c"), edited).unwrap();
    build(&exported).unwrap();
    let after = name();
    assert_ne!(after, before);
    assert_eq!(python(&exported, &["-c", CHOOSE]).unwrap(), after);
}
