//! `db verify`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::arguments::{
    CommonArguments, DeviceArguments, FamilyArguments, SelectionArguments,
};
use crate::cli::console::Console;
use crate::cli::failure::Failure;
use crate::cli::measure_context::{MeasureContext, notes};
use crate::cli::{databases, interrupt};
use crate::database::{Drift, Record, ResultOrigin, StoredConfidence, update_record};
use crate::model::{Configuration, Problem};
use crate::report::{records, verified};
use crate::tune::{Kit, LineUpOptions, Named, Retimed, retime};

/// Times the winners of this device again, each in a final with its runner-up and the libraries.
/// A record drifts where its winner is not legal or correct any more, its template changed, its
/// time leaves the 5 % to 95 % of its samples by more than 1 %, the runner-up's margin leaves its
/// interval by more than 0.5 %, or a library's what was recorded by more than 1 %. Without
/// --update the database is not changed.
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
    /// Only records whose runner-up is significantly faster than their winner, as records of versions before 2026-11-24
    /// may be
    #[arg(long)]
    runner_up_faster: bool,
    /// Write each final into its record: the kernel that won it, its time and those of the libraries. The record's
    /// candidates take part, without a new search
    #[arg(long)]
    update: bool,
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
    let device = DeviceArguments {
        device: arguments.device.clone(),
        device_name: arguments.selection.device_name.clone(),
    };
    let context =
        MeasureContext::new(device.wish()?, &arguments.families, &arguments.common, console)?;
    let device = context.machine.device();
    let path = databases::of(&device, arguments.db.as_deref());
    let database = match named {
        Some(database) => database,
        None => databases::load_file(&path, console)?,
    };
    let is_chosen = |record: &&Record| {
        let is_beaten = || record.confidence.as_ref().is_some_and(StoredConfidence::is_beaten);
        selection.matches(record) && (!arguments.runner_up_faster || is_beaten())
    };
    let chosen: Vec<&Record> = database.records().iter().filter(is_chosen).collect();
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
    let (mut kit, nvrtc) = context.kit_and_nvrtc(console)?;
    let stop = interrupt::listen()?;
    let update = arguments.update.then_some(RecordUpdate { path: &path, nvrtc: &nvrtc });
    let (mut documents, mut bad) = (Vec::new(), 0);
    for (number, record) in own.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            console.note("interrupted");
            bad += own.len() - number;
            break;
        }
        let (document, holds) = one(record, &mut kit, (arguments.seed, update), console)?;
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
    (seed, update): (u64, Option<RecordUpdate<'_>>),
    console: Console,
) -> Result<(Value, bool), Failure> {
    let problem = Problem::try_from(&record.problem).map_err(Failure::work)?;
    console.note(&format!("verifying {problem}"));
    let (family_name, configuration) = databases::kernel(record, &kit.families)?;
    let others = others(record, kit);
    let named: Vec<Named<'_>> =
        others.iter().map(|(family, values)| (family.as_str(), values)).collect();
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
    let options = LineUpOptions { regime, seed, checks_neighbours: update.is_some() };
    let retimed =
        retime(&problem, winner, &named, kit, options, on_event).map_err(Failure::work)?;
    let family = kit.families.iter().find(|family| family.name == record.family);
    let hash = family.map(|family| kit.templates.hash(family)).unwrap_or_default();
    let drifts = Drift::of(record, &retimed, &hash);
    console.result(&verified::text(record, &retimed, &drifts));
    let mut document = verified::document(record, &retimed, &drifts);
    document["record"] = records::summary(record);
    if let Some(update) = update {
        let updated = update.write(record, &retimed, kit, seed)?;
        console.result(&verified::update(record, updated.as_ref()));
        document["updated"] = updated.as_ref().map_or(Value::Null, records::summary);
    }
    Ok((document, drifts.is_empty()))
}

/// The kernels of the recorded final besides the winner that their families still list, the runner-up first.
fn others(record: &Record, kit: &Kit) -> Vec<(String, Configuration)> {
    let Some(confidence) = &record.confidence else { return Vec::new() };
    let named = |text: &String| {
        let (name, values) = text.split_once(' ')?;
        let family = kit.families.iter().find(|family| family.name == name)?;
        Some((name.to_owned(), family.read_configuration(values)?))
    };
    let finalists = confidence.finalists.iter().map(|finalist| &finalist.kernel);
    let all = confidence.runner_up.iter().chain(&confidence.tie_set).chain(finalists);
    let winner = (record.family.clone(), record.configuration());
    let mut others: Vec<(String, Configuration)> = Vec::new();
    for other in all.filter_map(named) {
        if other != winner && !others.contains(&other) {
            others.push(other);
        }
    }
    others
}

/// Where new finals are written, and the compiler of their kernels.
#[derive(Clone, Copy)]
struct RecordUpdate<'a> {
    path: &'a Path,
    nvrtc: &'a str,
}

impl RecordUpdate<'_> {
    /// Writes the result of a new final into the record, and returns the new record; `None` where none was held.
    fn write(
        self,
        record: &Record,
        retimed: &Retimed,
        kit: &Kit,
        seed: u64,
    ) -> Result<Option<Record>, Failure> {
        let Some((winner, _)) = &retimed.decided else { return Ok(None) };
        let family = kit.families.iter().find(|family| family.name == winner.family);
        let origin = ResultOrigin {
            device: kit.machine.device(),
            template_hash: family.map(|family| kit.templates.hash(family)).unwrap_or_default(),
            nvrtc: self.nvrtc.to_owned(),
            time: jiff::Timestamp::now(),
            seed,
        };
        update_record(record, retimed, &origin, self.path).map_err(Failure::work)
    }
}
