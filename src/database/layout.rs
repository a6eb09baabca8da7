//! TOML layout of a record: a line for each short section, a table for each long one. A file is
//! easy to read, and a new winner changes few lines.

use toml_edit::visit_mut::VisitMut;
use toml_edit::{ArrayOfTables, Formatted, InlineTable, Item, Table, Value, ser};

use super::record::Record;

/// Sections with a table of their own.
const TABLES: [&str; 5] = ["confidence", "landmarks_us", "measurement", "device", "provenance"];

/// Lists whose entries take a line each.
const LISTS: [&str; 2] = ["workspaces", "tensor_maps"];

/// Samples per line: keeps lines under 100 columns for samples below a second.
const SAMPLES_A_LINE: usize = 8;

/// Encodes `record` as the table of a `[[record]]`.
pub(super) fn table(record: &Record) -> Result<Table, ser::Error> {
    let mut table = ser::to_document(record)?.into_table();
    ShortFloats.visit_table_mut(&mut table);
    for name in TABLES {
        in_place(&mut table, name, as_table);
    }
    for name in LISTS {
        if let Some(list) = table.get_mut(name) {
            in_lines(list, 1);
        }
    }
    in_place(&mut table, "launch", as_array_of_tables);
    if let Some(all) = table.get_mut("baseline").and_then(|baseline| baseline.get_mut("all")) {
        in_lines(all, 1);
    }
    if let Some(list) = table.get_mut("confidence").and_then(|c| c.get_mut("finalists")) {
        in_lines(list, 1);
    }
    if let Some(samples) = table.get_mut("measurement").and_then(|m| m.get_mut("samples_us")) {
        in_lines(samples, SAMPLES_A_LINE);
    }
    Ok(table)
}

fn in_place(table: &mut Table, key: &str, change: fn(Item) -> Item) {
    if let Some(item) = table.get_mut(key) {
        *item = change(std::mem::take(item));
    }
}

fn as_table(item: Item) -> Item {
    item.into_table().map_or_else(|item| item, Item::Table)
}

fn as_array_of_tables(item: Item) -> Item {
    let Item::Value(Value::Array(array)) = item else { return item };
    // An empty list has no other form than `[]`.
    if array.is_empty() {
        return Item::Value(Value::Array(array));
    }
    let tables = array.into_iter().filter_map(|value| match value {
        Value::InlineTable(table) => Some(InlineTable::into_table(table)),
        _ => None,
    });
    Item::ArrayOfTables(ArrayOfTables::from_iter(tables))
}

/// Breaks an array into lines of `each` values.
fn in_lines(item: &mut Item, each: usize) {
    if let Some(array) = item.as_array_mut() {
        for (index, value) in array.iter_mut().enumerate() {
            let prefix = if index % each == 0 { "\n    " } else { " " };
            value.decor_mut().set_prefix(prefix);
        }
        array.set_trailing_comma(true);
        array.set_trailing("\n");
    }
}

/// Writes very small and very large numbers with an exponent: `1.23e-7`.
struct ShortFloats;

impl VisitMut for ShortFloats {
    fn visit_float_mut(&mut self, node: &mut Formatted<f64>) {
        let magnitude = node.value().abs();
        let long = magnitude != 0.0 && !(1e-4..1e16).contains(&magnitude);
        if long && let Ok(Value::Float(short)) = format!("{:e}", node.value()).parse() {
            *node = short;
        }
    }
}
