//! Plot of TFLOP/s over problem size, with a line per kernel or library and the peak, as SVG and as
//! letters for a terminal.

use std::collections::BTreeMap;

use super::axis::Scale;
use super::{AxisRange, Plot, PlotBuilder};
use crate::model::{Problem, Tflops};

/// Rows and columns of the letter plot.
const ROWS: usize = 20;
const COLUMNS: usize = 72;

/// Rates of one kernel or library.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Pairs of size and rate, by size.
    pub points: Vec<(f64, Tflops)>,
}

/// Meaning of the axes.
#[derive(Debug, Clone, PartialEq)]
pub struct RateAxes {
    label: String,
    is_square: bool,
    unit: &'static str,
}

impl RateAxes {
    /// Sizes are M if all problems are square with batch 1 and one K, else the cube root of their
    /// multiply-adds.
    pub fn of(problems: &[Problem]) -> Self {
        let is_square = |problem: &Problem| {
            problem.shape.m == problem.shape.n
                && problem.batch == 1
                && problems.first().is_some_and(|first| first.shape.k == problem.shape.k)
        };
        match problems.first() {
            Some(first) if problems.iter().all(is_square) => Self {
                label: format!("M = N, K = {}", first.shape.k),
                is_square: true,
                unit: "TFLOP/s",
            },
            _ => Self {
                label: "cube root of M·N·K·batch".to_owned(),
                is_square: false,
                unit: "TFLOP/s",
            },
        }
    }

    /// Marks rates as modelled.
    pub fn modelled(self) -> Self {
        Self { unit: "modelled TFLOP/s", ..self }
    }

    /// Size of a problem.
    pub fn size(&self, problem: &Problem) -> f64 {
        if self.is_square { problem.shape.m as f64 } else { (problem.operations() / 2.0).cbrt() }
    }
}

/// Lowest and highest size, and highest rate; none for fewer than two sizes.
fn extent(series: &[Series], peak: Option<Tflops>) -> Option<([f64; 2], f64)> {
    let points = || series.iter().flat_map(|series| &series.points);
    let low = points().map(|(size, _)| *size).fold(f64::INFINITY, f64::min);
    let high = points().map(|(size, _)| *size).fold(0.0, f64::max);
    let rates = points().map(|(_, rate)| rate.0).chain(peak.map(|peak| peak.0));
    let most = rates.fold(0.0, f64::max);
    (low < high && most > 0.0).then_some(([low, high], most))
}

/// Draws a line per series; none for fewer than two sizes.
pub fn drawn(series: &[Series], axes: &RateAxes, peak: Option<Tflops>) -> Option<Plot> {
    draw(series, axes, peak, [860.0, 420.0], |sheet, points, number| {
        sheet.line(points, Some(number));
        sheet.dots(points.iter().copied(), 6.0, number);
    })
}

/// Draws dots only, for problems that are not a series; none for fewer than two sizes.
pub fn scattered(
    series: &[Series],
    axes: &RateAxes,
    peak: Option<Tflops>,
    size: [f64; 2],
) -> Option<Plot> {
    draw(series, axes, peak, size, |sheet, points, number| {
        sheet.dots(points.iter().copied(), 7.0, number);
    })
}

fn draw(
    series: &[Series],
    axes: &RateAxes,
    peak: Option<Tflops>,
    size: [f64; 2],
    mark: impl Fn(&mut PlotBuilder, &[(f64, f64)], usize),
) -> Option<Plot> {
    let ([low, high], most) = extent(series, peak)?;
    // A margin, so that no dot lies on an axis.
    let range = [low / 1.05, high * 1.05];
    let x = AxisRange { label: axes.label.clone(), scale: Scale::Binary, range };
    let y =
        AxisRange { label: axes.unit.to_owned(), scale: Scale::Linear, range: [0.0, most * 1.05] };
    let mut sheet = PlotBuilder::sized("rates", "TFLOP/s over size", &x, &y, size);
    if let Some(peak) = peak {
        sheet.level(peak.0);
        sheet.key(&format!("peak, {peak}"), None);
    }
    for (number, one) in series.iter().enumerate() {
        let points: Vec<(f64, f64)> =
            one.points.iter().map(|(size, rate)| (*size, rate.0)).collect();
        if !points.is_empty() {
            mark(&mut sheet, &points, number);
            sheet.key(&one.name, Some(number));
        }
    }
    Some(sheet.finish())
}

