//! Roofline: the rates of all records over their arithmetic intensity, beside the limits of the device.

use std::collections::BTreeSet;

use indexmap::IndexMap;

use super::super::plot::axis::Scale;
use super::super::plot::{AxisRange, Plot, PlotBuilder};
use super::content::{ProblemReport, id, is_modelled};
use super::{PLOT_SIZE, case_name};
use crate::model::{CachePolicy, Device, Problem, Tflops};
use crate::predict::{least_traffic, memory_bandwidth, peak_rate};

/// Limits of a device for one GEMM type. A limit that is not known is none.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Roof {
    peak: Option<Tflops>,
    /// Bytes per second.
    bandwidth: Option<f64>,
}

impl Roof {
    fn of(problem: &Problem, device: &Device) -> Self {
        Self { peak: peak_rate(problem, device), bandwidth: memory_bandwidth(device) }
    }

    /// Highest rate at an intensity in FLOP per byte; `None` where no limit is known.
    fn rate(&self, intensity: f64) -> Option<f64> {
        let memory = self.bandwidth.map(|rate| intensity * rate / 1e12);
        let rates = [memory, self.peak.map(|peak| peak.0)].into_iter().flatten();
        rates.min_by(f64::total_cmp)
    }

    /// Intensity from which arithmetic limits.
    fn ridge(&self) -> Option<f64> {
        Some(1e12 * self.peak?.0 / self.bandwidth?)
    }
}

/// Position of one record.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RooflinePoint {
    /// Operations per byte of the least traffic, with operands outside of the cache.
    intensity: f64,
    /// Rate in TFLOP/s.
    rate: f64,
    roof: Roof,
    /// Name of the GPU.
    device: String,
    /// GEMM type, with what distinguishes the measurement.
    series: String,
}

impl RooflinePoint {
    /// The position of a problem's record; `None` without a record, or for words of a later version.
    pub(super) fn of(case: &ProblemReport<'_>) -> Option<Self> {
        let (record, problem, device) = (case.record?, case.problem()?, case.device()?);
        // Intensity is a property of the problem and the device, whatever the cache held.
        let bytes = least_traffic(&problem, &device, CachePolicy::Rotate);
        let is_hot = record.regime()?.cache == CachePolicy::Hot;
        let cache = if is_hot { ", operands in the cache" } else { "" };
        Some(Self {
            intensity: problem.operations() / bytes,
            rate: record.measurement.tflops,
            roof: Roof::of(&problem, &device),
            series: format!("{}{cache}", problem.types),
            device: device.name,
        })
    }

    /// Rate as a percentage of the roof above it.
    pub(super) fn percent_of_roof(&self) -> Option<f64> {
        Some(100.0 * self.rate / self.roof.rate(self.intensity)?)
    }
}

