//! Plots as values in pixels. One template renders any of them as SVG: for a page, whose style it
//! shares, or for a file of its own.

pub mod axis;
pub mod rates;

use serde::Serialize;
use serde_json::Value;
use tera::{Context, Tera};

use axis::{PlotAxis, Scale, Tick, label, tenths};

/// Size of a plot, and the margins for its labels.
const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 38.0;

/// Height of a legend line.
const KEY_LINE: f64 = 16.0;

/// Width of a letter, about.
const LETTER: f64 = 6.0;

/// Number of series with distinct colours.
const COLOURS: usize = 10;

/// A drawing with two axes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plot {
    /// Description for screen readers.
    pub title: String,
    /// Name for scripts and styles.
    pub name: String,
    width: f64,
    height: f64,
    /// Height of the legend, above the plot.
    above: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x_label: String,
    y_label: String,
    x_ticks: Vec<Tick>,
    y_ticks: Vec<Tick>,
    bars: Vec<Bar>,
    lines: Vec<Line>,
    dots: Vec<Dots>,
    points: Vec<LinkedPoint>,
    legend: Vec<LegendEntry>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Bar {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    series: usize,
    tip: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Line {
    path: String,
    /// The series; none for a reference line.
    series: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Dots {
    path: String,
    series: usize,
    size: f64,
}

/// A dot of its own, with a tooltip and a link.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct LinkedPoint {
    x: f64,
    y: f64,
    series: usize,
    tip: String,
    /// Anchor in the page.
    anchor: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct LegendEntry {
    x: f64,
    y: f64,
    label: String,
    series: Option<usize>,
}

/// Range, scale and label of an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct AxisRange {
    /// Its label with the unit.
    pub label: String,
    /// Its scale.
    pub scale: Scale,
    /// Its lowest and highest value.
    pub range: [f64; 2],
}

/// Builder of a plot.
#[derive(Debug, Clone)]
pub struct PlotBuilder {
    plot: Plot,
    x: PlotAxis,
    y: PlotAxis,
    next_key: (f64, f64),
}

impl PlotBuilder {
    /// An empty plot of the default size.
    pub fn new(name: &str, title: &str, x: &AxisRange, y: &AxisRange) -> Self {
        Self::sized(name, title, x, y, [WIDTH, HEIGHT])
    }

    /// An empty plot of another size.
    pub fn sized(
        name: &str,
        title: &str,
        x: &AxisRange,
        y: &AxisRange,
        [width, height]: [f64; 2],
    ) -> Self {
        let (right, bottom) = (width - RIGHT, height - BOTTOM);
        let across = PlotAxis::new(x.scale, x.range, [LEFT, right]);
        let upward = PlotAxis::new(y.scale, y.range, [bottom, TOP]);
        let plot = Plot {
            title: title.to_owned(),
            name: name.to_owned(),
            width,
            height,
            above: 0.0,
            left: LEFT,
            right,
            top: TOP,
            bottom,
            x_label: x.label.clone(),
            y_label: y.label.clone(),
            x_ticks: across.ticks((width / 60.0) as usize),
            y_ticks: upward.ticks(5),
            bars: Vec::new(),
            lines: Vec::new(),
            dots: Vec::new(),
            points: Vec::new(),
            legend: Vec::new(),
        };
        Self { plot, x: across, y: upward, next_key: (LEFT, 0.0) }
    }

    /// Replaces the ticks of the x axis by names, each at its value. Names that would touch the one before are left
    /// out.
    pub fn name_x(&mut self, names: impl IntoIterator<Item = (f64, String)>) {
        self.plot.x_ticks.clear();
        let mut end = f64::NEG_INFINITY;
        for (value, label) in names {
            let (at, half) = (self.x.at(value), LETTER / 2.0 * label.chars().count() as f64);
            if at - half > end {
                end = at + half + LETTER / 2.0;
                self.plot.x_ticks.push(Tick { at, label });
            }
        }
    }

    /// Adds a bar between two values of x and two values of y, with a tooltip.
    pub fn bar(&mut self, [from, to]: [f64; 2], [low, high]: [f64; 2], series: usize, tip: String) {
        let (left, right) = (self.x.at(from), self.x.at(to));
        let (base, top) = (self.y.at(low), self.y.at(high));
        let bar = Bar {
            x: left,
            y: top,
            width: tenths((right - left).max(0.5)),
            height: tenths(base - top),
            series: series % COLOURS,
            tip,
        };
        self.plot.bars.push(bar);
    }

    /// Adds a line through points; of no points, none.
    pub fn line(&mut self, points: &[(f64, f64)], series: Option<usize>) {
        if points.is_empty() {
            return;
        }
        let place = |(x, y): &(f64, f64)| format!("{} {}", self.x.at(*x), self.y.at(*y));
        let points: Vec<String> = points.iter().map(place).collect();
        let series = series.map(|series| series % COLOURS);
        self.plot.lines.push(Line { path: format!("M{}", points.join("L")), series });
    }

    /// Adds a step line, which holds each value until the next.
    pub fn steps(&mut self, points: &[(f64, f64)], end: f64, series: usize) {
        let mut path = String::new();
        for (x, y) in points {
            let (x, y) = (self.x.at(*x), self.y.at(*y));
            path += &if path.is_empty() { format!("M{x} {y}") } else { format!("H{x}V{y}") };
        }
        path += &format!("H{}", self.x.at(end));
        self.plot.lines.push(Line { path, series: Some(series % COLOURS) });
    }

    /// Adds a horizontal reference line over the whole width.
    pub fn level(&mut self, value: f64) {
        let (y, plot) = (self.y.at(value), &mut self.plot);
        let path = format!("M{} {y}H{}", plot.left, plot.right);
        plot.lines.push(Line { path, series: None });
    }

    /// Adds a vertical reference line.
    pub fn upright(&mut self, value: f64) {
        let (x, plot) = (self.x.at(value), &mut self.plot);
        let path = format!("M{x} {}V{}", plot.bottom, plot.top);
        plot.lines.push(Line { path, series: None });
    }

    /// Adds dots. Dots on the same pixel are merged, which keeps drawings small.
    pub fn dots(&mut self, points: impl Iterator<Item = (f64, f64)>, size: f64, series: usize) {
        let pixels =
            points.map(|(x, y)| (self.x.at(x).round() as i64, self.y.at(y).round() as i64));
        let pixels: std::collections::BTreeSet<(i64, i64)> = pixels.collect();
        let path: String = pixels.iter().map(|(x, y)| format!("M{x} {y}h0")).collect();
        if !path.is_empty() {
            self.plot.dots.push(Dots { path, series: series % COLOURS, size });
        }
    }

    /// Adds a dot with a tooltip, which leads to an anchor of the page.
    pub fn point(&mut self, (x, y): (f64, f64), series: usize, tip: String, anchor: &str) {
        let (x, y) = (self.x.at(x), self.y.at(y));
        let series = series % COLOURS;
        self.plot.points.push(LinkedPoint { x, y, series, tip, anchor: anchor.to_owned() });
    }

    /// Adds a legend entry for a series, or for reference lines. A label that is wider than the plot is cut.
    pub fn key(&mut self, label: &str, series: Option<usize>) {
        let series = series.map(|series| series % COLOURS);
        let room = ((self.plot.right - LEFT - 20.0) / LETTER) as usize;
        let label = match label.chars().count() > room {
            true => format!("{}…", label.chars().take(room.saturating_sub(1)).collect::<String>()),
            false => label.to_owned(),
        };
        // Placed beside the previous entry where there is room.
        let wide = 32.0 + LETTER * label.chars().count() as f64;
        let (mut x, mut y) = self.next_key;
        if x + wide > self.plot.right && x > LEFT {
            (x, y) = (LEFT, y + KEY_LINE);
        }
        self.next_key = (x + wide, y);
        self.plot.above = y + KEY_LINE;
        self.plot.legend.push(LegendEntry { x, y: y + 8.0, label, series });
    }

    /// Returns the plot.
    pub fn finish(self) -> Plot {
        self.plot
    }
}

/// Positions of the axes of a plot of the default size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlotFrame {
    /// Pixels from the left edge.
    pub left: f64,
    /// The end of the x axis.
    pub right: f64,
    /// Pixels from the upper edge.
    pub top: f64,
    /// The x axis.
    pub bottom: f64,
}

