//! `gemm-tune doctor`: reports what this machine can do, and how to fix what it cannot.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::arguments::CommonArguments;
use super::console::Console;
use super::failure::Failure;
use super::machine::{Wish, Workshop};
use super::output::finish;
use crate::compile::{Architecture, Network, NvrtcRequirements, SearchPaths, acquire};
use crate::cpu::GlobalMemory;
use crate::model::units::human_bytes;
use crate::model::{Device, Dtype, Problem, Shape};
use crate::report::table::pairs;
use crate::worker::{Executor as _, GpuWorker, WorkerError};

#[derive(Debug, Args)]
pub(super) struct DoctorArguments {
    /// Device to look at: auto, cuda:N or cpu
    #[arg(long, default_value = "auto")]
    device: String,
    #[command(flatten)]
    common: CommonArguments,
}

/// The finding for one component.
struct Finding {
    name: &'static str,
    state: FindingState,
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FindingState {
    Good,
    /// It is missing, and tuning works without it.
    Missing,
    /// It is missing, and nothing is measured without it.
    Absent,
    /// Tuning does not work without it.
    Broken,
}

impl FindingState {
    fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Missing | Self::Absent => "missing",
            Self::Broken => "broken",
        }
    }
}

/// Examines the machine, prints, and gives 0 where tuning works.
pub(super) fn main(arguments: &DoctorArguments) -> ExitCode {
    let console = Console::new(&arguments.common);
    finish(console, examine(arguments).map(|findings| present(&findings, console)))
}

