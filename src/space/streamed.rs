//! Work of kernels that stream one operand past another, for given extents. How they divide C and K depends on these, so
//! that [`super::Work`] does not have it.

use super::block_work::{BlockFormulas, BlockSpec};
use super::family::Family;
use super::legality::Extents;
use crate::model::{BlockNeeds, Configuration, Device, Problem};

/// The work of a streaming configuration on one device, as formulas of the extents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamedWork(
    /// Threads along K, the span, and elements in flight.
    BlockFormulas<3>,
);

/// What one block does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamedBlock {
    /// Rows and columns of C.
    pub tile: [u64; 2],
    /// Threads that share the K of an element of C.
    pub threads_along_k: u64,
    /// Steps of K that it takes at once.
    pub span: u64,
    /// Elements of the streamed operand that a thread has under way.
    pub in_flight: u64,
    /// Blocks that share the K of a tile.
    pub parts: u64,
    /// What it needs of an SM; registers are the family's estimate.
    pub needs: BlockNeeds,
}

impl StreamedBlock {
    /// Bytes of the streamed operand that a block has under way, for elements of so many bytes.
    pub fn bytes_in_flight(&self, element: f64) -> f64 {
        self.needs.threads as f64 * self.in_flight as f64 * element
    }
}

impl Family {
    /// Whether its blocks stream one operand past another.
    pub fn streams(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.stream.is_some())
    }
}

impl StreamedWork {
    /// Of `configuration` on `device`, for problems that are like `pattern` but for their extents. `None` where the
    /// family declares no stream, or where a formula would be too large.
    pub fn of(
        family: &Family,
        configuration: &Configuration,
        pattern: &Problem,
        device: &Device,
    ) -> Option<Self> {
        let work = family.work.as_ref()?;
        let stream = work.stream.as_ref()?;
        let spec = BlockSpec {
            tile: &work.tile,
            parts: work.blocks.as_ref(),
            registers: &stream.registers,
            own: [&stream.threads_along_k, &stream.span, &stream.in_flight]
                .map(|own| (Some(own), 0)),
        };
        BlockFormulas::of((family, work), &spec, configuration, (pattern, device)).map(Self)
    }

    /// What a block does for a problem; `None` where a size is 0 or has no value.
    pub fn block(&self, extents: &Extents) -> Option<StreamedBlock> {
        let sizes = self.0.sizes(extents)?;
        let [threads_along_k, span, in_flight] = sizes.own;
        sizes.own.iter().all(|size| *size > 0).then_some(StreamedBlock {
            tile: sizes.tile,
            threads_along_k,
            span,
            in_flight,
            parts: sizes.parts,
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

    /// Blocks by the declared tile and parts are those of the grid, and threads and shared memory those of the launch.
    #[test]
    fn declared_blocks_are_those_of_the_launch() {
        let device = Device::h200();
        let families = Families::built_in().unwrap();
        let mut seen = 0;
        for (name, dtype, shape, layout) in [
            ("skinny", Dtype::F32, "1x4096x4096", Layout::Nn),
            ("skinny", Dtype::F32, "7x1473x2685", Layout::Tt),
            ("skinny", Dtype::F32, "8280x1x96", Layout::Nn),
            ("skinny", Dtype::F32, "904x6x13120", Layout::Nt),
            ("skinny_mma", Dtype::Bf16, "1x4096x4096", Layout::Nt),
            ("skinny_mma", Dtype::F16, "7x1472x2688", Layout::Tt),
            ("skinny_mma", Dtype::Bf16, "8280x1x96", Layout::Tn),
        ] {
            let family = families.get(name).unwrap();
            let problem = Problem { layout, ..Problem::new(shape.parse().unwrap(), dtype) };
            let storage = Storage::packed(&problem);
            let extents = Extents::new(&problem, &storage);
            let space = LegalSpace::of(family, &problem, &device).unwrap();
            for place in 0..space.len().min(30) {
                let configuration = space.get(place * (space.len() / 30).max(1)).unwrap();
                let work = StreamedWork::of(family, &configuration, &problem, &device).unwrap();
                let block = work.block(&extents).unwrap();
                let plan = launches(family, &configuration, &problem, &storage, &device).unwrap();
                let launch = &plan.kernels[0];
                let shape = problem.shape;
                let tiles = shape.m.div_ceil(block.tile[0]) * shape.n.div_ceil(block.tile[1]);
                let grid: u64 = launch.grid.iter().map(|extent| u64::from(*extent)).product();
                let threads: u64 = launch.block.iter().map(|extent| u64::from(*extent)).product();
                assert_eq!(tiles * block.parts, grid, "{problem} {configuration}");
                assert_eq!(block.needs.threads, threads, "{problem} {configuration}");
                let shared = u64::from(launch.dynamic_shared_bytes);
                assert_eq!(block.needs.shared_bytes, shared, "{problem} {configuration}");
                seen += 1;
            }
        }
        assert!(seen > 120, "{seen}");
    }

    #[test]
    fn families_without_a_stream_have_none() {
        let families = Families::built_in().unwrap();
        let family = families.get("pipelined").unwrap();
        let problem = Problem::new("64x64x64".parse().unwrap(), Dtype::F32);
        assert_eq!(StreamedWork::of(family, family.default(), &problem, &Device::h200()), None);
    }
}
