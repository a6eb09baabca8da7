//! `db restamp`.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Args;
use serde_json::{Value, json};

use crate::cli::arguments::{CommonArguments, FolderArguments};
use crate::cli::console::Console;
use crate::cli::databases;
use crate::cli::failure::Failure;
use crate::cli::machine::Workshop;
use crate::cli::request;
use crate::compile::{Architecture, CompileTarget};
use crate::database::{self, Database, Record};
use crate::files;
use crate::inspect::equivalence::{self, Case, Edition, Source, Verdict};
use crate::model::{Configuration, Problem};
use crate::predict::LearnedModel;
use crate::quote;
use crate::render::Templates;
use crate::space::{Families, Family};

/// Compares the kernels of two versions of the templates and search spaces by their machine code, names
/// left out, and stamps records anew whose family gives the same code.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 all kernels that were compared are equal, 1 some are not, 2 wrong usage."
)]
pub(in crate::cli) struct RestampArguments {
    /// Database whose records are compared, and stamped anew with --yes
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// Folder of the search spaces that the records were tuned with
    #[arg(long, value_name = "DIR")]
    before_spaces: PathBuf,
    /// Folder of the templates that the records were tuned with
    #[arg(long, value_name = "DIR")]
    before_templates: PathBuf,
    #[command(flatten)]
    folders: FolderArguments,
    /// Compare only these families
    #[arg(long, value_name = "NAME")]
    family: Vec<String>,
    /// Random configurations to compare, of each family
    #[arg(long, value_name = "N", default_value_t = 300)]
    random: usize,
    /// Records to compare at most [default: all]
    #[arg(long, value_name = "N")]
    records: Option<usize>,
    /// Seed of the random configurations
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Compiles at a time [default: one for each core]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Stamp the records and learned models of families all of whose kernels are equal
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    pub(super) common: CommonArguments,
}

