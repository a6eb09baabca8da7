//! A dispatch set from its times to what programs choose by it.

#![expect(unsafe_code, reason = "drivers take addresses")]

use std::fs;
use std::path::Path;
use std::process::Command;

use gemm_tune::database::Database;
use gemm_tune::gpu::{GpuError, KernelArgument, Stream};
use gemm_tune::model::{Device, Dtype, LaunchShape, PlacedMap, Problem};
use gemm_tune::runtime::{Bundle, Driver, GemmOperands, RowsToCopy, RowsToFill, Runtime};
use serde_json::{Value, json};

use super::rig::{MAX_KERNELS, tune};
use crate::support::CACHE;
use crate::support::program::gemm_tune;
use crate::support::without::skip;

struct Idle;

impl Driver for Idle {
    type KernelHandle = ();
    type Allocation = u64;
    type MapHandle = ();

    fn load(&self, _: &[u8], kernels: &[(&str, u32)]) -> Result<Vec<()>, GpuError> {
        Ok(vec![(); kernels.len()])
    }

    fn encode(&self, _: &PlacedMap) -> Result<(), GpuError> {
        Ok(())
    }

    unsafe fn copy_rows(&self, _: Stream, _: &RowsToCopy) -> Result<(), GpuError> {
        Ok(())
    }

    unsafe fn fill_rows(&self, _: Stream, _: &RowsToFill) -> Result<(), GpuError> {
        Ok(())
    }

    unsafe fn launch(
        &self,
        _: Stream,
        (): &(),
        _: LaunchShape,
        _: &[KernelArgument],
        _: &[()],
    ) -> Result<(), GpuError> {
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> Result<u64, GpuError> {
        Ok(bytes)
    }

    fn address_and_size(memory: &u64) -> (u64, u64) {
        (0, *memory)
    }
}

const CHOOSE: &str = r#"
import sys
sys.path.insert(0, sys.argv[1])
import gemm_tuned
for word in sys.argv[2:]:
    print(word, gemm_tuned.kernel_for(*map(int, word.split("x"))))
"#;

/// A table by which the second kernel is best below M = 100, and the first elsewhere.
fn table(database: &Path) -> Value {
    let records = Database::load_existing(database).unwrap().records().to_vec();
    let kernels: Vec<Value> = records
        .iter()
        .map(|record| json!({ "family": record.family, "parameters": record.parameters }))
        .collect();
    assert_eq!(kernels.len(), 2);
    let naive_first = records[0].family == "naive";
    let shapes: Vec<Value> = [16, 32, 64, 256, 1024, 4096]
        .iter()
        .flat_map(|m| [64, 512].map(|n| json!({ "m": m, "n": n, "k": 128 })))
        .collect();
    let times: Vec<Value> = shapes
        .iter()
        .map(|shape| {
            let small = shape["m"].as_u64().unwrap() < 100;
            let own = if small { [10.0, 5.0] } else { [5.0, 10.0] };
            if naive_first { json!([own[1], own[0]]) } else { json!(own) }
        })
        .collect();
    json!({
        "schema": 1, "device": "cpu", "dtype": "f32", "compute": "f32", "layout": "nn",
        "shapes": shapes, "kernels": kernels, "times_us": times,
    })
}

#[test]
fn a_dispatch_set_is_what_programs_choose_by() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    if !tune(folder.path(), "44x31x23", "tiled") {
        return;
    }
    tune(folder.path(), "30x20x10", "naive");
    let (database, times, set) = (at("db.toml"), at("times.json"), at("set.json"));

    // Measured, or here modelled: every winner for every shape.
    let arguments = ["dispatch", "--db", &database, "--times", &times, "-o", &set];
    let device = ["--device", "cpu", "--cache", CACHE, "--shape", "20x20x20"];
    let said = gemm_tune(&[&arguments[..], &device].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.starts_with("1 of 2 kernels for 1 shapes, 1 leaves"), "{}", said.out);
    let measured: Value = serde_json::from_str(&fs::read_to_string(&times).unwrap()).unwrap();
    let row = measured["times_us"][0].as_array().unwrap();
    assert!(row.iter().all(|time| time.as_f64().unwrap() > 0.0), "{measured}");

    // What lookup answers for a shape whose record is held out, beside that record.
    let held = ["lookup", "--evaluate", "--db", &database, "--shape", "30x20x10", "--csv"];
    let said = gemm_tune(&[&held[..], &["--device", "cpu", "--cache", CACHE]].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.contains("30,20,10,1,f32,nn,"), "{}", said.out);

    // From a table that is there: no device is asked.
    fs::write(&times, table(Path::new(&database)).to_string()).unwrap();
    let said = gemm_tune(&[&arguments[..], &["--device", "cuda:99"]].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.starts_with("2 of 2 kernels for 12 shapes, 2 leaves"), "{}", said.out);
    assert!(said.out.contains("0.00 % on shapes that it was not fitted to"), "{}", said.out);
    let one = gemm_tune(&[&arguments[..], &["--max-kernels", "1"]].concat());
    assert!(one.err.contains("the best 1 of 2 kernels are"), "{}", one.err);

    let export = |format: &str| {
        let out = at(format);
        let arguments = ["export", "--format", format, "-o", &out, "--db", &database, "--modelled"];
        let own = ["--dispatch", &set, "--max-kernels", MAX_KERNELS, "--cache", CACHE];
        let said = gemm_tune(&[&arguments[..], &own].concat());
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(said.out.contains("kernels for 2 of a dispatch set"), "{}", said.out);
        out
    };
    let (python, folder) = (export("python"), export("bundle"));
    let shapes = ["44x31x23", "30x20x10", "20x300x50", "99x77x55", "300x30x300", "3000x3000x3000"];
    let families = ["tiled", "naive", "naive", "naive", "tiled", "tiled"];
    let bundle = Bundle::open(Path::new(&folder), &Device::h200()).unwrap();
    let family_of = |name: &str| {
        let kernels = bundle.manifest().kernels.iter();
        kernels.clone().find(|kernel| kernel.name == name).unwrap().family.clone()
    };
    let runtime = Runtime::new(Bundle::open(Path::new(&folder), &Device::h200()).unwrap(), Idle);
    let mut names = Vec::new();
    for (shape, family) in shapes.iter().zip(families) {
        let problem = Problem::new(shape.parse().unwrap(), Dtype::F32);
        let operands = GemmOperands::packed(&problem, 256, 256, 256);
        let name = runtime.warm_up(&problem, &operands).unwrap();
        assert_eq!(family_of(&name), family, "{shape}");
        names.push(format!("{shape} {name}"));
    }
    match Command::new("python3").args(["-B", "-c", CHOOSE, &python]).args(shapes).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(said.lines().collect::<Vec<_>>(), names, "Python chooses as Rust does");
        }
        Err(error) => skip("python", &format!("no python3: {error}")),
    }
    let source = fs::read_to_string(Path::new(&export("c")).join("gemm_tuned.c")).unwrap();
    assert!(source.contains("if (p[0] < 128) { /* M */"), "the tree is in the source");
}
