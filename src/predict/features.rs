//! Features of kernels and problems: the columns that learned models are trained on. Families are not known by
//! name: their parameters are columns, and what the analytic model says about their work.

use indexmap::IndexMap;

use super::analytic::{CostModel, Dealt, OwnCost, Parts};
use super::streaming::{ClockShares, StreamingCost};
use super::tensor_cores::TensorCoreCost;
use crate::model::{Compute, Configuration, Device, Problem, Storage, Value};
use crate::space::{Family, FormerParameter};
use crate::trees::{COLUMNS, FeatureRow};

/// Columns of a problem and of its cost, and the number of columns before those of parameters: these and the
/// modelled time. Parameters beyond the last column are not read.
const PROBLEM_COLUMNS: usize = 9;
const COST_COLUMNS: usize = 15;
const FIXED_COLUMNS: usize = PROBLEM_COLUMNS + COST_COLUMNS + 1;

/// Elements of f32 that a load brings at most.
const MOST_LOADED: f64 = 4.0;

/// Lanes for f32 of an SM of compute capability 9.0, the unit of threads in the last wave.
const LANES_OF_AN_SM: f64 = 128.0;

/// Kernel as the learned model of its family reads it.
#[derive(Debug, Clone)]
pub struct KernelFeatures {
    pub(super) row: FeatureRow,
    pub(super) cost: CostModel,
}

/// Problem with its operands' storage, as learned models read it.
#[derive(Debug, Clone)]
pub struct ProblemFeatures {
    problem: Problem,
    columns: [f64; PROBLEM_COLUMNS],
}

impl ProblemFeatures {
    /// Extents, how operands are stored, and what their rows are aligned to: 1, 2, 4 and up to 128 elements. With 4 at most,
    /// kernels chosen for 153 problems of `wgmma` outside the training data take 1.063 times the best instead of 1.056.
    /// For f32 it is 4: kernels chosen for 120 such problems take 1.035 times the best, and 1.037 with up to 128.
    pub fn of(problem: &Problem, storage: &Storage) -> Self {
        let shape = problem.shape;
        let [m, n, k, batch] =
            [shape.m, shape.n, shape.k, problem.batch].map(|extent| (extent as f64).log2());
        let layout = problem.layout;
        let [a, b] =
            [layout.a_transposed(), layout.b_transposed()].map(|is| f64::from(u8::from(is)));
        let rows = storage.leading_dimensions(problem);
        let most = if problem.types.compute == Compute::F32 { 2 } else { 7 };
        let [lda, ldb, ldc] = rows.map(|row| f64::from(row.trailing_zeros().min(most)));
        Self { problem: *problem, columns: [m, n, k, batch, a, b, lda, ldb, ldc] }
    }

    /// Completes a row of a configuration by the columns of the problem and the cost. Returns the logarithm of
    /// the modelled time in microseconds.
    pub(super) fn complete(&self, row: &mut FeatureRow, cost: &CostModel, device: &Device) -> f64 {
        let clocks_per_us = f64::from(device.max_sm_clock_mhz.max(1));
        let (columns, clocks) = match cost.own(&self.problem) {
            Some(OwnCost::Streaming(cost)) => (streaming_columns(&cost), cost.clocks),
            Some(OwnCost::TensorCores(cost)) => (tensor_core_columns(&cost), cost.clocks),
            None => (self.tiled_columns(cost), cost.clocks(&self.problem)),
        };
        let modelled = (cost.launching().0 + clocks / clocks_per_us).ln();
        let fixed = self.columns.into_iter().chain(columns).chain([modelled]);
        for (column, value) in row.iter_mut().zip(fixed) {
            *column = value as f32;
        }
        modelled
    }