/// Positions of the axes of a plot of the default size.
pub fn frame() -> PlotFrame {
    PlotFrame { left: LEFT, right: WIDTH - RIGHT, top: TOP, bottom: HEIGHT - BOTTOM }
}

/// Template of all plots, for pages that include it.
pub const TEMPLATE: (&str, &str) = ("plot.svg", include_str!("plot.svg.tera"));

/// Style sheet of all plots.
pub const STYLE: (&str, &str) = ("plot.css", include_str!("plot.css"));

/// Renders a plot as an SVG file, with light and dark colours.
pub fn svg(plot: &Plot) -> String {
    render("plot.svg", &serde_json::json!({ "plot": plot, "alone": true }), &[])
}

/// Renders a template of this room. Templates are part of the program and tests render them all;
/// the text of an error replaces the output.
pub fn render(name: &str, values: &Value, others: &[(&'static str, &'static str)]) -> String {
    let mut tera = Tera::default();
    tera.autoescape_on(vec![".html", ".svg"]);
    let all = others.iter().copied().chain([TEMPLATE, STYLE]);
    let rendered = tera.add_raw_templates(all).and_then(|()| {
        let context = Context::from_serialize(values)?;
        tera.render(name, &context)
    });
    rendered.unwrap_or_else(|error| format!("{name}: {error}"))
}

/// Formats a number with a unit letter, for tooltips and tables.
pub fn short(value: f64) -> String {
    label(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_is_an_svg_with_labels() {
        let along =
            |label: &str, range| AxisRange { label: label.to_owned(), scale: Scale::Linear, range };
        let mut sheet =
            PlotBuilder::new("a", "a < b", &along("x", [0.0, 10.0]), &along("y", [0.0, 5.0]));
        sheet.bar([1.0, 2.0], [0.0, 3.0], 0, "3 & more".to_owned());
        sheet.line(&[(0.0, 0.0), (10.0, 5.0)], Some(1));
        sheet.steps(&[(1.0, 1.0), (2.0, 4.0)], 10.0, 2);
        sheet.level(4.5);
        sheet.dots([(1.0, 1.0), (1.0001, 1.0), (9.0, 4.0)].into_iter(), 2.0, 3);
        sheet.key("peak", None);
        let svg = svg(&sheet.finish());
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
        assert!(svg.contains("a &lt; b") && svg.contains("3 &amp; more"), "{svg}");
        assert_eq!(svg.matches("h0").count(), 2, "dots on one pixel are one: {svg}");
        assert!(svg.contains("prefers-color-scheme: dark"), "{svg}");
    }
}
