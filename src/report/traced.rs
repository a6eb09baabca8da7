//! Tables of a trace: the products of a program, and what it gains by tuned kernels.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::json::problem_document;
use super::table::{TableStyle, right_aligned};
use crate::database::Record;
use crate::model::{Micros, Problem, Regime};
use crate::session::{COVERED, KernelTimes, Trace, TraceGain};

/// Lines of a table.
const TOP: usize = 20;

/// The products of a trace, those that take most of the time first.
pub fn table(trace: &Trace, style: TableStyle) -> String {
    let total = trace.total();
    let mut table = style.table();
    table.set_header(right_aligned(["calls", "each", "share"], ["problem"]));
    for product in trace.products.iter().take(TOP) {
        let each = product.time.map_or("not timed".to_owned(), |time| time.to_string());
        let share = product
            .time
            .map_or(String::new(), |time| percent(time.0 * product.count as f64 / total.0));
        let figures = [product.count.to_string(), each, share];
        table.add_row(right_aligned(figures, [product.problem.to_string()]));
    }
    let mut text = style.draw(table);
    if let Some(more @ 1..) = trace.products.len().checked_sub(TOP) {
        text.push_str(&format!("and {more} more\n"));
    }
    let calls: u64 = trace.products.iter().map(|product| product.count).sum();
    text.push_str(&format!(
        "{calls} products of {} problems in {:.1} s on {}, {} in all; {} of the problems take {:.0} % of that\n",
        trace.products.len(),
        trace.seconds,
        trace.device,
        seconds(total),
        trace.worthwhile().len(),
        100.0 * COVERED,
    ));
    for (name, count) in &trace.others {
        text.push_str(&format!("not recorded: {count} calls of {name}\n"));
    }
    text
}

/// Whether a record is of a product of a trace, and was measured on its GPU.
pub fn is_of(trace: &Trace, record: &Record) -> bool {
    let problem = Problem::try_from(&record.problem).ok();
    record.device.name == trace.device
        && record.measurement.timing.is_none()
        && trace.products.iter().any(|product| Some(product.problem) == problem)
}

/// Times of the records of a trace. Those of the usual conditions of measurement come first.
pub fn kernels<'a>(
    trace: &Trace,
    records: impl IntoIterator<Item = &'a Record>,
) -> BTreeMap<Problem, KernelTimes> {
    let mut own: Vec<&Record> = records.into_iter().filter(|record| is_of(trace, record)).collect();
    own.sort_by_key(|record| record.regime() == Some(Regime::default()));
    let times = own.into_iter().filter_map(|record| {
        let library = record.baseline.as_ref().map(|baseline| Micros(baseline.median_us));
        let tuned = Micros(record.measurement.median_us);
        Some((Problem::try_from(&record.problem).ok()?, KernelTimes { tuned, library }))
    });
    times.collect()
}

/// What a program gains, problem by problem and in all.
pub fn gain(gain: &TraceGain, style: TableStyle) -> String {
    let mut table = style.table();
    let figures = ["calls", "share", "PyTorch", "library", "tuned", "speed-up", "saved"];
    table.set_header(right_aligned(figures, ["problem"]));
    for row in gain.rows.iter().take(TOP) {
        let (product, kernels) = (row.product, row.kernels);
        let time = |time: Option<Micros>| time.map_or(String::new(), |time| time.to_string());
        let figures = [
            product.count.to_string(),
            percent(row.share),
            time(product.time),
            time(kernels.and_then(|kernels| kernels.library)),
            time(kernels.map(|kernels| kernels.tuned)),
            row.speedup().map_or(String::new(), |speedup| format!("{speedup:.3}")),
            row.saved().map_or(String::new(), seconds),
        ];
        table.add_row(right_aligned(figures, [product.problem.to_string()]));
    }
    let mut text = style.draw(table);
    if let Some(more @ 1..) = gain.rows.len().checked_sub(TOP) {
        text.push_str(&format!("and {more} more\n"));
    }
    format!("{text}expected gain: {}\n", in_all(gain))
}

/// The gain in a sentence.
pub(super) fn in_all(gain: &TraceGain) -> String {
    format!(
        "{} of {} that the traced products take ({}), if kernels replace PyTorch's where they are faster; {} of {} problems \
         have a tuned kernel",
        seconds(gain.saved()),
        seconds(gain.total),
        percent(gain.part()),
        gain.tuned(),
        gain.rows.len(),
    )
}

/// A part of 0 to 1 in percent.
pub(super) fn percent(part: f64) -> String {
    format!("{:.1} %", 100.0 * part)
}

/// A time in seconds or milliseconds.
pub(super) fn seconds(time: Micros) -> String {
    if time.0.abs() < 1e6 {
        format!("{:.3} ms", time.0 / 1e3)
    } else {
        format!("{:.3} s", time.0 / 1e6)
    }
}

/// The JSON document of a trace.
pub fn document(trace: &Trace) -> Value {
    let products = trace.products.iter().map(|product| {
        json!({
            "problem": problem_document(&product.problem),
            "count": product.count,
            "torch_us": product.time.map(|time| time.0),
        })
    });
    json!({
        "device": trace.device,
        "seconds": trace.seconds,
        "torch_us": trace.total().0,
        "products": products.collect::<Vec<_>>(),
        "others": trace.others,
    })
}

/// The JSON document of a gain.
pub fn gain_document(gain: &TraceGain) -> Value {
    let rows = gain.rows.iter().map(|row| {
        json!({
            "problem": problem_document(&row.product.problem),
            "count": row.product.count,
            "share": row.share,
            "torch_us": row.product.time.map(|time| time.0),
            "library_us": row.kernels.and_then(|kernels| kernels.library).map(|time| time.0),
            "tuned_us": row.kernels.map(|kernels| kernels.tuned.0),
            "speedup": row.speedup(),
            "saved_us": row.saved().map(|time| time.0),
        })
    });
    json!({
        "saved_us": gain.saved().0,
        "torch_us": gain.total.0,
        "part": gain.part(),
        "products": rows.collect::<Vec<_>>(),
    })
}
