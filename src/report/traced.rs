//! Tables of a trace: the products of a program, and what it gains by tuned kernels.

use serde_json::{Value, json};

use super::json::problem_document;
use super::table::{TableStyle, right_aligned};
use crate::model::Micros;
use crate::session::{COVERED, Trace, TraceGain};

/// Lines of a table.
const TOP: usize = 20;

/// The products of a trace, those that take most of the time first.
pub fn table(trace: &Trace, style: TableStyle) -> String {
    let total = trace.total();
    let mut table = style.table();
    table.set_header(right_aligned(["calls", "each", "share"], ["problem"]));
    for product in trace.products.iter().take(TOP) {
        let each = product.time.map_or("not timed".to_owned(), |time| time.to_string());
        let share = product.time.map_or(String::new(), |time| {
            format!("{:.1} %", 100.0 * time.0 * product.count as f64 / total.0)
        });
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

/// What a program gains, problem by problem and in all.
pub fn gain(gain: &TraceGain, style: TableStyle) -> String {
    let mut table = style.table();
    table.set_header(right_aligned(["calls", "PyTorch", "tuned", "saved"], ["problem"]));
    for row in gain.rows.iter().take(TOP) {
        let figures = [
            row.product.count.to_string(),
            row.torch.to_string(),
            row.tuned.to_string(),
            seconds(row.saved()),
        ];
        table.add_row(right_aligned(figures, [row.product.problem.to_string()]));
    }
    format!("{}expected gain: {}\n", style.draw(table), in_all(gain))
}

/// The gain in a sentence.
fn in_all(gain: &TraceGain) -> String {
    let (saved, total) = (gain.saved(), gain.total);
    let part = if total.0 > 0.0 { 100.0 * saved.0 / total.0 } else { 0.0 };
    format!(
        "{} of {} that the traced products take ({part:.1} %), where kernels replace PyTorch's that are faster",
        seconds(saved),
        seconds(total)
    )
}

/// A time in seconds or milliseconds.
fn seconds(time: Micros) -> String {
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
            "torch_us": row.torch.0,
            "tuned_us": row.tuned.0,
            "saved_us": row.saved().0,
        })
    });
    json!({ "saved_us": gain.saved().0, "torch_us": gain.total.0, "products": rows.collect::<Vec<_>>() })
}
