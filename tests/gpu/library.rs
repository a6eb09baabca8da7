//! Artifacts that may call the real cuBLASLt.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use gemm_tune::database::{Database, Record};
use gemm_tune::gpu::algorithm_name;
use gemm_tune::lookup::measured_library;
use gemm_tune::model::Problem;
use libtest_mimic::Failed;

use crate::artifacts::runs_well;
use crate::rig::{gemm_tune, search_paths};

/// Shapes that are hardly searched for, so that the library is faster for some.
const SHAPES: [&str; 5] =
    ["1536x1269x200", "966x4003x1261", "181x769x5730", "1280x1285x336", "4096x4096x1024"];

/// The variables with which programs find the cuBLASLt that records were made with.
fn variables() -> Option<(&'static str, OsString)> {
    let found = gemm_tune::compile::libraries::find("cublas", &search_paths());
    let folder = found.first()?.parent()?;
    let mut path = folder.as_os_str().to_owned();
    if let Some(own) = std::env::var_os("LD_LIBRARY_PATH") {
        path.push(":");
        path.push(own);
    }
    Some(("LD_LIBRARY_PATH", path))
}

/// Tunes with few configurations, exports with the library, and multiplies: the recorded algorithms are made again from
/// their numbers, results are within the error bound, and without the library kernels compute them.
pub(crate) fn library_multiplies() -> Result<(), Failed> {
    let folder = Path::new("target/test-artifacts/library");
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder)?;
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (database, out) = (at("db.toml"), at("python"));
    let shapes: Vec<&str> = SHAPES.iter().flat_map(|shape| ["--shape", *shape]).collect();
    let tuned = [&shapes[..], &["--max-configs", "5", "--db", &database]].concat();
    assert_eq!(gemm_tune(&tuned).1, Some(0));
    let arguments = ["export", "--format", "python", "-o", &out, "--with-library"];
    assert_eq!(gemm_tune(&[&arguments[..], &["--db", &database]].concat()).1, Some(0));
    let database = Database::load_existing(Path::new(&database))?;
    let won: Vec<&Record> = database
        .records()
        .iter()
        .filter(|record| measured_library(record).is_some_and(|library| library.is_preferred))
        .collect();
    println!("the library is faster for {} of {}", won.len(), SHAPES.len());
    let program = at("chosen");
    let library = format!("{out}/{}", gemm_tune::export::LIBRARY);
    let path = format!("-Wl,-rpath,{}", Path::new(&out).canonicalize()?.display());
    let built = ["-I", &out, "tests/artifacts/chosen.c", &library, &path, "-o", &program];
    runs_well(Command::new("gcc").args(built))?;
    for record in won {
        let shape = Problem::try_from(&record.problem)?.shape.to_string();
        let name = |is_off: bool| -> Result<String, Failed> {
            let mut command = Command::new(&program);
            command.arg(&shape).envs(variables());
            if is_off {
                command.env("GEMM_TUNED_LIBRARY", "0");
            }
            Ok(String::from_utf8(command.output()?.stdout)?.trim().to_owned())
        };
        let recorded = measured_library(record).map(|library| library.algorithm);
        let recorded = recorded.unwrap_or_default();
        println!("{shape}: {} and {}", name(false)?, name(true)?);
        if !recorded.is_empty() {
            assert_eq!(name(false)?, algorithm_name(&recorded), "{shape}");
        }
        assert!(name(true)?.starts_with("gemm_f32_nn"), "{shape}");
    }
    let others = ["1500x700x900", "777x1001x513+5", "200x300x64x24", "64x3000x2000"];
    let mut program = Command::new("sh");
    program.args(["tests/artifacts/check.sh", &out]).args(SHAPES).args(others).envs(variables());
    runs_well(&mut program)?;
    program.env("GEMM_TUNED_MEASURE", "1").env("GEMM_TUNED_MEASURE_FILE", at("measured.txt"));
    runs_well(&mut program)
}
