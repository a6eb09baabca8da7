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
    let strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c"];
    for (compiler, standard, language) in [("gcc", "-std=c99", "c"), ("g++", "-std=c++11", "c++")] {
        let (source, object) = (at("gemm_tuned.c"), at(&format!("{compiler}.o")));
        let arguments = [&strict[..], &[standard, "-x", language, &source, "-o", &object]].concat();
        let Some(output) = run(compiler, &arguments) else { return };
        check(&output);
    }
    let program = at("call");
    let arguments = [
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-I",
        folder.to_str().unwrap(),
        "tests/artifacts/call.c",
        "tests/artifacts/spoken_driver.c",
        &at("gcc.o"),
        "-o",
        &program,
    ];
    let Some(output) = run("gcc", &arguments) else { return };
    check(&output);
    let said = check(&run(&program, &[]).unwrap());
    let lines: Vec<&str> = said.lines().filter(|line| !line.contains("load")).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

const SEEN: &str = r#"
import sys
sys.path.insert(0, sys.argv[1])
import gemm_tuned
m, n, k, *rows, alignment = map(int, sys.argv[2:])
print(*(gemm_tuned._seen(row, length, alignment, 4) for row, length in zip(rows, (k, n, n))))
"#;

#[test]
fn artifacts_see_rows_as_the_formulas_were_made_for() {
    let (Some(c), Some(python)) = (artifact("c"), artifact("python")) else { return };
    let program = c.join("rows").to_str().unwrap().to_owned();
    let sources = ["tests/artifacts/rows.c", "tests/artifacts/spoken_driver.c"];
    let arguments = [&["-std=c99", "-I", c.to_str().unwrap()], &sources[..], &["-o", &program]];
    let Some(output) = run("gcc", &arguments.concat()) else { return };
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
        let given = [&["-B", "-c", SEEN, python.to_str().unwrap()], &words[..]].concat();
        let Some(output) = run("python3", &given) else { return };
        assert_eq!(check(&output).trim(), expected, "{shape} {storage:?}");
    }
}

/// The libraries that this test was built with lie beside it.
#[test]
fn rustc_takes_the_rust_module() {
    let Some(folder) = artifact("rust") else { return };
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
        let arguments = [
            "--edition=2024".to_owned(),
            "--crate-type=lib".to_owned(),
            "--emit=metadata".to_owned(),
            "--out-dir".to_owned(),
            folder.to_str().unwrap().to_owned(),
            "-Dwarnings".to_owned(),
            format!("-Ldependency={}", libraries.display()),
            format!("--extern=cudarc={}", library.display()),
            folder.join("gemm_tuned.rs").to_str().unwrap().to_owned(),
        ];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let Some(output) = run("rustc", &arguments) else { return };
        if output.status.success() {
            return;
        }
        said = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    panic!("none of {cudarc:?} will do: {said}");
}

const CALL: &str = r#"
import sys
sys.path.insert(0, sys.argv[1])
import gemm_tuned
try:
    gemm_tuned.matmul([[1.0]], [[1.0]])
except gemm_tuned.GemmTunedError as error:
    print("told:", error)
for m, n, k, rows in ((44, 31, 23, None), (44, 31, 23, (25, 33, 35)), (999, 1001, 77, None), (1, 5000, 5000, None)):
    print(m, n, k, gemm_tuned.kernel_for(m, n, k, rows=rows, sms=132))
try:
    gemm_tuned.kernel_for(8, 8, 8, layout="tt")
except gemm_tuned.GemmTunedError as error:
    print("told:", error)
"#;

#[test]
fn the_python_module_is_imported_without_a_gpu_and_says_that_it_needs_one() {
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
    let needs = lines[0].contains("needs an NVIDIA GPU, and there is no NVIDIA driver")
        || lines[0].contains("a is a list: give a PyTorch tensor or a CuPy array");
    assert!(needs, "{said}");
    assert_eq!(lines[1], "44 31 23 gemm_f32_nn_44x31x23");
    assert_eq!(lines.len(), 6, "{said}");
    assert!(lines[2..5].iter().all(|line| line.contains("gemm_f32_nn_")), "{said}");
    assert!(lines[5].contains("no kernel for f32/f32/tt; it has kernels for f32/f32/nn"), "{said}");

    // A module does not believe a bundle that was changed.
    let manifest = folder.join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replacen("tuned", "tunes", 1)).unwrap();
    let (_, error) = call(&folder).unwrap();
    assert!(error.contains("`manifest.json` was changed after the export"), "{error}");
}
