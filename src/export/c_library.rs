//! Rows of the library in the table of kernels of the C source: cuBLASLt with the recorded algorithm for problems where
//! the library was clearly faster, and one for each pattern, which the forecast of the library's time chooses: cuBLAS, or
//! cuBLASLt where it has an epilogue.

use std::fmt::Write as _;

use super::c_types::{epilogue_number, types_constant};
use super::draft::KernelDraft;
use crate::database::{Record, StoredBaseline};
use crate::gpu::{
    ATTRIBUTES, COMPUTE, Cublas, LibraryAlgorithm, LibraryNumbers, WORKSPACE, algorithm_name,
};
use crate::lookup::{is_clearly_faster, measured_library};
use crate::model::{Device, Micros, Problem};
use crate::predict::{
    BATCH_WEIGHT, FORMULA_WEIGHT, LAYOUT_WEIGHT, LEAST_PART, LIBRARY_MARGIN, LIBRARY_SPLITS,
    LIBRARY_TILES, LibraryModel, resident_blocks,
};
use crate::process::LIBRARY_VARIABLES;
use crate::quote;

/// What a call of the library from Python takes the host: 18 to 25 us, and that of a kernel 10
/// (docs/decisions/2026-11-26-library-time.md).
pub const LIBRARY_CALL_FROM_PYTHON: Micros = Micros(20.0);

/// Part of the source that tables are filled into.
pub(super) const TABLES: &str = include_str!("artifact/c/library/tables.c");

/// Attribute that says how parts of a split are added, and its value for sums in the compute type
/// (`CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE`).
const ADDING_PARTS: &str = "reduction";
const IN_COMPUTE_TYPE: u64 = 2;

/// Row of the library.
struct LibraryRow<'a> {
    problem: Problem,
    /// The record that the library won; `None` for a row of a pattern.
    record: Option<&'a Record>,
    algorithm: LibraryAlgorithm,
    numbers: LibraryNumbers,
}

