//! How much one problem costs a kernel compared with another, by what both ask of an SM. Ratios
//! only: the kernel's measured time for one of them gives the other.
//!
//! **Quantisation.** A block computes its whole tile, also where C ends before it does, and an SM
//! that has one block more than the others makes them wait. So work is counted in tiles, and time
//! in the blocks of the SM that has most; where the last tiles are shared, all SMs have as much.
//!
//! **Pipes.** A thread with `t` sums does `t` multiply-adds a step of K and what 3.6 √t more
//! instructions take, the loads of its fragments and its share of bringing the tiles. A block that is
//! alone on its SM is bound by latency instead: 39 clocks a step, or 1.1 clocks an instruction.
//!
//! **Besides.** Each tile is written, at 21 bytes a clock and SM, and read again where parts of K are
//! added up; each wave of blocks begins and ends, in 1600 clocks; packing reads and writes an operand at
//! 15 bytes a clock and SM; each launch after the first takes 1.4 µs.
//!
//! **Clusters.** Blocks of a cluster begin together, on SMs near to each other. Clusters of three and more leave SMs
//! unused ([`Device::clusters_at_once`]).
//!
//! **How good.** These seven numbers were fitted to 11,115 times of `pipelined` kernels for 79 problems
//! of 1 to 16384 rows and columns on an H200: half of the times are within 7 % of the model, nine in
//! ten within 19 %, without any knowledge of the kernel. A kernel's own time takes its own error out.
//!
//! **Few sums.** A warp's load of a word is 32 of the 32 that an SM serves in a clock, its
//! multiply-adds 32 of 128: with one sum a thread the loads take eight times as long. Vectors of up
//! to four words are one load.

use std::sync::Arc;

use super::streaming::{self, StreamingCost, StreamingModel};
use super::tensor_cores::{self, TensorCoreCost, TensorCoreModel};
use crate::model::{Configuration, Device, Micros, Problem};
use crate::space::{Family, StreamedWork, TensorCoreWork, Tiling, Work};

/// Clocks of a step of K in a thread that waits for its operands.
const STEP_CLOCKS: f64 = 39.0;

/// Clocks between two instructions of a warp that is alone.
const CLOCKS_AN_INSTRUCTION: f64 = 1.1;

/// Instructions of a step besides its multiply-adds, for the root of these.
const OTHER_INSTRUCTIONS: f64 = 3.6;

/// Threads whose loads an SM serves in a clock, and words that a load brings at most.
const LOAD_LANES: f64 = 32.0;
const WORDS_A_LOAD: f64 = 4.0;

/// Bytes of C that an SM writes in a clock, and of an operand that it packs: reads and writes.
const STORED_A_CLOCK: f64 = 21.4;
const PACKED_A_CLOCK: f64 = 15.3;

/// Clocks in which a wave of blocks begins and ends.
const WAVE_CLOCKS: f64 = 1600.0;

/// What a launch takes that does nothing, and each after the first.
const LAUNCH: Micros = Micros(2.0);
const NEXT_LAUNCH: Micros = Micros(1.4);

/// What is known of a kernel that its cost hangs on.
#[derive(Debug, Clone)]
pub struct CostModel {
    /// Without a tiling, the cost is proportional to the operations.
    work: Work,
    /// The model of a kernel that has one of its own kind.
    own: Option<OwnModel>,
    /// Blocks that an SM holds at once.
    resident: f64,
    all_sms: f64,
    /// SMs that its clusters fill.
    sms: f64,
    lanes: f64,
    /// Computed once: lookup compares many kernels in a microsecond.
    parts: Parts,
}

/// Model of a kernel that is not bound by the pipes of an SM's f32 lanes.
#[derive(Debug, Clone, PartialEq)]
enum OwnModel {
    /// It streams an operand.
    Streaming(Arc<StreamingModel>),
    /// It multiplies by tensor cores.
    TensorCores(Arc<TensorCoreModel>),
}

/// How such a kernel does a problem.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum OwnCost {
    /// It streams an operand.
    Streaming(StreamingCost),
    /// It multiplies by tensor cores.
    TensorCores(TensorCoreCost),
}

impl OwnCost {
    /// Clocks of the busiest SM.
    pub(super) fn clocks(&self) -> f64 {
        match self {
            Self::Streaming(cost) => cost.clocks,
            Self::TensorCores(cost) => cost.clocks,
        }
    }
}

