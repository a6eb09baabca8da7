//! Whether the values of a record can be: times above 0 and finite, extents within the limits, names
//! that are shown as they are. A record with an impossible value is never used: a negative time would
//! win every comparison.

use super::record::Record;
use super::sections::{StoredFinalist, StoredMeasurement, StoredPattern, StoredProblem};
use crate::model::Value;
use crate::model::launch::WORKSPACE_ALIGNMENT;
use crate::model::problem::{MAX_BATCH, MAX_EXTENT};
use crate::quote;

/// Most streaming multiprocessors of a device: far above any.
const MAX_SMS: u32 = 1 << 16;

/// Most bytes of a workspace: far above any device's memory.
const MAX_WORKSPACE: u64 = 1 << 48;

/// Most bytes of a name or reason: above those of any configuration. Tables lay out each word of them.
const MAX_TEXT: usize = 10_000;

/// Most finalists of a final, and rounds of each: above those of any.
const MAX_FINALISTS: u64 = 100;
const MAX_ROUNDS: u64 = 1000;

/// Largest logarithm of a ratio of times in millionths: a factor of 22,000.
const MAX_LOG_RATIO_PPM: u64 = 10_000_000;

/// A field with an impossible value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Implausible {
    /// Its dotted name.
    pub(super) field: &'static str,
    /// What is wrong with it.
    pub(super) message: String,
}

type Checked = Result<(), Implausible>;

fn refuse(field: &'static str, message: String) -> Checked {
    Err(Implausible { field, message })
}

/// Checks all values of a record.
pub(super) fn check(record: &Record) -> Checked {
    problem(&record.problem)?;
    measurement(&record.measurement)?;
    if let Some(baseline) = &record.baseline {
        positive("baseline.median_us", baseline.median_us)?;
        positive("baseline.speedup", baseline.speedup)?;
        for library in &baseline.all {
            positive("baseline.all", library.median_us)?;
            text("baseline.all", &library.name)?;
        }
        text("baseline.name", &baseline.name)?;
    }
    if let Some(confidence) = &record.confidence {
        let figures = confidence.margin_percent.into_iter();
        for figure in figures.chain(confidence.interval_percent.into_iter().flatten()) {
            finite("confidence", figure)?;
        }
        text("confidence.ended", &confidence.ended)?;
        for name in confidence.runner_up.iter().chain(&confidence.tie_set) {
            text("confidence", name)?;
        }
        finalists(&confidence.finalists)?;
    }
    if let Some(conditions) = &record.conditions {
        for power in conditions.power_w.into_iter().flatten() {
            finite("conditions.power_w", power)?;
        }
        for reason in &conditions.throttle_reasons {
            text("conditions.throttle_reasons", reason)?;
        }
    }
    for (name, time) in &record.landmarks_us {
        text("landmarks_us", name)?;
        positive("landmarks_us", *time)?;
    }
    for (name, value) in &record.parameters {
        text("parameters", name)?;
        match value {
            Value::Float(value) => finite("parameters", *value)?,
            Value::Text(value) => text("parameters", value)?,
            Value::Bool(_) | Value::Int(_) => {}
        }
    }
    let validation = &record.validation;
    not_negative("validation.max_error", validation.max_error)?;
    not_negative("validation.bound", validation.bound)?;
    text("validation.reference", &validation.reference)?;
    for check in &validation.also_right_on {
        text("validation.also_right_on", check)?;
    }
    if let Some(occupancy) = record.resources.occupancy
        && !(0.0..=1.0).contains(&occupancy)
    {
        return refuse("resources.occupancy", format!("{occupancy} is not within 0 to 1"));
    }
    code(record)?;
    origin(record)
}

fn problem(problem: &StoredProblem) -> Checked {
    let StoredProblem { m, n, k, batch, pattern } = problem;
    let StoredPattern { dtype, b_dtype, out, compute, layout, epilogue } = pattern;
    let extents = [
        ("problem.m", *m, MAX_EXTENT),
        ("problem.n", *n, MAX_EXTENT),
        ("problem.k", *k, MAX_EXTENT),
        ("problem.batch", *batch, MAX_BATCH),
    ];
    for (field, extent, most) in extents {
        within(field, extent, 1, most)?;
    }
    if let Ok(known) = crate::model::Problem::try_from(problem)
        && let Err(error) = known.check_size()
    {
        return refuse("problem", error.to_string());
    }
    text("problem.dtype", dtype)?;
    for (field, word) in
        [("problem.b_dtype", b_dtype), ("problem.out", out), ("problem.epilogue", epilogue)]
    {
        word.iter().try_for_each(|word| text(field, word))?;
    }
    text("problem.compute", compute)?;
    text("problem.layout", layout)
}

