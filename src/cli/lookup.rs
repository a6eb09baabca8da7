//! `gemm-tune lookup`: which kernel to use for a shape, tuned or not.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::arguments::{CommonArguments, FamilyArguments, PatternArguments};
use super::console::Console;
use super::databases;
use super::failure::Failure;
use super::machine::{Wish, Workshop};
use super::output::finish;
use super::request;
use crate::database::{Database, Record};
use crate::lookup::{Lookup, Question};
use crate::model::{Device, Problem, Storage};
use crate::render;
use crate::report::answered;

/// Answers from the record of the shape, else from the winner of another shape on the same GPU, chosen
/// by a model of tiles, waves and alignment, else from another GPU of the same compute capability, else
/// with a family's default. The answer is legal for the shape, leading dimensions and alignment given.
#[derive(Debug, Args)]
pub(super) struct LookupArguments {
    /// Shape to find a kernel for, such as 4096x4096x1024
    #[arg(value_name = "SHAPE", required_unless_present = "shape", conflicts_with = "shape")]
    shape_word: Option<String>,
    /// The same as an option
    #[arg(long, value_name = "MxNxK")]
    shape: Option<String>,
    #[command(flatten)]
    pattern: PatternArguments,
    /// Elements between rows of A as stored [default: packed]
    #[arg(long, value_name = "N")]
    lda: Option<u64>,
    /// Elements between rows of B as stored [default: packed]
    #[arg(long, value_name = "N")]
    ldb: Option<u64>,
    /// Elements between rows of C [default: packed]
    #[arg(long, value_name = "N")]
    ldc: Option<u64>,
    /// Bytes that the addresses of A, B and C are multiples of
    #[arg(long, value_name = "BYTES", default_value_t = Storage::ALLOCATED)]
    align: u64,
    /// Most bytes of device memory for workspaces; 0 for a kernel that needs none [default: any]
    #[arg(long, value_name = "BYTES")]
    workspace: Option<u64>,
    /// Cache policy of the records to answer from: rotate or hot
    #[arg(long, default_value = "rotate")]
    cache_policy: String,
    /// Power state of the records to answer from: burst or sustained
    #[arg(long, default_value = "burst")]
    power: String,
    /// Database to answer from; may be repeated [default: all of results/]
    #[arg(long, value_name = "FILE")]
    db: Vec<PathBuf>,
    /// Answer from this database alone, with its very kernels, and refuse everything else
    #[arg(long, value_name = "FILE", conflicts_with = "db")]
    pin: Option<PathBuf>,
    /// GPU to answer for: auto, cuda:N or cpu [default: that of this machine, else the databases']
    #[arg(long)]
    device: Option<String>,
    /// GPU to answer for, by a name that the databases have; the GPU of this machine is not queried
    #[arg(long, value_name = "NAME", conflicts_with = "device")]
    device_name: Option<String>,
    #[command(flatten)]
    families: FamilyArguments,
    #[command(flatten)]
    common: CommonArguments,
}

impl LookupArguments {
    /// The shape, which clap requires in one of its two forms.
    fn shape(&self) -> &str {
        self.shape_word.as_deref().or(self.shape.as_deref()).unwrap_or_default()
    }
}

/// Answers, and gives the exit code.
pub(super) fn main(arguments: &LookupArguments) -> ExitCode {
    let console = Console::new(&arguments.common);
    finish(console, run(arguments, console).map(|document| (document, ExitCode::SUCCESS)))
}

fn run(arguments: &LookupArguments, console: Console) -> Result<Value, Failure> {
    let question = question(arguments)?;
    let regime = request::regime(&arguments.cache_policy, &arguments.power)?;
    let (families, templates) = request::families(&arguments.families)?;
    let files = match &arguments.pin {
        Some(file) => vec![file.clone()],
        None => databases::files(&arguments.db)?,
    };
    let databases = databases::load_near(&files, &question.problem, console)?;
    let records = || databases.iter().flat_map(Database::records);
    let device = device(arguments, &records().collect::<Vec<_>>(), console)?;
    let lookup = Lookup::new(records(), &families, &templates, &device, regime).with_predictor(
        databases::predictor(
            files.iter().map(PathBuf::as_path),
            &device,
            (&families, &templates),
            console,
        )?,
    );
    for unusable in lookup.unusable() {
        console.note(&format!("record {} is left out: {}", unusable.key, unusable.why));
    }
    let lookup = if arguments.pin.is_some() { lookup.pinned() } else { lookup };
    let answer = lookup.answer(&question).map_err(Failure::work)?;
    let Question { problem, storage, .. } = &question;
    let plan = render::launches(answer.family, answer.configuration, problem, storage, &device)
        .map_err(Failure::work)?;
    console.result(&answered::text(&question, &device, &answer, &plan, console.width()));
    Ok(answered::document(&question, &device, &answer, &plan))
}

fn question(arguments: &LookupArguments) -> Result<Question, Failure> {
    let pattern = arguments.pattern.pattern()?;
    let shape = arguments.shape().parse().map_err(Failure::usage)?;
    let problem = request::problem(Problem { shape, ..pattern })?;
    let packed = Storage::packed(&problem);
    let storage = Storage {
        lda: arguments.lda.unwrap_or(packed.lda),
        ldb: arguments.ldb.unwrap_or(packed.ldb),
        ldc: arguments.ldc.unwrap_or(packed.ldc),
        alignment: arguments.align,
    };
    storage.check(&problem).map_err(Failure::usage)?;
    let any = Question::new(problem, storage);
    Ok(arguments.workspace.map_or(any, |bytes| any.within(bytes)))
}

/// The device to answer for: the named one, else the one in this machine, else the only one with
/// records.
fn device(
    arguments: &LookupArguments,
    records: &[&Record],
    console: Console,
) -> Result<Device, Failure> {
    if arguments.device_name.is_none() {
        let word = arguments.device.as_deref().unwrap_or("auto");
        let ordinal = match word.parse()? {
            Wish::Cpu => return Ok(Device::cpu()),
            Wish::Auto | Wish::AllGpus => 0,
            Wish::Gpu(ordinal) => ordinal,
        };
        match Workshop::new(&arguments.common)?.worker(ordinal)? {
            Ok(worker) => return Ok(crate::worker::Executor::device(&worker).clone()),
            Err(error) if arguments.device.as_deref().is_some_and(|word| word != "auto") => {
                return Err(Failure::work(error));
            }
            Err(_) => {}
        }
    }
    let device = databases::device(records, arguments.device_name.as_deref())?;
    if arguments.device_name.is_none() {
        console.note(&format!(
            "no GPU found; answering for {}, the device of the records",
            device.name
        ));
    }
    Ok(device)
}
