//! Work of kernels that multiply tiles by tensor cores from a ring in shared memory, for given extents.

use super::block_work::{BlockFormulas, BlockSpec};
use super::family::Family;
use super::legality::Extents;
use crate::model::{BlockNeeds, Configuration, Device, Problem};

/// The work of a configuration on one device, as formulas of the extents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorCoreWork(BlockFormulas<13>);

/// What one block does, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorCoreBlock {
    /// Rows and columns of C.
    pub tile: [u64; 2],
    /// Steps of K of a stage.
    pub step: u64,
    /// Stages of the ring.
    pub stages: u64,
    /// Bytes of the cache lines that the copies of a stage touch.
    pub copied: u64,
    /// Bytes of shared memory that the instructions of a stage read.
    pub read: u64,
    /// Tiles that a block has at once: with two, one is stored while the other is multiplied.
    pub tiles_at_once: u64,
    /// Bytes of operands that another kernel lays out anew before.
    pub packed: u64,
    /// Bytes of sums that a block adds up where parts of K meet in the shared memory of a cluster.
    pub exchanged: u64,
    /// Whether the blocks that run at once compute all tiles.
    pub persistent: bool,
    /// Blocks that run at once, where the family says so.
    pub wave: Option<u64>,
    /// Blocks of a cluster.
    pub cluster: u64,
    /// Blocks that share the K of a tile.
    pub parts: u64,
    /// Blocks of one tile each that the problem needs.
    pub blocks: u64,
    /// What it needs of an SM; registers are the family's estimate.
    pub needs: BlockNeeds,
}

impl Family {
    /// Whether its blocks feed tensor cores, as the file declares it.
    pub fn feeds_tensor_cores(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.tensor_cores.is_some())
    }
}

impl TensorCoreWork {
    /// Of `configuration` on `device`, for problems that are like `pattern` but for their extents. `None` where the
    /// family declares no work of tensor cores, or where a formula would be too large.
    pub fn of(
        family: &Family,
        configuration: &Configuration,
        pattern: &Problem,
        device: &Device,
    ) -> Option<Self> {
        let work = family.work.as_ref()?;
        let declared = work.tensor_cores.as_ref()?;
        let [rows, columns] = &work.tile;
        let spec = BlockSpec {
            tile: &declared.tile,
            parts: declared.parts.as_ref(),
            registers: &declared.registers,
            own: [
                (Some(&declared.step), 1),
                (Some(&declared.stages), 1),
                (Some(&declared.copied), 0),
                (Some(&declared.read), 0),
                (declared.tiles_at_once.as_ref(), 1),
                (declared.packed.as_ref(), 0),
                (declared.exchanged.as_ref(), 0),
                (work.persistent.as_ref(), 0),
                (work.wave.as_ref(), 0),
                (work.cluster.as_ref(), 1),
                (Some(rows), 1),
                (Some(columns), 1),
                (work.blocks.as_ref(), 1),
            ],
        };
        BlockFormulas::of((family, work), &spec, configuration, (pattern, device)).map(Self)
    }

    /// What a block does for a problem; `None` where a size that divides is 0, or has no value.
    pub fn block(&self, problem: &Problem, extents: &Extents) -> Option<TensorCoreBlock> {
        let sizes = self.0.sizes(extents)?;
        let [step, stages, copied, read, tiles_at_once, packed, exchanged, own @ ..] = sizes.own;
        let [persistent, wave, cluster, rows, columns, blocks] = own;
        if [step, stages, rows, columns, blocks].contains(&0) {
            return None;
        }
        let shape = problem.shape;
        let factors = [shape.m.div_ceil(rows), shape.n.div_ceil(columns), blocks, problem.batch];
        Some(TensorCoreBlock {
            tile: sizes.tile,
            step,
            stages,
            copied,
            read,
            tiles_at_once,
            packed,
            exchanged,
            persistent: persistent != 0,
            wave: (wave > 0).then_some(wave),
            cluster: cluster.max(1),
            parts: sizes.parts,
            blocks: factors.into_iter().fold(1, u64::saturating_mul),
            needs: sizes.needs,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, Layout, Storage};
    use crate::render::launches;
    use crate::space::{Families, LegalSpace};

    /// Blocks are those of the grid, and threads and shared memory those of the launch.
    #[test]
    fn declared_blocks_are_those_of_the_launch() {
        let device = Device::h200();
        let families = Families::built_in().unwrap();
        let mut seen = 0;
        for family in families.iter().filter(|family| family.feeds_tensor_cores()) {
            for (shape, layout) in [
                ("4096x4096x1024", Layout::Nt),
                ("16x7168x2048", Layout::Nt),
                ("1000x999x998", Layout::Tn),
            ] {
                let problem =
                    Problem { layout, ..Problem::new(shape.parse().unwrap(), Dtype::Bf16) };
                let storage = Storage::packed(&problem);
                let extents = Extents::new(&problem, &storage);
                let space = LegalSpace::of(family, &problem, &device).unwrap();
                for place in 0..space.len().min(40) {
                    let configuration = space.get(place * (space.len() / 40).max(1)).unwrap();
                    let work =
                        TensorCoreWork::of(family, &configuration, &problem, &device).unwrap();
                    let block = work.block(&problem, &extents).unwrap();
                    let plan =
                        launches(family, &configuration, &problem, &storage, &device).unwrap();
                    let launch = plan.kernels.iter().find(|kernel| kernel.entry == "gemm").unwrap();
                    let grid: u64 = launch.grid.iter().map(|extent| u64::from(*extent)).product();
                    let threads: u64 =
                        launch.block.iter().map(|extent| u64::from(*extent)).product();
                    let expected = match block.persistent {
                        true => block.blocks.min(block.wave.unwrap_or(u64::MAX)),
                        false => block.blocks,
                    };
                    assert_eq!(expected, grid, "{problem} {configuration}");
                    assert_eq!(block.needs.threads, threads, "{problem} {configuration}");
                    let shared = u64::from(launch.dynamic_shared_bytes);
                    assert_eq!(block.needs.shared_bytes, shared, "{problem} {configuration}");
                    seen += 1;
                }
            }
        }
        assert!(seen > 150, "{seen}");
    }
}
