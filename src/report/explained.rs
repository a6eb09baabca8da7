//! Report of a winner's explanation, as text and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::inspected::heading;
use super::json::problem_document;
use super::margins::against_runner_up;
use super::table::{TableStyle, View, right_aligned};
use crate::database::Record;
use crate::inspect::explanation::{
    CloseCandidate, ExcludedNeighbour, LowerBound, OtherValue, ParameterEffect, WinnerNeighbours,
};
use crate::inspect::{InspectedKernel, ResourceFigures};
use crate::model::{Micros, Tflops};

/// Number of untried neighbours listed.
const UNTRIED: usize = 8;

/// Number of excluded neighbours listed.
const CUTS: usize = 6;

/// The explanation of a winner.
#[derive(Debug, Clone)]
pub struct Explained {
    /// The winner.
    pub subject: InspectedKernel,
    /// Its time.
    pub time: Micros,
    /// Whether the time is predicted, since neither a record nor a journal has the kernel.
    pub is_predicted: bool,
    /// Its margin in the final round.
    pub fastest: Option<Fastest>,
    /// Its resources.
    pub figures: ResourceFigures,
    /// Lower bounds of its time, longest first.
    pub limits: Vec<LowerBound>,
    /// Effects of its parameters.
    pub effects: Vec<ParameterEffect>,
    /// The closest candidates.
    pub losers: Vec<CloseCandidate>,
    /// Neighbours of the winner, one value away.
    pub neighbours: WinnerNeighbours,
    /// Number of configurations in the journal; 0 without a journal.
    pub tried: usize,
}

/// Result of a winner in its final round.
#[derive(Debug, Clone, PartialEq)]
pub struct Fastest {
    /// The runner-up.
    pub runner_up: Option<String>,
    /// Extra time of the runner-up in per cent, with the ends of the interval.
    pub margin_percent: Option<(f64, [f64; 2])>,
    /// The fastest library, and its time divided by the winner's.
    pub library: Option<(String, f64)>,
    /// Whether the time was modelled.
    pub modelled: bool,
}

impl Fastest {
    /// Reads the result from a record.
    pub fn of(record: Option<&Record>) -> Option<Self> {
        let record = record?;
        let confidence = record.confidence.as_ref();
        let margin = confidence
            .and_then(|confidence| confidence.margin_percent.zip(confidence.interval_percent));
        let library = record.baseline.as_ref();
        Some(Self {
            runner_up: confidence.and_then(|confidence| confidence.runner_up.clone()),
            margin_percent: margin,
            library: library.map(|library| (library.name.clone(), library.speedup)),
            modelled: record.measurement.timing.is_some(),
        })
    }
}

/// The explanation as text.
pub fn text(explained: &Explained, view: View) -> String {
    let mut text = heading(&explained.subject);
    let problem = &explained.subject.problem;
    let rate = Tflops::of(problem.operations(), explained.time);
    let modelled = explained.fastest.as_ref().is_some_and(|fastest| fastest.modelled);
    let modelled = match (explained.is_predicted, modelled) {
        (true, _) => "predicted ",
        (_, true) => "modelled ",
        _ => "",
    };
    let _ = writeln!(text, "{modelled}{}, {rate} TFLOP/s", explained.time);
    if let Some(fastest) = &explained.fastest {
        if let (Some(runner_up), Some((margin, interval))) =
            (&fastest.runner_up, fastest.margin_percent)
        {
            let _ = writeln!(text, "{}", against_runner_up(margin, Some(interval)));
            let _ = writeln!(text, "runner-up of its final round: {runner_up}");
        }
        if let Some((name, speedup)) = &fastest.library {
            let _ = writeln!(text, "{speedup:.3} times as fast as {name}");
        }
    }
    text.push_str(&bounds(explained, view.style));
    if explained.tried > 0 {
        text.push_str(&parameters(explained));
        text.push_str(&nearest(explained));
    }
    text.push_str(&beside(explained, view.verbose));
    text
}

/// Lower bounds of its time.
fn bounds(explained: &Explained, style: TableStyle) -> String {
    let mut table = style.table();
    table.set_header(right_aligned(["", "bound", "of its time"], [""]));
    for limit in &explained.limits {
        let share = 100.0 * limit.time_us.0 / explained.time.0;
        table.add_row(right_aligned(
            [limit.name.to_owned(), limit.time_us.to_string(), format!("{share:.0} %")],
            [limit.basis.clone()],
        ));
    }
    let mut text = format!("\nlower bounds of its time\n{}", style.draw(table));
    if let Some(limit) = explained.limits.first() {
        let over = 100.0 * (explained.time.0 / limit.time_us.0 - 1.0);
        let _ = writeln!(text, "it takes {over:.0} % longer than the bound of {}", limit.name);
    }
    for kernel in &explained.figures.kernels {
        let limiters: Vec<String> = kernel.limiters().iter().map(ToString::to_string).collect();
        let waves = kernel.waves.map_or(String::new(), |waves| {
            format!(
                "; {:.2} waves of {} blocks, the last {:.0} % full",
                waves.count,
                waves.blocks,
                100.0 * waves.tail
            )
        });
        let _ = writeln!(
            text,
            "{}: {} blocks per SM ({:.0} % of its warps), limited by {}{waves}",
            kernel.entry,
            kernel.occupancy.blocks_per_sm,
            100.0 * kernel.occupancy.share,
            limiters.join(" and ")
        );
    }
    text
}

fn percent(fraction: f64) -> String {
    format!("{:+.1} %", 100.0 * fraction)
}

