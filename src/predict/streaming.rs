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

use super::analytic::Parts;
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
    /// Blocks for each SM, in the mean.
    pub(super) share: f64,
    /// Blocks that an SM holds at once.
    pub(super) resident: f64,
    /// Steps of K of a block, and its rounds of loads.
    pub(super) steps: f64,
    pub(super) rounds: f64,
    /// Clocks of the SM that has most to do.
    pub(super) clocks: f64,
    /// What these are for.
    pub(super) shares: ClockShares,
}

/// Clocks of parts of the work over all clocks. The first two overlap.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ClockShares {
    /// Loads at the rate of those under way.
    pub(super) streaming: f64,
    /// The operands' way from memory.
    pub(super) moving: f64,
    /// Copies of the held operand.
    pub(super) copying: f64,
    pub(super) latency: f64,
}

impl StreamingCost {
    /// How often the busiest SM is filled with blocks.
    pub(super) fn waves(&self) -> f64 {
        (self.share.ceil() / self.resident).ceil()
    }

    /// Clocks in which a wave of blocks begins and ends.
    fn wave_clocks(&self) -> f64 {
        WAVE + DOUBLING * (self.block.threads_along_k as f64).log2() * self.sums
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
            share,
            resident,
            steps,
            rounds,
            clocks: 0.0,
            shares: ClockShares::default(),
        };
        (cost.clocks, cost.shares) = self.clocks(&cost, problem);
        Some(cost)
    }

    /// Bytes that memory brings an SM in a clock.
    fn bandwidth(&self) -> f64 {
        let sms = f64::from(self.device.sms.max(1));
        let clock_hz = 1e6 * f64::from(self.device.max_sm_clock_mhz.max(1));
        memory_bandwidth(&self.device).map_or(SOME_BYTES, |rate| rate / sms / clock_hz)
    }

    /// Clocks of an SM's f32 lanes and of its shared memory for a step of K of a block.
    fn computing(&self, cost: &StreamingCost, problem: &Problem) -> f64 {
        let lanes = f64::from(self.device.compute_capability.f32_lanes());
        let [rows, columns] = cost.block.tile.map(|extent| extent as f64);
        let lines = (cost.sums / Sides::of(&cost.block, problem).short).max(1.0);
        match problem.types.compute {
            Compute::F32 => rows * columns * (ISSUED / lanes + SHARED_READ / 32.0 / lines),
            // Tensor cores take little of the time.
            _ => 0.0,
        }
    }

    /// Clocks of the SM that has most to do, and what they are for.
    fn clocks(&self, cost: &StreamingCost, problem: &Problem) -> (f64, ClockShares) {
        let (block, bandwidth) = (&cost.block, self.bandwidth());
        let sms = f64::from(self.device.sms.max(1));
        let Sides { short, long, element } = Sides::of(block, problem);
        let busiest = cost.share.ceil();
        let under_way = cost.resident.min(busiest) * block.bytes_in_flight(element);
        let rate = (under_way / REPLACED).min(L2_RATE * bandwidth);
        let streaming = busiest * long * cost.steps * element / rate;
        let moving = least_traffic(problem, &self.device, CachePolicy::Rotate) / sms / bandwidth;
        let computing = busiest * cost.steps * self.computing(cost, problem);
        let overlapping = joined([streaming, moving, computing]);
        let copying = busiest * short * cost.steps * element / (COPY_RATE * bandwidth);
        let latency = cost.waves() * (cost.rounds * ROUND + cost.wave_clocks());
        let clocks = overlapping + copying + latency + self.adding_clocks(block);
        let [streaming, moving, copying, latency] =
            [streaming, moving, copying, latency].map(|part| part / clocks.max(1.0));
        (clocks, ClockShares { streaming, moving, copying, latency })
    }

    /// Clocks of the launch that adds up parts of K.
    fn adding_clocks(&self, block: &StreamedBlock) -> f64 {
        let clocks = ADDING_PARTS.0 * f64::from(self.device.max_sm_clock_mhz.max(1));
        if block.parts > 1 { clocks } else { 0.0 }
    }

    /// What the cost of a problem is made of besides bringing the operands from memory. Its wave has the launch that adds
    /// up parts of K.
    pub(super) fn parts(&self, cost: &StreamingCost, problem: &Problem) -> Parts {
        let (device, block, bandwidth) = (&self.device, &cost.block, self.bandwidth());
        let Sides { short, long, element } = Sides::of(block, problem);
        let in_flight = block.bytes_in_flight(element);
        let rate = (cost.resident * in_flight / REPLACED).min(L2_RATE * bandwidth);
        let moving = least_traffic(problem, device, CachePolicy::Rotate)
            / f64::from(device.sms.max(1))
            / bandwidth
            / (cost.share * cost.steps);
        let overlapping =
            joined([long * element / rate, moving, self.computing(cost, problem)]) - moving;
        Parts {
            resident: cost.resident as u64,
            busy: overlapping + short * element / (COPY_RATE * bandwidth),
            alone: long * element * REPLACED / in_flight + ROUND / block.span as f64,
            block: 0.0,
            wave: cost.wave_clocks() + self.adding_clocks(block),
            of_a: 0.0,
            of_b: 0.0,
        }
    }
}

/// Clocks of parts that overlap.
fn joined(parts: [f64; 3]) -> f64 {
    parts.map(|part| part.powi(3)).into_iter().sum::<f64>().cbrt()
}

/// A block's extents along the sides of C, and bytes of an element of the streamed operand.
#[derive(Debug, Clone, Copy)]
struct Sides {
    short: f64,
    long: f64,
    element: f64,
}

impl Sides {
    fn of(block: &StreamedBlock, problem: &Problem) -> Self {
        let [rows, columns] = block.tile.map(|extent| extent as f64);
        let GemmType { a, b, .. } = problem.types;
        if problem.shape.m <= problem.shape.n {
            Self { short: rows, long: columns, element: b.bytes() as f64 }
        } else {
            Self { short: columns, long: rows, element: a.bytes() as f64 }
        }
    }
}