impl OwnModel {
    fn of(
        (family, configuration): (&Family, &Configuration),
        pattern: &Problem,
        device: &Device,
    ) -> Option<Self> {
        if let Some(work) = StreamedWork::of(family, configuration, pattern, device) {
            return Some(Self::Streaming(Arc::new(StreamingModel::new(work, device))));
        }
        let work = TensorCoreWork::of(family, configuration, pattern, device)?;
        Some(Self::TensorCores(Arc::new(TensorCoreModel::new(work, device))))
    }

    fn on(&self, device: &Device) -> Self {
        match self {
            Self::Streaming(model) => Self::Streaming(Arc::new(model.on(device))),
            Self::TensorCores(model) => Self::TensorCores(Arc::new(model.on(device))),
        }
    }

    fn cost(&self, problem: &Problem) -> Option<OwnCost> {
        match self {
            Self::Streaming(model) => model.cost(problem).map(OwnCost::Streaming),
            Self::TensorCores(model) => model.cost(problem).map(OwnCost::TensorCores),
        }
    }

    fn launch(&self) -> Micros {
        match self {
            Self::Streaming(_) => streaming::LAUNCH,
            Self::TensorCores(_) => tensor_cores::LAUNCH,
        }
    }
}

/// What a kernel's cost is made of, in clocks of an SM.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parts {
    /// Blocks that an SM holds at once.
    pub resident: u64,
    /// For a block and a step of K, when the SM has enough of them.
    pub busy: f64,
    /// The same when it has one.
    pub alone: f64,
    /// For a block besides.
    pub block: f64,
    /// For each time that an SM is filled with blocks.
    pub wave: f64,
    /// For each element of A that is packed.
    pub of_a: f64,
    /// For each of B.
    pub of_b: f64,
}

/// How a kernel deals out a problem, in numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dealt {
    /// Rows and columns of C that a block computes.
    pub tile: [f64; 2],
    /// Threads of a block.
    pub threads: f64,
    /// The share of its tiles' rows and columns that C has.
    pub filled: [f64; 2],
    /// Blocks for each SM, in the mean.
    pub share: f64,
    /// How often the busiest SM is filled with blocks.
    pub waves: f64,
    /// Steps of K of a block.
    pub steps: f64,
    /// Blocks that share the K of a tile.
    pub parts: f64,
}

impl CostModel {
    /// Of a configuration, for problems that are like `pattern` but for their extents.
    pub fn of(
        (family, configuration): (&Family, &Configuration),
        pattern: &Problem,
        (device, occupancy): (&Device, Option<f64>),
    ) -> Self {
        let work = Work::of(family, configuration, pattern, device);
        let own = OwnModel::of((family, configuration), pattern, device);
        Self { own, ..Self::new(work, occupancy, device) }
    }

    /// `occupancy` is the share of an SM's threads that are resident, where it is known.
    pub fn new(work: Work, occupancy: Option<f64>, device: &Device) -> Self {
        let threads = work.tiling.map_or(256, |tiling| tiling.threads).max(1) as f64;
        let of_occupancy =
            |share: f64| (share * f64::from(device.threads_per_sm) / threads).round().max(1.0);
        let resident = match (occupancy, work.resident) {
            (Some(share), _) => of_occupancy(share),
            (None, Some(declared)) => declared.max(1) as f64,
            // Half of an SM: what 64 registers a thread give.
            (None, None) => of_occupancy(0.5),
        };
        let lanes = f64::from(device.compute_capability.f32_lanes());
        let all_sms = f64::from(device.sms.max(1));
        let parts = Parts::of(work, resident, (all_sms, lanes));
        let sms = device.sms_with_clusters(work.cluster.unwrap_or(1), resident as u64);
        Self { work, own: None, resident, all_sms, sms, lanes, parts }
    }

    /// The same kernel on another device.
    pub fn on(&self, device: &Device, occupancy: Option<f64>) -> Self {
        let own = self.own.as_ref().map(|model| model.on(device));
        Self { own, ..Self::new(self.work, occupancy, device) }
    }

    /// How a kernel with a model of its own kind does a problem; `None` for others, and where the family cannot say.
    pub(super) fn own(&self, problem: &Problem) -> Option<OwnCost> {
        self.own.as_ref()?.cost(problem)
    }

    /// How a kernel that streams an operand does a problem, and what its cost is made of.
    pub(super) fn streaming(&self, problem: &Problem) -> Option<(StreamingCost, Parts)> {
        let Some(OwnModel::Streaming(model)) = &self.own else { return None };
        let cost = model.cost(problem)?;
        Some((cost, model.parts(&cost, problem)))
    }

    /// The blocks' share of C and K, where the family declares it.
    pub(super) fn tiling(&self) -> Option<Tiling> {
        self.work.tiling
    }