/// Extra time of the best other value; 0 without a measurement.
fn weight(effect: &ParameterEffect) -> f64 {
    effect.others.iter().filter_map(|other| other.best).reduce(f64::min).unwrap_or(0.0)
}

/// Effect of each parameter, largest first.
fn parameters(explained: &Explained) -> String {
    let mut effects: Vec<&ParameterEffect> = explained.effects.iter().collect();
    effects.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    let mut text = format!(
        "\neffects of its parameters, largest first: extra time of the best configuration with another \
         value\n({} configurations evaluated); in brackets, of the winner with only that value changed\n",
        explained.tried
    );
    let names = effects.iter().map(|effect| format!("{}={}", effect.parameter, effect.value));
    let names: Vec<String> = names.collect();
    let wide = names.iter().map(String::len).max().unwrap_or(0);
    for (name, effect) in names.iter().zip(effects) {
        let mut others: Vec<&OtherValue> = effect.others.iter().collect();
        let cost = |other: &OtherValue| other.best.unwrap_or(f64::INFINITY);
        others.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        let others: Vec<String> = others.into_iter().map(other).collect();
        let others =
            if others.is_empty() { vec!["no other value was tried".to_owned()] } else { others };
        let _ = writeln!(text, "  {name:wide$}  {}", others.join(", "));
    }
    text
}

fn other(other: &OtherValue) -> String {
    let best = other.best.map_or_else(|| "none correct".to_owned(), percent);
    let alone = other.alone.map_or(String::new(), |alone| format!(" ({})", percent(alone)));
    format!("{} {best}{alone}", other.value)
}

/// The closest candidates.
fn nearest(explained: &Explained) -> String {
    let mut text = "\nclosest candidates, by single measurements of the search\n".to_owned();
    for loser in &explained.losers {
        let what = if loser.differing.is_empty() {
            loser.parameters.to_string()
        } else {
            let differing = loser.differing.iter().map(|(name, value)| format!("{name}={value}"));
            format!("as the winner but {}", differing.collect::<Vec<_>>().join(" "))
        };
        let _ = writeln!(text, "  {:>8}  {}: {what}", percent(loser.slower), loser.family);
    }
    text
}

/// Neighbours of the winner, one value away.
fn beside(explained: &Explained, verbose: bool) -> String {
    let neighbours = &explained.neighbours;
    let promising = neighbours.cut.iter().filter(|cut| cut.is_promising()).count();
    let mut text = format!(
        "\nneighbours one value away: {} measured, {} legal and not tried, {} excluded, {promising} of \
         these promising\n",
        neighbours.measured,
        neighbours.untried.len(),
        neighbours.cut.len()
    );
    let shown = neighbours.cut.iter().filter(|cut| verbose || cut.is_promising());
    let shown: Vec<&ExcludedNeighbour> = shown.collect();
    for cut in shown.iter().take(CUTS) {
        let _ = writeln!(text, "  {}", self::cut(cut));
    }
    if shown.len() > CUTS {
        let _ = writeln!(text, "  and {} more excluded", shown.len() - CUTS);
    }
    if explained.tried > 0 && !neighbours.untried.is_empty() {
        let named = neighbours.untried.iter().take(UNTRIED);
        let named: Vec<String> = named.map(|(name, value)| format!("{name}={value}")).collect();
        let more = if neighbours.untried.len() > UNTRIED { " ..." } else { "" };
        let _ = writeln!(text, "  not tried: {}{more}", named.join(" "));
    }
    text
}

fn cut(cut: &ExcludedNeighbour) -> String {
    let best = cut.best.map_or(String::new(), |best| {
        format!(
            "; the best configuration with this value takes {} longer",
            percent(best).trim_start_matches('+')
        )
    });
    format!("{}={} breaks `{}` ({}){best}", cut.parameter, cut.value, cut.require, cut.because)
}

/// The explanation as JSON.
pub fn document(explained: &Explained) -> Value {
    let subject = &explained.subject;
    let waves: Vec<Value> = explained
        .figures
        .kernels
        .iter()
        .map(|kernel| {
            json!({
                "entry": kernel.entry,
                "blocks_per_sm": kernel.occupancy.blocks_per_sm,
                "occupancy": kernel.occupancy.share,
                "limited_by": kernel.limiters().iter().map(ToString::to_string).collect::<Vec<_>>(),
                "waves": kernel.waves,
            })
        })
        .collect();
    let fastest = explained.fastest.as_ref();
    let margin = fastest.and_then(|fastest| fastest.margin_percent);
    json!({
        "problem": problem_document(&subject.problem),
        "device": subject.device.name,
        "family": subject.family,
        "parameters": subject.configuration,
        "deterministic": !subject.rendered.plan.nondeterministic,
        "time_us": explained.time,
        "source": subject.chosen.as_ref().map(|(source, _)| source.name()),
        "because": subject.chosen.as_ref().map(|(_, because)| because),
        "timing": match (explained.is_predicted, fastest.is_some_and(|one| one.modelled)) {
            (true, _) => "predicted",
            (_, true) => "modelled",
            _ => "measured",
        },
        "runner_up": fastest.and_then(|fastest| fastest.runner_up.clone()),
        "margin_percent": margin.map(|(margin, _)| margin),
        "interval_percent": margin.map(|(_, interval)| interval),
        "limits": explained.limits,
        "kernels": waves,
        "tried": explained.tried,
        "effects": explained.effects,
        "losers": explained.losers,
        "neighbours": explained.neighbours,
    })
}
