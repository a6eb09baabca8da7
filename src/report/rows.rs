//! JSON documents as comma-separated values.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::quote;

/// The rows of a document, with a header. The rows are the elements of the document, where it is an array, else of its
/// only array of objects, else the document is one row. Members of objects are columns with dots in their names; an
/// array is a cell of JSON. Nothing without rows.
pub fn csv(document: &Value) -> String {
    let rows: Vec<BTreeMap<String, String>> =
        elements(document).into_iter().map(|row| flat(row, "")).collect();
    let mut columns: Vec<&String> = rows.iter().flat_map(BTreeMap::keys).collect();
    columns.sort();
    columns.dedup();
    if columns.is_empty() {
        return String::new();
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    let header = columns.iter().map(|column| column.as_str());
    let cells = |row: &BTreeMap<String, String>| -> Vec<String> {
        let cell = |column: &&String| quote::csv_field(row.get(*column).map_or("", String::as_str));
        columns.iter().map(cell).collect()
    };
    let written = writer.write_record(header).is_ok()
        && rows.iter().all(|row| writer.write_record(cells(row)).is_ok());
    // Rows of equal length in memory are always written.
    let bytes = if written { writer.into_inner().unwrap_or_default() } else { Vec::new() };
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The values that are rows.
fn elements(document: &Value) -> Vec<&Value> {
    let is_rows =
        |value: &&Value| value.as_array().is_some_and(|all| all.iter().all(Value::is_object));
    if let Some(rows) = document.as_array() {
        return rows.iter().collect();
    }
    let mut arrays = document.as_object().into_iter().flat_map(|all| all.values()).filter(is_rows);
    match (arrays.next().and_then(Value::as_array), arrays.next()) {
        (Some(rows), None) => rows.iter().collect(),
        _ => vec![document],
    }
}

/// The columns of a row, named from `place` downwards.
fn flat(value: &Value, place: &str) -> BTreeMap<String, String> {
    let below =
        |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
    match value {
        Value::Object(members) => {
            members.iter().flat_map(|(name, member)| flat(member, &below(name))).collect()
        }
        Value::Null => BTreeMap::from([(column(place), String::new())]),
        Value::String(text) => BTreeMap::from([(column(place), text.clone())]),
        other => BTreeMap::from([(column(place), other.to_string())]),
    }
}

/// The name of a column: `value` for rows that are no objects.
fn column(place: &str) -> String {
    if place.is_empty() { "value".to_owned() } else { place.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::csv;

    #[test]
    fn rows_are_the_elements_of_the_only_array_of_objects() {
        for (document, expected) in [
            (json!([{ "a": 1, "b": "x,y" }, { "a": null }]), "a,b\n1,\"x,y\"\n,\n"),
            (json!({ "device": "D", "rows": [{ "a": { "b": [1, 2] } }] }), "a.b\n\"[1,2]\"\n"),
            (
                json!({ "one": [{ "a": 1 }], "two": [{ "b": 2 }], "c": 3 }),
                "c,one,two\n3,\"[{\"\"a\"\":1}]\",\"[{\"\"b\"\":2}]\"\n",
            ),
            (json!({ "time": 1.5, "ok": true }), "ok,time\ntrue,1.5\n"),
            (json!([1, "b"]), "value\n1\nb\n"),
            (json!([]), ""),
        ] {
            assert_eq!(csv(&document), expected, "{document}");
        }
    }

    #[test]
    fn a_formula_of_a_spreadsheet_is_text() {
        assert_eq!(csv(&json!({ "a": "=1+1" })), "a\n'=1+1\n");
    }
}
