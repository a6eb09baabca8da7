//! The work of a configuration: the tile of C and the slice of K of a block, further launches, and
//! memory that one launch leaves to the next. The family declares it in `[work]`; a test compares the
//! declarations of the built-in families with their grids, and loading compares those of all families
//! for their defaults.

use super::expression::Expression;
use super::family::{Family, WorkSpec};
use super::formula::Term;
use super::scope::Scope;
use crate::model::{Configuration, Device, Diagnostic, Problem, Shape};

/// Shapes for which a declaration is compared with the grid when a family is loaded.
const COMPARED: [Shape; 4] = [
    Shape { m: 4096, n: 4096, k: 4096 },
    Shape { m: 257, n: 1023, k: 1065 },
    Shape { m: 1, n: 5000, k: 300 },
    Shape { m: 3000, n: 700, k: 20_000 },
];

/// The work of a configuration on one device, for problems of any extents.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Work {
    /// The blocks' share of C and K; `None` where the family does not declare it or where it depends on
    /// the extents.
    pub tiling: Option<Tiling>,
    /// Launches after the first.
    pub more_launches: u32,
    /// Bytes of workspaces for each element of A, B and C.
    pub workspace_bytes: [f64; 3],
    /// Blocks that an SM holds at once, where the family declares it.
    pub resident: Option<u64>,
    /// Blocks of a cluster, where the family declares it.
    pub cluster: Option<u64>,
}

/// The distribution of a problem over blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiling {
    /// Rows of C that a block computes.
    pub tile_m: u64,
    /// Columns of C that a block computes.
    pub tile_n: u64,
    /// Steps of K that a block takes at most; `u64::MAX` where it takes all.
    pub slice_k: u64,
    /// Blocks that share the K of a tile.
    pub blocks_per_tile: u64,
    /// Blocks of a wave that shares the tiles which are left when all blocks before it had one each;
    /// 1 where every tile has blocks of its own.
    pub wave: u64,
    /// Threads of a block.
    pub threads: u64,
}

impl Work {
    /// The work of `configuration` for problems like `pattern`, whatever their extents.
    pub fn of<'a>(
        family: &'a Family,
        configuration: &'a Configuration,
        pattern: &Problem,
        device: &Device,
    ) -> Self {
        let mut scope = Scope::unsized_problem(pattern, device, family.own_names.len());
        family.bind_parameters(configuration, &mut scope);
        let launches = family.kernels.iter().filter(|kernel| {
            // A condition on the extents holds for some problems, which pay for the launch.
            let when = kernel.when.as_ref().map(|when| family.known_value(when, &mut scope));
            !matches!(when, Some(Some(Term::Bool(false))))
        });
        let more_launches = launches.count().saturating_sub(1) as u32;
        let Some(spec) = &family.work else {
            return Self { more_launches, ..Self::default() };
        };
        let mut declared = |size_of: &'a Option<Expression>| {
            size_of.as_ref().and_then(|expression| size(family, expression, &mut scope))
        };
        let workspace_bytes =
            spec.workspace_bytes.each_ref().map(|bytes| declared(bytes).unwrap_or(0) as f64);
        let (resident, cluster) = (declared(&spec.resident), declared(&spec.cluster));
        let tiling = Tiling::declared(family, spec, &mut scope);
        Self { tiling, more_launches, workspace_bytes, resident, cluster }
    }
}

