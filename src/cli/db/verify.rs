//! `db verify`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::arguments::{CommonArguments, FamilyArguments, SelectionArguments};
use crate::cli::console::Console;
use crate::cli::failure::Failure;
use crate::cli::measure_context::{MeasureContext, notes};
use crate::cli::{databases, interrupt};
use crate::database::{Drift, Record};
use crate::model::{Configuration, Problem};
use crate::report::{records, verified};
use crate::tune::{Kit, retime};

/// Times the winners of this device again, each in a final with its runner-up and the libraries.
/// A record drifts where its winner is not legal or correct any more, its template changed, its
/// time leaves the 5 % to 95 % of its samples by more than 1 %, the runner-up's margin leaves its
/// interval by more than 0.5 %, or a library's what was recorded by more than 1 %. The database is
/// not changed.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 all records hold, 1 one drifts or cannot be verified, 2 wrong usage."
)]
pub(in crate::cli) struct VerifyArguments {
    /// Database to verify [default: results/<gpu>.toml]
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    #[command(flatten)]
    selection: SelectionArguments,
    /// Device to verify on: auto, cuda:N, or cpu
    #[arg(long, default_value = "auto")]
    device: String,
    /// Seed of the operands
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    families: FamilyArguments,
    #[command(flatten)]
    pub(super) common: CommonArguments,
}

pub(super) fn verify(
    arguments: &VerifyArguments,
    console: Console,
) -> Result<(Value, ExitCode), Failure> {
    let selection = arguments.selection.selection()?;
    let named =
        arguments.db.as_deref().map(|path| databases::load_file(path, console)).transpose()?;
    let context =
        MeasureContext::new(&arguments.device, &arguments.families, &arguments.common, console)?;
    let device = context.machine.device();
    let path = databases::of(&device, arguments.db.as_deref());
    let database = match named {
        Some(database) => database,
        None => databases::load_file(&path, console)?,
    };
    let chosen: Vec<&Record> =
        database.records().iter().filter(|record| selection.matches(record)).collect();
    let (own, others): (Vec<&Record>, Vec<&Record>) =
        chosen.into_iter().partition(|record| record.is_of(&device));
    if !others.is_empty() {
        console.note(&format!(
            "{} records are of other devices than {} and are left out",
            others.len(),
            device.name
        ));
    }
    if own.is_empty() {
        return Err(Failure::Work(format!(
            "no such record of {} in {}; `gemm-tune db list` shows what there is",
            device.name,
            path.display()
        )));
    }
    let mut kit = context.kit(console)?;
    let stop = interrupt::listen()?;
    let (mut documents, mut bad) = (Vec::new(), 0);
    for (number, record) in own.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            console.note("interrupted");
            bad += own.len() - number;
            break;
        }
        let (document, holds) = one(record, &mut kit, arguments.seed, console)?;
        bad += usize::from(!holds);
        documents.push(document);
    }
    console.result(&format!(
        "{} of {} records of {} hold in {}\n",
        own.len() - bad,
        own.len(),
        device.name,
        path.display()
    ));
    let document =
        json!({ "database": path.display().to_string(), "device": device, "verified": documents });
    Ok((document, if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }))
}

/// Verifies a record, shows the result, and returns whether it holds.
fn one(
    record: &Record,
    kit: &mut Kit,
    seed: u64,
    console: Console,
) -> Result<(Value, bool), Failure> {
    let problem = Problem::try_from(&record.problem).map_err(Failure::work)?;
    console.note(&format!("verifying {problem}"));
    let (family_name, configuration) = databases::kernel(record, &kit.families)?;
    let runner_up = runner_up(record, kit);
    let named = runner_up.as_ref().map(|(family, values)| (family.as_str(), values));
    let on_event = &mut notes(console);
    let regime = record.regime().ok_or_else(|| {
        let (cache_policy, power) =
            (&record.measurement.cache_policy, &record.measurement.power);
        Failure::Work(format!(
            "{problem} was timed with cache policy `{cache_policy}` and power state `{power}`, which \
             this version does not know; update gemm-tune"
        ))
    })?;
    let winner = (family_name.as_str(), &configuration);
    let retimed =
        retime(&problem, winner, named, kit, (regime, seed), on_event).map_err(Failure::work)?;
    let family = kit.families.iter().find(|family| family.name == record.family);
    let hash = family.map(|family| kit.templates.hash(family)).unwrap_or_default();
    let drifts = Drift::of(record, &retimed, &hash);
    console.result(&verified::text(record, &retimed, &drifts));
    let mut document = verified::document(record, &retimed, &drifts);
    document["record"] = records::summary(record);
    Ok((document, drifts.is_empty()))
}

/// The recorded runner-up, where there is one and its family still lists it.
fn runner_up(record: &Record, kit: &Kit) -> Option<(String, Configuration)> {
    let text = record.confidence.as_ref()?.runner_up.as_deref()?;
    let (name, values) = text.split_once(' ')?;
    let family = kit.families.iter().find(|family| family.name == name)?;
    Some((name.to_owned(), family.read_configuration(values)?))
}
