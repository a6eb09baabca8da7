//! Reports of inspected kernels, as text and as JSON.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use super::json::problem_document;
use super::table::{TableStyle, named, pairs, right_aligned};
use crate::cpu::MemoryCounts;
use crate::inspect::{
    InspectedKernel, InstructionMix, KernelDifference, KernelFigures, ResourceFigures,
    SourceChange, Traffic,
};
use crate::model::units::human_bytes;

/// Heading of a kernel: family, configuration, problem and device.
pub fn heading(subject: &InspectedKernel) -> String {
    let InspectedKernel { family, configuration, problem, device, chosen, rendered } = subject;
    let bits = if rendered.plan.nondeterministic {
        "not deterministic: two runs on the same values may differ in their last bits\n"
    } else {
        ""
    };
    let source = chosen.as_ref().map_or(String::new(), |(source, because)| {
        format!("source: {}, because {because}\n", source.name())
    });
    format!("{family}: {configuration}\nfor {problem} on {}\n{source}{bits}", device.name)
}

/// Resources of a kernel, for a terminal of `width` columns.
pub fn figures(subject: &InspectedKernel, figures: &ResourceFigures, style: TableStyle) -> String {
    let mut text = heading(subject);
    for kernel in &figures.kernels {
        let _ = write!(text, "\n{}\n{}", kernel.entry, pairs(&kernel_rows(kernel), style));
    }
    let name = |name: &str| format!("  {name}");
    let unknown = || format!("unknown for {}", subject.device.name);
    let mut rows = vec![(
        name("FLOP per byte"),
        format!("{:.1} if every operand moves once", figures.flop_per_byte),
    )];
    if let Some(balance) = figures.balance {
        let bound = if figures.flop_per_byte > balance { "arithmetic" } else { "memory" };
        rows.push((
            name("balance"),
            format!("{balance:.1} FLOP per byte: the problem is bound by {bound}"),
        ));
    }
    let arithmetic = figures.arithmetic_floor.zip(figures.peak);
    let arithmetic = arithmetic.map(|(floor, peak)| format!("{floor} at {peak} TFLOP/s"));
    rows.push((name("arithmetic floor"), arithmetic.unwrap_or_else(unknown)));
    let memory = figures.memory_floor.map(|floor| format!("{floor} to move every operand once"));
    rows.push((name("memory floor"), memory.unwrap_or_else(unknown)));
    let _ = write!(text, "\nthe problem\n{}", pairs(&rows, style));
    text
}

fn kernel_rows(kernel: &KernelFigures) -> Vec<(String, String)> {
    let assembled = &kernel.assembled;
    let [x, y, z] = kernel.grid;
    let threads: u32 = kernel.block.iter().product();
    let shared = u64::from(assembled.shared_bytes) + u64::from(kernel.dynamic_shared_bytes);
    let limits = kernel.occupancy.limits.map(|(limiter, blocks)| format!("{limiter} {blocks}"));
    let limiters: Vec<String> = kernel.limiters().iter().map(ToString::to_string).collect();
    let rows = [
        ("grid", format!("{x} x {y} x {z} blocks of {threads} threads")),
        ("registers", format!("{} per thread", assembled.registers)),
        (
            "spills",
            match assembled.spill_bytes() {
                0 => "none".to_owned(),
                _ => format!(
                    "{} bytes stored, {} loaded per thread",
                    assembled.spill_store_bytes, assembled.spill_load_bytes
                ),
            },
        ),
        ("stack", format!("{} bytes per thread", assembled.stack_bytes)),
        (
            "shared memory",
            format!(
                "{} per block ({} bytes static, {} dynamic)",
                human_bytes(shared),
                assembled.shared_bytes,
                kernel.dynamic_shared_bytes
            ),
        ),
        (
            "occupancy",
            format!(
                "{:.1} %: {} per SM, limited by {}",
                100.0 * kernel.occupancy.share,
                blocks(kernel.occupancy.blocks_per_sm),
                limiters.join(" and ")
            ),
        ),
        ("blocks per SM by", limits.join(", ")),
        (
            "waves",
            kernel.waves.map_or("none: no block fits".to_owned(), |waves| {
                format!(
                    "{:.2} of {} blocks, the last filled to {:.1} %",
                    waves.count,
                    waves.blocks,
                    100.0 * waves.tail
                )
            }),
        ),
    ];
    rows.into_iter().map(|(name, value)| (format!("  {name}"), value)).collect()
}

