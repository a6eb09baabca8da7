//! Lower bound on kernel times. A shorter measurement is an error of computation or timing.

use super::device::Device;
use super::gemm_type::Compute;
use super::problem::Problem;
use super::units::Micros;

/// Factor by which a clock may exceed [`Device::max_sm_clock_mhz`], the rated boost clock from the
/// driver. An RTX 2060 rated at 1680 MHz ran at 1920 MHz (TechPowerUp's review of the Founders
/// Edition). A judgement with margin: a kernel that skips work is faster by orders of magnitude.
const CLOCK_HEADROOM: f64 = 1.5;

/// Returns the shortest possible time of `problem`'s arithmetic on `device`: its operations at the
/// peak rate of all SMs and 1.5 times the reported clock. Zero when no bound is known.
///
/// In binary32 each of the M N K fused multiply-adds occupies a lane of the FP32 pipes for a clock
/// (CUDA C++ Programming Guide, arithmetic throughput); products on tensor cores have the rates of
/// [`Device::peak`]. 32-bit integer products can be composed of 8-bit ones on tensor cores, and
/// emulated ones of several kinds: they have no bound. Bytes give no bound: operands in the L2 cache need not cross the memory bus, and neither bandwidth is known.
pub fn floor(problem: &Problem, device: &Device) -> Micros {
    let peak = match problem.types.compute {
        Compute::F32 | Compute::Tf32 | Compute::F16 | Compute::Bf16 | Compute::I8 => {
            device.peak(problem)
        }
        Compute::F32Emulated | Compute::I32 => None,
    };
    match peak {
        Some(peak) if peak.0 > 0.0 => {
            Micros(problem.operations() / (peak.0 * CLOCK_HEADROOM) / 1e6)
        }
        _ => Micros(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, GemmType, Shape};

    const SQUARE: Shape = Shape { m: 8192, n: 8192, k: 8192 };

    #[test]
    fn strict_f32_cannot_beat_its_pipes() {
        let problem = Problem::new(SQUARE, Dtype::F32);
        let floor = floor(&problem, &Device::h200());
        // 2 * 8192^3 operations at 66.9 TFLOP/s take 16.4 ms.
        assert!((floor.as_millis() * CLOCK_HEADROOM - 16.43).abs() < 0.01, "{floor}");
        let batched = Problem { batch: 3, ..problem };
        let times = super::floor(&batched, &Device::h200()).0 / floor.0;
        assert!((times - 3.0).abs() < 1e-9, "{times}");
    }

    #[test]
    fn the_floor_is_below_what_libraries_reach() {
        // cuBLASLt on an H200, as this project recorded it.
        for (m, n, k, us) in [(4096, 4096, 1024, 674.904), (33, 65, 129, 4.973)] {
            let problem = Problem::new(Shape { m, n, k }, Dtype::F32);
            let floor = floor(&problem, &Device::h200());
            assert!(floor < Micros(us), "{problem}: {floor}");
        }
    }

    #[test]
    fn the_floor_is_zero_where_no_bound_is_known() {
        let device = Device::h200();
        for compute in Compute::ALL {
            let types = GemmType { compute: *compute, ..GemmType::of(Dtype::F32) };
            let problem = Problem { types, ..Problem::new(SQUARE, Dtype::F32) };
            let is_free = matches!(compute, Compute::I32 | Compute::F32Emulated);
            assert_eq!(floor(&problem, &device).0 > 0.0, !is_free, "{compute}");
        }
        let clockless = Device { max_sm_clock_mhz: 0, ..device };
        assert_eq!(floor(&Problem::new(SQUARE, Dtype::F32), &clockless), Micros(0.0));
    }
}
