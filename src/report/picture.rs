//! Picture of a block's data movement: compact text for a terminal, and a self-contained SVG.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;

use super::inspected::heading;
use crate::inspect::{Factor, InspectedKernel, LoadStage, LoadedElement, Picture};

/// Number of stages drawn; later ones are like the second.
const SHOWN_STAGES: usize = 2;

/// Rows and columns of a tile shown in a terminal.
const SHOWN: usize = 8;

/// Values by row and column of a matrix.
type Grid<T> = BTreeMap<u64, BTreeMap<u64, T>>;

/// Summary: how many elements a thread reads and computes.
fn summary(subject: &InspectedKernel, picture: &Picture) -> String {
    let mut computed: BTreeMap<u32, u64> = BTreeMap::new();
    picture.computed.iter().for_each(|one| *computed.entry(one.thread).or_default() += 1);
    let most = computed.values().max().copied().unwrap_or(0);
    let most = picture.partial.as_ref().map_or(most, |partial| partial.stored);
    let result = match &picture.partial {
        Some(partial) => format!("{most} partial sums of C, stored to `{}`", partial.workspace),
        None => format!("{most} of C"),
    };
    let share = picture.share();
    let depth: u64 = share.depth.iter().map(|range| range.end() - range.start() + 1).sum();
    let of_depth = subject.problem.shape.k;
    let covered = if depth == of_depth {
        format!("all of K = {of_depth}")
    } else {
        let percent = 100.0 * depth as f64 / of_depth as f64;
        format!("K {} of {of_depth} ({percent:.1} %)", ranges(&share.depth))
    };
    let [x, y, z] = picture.grid;
    let blocks: u64 = picture.grid.iter().map(|extent| u64::from(*extent)).product();
    format!(
        "{}, block (0, 0, 0) of {blocks} ({x} x {y} x {z}), {} threads, {} stages\nthe block multiplies rows {} \
         of A by columns {} of B, along {covered}\na thread reads up to {} elements of A and B from global memory \
         and computes up to {result};\nwithout sharing it would read {}\n",
        picture.entry,
        picture.threads,
        picture.stages.len(),
        ranges(&share.rows),
        ranges(&share.columns),
        picture.reads,
        2 * depth * most
    )
}

/// Number of ranges listed.
const SHOWN_RANGES: usize = 3;

/// Lists ranges: `0 to 63, 128 to 191`.
fn ranges(ranges: &[RangeInclusive<u64>]) -> String {
    let words = ranges.iter().take(SHOWN_RANGES).map(|range| match range.end() == range.start() {
        true => range.start().to_string(),
        false => format!("{} to {}", range.start(), range.end()),
    });
    let words: Vec<String> = words.collect();
    let more = if ranges.len() > SHOWN_RANGES { ", ..." } else { "" };
    if words.is_empty() { "none".to_owned() } else { format!("{}{more}", words.join(", ")) }
}

fn grid(stage: &LoadStage, factor: Factor) -> Grid<&LoadedElement> {
    let mut grid: Grid<&LoadedElement> = BTreeMap::new();
    for one in stage.loaded.iter().filter(|one| one.factor == factor) {
        grid.entry(one.row).or_default().entry(one.column).or_insert(one);
    }
    grid
}

fn computed(picture: &Picture) -> Grid<u32> {
    let mut grid: Grid<u32> = BTreeMap::new();
    for one in &picture.computed {
        grid.entry(one.row).or_default().insert(one.column, one.thread);
    }
    grid
}

/// Text for a terminal: thread numbers in the corner of every tile.
pub fn text(subject: &InspectedKernel, picture: &Picture) -> String {
    let mut text = format!("{}\n{}", heading(subject), summary(subject, picture));
    for (number, stage) in picture.stages.iter().take(SHOWN_STAGES).enumerate() {
        for factor in [Factor::A, Factor::B] {
            let cell = |one: &&LoadedElement| {
                let bank = one.bank.map(|bank| format!(":{bank}")).unwrap_or_default();
                format!("{}{bank}{}", one.thread, if one.conflict { "!" } else { "" })
            };
            let title = format!("stage {}, {factor:?}", number + 1);
            let grid = grid(stage, factor);
            if !grid.is_empty() {
                text.push_str(&corner(&title, &grid, cell));
            }
        }
    }
    if !picture.computed.is_empty() {
        text.push_str(&corner("C", &computed(picture), u32::to_string));
    }
    text.push_str("\nthread:bank of shared memory; `!`: the store had bank conflicts\n");
    text
}