    /// Tiles, waves and their unused shares; zeros where the grid is not understood.
    fn tiled_columns(&self, cost: &CostModel) -> [f64; COST_COLUMNS] {
        let Some(dealt) = cost.dealt(&self.problem) else { return [0.0; COST_COLUMNS] };
        let [tile_m, tile_n] = dealt.tile;
        let [filled_m, filled_n] = dealt.filled;
        let parts = cost.parts();
        let resident = parts.resident as f64;
        let busiest = dealt.share.ceil().max(1.0);
        let in_last_wave = busiest - (dealt.waves - 1.0) * resident;
        [
            tile_m,
            tile_n,
            dealt.threads,
            tile_m * tile_n / dealt.threads.max(1.0),
            filled_m,
            filled_n,
            dealt.share,
            busiest / dealt.share.max(1e-9),
            busiest / resident,
            in_last_wave * dealt.threads / LANES_OF_AN_SM,
            dealt.steps,
            dealt.parts,
            parts.of_a,
            parts.of_b,
            self.loads_of_a_step(&parts, &dealt),
        ]
    }

    /// Loads of each thread that bring the operands of a step of K: of up to four elements along a row of the tile where
    /// they lie together in memory, of one where K does.
    fn loads_of_a_step(&self, parts: &Parts, dealt: &Dealt) -> f64 {
        let [_, _, _, _, a_transposed, b_transposed, lda, ldb, _] = self.columns;
        let elements = |packed: f64, is_along_tile: bool, alignment: f64| {
            if packed > 0.0 {
                MOST_LOADED
            } else if is_along_tile {
                alignment.exp2().min(MOST_LOADED)
            } else {
                1.0
            }
        };
        let of_a = elements(parts.of_a, a_transposed > 0.0, lda);
        let of_b = elements(parts.of_b, b_transposed == 0.0, ldb);
        let [tile_m, tile_n] = dealt.tile;
        (tile_m / of_a + tile_n / of_b) / dealt.threads.max(1.0)
    }
}

/// Reads the parameters of a family's configurations as the columns of a learned model.
#[derive(Debug, Clone)]
pub(super) struct FeatureReader<'f> {
    columns: Vec<ParameterColumn<'f>>,
}

/// One parameter of the model.
#[derive(Debug, Clone)]
struct ParameterColumn<'f> {
    source: FormerParameter,
    /// Its values when the model was learned: words are read by their place among these.
    values: &'f [Value],
}

impl<'f> FeatureReader<'f> {
    /// Reads these parameters, each with its values when the model was learned. `None` where the family neither
    /// has nor had one.
    pub(super) fn of(
        family: &'f Family,
        parameters: &'f IndexMap<String, Vec<Value>>,
    ) -> Option<Self> {
        let column = |(name, values): (&String, &'f Vec<Value>)| {
            let source = match family.parameters.contains_key(name) {
                true => FormerParameter::Follows(name.clone(), IndexMap::new()),
                false => family.former_parameter(name)?,
            };
            Some(ParameterColumn { source, values })
        };
        Some(Self { columns: parameters.iter().map(column).collect::<Option<_>>()? })
    }

    /// A row with the columns of a configuration, whatever the problem.
    pub(super) fn row(&self, configuration: &Configuration) -> FeatureRow {
        let mut row = [0.0; COLUMNS];
        for (own, column) in self.columns.iter().zip(&mut row[FIXED_COLUMNS..]) {
            *column = own.number(|name| configuration.get(name));
        }
        row
    }

    /// Prepares the parameters of a space.
    pub(super) fn space(&self, space: &[(String, Vec<Value>)]) -> SpaceColumns {
        let column = |own: &ParameterColumn<'_>| match &own.source {
            FormerParameter::Constant(_) => (0, vec![own.number(|_| None)]),
            FormerParameter::Follows(name, _) => {
                let found = space.iter().position(|(known, _)| known == name);
                let values = found.map_or(&[][..], |place| &space[place].1);
                let number = |value| own.number(|_| Some(value));
                (found.unwrap_or_default(), values.iter().map(number).collect())
            }
        };
        SpaceColumns(self.columns.iter().map(column).collect())
    }
}

impl ParameterColumn<'_> {
    /// The feature of a configuration whose values are `of`: a number as it is, a word by its place, -1 without.
    fn number<'v>(&'v self, of: impl Fn(&str) -> Option<&'v Value>) -> f32 {
        let value = match &self.source {
            FormerParameter::Constant(value) => Some(value),
            FormerParameter::Follows(name, values) => of(name).map(|value| {
                if values.is_empty() {
                    value
                } else {
                    values.get(&value.to_string()).unwrap_or(value)
                }
            }),
        };
        let place = |value: &Value| self.values.iter().position(|known| known == value);
        let number = |value: &Value| value.number().or_else(|| Some(place(value)? as f64));
        value.and_then(number).unwrap_or(-1.0) as f32
    }
}

