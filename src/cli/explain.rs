//! `gemm-tune explain`: why a winner wins, from the journal of its search and an execution on the host.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::arguments::{KernelArguments, heading};
use super::console::Console;
use super::environment::cache_folder;
use super::failure::Failure;
use super::inspect_context::{InspectContext, LookedUp};
use super::journals;
use super::output::finish;
use crate::inspect::explanation::{close_candidates, effects, limits, neighbours, own_time};
use crate::inspect::{InspectedKernel, landscape, traffic};
use crate::model::{Micros, Regime};
use crate::report::explained::{self, Explained, Fastest};
use crate::tune::{Entry, Recorded};

/// Explains the kernel that `lookup` answers with for a shape: the winner of a shape that was tuned, else a predicted one.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gemm-tune explain 4096x4096x1024 --device-name h200

Limits are computed from what the kernel executes, here, on the host. The \
    effects of parameters and the closest competitors come from the journal of the search, which \
    tuning keeps below the cache folder.")]
pub(super) struct ExplainArguments {
    /// Shape of the kernel, such as 4096x4096x1024, or 512 for a cube
    #[arg(value_name = "SHAPE", required_unless_present = "shape", conflicts_with = "shape")]
    shape_word: Option<String>,
    /// The same as an option
    #[arg(long, value_name = "MxNxK", help_heading = heading::PROBLEM)]
    shape: Option<String>,
    /// Journal of the search [default: that of the shape, device and layout]
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    #[command(flatten)]
    of: KernelArguments,
}

impl ExplainArguments {
    /// The shape, which clap requires in one of its two forms.
    fn shape(&self) -> &str {
        self.shape_word.as_deref().or(self.shape.as_deref()).unwrap_or_default()
    }
}

/// Explains, and gives the exit code.
pub(super) fn main(arguments: &ExplainArguments) -> ExitCode {
    let console = Console::new(&arguments.of.common);
    finish(console, run(arguments, console).map(|document| (document, ExitCode::SUCCESS)))
}

fn run(arguments: &ExplainArguments, console: Console) -> Result<Value, Failure> {
    let context = InspectContext::new(arguments.shape(), &arguments.of, console)?;
    let journal = journal(arguments, &context)?;
    let entries: &[Entry] = journal.as_ref().map_or(&[], |journal| &journal.entries);
    let LookedUp { kernel, time, record } = context.looked_up()?;
    let searched = if record.is_none() { best(entries, &context)? } else { None };
    let is_predicted = record.is_none() && searched.is_none();
    let (subject, time) = match (searched, &record) {
        (Some(best), _) => best,
        (None, Some(record)) => (kernel, record.median()),
        (None, None) => (kernel, time.ok_or_else(|| untimed(&context))?),
    };
    if journal.is_none() {
        console.note(
            "no journal of the search found: the effects of parameters and the closest competitors come \
             from it (`--journal FILE`)",
        );
    }
    let (compiled, figures) = context.figures(&subject)?;
    let launches = traffic(&subject, &compiled.image).map_err(Failure::work)?;
    // Times of one search are comparable, and so are times of one final.
    let (family, configuration) = (subject.family.as_str(), &subject.configuration);
    let own = own_time(entries, family, configuration).unwrap_or(time);
    let effects = effects(entries, family, configuration, own);
    let declared = context.family(family).map_err(Failure::work)?;
    let place = (&context.problem, &context.device);
    let explained = Explained {
        time,
        is_predicted,
        limits: limits(&figures, &launches, &context.problem, &context.device),
        losers: close_candidates(entries, family, configuration, own),
        neighbours: neighbours(entries, declared, configuration, &effects, place),
        fastest: Fastest::of(record.as_ref()),
        tried: entries.len(),
        effects,
        figures,
        subject,
    };
    console.result(&explained::text(&explained, console.view()));
    Ok(explained::document(&explained))
}

/// The journal of the search for the problem, if there is one.
fn journal(
    arguments: &ExplainArguments,
    context: &InspectContext,
) -> Result<Option<Recorded>, Failure> {
    let is_of = |journal: &Recorded| {
        journal.problem == context.problem
            && journal.device == context.device.name
            && journal.regime == Regime::default()
    };
    if let Some(path) = &arguments.journal {
        let journal = journals::read(path, context.console)?;
        if !is_of(&journal) {
            return Err(Failure::Usage(format!(
                "`{}` is of {} on {}, not of {} on {}",
                path.display(),
                journal.problem,
                journal.device,
                context.problem,
                context.device.name
            )));
        }
        return Ok(Some(journal));
    }
    let folder = cache_folder(&arguments.of.common)?.join("journal");
    let found = journals::below(&folder)?.into_iter().find(|(_, heading)| is_of(heading));
    found.map(|(path, _)| journals::read(&path, context.console)).transpose()
}

/// The fastest kernel of a search whose winner is not recorded.
fn best(
    entries: &[Entry],
    context: &InspectContext,
) -> Result<Option<(InspectedKernel, Micros)>, Failure> {
    let timed = entries.iter().filter_map(|entry| Some((entry, landscape::time(entry)?)));
    let best = timed.min_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let Some((entry, time)) = best else { return Ok(None) };
    let family = context.family(&entry.family).map_err(Failure::work)?;
    Ok(Some((context.subject(family, entry.parameters.clone())?, time)))
}

/// The failure for a problem whose kernel has no time.
fn untimed(context: &InspectContext) -> Failure {
    let InspectContext { problem, device, .. } = context;
    Failure::Work(format!(
        "nothing is known of the times of kernels for {problem} on {}: tune it with `gemm-tune {}` and \
         the same options",
        device.name, problem.shape
    ))
}
