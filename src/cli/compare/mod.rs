//! `gemm-tune compare`: recorded winners beside the libraries, the ladder and chosen configurations,
//! measured now.

mod arguments;
mod lineup;

use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;

pub(in crate::cli) use arguments::CompareArguments;

use crate::cli::arguments::MeasureArguments;
use crate::cli::console::Console;
use crate::cli::failure::Failure;
use crate::cli::known_records::KnownRecords;
use crate::cli::machine::Wish;
use crate::cli::measure_context::{MeasureContext, in_turn, notes};
use crate::cli::output::{beside, finish_with};
use crate::cli::{databases, request};
use crate::model::Problem;
use crate::report::comparison::{self, LibraryComparison};
use crate::tune::{LineUpOptions, retime};

/// Compares, prints and gives the exit code.
pub(in crate::cli) fn main(arguments: &CompareArguments) -> ExitCode {
    let console = Console::new(&arguments.common);
    // Values of the command's own are printed there.
    let plot = arguments.plot.as_deref().unwrap_or(Path::new(""));
    let compared = beside(plot, console).and_then(|console| run(arguments, console));
    finish_with(console, compared, |_| String::new())
}

fn run(arguments: &CompareArguments, console: Console) -> Result<(Value, ExitCode), Failure> {
    let problems = arguments.problems.all()?;
    if problems.is_empty() {
        return Err(request::no_shape("compare on", "gemm-tune compare"));
    }
    let regime = arguments.regime()?;
    let MeasureArguments { db, device, seed } = &arguments.measure;
    let is_lineup = arguments.ladder || !arguments.config.is_empty() || arguments.plot.is_some();
    let wish = match device.wish()? {
        // The libraries run on a GPU only: the host is no substitute for it.
        Wish::Auto if !is_lineup => Wish::Gpu(0),
        wish => wish,
    };
    let mut kit =
        MeasureContext::new(wish, &arguments.families, &arguments.common, console)?.kit(console)?;
    let device = kit.machine.device();
    if device.is_cpu() {
        request::check_modelled(regime)?;
    }
    // A line-up takes place without winners, too.
    let missing = db.as_ref().filter(|file| is_lineup && !file.exists());
    let known = match missing {
        Some(_) => KnownRecords::none(),
        None => KnownRecords::read(db.as_slice(), &problems, console)?
            .for_device(&device, &problems, regime)?,
    };
    let is_built_in = |problem: &Problem| {
        known.find(problem, &device, regime).is_some_and(|record| known.is_built_in(record))
    };
    if problems.iter().any(is_built_in) {
        databases::note_built_in(console);
    }
    if is_lineup {
        return lineup::run(arguments, &problems, &known, &mut kit, console);
    }
    let mut compared = Vec::new();
    for problem in in_turn(&problems, console)? {
        let Some(record) = known.find(problem, &device, regime) else {
            let why = format!("no record of {} in {}", device.name, known.names());
            compared.push(LibraryComparison::without(*problem, why));
            continue;
        };
        let (family, configuration) = databases::kernel(record, &kit.families)?;
        let winner = (family.as_str(), &configuration);
        let on_event = &mut notes(console);
        let options = LineUpOptions { regime, seed: *seed, checks_neighbours: false };
        let retimed =
            retime(problem, winner, &[], &mut kit, options, on_event).map_err(Failure::work)?;
        compared.push(LibraryComparison::of(*problem, retimed));
    }
    console.values(|| comparison::csv(&compared));
    console.result(&comparison::table(&compared, &device, console.table_style()));
    let whole = compared.len() == problems.len()
        && compared.iter().all(|compared| compared.failure().is_none());
    let code = if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok((comparison::document(&compared, &device), code))
}