fn measurement(measurement: &StoredMeasurement) -> Checked {
    positive("measurement.median_us", measurement.median_us)?;
    positive("measurement.p05_us", measurement.p05_us)?;
    positive("measurement.p95_us", measurement.p95_us)?;
    for sample in &measurement.samples_us {
        positive("measurement.samples_us", *sample)?;
    }
    not_negative("measurement.tflops", measurement.tflops)?;
    if let Some(share) = measurement.percent_of_peak {
        not_negative("measurement.percent_of_peak", share)?;
    }
    text("measurement.cache_policy", &measurement.cache_policy)?;
    text("measurement.power", &measurement.power)?;
    measurement.timing.as_ref().map_or(Ok(()), |timing| text("measurement.timing", timing))
}

/// Rounds of finalists. Decisions are made again from them, in time that grows with their number.
fn finalists(finalists: &[StoredFinalist]) -> Checked {
    let field = "confidence.finalists";
    within(field, finalists.len() as u64, 0, MAX_FINALISTS)?;
    for finalist in finalists {
        text(field, &finalist.kernel)?;
        within(field, finalist.log_ratios_ppm.len() as u64, 0, MAX_ROUNDS)?;
        for ratio in &finalist.log_ratios_ppm {
            within(field, u64::from(ratio.unsigned_abs()), 0, MAX_LOG_RATIO_PPM)?;
        }
    }
    Ok(())
}

/// The kernel's names and sizes.
fn code(record: &Record) -> Checked {
    text("family", &record.family)?;
    for launch in &record.launch {
        for size in launch.grid.iter().chain(&launch.block) {
            within("launch", u64::from(*size), 1, u64::from(u32::MAX))?;
        }
        text("launch.entry", &launch.entry)?;
        for argument in &launch.arguments {
            text("launch.arguments", argument)?;
        }
    }
    for workspace in &record.workspaces {
        text("workspaces.name", &workspace.name)?;
        within("workspaces.bytes", workspace.bytes, 0, MAX_WORKSPACE)?;
        let align = workspace.align.unwrap_or(WORKSPACE_ALIGNMENT);
        if !align.is_power_of_two() || align > WORKSPACE_ALIGNMENT {
            let what = format!("{align} is no power of two up to {WORKSPACE_ALIGNMENT}");
            return refuse("workspaces.align", what);
        }
    }
    for map in &record.tensor_maps {
        text("tensor_maps.name", &map.name)?;
        text("tensor_maps.operand", &map.operand)?;
    }
    Ok(())
}

/// The device and the tools. The command line is not looked at: it may hold any argument.
fn origin(record: &Record) -> Checked {
    let (device, provenance) = (&record.device, &record.provenance);
    text("device.name", &device.name)?;
    text("device.compute_capability", &device.compute_capability)?;
    within("device.sms", u64::from(device.sms), 1, u64::from(MAX_SMS))?;
    text("device.driver", device.driver.as_deref().unwrap_or_default())?;
    text("device.driver_cuda", &device.driver_cuda)?;
    text("provenance.gemm_tune", &provenance.gemm_tune)?;
    text("provenance.template_hash", &provenance.template_hash)?;
    text("provenance.nvrtc", &provenance.nvrtc)
}

fn positive(field: &'static str, value: f64) -> Checked {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    refuse(field, format!("{value} is not above 0 and finite"))
}

fn not_negative(field: &'static str, value: f64) -> Checked {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    refuse(field, format!("{value} is not from 0 and finite"))
}

fn finite(field: &'static str, value: f64) -> Checked {
    if value.is_finite() { Ok(()) } else { refuse(field, format!("{value} is not finite")) }
}

fn within(field: &'static str, value: u64, least: u64, most: u64) -> Checked {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    refuse(field, format!("{value} is not within {least} to {most}"))
}

fn text(field: &'static str, text: &str) -> Checked {
    if text.len() > MAX_TEXT {
        return refuse(field, format!("it has {} bytes, above {MAX_TEXT}", text.len()));
    }
    if text.chars().any(quote::is_hidden) {
        let shown = quote::line(text);
        return refuse(field, format!("`{shown}` has characters that are not shown as they are"));
    }
    Ok(())
}
