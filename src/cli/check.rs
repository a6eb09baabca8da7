//! `gemm-tune check`: executes configurations of families on the host with every check on.

use std::num::{NonZeroU32, NonZeroUsize};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::Args;
use serde_json::Value;

use super::arguments::{CommonArguments, FamilyArguments, TypeArguments, heading};
use super::console::{Console, Volume};
use super::failure::Failure;
use super::machine::Workshop;
use super::output::finish;
use super::progress_bar::CountProgress;
use super::{interrupt, request};
use crate::model::{Device, Epilogue, EpilogueOp, GemmType, Layout, Problem, Shape};
use crate::report::checked;
use crate::space::Family;
use crate::tune::{CheckEvent, CheckPlan, Sample, TuneError, check};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gemm-tune check --family NAME --sample all
  gemm-tune check 33x65x129 --layout nt --dtype bf16 --epilogue bias,gelu
  gemm-tune check --spaces spaces --templates templates --all-types")]
pub(super) struct CheckArguments {
    /// Shape to check on, such as 33x65x129; may be repeated [default: shapes with every kind of edge, and a batch]
    #[arg(value_name = "SHAPE")]
    shape_words: Vec<String>,
    /// The same as an option
    #[arg(long, value_name = "MxNxK", help_heading = heading::PROBLEM)]
    shape: Vec<String>,
    #[command(flatten)]
    types: TypeArguments,
    /// Check every GEMM type that the families serve, with each operation of epilogues that it takes and all of them
    #[arg(long, conflicts_with_all = ["dtype", "out_dtype", "compute", "epilogue"], help_heading = heading::PROBLEM)]
    all_types: bool,
    /// Whether A and B are used as stored (n) or transposed (t); may be repeated [default: all four]
    #[arg(long, help_heading = heading::PROBLEM)]
    layout: Vec<String>,
    /// Number of independent products
    #[arg(long, default_value_t = 1, value_name = "COUNT", help_heading = heading::PROBLEM)]
    batch: u64,
    /// Configurations of each family to check for a shape and layout; `all` takes every legal one
    #[arg(long, default_value = "20", value_name = "N", help_heading = heading::SEARCH)]
    sample: String,
    /// Streaming multiprocessors that kernels are for: with few, what serves products large for a GPU
    /// is executed on small ones [default: an H200's 132]
    #[arg(long, value_name = "COUNT", help_heading = heading::DEVICE)]
    sms: Option<NonZeroU32>,
    /// Seed of the sample and of the operands
    #[arg(long, default_value_t = 0, help_heading = heading::SEARCH)]
    seed: u64,
    /// Compiler threads [default: one for each core]
    #[arg(long, value_name = "N", help_heading = heading::COMPILER)]
    jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    families: FamilyArguments,
    #[command(flatten)]
    common: CommonArguments,
}

/// Shapes with every kind of edge: a single element; less than any tile, and K less than any step
/// along it; no multiple of anything; multiples of the usual tiles; one more and one less.
const SHAPES: [&str; 6] = ["1x1x1", "7x5x3", "33x65x129", "128x96x64", "129x127x65", "127x129x63"];

/// The shape that is checked as a batch too, and its number of products.
const BATCHED: Shape = Shape { m: 7, n: 5, k: 3 };
const BATCH: u64 = 3;

const LAYOUTS: [Layout; 4] = [Layout::Nn, Layout::Nt, Layout::Tn, Layout::Tt];

/// Checks, prints, and gives 0 where all executed kernels are correct.
pub(super) fn main(arguments: &CheckArguments) -> ExitCode {
    let console = Console::new(&arguments.common);
    finish(console, run(arguments, console))
}

fn run(arguments: &CheckArguments, console: Console) -> Result<(Value, ExitCode), Failure> {
    let (families, templates) = request::families(&arguments.families)?;
    // Non-deterministic kernels are checked too.
    let families: Vec<Family> =
        families.into_iter().map(Family::allowing_nondeterministic).collect();
    let sample = sample(&arguments.sample)?;
    let cpu = Device::cpu();
    let device = Device { sms: arguments.sms.map_or(cpu.sms, NonZeroU32::get), ..cpu };
    let mut problems = problems(arguments)?;
    if arguments.all_types {
        problems.retain(|problem| {
            families.iter().any(|family| family.refusal(problem, &device).is_none())
        });
    }
    let checks = CheckPlan {
        families: &families,
        templates: &templates,
        problems: &problems,
        device: &device,
        sample,
        seed: arguments.seed,
        jobs: request::jobs(arguments.jobs)?,
    };
    is_served(&checks)?;
    let compiler = Workshop::new(&arguments.common)?.compiler_to_ptx(console)?;
    let stop = interrupt::listen()?;
    let mut progress = CheckProgress::new(console);
    let on_event = &mut |event: CheckEvent<'_>| progress.event(&event);
    let results = check(&checks, &compiler, &stop, on_event);
    drop(progress);
    let results = results.map_err(Failure::work)?;
    if stop.load(Ordering::Relaxed) {
        console.note("interrupted: a part of the sample was not executed");
    }
    console.result(&checked::table(&results, console.table_style()));
    let good = results.iter().all(|result| result.failures.is_empty())
        && results.iter().any(|result| result.passed > 0);
    let code = if good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok((checked::document(&results), code))
}

