//! Modelled time of a kernel, from what it did on the `cpu` device. It is no measurement: it ranks kernels by their
//! load of an SM, and all output marks it as modelled. Where a learned model of the assumed GPU knows the family
//! ([`crate::predict::Predictor::time`]), the time is a mean of both ([`executed_time`]).
//!
//! **Throughput.** The blocks of an SM share four pipes, and take at least the time of the busiest:
//!
//! | pipe | what it serves in a clock |
//! |---|---|
//! | issue | 4 instructions of a warp |
//! | multiply-add | 4 `fma` of a warp (2 where an SM has 64 lanes) |
//! | shared memory | 1 wavefront: 128 bytes from 32 banks |
//! | first-level cache | 1 request, 4 sectors of global memory |
//!
//! **Latency.** A block takes at least the time of a warp that no other delays ([`crate::cpu::WarpClocks`]), with its
//! waits for global memory and its barriers. An SM holds as many blocks at once as registers, shared memory and threads
//! allow, and takes its share of the grid in such waves.
//!
//! **Memory.** The operands pass the device's memory once at least.
//!
//! Both times of an SM are joined by the root of their squares, and with the memory's time by that of their cubes: they
//! overlap in part. No constant of these was fitted. How good the times are: docs/decisions/2026-11-24-modelled-time.md.
//! Not modelled: tensor cores, misses in the caches, bank conflicts of registers, spills, and clocks that fall under load.

use serde::{Deserialize, Serialize};

use super::device_limits::memory_bandwidth;

use crate::cpu::{Counts, InstructionClass};
use crate::model::{BlockNeeds, Device, KernelLaunch, Micros, Occupancy, Problem};

/// Clocks of a barrier, of a wait for global memory (Luo et al. 2024 measured 480 to 740 on an H100), and of a block's
/// begin and end.
const BARRIER_CLOCKS: f64 = 40.0;
const GLOBAL_CLOCKS: f64 = 700.0;
const BLOCK_CLOCKS: f64 = 500.0;

/// Weight of a learned model's time in the mean with the modelled one, of their logarithms
/// (docs/decisions/2026-11-24-modelled-time.md).
const LEARNED_WEIGHT: f64 = 0.9;

/// Share of the data sheet's bandwidth that a copy reaches: 4.24 of 4.8 TB/s on an H200.
const REACHED_BANDWIDTH: f64 = 0.88;

/// Time of an empty launch in a graph, and of each further one.
const LAUNCH: Micros = Micros(2.0);
const NEXT_LAUNCH: Micros = Micros(1.4);

/// Launch, as far as it was executed.
#[derive(Debug, Clone)]
pub struct ExecutedLaunch<'a> {
    /// Its extents.
    pub launch: &'a KernelLaunch,
    /// Counts of its executed blocks.
    pub counts: &'a Counts,
    /// Registers of a thread.
    pub registers: u64,
    /// Bytes of shared memory of a block.
    pub shared_bytes: u64,
}

/// What a launch asks of an SM. Its model depends on nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LaunchLoad {
    /// Blocks of the grid.
    pub blocks: f64,
    /// Threads, registers of a thread, and bytes of shared memory of a block.
    pub needs: BlockNeeds,
    /// Instructions of the warps of a block.
    pub instructions: f64,
    /// Of these, fused multiply-adds of f32.
    pub fma: f64,
    /// Of these, matrix products, whose time is not modelled.
    #[serde(default)]
    pub matrix: f64,
    /// Wavefronts of shared memory of a block.
    pub wavefronts: f64,
    /// Requests of a block to global memory, and the sectors that they ask for.
    pub requests: f64,
    /// Sectors of these.
    pub sectors: f64,
    /// Barriers of a warp.
    pub barriers: f64,
    /// Clocks of a warp that is alone, and its waits for global memory.
    pub own: f64,
    /// Waits of a warp for global memory.
    pub waits: f64,
}

impl ExecutedLaunch<'_> {
    fn needs(&self) -> BlockNeeds {
        let threads = self.launch.block.iter().map(|extent| u64::from(*extent)).product();
        BlockNeeds { threads, registers: self.registers, shared_bytes: self.shared_bytes }
    }

    /// How an SM of the device is filled.
    pub fn occupancy(&self, device: &Device) -> Occupancy {
        Occupancy::of(&self.needs(), device)
    }

    /// What it asks of an SM.
    pub fn load(&self) -> LaunchLoad {
        let needs = self.needs();
        let executed = self.counts.blocks.max(1) as f64;
        let a_block = |count: u64| count as f64 / executed;
        let of = |class| a_block(self.counts.instructions.get(&class).copied().unwrap_or(0));
        let memory = |classes: &[InstructionClass],
                      figure: fn(&crate::cpu::MemoryCounts) -> u64| {
            a_block(classes.iter().map(|class| figure(&self.counts.of(*class))).sum())
        };
        use InstructionClass::{
            AsyncCopy, Atomic, Barrier, Fma, GlobalLoad, GlobalStore, Matrix, SharedLoad,
            SharedStore,
        };
        let global = [GlobalLoad, GlobalStore, AsyncCopy, Atomic];
        let warps = needs.threads.div_ceil(32) as f64;
        LaunchLoad {
            blocks: self.launch.grid.iter().map(|extent| f64::from(*extent)).product(),
            needs,
            instructions: a_block(self.counts.instructions.values().sum()),
            fma: of(Fma),
            matrix: of(Matrix),
            wavefronts: memory(&[SharedLoad, SharedStore, AsyncCopy, Atomic], |c| c.wavefronts),
            requests: memory(&global, |counts| counts.requests),
            sectors: memory(&global, |counts| counts.sectors),
            barriers: of(Barrier) / warps,
            own: self.counts.warp_clocks.own,
            waits: self.counts.warp_clocks.waits,
        }
    }
}