/// Prints the findings. Gives their document and 0 where tuning works.
fn present(findings: &[Finding], console: Console) -> (Value, ExitCode) {
    let rows: Vec<(String, String)> = findings
        .iter()
        .map(|finding| {
            (format!("{}: {}", finding.name, finding.state.word()), finding.text.clone())
        })
        .collect();
    console.result(&pairs(&rows, console.table_style()));
    let has = |state| findings.iter().any(|finding| finding.state == state);
    let works = !has(FindingState::Broken) && !has(FindingState::Absent);
    let verdict = if works {
        "this machine can tune"
    } else if has(FindingState::Broken) {
        "this machine cannot tune yet"
    } else {
        "this machine can tune with modelled times, as in `gemm-tune 128x128x64 --device cpu`; \
         measuring needs a GPU"
    };
    console.result(&format!("\n{verdict}\n"));
    let document: Vec<_> = findings
        .iter()
        .map(|finding| {
            json!({ "name": finding.name, "state": finding.state.word(), "text": finding.text })
        })
        .collect();
    let code = if works { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    (json!({ "works": works, "findings": document }), code)
}

fn examine(arguments: &DoctorArguments) -> Result<Vec<Finding>, Failure> {
    let workshop = Workshop::new(&arguments.common)?;
    let Workshop { cache, paths, .. } = &workshop;
    let mut findings = Vec::new();
    let mut device = None;
    let ordinal = match arguments.device.parse()? {
        Wish::Auto | Wish::AllGpus => Some(0),
        Wish::Gpu(ordinal) => Some(ordinal),
        Wish::Cpu | Wish::Named(_) => None,
    };
    if let Some(ordinal) = ordinal {
        match workshop.worker(ordinal)? {
            Ok(mut worker) => {
                let found = worker.device().clone();
                findings.extend(device_findings(&mut worker, &found));
                device = Some(found);
            }
            Err(error) => {
                let state = match error {
                    WorkerError::NoDevice { .. } => FindingState::Absent,
                    _ => FindingState::Broken,
                };
                findings.push(Finding { name: "GPU", state, text: error.to_string() });
            }
        }
    }
    findings.push(cpu_finding());
    findings.push(nvrtc_finding(arguments, paths, device.as_ref()));
    findings.push(Finding {
        name: "cache",
        state: FindingState::Good,
        text: format!("{} ({})", cache.display(), human_bytes(folder_bytes(cache))),
    });
    Ok(findings)
}

/// The finding for the host.
fn cpu_finding() -> Finding {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let memory = GlobalMemory::host_available()
        .map(|bytes| format!(", {} of memory available", human_bytes(bytes)))
        .unwrap_or_default();
    let text = format!(
        "{cores} cores{memory}; `--device cpu` and `gemm-tune check` execute kernels here: results \
         are validated, times are modelled"
    );
    Finding { name: "cpu device", state: FindingState::Good, text }
}

fn device_findings(worker: &mut GpuWorker, device: &Device) -> Vec<Finding> {
    let good = |name, text| Finding { name, state: FindingState::Good, text };
    let (major, minor) = (device.driver_cuda / 1000, device.driver_cuda % 1000 / 10);
    let mut findings = vec![
        good("driver", format!("{} (CUDA {major}.{minor})", device.driver)),
        good(
            "GPU",
            format!(
                "{}, compute capability {}, {} SMs, {}, up to {} MHz",
                device.name,
                device.compute_capability,
                device.sms,
                human_bytes(device.memory_bytes),
                device.max_sm_clock_mhz
            ),
        ),
    ];
    let problem = Problem::new(Shape { m: 256, n: 256, k: 256 }, Dtype::F32);
    findings.push(match worker.baselines(&problem, 1) {
        Ok(found) if !found.routines.is_empty() => {
            let cleared = found.cleared.join(" and ");
            let without = if cleared.is_empty() {
                String::new()
            } else {
                format!(", run without {cleared}, which changes its arithmetic")
            };
            good("cuBLAS", format!("version {}{without}", found.version))
        }
        Ok(found) => Finding {
            name: "cuBLAS",
            state: FindingState::Missing,
            text: format!(
                "{}; winners are not compared with it. It comes with the CUDA toolkit and with \
                 `python3 -m pip install nvidia-cublas`",
                found.note.unwrap_or_default()
            ),
        },
        Err(error) => {
            Finding { name: "cuBLAS", state: FindingState::Missing, text: error.to_string() }
        }
    });
    findings.push(match worker.conditions() {
        Ok(conditions) if conditions.sm_clock_mhz.is_some() => {
            let clock = conditions.sm_clock_mhz.unwrap_or(0);
            let busy = match conditions.other_processes {
                Some(others @ 1..) => format!(", {others} other processes use the GPU"),
                _ => String::new(),
            };
            good("NVML", format!("SM clock {clock} MHz now{busy}"))
        }
        _ => Finding {
            name: "NVML",
            state: FindingState::Missing,
            text: "libnvidia-ml.so.1 does not answer; records carry no clocks. It comes with the \
                   driver"
                .to_owned(),
        },
    });
    findings
}

fn nvrtc_finding(
    arguments: &DoctorArguments,
    paths: &SearchPaths,
    device: Option<&Device>,
) -> Finding {
    let device_or_nominal = device.cloned().unwrap_or_else(Device::h200);
    let wanted = NvrtcRequirements {
        architecture: Architecture::from(device_or_nominal.compute_capability),
        driver_major: device.and_then(|device| u32::try_from(device.driver_cuda / 1000).ok()),
    };
    match acquire(paths, &wanted, Network::Forbidden, &mut |_| {}) {
        Ok(nvrtc) => {
            let (major, minor) = nvrtc.version();
            let text = format!("version {major}.{minor}, {}", nvrtc.path().display());
            Finding { name: "NVRTC", state: FindingState::Good, text }
        }
        Err(error) if arguments.common.offline => {
            Finding { name: "NVRTC", state: FindingState::Broken, text: error.to_string() }
        }
        Err(_) => Finding {
            name: "NVRTC",
            state: FindingState::Missing,
            text: "none found; the first run installs it through pip into the cache".to_owned(),
        },
    }
}

fn folder_bytes(folder: &std::path::Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => folder_bytes(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}
