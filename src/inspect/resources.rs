//! Resources of a kernel, occupancy, waves, and lower bounds of the time for the problem.

use indexmap::IndexMap;
use serde::Serialize;

use super::inspected::InspectedKernel;
use crate::compile::KernelResources;
use crate::model::{BlockNeeds, Limiter, Micros, Occupancy, Tflops};
use crate::predict::memory_bandwidth;

/// Resource figures of a kernel plan.
#[derive(Debug, Clone, PartialEq)]
pub struct ResourceFigures {
    /// Figures of each launch, in order.
    pub kernels: Vec<KernelFigures>,
    /// Operations per byte, where each operand moves once.
    pub flop_per_byte: f64,
    /// Operations per byte at which arithmetic and memory take equally long on the device; `None`
    /// where the device's peak or bandwidth is unknown.
    pub balance: Option<f64>,
    /// Arithmetic peak of the device for the problem.
    pub peak: Option<Tflops>,
    /// Time of the arithmetic at that peak.
    pub arithmetic_floor: Option<Micros>,
    /// Time of moving every operand once.
    pub memory_floor: Option<Micros>,
}

/// Resource figures of one launch.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelFigures {
    /// The kernel.
    pub entry: String,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Resources that the assembler reports.
    pub assembled: KernelResources,
    /// Bytes of dynamic shared memory per block.
    pub dynamic_shared_bytes: u32,
    /// Blocks per SM with their limiters.
    pub occupancy: Occupancy,
    /// Waves of the grid.
    pub waves: Option<Waves>,
}

/// Waves of a grid: a wave is as many blocks as the device holds at once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Waves {
    /// Blocks per wave.
    pub blocks: u64,
    /// Number of waves; the last one counts by its share.
    pub count: f64,
    /// Share of the last wave that is filled, above 0 to 1.
    pub tail: f64,
}

impl Waves {
    fn of(blocks: u64, at_once: u64) -> Option<Self> {
        let rest = blocks.checked_rem(at_once)?;
        let last = if rest == 0 { at_once } else { rest };
        Some(Self {
            blocks: at_once,
            count: blocks as f64 / at_once as f64,
            tail: last as f64 / at_once as f64,
        })
    }
}

/// Computes the figures from the assembler's report. A kernel that is not in the report uses no
/// resources.
pub fn figures(
    subject: &InspectedKernel,
    assembled: &IndexMap<String, KernelResources>,
) -> ResourceFigures {
    let (problem, device) = (&subject.problem, &subject.device);
    let kernels = subject.rendered.plan.kernels.iter().map(|launch| {
        let assembled = assembled.get(&launch.entry).copied().unwrap_or_default();
        let product = |extents: [u32; 3]| extents.iter().map(|extent| u64::from(*extent)).product();
        let (blocks, threads): (u64, u64) = (product(launch.grid), product(launch.block));
        let shared = u64::from(assembled.shared_bytes) + u64::from(launch.dynamic_shared_bytes);
        let registers = assembled.registers.into();
        let occupancy =
            Occupancy::of(&BlockNeeds { threads, registers, shared_bytes: shared }, device);
        KernelFigures {
            entry: launch.entry.clone(),
            grid: launch.grid,
            block: launch.block,
            assembled,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            waves: Waves::of(blocks, occupancy.blocks_per_sm * u64::from(device.sms)),
            occupancy,
        }
    });
    let peak = device.peak(problem);
    let bandwidth = memory_bandwidth(device);
    ResourceFigures {
        kernels: kernels.collect(),
        flop_per_byte: problem.operations() / problem.bytes() as f64,
        balance: peak.zip(bandwidth).map(|(peak, bandwidth)| peak.0 * 1e12 / bandwidth),
        peak,
        arithmetic_floor: peak.map(|peak| Micros(problem.operations() / peak.0 / 1e6)),
        memory_floor: bandwidth.map(|bandwidth| Micros(problem.bytes() as f64 / bandwidth * 1e6)),
    }
}

impl KernelFigures {
    /// Resources that an SM lacks for one more block.
    pub fn limiters(&self) -> Vec<Limiter> {
        self.occupancy.limiters().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_wave_may_be_a_tail() {
        for (blocks, at_once, expected) in [
            (264, 132, Some((2.0, 1.0))),
            (265, 132, Some((265.0 / 132.0, 1.0 / 132.0))),
            (66, 132, Some((0.5, 0.5))),
            (10, 0, None),
        ] {
            let waves = Waves::of(blocks, at_once).map(|waves| (waves.count, waves.tail));
            assert_eq!(waves, expected, "{blocks} of {at_once}");
        }
    }
}
