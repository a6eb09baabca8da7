//! Pictures of the speed-ups in the files of `results/`.

use std::fmt::Write as _;

use super::assert_generated;
use super::benchmarks::{Set, sets, tensor_core_sets};

/// Left and right end of the dots, and top of the first band, in the picture's units.
const ENDS: [f64; 2] = [30.0, 730.0];
const TOP: f64 = 14.0;
/// Radius of a dot.
const DOT: f64 = 2.8;
/// Height of a set.
const BAND: f64 = 92.0;
/// Colours of the sets, in turn.
const COLOURS: [&str; 3] = ["#1b6ca8", "#2a8a5d", "#b4530a"];

/// What a picture shows: a band of dots for each set.
struct Picture<'a> {
    sets: &'a [Set],
    /// Speed-ups at the ends.
    ends: [f64; 2],
    ticks: &'a [f64],
    legend: &'a str,
}

/// One dot for each problem, by its speed-up.
fn drawn(picture: &Picture<'_>) -> String {
    let [left, right] = ENDS;
    let bottom = TOP + picture.sets.len() as f64 * BAND + 2.0;
    let height = bottom + 38.0;
    let [least, most] = picture.ends;
    let at = |speedup: f64| {
        let share = (speedup / least).ln() / (most / least).ln();
        left + (right - left) * share.clamp(0.0, 1.0)
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 {height}\" width=\"760\" height=\"{height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\">\n\
         <title>Speed-up over the fastest library call, one dot for each problem</title>\n\
         <rect width=\"760\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    for &tick in picture.ticks {
        let (x, is_one) = (at(tick), tick == 1.0);
        let colour = if is_one { "#333333" } else { "#dddddd" };
        writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"12\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"{colour}\"/>"
        )
        .unwrap();
        writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#333333\">{tick}</text>",
            bottom + 16.0
        )
        .unwrap();
    }
    let legend = picture.legend;
    writeln!(
        svg,
        "<text x=\"380\" y=\"{}\" text-anchor=\"middle\" fill=\"#333333\">{legend}</text>",
        bottom + 33.0
    )
    .unwrap();
    for (band, (set, colour)) in picture.sets.iter().zip(COLOURS.into_iter().cycle()).enumerate() {
        let top = TOP + band as f64 * BAND;
        let middle = top + 54.0;
        let name = set.name.replace('`', "");
        let name = name.replace(", mostly odd rows", "").replace(", answered by lookup", ",");
        let title = [
            format!("{} {name}", set.speedups.len()),
            format!("{:.2} in the geometric mean, {} slower", set.mean(), set.slower()),
        ];
        for (x, y) in dots(set.speedups.iter().map(|speedup| at(*speedup)).collect(), middle) {
            writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{DOT}\" fill=\"{colour}\" fill-opacity=\"0.75\"/>").unwrap();
        }
        for (line, text) in title.iter().enumerate() {
            let (x, y) = (right - 2.0, top + 14.0 + 18.0 * line as f64);
            writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"end\" fill=\"{colour}\" font-weight=\"600\">{text}</text>"
            )
            .unwrap();
        }
    }
    svg + "</svg>\n"
}

/// Places of dots around a line: each as near to it as the dots before it let it be.
fn dots(mut at: Vec<f64>, middle: f64) -> Vec<(f64, f64)> {
    at.sort_by(f64::total_cmp);
    let mut placed: Vec<(f64, f64)> = Vec::new();
    for x in at {
        let free = |y: f64| placed.iter().all(|(x2, y2)| (x - x2).hypot(y - y2) >= 1.8 * DOT);
        let offsets = (0..40).flat_map(|step| [f64::from(step), -f64::from(step)]);
        let y = offsets.map(|offset| middle + offset).find(|y| free(*y)).unwrap_or(middle);
        placed.push((x, y));
    }
    placed
}

fn speedups(sets: &[Set]) -> Picture<'_> {
    Picture {
        sets,
        ends: [0.55, 80.0],
        ticks: &[0.8, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 40.0],
        legend: "speed-up over the fastest library call: right of 1 gemm-tune is faster (strict f32, NVIDIA H200 unless named)",
    }
}

fn tensor_cores(sets: &[Set]) -> Picture<'_> {
    Picture {
        sets,
        ends: [0.8, 6.0],
        ticks: &[0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0],
        legend: "speed-up over the fastest library call: right of 1 gemm-tune is faster (tensor cores, NVIDIA H200)",
    }
}

#[test]
fn pictures_are_those_of_the_results() {
    assert_generated("docs/pictures/speedups.svg", &drawn(&speedups(&sets())));
    assert_generated("docs/pictures/tensor-cores.svg", &drawn(&tensor_cores(&tensor_core_sets())));
}

#[test]
fn a_picture_has_a_dot_for_each_problem_of_each_set() {
    let (of_f32, of_tensor_cores) = (sets(), tensor_core_sets());
    for picture in [speedups(&of_f32), tensor_cores(&of_tensor_cores)] {
        let all: Vec<f64> = picture.sets.iter().flat_map(|set| set.speedups.clone()).collect();
        assert_eq!(drawn(&picture).matches("<circle").count(), all.len());
        let [least, most] = picture.ends;
        assert!(all.iter().all(|speedup| (least..most).contains(speedup)), "{}", picture.legend);
    }
}
