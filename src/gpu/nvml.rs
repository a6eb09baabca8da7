//! Sensors through NVML: clocks, temperature, power, and other processes on a GPU. All are
//! optional: kernels are measured without NVML or single sensors too.

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

/// Number of GPUs of this machine by NVML, visible to CUDA or not; 0 without NVML. Takes
/// milliseconds, where a CUDA context takes most of a second.
pub fn installed_gpus() -> usize {
    let count = Nvml::init().and_then(|nvml| nvml.device_count());
    count.map_or(0, |count| count as usize)
}

/// Sensor values of a GPU at one moment; `None` for unreadable ones.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SensorReading {
    /// SM clock.
    pub sm_clock_mhz: Option<u32>,
    /// GPU temperature in degrees Celsius.
    pub temperature_c: Option<u32>,
    /// Power draw.
    pub power_w: Option<f64>,
    /// Names of the reasons that limit the clocks; idling is not counted.
    pub throttle_reasons: Option<Vec<String>>,
    /// Other processes with a compute context on this GPU.
    pub other_processes: Option<u32>,
}

/// Names of NVML's throttle reasons. `GPU_IDLE` is omitted: it says that nothing ran.
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
    /// Opens NVML and finds the GPU by its PCI bus address. CUDA's numbers do not apply: NVML
    /// counts in its own order and ignores `CUDA_VISIBLE_DEVICES`.
    ///
    /// # Errors
    /// [`GpuError::Library`] when NVML is missing or lacks the device.
    pub fn open(pci_bus_id: &str) -> Result<Self, GpuError> {
        let failed = |error: NvmlError| GpuError::Library {
            name: "libnvidia-ml.so.1",
            why: error.to_string(),
        };
        let nvml = Nvml::init().map_err(failed)?;
        nvml.device_by_pci_bus_id(pci_bus_id).map_err(failed)?;
        Ok(Self { nvml, pci_bus_id: pci_bus_id.to_owned() })
    }

    /// Driver version: `580.159.04`.
    pub fn driver_version(&self) -> Option<String> {
        self.nvml.sys_driver_version().ok()
    }

    /// Reads every sensor now.
    pub fn reading(&self) -> SensorReading {
        let Ok(device) = self.nvml.device_by_pci_bus_id(self.pci_bus_id.as_str()) else {
            return SensorReading::default();
        };
        let processes = device.running_compute_processes().ok();
        SensorReading {
            sm_clock_mhz: device.clock_info(Clock::SM).ok(),
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

/// Counts the `processes` other than `own`; `None` if `own` is missing from a non-empty list. NVML
/// may use the host's process numbers, under which a process in a container cannot recognise
/// itself.
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
    fn reasons_have_names_and_idling_is_none() {
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
