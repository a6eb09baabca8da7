//! Cost of kernels that multiply tiles by tensor cores from a ring of stages in shared memory.
//!
//! The busiest SM takes, for each of its tiles, the steps of K, the store, and 580 clocks in which a ring fills and a tile
//! ends. A step is joined from four parts that overlap, by the root of the sum of their fourth powers:
//!
//! - **Products**, at the peak rate over 1.21: under this load the clock falls.
//! - **Shared memory** that instructions read, 128 bytes a clock.
//! - **Copies** of cache lines into the ring, 48.8 bytes a clock.
//! - **Latency**: a turn of the ring takes 3,030 clocks, so that each stage of each block of the SM waits for its share.
//!
//! Sums are stored at 17.9 bytes a clock, which takes 0.43 of that where another tile is multiplied meanwhile. All of it
//! overlaps with the memory, which brings operands and takes C at 0.96 of the data sheet's bandwidth. A launch takes 1.84 µs.
//! Another that adds up parts of K takes 3.9 µs, and moves the parts at 5.5 TB/s. One that lays out operands anew takes 0.67
//! µs, and moves them at 6.5 TB/s. Sums that meet in a cluster are read at the rate of copies, which is an assumption.
//!
//! The constants were fitted to 2,647 times of `wgmma` and `mma` kernels for 86 problems in bf16, tf32 and i8 on H200s. The
//! logarithm of measured over modelled time has a standard deviation of 10 % over the problems, and 12 % over the kernels of
//! one (docs/decisions/2026-11-26-tensor-core-cost.md).

use super::device_limits::memory_bandwidth;
use crate::model::{Device, Micros, Occupancy, Problem, Storage};
use crate::space::{Extents, Family, TensorCoreBlock, TensorCoreWork};

/// Error in per cent that nine in ten of the times which the constants were fitted to are within.
const ERROR_PERCENT: f64 = 28.0;

/// Error that nine in ten modelled times of a family are within, on a device that constants were fitted for.
pub fn modelled_error_percent(family: &Family, device: &Device) -> Option<f64> {
    let is_known = family.feeds_tensor_cores() && memory_bandwidth(device).is_some();
    is_known.then_some(ERROR_PERCENT)
}

/// Time of an empty launch.
pub(super) const LAUNCH: Micros = Micros(1.84);

/// Launches that add up parts of K and that lay out operands anew, and the bytes that they move in a microsecond.
const ADDING_PARTS: Micros = Micros(3.94);
const PART_BYTES: f64 = 5.54e6;
const PACKING: Micros = Micros(0.67);
const PACKED_BYTES: f64 = 6.45e6;

/// Time of products over that at the peak rate.
const THROTTLED: f64 = 1.206;

/// Bytes that an SM reads from shared memory, copies into it, and stores, in a clock.
const SHARED_BYTES: f64 = 128.0;
const COPIED_BYTES: f64 = 48.8;
const STORED_BYTES: f64 = 17.9;

/// Clocks of a turn of the ring, and of a tile besides its steps and its store.
const TURN: f64 = 3032.0;
const TILE_ENDS: f64 = 580.0;

/// Share of a store that is not hidden by the products of another tile.
const BESIDE: f64 = 0.425;

/// Share of the data sheet's bandwidth that is reached, and bytes in a clock and SM where it is not known.
const REACHED: f64 = 0.96;
const SOME_BYTES: f64 = 18.4;

/// Bytes of a sum of a part of K.
const PART: f64 = 4.0;

/// A kernel of tensor cores on a device.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TensorCoreModel {
    work: TensorCoreWork,
    device: Device,
}

/// How it does one problem.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TensorCoreCost {
    pub(super) block: TensorCoreBlock,
    /// Share of the rows and columns of tiles that C has.
    pub(super) filled: [f64; 2],
    /// Tiles for each SM in the mean, and of the SM that has most.
    pub(super) share: f64,
    pub(super) busiest: f64,
    /// Blocks that an SM holds at once.
    pub(super) resident: f64,
    /// Clocks of a stage that its products, its reads of shared memory, its copies and the latency take each.
    pub(super) stage: [f64; 4],
    /// Stages of a tile.
    pub(super) stages: f64,
    /// Clocks that a store takes.
    pub(super) store: f64,
    /// Clocks of all, besides an empty launch.
    pub(super) clocks: f64,
}

impl TensorCoreModel {
    pub(super) fn new(work: TensorCoreWork, device: &Device) -> Self {
        Self { work, device: device.clone() }
    }