/// Rows and tables of the library.
pub(super) struct LibraryTables {
    /// Number of rows.
    pub(super) rows: usize,
    /// Rows of the table of kernels.
    pub(super) kernel_rows: String,
    /// Values of placeholders by name.
    pub(super) values: Vec<(&'static str, String)>,
}

impl LibraryTables {
    /// The rows for the patterns and the records of drafts. Without any there is no table: the library computes none of
    /// the patterns.
    pub(super) fn new<'a>(
        drafts: impl Iterator<Item = &'a KernelDraft> + Clone,
        models: &[LibraryModel],
        device: &Device,
    ) -> Option<Self> {
        let mut rows: Vec<LibraryRow<'_>> = Vec::new();
        for draft in drafts.clone() {
            let Some(record) = &draft.record else { continue };
            let is_new = rows.iter().all(|row| row.problem != draft.problem);
            let Some(library) = measured_library(record).filter(|library| library.is_preferred)
            else {
                continue;
            };
            if let (true, Ok(numbers)) = (is_new, Cublas::numbers(&draft.problem)) {
                let (problem, algorithm) = (draft.problem, library.algorithm);
                rows.push(LibraryRow { problem, record: Some(record), algorithm, numbers });
            }
        }
        let recorded = rows.len();
        for draft in drafts {
            let is_known = |row: &LibraryRow<'_>| row.problem.pattern() == draft.pattern();
            if let (false, Ok(numbers)) =
                (rows[recorded..].iter().any(is_known), Cublas::numbers(&draft.problem))
            {
                let algorithm = LibraryAlgorithm::new();
                rows.push(LibraryRow { problem: draft.problem, record: None, algorithm, numbers });
            }
        }
        if rows.is_empty() {
            return None;
        }
        let (costs, knowns, places) = forecasts(models, device);
        let mut kernel_rows = String::new();
        let mut library_rows = String::new();
        for row in &rows {
            let is_forecast =
                |model: &LibraryModel| row.record.is_none() && model.serves(&row.problem);
            let place = models.iter().position(is_forecast);
            let place = place.map_or("-1, 0, 0".to_owned(), |at| {
                format!("{at}, {}, {}", places[at].0, places[at].1)
            });
            kernel_rows += &row.kernel_row();
            library_rows += &row.library_row(&place);
        }
        let tiles = LIBRARY_TILES
            .map(|tile| format!("{{ {}, {}, {} }}", tile.0, tile.1, resident_blocks(tile)));
        let attributes = ATTRIBUTES.map(|own| format!("{{ {}, {} }}", own.number, own.bytes));
        let variables = LIBRARY_VARIABLES.map(quote::c_string);
        let values = vec![
            ("@LIBRARY_ROWS@", rows.len().to_string()),
            ("@LIBRARY_TILES@", LIBRARY_TILES.len().to_string()),
            ("@LIBRARY_SPLITS@", LIBRARY_SPLITS.len().to_string()),
            ("@LIBRARY_ATTRIBUTES@", ATTRIBUTES.len().to_string()),
            ("@LEAST_PART@", LEAST_PART.to_string()),
            ("@FORMULA_WEIGHT@", format!("{FORMULA_WEIGHT:e}")),
            ("@BATCH_WEIGHT@", format!("{BATCH_WEIGHT:e}")),
            ("@LAYOUT_WEIGHT@", format!("{LAYOUT_WEIGHT:e}")),
            ("@LIBRARY_MARGIN@", format!("{LIBRARY_MARGIN:e}")),
            ("@LIBRARY_CALL_US@", format!("{:e}", LIBRARY_CALL_FROM_PYTHON.0)),
            ("@LIBRARY_TILE_TABLE@", tiles.join(", ")),
            ("@LIBRARY_SPLIT_TABLE@", LIBRARY_SPLITS.map(|split| split.to_string()).join(", ")),
            ("@LIBRARY_ATTRIBUTE_TABLE@", attributes.join(", ")),
            ("@LIBRARY_COSTS_TABLE@", costs),
            ("@KNOWN_TABLE@", knowns),
            ("@LIBRARY_ROW_TABLE@", library_rows),
            ("@LIBRARY_VARIABLES@", variables.join(", ")),
        ];
        Some(Self { rows: rows.len(), kernel_rows, values })
    }
}

/// Rows of the tables of costs and of known times, and where the times of each model begin and how many there are.
fn forecasts(models: &[LibraryModel], device: &Device) -> (String, String, Vec<(usize, usize)>) {
    let (mut costs, mut knowns, mut places, mut count) =
        (String::new(), String::new(), Vec::new(), 0);
    for model in models {
        let own = &model.costs;
        let plain = [own.launch_us, own.alone, own.wave_us, own.byte_us, own.split_us, own.part_us];
        let plain = plain.map(|cost| format!("{cost:e}")).join(", ");
        let steps = own.step_us.map(|cost| format!("{cost:e}")).join(", ");
        // Writing to a string does not fail.
        let _ = writeln!(costs, "    {{ {plain}, {{ {steps} }} }},");
        for known in &model.known {
            let Problem { shape, batch, layout, .. } = known.problem(model.types);
            let layout = 2 * i32::from(layout.a_transposed()) + i32::from(layout.b_transposed());
            let longer = model.ratio(known, device);
            let _ = writeln!(
                knowns,
                "    {{ {{ {}, {}, {}, {batch} }}, {layout}, {longer:e} }},",
                shape.m, shape.n, shape.k
            );
        }
        places.push((count, model.known.len()));
        count += model.known.len();
    }
    if models.is_empty() {
        costs.push_str("    { 0, 0, 0, 0, 0, 0, { 0 } },\n");
    }
    if count == 0 {
        knowns.push_str("    { { 0, 0, 0, 0 }, 0, 0 },\n");
    }
    (costs, knowns, places)
}

