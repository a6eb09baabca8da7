//! Limits of a device that no prediction may break: memory bandwidth, arithmetic and the time of a launch. What drivers
//! do not report stands in `devices/`, a file for each GPU model, with its sources.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::files::SHIPPED_GPUS;
use crate::model::{CachePolicy, Compute, Device, Micros, Problem, Tflops};

/// What a file of `devices/` has.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceFile {
    schema: u32,
    device: String,
    memory_bandwidth: MemoryBandwidth,
    empty_launch: EmptyLaunch,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MemoryBandwidth {
    bytes_per_second: f64,
    source: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EmptyLaunch {
    microseconds: f64,
    source: String,
}

/// The files. One that does not parse, or lacks a source, is left out; a test reads them all.
static KNOWN: LazyLock<Vec<DeviceFile>> = LazyLock::new(|| {
    let read = SHIPPED_GPUS.iter().filter_map(|gpu| toml::from_str::<DeviceFile>(gpu.limits).ok());
    read.filter(DeviceFile::has_sources).collect()
});

impl DeviceFile {
    /// Whether the file is of the schema that is read here, and no rate lacks its source.
    fn has_sources(&self) -> bool {
        let sources = [&self.memory_bandwidth.source, &self.empty_launch.source];
        self.schema == 1 && sources.into_iter().all(|source| !source.trim().is_empty())
    }
}

/// What is known of a device, or of the GPU that the cpu device models.
fn known(device: &Device) -> Option<&'static DeviceFile> {
    KNOWN.iter().find(|file| file.device == device.gpu_name())
}

/// Peak memory bandwidth in bytes per second, from the data sheet; `None` for a device that `devices/` does not have.
pub fn memory_bandwidth(device: &Device) -> Option<f64> {
    Some(known(device)?.memory_bandwidth.bytes_per_second)
}

/// The shortest time that a kernel can take for a problem: the longest of an empty launch, its operations at the peak
/// rate, and the bytes that must pass the memory bus at the data sheet's bandwidth. Parts that are not known of the
/// device are zero.
///
/// With operands outside of the cache every element of A and B is read once, and of C is written what does not fit
/// into the L2. With operands in the cache, only what exceeds the L2 passes the bus. Where
/// products may be composed of others, as those of i32, the peak rate is no limit.
pub fn least_time(problem: &Problem, device: &Device, cache: CachePolicy) -> Micros {
    let file = known(device);
    let launching = file.map_or(0.0, |file| file.empty_launch.microseconds);
    let peak = peak_rate(problem, device);
    let computing = peak.map_or(0.0, |peak| problem.operations() / peak.0 / 1e6);
    let moving = memory_bandwidth(device)
        .map_or(0.0, |rate| 1e6 * least_traffic(problem, device, cache) / rate);
    Micros(launching.max(computing).max(moving))
}

/// Highest rate of a problem's arithmetic at the device's clock; `None` where it is not known or no limit.
pub fn peak_rate(problem: &Problem, device: &Device) -> Option<Tflops> {
    let is_limit = !matches!(problem.types.compute, Compute::I32 | Compute::F32Emulated);
    device.peak(problem).filter(|peak| peak.0 > 0.0 && is_limit)
}

/// Least bytes that must pass the memory bus.
pub fn least_traffic(problem: &Problem, device: &Device, cache: CachePolicy) -> f64 {
    let [a, b, written] = problem.operand_bytes().map(|bytes| bytes as f64);
    let read = a + b;
    let kept = device.l2_bytes as f64;
    match cache {
        CachePolicy::Rotate => read + (written - kept).max(0.0),
        CachePolicy::Hot => (read + written - kept).max(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dtype;

    #[test]
    fn each_file_is_read_and_names_its_sources() {
        assert_eq!(KNOWN.len(), Device::known().len());
        for file in KNOWN.iter() {
            assert!(
                file.memory_bandwidth.bytes_per_second > 0.0
                    && file.empty_launch.microseconds > 0.0
            );
        }
    }

    #[test]
    fn the_longest_of_launch_arithmetic_and_memory_counts() {
        let least = |shape: &str, batch: u64, cache: CachePolicy| {
            let problem = Problem { batch, ..Problem::new(shape.parse().unwrap(), Dtype::F32) };
            least_time(&problem, &Device::h200(), cache).0
        };
        for (shape, batch, cache, expected) in [
            ("1x1x1", 1, CachePolicy::Rotate, 1.2),
            // 268 MB of B at 4.8 TB/s, all but the L2's 63 MB of it where it is in the cache.
            ("2x8192x8192", 1, CachePolicy::Rotate, 55.94),
            ("2x8192x8192", 1, CachePolicy::Hot, 42.86),
            // 2 x 8192^3 operations at 66.9 TFLOP/s.
            ("8192x8192x8192", 1, CachePolicy::Rotate, 16_433.6),
            ("984x2x4680", 67, CachePolicy::Rotate, 257.7),
            // C is larger than the L2.
            ("16384x16384x1", 1, CachePolicy::Rotate, 210.6),
        ] {
            let found = least(shape, batch, cache);
            assert!((found / expected - 1.0).abs() < 1e-3, "{shape} x{batch}: {found}");
        }
    }

    #[test]
    fn of_an_unknown_device_only_the_arithmetic_is_known() {
        let device = Device { name: "NVIDIA Unknown".to_owned(), ..Device::h200() };
        let problem = |shape: &str| Problem::new(shape.parse().unwrap(), Dtype::F32);
        let square = problem("8192x8192x8192");
        let [own, known] = [&device, &Device::h200()]
            .map(|device| least_time(&square, device, CachePolicy::Rotate));
        assert_eq!(own, known);
        assert!(least_time(&problem("1x1x1"), &device, CachePolicy::Rotate).0 < 1e-3);
        assert_eq!(memory_bandwidth(&device), None);
        assert_eq!(memory_bandwidth(&Device::cpu()), Some(4.8e12));
    }
}
