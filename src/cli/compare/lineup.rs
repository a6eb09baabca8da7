//! Line-up: winners, kernels of the ladder, named configurations and libraries in one final for each shape.

use std::process::ExitCode;

use serde_json::Value;

use super::arguments::CompareArguments;
use crate::cli::console::Console;
use crate::cli::failure::Failure;
use crate::cli::known_records::KnownRecords;
use crate::cli::measure_context::{in_turn, notes};
use crate::cli::output::write;
use crate::cli::{databases, request};
use crate::model::{Configuration, Device, Problem};
use crate::report::lineup::{self, LineUpReport};
use crate::report::plot::{self, rates};
use crate::space::{Family, Rung, ladder};
use crate::tune::{Kit, LineUpOptions, line_up};

/// The name of the recorded winner.
const WINNER: &str = "winner";
const MODELLED_WINNER: &str = "modelled winner";

/// Measures, prints, draws and gives the exit code.
pub(super) fn run(
    arguments: &CompareArguments,
    problems: &[Problem],
    known: &KnownRecords,
    kit: &mut Kit,
    console: Console,
) -> Result<(Value, ExitCode), Failure> {
    let climbed = ladder_rungs(arguments)?;
    let named = named_rungs(arguments, &kit.families)?;
    let device = kit.machine.device();
    let regime = arguments.regime()?;
    let mut lined = Vec::new();
    for problem in in_turn(problems, console)? {
        let served = climbed.iter().filter(|rung| serves(rung, &kit.families, problem, &device));
        let mut wanted: Vec<RequestedEntrant> = served
            .chain(&named)
            .map(|rung| RequestedEntrant::of(rung, &kit.families, problem, &device))
            .collect();
        match known.find(problem, &device, regime) {
            Some(record) => wanted.push(RequestedEntrant {
                name: if device.is_cpu() { MODELLED_WINNER } else { WINNER }.to_owned(),
                chosen: databases::kernel(record, &kit.families)
                    .map_err(|error| error.message().to_owned()),
            }),
            None => console.note(&format!(
                "no winner of {problem} takes part: no record of {} in {}",
                device.name,
                known.names()
            )),
        }
        let chosen: Vec<&(String, Configuration)> =
            wanted.iter().filter_map(|wanted| wanted.chosen.as_ref().ok()).collect();
        let named: Vec<_> =
            chosen.iter().map(|(family, values)| (family.as_str(), values)).collect();
        let on_event = &mut notes(console);
        let options =
            LineUpOptions { regime, seed: arguments.measure.seed, checks_neighbours: false };
        let result = line_up(problem, &named, kit, options, on_event).map_err(Failure::work)?;
        let names: Vec<(String, Option<String>)> =
            wanted.into_iter().map(|wanted| (wanted.name, wanted.chosen.err())).collect();
        lined.push(LineUpReport::of(*problem, &names, &result));
    }
    show(arguments, problems, &lined, &device, console)?;
    let whole = lined.len() == problems.len() && lined.iter().all(LineUpReport::is_whole);
    let code = if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok((lineup::document(&lined, &device), code))
}

/// Prints the table and the plot, or values, and draws the plot file.
fn show(
    arguments: &CompareArguments,
    problems: &[Problem],
    lined: &[LineUpReport],
    device: &Device,
    console: Console,
) -> Result<(), Failure> {
    let axes = lineup::axes(lined);
    let series = lineup::series(lined, &axes);
    let peak = problems.first().and_then(|problem| device.peak(problem));
    console.values(|| lineup::csv(lined));
    console.result(&lineup::table(lined, device, console.table_style()));
    if let Some(plot) = rates::lettered(&series, &axes, peak) {
        console.as_it_is(&console.preformatted(&plot));
    }
    let Some(path) = &arguments.plot else { return Ok(()) };
    let drawn = rates::drawn(&series, &axes, peak).ok_or_else(|| {
        Failure::Work("no plot is drawn: it takes times of two sizes at least".to_owned())
    })?;
    write(path, plot::svg(&drawn).as_bytes())?;
    console.note(&format!("plot written to {}", path.display()));
    Ok(())
}

/// The kernels of the ladder, where it takes part.
fn ladder_rungs(arguments: &CompareArguments) -> Result<Vec<Rung>, Failure> {
    if !arguments.ladder {
        return Ok(Vec::new());
    }
    ladder(arguments.families.folders.spaces.as_deref()).map_err(Failure::work)
}

/// The configurations that were named.
fn named_rungs(arguments: &CompareArguments, families: &[Family]) -> Result<Vec<Rung>, Failure> {
    let mut rungs = Vec::new();
    for config in &arguments.config {
        let (family, _) = config.split_once(':').unwrap_or((config, ""));
        request::family(families, family).map_err(Failure::usage)?;
        rungs.push(Rung { name: config.clone(), config: config.clone() });
    }
    Ok(rungs)
}

/// Whether a rung of the ladder is one for problems like this: its family serves their types, layouts and GPU.
fn serves(rung: &Rung, families: &[Family], problem: &Problem, device: &Device) -> bool {
    let (family, _) = rung.config.split_once(':').unwrap_or((&rung.config, ""));
    // A misspelt family is shown as one that fails.
    request::family(families, family)
        .map_or(true, |family| family.refusal(problem, device).is_none())
}

/// A named entrant.
struct RequestedEntrant {
    name: String,
    /// Its family and configuration, or why it cannot serve the problem.
    chosen: Result<(String, Configuration), String>,
}

impl RequestedEntrant {
    fn of(rung: &Rung, families: &[Family], problem: &Problem, device: &Device) -> Self {
        let (family, set) = rung.config.split_once(':').unwrap_or((&rung.config, ""));
        let family = request::family(families, family).map_err(|error| error.to_string());
        let chosen = family.and_then(|family| {
            let chosen = family.choose(set, problem, device).map_err(|error| error.to_string())?;
            Ok((family.name.clone(), chosen))
        });
        Self { name: rung.name.clone(), chosen }
    }
}
