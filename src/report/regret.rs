//! Regret of lookup: its answers compared with the winners of a full tune, as a table, as
//! comma-separated values and as JSON.

use serde_json::{Value, json};

use super::json::problem_document;
use super::problem_csv::lines;
use super::table::{named, plain_table, trim_lines};
use crate::model::{Device, Micros, Problem};

/// Regret of an answer for a problem.
#[derive(Debug, Clone, PartialEq)]
pub struct Regret {
    /// The problem.
    pub problem: Problem,
    /// Source of the answer.
    pub source: &'static str,
    /// Its family.
    pub family: String,
    /// Its parameters.
    pub parameters: String,
    /// Its predicted time.
    pub predicted: Option<Micros>,
    /// Its measured time.
    pub time: Micros,
    /// Time of the winner of a full tune, measured alternately with it.
    pub tuned: Micros,
    /// The fastest library with its time.
    pub library: Option<(String, Micros)>,
}

impl Regret {
    /// Its time divided by the winner's.
    pub fn ratio(&self) -> f64 {
        self.time.0 / self.tuned.0
    }

    /// Its time divided by the library's.
    pub fn against_library(&self) -> Option<f64> {
        Some(self.time.0 / self.library.as_ref()?.1.0)
    }
}

/// Geometric mean and maximum of ratios.
fn overall(ratios: &[f64]) -> Option<[f64; 2]> {
    let mean = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64;
    let worst = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (!ratios.is_empty()).then(|| [mean.exp(), worst])
}

fn against_libraries(regrets: &[Regret]) -> Option<[f64; 2]> {
    overall(&regrets.iter().filter_map(Regret::against_library).collect::<Vec<_>>())
}

fn against_winners(regrets: &[Regret]) -> Option<[f64; 2]> {
    overall(&regrets.iter().map(Regret::ratio).collect::<Vec<_>>())
}

/// For people.
pub fn table(regrets: &[Regret], device: &Device, width: u16) -> String {
    let mut table = plain_table(width);
    table.set_header(named(
        "problem",
        ["source", "family", "predicted", "time", "tuned", "over tuned", "library", "over library"],
    ));
    for regret in regrets {
        let text = |time: Option<Micros>| time.map_or(String::new(), |time| time.to_string());
        let cells = [
            regret.source.to_owned(),
            regret.family.clone(),
            text(regret.predicted),
            regret.time.to_string(),
            regret.tuned.to_string(),
            format!("{:.3}", regret.ratio()),
            text(regret.library.as_ref().map(|(_, time)| *time)),
            regret.against_library().map_or(String::new(), |ratio| format!("{ratio:.3}")),
        ];
        table.add_row(named(&regret.problem.to_string(), cells.each_ref().map(String::as_str)));
    }
    let summary = |of: Option<[f64; 2]>, what: &str| {
        of.map_or(String::new(), |[mean, worst]| {
            format!(
                "{mean:.3} times as long as {what} in the geometric mean of {} problems on {}, {worst:.3} \
                 at worst\n",
                regrets.len(),
                device.name
            )
        })
    };
    format!(
        "{}\n\n{}{}",
        trim_lines(&table.to_string()),
        summary(against_winners(regrets), "the winner of a full tune"),
        summary(against_libraries(regrets), "the fastest library"),
    )
}

/// Columns of [`csv`] after those of the problem.
const COLUMNS: [&str; 9] = [
    "source",
    "family",
    "parameters",
    "predicted_us",
    "time_us",
    "tuned_us",
    "over_tuned",
    "library",
    "over_library",
];

/// For spreadsheets: a line for each problem.
pub fn csv(regrets: &[Regret]) -> String {
    let rows = regrets.iter().map(|regret| {
        let row = [
            regret.source.to_owned(),
            regret.family.clone(),
            regret.parameters.clone(),
            regret.predicted.map_or(String::new(), |time| format!("{:.3}", time.0)),
            format!("{:.3}", regret.time.0),
            format!("{:.3}", regret.tuned.0),
            format!("{:.4}", regret.ratio()),
            regret.library.as_ref().map_or(String::new(), |(name, _)| name.clone()),
            regret.against_library().map_or(String::new(), |ratio| format!("{ratio:.4}")),
        ];
        (regret.problem, row)
    });
    lines(COLUMNS, rows)
}

/// For programs.
pub fn document(regrets: &[Regret], device: &Device) -> Value {
    let rows = regrets.iter().map(|regret| {
        json!({
            "problem": problem_document(&regret.problem),
            "source": regret.source,
            "family": regret.family,
            "parameters": regret.parameters,
            "predicted_us": regret.predicted.map(|time| time.0),
            "time_us": regret.time.0,
            "tuned_us": regret.tuned.0,
            "over_tuned": regret.ratio(),
            "library": regret.library.as_ref().map(|(name, _)| name),
            "library_us": regret.library.as_ref().map(|(_, time)| time.0),
            "over_library": regret.against_library(),
        })
    });
    let pair = |of: Option<[f64; 2]>| {
        of.map(|[mean, worst]| json!({ "geometric_mean": mean, "worst": worst }))
    };
    json!({
        "device": device.name,
        "problems": rows.collect::<Vec<_>>(),
        "over_tuned": pair(against_winners(regrets)),
        "over_library": pair(against_libraries(regrets)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dtype;

    #[test]
    fn ratios_are_summed_up_by_their_geometric_mean_and_maximum() {
        let of = |time: f64, library: Option<f64>| Regret {
            problem: Problem::new("64x65x66".parse().unwrap(), Dtype::F32),
            source: "neighbour",
            family: "f".to_owned(),
            parameters: "A=1".to_owned(),
            predicted: Some(Micros(9.0)),
            time: Micros(time),
            tuned: Micros(10.0),
            library: library.map(|time| ("cuBLAS".to_owned(), Micros(time))),
        };
        let regrets = [of(10.0, Some(20.0)), of(40.0, None)];
        let text = table(&regrets, &Device::h200(), 200);
        assert!(text.contains("2.000 times as long as the winner of a full tune"), "{text}");
        assert!(text.contains("on NVIDIA H200, 4.000 at worst"), "{text}");
        assert!(text.contains("0.500 times as long as the fastest library"), "{text}");
        let lines = csv(&regrets);
        assert_eq!(lines.lines().count(), 3);
        assert!(lines.contains("64,65,66,1,f32,nn,neighbour,f,A=1,9.000,40.000,10.000,4.0000,,"));
        let document = document(&regrets, &Device::h200());
        assert_eq!(document["over_tuned"]["worst"], 4.0);
        assert_eq!(document["problems"][0]["over_library"], 0.5);
    }
}
