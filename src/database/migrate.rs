//! Migrates files of older schemas, one step per schema. Later writes use this version's schema.

use toml_edit::{DocumentMut, Item, value};

use super::document::SCHEMA;

/// Changes a document of one schema into the next.
pub(super) type MigrationStep = fn(&mut DocumentMut);

/// Migration steps, the first from schema 1 to 2. They change what is above the records: large files are not read whole.
pub(super) const STEPS: &[MigrationStep] = &[with_gemm_types];

/// Schema 2 adds the keys `b_dtype`, `out` and `epilogue` to problems. A program that does not know them would take such
/// a record for one of another problem, so the schema is another one. Records without them are the same in both.
fn with_gemm_types(_: &mut DocumentMut) {}

/// Migrates a document from `schema` to the schema after the last step.
pub(super) fn migrate(document: &mut DocumentMut, schema: i64, steps: &[MigrationStep]) {
    let done = usize::try_from(schema - 1).unwrap_or(0);
    for (step, to) in steps.iter().zip(2..).skip(done) {
        step(document);
        let decor = document.get("schema").and_then(Item::as_value).map(|old| old.decor().clone());
        document["schema"] = value(to);
        if let (Some(decor), Some(new)) = (decor, document["schema"].as_value_mut()) {
            *new.decor_mut() = decor;
        }
    }
}

/// The text of a large file as one of this schema, without parsing its records. Others, and what is no database, stay as
/// they are.
pub(super) fn migrated(text: String) -> String {
    let Some(records) = text.find("\n[[record]]") else { return text };
    let (head, rest) = text.split_at(records);
    let Ok(mut above) = head.parse::<DocumentMut>() else { return text };
    match above.get("schema").and_then(Item::as_integer) {
        Some(schema @ 1..SCHEMA) => {
            migrate(&mut above, schema, STEPS);
            [&above.to_string(), rest].concat()
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_takes_every_step_from_its_own_schema_on() {
        let steps: [MigrationStep; 2] = [
            |document| document["renamed"] = document.remove("old").unwrap_or_default(),
            |document| document["added"] = value(true),
        ];
        for (text, schema, expected) in [
            ("schema = 1\nold = 5 # five\n", 1, "schema = 3\nrenamed = 5 # five\nadded = true\n"),
            ("schema = 2\nrenamed = 5\n", 2, "schema = 3\nrenamed = 5\nadded = true\n"),
            ("schema = 3\nold = 5\n", 3, "schema = 3\nold = 5\n"),
        ] {
            let mut document: DocumentMut = text.parse().unwrap();
            migrate(&mut document, schema, &steps);
            assert_eq!(document.to_string(), expected);
        }
    }

    #[test]
    fn the_steps_lead_to_the_schema_of_this_version() {
        assert_eq!(STEPS.len() as i64 + 1, SCHEMA);
    }

    #[test]
    fn the_text_of_an_older_schema_changes_above_its_records_only() {
        for (text, expected) in [
            (
                "# mine\nschema = 1 # old\n\n[[record]]\nschema = 1\n",
                "# mine\nschema = 2 # old\n\n[[record]]\nschema = 1\n",
            ),
            ("schema = 2\n[[record]]\n", "schema = 2\n[[record]]\n"),
            ("schema = 0\n[[record]]\n", "schema = 0\n[[record]]\n"),
            ("schema = \n[[record]]\n", "schema = \n[[record]]\n"),
            ("schema = 1\n", "schema = 1\n"),
        ] {
            assert_eq!(migrated(text.to_owned()), expected);
        }
    }
}