impl Tiling {
    /// The declared tiling, as far as `scope` has the values for it.
    fn declared<'a>(family: &'a Family, spec: &'a WorkSpec, scope: &mut Scope<'a>) -> Option<Self> {
        let mut size = |expression| size(family, expression, scope).filter(|size| *size > 0);
        let tile_m = size(&spec.tile[0])?;
        let tile_n = size(&spec.tile[1])?;
        let mut optional = |expression: &'a Option<Expression>, otherwise| match expression {
            Some(expression) => size(expression),
            None => Some(otherwise),
        };
        let slice_k = optional(&spec.slice, u64::MAX)?;
        let blocks_per_tile = optional(&spec.blocks, 1)?;
        let wave = optional(&spec.wave, 1)?;
        let threads =
            family.kernels[spec.kernel].block.iter().try_fold(1_u64, |threads, extent| {
                size(extent).map(|extent| threads.saturating_mul(extent))
            })?;
        let shared = match &spec.tail {
            Some(tail) => family.known_value(tail, scope)? == Term::Text(SHARED),
            None => false,
        };
        let wave = if shared { wave } else { 1 };
        Some(Self { tile_m, tile_n, slice_k, blocks_per_tile, wave, threads })
    }

    /// Blocks of a problem.
    pub fn blocks(&self, shape: &Shape, batch: u64) -> u64 {
        let blocks = self.work(shape, batch);
        blocks.checked_next_multiple_of(self.wave).unwrap_or(u64::MAX)
    }

    /// Blocks of a problem if every tile had blocks of its own.
    pub fn work(&self, shape: &Shape, batch: u64) -> u64 {
        let tiles = shape.m.div_ceil(self.tile_m).saturating_mul(shape.n.div_ceil(self.tile_n));
        let slices = if self.slice_k == u64::MAX { 1 } else { shape.k.div_ceil(self.slice_k) };
        tiles.saturating_mul(slices).saturating_mul(self.blocks_per_tile).saturating_mul(batch)
    }
}

/// The value of a tail whose tiles are shared.
const SHARED: &str = "shared";

fn size<'a>(family: &'a Family, expression: &'a Expression, scope: &mut Scope<'a>) -> Option<u64> {
    match family.known_value(expression, scope)? {
        Term::Int(size) => u64::try_from(size).ok(),
        _ => None,
    }
}

/// The diagnosis of a declaration that contradicts the grid of a default or a seed for one of [`COMPARED`].
pub(super) fn contradiction(family: &Family) -> Option<Diagnostic> {
    let device = Device::h200();
    let pattern = family.a_pattern()?;
    COMPARED.into_iter().find_map(|shape| {
        let problem = pattern.problem(shape);
        let seeds = family.seeds.iter().flat_map(|seeds| &seeds.configurations);
        let mut defaults = family.defaults.iter().chain(seeds);
        defaults.find_map(|default| compare(family, default, &problem, &device))
    })
}

/// The diagnosis where the declared blocks of a configuration are not those of its grid; `None` where
/// they are, or where an expression has no value for the problem.
fn compare(
    family: &Family,
    configuration: &Configuration,
    problem: &Problem,
    device: &Device,
) -> Option<Diagnostic> {
    let spec = family.work.as_ref()?;
    let error = |message| Some(family.file.error(spec.span.clone(), message));
    let Some([declared, grid]) = blocks(family, configuration, problem, device)? else {
        return error(format!("`work` has no sizes above 0 for {configuration}"));
    };
    if declared == grid {
        return None;
    }
    let entry = &family.kernels[spec.kernel].entry;
    error(format!(
        "`work` declares {declared} blocks for {} with {configuration}, the grid of `{entry}` has {grid}",
        problem.shape
    ))
}

