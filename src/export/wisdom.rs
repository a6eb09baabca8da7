//! Kernel Launcher export: winners as wisdom files. A file is JSON lines: a header with the
//! parameter names, then a record per problem size. A file describes one kernel, here one family
//! for one dtype, compute type and layout. Times are in milliseconds.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::left_out::LeftOut;
use super::space::plain;
use crate::database::Record;
use crate::quote;

/// Makes each file's name and text, and lists the records that are left out: batched products, because
/// a problem size of Kernel Launcher has three extents.
pub fn wisdom(records: &[&Record]) -> (BTreeMap<String, String>, Vec<LeftOut>) {
    let (alone, batched): (Vec<&Record>, Vec<&Record>) =
        records.iter().partition(|record| record.problem.batch == 1);
    let mut kernels: BTreeMap<String, Vec<&Record>> = BTreeMap::new();
    for record in alone {
        let problem = &record.problem;
        let pattern = problem.pattern.to_string().replace([' ', '-', ','], "_");
        let name = format!("gemm_{pattern}_{}", record.family);
        kernels.entry(name).or_default().push(record);
    }
    let file = |(name, records): (String, Vec<&Record>)| {
        let text = file(&name, &records);
        (format!("{}.wisdom", quote::file_name(&name)), text)
    };
    let left_out = batched.into_iter().map(|record| {
        LeftOut::new(record.key(), "batched: this format describes products without a batch")
    });
    (kernels.into_iter().map(file).collect(), left_out.collect())
}

fn file(name: &str, records: &[&Record]) -> String {
    // Records of a family may have different parameters: the header has those of all.
    let mut parameters: Vec<&str> = Vec::new();
    for key in records.iter().flat_map(|record| record.parameters.keys()) {
        if !parameters.contains(&key.as_str()) {
            parameters.push(key);
        }
    }
    let header = json!({
        "version": "1.0",
        "objective": "time",
        "tunable_parameters": parameters,
        "key": name,
    });
    let mut lines = vec![header.to_string()];
    lines.extend(records.iter().map(|record| line(record, &parameters).to_string()));
    lines.join("\n") + "\n"
}

fn line(record: &Record, parameters: &[&str]) -> Json {
    let (problem, device) = (&record.problem, &record.device);
    let value = |name: &&str| record.parameters.get(*name).map_or(Json::Null, plain);
    json!({
        "config": parameters.iter().map(value).collect::<Vec<_>>(),
        "problem_size": [problem.m, problem.n, problem.k],
        "time": record.median().as_millis(),
        "environment": {
            "date": record.provenance.time.to_string(),
            "device_name": device.name,
            "compute_capability": device.compute_capability,
            "cuda_driver_version": device.driver_cuda,
            "cuda_version": record.provenance.nvrtc,
            "gemm_tune_version": record.provenance.gemm_tune,
        },
    })
}