fn corner<T>(title: &str, grid: &Grid<T>, cell: impl Fn(&T) -> String) -> String {
    let columns: Vec<u64> = columns(grid).into_iter().take(SHOWN).collect();
    let mut text = format!("\n{title:<12}");
    columns.iter().for_each(|column| text.push_str(&format!("{column:>8}")));
    let wide = self::columns(grid).len() > SHOWN;
    text.push_str(if wide { "  ...\n" } else { "\n" });
    for (row, cells) in grid.iter().take(SHOWN) {
        let _ = write!(text, "{row:>12}");
        for column in &columns {
            let _ = write!(text, "{:>8}", cells.get(column).map(&cell).unwrap_or_default());
        }
        text.push_str(if wide { "  ...\n" } else { "\n" });
    }
    if grid.len() > SHOWN {
        text.push_str("         ...\n");
    }
    text
}

fn columns<T>(grid: &Grid<T>) -> Vec<u64> {
    let mut columns: Vec<u64> = grid.values().flat_map(|cells| cells.keys().copied()).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// Pixels: gap between drawings, height of a text line, smallest and largest cell, longer side of a
/// drawing.
const GAP: usize = 24;
const LINE: usize = 18;
const CELLS: (usize, usize) = (5, 30);
const SIDE: usize = 640;

/// Smallest cell, in pixels, with room for a thread and its bank.
const TWO_LINES: usize = 26;

/// A drawing with its size in pixels.
struct Drawing {
    width: usize,
    height: usize,
    body: String,
}

/// Makes an SVG with light and dark colours. A cell's tooltip describes it.
pub fn svg(subject: &InspectedKernel, picture: &Picture) -> String {
    let mut rows: Vec<Vec<Drawing>> = Vec::new();
    for (number, stage) in picture.stages.iter().take(SHOWN_STAGES).enumerate() {
        let tile = |factor: Factor| {
            let title = format!("stage {}: {factor:?}, by thread and :bank", number + 1);
            let grid = grid(stage, factor);
            let cell = |one: &&LoadedElement| {
                let bank = match one.bank {
                    Some(bank) if one.conflict => format!(", bank {bank}, with conflicts"),
                    Some(bank) => format!(", bank {bank}"),
                    None => ", to a register".to_owned(),
                };
                (one.thread, one.conflict, one.bank, bank)
            };
            drawing(&title, &format!("{factor:?}"), &grid, cell)
        };
        let loaded = |factor: &Factor| stage.loaded.iter().any(|one| one.factor == *factor);
        rows.push([Factor::A, Factor::B].into_iter().filter(loaded).map(tile).collect());
    }
    let cell = |thread: &u32| (*thread, false, None, String::new());
    if !picture.computed.is_empty() {
        let title = "C, by the thread that computes it";
        rows.push(vec![drawing(title, "C", &computed(picture), cell)]);
    }

    let words = format!("{}{}", heading(subject), summary(subject, picture));
    let mut body = String::new();
    let mut top = GAP;
    let lines: Vec<String> = words.lines().flat_map(wrapped).collect();
    for line in &lines {
        top += LINE;
        let _ = writeln!(body, "<text x=\"{GAP}\" y=\"{top}\">{}</text>", escaped(line));
    }
    let mut width = GAP + lines.iter().map(String::len).max().unwrap_or(0) * 8;
    for row in rows {
        top += GAP;
        let mut left = GAP;
        for drawing in &row {
            let _ = writeln!(body, "<g transform=\"translate({left} {top})\">{}</g>", drawing.body);
            left += drawing.width + GAP;
        }
        width = width.max(left);
        top += row.iter().map(|drawing| drawing.height).max().unwrap_or(0);
    }
    let height = top + GAP;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"ui-monospace, monospace\" font-size=\"13\">\n<style>\n\
         svg {{ background: #fff }} text {{ fill: #111 }} rect {{ stroke: #fff; stroke-width: .5 }}\n\
         rect.conflict {{ stroke: #d00; stroke-width: 2 }} .cell {{ fill: #111; text-anchor: middle; \
         font-size: 11px }} .bank {{ font-size: 9px; opacity: .75 }}\n@media (prefers-color-scheme: dark) {{ svg {{ background: #111 }} \
         text {{ fill: #eee }} rect {{ stroke: #111 }} }}\n</style>\n{body}</svg>\n"
    )
}

