//! What compilers and interpreters make of the artifacts, without a GPU: in the place of the driver
//! there is one that says what it is asked.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use gemm_tune::model::{Dtype, Problem, Shape, Storage};

use super::rig::artifact;
use crate::support::without::skip;

/// Runs a program that a test may be skipped for want of.
fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) => {
            let need = if program == "python3" { "python" } else { "compilers" };
            skip(need, &format!("no {program}: {error}"));
            None
        }
    }
}

fn check(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert_eq!(error, "");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn compilers_take_the_c_source_and_a_program_calls_it() {
    let Some(folder) = artifact("c") else { return };
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    if take_strictly(&folder).is_none() {
        return;
    }
    let Some(()) = driver_that_speaks(&folder) else { return };
    let program = at("call");
    let here = folder.to_str().unwrap();
    let warned = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-I", here];
    let built = ["tests/artifacts/call.c", &at("gcc.o"), "-o", &program, "-ldl"];
    let Some(output) = run("gcc", &[&warned[..], &built].concat()) else { return };
    check(&output);
    let said =
        Command::new(&program).env("LD_LIBRARY_PATH", folder.canonicalize().unwrap()).output();
    let said = check(&said.unwrap());
    let lines: Vec<&str> = said.lines().filter(|line| !line.contains("load")).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

/// Compiles the source of a folder as C99 and C++11 by gcc and g++, and by clang where it is found, without a warning.
/// `None` for a test that may be skipped for want of a compiler. Makes `gcc.o` and its like.
///
/// CI does not install clang, which would take half a minute: it has found nothing that gcc did not.
pub(super) fn take_strictly(folder: &Path) -> Option<()> {
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let strict = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-pedantic", "-Werror", "-c"];
    for (compiler, standard, language) in [
        ("gcc", "-std=c99", "c"),
        ("g++", "-std=c++11", "c++"),
        ("clang", "-std=c99", "c"),
        ("clang++", "-std=c++11", "c++"),
    ] {
        let (source, object) = (at("gemm_tuned.c"), at(&format!("{compiler}.o")));
        let arguments = [&strict[..], &[standard, "-x", language, &source, "-o", &object]].concat();
        if compiler.starts_with("clang")
            && Command::new(compiler).arg("--version").output().is_err()
        {
            continue;
        }
        check(&run(compiler, &arguments)?);
    }
    Some(())
}

/// Builds the driver that says what it is asked; `None` without a compiler.
fn driver_that_speaks(folder: &Path) -> Option<()> {
    let library = folder.join("libcuda.so.1").to_str().unwrap().to_owned();
    let source = "tests/artifacts/spoken_driver.c";
    let shared = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", source, "-o", &library];
    check(&run("gcc", &shared)?);
    Some(())
}

/// Calls of cublasSgemm become row-major products: all transposes, padded columns and batches against the definition
/// of BLAS, computed on the host.
#[test]
fn column_major_calls_are_products_of_swapped_operands() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().to_str().unwrap();
    fs::copy("src/export/artifact/c/blas.c", folder.path().join("blas_source.c")).unwrap();
    let strict = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-pedantic", "-Werror"];
    let found = ["-I", here, "-I", "src/export/artifact", "-I", "tests/artifacts/stubs"];
    let program = folder.path().join("blas").to_str().unwrap().to_owned();
    for (compiler, standard, language) in [("gcc", "-std=c99", "c"), ("g++", "-std=c++11", "c++")] {
        let built = [standard, "-x", language, "tests/artifacts/blas.c", "-o", &program];
        let Some(output) = run(compiler, &[&strict[..], &found, &built].concat()) else { return };
        check(&output);
        assert_eq!(check(&run(&program, &[]).unwrap()), "right\n", "{compiler}");
    }
}

/// A program that is linked with the library finds no driver, or one without machine code for its GPU.
#[test]
fn a_library_without_a_driver_says_so() {
    let Some(folder) = artifact("python") else { return };
    let script = "import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.gemm_tuned_status_string.restype = ctypes.c_char_p
handle = ctypes.c_void_p()
print(library.gemm_tuned_status_string(library.gemm_tuned_create(ctypes.byref(handle), 0)).decode())";
    let library = folder.join("libgemm_tuned.so");
    let said = |path: &Path| {
        let command = &mut Command::new("python3");
        let command = command.args(["-c", script]).arg(&library).env("LD_LIBRARY_PATH", path);
        command.output().map(|output| check(&output))
    };
    let without = match said(Path::new("/nonexistent")) {
        Ok(said) => said,
        Err(error) => return skip("python", &format!("no python3: {error}")),
    };
    let has_driver = !without.contains("there is no NVIDIA driver (libcuda.so.1)");
    assert!(!has_driver || without.starts_with("success"), "{without}");
    let source = fs::read_to_string("tests/artifacts/spoken_driver.c").unwrap();
    let other = source.replace("attribute == 75 ? 9", "attribute == 75 ? 8");
    fs::write(folder.join("other.c"), other).unwrap();
    let (other, stub) = (folder.join("other.c"), folder.join("libcuda.so.1"));
    let arguments = ["-shared", "-fPIC", other.to_str().unwrap(), "-o", stub.to_str().unwrap()];
    let Some(output) = run("gcc", &arguments) else { return };
    check(&output);
    let said = said(&folder.canonicalize().unwrap()).unwrap();
    assert!(said.contains("no machine code for this GPU, only for sm_90"), "{said}");
}

#[test]
fn the_c_source_sees_rows_as_the_formulas_were_made_for() {
    let Some(c) = artifact("c") else { return };
    let program = c.join("rows").to_str().unwrap().to_owned();
    let source = "tests/artifacts/rows.c";
    let arguments = ["-std=gnu99", "-I", c.to_str().unwrap(), source, "-o", &program, "-ldl"];
    let Some(output) = run("gcc", &arguments) else { return };
    check(&output);
    for (shape, [lda, ldb, ldc], alignment) in [
        ("64x96x32", [32, 96, 96], 256),
        ("64x96x32", [32, 96, 96], 8),
        ("64x96x32", [36, 97, 104], 16),
        ("777x1001x513", [518, 1006, 1004], 256),
        ("777x1001x514", [520, 1008, 1003], 256),
        ("1x1x64", [64, 1, 1], 256),
        ("1x1x64", [64, 1, 2], 8),
        ("1x1x64", [68, 1, 1], 4),
    ] {
        let problem = Problem::new(shape.parse().unwrap(), Dtype::F32);
        let storage = Storage { lda, ldb, ldc, alignment };
        let expected = storage.leading_dimensions(&problem).map(|rows| rows.to_string()).join(" ");
        let Shape { m, n, k } = problem.shape;
        let words = [m, n, k, lda, ldb, ldc, alignment].map(|number| number.to_string());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(check(&run(&program, &words).unwrap()).trim(), expected, "{shape} {storage:?}");
    }
}

/// Compiles a file in the folder of a Rust export, with the cudarc that this test was built with, which lies beside it.
/// `None` for a test that may be skipped for want of a compiler.
fn take_rust(folder: &Path, file: &str, options: &[&str]) -> Option<()> {
    let libraries = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let cudarc = fs::read_dir(&libraries).unwrap().map(|entry| entry.unwrap().path());
    let cudarc: Vec<_> = cudarc
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("libcudarc-") && name.ends_with(".rlib")
        })
        .collect();
    let mut said = String::new();
    // Older builds may lie there too.
    for library in &cudarc {
        let [dependency, library] = [
            format!("-Ldependency={}", libraries.display()),
            format!("--extern=cudarc={}", library.display()),
        ];
        let (here, file) = (folder.to_str().unwrap(), folder.join(file));
        let named = ["--edition=2024", "--out-dir", here, "-Dwarnings", &dependency, &library];
        let output = run("rustc", &[&named, options, &[file.to_str().unwrap()]].concat())?;
        if output.status.success() {
            return Some(());
        }
        said = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    panic!("none of {cudarc:?} will do: {said}");
}

