//! Records as one JSON document, with the fields of the database file and their names.

use serde_json::{Value, json as document};

use crate::database::{Record, SCHEMA};

/// `{ "schema": 1, "gemm_tune": "0.1.0", "records": [...] }`; each record has its `key` besides.
pub fn json(records: &[&Record]) -> Value {
    let records: Vec<Value> = records
        .iter()
        .map(|record| {
            let mut fields = document!(record);
            fields["key"] = document!(record.key());
            fields
        })
        .collect();
    document!({ "schema": SCHEMA, "gemm_tune": env!("CARGO_PKG_VERSION"), "records": records })
}