/// Checks that some family serves some problem.
fn is_served(checks: &CheckPlan<'_>) -> Result<(), Failure> {
    let Some(first) = checks.problems.first() else { return Ok(()) };
    let refusal = |family: &Family, problem| family.refusal(problem, checks.device);
    let mut pairs = checks
        .problems
        .iter()
        .flat_map(|problem| checks.families.iter().map(move |family| (family, problem)));
    if pairs.any(|(family, problem)| refusal(family, problem).is_none()) {
        return Ok(());
    }
    let reason = |family: &Family| Some(format!("{}: {}", family.name, refusal(family, first)?));
    let reasons: Vec<String> = checks.families.iter().filter_map(reason).collect();
    Err(Failure::Usage(TuneError::NoFamily { problem: first.to_string(), reasons }.to_string()))
}

/// The GEMM types and epilogues to check, as problems of any shape.
fn patterns(arguments: &CheckArguments) -> Result<Vec<Problem>, Failure> {
    let given = request::pattern(&arguments.types, arguments.batch)?;
    if !arguments.all_types {
        return Ok(vec![given]);
    }
    let all = |types: GemmType| {
        let is_taken = |operation: &&EpilogueOp| Epilogue::from(**operation).check(types).is_ok();
        // Sums of integers become other numbers by a scale only.
        let scale = Epilogue::NONE.check(types).err().map(|_| EpilogueOp::RowScale);
        let whole: Vec<EpilogueOp> = EpilogueOp::ALL
            .iter()
            .copied()
            .filter(|operation| !types.d.is_integer() || is_taken(&operation))
            .collect();
        let single = whole.iter().filter(|one| Some(**one) != scale);
        let mut lists: Vec<Vec<EpilogueOp>> =
            single.map(|one| scale.into_iter().chain([*one]).collect()).collect();
        lists.extend([scale.into_iter().collect(), whole.clone()]);
        lists.into_iter().filter_map(move |list| Epilogue::new(&list).ok())
    };
    let each = GemmType::all().flat_map(|types| all(types).map(move |epilogue| (types, epilogue)));
    Ok(each.map(|(types, epilogue)| Problem { types, epilogue, ..given }).collect())
}

fn problems(arguments: &CheckArguments) -> Result<Vec<Problem>, Failure> {
    let patterns = patterns(arguments)?;
    let mut shapes =
        request::shapes(&request::shape_words(&arguments.shape_words, &arguments.shape)?)?;
    let words = arguments.layout.iter().map(|word| word.parse().map_err(Failure::usage));
    let mut layouts: Vec<Layout> = words.collect::<Result<_, _>>()?;
    if layouts.is_empty() {
        layouts = LAYOUTS.to_vec();
    }
    let batched = shapes.is_empty() && arguments.batch == 1;
    if shapes.is_empty() {
        shapes = request::shapes(&SHAPES.map(str::to_owned))?;
    }
    let pairs = layouts.iter().flat_map(|layout| shapes.iter().map(move |shape| (layout, shape)));
    let all = patterns
        .iter()
        .flat_map(|pattern| pairs.clone().map(move |(layout, shape)| (pattern, *layout, *shape)));
    let all = all.map(|(pattern, layout, shape)| Problem { shape, layout, ..*pattern });
    // Nor is a batch left out, where the user names no problems.
    let of_a_batch = all.clone().filter(|problem| batched && problem.shape == BATCHED);
    let of_a_batch = of_a_batch.map(|problem| Problem { batch: BATCH, ..problem });
    all.clone().chain(of_a_batch).map(request::problem).collect()
}

fn sample(word: &str) -> Result<Sample, Failure> {
    match (word, word.parse()) {
        ("all", _) => Ok(Sample::All),
        (_, Ok(count @ 1..)) => Ok(Sample::Of(count)),
        _ => Err(Failure::Usage(format!(
            "`{word}` is no sample: write a number from 1 on, or `all`"
        ))),
    }
}

/// Progress of the executions.
struct CheckProgress {
    bar: CountProgress,
    is_verbose: bool,
    failed: usize,
}

impl CheckProgress {
    fn new(console: Console) -> Self {
        let is_verbose = console.volume == Volume::Verbose;
        Self { bar: CountProgress::new(console, "executed"), is_verbose, failed: 0 }
    }

    fn event(&mut self, event: &CheckEvent<'_>) {
        match event {
            CheckEvent::Started { executions } => self.bar.expect(*executions),
            CheckEvent::Executed { count, family, problem, configuration, failure } => {
                self.failed += usize::from(failure.is_some());
                if self.is_verbose {
                    let word = failure.map_or("passed", |failed| &failed.failure.message);
                    let line = format!("{count:>5} {word}  {problem}: {family} {configuration}");
                    self.bar.say(&line);
                }
                self.bar.reach(*count, &format!(", {} failed", self.failed));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_numbers_or_all() {
        assert_eq!(sample("all").ok(), Some(Sample::All));
        assert_eq!(sample("7").ok(), Some(Sample::Of(7)));
        for word in ["0", "-1", "some", ""] {
            assert!(matches!(sample(word), Err(Failure::Usage(_))), "{word}");
        }
    }
}