    /// The same kernel on another device.
    pub(super) fn on(&self, device: &Device) -> Self {
        Self { work: self.work.clone(), device: device.clone() }
    }

    /// The cost of a problem; `None` where the kernel has none, as one that is not legal for it.
    pub(super) fn cost(&self, problem: &Problem) -> Option<TensorCoreCost> {
        let device = &self.device;
        let block = self.work.block(problem, &Extents::new(problem, &Storage::packed(problem)))?;
        let sms = f64::from(device.sms.max(1));
        let fitting = Occupancy::of(&block.needs, device).blocks_per_sm.max(1);
        let slots = match block.wave.filter(|_| block.persistent) {
            Some(wave) => wave as f64,
            None => device.sms_with_clusters(block.cluster, fitting),
        };
        let busiest = (block.blocks as f64 / slots).ceil();
        let fitting = fitting as f64;
        let resident = if block.persistent { 1.0 } else { fitting.min(busiest) };
        let [rows, columns] = block.tile.map(|extent| extent as f64);
        let products = rows * columns * block.step as f64 / products_per_clock(problem, device);
        let parts_are_stored = block.parts > 1 && block.exchanged == 0;
        let sum_bytes = if parts_are_stored { PART } else { problem.types.d.bytes() as f64 };
        // In a cluster, each block stores a share of the tile.
        let sharing = if parts_are_stored { 1.0 } else { block.parts as f64 };
        let mut cost = TensorCoreCost {
            block,
            filled: [
                filled(problem.shape.m, block.tile[0]),
                filled(problem.shape.n, block.tile[1]),
            ],
            share: block.blocks as f64 / sms,
            busiest,
            resident,
            stage: [
                THROTTLED * products,
                block.read as f64 / SHARED_BYTES,
                block.copied as f64 / COPIED_BYTES,
                TURN / block.stages as f64 / resident,
            ],
            stages: problem.shape.k.div_ceil(block.step) as f64 / block.parts as f64,
            store: rows * columns * sum_bytes / STORED_BYTES / sharing
                + block.exchanged as f64 / COPIED_BYTES,
            clocks: 0.0,
        };
        cost.clocks = self.clocks(&cost, problem);
        Some(cost)
    }

    fn clocks(&self, cost: &TensorCoreCost, problem: &Problem) -> f64 {
        let (device, block) = (&self.device, &cost.block);
        let clock_mhz = f64::from(device.max_sm_clock_mhz.max(1));
        let sms = f64::from(device.sms.max(1));
        let stage = joined(&cost.stage);
        let (store, ends) = match block.tiles_at_once {
            0 | 1 => (cost.store, cost.busiest),
            _ => (BESIDE * cost.store, 1.0),
        };
        let computing = cost.busiest * (cost.stages * stage + store) + ends * TILE_ENDS;
        let bandwidth =
            memory_bandwidth(device).map_or(SOME_BYTES * sms, |rate| rate / clock_mhz / 1e6);
        let bytes: u64 = problem.operand_bytes().into_iter().sum();
        let moving = bytes as f64 / (REACHED * bandwidth);
        let mut besides = 0.0;
        if block.parts > 1 && block.exchanged == 0 {
            let moved = 2.0 * PART * problem.c_elements() as f64 * block.parts as f64;
            besides += ADDING_PARTS.0 + moved / PART_BYTES;
        }
        if block.packed > 0 {
            besides += PACKING.0 + 2.0 * block.packed as f64 / PACKED_BYTES;
        }
        joined(&[computing, moving]) + besides * clock_mhz
    }
}

/// Products that an SM computes in a clock: of tensor cores where the peak rate of the type is known.
fn products_per_clock(problem: &Problem, device: &Device) -> f64 {
    let clocks = f64::from(device.sms.max(1)) * f64::from(device.max_sm_clock_mhz.max(1)) * 1e6;
    let peak = device.peak(problem).map(|peak| peak.0 * 1e12 / 2.0 / clocks);
    peak.unwrap_or_else(|| f64::from(device.compute_capability.f32_lanes())).max(1.0)
}

/// Times that overlap, the longest of which counts most.
fn joined(times: &[f64]) -> f64 {
    times.iter().map(|time| time.powi(4)).sum::<f64>().powf(0.25)
}

fn filled(extent: u64, tile: u64) -> f64 {
    extent as f64 / extent.div_ceil(tile).saturating_mul(tile).max(1) as f64
}
