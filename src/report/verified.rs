//! Report of the verification of a recorded winner.

use serde_json::{Value, json};

use super::margins;
use super::records::problem;
use crate::database::{Drift, Record};
use crate::measure::Margin;
use crate::model::Timing;
use crate::tune::{Retimed, Standing};

/// Recorded and new times of a record, and its drift.
pub fn text(record: &Record, retimed: &Retimed, drifts: &[Drift]) -> String {
    let word = if drifts.is_empty() { "holds" } else { "drifts" };
    let mut text = format!("{} (key {}) {word}\n", problem(record), record.key());
    if let Ok(winner) = &retimed.winner {
        let (then, now) = (record.median(), winner.measurement.median());
        let (title, modelled) = match winner.measurement.timing {
            Timing::Measured => ("winner         ", ""),
            Timing::Modelled => ("modelled winner", ", modelled"),
        };
        let change = 100.0 * (now.0 / then.0 - 1.0);
        text.push_str(&format!("  {title} {then} then, {now} now ({change:+.2} %{modelled})\n"));
    }
    match (&retimed.runner_up, &retimed.margin) {
        (None, _) => {}
        (Some(Err(why)), _) => {
            text.push_str(&format!("  runner-up       cannot be timed: {why}\n"))
        }
        (Some(Ok(_)), None) => {
            text.push_str("  runner-up       not compared: the final round was cut short\n")
        }
        (Some(Ok(_)), Some(margin)) => {
            let stored = record.confidence.as_ref();
            let then = match stored.and_then(|stored| stored.interval_percent) {
                Some([low, high]) => format!("{low:+.2} to {high:+.2} % then, "),
                None => String::new(),
            };
            let now = interval(margin);
            text.push_str(&format!(
                "  runner-up       {then}{now} now in {} rounds\n",
                retimed.rounds
            ));
        }
    }
    for (library, margin) in &retimed.libraries {
        let margin = margin.as_ref().map(interval).unwrap_or_default();
        text.push_str(&format!(
            "  library         {margin} now: {} ({})\n",
            library.name,
            library.measurement.median()
        ));
    }
    for drift in drifts {
        text.push_str(&format!("  drift           {drift}\n"));
    }
    text
}

/// What an update did to a record; `updated` is the new one, `None` where no final was held.
pub fn update(record: &Record, updated: Option<&Record>) -> String {
    let Some(updated) = updated else {
        return "  update          none: no final was held\n".to_owned();
    };
    let margin = updated.confidence.as_ref().and_then(margins::of_record).unwrap_or_default();
    if (&record.family, &record.parameters) == (&updated.family, &updated.parameters) {
        return format!("  update          the winner stays, {margin}\n");
    }
    format!(
        "  update          new winner {} {}, {margin}\n",
        updated.family,
        updated.configuration()
    )
}

/// The verification as JSON.
pub fn document(record: &Record, retimed: &Retimed, drifts: &[Drift]) -> Value {
    let standing = |standing: &Result<Standing, String>| match standing {
        Ok(standing) => json!({
            "median_us": standing.measurement.median(),
            "timing": standing.measurement.timing,
            "samples": standing.measurement.samples.len(),
        }),
        Err(why) => json!({ "error": why }),
    };
    let libraries: Vec<Value> = retimed
        .libraries
        .iter()
        .map(|(library, margin)| {
            json!({
                "name": library.name,
                "median_us": library.measurement.median(),
                "margin": margin.as_ref().map(margin_document),
            })
        })
        .collect();
    json!({
        "holds": drifts.is_empty(),
        "drifts": drifts.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "stored_median_us": record.median(),
        "winner": standing(&retimed.winner),
        "runner_up": retimed.runner_up.as_ref().map(standing),
        "margin": retimed.margin.as_ref().map(margin_document),
        "libraries": libraries,
        "rounds": retimed.rounds,
        "tainted_rounds": retimed.tainted_rounds(),
    })
}

fn margin_document(margin: &Margin) -> Value {
    let interval = margin.high.is_finite().then_some([margin.low, margin.high]);
    json!({ "percent": margin.percent, "interval_percent": interval })
}

fn interval(margin: &Margin) -> String {
    let Margin { percent, low, high } = margin;
    if high.is_finite() && low != high {
        format!("{percent:+.2} % ({low:+.2} to {high:+.2})")
    } else {
        format!("{percent:+.2} %")
    }
}
