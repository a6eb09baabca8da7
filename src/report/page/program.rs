//! The section of a traced program: its products, and what it gains by tuned kernels.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::traced::{in_all, percent, seconds};
use super::content::{ProblemReport, id, ratio_bar};
use crate::model::{Micros, Problem};
use crate::session::{ProductGain, Trace, TraceGain};

/// A traced program and what it gains.
#[derive(Debug, Clone, Copy)]
pub struct TracedProgram<'a> {
    /// Its products.
    pub trace: &'a Trace,
    /// Their times.
    pub gain: &'a TraceGain,
}

impl TracedProgram<'_> {
    /// The figure at the top.
    pub(super) fn tile(&self) -> Value {
        let value = format!("{}, {}", percent(self.gain.part()), seconds(self.gain.saved()));
        json!({ "label": "expected gain of the traced products", "value": value })
    }

    /// The section. Rows lead to the sections of problems.
    pub(super) fn section(&self, cases: &[ProblemReport<'_>]) -> Value {
        let numbered = cases.iter().enumerate();
        let sections: BTreeMap<Problem, usize> =
            numbered.filter_map(|(number, case)| Some((case.problem()?, number))).collect();
        let rows = self.gain.rows.iter().map(|own| row(own, &sections));
        let others = self.trace.others.iter();
        json!({
            "name": self.trace.program.join(" "),
            "device": self.trace.device,
            "torch": self.trace.torch,
            "seconds": format!("{:.1}", self.trace.seconds),
            "in_all": in_all(self.gain),
            "rows": rows.collect::<Vec<_>>(),
            "others": others.map(|(name, count)| format!("{count} calls of {name}")).collect::<Vec<_>>(),
        })
    }
}

fn row(own: &ProductGain, sections: &BTreeMap<Problem, usize>) -> Value {
    let product = &own.product;
    let Problem { shape, batch, types, layout, epilogue } = product.problem;
    let time = |time: Option<Micros>| json!({ "us": time.map(|time| time.0), "text": time.map_or(String::new(), |time| time.to_string()) });
    let speedup = own.speedup();
    json!({
        "id": sections.get(&product.problem).map(|number| id(*number)),
        "shape": if batch == 1 { shape.to_string() } else { format!("{shape} x{batch}") },
        "type": types.to_string(),
        "layout": layout.to_string(),
        "epilogue": epilogue.to_string(),
        "count": product.count,
        "share": format!("{:.1}", 100.0 * own.share),
        "torch": time(product.time),
        "library": time(own.kernels.and_then(|kernels| kernels.library)),
        "tuned": time(own.kernels.map(|kernels| kernels.tuned)),
        "speedup": speedup.map_or(String::new(), |speedup| format!("{speedup:.3}")),
        "bar": speedup.map(ratio_bar),
        "saved": json!({
            "us": own.saved().map(|saved| saved.0),
            "text": own.saved().map_or(String::new(), seconds),
        }),
    })
}
