//! CSV export (RFC 4180): a line per record, for spreadsheets and data frames. Details that do not
//! fit a line, such as samples, are left to the other formats.

use crate::database::Record;
use crate::quote;

const COLUMNS: [&str; 35] = [
    "key",
    "m",
    "n",
    "k",
    "batch",
    "dtype",
    "b_dtype",
    "out",
    "compute",
    "layout",
    "epilogue",
    "device",
    "compute_capability",
    "cache_policy",
    "power",
    "timing",
    "family",
    "parameters",
    "median_us",
    "p05_us",
    "p95_us",
    "tflops",
    "percent_of_peak",
    "library",
    "library_us",
    "speedup",
    "registers",
    "spill_bytes",
    "shared_bytes",
    "occupancy",
    "grid",
    "block",
    "interim",
    "time",
    "deterministic",
];

/// Makes the table; its first line names the columns. Times are in microseconds; unknown values are
/// empty.
///
/// # Errors
/// An error of the CSV writer, which does not occur in memory.
pub fn csv(records: &[&Record]) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    for record in records {
        writer.write_record(row(record).map(|field| quote::csv_field(&field)))?;
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn row(record: &Record) -> [String; COLUMNS.len()] {
    let (problem, measurement) = (&record.problem, &record.measurement);
    let (device, resources) = (&record.device, &record.resources);
    let pattern = &problem.pattern;
    let baseline = record.baseline.as_ref();
    let launch = record.launch.first();
    let extents = |extents: Option<[u32; 3]>| {
        extents.map_or(String::new(), |[x, y, z]| format!("{x}x{y}x{z}"))
    };
    fn known<T: ToString>(value: Option<T>) -> String {
        value.map_or(String::new(), |value| value.to_string())
    }
    [
        record.key(),
        problem.m.to_string(),
        problem.n.to_string(),
        problem.k.to_string(),
        problem.batch.to_string(),
        pattern.dtype.clone(),
        pattern.b_dtype.clone().unwrap_or_default(),
        pattern.out.clone().unwrap_or_default(),
        pattern.compute.clone(),
        pattern.layout.clone(),
        pattern.epilogue.clone().unwrap_or_default(),
        device.name.clone(),
        device.compute_capability.clone(),
        measurement.cache_policy.clone(),
        measurement.power.clone(),
        measurement.timing.clone().unwrap_or_else(|| "measured".to_owned()),
        record.family.clone(),
        record.configuration().to_string(),
        measurement.median_us.to_string(),
        measurement.p05_us.to_string(),
        measurement.p95_us.to_string(),
        measurement.tflops.to_string(),
        known(measurement.percent_of_peak),
        known(baseline.map(|baseline| &baseline.name)),
        known(baseline.map(|baseline| baseline.median_us)),
        known(baseline.map(|baseline| baseline.speedup)),
        resources.registers.to_string(),
        resources.spill_bytes.to_string(),
        resources.shared_bytes.to_string(),
        known(resources.occupancy),
        extents(launch.map(|launch| launch.grid)),
        extents(launch.map(|launch| launch.block)),
        record.provenance.interim.to_string(),
        record.provenance.time.to_string(),
        record.deterministic.to_string(),
    ]
}