impl LibraryRow<'_> {
    /// Name among the kernels: a word, as files of measured kernels have it.
    fn name(&self) -> String {
        let pattern = self.problem.pattern().identifier();
        let Problem { shape, batch, .. } = self.problem;
        let batch = if batch == 1 { String::new() } else { format!("x{batch}") };
        match self.record {
            Some(_) => format!("cublasLt_{pattern}_{shape}{batch}"),
            None => format!("cublasLt_{pattern}"),
        }
    }

    /// Row of the table of kernels, without launches.
    fn kernel_row(&self) -> String {
        let (name, Problem { shape, batch, epilogue, .. }) = (self.name(), self.problem);
        format!(
            "    /* {} */\n    {{ {}, {}, {},\n      {}, 1, {}, {}, {}, {batch}, 0, 0, 1, 0, 0, serves_library, \
             sizes_library, NULL,\n      1, 1, 0, 1, 1, 0, 0, 0,\n      0, 0, 0, 0, 0, 0, 1 }},\n",
            quote::c_comment(&name),
            quote::c_string(&name),
            types_constant(self.problem.pattern()),
            epilogue_number(epilogue),
            i32::from(self.record.is_some()),
            shape.m,
            shape.n,
            shape.k,
        )
    }

    /// Row of the library's table. `forecast` are the places of its costs and known times.
    fn library_row(&self, forecast: &str) -> String {
        let is_split = self.algorithm.get("split_k").is_some_and(|parts| *parts > 1);
        let number = |name: &str| match self.algorithm.get(name) {
            Some(value) => value.to_string(),
            // Earlier records do not say how parts are added: an algorithm that adds none does not split.
            None if name == ADDING_PARTS && is_split => IN_COMPUTE_TYPE.to_string(),
            None => "-1".to_owned(),
        };
        let is_plain = Cublas::has_routine(&self.problem);
        let label = match (self.record, self.algorithm.is_empty()) {
            (Some(_), true) | (None, _) if is_plain => "cuBLAS".to_owned(),
            (Some(_), true) | (None, _) => "cublasLt".to_owned(),
            _ => algorithm_name(&self.algorithm),
        };
        let attributes = ATTRIBUTES.map(|own| number(own.name)).join(", ");
        let LibraryNumbers { ab, d, scale, compute, epilogue, reduces_in_d } = self.numbers;
        let types = self.problem.types;
        // Earlier records do not say the compute type.
        let algorithm_compute = self.algorithm.get(COMPUTE).copied().unwrap_or(compute.into());
        format!(
            "    {{ {}, {ab}, {d}, {scale}, {compute}, {epilogue}, {}, {}, {}, {}, {algorithm_compute}, {}, {},\n      {}, {{ \
             {attributes} }}, {forecast} }},\n",
            quote::c_string(&label),
            i32::from(reduces_in_d),
            types.a.bytes(),
            types.d.bytes(),
            i32::from(self.algorithm.contains_key("id")),
            i32::from(self.record.is_none_or(is_faster_by_itself)),
            i32::from(is_plain),
            number(WORKSPACE),
        )
    }
}

/// Whether the library was clearly faster than a record with the algorithm that it chooses.
fn is_faster_by_itself(record: &Record) -> bool {
    let own_choice = record.baseline.as_ref().map(StoredBaseline::own_choice);
    own_choice.is_some_and(|time| is_clearly_faster(time, record.median()))
}

/// The parts of the source as they are with the library or without: lines that begin with `@L@` are kept with it, those
/// with `@N@` without.
pub(super) fn with_or_without(source: &str, has_library: bool) -> String {
    let (kept, dropped) = if has_library { ("@L@", "@N@") } else { ("@N@", "@L@") };
    let lines = source.split_inclusive('\n').filter(|line| !line.starts_with(dropped));
    lines.map(|line| line.strip_prefix(kept).unwrap_or(line)).collect()
}
