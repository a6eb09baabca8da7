//! `docs/reference/formats.md`: every field of the database and of a bundle's manifest, of the schemas.

use std::fmt::Write as _;

use serde_json::Value;

use super::{COMMAND, assert_generated, cell, text_of};

const PAGE: &str = "docs/reference/formats.md";

/// Each schema with its heading and the file that it describes.
const SCHEMAS: [(&str, &str); 3] = [
    ("Database: `results/GPU.toml`", "schemas/database.schema.json"),
    ("Bundle: `manifest.json`", "schemas/manifest.schema.json"),
    ("Trace: `trace.json`", "schemas/trace.schema.json"),
];

#[test]
fn the_page_of_formats_has_every_field_of_the_schemas() {
    let mut page = format!(
        "# Formats\n\n\
         Generated from `schemas/` by `{COMMAND}`. Do not edit this page.\n\
         Validators of JSON Schema read the same files.\n"
    );
    for (heading, path) in SCHEMAS {
        let schema: Value = serde_json::from_str(&text_of(path)).unwrap();
        write!(page, "\n## {heading}\n\n").unwrap();
        writeln!(page, "{}. Schema: [`{path}`](../../{path}).\n", words(&schema, "title")).unwrap();
        writeln!(page, "{}", words(&schema, "description")).unwrap();
        describe("", &schema, &mut page);
        for (name, definition) in schema["$defs"].as_object().into_iter().flatten() {
            for variant in definition["oneOf"].as_array().into_iter().flatten() {
                describe(name, variant, &mut page);
            }
        }
    }
    assert_generated(PAGE, &page);
}

/// Adds a table of an object's fields, then those of the objects in it.
fn describe(path: &str, schema: &Value, page: &mut String) {
    let Some(fields) = schema["properties"].as_object() else { return };
    if !path.is_empty() {
        write!(page, "\n### {path}\n").unwrap();
    }
    page.push_str("\n| field | type | required | meaning |\n|---|---|---|---|\n");
    let required: Vec<&str> = schema["required"]
        .as_array()
        .map_or(Vec::new(), |names| names.iter().filter_map(Value::as_str).collect());
    for (name, field) in fields {
        let needed = if required.contains(&name.as_str()) { "yes" } else { "" };
        let (kind, meaning) = (kind(field), cell(&words(field, "description")));
        writeln!(page, "| `{name}` | {kind} | {needed} | {meaning} |").unwrap();
    }
    for (name, field) in fields {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        describe(&path, field, page);
        describe(&path, &field["items"], page);
        describe(&format!("{path}.NAME"), &field["additionalProperties"], page);
    }
}

fn words(schema: &Value, key: &str) -> String {
    schema[key].as_str().unwrap_or_default().to_owned()
}

/// The type of a field, with its limits.
fn kind(field: &Value) -> String {
    if let Some(name) = field["$ref"].as_str() {
        return name.trim_start_matches("#/$defs/").to_owned();
    }
    if let Some(values) = field["enum"].as_array() {
        return values.iter().map(Value::to_string).collect::<Vec<_>>().join(" or ");
    }
    if !field["const"].is_null() {
        return field["const"].to_string();
    }
    let name = match &field["type"] {
        Value::Array(several) => {
            several.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
        }
        one => one.as_str().unwrap_or("any").to_owned(),
    };
    match name.as_str() {
        "array" => {
            let of = kind(&field["items"]);
            match (field["minItems"].as_u64(), field["maxItems"].as_u64()) {
                (Some(least), Some(most)) if least == most => format!("array of {most} {of}"),
                (Some(least), _) => format!("array of {of}, at least {least}"),
                _ => format!("array of {of}"),
            }
        }
        "object" if field["additionalProperties"].is_object() => {
            format!("object of {}", kind(&field["additionalProperties"]))
        }
        _ => match field["minimum"].as_i64() {
            Some(least) => format!("{name}, at least {least}"),
            None => name,
        },
    }
}
