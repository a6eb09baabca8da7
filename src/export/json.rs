//! JSON export: records as one document, with the field names of the database file.

use serde_json::{Value, json as document};

use crate::database::{Record, SCHEMA};

/// `{ "schema": 2, "gemm_tune": "0.1.0", "records": [...] }`; each record also has its `key`.
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
