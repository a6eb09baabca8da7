//! What a configuration's grid is made of, found by asking its launch expressions: the tile of C
//! that a block computes, and the slice of K. No family or parameter is known by name.

use super::Family;
use super::family::Extent;
use crate::model::{Configuration, Device, Problem, Shape};

/// An extent that tiles of any usual size divide: 2^12 x 3 x 5 x 7.
const WIDE: u64 = 430_080;

/// Shapes of which what is found must be true too.
const PROBES: [(u64, u64, u64); 4] = [(1, 1, 1), (257, 1023, 65), (4096, 33, 4096), (1, 5000, 300)];

/// More SMs than tiles of one element are along [`WIDE`], the most that a question here has.
const BOUNDLESS: u32 = 1 << 20;

/// How the work of a problem is dealt out to blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Rows of C that a block computes.
    pub tile_m: u64,
    /// Columns of C.
    pub tile_n: u64,
    /// Steps of K that a block takes at most; `u64::MAX` where it takes all.
    pub slice_k: u64,
    /// Blocks of a problem of one tile, which share its K.
    pub fixed: u64,
    /// Blocks come in multiples of this. Where it is more than 1, the last so many share the tiles
    /// that are left when all before them had one each.
    pub wave: u64,
    /// Threads of a block.
    pub threads: u64,
}

impl Footprint {
    /// That of the first launch whose grid grows by tiles of C: what packs an operand or adds up
    /// partial sums does not. A kernel that loops over tiles with as many blocks as run at once is asked
    /// what it would do on a device that runs all of them at once: the same work, dealt out by the
    /// hardware. `None` where there is no such launch, as in a loop with a fixed number of blocks.
    pub fn of(
        family: &Family,
        configuration: &Configuration,
        pattern: &Problem,
        device: &Device,
    ) -> Option<Self> {
        let extents = |device: &Device, launch: usize, (m, n, k): (u64, u64, u64)| {
            let problem = Problem { shape: Shape { m, n, k }, batch: 1, ..*pattern };
            *family.extents(configuration, &problem, device).ok()?.get(launch)?
        };
        let launches = 0..family.kernels.len();
        let mut all = launches.clone();
        let found =
            all.find_map(|launch| Self::of_launch(|m, n, k| extents(device, launch, (m, n, k))));
        found.or_else(|| {
            let boundless = Device { sms: BOUNDLESS, ..device.clone() };
            let looping = |launch: usize| {
                let found = Self::of_launch(|m, n, k| extents(&boundless, launch, (m, n, k)))?;
                let most = extents(device, launch, (WIDE, WIDE, 1))?.blocks;
                let held_back = |(m, n, k)| {
                    let all = found.blocks(&Shape { m, n, k }, 1);
                    let blocks = extents(device, launch, (m, n, k)).map(|extent| extent.blocks);
                    blocks == Some(all.min(most))
                };
                (found.slice_k == u64::MAX && PROBES.into_iter().all(held_back)).then_some(found)
            };
            launches.clone().find_map(looping)
        })
    }

    fn of_launch(extent: impl Fn(u64, u64, u64) -> Option<Extent>) -> Option<Self> {
        let of_one_tile = extent(1, 1, 1)?.blocks;
        let found = Self::if_so(&extent, of_one_tile, 1);
        found.or_else(|| Self::if_so(&extent, 1, of_one_tile).filter(|found| found.wave > 1))
    }

    /// That of a launch which has `fixed` blocks for a tile, and a multiple of `wave` in all.
    fn if_so(
        extent: &impl Fn(u64, u64, u64) -> Option<Extent>,
        fixed: u64,
        wave: u64,
    ) -> Option<Self> {
        let threads = extent(1, 1, 1)?.threads;
        let blocks = |m, n, k| extent(m, n, k).map(|extent| extent.blocks);
        // Of so many tiles there are whole waves.
        let wide = WIDE.checked_mul(wave)?;
        let steps = |blocks: u64| {
            let times = blocks / (fixed * wave).max(1);
            (times > 0 && WIDE.is_multiple_of(times)).then(|| WIDE / times)
        };
        let found = Self {
            tile_m: steps(blocks(wide, 1, 1)?)?,
            tile_n: steps(blocks(1, wide, 1)?)?,
            slice_k: steps(blocks(1, 1, wide)?).filter(|slice| *slice < WIDE).unwrap_or(u64::MAX),
            fixed,
            wave,
            threads,
        };
        // A tile as wide as all is none, and what is found must be true elsewhere too.
        let holds = |(m, n, k): (u64, u64, u64)| {
            blocks(m, n, k) == Some(found.blocks(&Shape { m, n, k }, 1))
        };
        let tiles = found.tile_m < WIDE && found.tile_n < WIDE;
        (tiles && PROBES.into_iter().all(holds)).then_some(found)
    }

