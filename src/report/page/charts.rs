//! Plots of a search.

use super::super::plot::axis::Scale;
use super::super::plot::{AxisRange, Plot, PlotBuilder, short};
use super::content::ProblemReport;
use crate::inspect::landscape::{self, ParameterSpread};
use crate::model::{Micros, Tflops, Timing};
use crate::tune::{Entry, Recorded};

/// Bars of the distribution.
pub(super) const BINS: usize = 48;

/// Size of the plots of single parameters.
const SMALL: [f64; 2] = [220.0, 150.0];

/// Reference rates marked in plots.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Levels {
    /// Rate of the fastest library.
    pub(super) library: Option<f64>,
}

impl Levels {
    pub(super) fn of(case: &ProblemReport<'_>) -> Self {
        let library = case.record.and_then(|record| record.baseline.as_ref()).zip(case.problem());
        let rate = library.map(|(library, problem)| {
            Tflops::of(problem.operations(), Micros(library.median_us)).0
        });
        Self { library: rate }
    }
}

/// Rate of an entry; none if it is not correct.
pub(super) fn rate(journal: &Recorded, entry: &Entry) -> Option<f64> {
    let time = landscape::time(entry)?;
    Some(Tflops::of(journal.problem.operations(), time).0)
}

/// Label of the rate axis.
pub(super) fn unit(journal: &Recorded) -> &'static str {
    let measured = journal.entries.iter().filter_map(|entry| entry.outcome.measurement());
    let modelled = measured.take(1).any(|one| one.timing == Timing::Modelled);
    if modelled { "modelled TFLOP/s" } else { "TFLOP/s" }
}

/// Highest rate of a plot.
pub(super) fn most(journal: &Recorded, levels: &Levels) -> f64 {
    let rates = journal.entries.iter().filter_map(|entry| rate(journal, entry));
    let most = rates.chain(levels.library).fold(0.0, f64::max);
    if most > 0.0 { most * 1.04 } else { 1.0 }
}

fn along(label: &str, range: [f64; 2]) -> AxisRange {
    AxisRange { label: label.to_owned(), scale: Scale::Linear, range }
}

/// Counts by bin, a row per family.
pub(super) fn bins(journal: &Recorded, families: &[&str], most: f64) -> Vec<[usize; BINS]> {
    let mut bins = vec![[0; BINS]; families.len()];
    for entry in &journal.entries {
        let family = families.iter().position(|family| *family == entry.family);
        if let (Some(family), Some(rate)) = (family, rate(journal, entry)) {
            let bin = ((rate / most * BINS as f64) as usize).min(BINS - 1);
            bins[family][bin] += 1;
        }
    }
    bins
}

/// Height of the highest stack of bins.
pub(super) fn tallest(bins: &[[usize; BINS]]) -> usize {
    let pile = |bin: usize| bins.iter().map(|family| family[bin]).sum();
    (0..BINS).map(pile).max().unwrap_or(0).max(1)
}

/// Distribution of configurations over rates, by family.
pub(super) fn distribution(journal: &Recorded, families: &[&str], levels: &Levels) -> Plot {
    let most = most(journal, levels);
    let bins = bins(journal, families, most);
    let high = tallest(&bins) as f64;
    let x = along(unit(journal), [0.0, most]);
    let y = along("configurations", [0.0, high]);
    let mut sheet = PlotBuilder::new("distribution", "configurations by rate", &x, &y);
    for bin in 0..BINS {
        let [from, to] = [bin, bin + 1].map(|edge| edge as f64 * most / BINS as f64);
        let mut base = 0.0;
        for (series, (family, counts)) in families.iter().zip(&bins).enumerate() {
            let count = counts[bin] as f64;
            if count > 0.0 {
                let tip = format!("{count} of {family}, {} to {}", short(from), short(to));
                let gap = 0.08 * (to - from);
                sheet.bar([from, to - gap], [base, base + count], series, tip);
                base += count;
            }
        }
    }
    for (series, family) in families.iter().enumerate() {
        sheet.key(family, Some(series));
    }
    if let Some(library) = levels.library {
        sheet.upright(library);
        sheet.key("fastest library", None);
    }
    sheet.finish()
}

/// Best rate so far over time, or over evaluations for a journal without time stamps.
pub(super) fn convergence(journal: &Recorded, families: &[&str], levels: &Levels) -> Plot {
    let entries = &journal.entries;
    let clock = landscape::clock(entries);
    let label = if clock.is_some() { "search time in seconds" } else { "evaluations" };
    let places = clock.unwrap_or_else(|| (1..=entries.len()).map(|at| at as f64).collect());
    let end = places.last().copied().unwrap_or(1.0);
    let x = along(label, [0.0, end]);
    let y = along(unit(journal), [0.0, most(journal, levels)]);
    let mut sheet = PlotBuilder::new("convergence", "best rate so far during the search", &x, &y);
    for (series, family) in families.iter().enumerate() {
        let own = places.iter().zip(entries).filter(|(_, entry)| entry.family == *family);
        let dots = own.filter_map(|(place, entry)| Some((*place, rate(journal, entry)?)));
        sheet.dots(dots, 2.4, series);
    }
    let operations = journal.problem.operations();
    let steps: Vec<(f64, f64)> = landscape::convergence(entries)
        .into_iter()
        .map(|(number, time)| (places[number - 1], Tflops::of(operations, time).0))
        .collect();
    if !steps.is_empty() {
        sheet.steps(&steps, end, BEST_SO_FAR);
    }
    if let Some(library) = levels.library {
        sheet.level(library);
    }
    sheet.finish()
}

/// Colour of the best-so-far line; no family uses it.
const BEST_SO_FAR: usize = 7;

/// Best and median rate of each value of a parameter.
pub(super) fn values(journal: &Recorded, spread: &ParameterSpread) -> Plot {
    let operations = journal.problem.operations();
    let rate = |time: Option<Micros>| time.map(|time| Tflops::of(operations, time).0);
    let most = spread.values.iter().filter_map(|value| rate(value.best)).fold(0.0, f64::max);
    let count = spread.values.len() as f64;
    let x = along("", [-0.5, count - 0.5]);
    let y = along("", [0.0, if most > 0.0 { most * 1.04 } else { 1.0 }]);
    let title = format!("{}: best and median rate of each value", spread.parameter);
    let mut sheet = PlotBuilder::sized("values", &title, &x, &y, SMALL);
    let names = spread.values.iter().enumerate();
    sheet.name_x(names.map(|(at, value)| (at as f64, value.value.to_string())));
    let mut middles = Vec::new();
    for (at, value) in spread.values.iter().enumerate() {
        let place = at as f64;
        let tip = match (value.best, value.median) {
            (Some(best), Some(middle)) => {
                middles.extend(rate(Some(middle)).map(|rate| (place, rate)));
                format!("{}: best {best}, median {middle} of {}", value.value, value.tried)
            }
            _ => format!("{}: none of {} correct", value.value, value.tried),
        };
        let high = rate(value.best).unwrap_or(0.0);
        sheet.bar([place - 0.32, place + 0.32], [0.0, high], 0, tip);
    }
    sheet.dots(middles.into_iter(), 6.0, 1);
    sheet.finish()
}
