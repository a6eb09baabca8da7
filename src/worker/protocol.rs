//! Messages between parent and worker: the heads of their frames ([`crate::process`]).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Baselines, DeviceConditions, KernelSetup, LoadedModule, WorkItem};
use crate::model::{Device, Problem};

/// Protocol version, raised with every change of a message; parent and worker must agree.
pub(super) const VERSION: u32 = 5;

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WorkerRequest {
    Open { version: u32, ordinal: usize, libraries: Vec<PathBuf> },
    FreeMemory,
    Allocate { bytes: u64 },
    Free { address: u64 },
    Fill { address: u64, word: u32, words: u64 },
    Read { address: u64, bytes: u64 },
    Load { kernels: Vec<KernelSetup> },
    Unload { module: u32 },
    Run { work: Vec<WorkItem> },
    Record { work: Vec<WorkItem> },
    Replay { sequence: u32, flush: Option<(u64, u64)> },
    Forget { sequence: u32 },
    Baselines { problem: Problem, heuristics: usize },
    Conditions,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WorkerResponse {
    Opened { version: u32, device: Box<Device>, devices: usize },
    Done,
    Number(u64),
    Bytes,
    Loaded(LoadedModule),
    Elapsed { us: f64 },
    Baselines(Baselines),
    Conditions(DeviceConditions),
    Failed { message: String, sticky: bool },
    NoDevice { message: String },
    OutOfMemory { message: String },
}
