//! Building blocks of text tables.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Row, Table};

/// Formats two columns.
pub fn pairs(rows: &[(String, String)], width: u16) -> String {
    let mut table = plain_table(width);
    for (name, value) in rows {
        table.add_row([name, value]);
    }
    trim_lines(&table.to_string())
}

pub(super) fn plain_table(width: u16) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table
}

pub(super) fn right_aligned<S: Into<String>, T: Into<String>>(
    right: impl IntoIterator<Item = S>,
    left: impl IntoIterator<Item = T>,
) -> Row {
    let right =
        right.into_iter().map(|text| Cell::new(text.into()).set_alignment(CellAlignment::Right));
    let left = left.into_iter().map(|text| Cell::new(text.into()));
    right.chain(left).collect::<Vec<_>>().into()
}

/// A row with a name and right-aligned figures.
pub(super) fn named<const N: usize>(name: &str, figures: [&str; N]) -> Row {
    let figures = figures.map(|text| Cell::new(text).set_alignment(CellAlignment::Right));
    [Cell::new(name)].into_iter().chain(figures).collect::<Vec<_>>().into()
}

/// Removes the blanks that pad a table's last column.
pub(super) fn trim_lines(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
