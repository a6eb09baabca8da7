//! Building blocks of text tables: for a terminal of some width, or in Markdown.

use comfy_table::presets::{ASCII_MARKDOWN, NOTHING};
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Row, Table, Width};

/// The form of the tables of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableStyle {
    /// Columns of blanks, wrapped at so many columns of a terminal.
    Text {
        /// Columns of the terminal.
        width: u16,
    },
    /// Markdown, unwrapped.
    Markdown,
}

/// How much of a result is shown to people, and in which form.
#[derive(Debug, Clone, Copy)]
pub struct View {
    /// The form of tables.
    pub style: TableStyle,
    /// Whether all parameters of a configuration are shown, and constraints. Else only parameters that differ from the
    /// default of their family.
    pub verbose: bool,
}

impl TableStyle {
    /// An empty table.
    pub(super) fn table(self) -> Table {
        let mut table = Table::new();
        match self {
            Self::Text { width } => table
                .load_style(NOTHING)
                .set_content_arrangement(ContentArrangement::Dynamic)
                .set_width(width.max(1)),
            Self::Markdown => table
                .load_style(ASCII_MARKDOWN)
                .set_content_arrangement(ContentArrangement::Disabled),
        };
        table
    }

    /// The lines of a table. In Markdown, blank lines separate it from text.
    pub(super) fn draw(self, mut table: Table) -> String {
        match self {
            Self::Text { width } => {
                set_widths(&mut table, width);
                trim_lines(&table.to_string())
            }
            Self::Markdown => {
                if table.header().is_none() {
                    // A table of Markdown has a header.
                    let columns = table.column_count();
                    table.set_header(vec![""; columns]);
                }
                format!("\n{}\n", trim_lines(&table.to_string()))
            }
        }
    }

    /// Whether so many columns of a terminal are enough.
    pub(super) fn has(self, columns: u16) -> bool {
        match self {
            Self::Text { width } => width >= columns,
            Self::Markdown => true,
        }
    }

    /// A cell's text: a bar would end a cell of Markdown.
    pub(super) fn cell(self, text: &str) -> String {
        match self {
            Self::Text { .. } => text.to_owned(),
            Self::Markdown => text.replace('|', "\\|"),
        }
    }
}

/// Longest word that is kept whole: a path may be longer.
const LONGEST_WORD: usize = 48;

/// Blanks around the text of a cell.
const PADDING: usize = 2;

/// Sets the widths of the columns. The widest are narrowed until the table fits, but not below their longest word, so that
/// lines break between words.
fn set_widths(table: &mut Table, width: u16) {
    let mut widths = measured(table, |text| longest(text.lines()));
    let words = measured(table, |text| longest(text.split_whitespace()).min(LONGEST_WORD));
    let room = usize::from(width).saturating_sub(PADDING * widths.len());
    while widths.iter().sum::<usize>() > room {
        let wide = widths.iter_mut().zip(&words).filter(|(width, word)| **width > **word);
        let Some((widest, _)) = wide.max_by_key(|(width, _)| **width) else { break };
        *widest -= 1;
    }
    for (column, width) in table.column_iter_mut().zip(widths) {
        let width = u16::try_from(width.max(1) + PADDING).unwrap_or(u16::MAX);
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
    }
}

/// The largest measure of the cells of each column.
fn measured(table: &mut Table, measure: impl Fn(&str) -> usize) -> Vec<usize> {
    let count = table.column_count();
    let column = |place| {
        let heading = table.header().and_then(|row| row.cell_iter().nth(place));
        let cells = table.column_cells_iter(place).flatten().chain(heading);
        cells.map(|cell| measure(&cell.content())).max().unwrap_or(0)
    };
    (0..count).map(column).collect()
}

fn longest<'t>(parts: impl Iterator<Item = &'t str>) -> usize {
    parts.map(|part| part.chars().count()).max().unwrap_or(0)
}

/// Formats two columns.
pub fn pairs(rows: &[(String, String)], style: TableStyle) -> String {
    let mut table = style.table();
    for (name, value) in rows {
        table.add_row([name.clone(), style.cell(value)]);
    }
    style.draw(table)
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
pub(super) fn named<'t>(name: &str, figures: impl IntoIterator<Item = &'t str>) -> Row {
    let figures =
        figures.into_iter().map(|text| Cell::new(text).set_alignment(CellAlignment::Right));
    [Cell::new(name)].into_iter().chain(figures).collect::<Vec<_>>().into()
}

/// Removes the blanks that pad a table's last column.
pub(super) fn trim_lines(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
