//! What a kernel takes of an SM, how its blocks fill the device, and the times below which no kernel
//! for the problem can be.

use indexmap::IndexMap;
use serde::Serialize;

use super::inspected::InspectedKernel;
use crate::compile::KernelResources;
use crate::model::{BlockNeeds, Limiter, Micros, Occupancy, Tflops};

/// The figures of a subject.
#[derive(Debug, Clone, PartialEq)]
pub struct ResourceFigures {
    /// Each launch, in order.
    pub kernels: Vec<KernelFigures>,
    /// Operations for every byte that must move at least once.
    pub flop_per_byte: f64,
    /// Operations that the device does in the time in which its memory gives a byte; `None` where
    /// one of the two is not known.
    pub balance: Option<f64>,
    /// The highest rate of the pipes that do the arithmetic.
    pub peak: Option<Tflops>,
    /// The time of the arithmetic at that rate.
    pub arithmetic_floor: Option<Micros>,
    /// The time of moving every operand's bytes once.
    pub memory_floor: Option<Micros>,
}

/// The figures of one launch.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelFigures {
    /// The kernel.
    pub entry: String,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// What a thread takes by the assembler's count.
    pub assembled: KernelResources,
    /// Bytes of dynamic shared memory of a block.
    pub dynamic_shared_bytes: u32,
    /// How many blocks an SM holds, and why not more.
    pub occupancy: Occupancy,
    /// How the grid passes through the device.
    pub waves: Option<Waves>,
}

/// A grid in turns of as many blocks as the device holds at once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Waves {
    /// Blocks that the device holds at once.
    pub blocks: u64,
    /// Turns, the last one counted by its share.
    pub count: f64,
    /// How much of the last turn's places are taken, above 0 to 1.
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

/// The figures of a subject, from what the assembler said of its kernels. What it said nothing of
/// takes nothing.
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
    let bandwidth = device.memory_bandwidth();
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
    /// What an SM has too little of for one more block.
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