fn blocks(count: u64) -> String {
    if count == 1 { "1 block".to_owned() } else { format!("{count} blocks") }
}

/// Traffic of every source line, for a terminal of `width` columns.
pub fn traffic(subject: &InspectedKernel, launches: &[Traffic], style: TableStyle) -> String {
    let mut text = heading(subject);
    for launch in launches {
        let extent = match (launch.executed, launch.blocks) {
            (executed, all) if executed == all => format!("the whole grid of {}", blocks(all)),
            (1, all) => format!("the first of {all} blocks"),
            (executed, all) => format!("{executed} of {all} blocks"),
        };
        let _ = writeln!(text, "\n{}, executed: {extent}", launch.entry);
        let mut table = style.table();
        table.set_header(right_aligned(
            ["line", "requests", "sectors", "wavefronts", "conflicts", "used"],
            ["access", "source"],
        ));
        for site in &launch.lines {
            let line = site.line.map_or("-".to_owned(), |line| line.to_string());
            let left = [site.class.name().to_owned(), site.text.clone()];
            table.add_row(right_aligned(traffic_cells(line, &site.counts), left));
        }
        for (class, counts) in &launch.memory {
            let left = [class.name().to_owned(), String::new()];
            table.add_row(right_aligned(traffic_cells("all".to_owned(), counts), left));
        }
        text.push_str(&style.draw(table));
    }
    text.push_str(
        "\nrequests: instructions of a warp; sectors: 32 bytes of global memory; wavefronts: passes \
         over\nthe 32 banks of shared memory; conflicts: wavefronts caused by bank conflicts; \
         used: bytes\nrequested by threads, in per cent of bytes moved; above 100 % if threads share bytes\n",
    );
    text
}

fn traffic_cells(line: String, counts: &MemoryCounts) -> [String; 6] {
    let some = |count: u64| if count == 0 { String::new() } else { count.to_string() };
    let used = 100.0 * counts.bytes_useful as f64 / counts.bytes_moved.max(1) as f64;
    [
        line,
        counts.requests.to_string(),
        some(counts.sectors),
        some(counts.wavefronts),
        some(counts.bank_conflicts),
        if counts.bytes_moved == 0 { String::new() } else { format!("{used:.0} %") },
    ]
}

/// One of two compared kernels.
#[derive(Debug, Clone, Copy)]
pub struct ComparedKernel<'a> {
    /// The kernel.
    pub subject: &'a InspectedKernel,
    /// Its resources.
    pub figures: &'a ResourceFigures,
    /// Its instruction mix.
    pub mix: &'a InstructionMix,
}

