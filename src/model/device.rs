//! Properties of a GPU that search spaces and records depend on. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::gemm_type::Compute;
use super::problem::Problem;
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
    /// Name of the architecture for compilers: `sm_90`.
    pub fn architecture(self) -> String {
        format!("sm_{}{}", self.major, self.minor)
    }

    /// Parses `9.0`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('.')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }

    /// Binary32 multiply-adds that an SM starts per clock: the lanes of its FP32 pipes. Source:
    /// CUDA C++ Programming Guide, table of arithmetic throughput by capability.
    pub fn f32_lanes(self) -> u32 {
        match (self.major, self.minor) {
            (7, _) | (8, 0) => 64,
            (6, 0) => 64,
            _ => 128,
        }
    }

    /// 32-bit integer multiply-adds that an SM starts per clock (same source).
    fn i32_lanes(self) -> u32 {
        match self.major {
            0..=6 => 32, // emulated from 16-bit pieces on these; an upper bound
            _ => 64,
        }
    }

    /// 16-bit floating-point multiply-adds, dense, that the tensor cores of an SM start per clock; an upper bound where
    /// products of one capability differ. `None` where there are none or the rate is not known. Sources: NVIDIA's
    /// architecture white papers (Turing, A100, GA102, Ada, H100, RTX Blackwell) and the data sheet of the B200: rates over
    /// SMs and boost clock.
    fn tensor_products(self) -> Option<u32> {
        match (self.major, self.minor) {
            (7, 5) | (8, 6 | 9) | (12, _) => Some(512),
            (8, 0 | 7) => Some(1024),
            (9, 0) => Some(2048),
            (10, _) => Some(4096),
            _ => None,
        }
    }
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Properties of a GPU that kernels and records depend on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Name from the driver: `NVIDIA H200`.
    pub name: String,
    /// Compute capability.
    pub compute_capability: ComputeCapability,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Bytes of shared memory that a block may use after opting in.
    pub shared_bytes_per_block: u32,
    /// Bytes of shared memory of an SM.
    pub shared_bytes_per_sm: u32,
    /// Bytes of shared memory that the system reserves in every block.
    pub shared_bytes_reserved: u32,
    /// 32-bit registers per block.
    pub registers_per_block: u32,
    /// 32-bit registers per SM.
    pub registers_per_sm: u32,
    /// Maximum of resident threads per SM.
    pub threads_per_sm: u32,
    /// Maximum of threads per block.
    pub threads_per_block: u32,
    /// Threads per warp.
    pub warp_size: u32,
    /// L2 cache size in bytes.
    pub l2_bytes: u64,
    /// Device memory in bytes.
    pub memory_bytes: u64,
    /// Maximum SM clock.
    pub max_sm_clock_mhz: u32,
    /// Driver version from NVML, `580.159.04`; empty without NVML.
    pub driver: String,
    /// CUDA version of the driver, in CUDA's encoding: 13000 for 13.0.
    pub driver_cuda: i32,
}

/// Device names of an NVIDIA H200 and of an NVIDIA H100 with 80 GB of HBM3.
const H200: &str = "NVIDIA H200";
const H100: &str = "NVIDIA H100 80GB HBM3";

/// Name of the cpu device, also in records.
pub const CPU: &str = "cpu";

/// Its driver: which times it models. Journals of another one begin anew.
const CPU_MODEL: &str = "modelled times 3";

impl Device {
    /// Properties of an NVIDIA H200, for use without a GPU.
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

    /// Properties of an NVIDIA H100 with 80 GB of HBM3, for use without a GPU.
    pub fn h100() -> Self {
        Self {
            name: H100.to_owned(),
            l2_bytes: 50 << 20,
            memory_bytes: 85_017_493_504,
            ..Self::h200()
        }
    }

    /// The GPUs whose properties are known without them. The first is the one to assume where nothing names another.
    pub fn known() -> [Self; 2] {
        [Self::h200(), Self::h100()]
    }