#[test]
fn rustc_takes_the_rust_module() {
    let Some(folder) = artifact("rust") else { return };
    take_rust(&folder, "gemm_tuned.rs", &["--crate-type=lib", "--emit=metadata"]);
}

#[test]
fn the_rust_module_does_not_read_operands_whose_factor_is_zero() {
    let Some(folder) = artifact("rust") else { return };
    fs::copy("tests/artifacts/unread.rs", folder.join("unread.rs")).unwrap();
    let Some(()) = take_rust(&folder, "unread.rs", &["--crate-type=bin"]) else { return };
    let Some(()) = driver_that_speaks(&folder) else { return };
    let mut program = Command::new(folder.join("unread"));
    let said =
        check(&program.env("LD_LIBRARY_PATH", folder.canonicalize().unwrap()).output().unwrap());
    let lines: Vec<&str> = said.lines().filter(|line| !line.contains("load")).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

const CALL: &str = r#"
import sys
sys.path.insert(0, sys.argv[1])
import gemm_tuned
try:
    gemm_tuned.matmul([[1.0]], [[1.0]])
except gemm_tuned.GemmTunedError as error:
    print("told:", error)
for m, n, k, rows in ((44, 31, 23, None), (44, 31, 23, (25, 33, 35)), (999, 1001, 77, None), (16, 64, 2912, None)):
    print(m, n, k, gemm_tuned.kernel_for(m, n, k, rows=rows))
try:
    gemm_tuned.kernel_for(8, 8, 8, layout="tt")
except gemm_tuned.GemmTunedError as error:
    print("told:", error)
"#;

#[test]
fn the_python_module_is_imported_without_a_gpu_and_says_what_is_missing() {
    let Some(folder) = artifact("python") else { return };
    let call = |folder: &Path| {
        let output = Command::new("python3").args(["-B", "-c", CALL]).arg(folder).output();
        output.map(|output| {
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            (String::from_utf8_lossy(&output.stdout).into_owned(), error)
        })
    };
    let (said, error) = match call(&folder) {
        Ok(said) => said,
        Err(error) => return skip("python", &format!("no python3: {error}")),
    };
    assert_eq!(error, "");
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines[0].contains("an operand is a list: give PyTorch tensors or CuPy arrays"),
        "{said}"
    );
    assert_eq!(lines[1], "44 31 23 gemm_f32_nn_44x31x23");
    assert_eq!(lines.len(), 6, "{said}");
    assert!(lines[2..5].iter().all(|line| line.contains("gemm_f32_nn_")), "{said}");
    assert!(lines[5].contains("no kernel for 8x8x8 x 1 f32 tt"), "{said}");

    // Libraries that are not there, no libraries, or of another version.
    let library = folder.join("libgemm_tuned.so");
    fs::remove_file(&library).unwrap();
    let (_, error) = call(&folder).unwrap();
    let build =
        "build it in that folder with `cc -O2 -shared -fPIC gemm_tuned.c -o libgemm_tuned.so -ldl`";
    assert!(error.contains(build), "{error}");
    fs::write(&library, "no library").unwrap();
    let (_, error) = call(&folder).unwrap();
    assert!(
        error.contains("GemmTunedError: cannot load") && error.contains("build it again"),
        "{error}"
    );
    let source = folder.join("version.c").to_str().unwrap().to_owned();
    fs::write(&source, "int gemm_tuned_version(void) { return 9; }").unwrap();
    let built = ["-shared", "-fPIC", &source, "-o", library.to_str().unwrap()];
    let Some(output) = run("gcc", &built) else { return };
    check(&output);
    let (_, error) = call(&folder).unwrap();
    assert!(error.contains("has version 9 of the interface, and this module needs 3"), "{error}");
}
