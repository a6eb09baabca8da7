//! Report of a replay: tables, a plot and a JSON document.

use serde_json::{Value, json};
use textplots::{Chart, LabelBuilder as _, LabelFormat, Plot as _, Shape};

use super::figures::fixed;
use super::table::{TableStyle, right_aligned, trim_lines};
use crate::search::Recording;
use crate::search::replay::{Calibration, Replay, ReplayLevel, Stop, Trials};

/// Dots of the plot; a character has 2 x 4.
const PLOT_DOTS: (u32, u32) = (120, 40);

/// Summary of the replay, its quality by evaluations, and the calibration of its stopping rule.
pub fn table(recording: &Recording, trials: &Trials, replay: &Replay, style: TableStyle) -> String {
    let mut text = format!(
        "{} configurations, {} of them failed; the best takes {}\n{}: {} trials in batches of {}, \
         fraction of the optimum after as many evaluations\n\n",
        recording.len(),
        recording.failed(),
        recording.best(),
        trials.search,
        trials.repeats,
        trials.batch,
    );
    let mut table = style.table();
    let none: [String; 0] = [];
    table.set_header(right_aligned(["evaluations", "mean", "median", "worst"], none.clone()));
    for ReplayLevel { evaluations, mean, median, worst } in replay.levels(trials.most) {
        let figures = [mean, median, worst].map(|fraction| fixed(fraction, 4));
        let row = [vec![evaluations.to_string()], figures.to_vec()].concat();
        table.add_row(right_aligned(row, none.clone()));
    }
    text.push_str(&style.draw(table));
    text.push_str(&stopping_calibration(trials, replay, style));
    if let Some(plot) = plot(trials, replay) {
        text.push_str(&format!("\nmean fraction of the optimum, by evaluations\n{plot}"));
    }
    text
}

/// Calibration of the strategy's stopping estimate, and the effect of stopping by it.
fn stopping_calibration(trials: &Trials, replay: &Replay, style: TableStyle) -> String {
    let calibration = replay.calibration();
    if calibration.is_empty() {
        return String::new();
    }
    let none: [String; 0] = [];
    let better = format!("a configuration better by more than {} %", 100.0 * trials.within);
    let mut calibrated = style.table();
    calibrated
        .set_header(right_aligned(["chance", "estimates", "predicted", "observed"], none.clone()));
    for Calibration { between: (from, to), stated, said: mean, was } in calibration {
        let range = format!("{} to {}", fixed(from, 2), fixed(to, 2));
        let row = [range, stated.to_string(), fixed(mean, 3), fixed(was, 3)];
        calibrated.add_row(right_aligned(row, none.clone()));
    }
    let mut stops = style.table();
    let header = ["stop below", "trials", "evaluations", "fraction", "missed"];
    stops.set_header(right_aligned(header, none.clone()));
    for Stop { chance, stopped, evaluations, fraction, missed } in replay.stops() {
        let row = [
            fixed(chance, 2),
            stopped.to_string(),
            fixed(evaluations, 0),
            fixed(fraction, 4),
            fixed(missed, 3),
        ];
        stops.add_row(right_aligned(row, none.clone()));
    }
    format!(
        "\nestimated chance that {better} remains, after each batch, and its observed frequency\n{}\n\
         stopping point of the trials, and the share that would miss {better}\n{}",
        style.draw(calibrated),
        style.draw(stops)
    )
}

/// Plot of the mean curve; none with fewer than two evaluations.
fn plot(trials: &Trials, replay: &Replay) -> Option<String> {
    let longest = replay.trials.iter().map(|trial| trial.curve.len()).max()?.min(trials.most);
    let points: Vec<(f32, f32)> = (1..=longest)
        .map(|evaluations| (evaluations as f32, replay.level(evaluations).mean as f32))
        .collect();
    if longest < 2 {
        return None;
    }
    let (width, height) = PLOT_DOTS;
    // Values below the first batch are cut off to use the height of the plot.
    let from = points[trials.batch.min(longest) - 1].1;
    let low = ((10.0 * from).floor() / 10.0).min(0.9);
    let shown: Vec<(f32, f32)> = points.iter().map(|(x, y)| (*x, y.max(low))).collect();
    let lines = Shape::Lines(&shown);
    let mut chart = Chart::new_with_y_range(width, height, 1.0, longest as f32, low, 1.0);
    let chart = chart
        .lineplot(&lines)
        .x_label_format(LabelFormat::Custom(Box::new(|x| fixed(x.into(), 0))))
        .y_label_format(LabelFormat::Custom(Box::new(|y| fixed(y.into(), 2))));
    chart.axis();
    chart.figures();
    Some(trim_lines(&chart.to_string()))
}

/// The levels as JSON.
pub fn document(trials: &Trials, replay: &Replay) -> Value {
    let levels = replay.levels(trials.most).into_iter().map(|level| {
        let ReplayLevel { evaluations, mean, median, worst } = level;
        json!({ "evaluations": evaluations, "mean": mean, "median": median, "worst": worst })
    });
    levels.collect()
}
