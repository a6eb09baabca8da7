//! What a map is made with: tunes rounds of problems by sessions, asks lookup for the answers before, and trains the model
//! on the journals.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::cli::console::Console;
use crate::cli::failure::Failure;
use crate::cli::machine::{Wish, Workshop};
use crate::cli::output::write;
use crate::cli::progress_bar::CountProgress;
use crate::cli::{databases, journals};
use crate::compile::{Compile, CompileThreads};
use crate::database::{ReplacePolicy, WritableDatabase};
use crate::lookup::{Lookup, Question};
use crate::model::{Device, Hint, Problem, Regime};
use crate::predict::{LearnedModel, Predictor};
use crate::render::Templates;
use crate::report::mapped;
use crate::session::cover::{CoverLog, CoverState, CoverStep, Mapper};
use crate::session::{self, ProblemOutcome, SessionDevice, SessionEvent, SessionPlan};
use crate::space::Family;
use crate::tune::{MeasuredTimes, Settings, Summary, read_measured_times};

/// Chance of a kernel that is more than 1 % better at which a search ends: after 20 outcomes without a gain with a learned
/// model and 62 without. Searches end earlier than those of `tune`, so that more problems are tuned in the same time.
const STOP_CHANCE: f64 = 0.2;

/// What a map is made with.
pub(super) struct MapRun<'a> {
    pub(super) workshop: &'a Workshop,
    pub(super) wish: Wish,
    pub(super) console: Console,
    pub(super) families: Vec<Family>,
    pub(super) templates: Templates,
    pub(super) device: Device,
    pub(super) database: PathBuf,
    pub(super) times: &'a [PathBuf],
    pub(super) journals: PathBuf,
    pub(super) predictor: Arc<Predictor>,
    /// What is known at the start, and every training begins with.
    pub(super) base: LearnedModel,
    pub(super) compiler: Arc<dyn Compile>,
    pub(super) nvrtc: String,
    pub(super) threads: CompileThreads,
    pub(super) seed: u64,
    pub(super) log: CoverLog,
    pub(super) begun: Instant,
    pub(super) over: Arc<AtomicBool>,
}

impl Mapper for MapRun<'_> {
    type Error = Failure;

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn tune(&mut self, problems: &[Problem]) -> Result<Vec<(Problem, Option<f64>)>, Failure> {
        let answers = self.answers(problems)?;
        let plan = SessionPlan {
            problems: problems.to_vec(),
            families: self.families.clone(),
            templates: self.templates.clone(),
            settings: Settings {
                journals: Some(self.journals.clone()),
                seed: self.seed,
                stop_chance: Some(STOP_CHANCE),
                ..Settings::default()
            },
            predictor: Arc::clone(&self.predictor),
            database: Some(
                WritableDatabase::check(&self.database, &self.device).map_err(Failure::work)?,
            ),
            other_databases: Vec::new(),
            replace: ReplacePolicy::IfFaster,
            answers: answers.clone(),
        };
        let device = SessionDevice {
            machine: self.workshop.machine(self.wish.clone(), self.console)?,
            compiler: Arc::clone(&self.compiler),
            nvrtc: self.nvrtc.clone(),
            threads: self.threads.clone(),
        };
        let progress = Mutex::new((0, CountProgress::new(self.console, "problems tuned")));
        progress.lock().1.expect(problems.len());
        let on_event = |event: SessionEvent<'_>| {
            if let SessionEvent::Finished(result) = event {
                let (count, progress) = &mut *progress.lock();
                *count += 1;
                progress.reach(*count, &format!(", last {}", result.problem));
            }
        };
        let results = session::run(&plan, device, &self.over, &on_event).map_err(Failure::work)?;
        let tuned = results.into_iter().filter_map(|result| {
            let answer = answers.iter().find(|(problem, _)| *problem == result.problem);
            match result.outcome {
                // What was interrupted is tuned again.
                ProblemOutcome::Won { summary, .. } if summary.is_interim() => None,
                ProblemOutcome::Won { summary, .. } => {
                    Some((result.problem, answer.and_then(|(_, hint)| log_regret(&summary, hint))))
                }
                ProblemOutcome::NoWinner(_) | ProblemOutcome::Failed(_) => {
                    Some((result.problem, None))
                }
            }
        });
        Ok(tuned.collect())
    }

    fn train(&mut self) -> Result<(), Failure> {
        let measured = self.measured()?;
        let known = (self.families.as_slice(), &self.templates);
        let learned =
            self.base.refined(&self.device, known.0, known.1, measured.problems.as_slice().into());
        self.write_model(&learned)?;
        self.predictor = Arc::new(databases::noted(learned, known, self.console));
        Ok(())
    }

    fn note(&mut self, steps: &[CoverStep], state: &CoverState) -> Result<(), Failure> {
        self.log.add(steps).map_err(Failure::work)?;
        self.console.note(&mapped::progress(state, self.begun.elapsed()));
        Ok(())
    }
}

impl MapRun<'_> {
    /// What lookup answers for problems, from what is known now.
    fn answers(&self, problems: &[Problem]) -> Result<Vec<(Problem, Hint)>, Failure> {
        let path = self.database.as_path();
        let records = if path.exists() {
            databases::load_file(path, self.console)?.records().to_vec()
        } else {
            Vec::new()
        };
        let known = (self.families.as_slice(), &self.templates);
        let lookup = Lookup::new(&records, known.0, known.1, &self.device, Regime::default())
            .with_predictor((*self.predictor).clone());
        let answer = |problem: &Problem| {
            let answer = lookup.answer(&Question::packed(*problem)).ok()?;
            let (family, configuration) =
                (answer.family.name.clone(), answer.configuration.clone());
            Some((*problem, Hint { family, configuration }))
        };
        Ok(problems.iter().filter_map(answer).collect())
    }

    /// All timings: those of the journals, and of files that the user gave.
    fn measured(&self) -> Result<MeasuredTimes, Failure> {
        let mut files = journals::entries(&self.journals.join(self.device.slug()))?;
        files.sort();
        let mut measured = MeasuredTimes {
            device: self.device.name.clone(),
            regime: Regime::default(),
            problems: Vec::new(),
        };
        for path in self.times {
            let own = read_measured_times(path).map_err(Failure::work)?;
            if own.device != measured.device || own.regime != measured.regime {
                return Err(other_times(path, &own));
            }
            measured.extend(own.problems);
        }
        for path in files {
            // Journals of other programs and regimes are left alone.
            let Ok(own) = read_measured_times(&path) else { continue };
            if own.device == measured.device && own.regime == measured.regime {
                measured.extend(own.problems);
            }
        }
        Ok(measured)
    }

    fn write_model(&self, learned: &LearnedModel) -> Result<(), Failure> {
        if learned.families.is_empty() {
            return Ok(());
        }
        let text = learned.text().map_err(Failure::work)?;
        write(&self.database.with_extension("model.json"), text.as_bytes())
    }
}

/// The failure for times that say nothing of the device.
fn other_times(path: &Path, times: &MeasuredTimes) -> Failure {
    Failure::Work(format!(
        "`{}` has times of {}, or of another `--cache-policy` or `--power` than the default",
        path.display(),
        times.device
    ))
}

/// Logarithm of the time of an answer over the winner's; `None` where it was not measured in the final.
fn log_regret(summary: &Summary, answer: &Hint) -> Option<f64> {
    let winner = summary.winner()?;
    let own = summary
        .ranking
        .iter()
        .find(|one| one.family == answer.family && one.configuration == answer.configuration)?;
    Some((own.measurement.median().0 / winner.measurement.median().0).ln().max(0.0))
}
