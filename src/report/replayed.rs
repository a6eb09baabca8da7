//! What replaying a strategy gave: a table, a plot and a JSON document.

use serde_json::{Value, json};
use textplots::{Chart, LabelBuilder as _, LabelFormat, Plot as _, Shape};

use super::table::{plain_table, right_aligned, trim_lines};
use crate::search::Recording;
use crate::search::replay::{Calibration, Replay, ReplayLevel, Stop, Trials};

/// Dots of the plot, of which a character has 2 x 4.
const PLOT_DOTS: (u32, u32) = (120, 40);

/// What was played, how close it came, and how it got there.
pub fn table(recording: &Recording, trials: &Trials, replay: &Replay, width: u16) -> String {
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
    let mut table = plain_table(width);
    let none: [String; 0] = [];
    table.set_header(right_aligned(["evaluations", "mean", "median", "worst"], none.clone()));
    for ReplayLevel { evaluations, mean, median, worst } in replay.levels(trials.most) {
        let figures = [mean, median, worst].map(|fraction| format!("{fraction:.4}"));
        let row = [vec![evaluations.to_string()], figures.to_vec()].concat();
        table.add_row(right_aligned(row, none.clone()));
    }
    text.push_str(&trim_lines(&table.to_string()));
    text.push_str(&stated(trials, replay, width));
    if let Some(plot) = plot(trials, replay) {
        text.push_str(&format!("\nmean fraction of the optimum, by evaluations\n{plot}"));
    }
    text
}

/// What the strategy said of the rest, and what would be if it were followed.
fn stated(trials: &Trials, replay: &Replay, width: u16) -> String {
    let calibration = replay.calibration();
    if calibration.is_empty() {
        return String::new();
    }
    let none: [String; 0] = [];
    let better = format!("one better by more than {} %", 100.0 * trials.within);
    let mut said = plain_table(width);
    said.set_header(right_aligned(["chance", "times", "said", "was"], none.clone()));
    for Calibration { between: (from, to), stated, said: mean, was } in calibration {
        let range = format!("{from:.2} to {to:.2}");
        let row = [range, stated.to_string(), format!("{mean:.3}"), format!("{was:.3}")];
        said.add_row(right_aligned(row, none.clone()));
    }
    let mut stops = plain_table(width);
    let header = ["stop below", "trials", "evaluations", "fraction", "missed"];
    stops.set_header(right_aligned(header, none.clone()));
    for Stop { chance, stopped, evaluations, fraction, missed } in replay.stops() {
        let row = [
            format!("{chance:.2}"),
            stopped.to_string(),
            format!("{evaluations:.0}"),
            format!("{fraction:.4}"),
            format!("{missed:.3}"),
        ];
        stops.add_row(right_aligned(row, none.clone()));
    }
    format!(
        "\nthe chance that {better} is left, as said after each batch, and how often it was\n{}\n\
         where trials would stop, and the share of them that would miss {better}\n{}",
        trim_lines(&said.to_string()),
        trim_lines(&stops.to_string())
    )
}

/// The mean curve; none where there is nothing to draw.
fn plot(trials: &Trials, replay: &Replay) -> Option<String> {
    let longest = replay.trials.iter().map(|trial| trial.curve.len()).max()?.min(trials.most);
    let points: Vec<(f32, f32)> = (1..=longest)
        .map(|evaluations| (evaluations as f32, replay.level(evaluations).mean as f32))
        .collect();
    if longest < 2 {
        return None;
    }
    let (width, height) = PLOT_DOTS;
    // What is left out below the first batch would leave no room for what matters.
    let from = points[trials.batch.min(longest) - 1].1;
    let low = ((10.0 * from).floor() / 10.0).min(0.9);
    let shown: Vec<(f32, f32)> = points.iter().map(|(x, y)| (*x, y.max(low))).collect();
    let lines = Shape::Lines(&shown);
    let mut chart = Chart::new_with_y_range(width, height, 1.0, longest as f32, low, 1.0);
    let chart = chart
        .lineplot(&lines)
        .x_label_format(LabelFormat::Custom(Box::new(|x| format!("{x:.0}"))))
        .y_label_format(LabelFormat::Custom(Box::new(|y| format!("{y:.2}"))));
    chart.axis();
    chart.figures();
    Some(trim_lines(&chart.to_string()))
}

/// An array of the levels.
pub fn document(trials: &Trials, replay: &Replay) -> Value {
    let levels = replay.levels(trials.most).into_iter().map(|level| {
        let ReplayLevel { evaluations, mean, median, worst } = level;
        json!({ "evaluations": evaluations, "mean": mean, "median": median, "worst": worst })
    });
    levels.collect()
}
