//! What the sensors showed over the rounds of a final: the range of each.

use serde::Serialize;

use crate::worker::DeviceConditions;

/// The lowest and the highest that each sensor showed; `None` for one that cannot be read.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ConditionsRange {
    /// The clock of the SMs.
    pub sm_clock_mhz: Option<[u32; 2]>,
    /// The power drawn.
    pub power_w: Option<[f64; 2]>,
    /// The temperature.
    pub temperature_c: Option<[u32; 2]>,
    /// All that held clocks down at some time, in NVML's words.
    pub throttle_reasons: Vec<String>,
    /// The most processes besides this one that computed on the device.
    pub other_processes: Option<u32>,
}

impl ConditionsRange {
    /// Takes a reading into account.
    pub fn take(&mut self, reading: &DeviceConditions) {
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
        range.take(&DeviceConditions::default());
        assert_eq!(range, ConditionsRange::default());
        for (clock, power, reasons) in [(1980, 300.5, &[][..]), (1755, 690.0, &["power cap"])] {
            range.take(&DeviceConditions {
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
