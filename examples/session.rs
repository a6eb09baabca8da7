//! Tunes several problems in one session and prints what happens, without the command line:
//!
//! `cargo run --release --example session -- DATABASE MxNxK...`
//!
//! It runs on the cpu device, so that it needs NVRTC and no GPU. For a GPU, give `Machine::gpus` a worker for each one.

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::error::Error;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gemm_tune::compile::{
    Architecture, CompileTarget, CompileThreads, Compiler, Network, NvrtcRequirements, SearchPaths,
    acquire,
};
use gemm_tune::database::{ReplacePolicy, WritableDatabase};
use gemm_tune::model::{Device, Dtype, Problem};
use gemm_tune::predict::{LearnedModel, Predictor};
use gemm_tune::render::Templates;
use gemm_tune::session::{self, ProblemOutcome, SessionDevice, SessionEvent, SessionPlan};
use gemm_tune::space::{Families, Family};
use gemm_tune::tune::{Effort, Machine, Settings};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [database, shapes @ ..] = &arguments[..] else {
        return Err("usage: session DATABASE MxNxK...".into());
    };
    let device = Device::cpu();
    let mut problems = Vec::new();
    for shape in shapes {
        problems.push(Problem::new(shape.parse()?, Dtype::F32));
    }
    let families: Vec<Family> = Families::built_in()?.iter().cloned().collect();
    let templates = Templates::built_in()?;
    let (predictor, _) = Predictor::new(LearnedModel::built_in(&device)?, &families, &templates);
    let plan = SessionPlan {
        problems,
        families,
        templates,
        settings: Settings { effort: Effort::Quick, max_configs: Some(12), ..Settings::default() },
        predictor: Arc::new(predictor),
        database: Some(WritableDatabase::check(Path::new(database), &device)?),
        other_databases: Vec::new(),
        replace: ReplacePolicy::IfFaster,
        answers: Vec::new(),
    };
    let on_event = |event: SessionEvent<'_>| match event {
        SessionEvent::Started { device, lanes } => println!("{} with {lanes} lanes", device.name),
        SessionEvent::Step(step, event) => println!("{}: {:?} {event:?}", step.problem, step.stage),
        SessionEvent::Finished(_) => {}
    };
    for result in session::run(&plan, on_cpu()?, &AtomicBool::new(false), &on_event)? {
        match result.outcome {
            ProblemOutcome::Won { summary, recorded } => {
                let winner = summary.winner().ok_or("a problem is won by a winner")?;
                let time = winner.measurement.median();
                println!("{}: {time} by {}, {recorded:?}", result.problem, winner.family);
            }
            ProblemOutcome::NoWinner(_) => println!("{}: no correct kernel", result.problem),
            ProblemOutcome::Failed(error) => println!("{}: {error}", result.problem),
        }
    }
    Ok(())
}

/// This host with a compiler to PTX.
fn on_cpu() -> Result<SessionDevice, Box<dyn Error>> {
    let architecture = Architecture::from(Device::cpu().compute_capability);
    let paths = SearchPaths { python: Some("python3".into()), ..SearchPaths::default() };
    let wanted = NvrtcRequirements { architecture, driver_major: None };
    let nvrtc = acquire(&paths, &wanted, Network::Forbidden, &mut |_| {})?;
    let (major, minor) = nvrtc.version();
    let compiler = Compiler::new(nvrtc, None, CompileTarget::AssembledPtx(architecture))?;
    Ok(SessionDevice {
        machine: Machine::Host,
        compiler: Arc::new(compiler),
        nvrtc: format!("{major}.{minor}"),
        threads: CompileThreads::new(
            std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        )?,
    })
}