    /// Blocks of a problem.
    pub fn blocks(&self, shape: &Shape, batch: u64) -> u64 {
        let blocks = self.work(shape, batch);
        blocks.checked_next_multiple_of(self.wave).unwrap_or(u64::MAX)
    }

    /// The same if every tile had blocks of its own.
    pub fn work(&self, shape: &Shape, batch: u64) -> u64 {
        let tiles = shape.m.div_ceil(self.tile_m).saturating_mul(shape.n.div_ceil(self.tile_n));
        let slices = if self.slice_k == u64::MAX { 1 } else { shape.k.div_ceil(self.slice_k) };
        tiles.saturating_mul(slices).saturating_mul(self.fixed).saturating_mul(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, Value};
    use crate::space::{Families, LegalSpace};

    fn problem() -> Problem {
        Problem::new(Shape { m: 512, n: 512, k: 512 }, Dtype::F32)
    }

    #[test]
    fn every_built_in_configuration_is_understood() {
        let device = Device::h200();
        for family in Families::built_in().unwrap().iter() {
            let space = LegalSpace::of(family, &problem(), &device).unwrap();
            for rank in (0..space.len()).step_by(space.len() / 20 + 1) {
                let configuration = space.get(rank).unwrap();
                let found = Footprint::of(family, &configuration, &problem(), &device);
                assert!(found.is_some(), "{} {configuration}", family.name);
            }
        }
    }

    #[test]
    fn tiles_are_found_by_asking_for_grids() {
        let family = |grid: &str| {
            let text = format!(
                "schema = 1\nname = 'f'\nsummary = 's'\ndtypes = ['f32']\ncompute = ['f32']\n\
                 layouts = ['nn']\n[parameters]\nBM = [96]\nBN = [160]\nSLICE = [64]\n\
                 [[kernels]]\nentry = 'gemm'\ngrid = {grid}\nblock = [128, 2]\n\
                 [default]\nBM = 96\nBN = 160\nSLICE = 64\n"
            );
            Family::parse("f.toml", &text).unwrap()
        };
        let values = [("BM", 96), ("BN", 160), ("SLICE", 64)];
        let configuration: Configuration =
            values.into_iter().map(|(name, value)| (name.to_owned(), Value::Int(value))).collect();
        let tile = Footprint {
            tile_m: 96,
            tile_n: 160,
            slice_k: u64::MAX,
            fixed: 1,
            wave: 1,
            threads: 256,
        };
        for (grid, expected) in [
            ("['(M | ceil_div(by=BM)) * (N | ceil_div(by=BN))', 1, 'batch']", Some(tile)),
            ("['N | ceil_div(by=BN)', 'M | ceil_div(by=BM)', 1]", Some(tile)),
            (
                "['N | ceil_div(by=BN)', 'M | ceil_div(by=BM)', 'K | ceil_div(by=SLICE)']",
                Some(Footprint { slice_k: 64, ..tile }),
            ),
            (
                "['N | ceil_div(by=BN)', 'M | ceil_div(by=BM)', 4]",
                Some(Footprint { fixed: 4, ..tile }),
            ),
            (
                "['((M | ceil_div(by=BM)) * (N | ceil_div(by=BN))) | ceil_div(by=2 * sms)', '2 * sms']",
                Some(Footprint { wave: 264, ..tile }),
            ),
            // Blocks that run at once go on to further tiles.
            (
                "['((M | ceil_div(by=BM)) * (N | ceil_div(by=BN))) | at_most(most=2 * sms)']",
                Some(tile),
            ),
            ("['sms']", None),
            ("['(M * N // 1000) | at_most(most=sms)']", None),
            (
                "['M | ceil_div(by=BM)', '(sms * 4 // (M | ceil_div(by=BM))) | at_most(most=8)']",
                None,
            ),
            ("['(M * N) | ceil_div(by=1000)']", None),
            ("['((M + 7) | ceil_div(by=BM)) * (N | ceil_div(by=BN))']", None),
        ] {
            let device = Device::h200();
            let found = Footprint::of(&family(grid), &configuration, &problem(), &device);
            assert_eq!(found, expected, "{grid}");
        }
    }
}
