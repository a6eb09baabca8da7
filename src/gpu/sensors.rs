//! What NVML tells of a GPU: its clocks, temperature and power, and who else uses it. All of it
//! is optional: a machine without NVML, or a device without a sensor, measures kernels as well.

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::error::NvmlError;

use super::error::GpuError;

/// The sensors of one GPU.
#[derive(Debug)]
pub struct Sensors {
    nvml: Nvml,
    pci_bus_id: String,
}

/// How many GPUs this machine has by NVML, whether CUDA shows them or not; none where it has no NVML.
/// That takes milliseconds, a context to ask CUDA in most of a second.
pub fn installed() -> usize {
    let count = Nvml::init().and_then(|nvml| nvml.device_count());
    count.map_or(0, |count| count as usize)
}

/// The state of a GPU at one moment; `None` where it cannot be read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// The clock of the SMs.
    pub sm_clock_mhz: Option<u32>,
    /// The clock of the device memory.
    pub memory_clock_mhz: Option<u32>,
    /// The temperature of the GPU, in degrees Celsius.
    pub temperature_c: Option<u32>,
    /// The power drawn.
    pub power_w: Option<f64>,
    /// What keeps the clocks below their maximum, in words; idling is not counted.
    pub throttle_reasons: Option<Vec<String>>,
    /// Processes with a compute context on this GPU, other than this one.
    pub other_processes: Option<u32>,
}

/// NVML's reasons, in words. `GPU_IDLE` is left out: it says that nothing ran.
const REASONS: [(ThrottleReasons, &str); 8] = [
    (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, "application clocks setting"),
    (ThrottleReasons::SW_POWER_CAP, "power cap"),
    (ThrottleReasons::HW_SLOWDOWN, "hardware slowdown"),
    (ThrottleReasons::SYNC_BOOST, "sync boost"),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, "software thermal slowdown"),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, "hardware thermal slowdown"),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "power brake"),
    (ThrottleReasons::DISPLAY_CLOCK_SETTING, "display clock setting"),
];

impl Sensors {
    /// Opens NVML and finds the GPU at a place on the PCI bus. NVML counts devices in an order of
    /// its own and ignores `CUDA_VISIBLE_DEVICES`, so CUDA's numbers do not serve.
    ///
    /// # Errors
    /// [`GpuError::Library`] where NVML is missing or does not know the device.
    pub fn open(pci_bus_id: &str) -> Result<Self, GpuError> {
        let failed = |error: NvmlError| GpuError::Library {
            name: "libnvidia-ml.so.1",
            why: error.to_string(),
        };
        let nvml = Nvml::init().map_err(failed)?;
        nvml.device_by_pci_bus_id(pci_bus_id).map_err(failed)?;
        Ok(Self { nvml, pci_bus_id: pci_bus_id.to_owned() })
    }

    /// The driver's own version: `580.159.04`.
    pub fn driver_version(&self) -> Option<String> {
        self.nvml.sys_driver_version().ok()
    }

    /// Reads every sensor now.
    pub fn reading(&self) -> Reading {
        let Ok(device) = self.nvml.device_by_pci_bus_id(self.pci_bus_id.as_str()) else {
            return Reading::default();
        };
        let processes = device.running_compute_processes().ok();
        Reading {
            sm_clock_mhz: device.clock_info(Clock::SM).ok(),
            memory_clock_mhz: device.clock_info(Clock::Memory).ok(),
            temperature_c: device.temperature(TemperatureSensor::Gpu).ok(),
            // NVML counts milliwatts.
            power_w: device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
            throttle_reasons: device.current_throttle_reasons().ok().map(words),
            other_processes: processes.and_then(|processes| {
                let ids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
                others(&ids, std::process::id())
            }),
        }
    }
}

fn words(reasons: ThrottleReasons) -> Vec<String> {
    REASONS
        .iter()
        .filter(|(reason, _)| reasons.contains(*reason))
        .map(|(_, word)| (*word).to_owned())
        .collect()
}

/// How many of `processes` are not `own`; `None` where `own` is missing among others. NVML may
/// number processes as the host does, and in a container this process is then one of them under
/// a number that it does not know.
fn others(processes: &[u32], own: u32) -> Option<u32> {
    if !processes.is_empty() && !processes.contains(&own) {
        return None;
    }
    u32::try_from(processes.iter().filter(|process| **process != own).count()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_words_and_idling_is_none() {
        let reasons = ThrottleReasons::SW_POWER_CAP | ThrottleReasons::GPU_IDLE;
        assert_eq!(words(reasons), ["power cap"]);
        assert!(words(ThrottleReasons::empty()).is_empty());
    }

    #[test]
    fn other_processes_are_counted_only_where_numbers_are_comparable() {
        for (processes, expected) in
            [(&[][..], Some(0)), (&[7], Some(0)), (&[7, 8, 9], Some(2)), (&[8], None)]
        {
            assert_eq!(others(processes, 7), expected, "{processes:?}");
        }
    }

    #[test]
    fn a_missing_library_is_an_error_and_no_panic() {
        if let Err(error) = Sensors::open("0000:ff:1f.0") {
            assert!(matches!(error, GpuError::Library { name: "libnvidia-ml.so.1", .. }));
        }
    }
}
