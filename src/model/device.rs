//! What a search space and a record need to know about a GPU. Queried elsewhere; pure here.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::problem::{Compute, Problem};
use super::units::Tflops;

/// A CUDA compute capability, `major.minor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ComputeCapability {
    /// The architecture generation.
    pub major: u32,
    /// The revision within it.
    pub minor: u32,
}

impl ComputeCapability {
    /// The name that compilers use for code of this device: `sm_90`.
    pub fn architecture(self) -> String {
        format!("sm_{}{}", self.major, self.minor)
    }

    /// Reads `9.0`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('.')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }

    /// Binary32 multiply-adds that one SM starts in a clock: the lanes of its FP32 pipes.
    /// Source: CUDA C++ Programming Guide, table of arithmetic throughput by capability.
    pub(crate) fn f32_lanes(self) -> u32 {
        match (self.major, self.minor) {
            (7, _) | (8, 0) => 64,
            (6, 0) => 64,
            _ => 128,
        }
    }

    /// 32-bit integer multiply-adds that one SM starts in a clock (same source).
    fn i32_lanes(self) -> u32 {
        match self.major {
            0..=6 => 32, // emulated from 16-bit pieces on these; an upper bound
            _ => 64,
        }
    }
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A GPU, as far as kernels and records depend on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// The driver's name for it: `NVIDIA H200`.
    pub name: String,
    /// Its compute capability.
    pub compute_capability: ComputeCapability,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Bytes of shared memory that a block may use after opting in.
    pub shared_bytes_per_block: u32,
    /// Bytes of shared memory of an SM.
    pub shared_bytes_per_sm: u32,
    /// Bytes of shared memory that the system keeps for itself in every block.
    pub shared_bytes_reserved: u32,
    /// 32-bit registers that a block may use.
    pub registers_per_block: u32,
    /// 32-bit registers of an SM.
    pub registers_per_sm: u32,
    /// Threads that an SM can hold.
    pub threads_per_sm: u32,
    /// Threads that a block can have.
    pub threads_per_block: u32,
    /// Threads of a warp.
    pub warp_size: u32,
    /// Bytes of the L2 cache.
    pub l2_bytes: u64,
    /// Bytes of device memory.
    pub memory_bytes: u64,
    /// The highest clock of the SMs.
    pub max_sm_clock_mhz: u32,
    /// The driver's version as NVML tells it, `580.159.04`; empty where NVML is missing.
    pub driver: String,
    /// The CUDA version that the driver supports, as CUDA encodes it: 13000 for 13.0.
    pub driver_cuda: i32,
}

/// What an NVIDIA H200 is called.
const H200: &str = "NVIDIA H200";

/// Bytes a second of an H200's memory, by its data sheet.
pub(crate) const H200_BANDWIDTH: f64 = 4.8e12;

/// What the device on the host is called, here and in records.
pub const CPU: &str = "cpu";

impl Device {
    /// The figures of an NVIDIA H200, for looking at search spaces where there is no GPU.
    pub fn h200() -> Self {
        Self {
            name: H200.to_owned(),
            compute_capability: ComputeCapability { major: 9, minor: 0 },
            sms: 132,
            shared_bytes_per_block: 232_448,
            shared_bytes_per_sm: 233_472,
            shared_bytes_reserved: 1024,
            registers_per_block: 65_536,
            registers_per_sm: 65_536,
            threads_per_sm: 2048,
            threads_per_block: 1024,
            warp_size: 32,
            l2_bytes: 60 << 20,
            memory_bytes: 150_754_820_096,
            max_sm_clock_mhz: 1980,
            driver: String::new(),
            driver_cuda: 13_000,
        }
    }

