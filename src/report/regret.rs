//! Regret of lookup: its answers compared with the winners of a full tune, as a table, as
//! comma-separated values and as JSON.

use serde_json::{Value, json};

use super::json::problem_document;
use super::problem_csv::lines;
use super::table::{TableStyle, named};
use crate::model::{Device, Micros, Problem, Stratum};

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
    /// Whether lookup says that the library is faster.
    pub uses_library: bool,
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

    /// Its time, or the library's where lookup says that it is faster.
    pub fn with_library(&self) -> Micros {
        let library = self.library.as_ref().filter(|_| self.uses_library);
        library.map_or(self.time, |(_, time)| *time)
    }

    /// The same divided by the fastest library's.
    pub fn with_library_against(&self) -> Option<f64> {
        Some(self.with_library().0 / self.library.as_ref()?.1.0)
    }
}

/// Ratios of some problems to a reference.
#[derive(Debug, Clone, Copy, PartialEq)]
struct RatioSummary {
    count: usize,
    geometric_mean: f64,
    /// At most this in 95 % of the problems.
    most: f64,
    worst: f64,
}

impl RatioSummary {
    /// `None` without any ratios.
    fn of(mut ratios: Vec<f64>) -> Option<Self> {
        ratios.sort_by(f64::total_cmp);
        let count = ratios.len();
        let mean = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / count as f64;
        let most = *ratios.get((95 * count).div_ceil(100).saturating_sub(1))?;
        Some(Self { count, geometric_mean: mean.exp(), most, worst: *ratios.last()? })
    }

    fn over_tuned(regrets: &[&Regret]) -> Option<Self> {
        Self::of(regrets.iter().map(|regret| regret.ratio()).collect())
    }

    fn over_library(regrets: &[&Regret]) -> Option<Self> {
        Self::of(regrets.iter().filter_map(|regret| regret.against_library()).collect())
    }

    fn with_library(regrets: &[&Regret]) -> Option<Self> {
        Self::of(regrets.iter().filter_map(|regret| regret.with_library_against()).collect())
    }

    fn document(self) -> Value {
        json!({
            "problems": self.count,
            "geometric_mean": self.geometric_mean,
            "at_most_in_95_percent": self.most,
            "worst": self.worst,
        })
    }
}

/// All problems, then those of each stratum that has some, with the names of the rows.
fn strata(regrets: &[Regret]) -> Vec<(String, Vec<&Regret>)> {
    let all = std::iter::once(("all".to_owned(), regrets.iter().collect()));
    let own = Stratum::all().map(|stratum| {
        let own = regrets.iter().filter(|regret| stratum.has(&regret.problem));
        (stratum.to_string(), own.collect::<Vec<_>>())
    });
    all.chain(own).filter(|(_, regrets)| !regrets.is_empty()).collect()
}

/// Ratios by stratum, with the worst problem of each.
fn strata_table(regrets: &[Regret], style: TableStyle) -> String {
    let mut table = style.table();
    table.set_header(named(
        "problems",
        [
            "count",
            "over tuned",
            "95 %",
            "worst",
            "worst problem",
            "over library",
            "95 %",
            "worst",
            "with the library",
            "95 %",
            "worst",
        ],
    ));
    for (name, own) in strata(regrets) {
        let cells = |summary: Option<RatioSummary>| {
            let numbers = |own: RatioSummary| [own.geometric_mean, own.most, own.worst];
            let text = |own| numbers(own).map(|ratio| format!("{ratio:.3}"));
            summary.map_or([const { String::new() }; 3], text)
        };
        let worst = own.iter().max_by(|a, b| a.ratio().total_cmp(&b.ratio()));
        let worst = worst.map_or(String::new(), |regret| regret.problem.to_string());
        let [mean, most, worst_ratio] = cells(RatioSummary::over_tuned(&own));
        let library = cells(RatioSummary::over_library(&own));
        let row = [name, own.len().to_string(), mean, most, worst_ratio, worst];
        let with = cells(RatioSummary::with_library(&own));
        table.add_row(row.into_iter().chain(library).chain(with));
    }
    style.draw(table)
}

