//! Tables of a tuned problem: the ranking, the winner and the evaluated candidates.

use super::failed;
use super::margins::of_margin;
use super::table::{TableStyle, View, right_aligned};
use crate::arithmetic::error_bound_of_small_integers;
use crate::model::{Configuration, Device, Measurement, Problem, Resources, Tflops, Timing};
use crate::tune::{Certainty, Spaces, Standing, Summary};

/// Lines of the ranking.
const TOP: usize = 10;

/// Columns from which on a ranking has the spread of times and the resources.
const WIDE: u16 = 110;

/// Ranking: the fastest candidates, then the libraries.
pub fn ranking(summary: &Summary, device: &Device, view: View) -> String {
    let (problem, style) = (&summary.problem, view.style);
    let peak = device.peak(problem);
    let library = summary.baselines.first();
    let is_modelled = is_modelled(summary);
    let is_wide = style.has(WIDE);
    // Modelled times have no spread and no libraries beside them.
    let columns = |cells: [String; 9]| {
        let [place, median, p05, p95, rate, peak, library, registers, occupancy] = cells;
        let mut row = vec![place, median];
        if is_wide && !is_modelled {
            row.extend([p05, p95]);
        }
        row.extend([rate, peak]);
        if !is_modelled {
            row.push(library);
        }
        if is_wide || is_modelled {
            row.extend([registers, occupancy]);
        }
        row
    };
    let median = if is_modelled { "modelled" } else { "median" };
    let heading = ["#", median, "p05", "p95", "TFLOP/s", "% peak", "vs library", "regs", "occ"];
    let mut table = style.table();
    table.set_header(right_aligned(columns(heading.map(str::to_owned)), ["kernel"]));
    let times = |ratio: f64| format!("{ratio:.3}x");
    let figures = |measurement: &Measurement, against: Option<String>| {
        let median = measurement.median();
        let rate = measurement.tflops(problem);
        [
            median.to_string(),
            measurement.quantile(0.05).to_string(),
            measurement.quantile(0.95).to_string(),
            rate.to_string(),
            peak.map_or(String::new(), |peak| format!("{:.1}", percent(rate, peak))),
            against.unwrap_or_default(),
        ]
    };
    for (place, standing) in summary.ranking.iter().take(TOP).enumerate() {
        let [median, p05, p95, rate, peak, library] =
            figures(&standing.measurement, library.map(|one| times(standing.speedup_over(one))));
        let resources = &standing.resources;
        // Candidates outside the final round were measured at another time.
        let mark = if standing.contested || is_modelled { "" } else { "*" };
        let place = format!("{}{mark}", place + 1);
        let registers = resources.registers.to_string();
        let cells = [place, median, p05, p95, rate, peak, library, registers, occupancy(resources)];
        let kernel = kernel_words(summary, &standing.family, &standing.configuration, view.verbose);
        table.add_row(right_aligned(columns(cells), [style.cell(&kernel)]));
    }
    for baseline in &summary.baselines {
        let [median, p05, p95, rate, peak, library] =
            figures(&baseline.measurement, library.map(|one| times(one.over(baseline))));
        let [place, registers, occupancy] = Default::default();
        let cells = [place, median, p05, p95, rate, peak, library, registers, occupancy];
        table.add_row(right_aligned(columns(cells), [style.cell(&baseline.name)]));
    }
    let mut text = style.draw(table);
    let is_alone = |standing: &Standing| !standing.contested && !is_modelled;
    if summary.ranking.iter().take(TOP).any(is_alone) {
        text.push_str("* not in the final round: measured alone during the search\n");
    }
    text
}

/// The family and the parameters of a candidate: all, or those that differ from the default of the family.
fn kernel_words(
    summary: &Summary,
    family: &str,
    configuration: &Configuration,
    verbose: bool,
) -> String {
    let of_family = summary.coverage.iter().find(|coverage| coverage.family == family);
    let default = of_family.and_then(|coverage| coverage.default.as_ref()).filter(|_| !verbose);
    let Some(default) = default else { return format!("{family} {configuration}") };
    let changes = configuration.changes_from(default);
    if changes.0.is_empty() {
        return format!("{family}, its default");
    }
    format!("{family} {changes}")
}

/// Whether times of a search were modelled.
pub(super) fn is_modelled(summary: &Summary) -> bool {
    summary.winner().is_some_and(|winner| winner.measurement.timing == Timing::Modelled)
}

fn occupancy(resources: &Resources) -> String {
    resources.occupancy.map_or(String::new(), |share| format!("{:.0}%", 100.0 * share))
}

/// Coverage: evaluated configurations of every family, with their outcomes.
pub fn coverage(summary: &Summary, style: TableStyle) -> String {
    let mut table = style.table();
    let best = if is_modelled(summary) { "best, modelled" } else { "best" };
    table.set_header(right_aligned(["evaluated", "legal", best], ["family", "outcomes"]));
    for family in &summary.coverage {
        let outcomes: Vec<String> = family
            .outcomes
            .iter()
            .map(|(outcome, count)| format!("{count} {}", outcome.name()))
            .collect();
        let best = family.best.map_or("-".to_owned(), |best| best.to_string());
        table.add_row(right_aligned(
            [family.evaluated().to_string(), family.legal.to_string(), best],
            [family.family.clone(), outcomes.join(", ")],
        ));
    }
    style.draw(table)
}

