//! Report of learned models: what they were fitted to, and their quality on held-out problems.

use serde_json::{Value, json};

use super::json::problem_document;
use super::table::{TableStyle, named};
use crate::model::Problem;
use crate::predict::{FamilyModel, LearnedModel, LibraryChoice, Ranking};

/// Numbers of evaluated kernels at which the quality is reported.
pub const COUNTS: [usize; 6] = [1, 5, 10, 20, 40, 80];

/// A problem that was held out.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldOut {
    /// The problem.
    pub problem: Problem,
    /// How well the model ranks its kernels, by the first of each of `COUNTS`.
    pub ranking: Ranking,
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
        let header = counts.iter().map(String::as_str).chain(["rank correlation"]);
        table.set_header(named("held out: ratio to the best after", header));
        let mut add = |name: String, ranking: &Ranking| {
            let ratios = ranking.over_best.iter().map(|ratio| format!("{ratio:.3}"));
            let correlation = ranking.correlation.map(|own| format!("{own:.3}"));
            table
                .add_row([name].into_iter().chain(ratios).chain([correlation.unwrap_or_default()]));
        };
        for one in held_out {
            add(one.problem.to_string(), &one.ranking);
        }
        add("mean".to_owned(), &mean(held_out));
        text += &format!("\n{}", style.draw(table));
    }
    text
}

/// The mean over problems; of the correlation, over those that have one.
fn mean(held_out: &[HeldOut]) -> Ranking {
    let of = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let ratio =
        |at| of(held_out.iter().filter_map(|one| one.ranking.over_best.get(at).copied()).collect());
    let known: Vec<f64> = held_out.iter().filter_map(|one| one.ranking.correlation).collect();
    Ranking {
        over_best: (0..COUNTS.len()).map(ratio).collect(),
        correlation: (!known.is_empty()).then(|| of(known)),
    }
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
        let found = COUNTS.iter().zip(&one.ranking.over_best);
        let found: Vec<Value> = found
            .map(|(count, ratio)| json!({ "evaluations": count, "over_best": ratio }))
            .collect();
        json!({
            "problem": problem_document(&one.problem),
            "found": found,
            "rank_correlation": one.ranking.correlation,
        })
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
