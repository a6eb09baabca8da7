//! Emitted harnesses without a GPU: NVRTC compiles their kernels, g++ checks their programs against headers in the place
//! of CUDA's, and runs those of kernels whose threads do not wait for each other.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use gemm_tune::compile::{Compile, CompileRequest};
use gemm_tune::inspect::{InspectedKernel, harness};
use gemm_tune::model::{Device, Problem};
use gemm_tune::render::Templates;
use gemm_tune::space::Families;

use crate::support::compiler_or_skip;
use crate::support::without::skip;

/// Where the program of a harness begins.
const PROGRAM: &str = "#ifndef __CUDACC_RTC__\n";

/// Problems with every dtype, layout and operation of epilogues, as their JSON.
const PROBLEMS: [&str; 12] = [
    r#"{"shape":{"m":64,"n":128,"k":64},"batch":1,"dtype":"f32","compute":"f32","layout":"nn"}"#,
    r#"{"shape":{"m":33,"n":65,"k":7},"batch":3,"dtype":"f32","compute":"f32","layout":"tn","epilogue":"bias,row-scale,gelu,mul"}"#,
    r#"{"shape":{"m":4,"n":128,"k":96},"batch":2,"dtype":"f32","compute":"f32","layout":"nt","epilogue":"residual,col-scale,silu"}"#,
    r#"{"shape":{"m":32,"n":16,"k":8},"batch":1,"dtype":"i32","compute":"i32","layout":"tt","epilogue":"bias,relu,residual"}"#,
    r#"{"shape":{"m":64,"n":64,"k":64},"batch":1,"dtype":"f32","compute":"tf32","layout":"nt"}"#,
    r#"{"shape":{"m":64,"n":64,"k":64},"batch":2,"dtype":"f16","compute":"f16","layout":"tn"}"#,
    r#"{"shape":{"m":64,"n":64,"k":64},"batch":1,"dtype":"f16","out":"f32","compute":"f16","layout":"nn","epilogue":"gelu-tanh"}"#,
    r#"{"shape":{"m":96,"n":64,"k":128},"batch":1,"dtype":"bf16","compute":"bf16","layout":"tt","epilogue":"relu,residual"}"#,
    r#"{"shape":{"m":5,"n":70,"k":90},"batch":2,"dtype":"bf16","compute":"bf16","layout":"nt","epilogue":"bias"}"#,
    r#"{"shape":{"m":64,"n":64,"k":64},"batch":1,"dtype":"i8","compute":"i8","layout":"nt"}"#,
    r#"{"shape":{"m":64,"n":64,"k":128},"batch":1,"dtype":"i8","out":"f16","compute":"i8","layout":"nt","epilogue":"row-scale,col-scale,bias"}"#,
    r#"{"shape":{"m":64,"n":64,"k":64},"batch":1,"dtype":"i8","out":"bf16","compute":"i8","layout":"nt","epilogue":"row-scale,silu"}"#,
];

/// A problem whose sums are long enough to be split.
const LONG: &str =
    r#"{"shape":{"m":128,"n":128,"k":8192},"batch":1,"dtype":"f32","compute":"f32","layout":"nn"}"#;

/// A kernel of a family with some of its parameters set; `None` where it serves no such problem.
fn subject(family: &str, set: &str, problem: &str) -> Option<InspectedKernel> {
    let families = Families::built_in().unwrap();
    let templates = Templates::built_in().unwrap();
    let problem: Problem = serde_json::from_str(problem).unwrap();
    let device = Device::h200();
    let family = families.get(family).unwrap();
    let chosen = family.choose(set, &problem, &device).ok()?;
    Some(InspectedKernel::new(family, &templates, chosen, problem, device).unwrap())
}

/// The default of every family for every problem that it serves, and configurations with more than one launch.
fn subjects() -> Vec<InspectedKernel> {
    let families = Families::built_in().unwrap();
    let defaults = families.iter().flat_map(|family| {
        let own: Vec<InspectedKernel> =
            PROBLEMS.iter().filter_map(|problem| subject(&family.name, "", problem)).collect();
        assert!(!own.is_empty(), "{} serves no problem of the list", family.name);
        own
    });
    let split = ["SPLIT_K=4,REDUCTION=workspace", "SPLIT_K=4,REDUCTION=atomic"];
    let split = split.iter().map(|set| {
        let mut subject = subject("pipelined", set, LONG).unwrap();
        // No built-in family has one of these launches.
        subject.rendered.plan.kernels.last_mut().unwrap().programmatic = true;
        subject
    });
    let subjects: Vec<InspectedKernel> = defaults.chain(split).collect();
    let has = |what: fn(&InspectedKernel) -> bool| assert!(subjects.iter().any(what));
    has(|subject| !subject.rendered.plan.tensor_maps.is_empty());
    has(|subject| !subject.rendered.plan.workspaces.is_empty());
    has(|subject| subject.rendered.plan.kernels.iter().any(|kernel| kernel.programmatic));
    has(|subject| subject.rendered.plan.nondeterministic);
    subjects
}

fn what(subject: &InspectedKernel) -> String {
    format!("{} for {}", subject.family, subject.problem)
}

