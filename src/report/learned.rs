//! Report of learned models: what they were fitted to, and their quality on held-out problems.

use serde_json::{Value, json};

use super::json::problem_document;
use super::table::{TableStyle, named};
use crate::model::Problem;
use crate::predict::{FamilyModel, LearnedModel, LibraryChoice};

/// Numbers of evaluated kernels at which the quality is reported.
pub const COUNTS: [usize; 6] = [1, 5, 10, 20, 40, 80];

/// A problem that was held out.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldOut {
    /// The problem.
    pub problem: Problem,
    /// Best time among the first kernels that the model proposes, divided by the best of all.
    pub found: Vec<f64>,
}

/// For people.
pub fn table(model: &LearnedModel, held_out: &[HeldOut], style: TableStyle) -> String {
    let mut table = style.table();
    table.set_header(named("family", ["problems", "times", "90 % within"]));
    for (name, family_model) in models(model) {
        let within = format!("{:.0} %", family_model.error_percent);
        let (problems, times) = (family_model.problems.to_string(), family_model.times.to_string());
        table.add_row([name.clone(), problems, times, within]);
    }
    for library in &model.libraries {
        let algorithm = match library.algorithm {
            LibraryChoice::Best => "best algorithm",
            LibraryChoice::Own => "own choice",
        };
        let name = format!("cuBLASLt {}, {algorithm}", library.types);
        let known = library.known.len().to_string();
        let within = format!("{:.0} %", library.error_percent);
        table.add_row([name, known.clone(), known, within]);
    }
    let mut text = format!("learned on {}\n{}", model.device, style.draw(table));
    if !held_out.is_empty() {
        let mut table = style.table();
        let counts = COUNTS.map(|count| count.to_string());
        table.set_header(named(
            "held out: ratio to the best after",
            counts.each_ref().map(|c| &**c),
        ));
        for one in held_out {
            let found = one.found.iter().map(|ratio| format!("{ratio:.3}"));
            table.add_row(std::iter::once(one.problem.to_string()).chain(found));
        }
        text += &format!("\n{}", style.draw(table));
    }
    text
}

/// The models of all families with their names.
fn models(model: &LearnedModel) -> impl Iterator<Item = (&String, &FamilyModel)> {
    model.families.iter().flat_map(|(name, models)| models.iter().map(move |one| (name, one)))
}

/// For programs.
pub fn document(model: &LearnedModel, held_out: &[HeldOut]) -> Value {
    let families = models(model).map(|(name, family_model)| {
        json!({
            "family": name,
            "problems": family_model.problems,
            "times": family_model.times,
            "error_percent": family_model.error_percent,
        })
    });
    let held_out = held_out.iter().map(|one| {
        let found = COUNTS.iter().zip(&one.found);
        let found: Vec<Value> = found
            .map(|(count, ratio)| json!({ "evaluations": count, "over_best": ratio }))
            .collect();
        json!({ "problem": problem_document(&one.problem), "found": found })
    });
    let libraries = model.libraries.iter().map(|library| {
        json!({
            "gemm_type": library.types,
            "algorithm": library.algorithm,
            "problems": library.known.len(),
            "error_percent": library.error_percent,
        })
    });
    json!({
        "device": model.device,
        "families": families.collect::<Vec<_>>(),
        "libraries": libraries.collect::<Vec<_>>(),
        "held_out": held_out.collect::<Vec<_>>(),
    })
}