/// Draws with letters, one per series; at a shared position, the first series is shown. None for
/// fewer than two sizes.
pub fn lettered(series: &[Series], axes: &RateAxes, peak: Option<Tflops>) -> Option<String> {
    let ([low, high], most) = extent(series, peak)?;
    let column =
        |size: f64| ((size / low).ln() / (high / low).ln() * (COLUMNS - 1) as f64).round() as usize;
    let row = |rate: f64| ((1.0 - rate / most) * (ROWS - 1) as f64).round() as usize;
    let mut rows = vec![vec![' '; COLUMNS]; ROWS];
    if let Some(peak) = peak {
        rows[row(peak.0)].fill('-');
    }
    let mut legend = String::new();
    for (letter, one) in ('a'..='z').cycle().zip(series).collect::<Vec<_>>().into_iter().rev() {
        for (size, rate) in &one.points {
            rows[row(rate.0)][column(*size)] = letter;
        }
    }
    for (letter, one) in ('a'..='z').cycle().zip(series) {
        legend.push_str(&format!("  {letter} {}\n", one.name));
    }
    let mut text = format!("{}\n", axes.unit);
    for (number, row) in rows.into_iter().enumerate() {
        let value = most * (1.0 - number as f64 / (ROWS - 1) as f64);
        let label = if number % 4 == 0 || number == ROWS - 1 {
            format!("{value:.1}")
        } else {
            String::new()
        };
        let line: String = row.into_iter().collect();
        text.push_str(&format!("{label:>6} |{}\n", line.trim_end()));
    }
    text.push_str(&format!("       +{}\n", "-".repeat(COLUMNS)));
    text.push_str(&format!("        {}\n{legend}", ticks(series, column).trim_end()));
    text.push_str(&format!(
        "  over {}{}\n",
        axes.label,
        if peak.is_some() { "; - peak" } else { "" }
    ));
    Some(text)
}

/// Sizes below their columns, where there is room.
fn ticks(series: &[Series], column: impl Fn(f64) -> usize) -> String {
    let all = series.iter().flat_map(|series| &series.points);
    let sizes: BTreeMap<usize, f64> = all.map(|(size, _)| (column(*size), *size)).collect();
    let mut text = String::new();
    for (at, size) in sizes {
        let label = format!("{size:.0}");
        let begin = at.saturating_sub(label.len() / 2);
        if begin == 0 || begin > text.len() {
            text.push_str(&" ".repeat(begin.saturating_sub(text.len())));
            text.push_str(&label);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dtype;

    fn problems(shapes: &[&str]) -> Vec<Problem> {
        shapes.iter().map(|shape| Problem::new(shape.parse().unwrap(), Dtype::F32)).collect()
    }

    fn series() -> Vec<Series> {
        let points = |rates: [f64; 4]| {
            [128.0, 512.0, 2048.0, 16384.0].into_iter().zip(rates.map(Tflops)).collect()
        };
        vec![
            Series { name: "naive".to_owned(), points: points([0.5, 2.0, 3.0, 2.5]) },
            Series { name: "winner".to_owned(), points: points([1.5, 21.0, 45.0, 46.0]) },
        ]
    }

    #[test]
    fn sizes_are_rows_where_problems_are_square() {
        let square = problems(&["128x128x1024", "512x512x1024"]);
        let axes = RateAxes::of(&square);
        assert_eq!((axes.label.as_str(), axes.size(&square[1])), ("M = N, K = 1024", 512.0));
        let mixed = problems(&["128x128x1024", "64x64x64"]);
        let axes = RateAxes::of(&mixed);
        assert!((axes.size(&mixed[1]) - 64.0).abs() < 1e-9, "{axes:?}");
    }

    #[test]
    fn letters_mark_the_rates() {
        let axes = RateAxes::of(&problems(&["128x128x1024", "512x512x1024"]));
        insta::assert_snapshot!(lettered(&series(), &axes, Some(Tflops(66.9))).unwrap());
        assert_eq!(lettered(&series()[..0], &axes, None), None);
        let one = Series { name: "x".to_owned(), points: vec![(1.0, Tflops(1.0))] };
        assert_eq!(lettered(&[one], &axes, None), None, "one size is no plot");
    }

    #[test]
    fn a_drawing_has_a_line_for_each() {
        let axes = RateAxes::of(&problems(&["128x128x1024", "512x512x1024"]));
        let svg = super::super::svg(&drawn(&series(), &axes, Some(Tflops(66.9))).unwrap());
        for word in ["naive", "winner", "peak, 66.90", "M = N, K = 1024", ">128<", ">16.38k<"] {
            assert!(svg.contains(word), "{word}: {svg}");
        }
    }
}
