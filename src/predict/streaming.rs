//! Cost of kernels that stream one operand past another that is held in shared memory, as those for a few rows or
//! columns of C do. Such a kernel is bound by memory or by latency, which the model of tiles does not know.
//!
//! An SM's time is the sum of four parts, the first of which is joined from three that overlap, by the root of the sum of
//! their cubes:
//!
//! - **Stream.** The operands pass the memory once, at the data sheet's bandwidth. What an SM's blocks stream arrives at
//!   the rate of the loads under way (Little's law), and at 1.8 times the SM's share of the bandwidth at most, from the
//!   L2 cache. In f32 a multiply-add takes 1.5 of its issue slots; each word of the held operand is read from shared
//!   memory for the lines that a thread has. Tensor cores take no time that counts.
//! - **Latency.** Each round of loads takes 440 clocks, and each wave of blocks 1430.
//! - **Held operand.** Each block copies its part, at 0.8 times the SM's share of the bandwidth.
//! - **Sums.** Threads that share K add their sums in shared memory, 15 clocks for each doubling and sum of a thread.
//!
//! A launch takes 1.0 µs, and the one that adds up parts of K another 1.56.
//!
//! The ten constants were fitted to 21,604 times of `skinny` for 48 problems on an H200. The mean logarithm of measured
//! over modelled time has a standard deviation of 8 % over the problems, and 15 % over the kernels of one
//! (docs/decisions/2026-11-24-streaming-cost.md).

use super::device_limits::{least_traffic, memory_bandwidth};
use crate::model::{CachePolicy, Compute, Device, GemmType, Micros, Occupancy, Problem, Storage};
use crate::space::{Extents, StreamedBlock, StreamedWork};

/// Time of an empty launch, and of the one that adds up parts of K.
pub(super) const LAUNCH: Micros = Micros(1.0);
const ADDING_PARTS: Micros = Micros(1.56);

/// Clocks after which the loads under way are replaced.
const REPLACED: f64 = 69.0;

/// Rate of the L2 cache, and of copies to shared memory, over that of the memory.
const L2_RATE: f64 = 1.8;
const COPY_RATE: f64 = 0.81;

/// Issue slots of a multiply-add, and clocks of 32 words that are read from shared memory.
const ISSUED: f64 = 1.53;
const SHARED_READ: f64 = 0.99;

/// Clocks of a round of loads, of a wave of blocks, and of each doubling of the threads that share K and each sum.
const ROUND: f64 = 442.0;
const WAVE: f64 = 1428.0;
const DOUBLING: f64 = 15.4;

/// Bytes of memory in a clock and SM where the device's bandwidth is not known: those of an H200.
const SOME_BYTES: f64 = 18.4;

/// A streaming kernel on a device.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StreamingModel {
    work: StreamedWork,
    device: Device,
}

/// How it does one problem.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct StreamingCost {
    pub(super) block: StreamedBlock,
    /// Elements of C that a thread computes.
    pub(super) sums: f64,
    /// Share of a block's rows and columns that C has.
    pub(super) filled: [f64; 2],
    /// Blocks for each SM, in the mean.
    pub(super) share: f64,
    /// Blocks that an SM holds at once.
    pub(super) resident: f64,
    /// Steps of K of a block, and its rounds of loads.
    pub(super) steps: f64,
    pub(super) rounds: f64,
    /// Clocks of the SM that has most to do.
    pub(super) clocks: f64,
}

impl StreamingCost {
    /// How often the busiest SM is filled with blocks.
    pub(super) fn waves(&self) -> f64 {
        (self.share.ceil() / self.resident).ceil()
    }
}

impl StreamingModel {
    pub(super) fn new(work: StreamedWork, device: &Device) -> Self {
        Self { work, device: device.clone() }
    }

    /// The same kernel on another device.
    pub(super) fn on(&self, device: &Device) -> Self {
        Self { work: self.work.clone(), device: device.clone() }
    }

    /// The cost of a problem; `None` where the kernel has none, as one that is not legal for it.
    pub(super) fn cost(&self, problem: &Problem) -> Option<StreamingCost> {
        let block = self.work.block(&Extents::new(problem, &Storage::packed(problem)))?;
        let (device, shape) = (&self.device, problem.shape);
        let [rows, columns] = block.tile;
        let tiles = [shape.m.div_ceil(rows), shape.n.div_ceil(columns)].map(|tiles| tiles as f64);
        let sms = f64::from(device.sms.max(1));
        let share = tiles[0] * tiles[1] * block.parts as f64 * problem.batch as f64 / sms;
        let resident = Occupancy::of(&block.needs, device).blocks_per_sm.max(1) as f64;
        let steps = shape.k as f64 / block.parts as f64;
        let rounds = (shape.k.div_ceil(block.span).div_ceil(block.parts)) as f64;
        let threads = block.needs.threads as f64;
        let sums = rows as f64 * columns as f64 * block.threads_along_k as f64 / threads;
        let mut cost = StreamingCost {
            block,
            sums: sums.max(1.0),
            filled: [
                shape.m as f64 / (tiles[0] * rows as f64),
                shape.n as f64 / (tiles[1] * columns as f64),
            ],
            share,
            resident,
            steps,
            rounds,
            clocks: 0.0,
        };
        cost.clocks = self.clocks(&cost, problem);
        Some(cost)
    }

    fn clocks(&self, cost: &StreamingCost, problem: &Problem) -> f64 {
        let (device, block, shape) = (&self.device, &cost.block, problem.shape);
        let sms = f64::from(device.sms.max(1));
        let clock_hz = 1e6 * f64::from(device.max_sm_clock_mhz.max(1));
        let bandwidth = memory_bandwidth(device).map_or(SOME_BYTES, |rate| rate / sms / clock_hz);
        let [rows, columns] = block.tile.map(|extent| extent as f64);
        let GemmType { a, b, .. } = problem.types;
        let (short, long) = if shape.m <= shape.n { (rows, columns) } else { (columns, rows) };
        let element = if shape.m <= shape.n { b } else { a }.bytes() as f64;
        let busiest = cost.share.ceil();
        let threads = block.needs.threads as f64;
        let under_way = cost.resident.min(busiest) * threads * block.in_flight as f64 * element;
        let rate = (under_way / REPLACED).min(L2_RATE * bandwidth);
        let streaming = busiest * long * cost.steps * element / rate;
        let moving = least_traffic(problem, device, CachePolicy::Rotate) / sms / bandwidth;
        let lanes = f64::from(device.compute_capability.f32_lanes());
        let lines = (cost.sums / short).max(1.0);
        let products = busiest * cost.steps * rows * columns;
        let computing = match problem.types.compute {
            Compute::F32 => products * (ISSUED / lanes + SHARED_READ / 32.0 / lines),
            // Tensor cores take little of the time.
            _ => 0.0,
        };
        let overlapping = (streaming.powi(3) + moving.powi(3) + computing.powi(3)).cbrt();
        let copying = busiest * short * cost.steps * element / (COPY_RATE * bandwidth);
        let doublings = (block.threads_along_k as f64).log2();
        let latency =
            cost.waves() * (cost.rounds * ROUND + WAVE + DOUBLING * doublings * cost.sums);
        let reducing = if block.parts > 1 { ADDING_PARTS.0 * clock_hz / 1e6 } else { 0.0 };
        overlapping + copying + latency + reducing
    }
}
