//! The section of one problem.

use serde_json::{Value, json};

use super::super::margins::of_record;
use super::super::records::NON_DETERMINISTIC;
use super::content::{ProblemReport, id, is_modelled, modelled};
use super::sources::PackedSources;
use super::{case_name, charts, data};
use crate::database::Record;
use crate::inspect::landscape;
use crate::model::units::human_bytes;
use crate::model::{Micros, Tflops};
use crate::tune::Recorded;

/// Number of constraints listed.
const CUTS: usize = 4;

/// Values of a problem's section, open or folded.
pub(super) fn section(
    number: usize,
    case: &ProblemReport<'_>,
    sources: &PackedSources<'_>,
    open: bool,
) -> Value {
    let (winner, summary) = match case.record {
        Some(record) => (winner(record), summary(record)),
        None => (Vec::new(), case.journal.map(fastest).unwrap_or_default()),
    };
    json!({
        "id": id(number),
        "open": open,
        "problem": case_name(case),
        "summary": summary,
        "winner": winner,
        "conditions": case.record.map(conditions).unwrap_or_default(),
        "search": case.journal.filter(|journal| !journal.entries.is_empty())
            .map(|journal| search(case, journal)),
        "source": case.source.as_deref().and_then(|source| sources.number(source)),
    })
}

type Pairs = Vec<(&'static str, String)>;

fn summary(record: &Record) -> String {
    let measurement = &record.measurement;
    let (time, rate) = (Micros(measurement.median_us), Tflops(measurement.tflops));
    let against = record.baseline.as_ref();
    let against =
        against.map(|library| format!(", {:.3} times as fast as the library", library.speedup));
    let against = against.unwrap_or_default();
    format!("{}{time}, {rate} TFLOP/s{against}, {}", modelled(record), record.family)
}

/// Summary of a search without a recorded winner.
fn fastest(journal: &Recorded) -> String {
    let best = landscape::convergence(&journal.entries).last().copied();
    let best = best.map_or("none is correct".to_owned(), |(_, time)| format!("best {time}"));
    format!("{} configurations, {best}", journal.entries.len())
}

fn winner(record: &Record) -> Pairs {
    let measurement = &record.measurement;
    let (low, high) = (Micros(measurement.p05_us), Micros(measurement.p95_us));
    let mut pairs: Pairs = vec![
        (
            if is_modelled(record) { "modelled winner" } else { "winner" },
            format!("{} {}", record.family, record.configuration()),
        ),
        (
            "time",
            format!(
                "{}{}, 90 % of {} samples within {low} to {high}",
                modelled(record),
                Micros(measurement.median_us),
                measurement.samples
            ),
        ),
    ];
    let peak = measurement.percent_of_peak;
    let peak = peak.map_or(String::new(), |share| format!(", {share:.1} % of peak"));
    pairs.push(("rate", format!("{} TFLOP/s{peak}", Tflops(measurement.tflops))));
    if let Some(baseline) = &record.baseline {
        let time = Micros(baseline.median_us);
        pairs.push((
            "library",
            format!("{}: {time}, speed-up {:.3}", baseline.name, baseline.speedup),
        ));
    }
    if let Some(confidence) = &record.confidence {
        let margin = of_record(confidence).map_or(String::new(), |words| format!(": {words}"));
        let rounds = confidence.rounds;
        pairs.push(("confidence", format!("{} after {rounds} rounds{margin}", confidence.ended)));
        if let Some(runner_up) = &confidence.runner_up {
            pairs.push(("runner-up", runner_up.clone()));
        }
    }
    let validation = &record.validation;
    pairs.push((
        "validation",
        format!(
            "largest error {:.1e} of the allowed {:.1e} against {}",
            validation.max_error, validation.bound, validation.reference
        ),
    ));
    let resources = &record.resources;
    let occupancy = resources
        .occupancy
        .map_or(String::new(), |share| format!(", occupancy {:.0} %", 100.0 * share));
    pairs.push((
        "resources",
        format!(
            "{} registers, {} spilled, {} shared memory{occupancy}",
            resources.registers,
            human_bytes(resources.spill_bytes.into()),
            human_bytes(resources.shared_bytes.into())
        ),
    ));
    pairs
}

/// Conditions of the measurement.
fn conditions(record: &Record) -> Pairs {
    let (measurement, device) = (&record.measurement, &record.device);
    let mut pairs: Pairs = vec![(
        "device",
        format!("{}, {} SMs, at most {} MHz", device.name, device.sms, device.max_sm_clock_mhz),
    )];
    let driver = device.driver.as_deref().unwrap_or("unknown");
    let provenance = &record.provenance;
    pairs.push((
        "software",
        format!("driver {driver}, NVRTC {}, gemm-tune {}", provenance.nvrtc, provenance.gemm_tune),
    ));
    pairs.push(("cache and power", format!("{}, {}", measurement.cache_policy, measurement.power)));
    let sensors = record.conditions.clone().unwrap_or_default();
    let range =
        |low: String, high: String| if low == high { low } else { format!("{low} to {high}") };
    let clock = sensors.sm_clock_mhz.or(measurement.sm_clock_mhz.map(|clock| [clock; 2]));
    if let Some([low, high]) = clock {
        pairs.push(("SM clock", format!("{} MHz", range(low.to_string(), high.to_string()))));
    }
    if let Some([low, high]) = sensors.power_w {
        pairs.push(("power", format!("{} W", range(low.to_string(), high.to_string()))));
    }
    if let Some([low, high]) = sensors.temperature_c {
        pairs.push(("temperature", format!("{} °C", range(low.to_string(), high.to_string()))));
    }
    if !sensors.throttle_reasons.is_empty() {
        pairs.push(("throttle reasons", sensors.throttle_reasons.join(", ")));
    }
    if !record.deterministic {
        pairs.push(("deterministic", NON_DETERMINISTIC.to_owned()));
    }
    let interim = if provenance.interim { ", interrupted" } else { "" };
    pairs.push(("decided", format!("{}, seed {}{interim}", provenance.time, provenance.seed)));
    pairs
}

fn search(case: &ProblemReport<'_>, journal: &Recorded) -> Value {
    let entries = &journal.entries;
    let families = landscape::families(entries);
    let family = families.first().copied().unwrap_or_default();
    let spreads: Vec<Value> = landscape::spreads(entries, family)
        .iter()
        .map(|spread| json!({ "name": spread.parameter, "plot": charts::values(journal, spread) }))
        .collect();
    let tallies: Vec<Value> = landscape::outcome_counts(entries)
        .into_iter()
        .map(|tally| {
            json!({ "kind": tally.kind.name(), "count": tally.count, "reasons": tally.reasons })
        })
        .collect();
    let mut pruned: Vec<_> = case.pruned.iter().filter(|cut| cut.configurations > 0).collect();
    pruned.sort_by_key(|cut| std::cmp::Reverse(cut.configurations));
    let cuts = pruned.iter().take(CUTS).map(|cut| {
        let count = grouped(cut.configurations);
        json!({ "count": count, "number": cut.configurations.to_string(), "require": cut.require, "because": cut.because })
    });
    let levels = charts::Levels::of(case);
    json!({
        "family": family,
        "distribution": charts::distribution(journal, &families, &levels),
        "convergence": charts::convergence(journal, &families, &levels),
        "tallies": tallies,
        "cuts": cuts.collect::<Vec<_>>(),
        "spreads": spreads,
        "data": data::packed(journal, &families, &levels),
    })
}

/// Formats a whole number with separated thousands.
fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}
