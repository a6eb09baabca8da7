//! Range of each sensor over the rounds of a final.

use serde::Serialize;

use crate::worker::DeviceConditions;

/// Lowest and highest value of each sensor; `None` for unreadable sensors.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ConditionsRange {
    /// SM clock.
    pub sm_clock_mhz: Option<[u32; 2]>,
    /// Power draw.
    pub power_w: Option<[f64; 2]>,
    /// Temperature.
    pub temperature_c: Option<[u32; 2]>,
    /// All throttle reasons that occurred, by NVML's names.
    pub throttle_reasons: Vec<String>,
    /// Maximum number of other processes with a compute context on the device.
    pub other_processes: Option<u32>,
}

impl ConditionsRange {
    /// Adds a reading.
    pub fn add(&mut self, reading: &DeviceConditions) {
        widen(&mut self.sm_clock_mhz, reading.sm_clock_mhz);
        widen(&mut self.power_w, reading.power_w);
        widen(&mut self.temperature_c, reading.temperature_c);
        for reason in reading.throttle_reasons.iter().flatten() {
            if !self.throttle_reasons.contains(reason) {
                self.throttle_reasons.push(reason.clone());
            }
        }
        self.other_processes = self.other_processes.max(reading.other_processes);
    }
}

fn widen<T: PartialOrd + Copy>(range: &mut Option<[T; 2]>, value: Option<T>) {
    let Some(value) = value else { return };
    let [low, high] = range.get_or_insert([value; 2]);
    if value < *low {
        *low = value;
    }
    if value > *high {
        *high = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extremes_are_kept_and_what_cannot_be_read_is_none() {
        let mut range = ConditionsRange::default();
        range.add(&DeviceConditions::default());
        assert_eq!(range, ConditionsRange::default());
        for (clock, power, reasons) in [(1980, 300.5, &[][..]), (1755, 690.0, &["power cap"])] {
            range.add(&DeviceConditions {
                sm_clock_mhz: Some(clock),
                temperature_c: None,
                power_w: Some(power),
                throttle_reasons: Some(reasons.iter().map(|reason| (*reason).into()).collect()),
                other_processes: Some(0),
            });
        }
        assert_eq!(range.sm_clock_mhz, Some([1755, 1980]));
        assert_eq!(range.power_w, Some([300.5, 690.0]));
        assert_eq!(range.temperature_c, None);
        assert_eq!(range.throttle_reasons, ["power cap"]);
        assert_eq!(range.other_processes, Some(0));
    }
}
