//! Migrates files of older schemas, one step per schema. Later writes use this version's schema.

use toml_edit::{DocumentMut, value};

/// Changes a document of one schema into the next.
pub(super) type MigrationStep = fn(&mut DocumentMut);

/// Migration steps, the first from schema 1 to 2. There is none yet: schema 1 is the first.
pub(super) const STEPS: &[MigrationStep] = &[];

/// Migrates a document from `schema` to the schema after the last step.
pub(super) fn migrate(document: &mut DocumentMut, schema: i64, steps: &[MigrationStep]) {
    let done = usize::try_from(schema - 1).unwrap_or(0);
    for (step, to) in steps.iter().zip(2..).skip(done) {
        step(document);
        document["schema"] = value(to);
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
        assert_eq!(STEPS.len() as i64 + 1, super::super::SCHEMA);
    }
}