    /// A GPU that is not here, by what is known of every GPU of its compute capability (CUDA C++
    /// Programming Guide, technical specifications); of a capability that is not known, the least
    /// that any has. Its caches, memory and clocks are zero.
    pub fn of_capability(name: &str, capability: ComputeCapability, sms: u32) -> Self {
        const KIB: u32 = 1024;
        // KiB of shared memory for a block after opting in and of an SM, and an SM's threads.
        let (block, sm, threads_per_sm) = match (capability.major, capability.minor) {
            (7, 0 | 2) => (96, 96, 2048),
            (7, 5) => (64, 64, 1024),
            (8, 0) => (163, 164, 2048),
            (8, 7) => (163, 164, 1536),
            (8, 6 | 9) | (12, _) => (99, 100, 1536),
            (9 | 10, _) => (227, 228, 2048),
            _ => (48, 64, 1024),
        };
        Self {
            name: name.to_owned(),
            compute_capability: capability,
            sms,
            shared_bytes_per_block: block * KIB,
            shared_bytes_per_sm: sm * KIB,
            shared_bytes_reserved: if capability.major >= 8 { KIB } else { 0 },
            registers_per_block: 65_536,
            registers_per_sm: 65_536,
            threads_per_sm,
            threads_per_block: 1024,
            warp_size: 32,
            l2_bytes: 0,
            memory_bytes: 0,
            max_sm_clock_mhz: 0,
            driver: String::new(),
            driver_cuda: 0,
        }
    }

    /// The device that executes kernels on the host. It has the limits of an NVIDIA H200, which
    /// its times are modelled on, and a name of its own.
    pub fn cpu() -> Self {
        Self { name: CPU.to_owned(), ..Self::h200() }
    }

    /// Whether it is [`Device::cpu`], whose times are not measured.
    pub fn is_cpu(&self) -> bool {
        self.name == CPU
    }

    /// Bytes a second that its memory gives at most, by the data sheet; no driver tells it, and it is
    /// known of the H200 alone, which the device on the host is modelled on.
    pub fn memory_bandwidth(&self) -> Option<f64> {
        (self.name == H200 || self.is_cpu()).then_some(H200_BANDWIDTH)
    }

    /// A file-name-safe form of the device's name: `nvidia-h200`.
    pub fn slug(&self) -> String {
        let words: Vec<String> = self
            .name
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_ascii_lowercase)
            .collect();
        if words.is_empty() { "unknown-gpu".to_owned() } else { words.join("-") }
    }

    /// The rate at which the pipes that serve `problem`'s arithmetic run at the highest clock;
    /// `None` where it is not known.
    pub fn peak(&self, problem: &Problem) -> Option<Tflops> {
        let lanes = match problem.compute {
            Compute::F32 => self.compute_capability.f32_lanes(),
            Compute::I32 => self.compute_capability.i32_lanes(),
            Compute::Tf32 | Compute::F32Emulated | Compute::F16 | Compute::Bf16 => return None,
        };
        let per_second =
            f64::from(self.sms) * f64::from(lanes) * 2.0 * f64::from(self.max_sm_clock_mhz) * 1e6;
        Some(Tflops(per_second / 1e12))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, Shape};

    #[test]
    fn an_h200_peaks_at_66_9_tflops_in_f32() {
        let problem = Problem::new(Shape { m: 1, n: 1, k: 1 }, Dtype::F32);
        let peak = Device::h200().peak(&problem).unwrap();
        assert!((peak.0 - 66.9).abs() < 0.05, "{peak}");
    }

    #[test]
    fn a_capability_has_the_limits_of_its_devices() {
        let h200 = Device::h200();
        let known = Device::of_capability(&h200.name, h200.compute_capability, h200.sms);
        let rest = Device {
            l2_bytes: h200.l2_bytes,
            memory_bytes: h200.memory_bytes,
            max_sm_clock_mhz: h200.max_sm_clock_mhz,
            driver_cuda: h200.driver_cuda,
            ..known
        };
        assert_eq!(rest, h200);
    }

    #[test]
    fn slugs_are_file_names() {
        for (name, slug) in [
            ("NVIDIA H200", "nvidia-h200"),
            ("NVIDIA GeForce RTX 4090 (mobile)", "nvidia-geforce-rtx-4090-mobile"),
            ("../..", "unknown-gpu"),
        ] {
            let device = Device { name: name.to_owned(), ..Device::h200() };
            assert_eq!(device.slug(), slug);
        }
    }
}