    /// Returns the properties that all GPUs of a compute capability share (CUDA C++ Programming
    /// Guide, technical specifications); for an unknown capability, the smallest of all. Caches,
    /// memory and clocks are zero.
    pub fn of_capability(name: &str, capability: ComputeCapability, sms: u32) -> Self {
        const KIB: u32 = 1024;
        // KiB of shared memory per block (with opt-in) and per SM, and threads per SM.
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

    /// Clusters of `blocks` blocks that run at once where an SM holds `blocks_per_sm` blocks. Clusters of two fill
    /// all SMs. For larger ones a sixteenth of the SMs is not used, and what the others of a group of 16 SMs hold is
    /// rounded down. On an H200, `cuOccupancyMaxActiveClusters` and launches that wait give these numbers within 1, for
    /// clusters of 3 to 8 blocks and 1 to 8 blocks per SM. Which SMs a GPU lacks differs from one to another of a model.
    pub fn clusters_at_once(&self, blocks: u64, blocks_per_sm: u64) -> u64 {
        /// SMs of a group that a cluster does not leave (a GPC).
        const GROUP: u64 = 16;
        let sms = u64::from(self.sms);
        if blocks <= 2 {
            return sms.saturating_mul(blocks_per_sm) / blocks.max(1);
        }
        let used = sms - sms / GROUP;
        let of_group = |sms: u64| sms.saturating_mul(blocks_per_sm) / blocks;
        (used / GROUP).saturating_mul(of_group(GROUP)).saturating_add(of_group(used % GROUP))
    }

    /// SMs that clusters of `blocks` blocks fill where an SM holds `blocks_per_sm` blocks; at least what one cluster
    /// needs.
    pub fn sms_with_clusters(&self, blocks: u64, blocks_per_sm: u64) -> f64 {
        let (blocks, blocks_per_sm) = (blocks.max(1), blocks_per_sm.max(1));
        let at_once = self.clusters_at_once(blocks, blocks_per_sm).max(1) as f64;
        (at_once * blocks as f64 / blocks_per_sm as f64).min(f64::from(self.sms.max(1)))
    }

    /// Properties of the cpu device: the limits of an NVIDIA H200, which its times model, under its
    /// own name.
    pub fn cpu() -> Self {
        Self { name: CPU.to_owned(), driver: CPU_MODEL.to_owned(), ..Self::h200() }
    }

    /// Name of the GPU that runs kernels, or that times are modelled for on the cpu device.
    pub fn gpu_name(&self) -> &str {
        if self.is_cpu() { H200 } else { &self.name }
    }

    /// Whether it is [`Device::cpu`], whose times are modelled.
    pub fn is_cpu(&self) -> bool {
        self.name == CPU
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

    /// Peak rate of the pipes for `problem`'s arithmetic at the maximum clock; `None` if unknown.
    pub fn peak(&self, problem: &Problem) -> Option<Tflops> {
        // Values of tf32 take twice the bytes of those of 16 bits, values of i8 half of them.
        let lanes = match problem.types.compute {
            Compute::F32 => self.compute_capability.f32_lanes(),
            Compute::I32 => self.compute_capability.i32_lanes(),
            Compute::F16 | Compute::Bf16 => self.compute_capability.tensor_products()?,
            Compute::Tf32 => self.compute_capability.tensor_products()? / 2,
            Compute::I8 => self.compute_capability.tensor_products()? * 2,
            Compute::F32Emulated => return None,
        };
        let per_second =
            f64::from(self.sms) * f64::from(lanes) * 2.0 * f64::from(self.max_sm_clock_mhz) * 1e6;
        Some(Tflops(per_second / 1e12))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, GemmType, Shape};

    #[test]
    fn an_h200_peaks_at_66_9_tflops_in_f32() {
        let problem = Problem::new(Shape { m: 1, n: 1, k: 1 }, Dtype::F32);
        let peak = Device::h200().peak(&problem).unwrap();
        assert!((peak.0 - 66.9).abs() < 0.05, "{peak}");
    }

    #[test]
    fn clusters_run_at_once_as_on_an_h200() {
        // By `cuOccupancyMaxActiveClusters`; for 1, 2, 3, 4, 5, 6 and 8 blocks per SM.
        const MEASURED: [(u64, [u64; 7]); 8] = [
            (1, [132, 264, 396, 528, 660, 792, 1056]),
            (2, [66, 132, 198, 264, 330, 396, 528]),
            (3, [39, 79, 124, 163, 203, 248, 327]),
            (4, [30, 62, 92, 124, 154, 186, 248]),
            (5, [22, 47, 69, 94, 124, 146, 193]),
            (6, [17, 39, 62, 79, 101, 124, 163]),
            (7, [15, 32, 47, 69, 84, 101, 139]),
            (8, [15, 30, 45, 62, 77, 92, 124]),
        ];
        let device = Device::h200();
        for (blocks, measured) in MEASURED {
            for (per_sm, measured) in [1, 2, 3, 4, 5, 6, 8].into_iter().zip(measured) {
                let found = device.clusters_at_once(blocks, per_sm);
                assert!(found.abs_diff(measured) <= 1, "{blocks} {per_sm}: {found} {measured}");
            }
        }
        // None fits.
        assert_eq!(device.clusters_at_once(200, 1), 0);
        assert_eq!(device.clusters_at_once(0, 1), 132);
        assert!(device.clusters_at_once(3, u64::MAX) > 0);
    }

    #[test]
    fn tensor_cores_have_the_rates_of_data_sheets() {
        let problem = |compute, a| {
            let types = GemmType { compute, ..GemmType::of(a) };
            Problem { types, ..Problem::new(Shape { m: 1, n: 1, k: 1 }, a) }
        };
        // Dense rates at the boost clock of the data sheet, TFLOP/s: H100 SXM, A100, L40S.
        for (capability, sms, mhz, [tf32, f16, i8]) in [
            ("9.0", 132, 1830, [494.7, 989.4, 1978.9]),
            ("8.0", 108, 1410, [156.0, 312.0, 624.0]),
            ("8.9", 142, 2520, [183.0, 366.0, 733.0]),
        ] {
            let compute_capability = ComputeCapability::parse(capability).unwrap();
            let device =
                Device { compute_capability, sms, max_sm_clock_mhz: mhz, ..Device::h200() };
            for (compute, a, expected) in [
                (Compute::Tf32, Dtype::F32, tf32),
                (Compute::F16, Dtype::F16, f16),
                (Compute::Bf16, Dtype::Bf16, f16),
                (Compute::I8, Dtype::I8, i8),
            ] {
                let peak = device.peak(&problem(compute, a)).unwrap().0;
                assert!((peak / expected - 1.0).abs() < 0.01, "{capability} {compute}: {peak}");
            }
        }
        let old = ComputeCapability::parse("6.1").unwrap();
        let old = Device { compute_capability: old, ..Device::h200() };
        assert!(old.peak(&problem(Compute::F16, Dtype::F16)).is_none());
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