/// Runs g++ with the headers in the place of CUDA's, in a folder of its own.
fn compiled(folder: &Path, arguments: &[&str]) -> Option<Output> {
    let stubs = std::path::absolute("tests/artifacts/stubs").unwrap();
    let strict = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"];
    let mut command = Command::new("g++");
    match command.current_dir(folder).args(strict).arg("-I").arg(stubs).args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) => {
            skip("compilers", &format!("no g++: {error}"));
            None
        }
    }
}

#[test]
fn nvrtc_compiles_the_kernels_of_harnesses() {
    let Some(compiler) = compiler_or_skip() else { return };
    for subject in subjects() {
        let text = harness(&subject);
        let compiled = compiler.compile(&CompileRequest::kernel(&subject.family, text));
        let compiled = compiled.unwrap_or_else(|error| panic!("{}: {error}", what(&subject)));
        let ptx = String::from_utf8_lossy(&compiled.image).into_owned();
        for kernel in &subject.rendered.plan.kernels {
            let entry = format!(".entry {}(", kernel.entry);
            assert!(ptx.contains(&entry), "{}: no {entry}", what(&subject));
        }
        assert_eq!(ptx.matches(".entry ").count(), ptx.matches(".visible .entry ").count());
        assert!(!ptx.contains("compare_all"), "{}: NVRTC sees the program", what(&subject));
    }
}

#[test]
fn compilers_take_the_programs_of_harnesses() {
    let folder = tempfile::tempdir().unwrap();
    for subject in subjects() {
        let text = harness(&subject);
        let (kernel, program) = text.split_once(PROGRAM).unwrap();
        assert!(kernel.contains(subject.rendered.source.trim_end()), "{}", what(&subject));
        let entries = subject.rendered.plan.kernels.iter().map(|kernel| &kernel.entry);
        let declared: String =
            entries.map(|entry| format!("extern \"C\" __global__ void {entry}();\n")).collect();
        let text = format!("#include <cuda_runtime.h>\n{declared}{PROGRAM}{program}");
        fs::write(folder.path().join("harness.cpp"), text).unwrap();
        let Some(output) = compiled(folder.path(), &["-fsyntax-only", "harness.cpp"]) else {
            return;
        };
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}:\n{error}", what(&subject));
    }
}

/// Builds a harness for the host and runs it: exit code, and what it prints.
fn ran(folder: &Path, text: &str) -> Option<(Option<i32>, String)> {
    // What the host has in the place of instructions.
    let text = text
        .replace(
            r#"asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));"#,
            "result = exp2f(x);",
        )
        .replace(
            r#"asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));"#,
            "result = 1 / x;",
        );
    fs::write(folder.join("harness.cu"), text).unwrap();
    let main = std::path::absolute("tests/artifacts/run_harness.cpp").unwrap();
    let define = format!("-DHARNESS=\"{}\"", folder.join("harness.cu").display());
    let build = ["-O1", &define, main.to_str().unwrap(), "-o", "program"];
    let output = compiled(folder, &build)?;
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let output = Command::new(folder.join("program")).output().unwrap();
    let text = [&output.stdout[..], &output.stderr].concat();
    Some((output.status.code(), String::from_utf8_lossy(&text).into_owned()))
}

/// The reference of a harness is right: kernels pass that are executed on the host, and faults are seen.
#[test]
fn a_harness_passes_a_correct_kernel_and_sees_faults() {
    let folder = tempfile::tempdir().unwrap();
    for problem in &PROBLEMS[..4] {
        let subject = subject("naive", "", problem).unwrap();
        let Some((code, said)) = ran(folder.path(), &harness(&subject)) else { return };
        assert_eq!(code, Some(0), "{}: {said}", what(&subject));
        for words in ["check: ", "time: median 500.00 us, min 500.00 us", "OP/s at the median"] {
            assert!(said.contains(words), "{}: {said}", what(&subject));
        }
    }
    let faulty = |problem: &str, from: &str, to: &str, words: &[&str]| {
        let subject = subject("naive", "", problem).unwrap();
        let text = harness(&subject);
        assert!(text.contains(from), "{from}");
        let Some((code, said)) = ran(folder.path(), &text.replacen(from, to, 1)) else { return };
        assert_eq!(code, Some(1), "{to}: {said}");
        for word in words {
            assert!(said.contains(word), "{to}: {said}");
        }
    };
    let missing = ["check FAILED: 8192 of 8192 elements are wrong", "row 0, column 0 of product 0"];
    faulty(
        PROBLEMS[0],
        "k < K; ++k)\n            sum",
        "k < K - 1; ++k)\n            sum",
        &missing,
    );
    let differ = ["elements differ; they must be equal", "check FAILED"];
    faulty(PROBLEMS[3], "sum += a_at", "sum -= a_at", &differ);
    // A launch that fails ends the program with its place.
    let start = "(const void*)::gemm";
    faulty(
        PROBLEMS[0],
        start,
        "(const void*)1",
        &["harness.cu:", "cudaErrorInvalidDeviceFunction"],
    );
}
