//! The programs of `results/surfaces`, without a GPU: those of C and C++ time a library of the host with the clock of a
//! driver of the host, and the table is made of times that are written here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::rig::{builders, winner};
use crate::support::program::gemm_tune;
use crate::support::without::skip;

const PROBLEMS: &str = "tests/surfaces/problems.txt";
const HEADER: &str = "src/export/artifact";
const STRICT: [&str; 6] = ["-O1", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"];

fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// What a command prints, which succeeds.
fn said(command: &mut Command) -> String {
    let output = output(command);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The driver and the library of the host, in a folder. `None` where there is no compiler.
fn host(folder: &Path) -> Option<[PathBuf; 2]> {
    if ["gcc", "g++"].iter().any(|name| Command::new(name).arg("--version").output().is_err()) {
        skip("compilers", "no gcc or no g++");
        return None;
    }
    let pairs = [("host_driver.c", "libcuda.so.1"), ("host_library.c", "libgemm_tuned.so")];
    Some(pairs.map(|(source, name)| {
        let made = folder.join(name);
        let mut compiler = Command::new("gcc");
        compiler.args([
            "-std=gnu11",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-shared",
            "-fPIC",
            "-I",
            HEADER,
        ]);
        compiler.arg(format!("tests/surfaces/{source}")).arg(format!("-Wl,-soname,{name}"));
        said(compiler.arg("-o").arg(&made).arg("-lm"));
        made
    }))
}

/// The columns of rows: those before the error, the error, and the note.
fn rows(text: &str) -> Vec<(String, f64, String)> {
    let row = |line: &str| {
        let mut words = line.rsplitn(3, ',').map(str::to_owned);
        let [note, error, rest] = [(); 3].map(|()| words.next().unwrap());
        (rest, if error.is_empty() { f64::NAN } else { error.parse().unwrap() }, note)
    };
    text.lines().map(row).collect()
}

/// Checks what a program says of the small problems.
fn check_rows(text: &str, surface: &str) {
    let rows = rows(text);
    assert_eq!(rows.len(), 10, "{text}");
    for (rest, error, note) in rows {
        assert!(rest.starts_with(&format!("{surface},\"")), "{rest}");
        if rest.contains("row-scale\"") {
            assert!(rest.ends_with("row-scale\",,,") && note == "no kernel", "{rest} {note}");
        } else {
            assert!(rest.ends_with("\",100.000,100.000,100.000"), "{rest}");
            assert!(error <= 1.0 && note.is_empty(), "{rest}: {error} {note}");
        }
    }
}

#[test]
fn programs_of_c_and_cpp_time_products_and_find_wrong_ones() {
    let folder = tempfile::tempdir().unwrap();
    let Some([driver, library]) = host(folder.path()) else { return };
    let run = format!("-Wl,-rpath,{}", folder.path().display());
    for (compiler, standard, source, surface) in
        [("gcc", "-std=c99", "measure.c", "c"), ("g++", "-std=c++11", "measure.cpp", "c++")]
    {
        let program = folder.path().join(compiler);
        let mut command = Command::new(compiler);
        command.arg(standard).args(STRICT).args(["-I", HEADER]);
        command.arg(format!("results/surfaces/{source}")).arg(&library).arg(&driver).arg(&run);
        said(command.arg("-o").arg(&program).arg("-lm"));
        let with =
            |name: &str, value: &str| said(Command::new(&program).arg(PROBLEMS).env(name, value));
        check_rows(&with("HOST_NOTHING", ""), surface);
        // More is overwritten until the host is in time.
        check_rows(&with("HOST_LATE", "200000"), surface);
        let late = rows(&with("HOST_LATE", "99999999999"));
        assert!(
            late.iter().all(|(rest, _, note)| rest.ends_with(",,,") && !note.is_empty()),
            "{late:?}"
        );
        let wrong = rows(&with("HOST_WRONG", "1"));
        let found = wrong.iter().filter(|(_, error, _)| *error > 1.0).count();
        assert_eq!(
            found, 8,
            "a value of the scaled product is off by less than its bound: {wrong:?}"
        );
    }
}

#[test]
fn cmake_builds_the_cpp_program_with_the_package_of_an_export() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let Some([driver, library]) = host(folder.path()) else { return };
    let tools = match builders() {
        Ok(tools) => tools,
        Err(why) => return skip("python", &format!("no CMake and Ninja: {why}")),
    };
    if winner(&at("c"), false).is_none() {
        return;
    }
    let configure = |source: &Path, build: &Path| {
        let mut command = Command::new(tools.join("cmake"));
        command.arg("-S").arg(source).arg("-B").arg(build).args(["-G", "Ninja"]);
        command.arg(format!("-DCMAKE_MAKE_PROGRAM={}", tools.join("ninja").display()));
        command.arg(format!("-DCMAKE_PREFIX_PATH={}", at("prefix").display()));
        said(command.arg(format!("-DCUDA_DRIVER={}", driver.display())));
        said(Command::new(tools.join("cmake")).arg("--build").arg(build));
    };
    configure(&at("c"), &at("build"));
    let install = &mut Command::new(tools.join("cmake"));
    said(install.arg("--install").arg(at("build")).arg("--prefix").arg(at("prefix")));
    configure(Path::new("results/surfaces/cmake"), &at("program"));
    // The library of the host is loaded before the one that the program was linked with.
    let mut program = Command::new(at("program/measure"));
    program.arg(PROBLEMS).env("LD_PRELOAD", library).env("LD_LIBRARY_PATH", folder.path());
    check_rows(&said(&mut program), "c++");
}

/// The document of `db verify` with a time for each problem of the table's test.
fn verified(times: [f64; 2]) -> String {
    let problem =
        |extra: &str| format!(r#"{{"m":64,"n":48,"k":32,"batch":1,"layout":"nt",{extra}}}"#);
    let [first, second] = [
        problem(r#""dtype":"f32","compute":"tf32","epilogue":"bias""#),
        problem(r#""dtype":"i8","compute":"i8","out":"f16","epilogue":"row-scale""#),
    ];
    let one = |problem: &str, us: f64| {
        format!(r#"{{"record":{{"problem":{problem}}},"winner":{{"median_us":{us}}}}}"#)
    };
    format!(r#"{{"verified":[{},{}]}}"#, one(&first, times[0]), one(&second, times[1]))
}

#[test]
fn the_table_names_what_is_wrong_slow_or_missing() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let names = ["tf32 f32 nt 64x48x32 bias", "i8 f16 nt 64x48x32 row-scale"];
    write("problems.txt", &format!("# comment\n{}\n{}  # another\n", names[0], names[1]));
    write("tuner-before.json", &verified([99.0, 200.0]));
    write("tuner-after.json", &verified([101.0, 200.0]));
    let row = |surface: &str, problem: usize, rest: &str| {
        format!("{surface},\"{}\",{rest}\n", names[problem])
    };
    let surfaces = [
        "c",
        "c++",
        "rust",
        "torch eager",
        "torch operator",
        "torch compiled",
        "torch graphed",
        "cupy",
        "jax",
    ];
    let fine = |surface: &str| {
        row(surface, 0, "101.000,100.5,101.5,0.3,") + &row(surface, 1, "200.000,199,201,0,")
    };
    for surface in surfaces {
        let file = surface.replace(' ', "-");
        write(&format!("{file}.csv"), &fine(surface));
        write(&format!("{file}.status"), "done\n");
    }
    let table = || {
        let mut command = Command::new("python3");
        command.args(["-B", "results/surfaces/table.py"]).arg(folder.path());
        command.arg(folder.path().join("problems.txt")).arg(folder.path().join("out.csv"));
        command.output().map(|output| {
            assert_eq!(String::from_utf8_lossy(&output.stderr), "");
            (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
        })
    };
    let (text, code) = match table() {
        Ok(said) => said,
        Err(error) => return skip("python", &format!("no python3: {error}")),
    };
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("all within 1.02 times the tuner's time"), "{text}");
    assert!(text.contains("| tf32 f32 nt 64x48x32 bias | 100.00 | +2.02 | 1.010 |"), "{text}");
    assert!(text.contains("| geometric mean |  |  | 1.005 |"), "{text}");

    // A slow one, ones whose intervals reach what is not slow or whose tuner was as slow, one without a kernel, one that was
    // ended, and one that did not run.
    write("c.csv", &(row("c", 0, "105.000,104,106,0.3,") + &row("c", 1, "200.0,199,201,0,")));
    let wide = row("c++", 0, "105.000,102,108,0.3,") + &row("c++", 1, "206.0,203,207,0,");
    write("c++.csv", &wide);
    write(
        "rust.csv",
        &(row("rust", 0, "103.500,103.01,104,0.3,") + &row("rust", 1, "200.0,199,201,0,")),
    );
    let without = row("torch operator", 1, ",,,,no such operator");
    write("torch-operator.csv", &(row("torch operator", 0, "101.0,100,102,0.3,") + &without));
    write("jax.csv", &row("jax", 0, "101.0,100,102,0.3,"));
    write("jax.status", "ended after 120 s\n");
    fs::remove_file(folder.path().join("cupy.csv")).unwrap();
    fs::remove_file(folder.path().join("cupy.status")).unwrap();
    let (text, code) = table().unwrap();
    assert_eq!(code, Some(0), "{text}");
    for words in [
        "| 1.050 ! | 1.050 ? | 1.035 ? | 1.010 |",
        "slow: c: tf32 f32 nt 64x48x32 bias: 1.050 of the tuner's time, 104 to 106 us",
        "unsure: c++: tf32 f32 nt 64x48x32 bias: 1.050 of the tuner's time, 102 to 108 us",
        "unsure: c++: i8 f16 nt 64x48x32 row-scale: 1.030 of the tuner's time, 203 to 207 us",
        "unsure: rust: tf32 f32 nt 64x48x32 bias: 1.035 of the tuner's time, 103.01 to 104 us",
        "no time: torch operator: i8 f16 nt 64x48x32 row-scale: no such operator",
        "incomplete: jax: ended after 120 s\nmissing: jax: 1 of 2 problems, first i8",
        "incomplete: cupy: did not run\nmissing: cupy: 2 of 2 problems",
    ] {
        assert!(text.contains(words), "no `{words}` in {text}");
    }
    // Wrong results: an error beyond its bound, and one that is no number.
    for error in ["1.2", "inf", "nan"] {
        write("rust.csv", &row("rust", 1, &format!("200.000,199,201,{error},")));
        let (text, code) = table().unwrap();
        assert_eq!(code, Some(1), "{text}");
        let words = format!("WRONG: rust: i8 f16 nt 64x48x32 row-scale: {error} times the bound");
        assert!(text.contains(&words) && text.contains("| WRONG |"), "{text}");
    }
    let rows = fs::read_to_string(folder.path().join("out.csv")).unwrap();
    let first = rows.lines().nth(1).unwrap();
    assert_eq!(
        first,
        "\"tf32 f32 nt 64x48x32 bias\",c,105.000,104,106,100,2.0202,1.05,0.3,".replace('"', "")
    );
}

#[test]
fn a_tuning_run_takes_all_problems() {
    let folder = tempfile::tempdir().unwrap();
    let own = "results/surfaces/problems";
    let mut command = Command::new("python3");
    command.arg("-B").arg(format!("{own}.py")).arg(format!("{own}.txt")).arg(folder.path());
    if Command::new("python3").arg("--version").output().is_err() {
        return skip("python", "no python3");
    }
    let runs = said(&mut command);
    let mut listed = 0;
    for run in runs.lines() {
        let words: Vec<&str> = run.split(' ').chain(["--dry-run", "--json"]).collect();
        let said = gemm_tune(&words);
        assert_eq!(said.code, Some(0), "{run}: {}", said.err);
        let document: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        listed += document["dry_run"].as_array().unwrap().len();
    }
    let text = fs::read_to_string(format!("{own}.txt")).unwrap();
    assert_eq!(listed, text.lines().filter(|line| !line.starts_with('#')).count());
}

/// What `db verify` reads without the runners-up is a database with the same winners.
#[test]
fn winners_are_copied_without_their_finals() {
    if Command::new("python3").arg("--version").output().is_err() {
        return skip("python", "no python3");
    }
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = ("results/nvidia-h100-80gb-hbm3.toml", folder.path().join("winners.toml"));
    let mut command = Command::new("python3");
    said(command.args(["-B", "results/surfaces/problems.py", "--winners", from]).arg(&to));
    let read = |path: &Path| gemm_tune::database::Database::load_existing(path).unwrap();
    let (before, after) = (read(Path::new(from)), read(&to));
    assert!(before.records().iter().any(|record| record.confidence.is_some()));
    assert!(after.records().iter().all(|record| record.confidence.is_none()));
    let keys = |database: &gemm_tune::database::Database| -> Vec<String> {
        database
            .records()
            .iter()
            .map(|record| format!("{} {}", record.key(), record.median()))
            .collect()
    };
    assert_eq!(keys(&before), keys(&after));
}