    /// Clocks of the busiest SM.
    pub fn clocks(&self, problem: &Problem) -> f64 {
        if let Some(cost) = self.own(problem) {
            return cost.clocks();
        }
        let (parts, shape) = (&self.parts, problem.shape);
        let packed =
            parts.of_a * (shape.m * shape.k) as f64 + parts.of_b * (shape.k * shape.n) as f64;
        packed * problem.batch as f64 + self.computing(problem, parts)
    }

    /// What starting its launches takes.
    pub fn launching(&self) -> Micros {
        if let Some(own) = &self.own {
            return own.launch();
        }
        Micros(LAUNCH.0 + NEXT_LAUNCH.0 * f64::from(self.work.more_launches))
    }

    /// The time for a problem on a device with so many clocks in a microsecond.
    pub fn time(&self, problem: &Problem, clock_mhz: u32) -> Micros {
        Micros(self.launching().0 + self.clocks(problem) / f64::from(clock_mhz.max(1)))
    }

    /// How the problem is dealt out; nothing where the grid says nothing.
    pub fn dealt(&self, problem: &Problem) -> Option<Dealt> {
        let (tiling, shape) = (self.work.tiling?, problem.shape);
        let filled = |extent: u64, tile: u64| {
            extent as f64 / extent.div_ceil(tile).saturating_mul(tile).max(1) as f64
        };
        let share = tiling.work(&shape, problem.batch) as f64 / self.sms;
        let parts = tiling.blocks_per_tile.max(1) as f64;
        Some(Dealt {
            tile: [tiling.tile_m as f64, tiling.tile_n as f64],
            threads: tiling.threads as f64,
            filled: [filled(shape.m, tiling.tile_m), filled(shape.n, tiling.tile_n)],
            share,
            waves: (share.ceil() / self.resident).ceil(),
            steps: shape.k.min(tiling.slice_k) as f64 / parts,
            parts,
        })
    }

    fn computing(&self, problem: &Problem, parts: &Parts) -> f64 {
        let Some(tiling) = self.work.tiling else {
            return problem.operations() / 2.0 / self.lanes / self.sms;
        };
        let share = tiling.work(&problem.shape, problem.batch) as f64 / self.sms;
        let steps = problem.shape.k.min(tiling.slice_k) as f64;
        if tiling.wave > 1 {
            // All have as much to do, and one tile more to write for a part of each wave.
            let pace = parts.busy.max(parts.alone / self.resident);
            let waves = share / self.resident + 1.0;
            return share * steps * pace
                + (share + self.resident) * parts.block
                + waves * parts.wave;
        }
        let (share, waves) = (share.ceil(), (share.ceil() / self.resident).ceil());
        (share * steps * parts.busy).max(waves * steps * parts.alone)
            + share * parts.block
            + waves * parts.wave
    }

    /// SMs that hold no block, because clusters do not fill them.
    pub(super) fn unused_sms(&self) -> u64 {
        (self.all_sms - self.sms) as u64
    }

    /// What the cost is made of.
    pub fn parts(&self) -> Parts {
        self.parts
    }

    /// Whether a launch can have the blocks that the problem needs.
    pub fn fits(&self, problem: &Problem) -> bool {
        let tiling = self.work.tiling;
        tiling.is_none_or(|tiling| tiling.blocks(&problem.shape, 1) <= i32::MAX as u64)
    }
}