/// Verdict: the winner with its time, its comparison, its confidence and its validation.
pub fn verdict(summary: &Summary, device: &Device, verbose: bool) -> String {
    let problem = &summary.problem;
    let Some(winner) = summary.winner() else {
        if summary.is_interim() {
            return format!(
                "no correct kernel for {problem} was found before the interruption; the same command goes on\n"
            );
        }
        let failures = failed::of_search(&summary.coverage);
        return format!("no correct kernel for {problem}\n{failures}");
    };
    let rate = winner.measurement.tflops(problem);
    let gpu = device.gpu_name();
    let (title, timing, peak_device) = if is_modelled(summary) {
        let timing = format!(", modelled for {gpu}, not measured");
        ("modelled winner", timing, format!("an {gpu}"))
    } else {
        ("winner", String::new(), "this device".to_owned())
    };
    let mut text = format!(
        "{title} for {problem}: {}\n  {} = {rate} TFLOP/s{timing}",
        kernel_words(summary, &winner.family, &winner.configuration, verbose),
        winner.measurement.median()
    );
    if let Some(peak) = device.peak(problem) {
        let percent = percent(rate, peak);
        text.push_str(&format!(", {percent:.1} % of the peak of {peak_device} ({peak} TFLOP/s)"));
    }
    text.push('\n');
    if let Some(library) = summary.baselines.first() {
        let ratio = winner.speedup_over(library);
        text.push_str(&format!(
            "  {ratio:.3} times as fast as {} ({})\n",
            library.name,
            library.measurement.median()
        ));
    }
    if let Some(certainty) = &summary.certainty {
        text.push_str(&sureness(summary, certainty, verbose));
    }
    if summary.is_interim() {
        text.push_str("  interim: the search was interrupted; the same command resumes it\n");
    }
    let validation = &winner.validation;
    let is_exact = error_bound_of_small_integers(problem) == 0.0;
    let small = if is_exact { "exact on small integers" } else { "right on small integers" };
    text.push_str(&format!(
        "  {small}; largest error {:.1e} of the allowed {:.1e} against {}\n",
        validation.max_error, validation.bound, validation.reference
    ));
    if winner.plan.nondeterministic {
        text.push_str(
            "  not deterministic: two runs on the same values may differ in their last bits\n",
        );
    }
    if !winner.also.is_empty() {
        text.push_str(&format!("  also correct on {}\n", winner.also.join(", ")));
    }
    text
}

/// Margin of the winner, or its ties.
fn sureness(summary: &Summary, certainty: &Certainty, verbose: bool) -> String {
    let Certainty { runner_up, rounds, tainted_rounds, taint, tie_set, ended, .. } = certainty;
    let ties = tie_set.len().saturating_sub(1);
    let mut text = match runner_up {
        Some((family, configuration, margin)) => {
            let tie = match ties {
                0 => String::new(),
                1 => "ties with another and uses fewer resources; ".to_owned(),
                ties => format!("ties with {ties} others and uses the fewest resources; "),
            };
            let compared = of_margin(margin);
            let kernel = kernel_words(summary, family, configuration, verbose);
            format!("  {tie}{compared}, {rounds} rounds, {ended}: {kernel}\n")
        }
        None => "  no other candidate was in the final round\n".to_owned(),
    };
    if let Some(taint) = taint {
        text.push_str(&format!("  {tainted_rounds} rounds were discarded; the first: {taint}\n"));
    }
    text
}

/// The search spaces, for `--dry-run`.
pub fn spaces(spaces: &Spaces, problem: &Problem, candidates: usize, style: TableStyle) -> String {
    let mut text = format!("{problem}: {candidates} of {} candidates\n", spaces.legal());
    for family in &spaces.families {
        let mut table = style.table();
        text.push_str(&format!(
            "\n{}: {} of {} configurations are legal\n",
            family.name,
            family.space.len(),
            family.space.raw
        ));
        for pruned in &family.space.pruned {
            table.add_row(right_aligned(
                [format!("  -{}", pruned.configurations)],
                [pruned.require.clone(), pruned.because.clone()],
            ));
        }
        text.push_str(&style.draw(table));
        match &family.default {
            Some(default) => text.push_str(&format!("  default: {default}\n")),
            None => text.push_str("  none of its defaults is legal\n"),
        }
    }
    if !spaces.refusals.is_empty() {
        text.push_str(&format!("\nnot used:\n{}\n", spaces.refusals.join("\n")));
    }
    text
}

fn percent(rate: Tflops, peak: Tflops) -> f64 {
    100.0 * rate.0 / peak.0
}
