//! Reports of database records: lists and details, as text and as JSON.

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};

use super::margins;
use super::sequence::Sequence;
use super::table::{TableStyle, pairs, right_aligned};
use crate::database::{Record, StoredConfidence};
use crate::measure::{Margin, TieRule};
use crate::model::{Micros, Tflops};

/// Text for a kernel with non-deterministic results.
pub(super) const NON_DETERMINISTIC: &str =
    "no: two runs on the same values may differ in their last bits";

/// A record with its file.
pub type LocatedRecord<'a> = (&'a Path, &'a Record);

/// Records of a table, and of a list that is made at a time. A longer list takes several tables, with a
/// header each: a table needs ten times the memory of its text.
const TABLE_RECORDS: usize = 1000;

/// List of records, one per line.
pub fn list(records: &[LocatedRecord<'_>], style: TableStyle) -> String {
    let tables = records.par_chunks(TABLE_RECORDS).map(|records| list_table(records, style));
    tables.collect::<Vec<_>>().join("\n")
}

/// Columns of a terminal from which on the list has rates and margins.
const WIDE: u16 = 100;

fn list_table(records: &[LocatedRecord<'_>], style: TableStyle) -> String {
    let is_wide = style.has(WIDE);
    let figures = |[median, rate, speedup]: [String; 3]| {
        if is_wide { vec![median, rate, speedup] } else { vec![median, speedup] }
    };
    let words = |[problem, family, device, margin, key]: [String; 5]| {
        if is_wide {
            vec![problem, family, device, margin, key]
        } else {
            vec![problem, family, key]
        }
    };
    let mut table = style.table();
    table.set_header(right_aligned(
        figures(["median", "TFLOP/s", "vs library"].map(str::to_owned)),
        words(["problem", "family", "device", "margin", "key"].map(str::to_owned)),
    ));
    for (_, record) in records {
        let measurement = &record.measurement;
        let speedup = record.baseline.as_ref().map(|baseline| baseline.speedup);
        let bits = if record.deterministic { "" } else { " (not deterministic)" };
        let family = format!("{}{bits}", record.family);
        table.add_row(right_aligned(
            figures([
                Micros(measurement.median_us).to_string(),
                Tflops(measurement.tflops).to_string(),
                speedup.map_or(String::new(), |speedup| format!("{speedup:.3}x")),
            ]),
            words([problem(record), family, device(record), margin(record), record.key()]),
        ));
    }
    style.draw(table)
}

/// The list as JSON: the summary of each record, without samples and launches.
pub fn list_document(records: &[LocatedRecord<'_>]) -> impl Serialize {
    let entry = |(file, record): &LocatedRecord<'_>| {
        let mut document = summary(record);
        document["file"] = json!(file.display().to_string());
        document
    };
    let entries =
        move |records: &[LocatedRecord<'_>]| records.par_iter().map(entry).collect::<Vec<_>>();
    ListDocument { records: Sequence(records.chunks(TABLE_RECORDS).flat_map(entries)) }
}

#[derive(Serialize)]
struct ListDocument<R> {
    records: R,
}

/// Summary of a record as JSON.
pub fn summary(record: &Record) -> Value {
    json!({
        "key": record.key(),
        "problem": record.problem,
        "device": record.device.name,
        "compute_capability": record.device.compute_capability,
        "cache_policy": record.measurement.cache_policy,
        "power": record.measurement.power,
        "timing": record.measurement.timing,
        "family": record.family,
        "parameters": record.parameters,
        "deterministic": record.deterministic,
        "median_us": record.measurement.median_us,
        "tflops": record.measurement.tflops,
        "speedup_over_library": record.baseline.as_ref().map(|baseline| baseline.speedup),
        "interim": record.provenance.interim,
        "time": record.provenance.time.to_string(),
    })
}

/// Details of a record, without its samples.
pub fn details(file: &Path, record: &Record, style: TableStyle) -> String {
    let measurement = &record.measurement;
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut row = |name: &str, value: String| rows.push((name.to_owned(), value));
    row("key", format!("{} in {}", record.key(), file.display()));
    let title = if record.is_modelled() { "modelled winner" } else { "winner" };
    let winner = format!("{} {}", record.family, record.configuration());
    row(title, winner.clone());
    if !record.deterministic {
        row("deterministic", NON_DETERMINISTIC.to_owned());
    }
    let timing = measurement.timing.as_deref().map_or(String::new(), |word| format!(", {word}"));
    let peak = measurement.percent_of_peak.map_or(String::new(), |p| format!(", {p:.1} % of peak"));
    row(
        "time",
        format!(
            "{} = {} TFLOP/s{peak}{timing}",
            Micros(measurement.median_us),
            Tflops(measurement.tflops)
        ),
    );
    row(
        "samples",
        format!(
            "{} of {} launches each, 5 % below {}, 5 % above {}",
            measurement.samples,
            measurement.launches_per_sample,
            Micros(measurement.p05_us),
            Micros(measurement.p95_us)
        ),
    );
    let clock = measurement.sm_clock_mhz.map_or(String::new(), |mhz| format!(", SMs at {mhz} MHz"));
    let policy =
        format!("cache policy `{}`, {} power", measurement.cache_policy, measurement.power);
    row("conditions", format!("{policy}{clock}"));
    if let Some(confidence) = &record.confidence {
        row("confidence", decided(confidence));
        if let Some(runner_up) = &confidence.runner_up {
            row("runner-up", beside_winner(&winner, runner_up));
        }
        for tied in &confidence.tie_set {
            row("ties with", beside_winner(&winner, tied));
        }
        for (finalist, standing) in finalists(confidence) {
            row("finalist", format!("{standing}: {}", beside_winner(&winner, finalist)));
        }
        if let Some(stable) = confidence.winner_by(TieRule::Small)
            && confidence.winner_by(TieRule::Insignificant) != Some(stable)
        {
            row("by --stable", stable.to_owned());
        }
    }
    if let Some(baseline) = &record.baseline {
        let fastest = (baseline.name.clone(), baseline.median_us);
        let all = baseline.all.iter().map(|library| (library.name.clone(), library.median_us));
        let libraries: Vec<_> = if baseline.all.is_empty() { vec![fastest] } else { all.collect() };
        for (name, median_us) in libraries {
            let ratio = median_us / measurement.median_us;
            row("library", format!("{} ({ratio:.3}x): {name}", Micros(median_us)));
        }
    }
    let validation = &record.validation;
    row(
        "validation",
        format!(
            "largest error {:.1e} of the allowed {:.1e} against {}",
            validation.max_error, validation.bound, validation.reference
        ),
    );
    let resources = &record.resources;
    let occupancy = resources
        .occupancy
        .map_or(String::new(), |share| format!(", occupancy {:.0} %", 100.0 * share));
    row(
        "resources",
        format!(
            "{} registers, {} bytes spilled, {} bytes of shared memory{occupancy}",
            resources.registers, resources.spill_bytes, resources.shared_bytes
        ),
    );
    for launch in &record.launch {
        row(
            "launch",
            format!(
                "{} grid {:?} block {:?} dynamic shared memory {}",
                launch.entry, launch.grid, launch.block, launch.dynamic_shared_bytes
            ),
        );
    }
    for workspace in &record.workspaces {
        row("workspace", format!("{} of {} bytes", workspace.name, workspace.bytes));
    }
    let own = &record.device;
    let driver = own.driver.as_deref().map_or(String::new(), |driver| format!(", driver {driver}"));
    row(
        "device",
        format!(
            "{}, compute capability {}, {} SMs{driver}, CUDA {}",
            own.name, own.compute_capability, own.sms, own.driver_cuda
        ),
    );
    let provenance = &record.provenance;
    let interim = if provenance.interim { ", interim: the search was interrupted" } else { "" };
    row(
        "provenance",
        format!(
            "{}, gemm-tune {}, NVRTC {}, template {}, seed {}{interim}",
            provenance.time,
            provenance.gemm_tune,
            provenance.nvrtc,
            provenance.template_hash,
            provenance.seed
        ),
    );
    format!("{}\n{}", problem(record), pairs(&rows, style))
}

/// A record as JSON: every field, its key and its file.
pub fn document(file: &Path, record: &Record) -> Value {
    let mut document = json!(record);
    document["key"] = json!(record.key());
    document["file"] = json!(file.display().to_string());
    document
}

/// Names of files, for messages.
pub fn names(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Formats the problem: `4096x4096x1024 f32 nn`, with everything that is not the default.
pub fn problem(record: &Record) -> String {
    let stored = &record.problem;
    let mut text = format!("{}x{}x{} {}", stored.m, stored.n, stored.k, stored.pattern);
    if stored.batch != 1 {
        text.push_str(&format!(" x{}", stored.batch));
    }
    if record.measurement.cache_policy != crate::model::CachePolicy::Rotate.name() {
        text.push_str(&format!(" {}", record.measurement.cache_policy));
    }
    if record.measurement.power != crate::model::PowerState::Burst.name() {
        text.push_str(&format!(" {}", record.measurement.power));
    }
    text
}

pub(super) fn device(record: &Record) -> String {
    let timing = if record.is_modelled() { ", modelled" } else { "" };
    format!("{}{timing}", record.device.name)
}

/// Formats time and kernel: `748.8 µs, blocktile BM=128`, marked if non-deterministic or interim.
pub(super) fn standing(record: &Record) -> String {
    let interim = if record.provenance.interim { ", interim" } else { "" };
    let bits = if record.deterministic { "" } else { ", not deterministic" };
    format!("{}, {} {}{bits}{interim}", record.median(), record.family, record.configuration())
}

/// Short form of a winner's margin.
fn margin(record: &Record) -> String {
    if record.provenance.interim {
        return "interim".to_owned();
    }
    let Some(confidence) = &record.confidence else { return "-".to_owned() };
    match (confidence.tie_set.len(), confidence.margin_percent) {
        (0, Some(margin)) => format!("{margin:+.2}%"),
        (0, None) => "no other".to_owned(),
        (ties, _) => format!("tie of {}", ties + 1),
    }
}

/// A kernel by the parameters in which it differs from the winner, where both are of one family.
fn beside_winner(winner: &str, kernel: &str) -> String {
    if kernel == winner {
        return "the winner".to_owned();
    }
    let family = |kernel: &str| kernel.split_whitespace().next().map(str::to_owned);
    if family(kernel) != family(winner) {
        return kernel.to_owned();
    }
    let differs = |word: &&str| !winner.split_whitespace().any(|own| own == *word);
    let differing: Vec<&str> = kernel.split_whitespace().filter(differs).collect();
    format!("as the winner but {}", differing.join(" "))
}

/// The finalists of a record that has their rounds, fastest first, with their margins over the winner.
fn finalists(confidence: &StoredConfidence) -> Vec<(&str, String)> {
    let order = confidence.decided_by(TieRule::default()).map_or(Vec::new(), |result| result.order);
    let finalists = order.iter().filter_map(|standing| {
        let kernel = &confidence.finalists.get(standing.entrant)?.kernel;
        let Margin { percent, low, high } = standing.margin;
        let rounds = standing.rounds;
        Some((
            kernel.as_str(),
            format!("{percent:+.2} % ({low:+.2} to {high:+.2}), {rounds} rounds"),
        ))
    });
    finalists.collect()
}

fn decided(confidence: &StoredConfidence) -> String {
    let StoredConfidence { rounds, tainted_rounds, ended, .. } = confidence;
    let margin = margins::of_record(confidence).map_or(String::new(), |words| words + ", ");
    let tainted = if *tainted_rounds == 0 {
        String::new()
    } else {
        format!(", {tainted_rounds} more discarded")
    };
    format!("{margin}{rounds} rounds, {ended}{tainted}")
}
