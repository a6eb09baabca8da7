//! How much one problem costs a kernel compared with another, by what both ask of an SM. Ratios
//! only: the kernel's measured time for one of them gives the other.
//!
//! **Quantisation.** A block computes its whole tile, also where C ends before it does, and an SM
//! that has one block more than the others makes them wait. So work is counted in tiles, and time
//! in the blocks of the SM that has most; where the last tiles are shared, all SMs have as much.
//!
//! **Pipes.** A thread with `t` sums does `t` multiply-adds and loads `2 sqrt(t)` operands a step of
//! K, two at a time, which shares the issue of instructions with them. A block that is alone on its SM is
//! bound by latency instead: 30 clocks from a load to its use, or 1.5 clocks an instruction
//! ([`crate::measure::modelled_time`] has the same).
//!
//! **How good.** Each of 20 winners of an H200 predicted from the others, the times are off by 5 % in
//! the mean and by 14 % at most for 9 in 10; the loads and the caution in `known.rs` were chosen on
//! these.
//!
//! **Few sums.** A warp's load of a word is 32 of the 32 that an SM serves in a clock, its
//! multiply-adds 32 of 128: with one sum a thread the loads take eight times as long. Vectors of up
//! to four words are one load.

use crate::model::{Device, Problem};
use crate::space::Footprint;

/// Clocks of a step of K in a thread that waits for its operands: the latency of shared memory.
const STEP_CLOCKS: f64 = 30.0;

/// Clocks between two instructions of a warp that is alone.
const CLOCKS_AN_INSTRUCTION: f64 = 1.5;

/// Threads whose loads an SM serves in a clock, and words that a load brings at most.
const LOAD_LANES: f64 = 32.0;
const WORDS_A_LOAD: f64 = 4.0;

/// What is known of a kernel that its cost hangs on.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// `None` for a grid that says nothing: cost is then proportional to the operations.
    footprint: Option<Footprint>,
    /// Blocks that an SM holds at once.
    resident: f64,
    sms: f64,
    lanes: f64,
}

impl Cost {
    /// `occupancy` is the share of an SM's threads that are resident, where it is known.
    pub fn new(footprint: Option<Footprint>, occupancy: Option<f64>, device: &Device) -> Self {
        let threads = footprint.map_or(256, |footprint| footprint.threads).max(1) as f64;
        // Where nobody measured it, half of an SM: what 64 registers a thread give.
        let share = occupancy.unwrap_or(0.5);
        let resident = (share * f64::from(device.threads_per_sm) / threads).round().max(1.0);
        let lanes = f64::from(device.compute_capability.f32_lanes());
        Self { footprint, resident, sms: f64::from(device.sms.max(1)), lanes }
    }

    /// The same kernel on another device.
    pub fn on(&self, device: &Device, occupancy: Option<f64>) -> Self {
        Self::new(self.footprint, occupancy, device)
    }

    /// Clocks of the busiest SM.
    pub fn clocks(&self, problem: &Problem) -> f64 {
        let Some(footprint) = self.footprint else {
            return problem.operations() / 2.0 / self.lanes / self.sms;
        };
        let share = footprint.work(&problem.shape, problem.batch) as f64 / self.sms;
        let steps = problem.shape.k.min(footprint.slice_k) as f64;
        let (_, busy, alone) = self.parts();
        if footprint.wave > 1 {
            return share * steps * busy.max(alone / self.resident);
        }
        let share = share.ceil();
        (share * steps * busy).max((share / self.resident).ceil() * steps * alone)
    }

    /// Blocks that an SM holds; its clocks for a block and a step of K when it has enough of them, and
    /// when it has one.
    pub fn parts(&self) -> (u64, f64, f64) {
        let Some(footprint) = self.footprint else { return (1, 1.0 / self.lanes, 0.0) };
        let sums = (footprint.tile_m * footprint.tile_n) as f64;
        let own = (sums / footprint.threads as f64).max(1.0);
        let instructions = own + own.sqrt();
        let multiplying = sums / self.lanes * (instructions / own);
        let loads = 2.0 * (own.sqrt() / WORDS_A_LOAD).max(1.0);
        let loading = footprint.threads as f64 * loads / LOAD_LANES;
        let alone = (CLOCKS_AN_INSTRUCTION * instructions).max(STEP_CLOCKS);
        // The blocks of one tile share its K.
        let sharing = footprint.fixed.max(1) as f64;
        (self.resident as u64, multiplying.max(loading) / sharing, alone / sharing)
    }

    /// Whether a launch can have the blocks that the problem needs.
    pub fn fits(&self, problem: &Problem) -> bool {
        self.footprint
            .is_none_or(|footprint| footprint.blocks(&problem.shape, 1) <= i32::MAX as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dtype;

    fn clocks(tile: u64, threads: u64, shape: &str) -> f64 {
        clocks_in_waves(tile, threads, 1, shape)
    }

    fn clocks_in_waves(tile: u64, threads: u64, wave: u64, shape: &str) -> f64 {
        let footprint =
            Footprint { tile_m: tile, tile_n: tile, slice_k: u64::MAX, fixed: 1, wave, threads };
        let cost = Cost::new(Some(footprint), Some(0.25), &Device::h200());
        cost.clocks(&Problem::new(shape.parse().unwrap(), Dtype::F32))
    }

    #[test]
    fn a_shared_tail_saves_what_sms_would_wait() {
        // 400 tiles on 132 SMs: 4 for some, 3.03 for each when the last are shared.
        let saved =
            clocks_in_waves(128, 256, 264, "2560x2560x512") / clocks(128, 256, "2560x2560x512");
        assert!((saved - 400.0 / 132.0 / 4.0).abs() < 1e-9, "{saved}");
        let whole = clocks(128, 256, "1408x1536x512");
        assert!((clocks_in_waves(128, 256, 264, "1408x1536x512") / whole - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_problem_costs_its_tiles_and_its_waves() {
        // 132 SMs: 11 x 12 tiles of 128 are one each, one column more is another for some.
        let full = clocks(128, 256, "1408x1536x512");
        assert_eq!(clocks(128, 256, "1300x1500x512"), full, "edges cost whole tiles");
        assert!(clocks(128, 256, "1408x1537x512") >= 1.5 * full, "one block more, a second wave");
        assert!((clocks(128, 256, "1408x1536x1024") / full - 2.0).abs() < 1e-9);
        assert_eq!(clocks(128, 256, "1x1x512"), clocks(128, 256, "128x128x512"));
    }

    #[test]
    fn small_tiles_win_small_problems_and_lose_large_ones() {
        assert!(clocks(32, 64, "256x256x1024") < clocks(128, 256, "256x256x1024"));
        assert!(clocks(32, 64, "8192x8192x1024") > clocks(128, 256, "8192x8192x1024"));
    }
}
