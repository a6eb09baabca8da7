//! The exported C source as a library: built by one command, by CMake and installed, and found by `find_package` and
//! pkg-config. The builders are Python packages, installed below `target/`.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::rig::{builders, winner};
use crate::support::program::gemm_tune;
use crate::support::without::skip;

/// A program that uses the library without a GPU.
const PROGRAM: &str = r#"
#include <stdio.h>
#include "gemm_tuned.h"
int main(void)
{
    gemm_tuned_problem problem = gemm_tuned_default_problem();
    gemm_tuned_choice choice;
    choice.size = sizeof choice;
    problem.m = 44, problem.n = 31, problem.k = 23;
    return gemm_tuned_choose(NULL, &problem, (size_t)-1, &choice) != 0 || puts(choice.name) < 0
           || gemm_tuned_version() != GEMM_TUNED_VERSION;
}
"#;

/// A project that finds the installed package.
const PROJECT: &str = "
cmake_minimum_required(VERSION 3.18)
project(program LANGUAGES C)
find_package(gemm_tuned 2 REQUIRED)
add_executable(with_shared program.c)
target_link_libraries(with_shared gemm_tuned::gemm_tuned)
add_executable(with_static program.c)
target_link_libraries(with_static gemm_tuned::gemm_tuned_static)
";

const NAME: &str = "gemm_f32_nn_44x31x23\n";

/// What a command prints, which succeeds.
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let error = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {said}{error}");
    said
}

#[test]
fn cmake_installs_a_package_that_programs_find() {
    if Command::new("gcc").arg("--version").output().is_err() {
        return skip("compilers", "no gcc");
    }
    let tools = match builders() {
        Ok(tools) => tools,
        Err(why) => return skip("python", &format!("no CMake, Ninja and pkg-config: {why}")),
    };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    if winner(&at("tuned"), false).is_none() {
        return;
    }
    let configure = |source: &Path, build: &Path| {
        let mut command = Command::new(tools.join("cmake"));
        command.arg("-S").arg(source).arg("-B").arg(build).args(["-G", "Ninja"]);
        command.arg(format!("-DCMAKE_MAKE_PROGRAM={}", tools.join("ninja").display()));
        command.arg(format!("-DCMAKE_PREFIX_PATH={}", at("prefix").display()));
        said(&mut command);
        said(Command::new(tools.join("cmake")).arg("--build").arg(build));
    };
    configure(&at("tuned"), &at("build"));
    let install = &mut Command::new(tools.join("cmake"));
    said(install.arg("--install").arg(at("build")).arg("--prefix").arg(at("prefix")));
    fs::create_dir(at("program")).unwrap();
    fs::write(at("program/program.c"), PROGRAM).unwrap();
    fs::write(at("program/CMakeLists.txt"), PROJECT).unwrap();
    configure(&at("program"), &at("program/build"));
    for program in ["with_shared", "with_static"] {
        assert_eq!(said(&mut Command::new(at("program/build").join(program))), NAME, "{program}");
    }
    // The library folder may be `lib64`.
    let libraries = ["lib", "lib64"].map(|name| at("prefix").join(name));
    let libraries = libraries.into_iter().find(|folder| folder.join("pkgconfig").exists()).unwrap();
    by_pkg_config(&tools, &libraries.join("pkgconfig"), (&libraries, &at("program")));
}

/// Builds the program with what pkg-config says, and runs it.
fn by_pkg_config(tools: &Path, packages: &Path, (libraries, folder): (&Path, &Path)) {
    let mut command = Command::new(tools.join("pkgconf"));
    command.args(["--cflags", "--libs", "gemm_tuned"]).env("PKG_CONFIG_PATH", packages);
    let flags = said(&mut command);
    let program = folder.join("by_pkg_config");
    let mut compiler = Command::new("gcc");
    compiler.arg(folder.join("program.c")).arg("-o").arg(&program).args(flags.split_whitespace());
    said(&mut compiler);
    assert_eq!(said(Command::new(program).env("LD_LIBRARY_PATH", libraries)), NAME);
}

#[test]
fn one_command_builds_both_libraries() {
    let tools = match builders() {
        Ok(tools) => tools,
        Err(why) => return skip("python", &format!("no pkg-config: {why}")),
    };
    if Command::new("cc").arg("--version").output().is_err() {
        return skip("compilers", "no cc");
    }
    let folder = tempfile::tempdir().unwrap();
    if winner(folder.path(), true).is_none() {
        return;
    }
    fs::write(folder.path().join("program.c"), PROGRAM).unwrap();
    by_pkg_config(&tools, folder.path(), (folder.path(), folder.path()));
    let (source, program) = (folder.path().join("program.c"), folder.path().join("with_static"));
    let library = folder.path().join("libgemm_tuned.a");
    let mut compiler = Command::new("gcc");
    said(compiler.arg(source).arg(library).arg("-o").arg(&program).arg("-ldl"));
    assert_eq!(said(&mut Command::new(program)), NAME);
    assert!(!folder.path().join("gemm_tuned.o").exists());
}

#[test]
fn several_contexts_a_fork_and_two_copies_are_survived() {
    if Command::new("gcc").arg("--version").output().is_err() {
        return skip("compilers", "no gcc");
    }
    let folder = tempfile::tempdir().unwrap();
    if winner(folder.path(), true).is_none() {
        return;
    }
    let at = |name: &str| folder.path().join(name);
    let warned = ["-Wall", "-Wextra", "-Werror"];
    let mut driver = Command::new("gcc");
    driver.args(warned).args(["-shared", "-fPIC", "tests/artifacts/spoken_driver.c", "-o"]);
    said(driver.arg(at("libcuda.so.1")));
    let mut program = Command::new("gcc");
    program.args(warned).arg("-I").arg(folder.path()).args(["tests/artifacts/misuse.c", "-o"]);
    said(program.arg(at("misuse")).arg("-ldl"));
    fs::copy(at("libgemm_tuned.so"), at("copy.so")).unwrap();
    let mut program = Command::new(at("misuse"));
    program.arg(at("libgemm_tuned.so")).arg(at("copy.so")).env("LD_LIBRARY_PATH", folder.path());
    let said = said(&mut program);
    let lines = ["twice 0 0", "another context 0", "it is current 1", "fork 3"];
    for line in lines.into_iter().chain(["after the fork 0", "after the other ended 0"]) {
        assert!(said.lines().any(|own| own == line), "no `{line}` in:\n{said}");
    }
}

#[test]
fn libraries_are_built_of_c_sources_only() {
    let said = gemm_tune(&["export", "--format", "rust", "--build", "-o", "target/none"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(
        said.err.contains("`--build` is for `--format c` and `--format python`"),
        "{}",
        said.err
    );
}