/// Plots all records; `None` without any.
pub(super) fn roofline(cases: &[ProblemReport<'_>]) -> Option<Plot> {
    let of = |(number, case)| RooflinePoint::of(case).map(|point| (number, point));
    let points: Vec<(usize, RooflinePoint)> = cases.iter().enumerate().filter_map(of).collect();
    let mut points: Vec<_> = points.into_iter().filter(|(_, point)| point.rate > 0.0).collect();
    let devices: BTreeSet<&str> = points.iter().map(|(_, point)| point.device.as_str()).collect();
    if devices.len() > 1 {
        for (_, point) in &mut points {
            point.series = format!("{} on {}", point.series, point.device);
        }
    }
    // Series in the order of the problems, with their roofs.
    let mut series: IndexMap<&str, Roof> = IndexMap::new();
    for (_, point) in &points {
        series.entry(&point.series).or_insert(point.roof);
    }
    let mut roofs: Vec<Roof> = Vec::new();
    for roof in series.values() {
        if !roofs.contains(roof) {
            roofs.push(*roof);
        }
    }
    let ridges = roofs.iter().filter_map(Roof::ridge);
    let [low, high] = range(points.iter().map(|(_, point)| point.intensity).chain(ridges))?;
    let tops = points.iter().map(|(_, point)| point.rate);
    let peaks = roofs.iter().filter_map(|roof| roof.rate(high));
    let modelled = cases.iter().filter_map(|case| case.record).any(is_modelled);
    let unit = if modelled { "modelled TFLOP/s" } else { "TFLOP/s" };
    let axis = |label: &str, range| AxisRange {
        label: label.to_owned(),
        scale: Scale::Logarithmic,
        range,
    };
    let x = axis("FLOP per byte of least traffic", [low, high]);
    let y = axis(unit, range(tops.chain(peaks))?);
    let bottom = y.range[0];
    let mut sheet =
        PlotBuilder::sized("roofline", "rate over arithmetic intensity", &x, &y, PLOT_SIZE);
    // One roof is a reference line, each of several has the colour of its first series.
    for roof in &roofs {
        let own = series.values().position(|one| one == roof).filter(|_| roofs.len() > 1);
        sheet.line(&corners(roof, [low, high], bottom), own);
    }
    for (number, point) in &points {
        let share = point.percent_of_roof().map(|share| format!(", {share:.1} % of the roof"));
        let tip = format!(
            "{}: {} TFLOP/s at {} FLOP per byte{}",
            case_name(&cases[*number]),
            Tflops(point.rate),
            Tflops(point.intensity),
            share.unwrap_or_default()
        );
        let number_of_series = series.get_index_of(point.series.as_str()).unwrap_or_default();
        sheet.point((point.intensity, point.rate), number_of_series, tip, &id(*number));
    }
    for (number, (name, roof)) in series.iter().enumerate() {
        match roofs.len() {
            1 => sheet.key(name, Some(number)),
            _ => sheet.key(&format!("{name}, limits {}", words(roof)), Some(number)),
        }
    }
    if let [roof] = &roofs[..] {
        sheet.key(&format!("limits: {}", words(roof)), None);
    }
    Some(sheet.finish())
}

/// Lowest and highest of positive values, with a margin; `None` without any.
fn range(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    let values: Vec<f64> = values.filter(|value| *value > 0.0 && value.is_finite()).collect();
    let low = values.iter().copied().min_by(f64::total_cmp)?;
    let high = values.iter().copied().max_by(f64::total_cmp)?;
    Some([low / 1.5, high * 1.5])
}

/// Corners of a roof within the plot; none where no limit is known.
fn corners(roof: &Roof, [low, high]: [f64; 2], bottom: f64) -> Vec<(f64, f64)> {
    // The slope begins where it enters the plot from below.
    let entry = roof.bandwidth.map_or(low, |rate| (bottom * 1e12 / rate).max(low));
    let ridge = roof.ridge().filter(|ridge| (entry..high).contains(ridge));
    let places = [Some(entry), ridge, Some(high)].into_iter().flatten();
    places.filter_map(|place| Some((place, roof.rate(place)?))).collect()
}

fn words(roof: &Roof) -> String {
    let peak = roof.peak.map(|peak| format!("{peak} TFLOP/s"));
    let bandwidth = roof.bandwidth.map(|rate| format!("{} TB/s", rate / 1e12));
    let known: Vec<String> = [bandwidth, peak].into_iter().flatten().collect();
    if known.is_empty() { "not known".to_owned() } else { known.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_roof_is_the_lower_of_its_limits() {
        let roof = Roof { peak: Some(Tflops(60.0)), bandwidth: Some(4e12) };
        assert_eq!(roof.ridge(), Some(15.0));
        assert_eq!([1.0, 15.0, 100.0].map(|at| roof.rate(at)), [4.0, 60.0, 60.0].map(Some));
        let slope = Roof { peak: None, ..roof };
        assert_eq!((slope.rate(100.0), slope.ridge()), (Some(400.0), None));
        assert_eq!(Roof::default().rate(1.0), None);
    }

    #[test]
    fn corners_lie_on_the_roof_and_within_the_plot() {
        let roof = Roof { peak: Some(Tflops(60.0)), bandwidth: Some(4e12) };
        assert_eq!(corners(&roof, [0.1, 100.0], 2.0), [(0.5, 2.0), (15.0, 60.0), (100.0, 60.0)]);
        assert_eq!(corners(&roof, [20.0, 100.0], 2.0), [(20.0, 60.0), (100.0, 60.0)]);
        assert_eq!(corners(&Roof::default(), [0.1, 100.0], 2.0), []);
    }
}