impl LaunchLoad {
    /// Clocks that the grid takes.
    fn clocks(&self, device: &Device) -> f64 {
        let lanes = f64::from(device.compute_capability.f32_lanes());
        let pipes = [
            self.instructions / 4.0,
            self.fma * 32.0 / lanes,
            self.wavefronts,
            self.requests.max(self.sectors / 4.0),
        ];
        let throughput = pipes.into_iter().fold(0.0, f64::max);
        let alone =
            self.own + self.waits * GLOBAL_CLOCKS + self.barriers * BARRIER_CLOCKS + BLOCK_CLOCKS;

        let share = (self.blocks / f64::from(device.sms)).ceil();
        let occupancy = Occupancy::of(&self.needs, device);
        let resident = (occupancy.blocks_per_sm.max(1) as f64).min(share);
        (share * throughput).hypot((share / resident).ceil() * alone)
    }
}

/// The time of launches one after the other that compute `problem`.
pub fn modelled_time(launches: &[LaunchLoad], problem: &Problem, device: &Device) -> Micros {
    let clocks: f64 = launches.iter().map(|launch| launch.clocks(device)).sum();
    let computing = clocks / f64::from(device.max_sm_clock_mhz);
    let moving = memory_bandwidth(device)
        .map_or(0.0, |rate| problem.bytes() as f64 / (REACHED_BANDWIDTH * rate) * 1e6);
    let further = launches.len().saturating_sub(1) as f64;
    let launching = LAUNCH.0 + NEXT_LAUNCH.0 * further;
    let [by_sms, by_memory] = [launching + computing, launching + moving];
    Micros((by_sms.powi(3) + by_memory.powi(3)).cbrt())
}

/// The time of launches whose family a learned model may know: `learned` says what it predicts. Both err in different
/// ways, so that their weighted geometric mean errs less. The learned time alone counts where launches use tensor cores.
pub fn executed_time(
    launches: &[LaunchLoad],
    problem: &Problem,
    device: &Device,
    learned: Option<Micros>,
) -> Micros {
    let modelled = || modelled_time(launches, problem, device);
    let Some(learned) = learned else { return modelled() };
    if launches.iter().any(|launch| launch.matrix > 0.0) {
        return learned;
    }
    Micros(learned.0.powf(LEARNED_WEIGHT) * modelled().0.powf(1.0 - LEARNED_WEIGHT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, STANDARD_ARGUMENTS};

    fn launch(grid: u32, threads: u32) -> KernelLaunch {
        KernelLaunch {
            entry: "gemm".to_owned(),
            grid: [grid, 1, 1],
            block: [threads, 1, 1],
            dynamic_shared_bytes: 0,
            programmatic: false,
            arguments: STANDARD_ARGUMENTS.to_vec(),
        }
    }

    /// The load of a kernel that does nothing but multiply and add, of 256 threads.
    fn load(grid: u32, fma_a_warp: u64, registers: u64) -> LaunchLoad {
        let counts = Counts {
            blocks: 1,
            instructions: [(InstructionClass::Fma, 8 * fma_a_warp)].into(),
            ..Counts::default()
        };
        let launch = launch(grid, 256);
        let executed =
            ExecutedLaunch { launch: &launch, counts: &counts, registers, shared_bytes: 0 };
        executed.load()
    }

    fn time(grid: u32, fma_a_warp: u64, registers: u64) -> Micros {
        let problem = Problem::new("64x64x64".parse().unwrap(), Dtype::F32);
        modelled_time(&[load(grid, fma_a_warp, registers)], &problem, &Device::h200())
    }

    #[test]
    fn a_kernel_of_multiply_adds_reaches_the_peak() {
        // 132 SMs, 8 blocks each, 8 warps a block, 2^20 fma a warp.
        let seconds = (time(132 * 8, 1 << 20, 32).0 - LAUNCH.0) / 1e6;
        let rate = 2.0 * 32.0 * f64::from(132 * 8 * 8) * f64::from(1 << 20) / seconds;
        assert!((rate / 66.9e12 - 1.0).abs() < 1e-3, "{rate}");
    }

    #[test]
    fn a_learned_time_is_joined_with_the_modelled_one_unless_tensor_cores_multiply() {
        let (device, problem) =
            (Device::h200(), Problem::new("64x64x64".parse().unwrap(), Dtype::F32));
        let load = load(132, 1 << 14, 32);
        let time = |load: LaunchLoad, learned| executed_time(&[load], &problem, &device, learned).0;
        let modelled = time(load, None);
        assert_eq!(modelled, modelled_time(&[load], &problem, &device).0);
        let mean = time(load, Some(Micros(1024.0 * modelled)));
        assert!((mean / (512.0 * modelled) - 1.0).abs() < 1e-9, "{mean} of {modelled}");
        let of_tensor_cores = LaunchLoad { matrix: 1.0, ..load };
        assert_eq!(time(of_tensor_cores, Some(Micros(7.0))), 7.0);
    }

    #[test]
    fn a_tail_costs_a_wave_and_few_warps_cost_latency() {
        assert!(time(133, 1 << 20, 32).0 > 1.9 * time(132, 1 << 20, 32).0 - 4.0);
        // 8 warps in an SM that holds no more: two clocks an instruction are as fast as the pipe.
        assert!(time(264, 1 << 20, 255).0 >= time(264, 1 << 20, 32).0);
    }
}