/// For each column the place of its parameter in a space, and the feature of each of its values. A column with
/// one feature and no parameter is constant.
#[derive(Debug)]
pub(super) struct SpaceColumns(Vec<(usize, Vec<f32>)>);

impl SpaceColumns {
    /// Fills a row with a configuration, given by the place of each parameter's value.
    pub(super) fn fill(&self, row: &mut FeatureRow, indices: &[usize]) {
        for ((place, values), column) in self.0.iter().zip(&mut row[FIXED_COLUMNS..]) {
            let index = if values.len() == 1 { Some(&0) } else { indices.get(*place) };
            *column = index.and_then(|index| values.get(*index)).copied().unwrap_or(-1.0);
        }
    }
}

/// What a kernel that streams an operand does, and what its threads have to do.
fn streaming_columns(cost: &StreamingCost) -> [f64; COST_COLUMNS] {
    let [tile_m, tile_n] = cost.block.tile.map(|extent| extent as f64);
    let ClockShares { streaming, moving, copying, latency } = cost.shares;
    [
        tile_m,
        tile_n,
        cost.block.needs.threads as f64,
        cost.sums,
        streaming,
        moving,
        cost.share,
        copying,
        latency,
        cost.share.ceil() / cost.resident,
        cost.steps,
        cost.block.parts as f64,
        cost.block.threads_along_k as f64,
        cost.block.in_flight as f64 * cost.resident.min(cost.share.ceil()),
        cost.rounds,
    ]
}

/// The same of a kernel that multiplies by tensor cores, and what limits it.
fn tensor_core_columns(cost: &TensorCoreCost) -> [f64; COST_COLUMNS] {
    let [tile_m, tile_n] = cost.block.tile.map(|extent| extent as f64);
    let [filled_m, filled_n] = cost.filled;
    let [products, read, copied, latency] = cost.stage;
    [
        tile_m,
        tile_n,
        cost.block.needs.threads as f64,
        cost.store,
        filled_m,
        filled_n,
        cost.share,
        cost.busiest / cost.share.max(1e-9),
        cost.busiest,
        cost.resident,
        cost.stages,
        cost.block.parts as f64,
        read / products.max(1e-9),
        copied / products.max(1e-9),
        latency / products.max(1e-9),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn former_parameters_are_read_from_those_of_today() {
        let text = "schema = 1\nname = 'f'\nsummary = 's'\ndtypes = ['f32']\ncompute = ['f32']\n\
            layouts = ['nn']\n[parameters]\nREDUCTION = ['cluster', 'workspace']\n[[kernels]]\n\
            entry = 'k'\ngrid = [1]\nblock = [32]\n[default]\nREDUCTION = 'workspace'\n\
            [renamed]\nMEET = { to = 'REDUCTION', values = { memory = 'workspace' } }\n\
            [removed]\nDEPTH = 4\n";
        let family = Family::parse("f.toml", text).unwrap();
        let word = |word: &str| Value::Text(word.to_owned());
        let learned = IndexMap::from([
            ("MEET".to_owned(), vec![word("memory"), word("cluster")]),
            ("DEPTH".to_owned(), vec![Value::Int(3), Value::Int(4)]),
        ]);
        let reader = FeatureReader::of(&family, &learned).unwrap();
        let space = [("REDUCTION".to_owned(), family.parameters["REDUCTION"].clone())];
        for (at, (value, expected)) in
            [("cluster", 1.0), ("workspace", 0.0)].into_iter().enumerate()
        {
            let configuration = [("REDUCTION".to_owned(), word(value))].into_iter().collect();
            let mut row = [0.0; COLUMNS];
            reader.space(&space).fill(&mut row, &[at]);
            assert_eq!(row, reader.row(&configuration));
            assert_eq!(row[FIXED_COLUMNS..][..2], [expected, 4.0], "{value}");
        }
        let unknown = IndexMap::from([("WIDTH".to_owned(), vec![Value::Int(1)])]);
        assert!(FeatureReader::of(&family, &unknown).is_none());
    }
}