pub(super) fn restamp(
    arguments: &RestampArguments,
    console: Console,
) -> Result<(Value, ExitCode), Failure> {
    let old_families = Families::from_folder(&arguments.before_spaces).map_err(Failure::work)?;
    let old_families: Vec<Family> = old_families.iter().cloned().collect();
    let old_templates =
        Templates::with_folder(&arguments.before_templates).map_err(Failure::work)?;
    let (families, templates) = request::all_families(&arguments.folders)?;
    let before = Edition { families: &old_families, templates: &old_templates };
    let after = Edition { families: &families, templates: &templates };
    let database = Database::load_existing(&arguments.db).map_err(Failure::work)?;
    let device = databases::device(&database.records().iter().collect::<Vec<_>>(), None)?;

    let mut cases = Vec::new();
    let all = arguments.records.unwrap_or(usize::MAX);
    for (place, record) in database.records().iter().enumerate().take(all) {
        let problem = Problem::try_from(&record.problem).map_err(Failure::work)?;
        let family = before.families.iter().find(|family| family.name == record.family);
        let Some(family) = family else { continue };
        let configuration = family.completed(record.configuration()).map_err(Failure::work)?;
        let named = (record.family.clone(), configuration);
        let now = after.current(&named);
        cases.push(Case { source: Source::Record(place), problem, before: named, after: now });
    }
    cases.extend(equivalence::defaults(before, after, &device));
    cases.extend(equivalence::random(before, after, &device, (arguments.random, arguments.seed)));
    if !arguments.family.is_empty() {
        cases.retain(|case| arguments.family.contains(family_of(case)));
    }

    let architecture = Architecture::from(device.compute_capability);
    let compiler = Workshop::new(&arguments.common)?.compiler_to(
        CompileTarget::Cubin(architecture),
        None,
        console,
    )?;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(request::jobs(arguments.jobs)?.get())
        .build()
        .map_err(Failure::work)?;
    let count = AtomicUsize::new(0);
    let done = || {
        let count = count.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_multiple_of(100) {
            console.note(&format!("{count} of {} compared", cases.len()));
        }
    };
    let verdicts =
        pool.install(|| equivalence::compare(&cases, (before, after), &device, &compiler, &done));
    let compared = table(&cases, &verdicts).map_err(Failure::work)?;
    console.values(|| String::from_utf8_lossy(&compared).into_owned());
    let mut rows = Vec::new();
    let mut text = format!(
        "{:<12} {:>9} {:>7} {:>10} {:>14} {:>7}\n",
        "family", "compared", "equal", "different", "inexpressible", "failed"
    );
    for family in &families {
        let own: Vec<&Verdict> = cases
            .iter()
            .zip(&verdicts)
            .filter(|(case, _)| *family_of(case) == family.name)
            .map(|(_, one)| one)
            .collect();
        let count = |is: fn(&Verdict) -> bool| own.iter().filter(|one| is(one)).count();
        let equal = count(|one| matches!(one, Verdict::Equal));
        let different = count(|one| matches!(one, Verdict::Different(_)));
        let inexpressible = count(|one| matches!(one, Verdict::Inexpressible(_)));
        let failed = count(|one| matches!(one, Verdict::Failed(_)));
        text += &format!(
            "{:<12} {:>9} {equal:>7} {different:>10} {inexpressible:>14} {failed:>7}\n",
            family.name,
            own.len()
        );
        rows.push(json!({
            "family": family.name, "compared": own.len(), "equal": equal, "different": different,
            "inexpressible": inexpressible, "failed": failed,
        }));
    }
    console.result(&text);
    let clean = |family: &String| {
        let own = cases.iter().zip(&verdicts).filter(|(case, _)| family_of(case) == family);
        own.clone().count() > 0
            && own.clone().all(|(_, one)| matches!(one, Verdict::Equal | Verdict::Inexpressible(_)))
    };
    let model_path = arguments.db.with_extension("model.json");
    let mut model = model_path.exists().then(|| request::learned_model(&model_path)).transpose()?;
    let names = names(&cases, model.as_ref(), before, after);
    let changed = |place: usize, record: &Record| {
        let own = cases.iter().position(|case| case.source == Source::Record(place))?;
        let (family, configuration) = cases[own].after.as_ref().ok()?;
        let is_equal = verdicts[own] == Verdict::Equal && clean(family);
        let family = after.families.iter().find(|known| known.name == *family)?;
        is_equal.then(|| stamped(record, (family, configuration), after, &names))
    };
    for (place, record) in database.records().iter().enumerate() {
        let own = cases.iter().find(|case| case.source == Source::Record(place));
        if let Some(Err(reason)) = own.map(|case| &case.after) {
            let problem = Problem::try_from(&record.problem).map_err(Failure::work)?;
            console.note(&format!("the record of {problem} is left as it is: {reason}"));
        }
    }
    if arguments.yes {
        let count = database::restamp(&arguments.db, changed).map_err(Failure::work)?;
        console.result(&format!("{count} records stamped anew in {}\n", arguments.db.display()));
        if let Some(model) = &mut model {
            let count = stamp_model(model, before, after, &clean);
            let text = model.text().map_err(Failure::work)?;
            files::replace(&model_path, text.as_bytes()).map_err(Failure::work)?;
            let path = model_path.display();
            console.result(&format!("{count} learned models stamped anew in {path}\n"));
        }
    }
    let good = verdicts.iter().all(|verdict| *verdict == Verdict::Equal);
    let code = if good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok((json!({ "compared": rows }), code))
}

/// What was compared, as CSV.
fn table(cases: &[Case], verdicts: &[Verdict]) -> csv::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(["family", "source", "problem", "verdict", "detail", "before", "after"])?;
    for (case, verdict) in cases.iter().zip(verdicts) {
        let (word, detail) = in_words(verdict);
        let now = case.after.as_ref().map_or(String::new(), |(_, one)| one.to_string());
        let (source, problem) = (case.source.to_string(), case.problem.to_string());
        let (family, before) = (family_of(case).clone(), case.before.1.to_string());
        let fields = [family, source, problem, word.to_owned(), detail, before, now];
        writer.write_record(fields.map(|field| quote::csv_field(&field)))?;
    }
    writer.into_inner().map_err(|error| error.into_error().into())
}