/// Two kernels side by side, with the differences of their sources.
pub fn comparison(
    sides: [ComparedKernel<'_>; 2],
    difference: &KernelDifference,
    style: TableStyle,
) -> String {
    let [first, second] = sides;
    let mut text = format!(
        "X  {}Y  {}\n",
        heading(first.subject).replace('\n', "\n   ").trim_end_matches(' '),
        heading(second.subject).replace('\n', "\n   ").trim_end_matches(' ')
    );
    let mut section = |title: &str, rows: &[(String, String, String)]| {
        let mut table = style.table();
        table.set_header(named(title, ["X", "Y", ""]));
        for (name, x, y) in rows {
            table.add_row(named(name, [x.as_str(), y, if x == y { "" } else { "*" }]));
        }
        let _ = writeln!(text, "{}", style.draw(table));
    };
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let parameters: Vec<_> = difference
        .parameters
        .iter()
        .map(|(name, x, y)| (name.clone(), value(x), value(y)))
        .collect();
    section("parameter", &parameters);
    for (x, y) in first.figures.kernels.iter().zip(&second.figures.kernels) {
        section(&format!("resources of {}", x.entry), &resource_rows(x, y));
    }
    section("per 1000 multiply-adds of a warp", &mix_rows(first.mix, second.mix));
    if difference.source.is_empty() {
        text.push_str("the sources are equal\n");
    }
    for group in &difference.source {
        text.push_str(&source_group(group));
    }
    text
}

fn resource_rows(x: &KernelFigures, y: &KernelFigures) -> Vec<(String, String, String)> {
    let of = |kernel: &KernelFigures| {
        let shared =
            u64::from(kernel.assembled.shared_bytes) + u64::from(kernel.dynamic_shared_bytes);
        let limiters: Vec<String> = kernel.limiters().iter().map(ToString::to_string).collect();
        let waves = kernel.waves;
        [
            ("threads", kernel.block.iter().product::<u32>().to_string()),
            ("blocks", kernel.grid.map(u64::from).iter().product::<u64>().to_string()),
            ("registers", kernel.assembled.registers.to_string()),
            ("spilled bytes", kernel.assembled.spill_bytes().to_string()),
            ("shared bytes", shared.to_string()),
            ("blocks per SM", kernel.occupancy.blocks_per_sm.to_string()),
            ("limited by", limiters.join(", ")),
            ("occupancy", format!("{:.1} %", 100.0 * kernel.occupancy.share)),
            ("waves", waves.map_or("-".to_owned(), |waves| format!("{:.2}", waves.count))),
            ("last wave", waves.map_or("-".to_owned(), |w| format!("{:.1} %", 100.0 * w.tail))),
        ]
    };
    let pairs = of(x).into_iter().zip(of(y));
    pairs.map(|((name, x), (_, y))| (name.to_owned(), x, y)).collect()
}

fn mix_rows(x: &InstructionMix, y: &InstructionMix) -> Vec<(String, String, String)> {
    let classes: BTreeSet<_> = x.instructions.keys().chain(y.instructions.keys()).collect();
    let of_class =
        |mix: &InstructionMix, class| mix.instructions.get(class).copied().unwrap_or(0.0);
    let classes =
        classes.iter().map(|class| (class.name(), of_class(x, class), of_class(y, class)));
    let all = |mix: &InstructionMix| mix.instructions.values().sum();
    let totals = [
        ("all instructions", all(x), all(y)),
        ("sectors", x.sectors, y.sectors),
        ("wavefronts", x.wavefronts, y.wavefronts),
        ("bank conflicts", x.bank_conflicts, y.bank_conflicts),
    ];
    let rows = classes.chain(totals);
    rows.map(|(name, x, y)| (name.to_owned(), format!("{x:.1}"), format!("{y:.1}"))).collect()
}

/// Lines around a change, headed by the number of the first one.
fn source_group(group: &[SourceChange]) -> String {
    let style = |color: AnsiColor| Style::new().fg_color(Some(color.into()));
    let first =
        |number: fn(&SourceChange) -> Option<usize>| group.iter().find_map(number).unwrap_or(0);
    let cyan = style(AnsiColor::Cyan);
    let mut text = format!(
        "{cyan}@@ X line {}, Y line {} @@{cyan:#}\n",
        first(|change| change.lines.0),
        first(|change| change.lines.1)
    );
    for SourceChange { sign, text: line, .. } in group {
        let line = format!("{sign}{line}");
        let line = line.trim_end();
        let _ = match sign {
            '-' => writeln!(text, "{0}{line}{0:#}", style(AnsiColor::Red)),
            '+' => writeln!(text, "{0}{line}{0:#}", style(AnsiColor::Green)),
            _ => writeln!(text, "{line}"),
        };
    }
    text
}

/// Common fields of all documents.
pub fn subject_document(subject: &InspectedKernel) -> Value {
    json!({
        "gemm_tune": env!("CARGO_PKG_VERSION"),
        "family": subject.family,
        "parameters": subject.configuration,
        "problem": problem_document(&subject.problem),
        "device": subject.device.name,
        "source": subject.chosen.as_ref().map(|(source, _)| source.name()),
        "because": subject.chosen.as_ref().map(|(_, because)| because),
        "launch": subject.rendered.plan,
    })
}

/// Resource figures as JSON.
pub fn figures_document(figures: &ResourceFigures) -> Value {
    let kernels = figures.kernels.iter().map(|kernel| {
        let limits = kernel.occupancy.limits.map(|(limiter, n)| (limiter.to_string(), json!(n)));
        let assembled = &kernel.assembled;
        json!({
            "entry": kernel.entry,
            "grid": kernel.grid,
            "block": kernel.block,
            "registers": assembled.registers,
            "spill_store_bytes": assembled.spill_store_bytes,
            "spill_load_bytes": assembled.spill_load_bytes,
            "stack_bytes": assembled.stack_bytes,
            "static_shared_bytes": assembled.shared_bytes,
            "dynamic_shared_bytes": kernel.dynamic_shared_bytes,
            "blocks_per_sm": kernel.occupancy.blocks_per_sm,
            "blocks_per_sm_by": serde_json::Map::from_iter(limits),
            "occupancy": kernel.occupancy.share,
            "waves": kernel.waves,
        })
    });
    json!({
        "kernels": kernels.collect::<Vec<_>>(),
        "flop_per_byte": figures.flop_per_byte,
        "balance": figures.balance,
        "arithmetic_floor_us": figures.arithmetic_floor,
        "memory_floor_us": figures.memory_floor,
    })
}

/// Traffic of every source line as JSON.
pub fn traffic_document(launches: &[Traffic]) -> Value {
    let counts = |counts: &MemoryCounts| {
        json!({
            "requests": counts.requests,
            "sectors": counts.sectors,
            "wavefronts": counts.wavefronts,
            "bank_conflicts": counts.bank_conflicts,
            "bytes_useful": counts.bytes_useful,
            "bytes_moved": counts.bytes_moved,
        })
    };
    let launches = launches.iter().map(|launch| {
        let lines = launch.lines.iter().map(|site| {
            let mut document = counts(&site.counts);
            document["line"] = json!(site.line);
            document["source"] = json!(site.text);
            document["access"] = json!(site.class.name());
            document
        });
        let instructions =
            launch.instructions.iter().map(|(class, n)| (class.name().to_owned(), json!(n)));
        json!({
            "entry": launch.entry,
            "blocks_executed": launch.executed,
            "blocks": launch.blocks,
            "instructions": serde_json::Map::from_iter(instructions),
            "lines": lines.collect::<Vec<_>>(),
        })
    });
    Value::Array(launches.collect())
}

/// Two kernels and their differences as JSON.
pub fn comparison_document(sides: [ComparedKernel<'_>; 2], difference: &KernelDifference) -> Value {
    let side = |side: ComparedKernel<'_>| {
        let mut document = subject_document(side.subject);
        document["resources"] = figures_document(side.figures);
        let InstructionMix { instructions, sectors, wavefronts, bank_conflicts } = side.mix;
        let instructions =
            instructions.iter().map(|(class, n)| (class.name().to_owned(), json!(n)));
        document["per_1000_multiply_adds"] = json!({
            "instructions": serde_json::Map::from_iter(instructions),
            "sectors": sectors,
            "wavefronts": wavefronts,
            "bank_conflicts": bank_conflicts,
        });
        document
    };
    let parameters = difference.parameters.iter().filter(|(_, x, y)| x != y);
    let parameters = parameters.map(|(name, x, y)| json!({ "name": name, "x": x, "y": y }));
    let changes = difference.source.iter().flatten().map(|change| {
        json!({
            "sign": change.sign.to_string(),
            "line_x": change.lines.0,
            "line_y": change.lines.1,
            "text": change.text,
        })
    });
    json!({
        "x": side(sides[0]),
        "y": side(sides[1]),
        "parameters": parameters.collect::<Vec<_>>(),
        "source": changes.collect::<Vec<_>>(),
    })
}
