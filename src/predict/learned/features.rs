//! The numbers by which kernels and problems are told apart: columns of what is learned. Families are
//! not known by name: their parameters are columns, and what the model of cost says of how they deal a
//! problem out.

use super::boosted_trees::{COLUMNS, Row};
use crate::model::{Configuration, Device, Problem, Storage, Value};
use crate::predict::CostModel;
use crate::space::Family;

/// Columns of a problem and of a cost, and all that come before those of parameters: these and the
/// modelled time. Of a family with more parameters than are left, the last are not read.
const OF_PROBLEM: usize = 9;
const OF_COST: usize = 15;
const BESIDES: usize = OF_PROBLEM + OF_COST + 1;

/// The columns of a problem.
pub(super) type OfProblem = [f64; OF_PROBLEM];

/// What parameters of configurations are read as.
#[derive(Debug, Clone)]
pub(super) struct FeatureReader<'f> {
    /// The parameters that are columns, each with its values in the family's file.
    parameters: Vec<(&'f str, &'f [Value])>,
}

impl<'f> FeatureReader<'f> {
    /// Of the parameters that have these names; `None` where the family lacks one.
    pub(super) fn of(family: &'f Family, names: &[String]) -> Option<Self> {
        let parameter = |name: &String| {
            let (name, values) = family.parameters.get_key_value(name)?;
            Some((name.as_str(), values.as_slice()))
        };
        Some(Self { parameters: names.iter().map(parameter).collect::<Option<_>>()? })
    }

    /// A row with the columns that a configuration has whatever the problem.
    pub(super) fn of_configuration(&self, configuration: &Configuration) -> Row {
        let mut row = [0.0; COLUMNS];
        for ((name, values), column) in self.parameters.iter().zip(&mut row[BESIDES..]) {
            let value = configuration.get(name).map_or(-1.0, |value| number(value, values));
            *column = value as f32;
        }
        row
    }
}

/// What the parameters of a space are read as: for each column of parameters the place of its parameter in
/// the space, and its values as numbers; nothing of one that the space lacks.
#[derive(Debug)]
pub(super) struct Columns {
    columns: Vec<Option<(usize, Vec<f32>)>>,
}

impl Columns {
    /// Of a space's parameters.
    pub(super) fn of(reading: &FeatureReader<'_>, space: &[(String, Vec<Value>)]) -> Self {
        let column = |(name, known): &(&str, &[Value])| {
            let (place, (_, values)) = space.iter().enumerate().find(|(_, own)| own.0 == *name)?;
            Some((place, values.iter().map(|value| number(value, known) as f32).collect()))
        };
        Self { columns: reading.parameters.iter().map(column).collect() }
    }

    /// Puts a configuration into a row, given by which of its values each parameter of the space has.
    pub(super) fn fill(&self, row: &mut Row, indices: &[usize]) {
        for (own, column) in self.columns.iter().zip(&mut row[BESIDES..]) {
            let value = own.as_ref().and_then(|(place, values)| values.get(*indices.get(*place)?));
            *column = value.copied().unwrap_or(-1.0);
        }
    }
}

/// Completes a row of a configuration by what the problem and the cost are, see [`of_problem`]. Gives the
/// logarithm of the time in microseconds that the model of cost expects.
pub(super) fn complete(
    row: &mut Row,
    cost: &CostModel,
    (of_problem, problem): (&OfProblem, &Problem),
    device: &Device,
) -> f64 {
    let modelled = cost.time(problem, device.max_sm_clock_mhz).0.ln();
    let besides = of_problem.iter().copied().chain(of_cost(cost, problem)).chain([modelled]);
    for (column, value) in row.iter_mut().zip(besides) {
        *column = value as f32;
    }
    modelled
}

/// A number as it is, a word by its place among the values.
fn number(value: &Value, values: &[Value]) -> f64 {
    let place = || values.iter().position(|known| known == value).map_or(-1.0, |at| at as f64);
    value.number().unwrap_or_else(place)
}

/// Extents, how operands are stored, and what their rows are aligned to: 1, 2 or 4 elements.
pub(super) fn of_problem(problem: &Problem, storage: &Storage) -> OfProblem {
    let shape = problem.shape;
    let [m, n, k, batch] =
        [shape.m, shape.n, shape.k, problem.batch].map(|extent| (extent as f64).log2());
    let layout = problem.layout;
    let [a, b] = [layout.a_transposed(), layout.b_transposed()].map(|is| f64::from(u8::from(is)));
    let rows = storage.leading_dimensions(problem);
    let [lda, ldb, ldc] = rows.map(|row| f64::from(row.trailing_zeros().min(2)));
    [m, n, k, batch, a, b, lda, ldb, ldc]
}

/// Tiles, waves and what they leave empty; zeros where the grid says nothing.
fn of_cost(cost: &CostModel, problem: &Problem) -> [f64; OF_COST] {
    let Some(dealt) = cost.dealt(problem) else { return [0.0; OF_COST] };
    let [tile_m, tile_n] = dealt.tile;
    let [filled_m, filled_n] = dealt.filled;
    let parts = cost.parts();
    let busiest = dealt.share.ceil().max(1.0);
    [
        tile_m,
        tile_n,
        dealt.threads,
        tile_m * tile_n / dealt.threads.max(1.0),
        filled_m,
        filled_n,
        dealt.share,
        busiest / dealt.share.max(1e-9),
        busiest / parts.resident as f64,
        dealt.waves,
        dealt.steps,
        dealt.parts,
        parts.of_a,
        parts.of_b,
        f64::from(cost.more_launches()),
    ]
}
