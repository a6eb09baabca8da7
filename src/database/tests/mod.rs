//! Tests of the public interface, through files.

mod coexistence;
mod damage;
mod drift;
mod faults;
mod finalists;
mod large;
mod merging;
mod round_trip;
mod survival;
mod updates;

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use tempfile::TempDir;

use super::{
    Database, LibraryAlgorithm, LibraryTime, Provenance, Record, StoredConditions, Winner,
};
use crate::model::launch::STANDARD_ARGUMENTS;
use crate::model::{
    Argument, Configuration, CopyRounding, Device, Dtype, KernelLaunch, LaunchPlan, Measurement,
    Micros, Problem, Regime, Resources, Shape, Swizzle, TensorMap, Timing, Validation, Value,
    Workspace,
};
use crate::predict::Landmark;

fn device() -> Device {
    Device { driver: "580.159.04".to_owned(), ..Device::h200() }
}

fn problem(m: u64, n: u64, k: u64) -> Problem {
    Problem::new(Shape { m, n, k }, Dtype::F32)
}

fn measurement(median_us: f64) -> Measurement {
    let samples = (0..11).map(|i| Micros(median_us + f64::from(i - 5) * 0.125_04)).collect();
    Measurement {
        samples,
        launches_per_sample: 20,
        regime: Regime::default(),
        timing: Timing::Measured,
        sm_clock_mhz: Some(1980),
    }
}

fn launch_plan() -> LaunchPlan {
    LaunchPlan {
        kernels: vec![KernelLaunch {
            entry: "gemm_f32_nn".to_owned(),
            grid: [32, 32, 1],
            block: [256, 1, 1],
            dynamic_shared_bytes: 33_792,
            programmatic: false,
            arguments: STANDARD_ARGUMENTS.to_vec(),
        }],
        ..LaunchPlan::default()
    }
}

/// A launch plan with all optional parts.
fn split_plan() -> LaunchPlan {
    let mut plan = launch_plan();
    plan.kernels.push(KernelLaunch {
        entry: "reduce".to_owned(),
        arguments: vec![Argument::Named("partials".to_owned()), Argument::C],
        ..plan.kernels[0].clone()
    });
    plan.workspaces = vec![Workspace { name: "partials".to_owned(), bytes: 64 << 20, align: 64 }];
    plan.tensor_maps = vec![TensorMap {
        name: "map_a".to_owned(),
        operand: "A".to_owned(),
        dtype: None,
        offset: 256,
        extents: vec![4096, 4096],
        strides: vec![4096],
        tile: vec![64, 128],
        swizzle: Swizzle::B128,
        rounds_to: Some(CopyRounding::Tf32),
    }];
    plan
}

fn provenance() -> Provenance {
    Provenance {
        gemm_tune: "0.1.0".to_owned(),
        template_hash: "5f1c8e2a90b3d467".to_owned(),
        nvrtc: "13.0".to_owned(),
        time: "2026-01-31T12:00:00.123Z".parse::<Timestamp>().unwrap(),
        seed: 42,
        interim: false,
        command: None,
    }
}

/// The values that a [`Winner`] borrows; a test can change them before it makes a record.
struct Found {
    problem: Problem,
    device: Device,
    family: String,
    configuration: Configuration,
    launch: LaunchPlan,
    measurement: Measurement,
    libraries: Vec<LibraryTime>,
    landmarks: Vec<Landmark>,
    validation: Validation,
    resources: Resources,
    provenance: Provenance,
}

/// A winner for `problem` with a median of `median_us`.
fn found(problem: Problem, median_us: f64) -> Found {
    let parameters = [
        ("BM", Value::Int(128)),
        ("BN", Value::Int(64)),
        ("DOUBLE_BUFFER", Value::Bool(true)),
        ("LOADER", Value::Text("cp_async".to_owned())),
    ];
    Found {
        problem,
        device: device(),
        family: "simt".to_owned(),
        configuration: parameters
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect(),
        launch: launch_plan(),
        measurement: measurement(median_us),
        libraries: vec![],
        landmarks: vec![],
        validation: Validation {
            reference: "f64 on the device".to_owned(),
            max_error: 1.2345e-7,
            bound: 1.5259e-5,
        },
        resources: Resources {
            registers: 128,
            spill_bytes: 0,
            shared_bytes: 33_792,
            occupancy: Some(0.25),
        },
        provenance: provenance(),
    }
}

impl Found {
    fn record(&self) -> Record {
        Record::new(Winner {
            conditions: Some(StoredConditions {
                sm_clock_mhz: Some([1965, 1980]),
                power_w: Some([310.5, 640.25]),
                ..StoredConditions::default()
            }),
            also_right_on: &["other values".to_owned(), "9x8x8".to_owned()],
            problem: &self.problem,
            device: &self.device,
            family: &self.family,
            configuration: &self.configuration,
            launch: &self.launch,
            measurement: &self.measurement,
            confidence: None,
            libraries: &self.libraries,
            speedup: None,
            landmarks: &self.landmarks,
            validation: &self.validation,
            resources: &self.resources,
            provenance: self.provenance.clone(),
        })
    }
}

fn record(problem: Problem, median_us: f64) -> Record {
    found(problem, median_us).record()
}

fn library(name: &str, median_us: f64) -> LibraryTime {
    LibraryTime { name: name.to_owned(), median_us, algorithm: LibraryAlgorithm::new() }
}

fn libraries() -> Vec<LibraryTime> {
    vec![library("cuBLASLt (best of 16)", 661.125), library("cuBLAS", 675.0)]
}

/// A file in a folder of its own, with `text` in it.
fn file_with(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nvidia-h200.toml");
    fs::write(&path, text).unwrap();
    (folder, path)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn load(path: &Path) -> Vec<Record> {
    Database::load(path).unwrap().records().to_vec()
}