/// Stamps the models of families whose kernels are all equal. Returns how many were stamped.
fn stamp_model(
    model: &mut LearnedModel,
    before: Edition<'_>,
    after: Edition<'_>,
    is_clean: &dyn Fn(&String) -> bool,
) -> usize {
    let clean = after.families.iter().filter(|family| is_clean(&family.name));
    let stamped = clean.map(|family| {
        let old = before.families.iter().find(|old| old.name == family.name);
        let from = old.map(|old| before.templates.hash(old));
        from.map_or(0, |from| model.restamp(&family.name, &from, &after.templates.hash(family)))
    });
    stamped.sum()
}

/// Today's short names, by the former ones, of kernels that were compared or are in the learned model's sets.
fn names(
    cases: &[Case],
    model: Option<&LearnedModel>,
    before: Edition<'_>,
    after: Edition<'_>,
) -> BTreeMap<String, String> {
    let short = |edition: Edition<'_>, (name, configuration): &(String, Configuration)| {
        let family = edition.families.iter().find(|family| family.name == *name);
        family.map(|family| family.short_name(configuration))
    };
    let pair = |old: &(String, Configuration), new: &(String, Configuration)| {
        Some((short(before, old)?, short(after, new)?))
    };
    let compared = cases.iter().filter_map(|case| pair(&case.before, case.after.as_ref().ok()?));
    let kernel_sets = before.families.iter().flat_map(|family| {
        let models = model.and_then(|model| model.families.get(&family.name)).into_iter().flatten();
        models.flat_map(|model| model.kernels(family)).map(|one| (family.name.clone(), one))
    });
    let known = kernel_sets.filter_map(|old| pair(&old, &after.current(&old).ok()?));
    compared.chain(known).collect()
}

/// A record with the names and the template's hash of today.
fn stamped(
    record: &Record,
    (family, configuration): (&Family, &Configuration),
    after: Edition<'_>,
    names: &BTreeMap<String, String>,
) -> Record {
    let mut record = record.clone();
    record.family = family.name.clone();
    record.parameters = configuration.0.clone();
    record.provenance.template_hash = after.templates.hash(family);
    let landmarks = std::mem::take(&mut record.landmarks_us).into_iter();
    record.landmarks_us =
        landmarks.map(|(name, time)| (names.get(&name).cloned().unwrap_or(name), time)).collect();
    if let Some(confidence) = &mut record.confidence {
        let finalists = confidence.finalists.iter_mut().map(|finalist| &mut finalist.kernel);
        let named = confidence.runner_up.iter_mut().chain(&mut confidence.tie_set).chain(finalists);
        for kernel in named {
            let Some((name, values)) = kernel.split_once(' ') else { continue };
            let known = after.families.iter().find(|family| family.name == name);
            let read = known.and_then(|family| family.read_configuration(values));
            if let Some(configuration) = read {
                *kernel = format!("{name} {configuration}");
            }
        }
    }
    record
}

/// The family that a kernel is of today, or was of.
fn family_of(case: &Case) -> &String {
    match &case.after {
        Ok((family, _)) => family,
        Err(_) => &case.before.0,
    }
}

fn in_words(verdict: &Verdict) -> (&'static str, String) {
    match verdict {
        Verdict::Equal => ("equal", String::new()),
        Verdict::Different(how) => {
            let [(before, spilt_before), (after, spilt_after)] = how.figures;
            let what = match (how.code, how.plan) {
                (true, false) => "code",
                (false, _) => "plan",
                (true, true) => "code and plan",
            };
            let detail = format!(
                "{what}; registers {before} -> {after}; spilt bytes {spilt_before} -> {spilt_after}"
            );
            ("different", detail)
        }
        Verdict::Inexpressible(why) => ("inexpressible", why.clone()),
        Verdict::Failed(why) => ("failed", why.lines().take(12).collect::<Vec<_>>().join(" / ")),
    }
}