/// The declared blocks of a legal configuration, and those of its grid; nothing inside where `work` has no sizes above 0,
/// and `None` where an expression has no value for the problem.
fn blocks(
    family: &Family,
    configuration: &Configuration,
    problem: &Problem,
    device: &Device,
) -> Option<Option<[u64; 2]>> {
    let spec = family.work.as_ref()?;
    if family.forbidden(configuration, problem, device).ok()?.is_some() {
        return None;
    }
    let mut scope = family.scope(configuration, problem, device).ok()?;
    let grid = family.kernels[spec.kernel].grid.iter().try_fold(1_u64, |blocks, extent| {
        size(family, extent, &mut scope).map(|extent| blocks.saturating_mul(extent))
    })?;
    let Some(tiling) = Tiling::declared(family, spec, &mut scope) else { return Some(None) };
    let mut declared = tiling.blocks(&problem.shape, problem.batch);
    let is_persistent = match &spec.persistent {
        Some(persistent) => family.known_value(persistent, &mut scope)? == Term::Bool(true),
        None => false,
    };
    if is_persistent && let Some(wave) = &spec.wave {
        declared = declared.min(size(family, wave, &mut scope)?);
    }
    Some(Some([declared, grid]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{ComputeCapability, Dtype, Layout, Value};
    use crate::space::{Families, LegalSpace};

    fn extent() -> impl Strategy<Value = u64> {
        prop_oneof![1..70_u64, Just(256), Just(1024), Just(4096), 200..5000_u64]
    }

    /// Most blocks that a grid has beyond those declared. `skinny_mma` deals up to 64 lines that begin anywhere
    /// out to at most 8 blocks. The last group of lines has as many blocks as the others, though it may have one line.
    /// `short_k` with vectors of C has whole steps of 8 rows, and columns that begin up to 7 before C.
    fn most_unfilled(family: &Family, configuration: &Configuration, shape: Shape) -> u64 {
        const STEP: u64 = 8;
        let value = |name| configuration.get(name).and_then(Value::number).unwrap_or(1.0) as u64;
        match family.name.as_str() {
            "skinny_mma" => (STEP - 1) * value("SPLIT_K"),
            "short_k" if value("TN") > 1 => {
                let (block_m, block_n) = (value("BLOCK_M"), value("BLOCK_N") * value("TN"));
                let rows = shape.m.div_ceil(block_m * value("TM"));
                let columns = shape.n.div_ceil(block_n);
                let (more_rows, more_columns) = (STEP.div_ceil(block_m), STEP.div_ceil(block_n));
                rows * more_columns + (columns + more_columns) * more_rows
            }
            _ => 0,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(crate::cases::cases(8, 48) as u32))]

        /// Any legal configuration of any built-in family has the blocks that its family declares.
        #[test]
        fn declared_blocks_are_those_of_the_grid(
            (m, n, k) in (extent(), extent(), extent()),
            layout in prop::sample::select(vec![Layout::Nn, Layout::Nt, Layout::Tn, Layout::Tt]),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 8),
            sms in prop::sample::select(vec![132, 84, 20]),
        ) {
            // Families that are pruned on compute capability 9.0 have configurations on others.
            let major = if sms == 84 { 10 } else { 9 };
            let compute_capability = ComputeCapability { major, minor: 0 };
            let device = Device { sms, compute_capability, ..Device::h200() };
            let problem = Problem { layout, ..Problem::new(Shape { m, n, k }, Dtype::F32) };
            for family in Families::built_in().unwrap().iter() {
                prop_assert!(family.work.is_some(), "{} declares its work", family.name);
                let space = LegalSpace::of(family, &problem, &device).unwrap();
                let picks = picks.iter().filter(|_| !space.is_empty());
                for pick in picks {
                    let configuration = space.get(pick.index(space.len())).unwrap();
                    let most = most_unfilled(family, &configuration, problem.shape);
                    let counted = blocks(family, &configuration, &problem, &device);
                    let is_right = counted.is_none_or(|counted| {
                        counted.is_some_and(|[declared, grid]| (declared..=declared + most).contains(&grid))
                    });
                    prop_assert!(is_right, "{} with {configuration}: {counted:?}", family.name);
                    let work = Work::of(family, &configuration, &problem, &device);
                    // A block that streams an operand has the short side of C, whatever that is.
                    prop_assert!(work.tiling.is_some() || family.streams());
                }
            }
        }
    }

    #[test]
    fn packing_and_split_k_are_declared() {
        let (families, device) = (Families::built_in().unwrap(), Device::h200());
        let pipelined = families.get("pipelined").unwrap();
        let problem = Problem::new("4096x4096x4096".parse().unwrap(), Dtype::F32);
        let default = pipelined.default_for(&problem, &device).unwrap().unwrap();
        let plain = Work::of(pipelined, &default, &problem, &device).tiling.unwrap();
        for (pack, splits, more_launches, workspace_bytes) in [
            ("none", 1, 0, [0.0; 3]),
            ("a", 1, 1, [4.0, 0.0, 0.0]),
            ("both", 1, 1, [4.0, 4.0, 0.0]),
            ("b", 8, 2, [0.0, 4.0, 32.0]),
        ] {
            let mut configuration = default.clone();
            configuration.0.insert("PACK".to_owned(), Value::Text(pack.to_owned()));
            configuration.0.insert("SPLIT_K".to_owned(), Value::Int(splits));
            let tiling = Some(Tiling { blocks_per_tile: splits as u64, ..plain });
            let expected = Work {
                tiling,
                more_launches,
                workspace_bytes,
                resident: Some(2),
                cluster: Some(1),
            };
            let found = Work::of(pipelined, &configuration, &problem, &device);
            assert_eq!(found, expected, "{pack} {splits}");
        }
    }

    fn family(grid: &str, work: &str) -> Result<Family, String> {
        let text = format!(
            "schema = 1\nname = 'f'\nsummary = 's'\ndtypes = ['f32']\ncompute = ['f32']\n\
             layouts = ['nn']\n[parameters]\nBM = [96]\nBN = [160]\nSLICE = [64]\n\
             [[kernels]]\nentry = 'gemm'\ngrid = {grid}\nblock = [128, 2]\n\
             [default]\nBM = 96\nBN = 160\nSLICE = 64\n{work}"
        );
        Family::parse("f.toml", &text).map_err(|error| error.summary())
    }

    #[test]
    fn declarations_of_all_kinds_are_compared_with_the_grid() {
        let tile = Tiling {
            tile_m: 96,
            tile_n: 160,
            slice_k: u64::MAX,
            blocks_per_tile: 1,
            wave: 1,
            threads: 256,
        };
        let tiles = "(M | ceil_div(by=BM)) * (N | ceil_div(by=BN))";
        for (grid, work, expected) in [
            (format!("['{tiles}', 1, 'batch']"), "", tile),
            (
                format!("['{tiles}', 'K | ceil_div(by=SLICE)']"),
                "slice = 'SLICE'",
                Tiling { slice_k: 64, ..tile },
            ),
            (format!("['{tiles}', 4]"), "blocks = 4", Tiling { blocks_per_tile: 4, ..tile }),
            (
                format!("['({tiles}) | ceil_div(by=2 * sms)', '2 * sms']"),
                "tail = \"'shared'\"\nwave = '2 * sms'",
                Tiling { wave: 264, ..tile },
            ),
            (
                format!("['({tiles}) | at_most(most=2 * sms)']"),
                "persistent = 'true'\nwave = '2 * sms'",
                tile,
            ),
        ] {
            let family = family(&grid, &format!("[work]\ntile = ['BM', 'BN']\n{work}\n")).unwrap();
            let problem = Problem::new("512x512x512".parse().unwrap(), Dtype::F32);
            let found = Work::of(&family, family.default(), &problem, &Device::h200());
            assert_eq!(found.tiling, Some(expected), "{grid}");
        }
        // Without a declaration the family is usable and its work unknown.
        let family = family("['sms']", "").unwrap();
        let problem = Problem::new("512x512x512".parse().unwrap(), Dtype::F32);
        let found = Work::of(&family, family.default(), &problem, &Device::h200());
        assert_eq!(found, Work::default());
    }

    #[test]
    fn a_declaration_that_contradicts_the_grid_is_blamed_with_its_place() {
        let grid = "['(M | ceil_div(by=BM)) * (N | ceil_div(by=BN))']";
        for (work, expected) in [
            (
                "tile = ['BN', 'BM']",
                "f.toml:20:8: `work` declares 22 blocks for 257x1023x1065 with BM=96 BN=160 SLICE=64, \
                 the grid of `gemm` has 21",
            ),
            ("tile = ['BM', 'BN']\nblocks = 3", "f.toml:20:8: `work` declares 3354 blocks"),
            ("tile = ['BM', 'BX']", "f.toml:20:16: unknown name `BX`"),
            ("tile = ['BM']", "`tile` has 2 extents, this has 1"),
            ("tile = ['BM', 0]", "`work` has no sizes above 0"),
            ("tile = ['BM', 'BN']\ntail = \"'shared'\"", "`wave` is missing"),
            ("kernel = 'gem'\ntile = ['BM', 'BN']", "`gem` is no kernel (did you mean `gemm`?)"),
            ("tiles = ['BM', 'BN']", "unknown field `tiles` (did you mean `tile`?)"),
        ] {
            let error = family(grid, &format!("[work]\n{work}\n")).map(|family| family.name);
            let error = error.unwrap_err();
            assert!(error.contains(expected), "{work}: {error}");
        }
    }
}
