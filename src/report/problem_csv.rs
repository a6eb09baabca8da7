//! Comma-separated values with a problem per line, for spreadsheets. The columns after the
//! problem's are the caller's.

use crate::model::Problem;
use crate::quote;

/// Columns of the problem.
const PROBLEM: [&str; 7] = ["m", "n", "k", "batch", "dtype", "layout", "epilogue"];

/// Formats the lines, after one with the column names. `columns` follow the problem's columns.
pub(super) fn lines<const N: usize>(
    columns: [&str; N],
    rows: impl IntoIterator<Item = (Problem, [String; N])>,
) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Writing into memory does not fail, and every row has as many fields as there are columns.
    let _ = writer.write_record(PROBLEM.iter().chain(&columns));
    for (Problem { shape, batch, types, layout, epilogue }, row) in rows {
        let [m, n, k] = [shape.m, shape.n, shape.k].map(|extent| extent.to_string());
        let problem = [
            m,
            n,
            k,
            batch.to_string(),
            types.to_string(),
            layout.to_string(),
            epilogue.to_string(),
        ];
        let row = row.iter().map(|field| quote::csv_field(field));
        let _ = writer.write_record(problem.iter().cloned().chain(row));
    }
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}