impl Parts {
    fn of(work: Work, resident: f64, (sms, lanes): (f64, f64)) -> Self {
        let packing = |bytes: f64| 2.0 * bytes / PACKED_A_CLOCK / sms;
        let [a_bytes, b_bytes, c_bytes] = work.workspace_bytes;
        let (of_a, of_b) = (packing(a_bytes), packing(b_bytes));
        let Some(tiling) = work.tiling else {
            let busy = 1.0 / lanes;
            return Self { resident: 1, busy, alone: 0.0, block: 0.0, wave: 0.0, of_a, of_b };
        };
        let sums = (tiling.tile_m * tiling.tile_n) as f64;
        let own = (sums / tiling.threads as f64).max(1.0);
        let instructions = own + OTHER_INSTRUCTIONS * own.sqrt();
        let multiplying = sums / lanes * (instructions / own);
        let loads = 2.0 * (own.sqrt() / WORDS_A_LOAD).max(1.0);
        let loading = tiling.threads as f64 * loads / LOAD_LANES;
        let alone = (CLOCKS_AN_INSTRUCTION * instructions).max(STEP_CLOCKS);
        // The blocks of one tile share its K.
        let sharing = tiling.blocks_per_tile.max(1) as f64;
        let times_stored = if c_bytes > 0.0 || tiling.wave > 1 { 2.0 } else { 1.0 };
        Self {
            resident: resident as u64,
            busy: multiplying.max(loading) / sharing,
            alone: alone / sharing,
            block: 4.0 * sums / STORED_A_CLOCK * times_stored,
            wave: WAVE_CLOCKS,
            of_a,
            of_b,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dtype;
    use crate::space::Tiling;

    /// Blocks of one square tile each, which take all of K.
    fn square(tile: u64, threads: u64) -> Tiling {
        Tiling {
            tile_m: tile,
            tile_n: tile,
            slice_k: u64::MAX,
            blocks_per_tile: 1,
            wave: 1,
            threads,
        }
    }

    fn clocks(tile: u64, threads: u64, shape: &str) -> f64 {
        clocks_in_waves(tile, threads, 1, shape)
    }

    fn clocks_in_waves(tile: u64, threads: u64, wave: u64, shape: &str) -> f64 {
        let tiling = Tiling { wave, ..square(tile, threads) };
        let work = Work { tiling: Some(tiling), ..Work::default() };
        let cost = CostModel::new(work, Some(0.25), &Device::h200());
        cost.clocks(&Problem::new(shape.parse().unwrap(), Dtype::F32))
    }

    #[test]
    fn a_shared_tail_saves_what_sms_would_wait() {
        // 400 tiles on 132 SMs: 4 for some, 3.03 for each when the last are shared.
        let saved =
            clocks_in_waves(128, 256, 264, "2560x2560x8192") / clocks(128, 256, "2560x2560x8192");
        assert!((saved - 400.0 / 132.0 / 4.0).abs() < 0.02, "{saved}");
        // Where nobody waits, the sum over the parts is for nothing.
        let whole = clocks(128, 256, "1408x1536x512");
        assert!(clocks_in_waves(128, 256, 264, "1408x1536x512") > whole);
    }

    #[test]
    fn a_problem_costs_its_tiles_and_its_waves() {
        // 132 SMs: 11 x 12 tiles of 128 are one each, one column more is another for some.
        let full = clocks(128, 256, "1408x1536x512");
        assert_eq!(clocks(128, 256, "1300x1500x512"), full, "edges cost whole tiles");
        assert!(clocks(128, 256, "1408x1537x512") >= 1.5 * full, "one block more, a second wave");
        let twice_as_deep = clocks(128, 256, "1408x1536x1024") / full;
        assert!(twice_as_deep > 1.9 && twice_as_deep < 2.0, "{twice_as_deep}");
        assert_eq!(clocks(128, 256, "1x1x512"), clocks(128, 256, "128x128x512"));
    }

    #[test]
    fn clusters_begin_another_wave_before_all_sms_are_full() {
        let device = Device::h200();
        let tiling = Tiling { blocks_per_tile: 3, ..square(64, 64) };
        let dealt = |cluster, shape: &str| {
            let work = Work {
                tiling: Some(tiling),
                resident: Some(6),
                cluster: Some(cluster),
                ..Work::default()
            };
            let problem = Problem::new(shape.parse().unwrap(), Dtype::F32);
            CostModel::new(work, None, &device).dealt(&problem).unwrap()
        };
        // 248 clusters of three run at once: of 6 blocks per SM 264 would, if they filled all SMs.
        let found = ["1984x512x1000", "1024x1024x1000"].map(|shape| dealt(3, shape).waves);
        assert_eq!(found, [1.0, 2.0]);
        assert_eq!(dealt(1, "1024x1024x1000").waves, 1.0);
    }

    #[test]
    fn packing_costs_what_it_moves() {
        let device = Device::h200();
        let tiling = square(128, 128);
        let plain = Work { tiling: Some(tiling), ..Work::default() };
        let problem = Problem::new("4096x4096x1024".parse().unwrap(), Dtype::F32);
        let clocks = |work| CostModel::new(work, Some(0.125), &device).clocks(&problem);
        let packing = Work { more_launches: 1, workspace_bytes: [4.0, 0.0, 0.0], ..plain };
        // 16 MiB are read and written.
        let took = (clocks(packing) - clocks(plain)) / 1980.0;
        assert!((took - 8.3).abs() < 0.3, "{took} us");
    }

    #[test]
    fn small_tiles_win_small_problems_and_lose_large_ones() {
        assert!(clocks(32, 64, "256x256x1024") < clocks(128, 256, "256x256x1024"));
        assert!(clocks(32, 64, "8192x8192x1024") > clocks(128, 256, "8192x8192x1024"));
    }
}