/// Letters of a line of text.
const LETTERS: usize = 110;

/// Breaks a line between words.
fn wrapped(line: &str) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in line.split(' ') {
        match lines.last_mut() {
            Some(last) if last.is_empty() => last.push_str(word),
            Some(last) if last.len() + 1 + word.len() <= LETTERS => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(format!("  {word}")),
        }
    }
    lines
}

/// Draws a matrix as cells; equal neighbours in a row are merged.
fn drawing<T>(
    title: &str,
    name: &str,
    grid: &Grid<T>,
    cell: impl Fn(&T) -> (u32, bool, Option<u32>, String),
) -> Drawing {
    let columns = columns(grid);
    let longest = grid.len().max(columns.len()).max(1);
    let side = (SIDE / longest).clamp(CELLS.0, CELLS.1);
    let mut body = format!("<text y=\"{}\">{}</text>\n", LINE - 6, escaped(title));
    for (y, (row, cells)) in grid.iter().enumerate() {
        let mut x = 0;
        while let Some(column) = columns.get(x) {
            let Some(first) = cells.get(column) else {
                x += 1;
                continue;
            };
            let (thread, conflict, bank, what) = cell(first);
            let alike = |at: &&u64| {
                cells.get(*at).map(&cell).as_ref() == Some(&(thread, conflict, bank, what.clone()))
            };
            let run = columns[x..].iter().take_while(alike).count().max(1);
            let (left, top) = (x * side, LINE + y * side);
            let width = run * side;
            let class = if conflict { " class=\"conflict\"" } else { "" };
            let places = match columns.get(x + run - 1) {
                Some(last) if last != column => format!("{column} to {last}"),
                _ => column.to_string(),
            };
            let _ = writeln!(
                body,
                "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{side}\" fill=\"{}\"{class}>\
                 <title>{name}[{row}][{places}]: thread {thread}{what}</title></rect>",
                color(thread)
            );
            if width >= CELLS.1 - 4 && side >= 14 {
                // Two lines, where the cell has room for both.
                let bank = bank.filter(|_| side >= TWO_LINES);
                let raised = if bank.is_some() { 1 } else { 4 };
                let (middle, base) = (left + width / 2, top + side / 2 + raised);
                let _ = writeln!(
                    body,
                    "<text class=\"cell\" x=\"{middle}\" y=\"{base}\">{thread}</text>"
                );
                if let Some(bank) = bank {
                    let below = base + 10;
                    let _ = writeln!(
                        body,
                        "<text class=\"cell bank\" x=\"{middle}\" y=\"{below}\">:{bank}</text>"
                    );
                }
            }
            x += run;
        }
    }
    Drawing {
        width: (columns.len() * side).max(8 * title.len()),
        height: LINE + grid.len() * side,
        body,
    }
}

/// Colour of a thread. Neighbours get distant hues, in steps of the golden angle; warps differ in
/// lightness.
fn color(thread: u32) -> String {
    let hue = (f64::from(thread) * 137.508) % 360.0;
    let lightness = 62 + 6 * (thread / 32 % 4);
    format!("hsl({hue:.0} 65% {lightness}%)")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