/// For people.
pub fn table(regrets: &[Regret], device: &Device, style: TableStyle) -> String {
    let mut table = style.table();
    table.set_header(named(
        "problem",
        [
            "source",
            "family",
            "predicted",
            "time",
            "tuned",
            "over tuned",
            "library",
            "over library",
            "with the library",
        ],
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
            regret.with_library_against().map_or(String::new(), |ratio| format!("{ratio:.3}")),
        ];
        table.add_row(named(&regret.problem.to_string(), cells.each_ref().map(String::as_str)));
    }
    format!(
        "{}\n\ntime on {} over that of the winner of a full tune, and over the fastest library's, without the library \
         and with it where lookup says that it is faster: geometric mean, at most in 95 % of the problems, and worst\n{}\n",
        style.draw(table),
        device.name,
        strata_table(regrets, style),
    )
}

/// Columns of [`csv`] after those of the problem.
const COLUMNS: [&str; 11] = [
    "source",
    "family",
    "parameters",
    "predicted_us",
    "time_us",
    "tuned_us",
    "over_tuned",
    "library",
    "over_library",
    "with_library_us",
    "with_library_over",
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
            format!("{:.3}", regret.with_library().0),
            regret.with_library_against().map_or(String::new(), |ratio| format!("{ratio:.4}")),
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
            "with_library_us": regret.with_library().0,
            "with_library_over": regret.with_library_against(),
        })
    });
    let strata = strata(regrets).into_iter().map(|(name, own)| {
        json!({
            "stratum": name,
            "over_tuned": RatioSummary::over_tuned(&own).map(RatioSummary::document),
            "over_library": RatioSummary::over_library(&own).map(RatioSummary::document),
            "with_library": RatioSummary::with_library(&own).map(RatioSummary::document),
        })
    });
    json!({
        "device": device.name,
        "problems": rows.collect::<Vec<_>>(),
        "strata": strata.collect::<Vec<_>>(),
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
            uses_library: false,
            library: library.map(|time| ("cuBLAS".to_owned(), Micros(time))),
        };
        let chosen = Regret { uses_library: true, ..of(30.0, Some(20.0)) };
        assert_eq!(
            (chosen.against_library(), chosen.with_library_against()),
            (Some(1.5), Some(1.0))
        );
        let regrets = [of(10.0, Some(20.0)), of(40.0, None)];
        let text = table(&regrets, &Device::h200(), TableStyle::Text { width: 200 });
        let row = |name: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with(name));
            line.unwrap_or_default().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        let all = row("all");
        assert_eq!(all[..5], ["all", "2", "2.000", "4.000", "4.000"], "{text}");
        assert_eq!(all[all.len() - 6..], ["0.500"; 6], "{text}");
        assert_eq!(row("odd rows")[2], "2", "{text}");
        assert!(row("cube").is_empty(), "strata without problems are left out: {text}");
        let lines = csv(&regrets);
        assert_eq!(lines.lines().count(), 3);
        assert!(
            lines.contains(
                "64,65,66,1,f32,nn,,neighbour,f,A=1,9.000,40.000,10.000,4.0000,,,40.000,"
            )
        );
        let document = document(&regrets, &Device::h200());
        assert_eq!(document["strata"][0]["over_tuned"]["worst"], 4.0);
        assert_eq!(document["problems"][0]["over_library"], 0.5);
    }

    #[test]
    fn the_95_percent_point_is_the_ratio_that_19_of_20_do_not_exceed() {
        let ratios: Vec<f64> = (1..=20).map(f64::from).collect();
        let summary = RatioSummary::of(ratios).unwrap();
        assert_eq!((summary.most, summary.worst, summary.count), (19.0, 20.0, 20));
        assert_eq!(RatioSummary::of(Vec::new()), None);
    }
}
