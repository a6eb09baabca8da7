//! The run of a session: each lane takes problems from the scheduler, tunes them, records the winners and passes their
//! timings on.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::event::{SessionEvent, SessionStage, SessionStep, StepEvent};
use super::plan::{SessionDevice, SessionPlan};
use super::precompile::{Precompilation, Precompiler};
use super::result::{ProblemOutcome, ProblemResult, SessionError};
use super::scheduler::{Assignment, Scheduler, SchedulerLane};
use super::seats::{Seat, lanes, seats};
use super::transfer::TransferHub;
use crate::compile::{Compile, CompileThreads};
use crate::database::{Database, ResultOrigin, StoreOutcome, record_summary};
use crate::lookup::Lookup;
use crate::model::{Device, Problem};
use crate::render::Templates;
use crate::space::Family;
use crate::tune::{Hints, Kit, Machine, Summary, TuneError, TuneEvent, pilot, tune};

/// Tunes the problems of a plan, as many at a time as the machine has seats, and records the winners. Gives the
/// results in the order of the problems. When `stop` is set, running searches end and are decided with what they have;
/// problems that were not begun have no result.
///
/// # Errors
/// See [`SessionError`]; a problem that cannot be tuned is a result, and no error.
pub fn run(
    plan: &SessionPlan,
    device: SessionDevice,
    stop: &AtomicBool,
    on_event: &(dyn Fn(SessionEvent<'_>) + Sync),
) -> Result<Vec<ProblemResult>, SessionError> {
    let SessionDevice { machine, compiler, nvrtc, threads } = device;
    let device = machine.device();
    let lanes = if plan.settings.budget.is_some() { 1 } else { lanes(threads.count()) };
    let searches = lanes * machine.count().clamp(1, plan.problems.len().max(1));
    let seats = seats(machine, plan.problems.len(), lanes);
    on_event(SessionEvent::Started { device: &device, lanes: seats.len() });
    let scheduler = Scheduler::new(&plan.problems, seats.len(), searches);
    let transfer =
        TransferHub::new(device.clone(), plan.families.clone(), Arc::clone(&plan.predictor));
    let run = Run { plan, device, compiler, nvrtc, threads, scheduler, transfer, stop, on_event };
    run.all(seats)
}

/// Whether the device or the compiler is lost, for the other problems too.
fn ends_session(error: &TuneError) -> bool {
    matches!(error, TuneError::Device(_) | TuneError::Compiler(_) | TuneError::Panicked)
}

/// What the lanes share.
struct Run<'a> {
    plan: &'a SessionPlan,
    device: Device,
    compiler: Arc<dyn Compile>,
    nvrtc: String,
    threads: CompileThreads,
    scheduler: Scheduler<'a>,
    transfer: TransferHub,
    stop: &'a AtomicBool,
    on_event: &'a (dyn Fn(SessionEvent<'_>) + Sync),
}

impl Run<'_> {
    /// Runs a lane at each seat.
    fn all(&self, seats: Vec<Seat>) -> Result<Vec<ProblemResult>, SessionError> {
        let lanes: Vec<Result<Vec<ProblemResult>, SessionError>> = thread::scope(|scope| {
            let run_lane = move |(number, seat): (usize, Seat)| {
                let lane = self.scheduler.lane(number);
                let machine = self.plan.problems.first().and_then(|problem| seat.machine(problem));
                machine.map_or(Ok(Vec::new()), |machine| self.lane(self.kit(machine), &lane))
            };
            let seats = seats.into_iter().enumerate();
            let lanes: Vec<_> = seats.map(|seat| scope.spawn(move || run_lane(seat))).collect();
            let joined = lanes.into_iter().map(|lane| lane.join());
            joined.map(|lane| lane.unwrap_or(Err(TuneError::Panicked.into()))).collect()
        });
        let mut results = Vec::new();
        for lane in lanes {
            results.extend(lane?);
        }
        results.sort_by_key(|result| result.number);
        Ok(results)
    }

    fn kit(&self, machine: Machine) -> Kit {
        Kit {
            families: self.plan.families.clone(),
            templates: self.plan.templates.clone(),
            compiler: Arc::clone(&self.compiler),
            threads: self.threads.clone(),
            machine,
            predictor: Arc::clone(&self.plan.predictor),
        }
    }

    /// Tunes one problem after the other until none is left or the session is stopped. During a final, the compiler
    /// begins with the next problem.
    fn lane(
        &self,
        mut kit: Kit,
        lane: &SchedulerLane<'_, '_>,
    ) -> Result<Vec<ProblemResult>, SessionError> {
        let (precompiler, precompiled) = (Precompiler::of(&kit), Mutex::new(None));
        let has_related = |problem: &Problem| self.transfer.predictor().has_related(problem);
        if let Some((number, problem)) = lane.pilot() {
            let step = SessionStep { number, problem: *problem, stage: SessionStage::Pilot };
            self.pilot(step, &mut kit).inspect_err(|_| self.scheduler.give_up())?;
            self.scheduler.release();
        }
        let mut results = Vec::new();
        while let Some(Assignment { number, problem, slot }) = lane.take(&has_related) {
            if self.is_stopped() {
                break;
            }
            let mut slot = Some(slot);
            let precompile_next = || {
                let next = lane.next(&has_related);
                let next = next.and_then(|problem| self.precompile(problem, &precompiler));
                *precompiled.lock().unwrap_or_else(PoisonError::into_inner) = next;
            };
            let step = SessionStep { number, problem: *problem, stage: SessionStage::Tuning };
            let mut observer = self.transfer.observer(problem);
            let outcome = thread::scope(|scope| {
                self.tune(step, &mut kit, &mut |event| {
                    observer.observe(event);
                    // The compiler threads are idle from here on.
                    if matches!(event, TuneEvent::Searched) {
                        slot = None;
                        scope.spawn(precompile_next);
                    }
                })
            });
            let outcome = outcome.inspect_err(|_| self.scheduler.give_up())?;
            let result = ProblemResult { number, problem: *problem, outcome };
            (self.on_event)(SessionEvent::Finished(&result));
            results.push(result);
        }
        Ok(results)
    }

    /// Evaluates the first candidates of a problem and lets the other lanes begin as soon as their timings are known.
    fn pilot(&self, step: SessionStep, kit: &mut Kit) -> Result<(), SessionError> {
        let problem = &step.problem;
        let hints = self.hints(problem, &kit.families, &kit.templates)?;
        let mut observer = self.transfer.observer(problem);
        let piloted = self.step(step, |on_event| {
            let on_event = &mut |event: TuneEvent<'_>| {
                on_event(&event);
                if observer.observe(&event) {
                    self.scheduler.release();
                }
            };
            pilot(problem, &hints, kit, &self.plan.settings, self.stop, on_event)
        });
        match piloted {
            Err(error) if ends_session(&error) => Err(error.into()),
            // Other errors are reported when the problem itself is tuned.
            _ => Ok(()),
        }
    }

    /// Compiles the first candidates of a problem ahead. Errors are reported when the problem itself is tuned.
    fn precompile(&self, problem: &Problem, precompiler: &Precompiler) -> Option<Precompilation> {
        if self.is_stopped() {
            return None;
        }
        let hints = self.hints(problem, precompiler.families(), precompiler.templates()).ok()?;
        precompiler.start(problem, &hints, &self.plan.settings).ok()
    }

    /// Tunes one problem and records its winner. Events go to `on_event` too.
    fn tune(
        &self,
        step: SessionStep,
        kit: &mut Kit,
        on_event: &mut dyn FnMut(&TuneEvent<'_>),
    ) -> Result<ProblemOutcome, SessionError> {
        let problem = &step.problem;
        let hints = self.hints(problem, &kit.families, &kit.templates)?;
        let tuned = self.step(step, |report| {
            let on_event = &mut |event: TuneEvent<'_>| {
                report(&event);
                on_event(&event);
            };
            tune(problem, &hints, kit, &self.plan.settings, self.stop, on_event)
        });
        let summary = match tuned {
            Ok(summary) => Box::new(summary),
            Err(error) if ends_session(&error) => return Err(error.into()),
            Err(error) => return Ok(ProblemOutcome::Failed(error)),
        };
        if summary.winner().is_none() {
            return Ok(ProblemOutcome::NoWinner(summary));
        }
        let recorded = self.record(&summary, kit)?;
        Ok(ProblemOutcome::Won { summary, recorded })
    }

    /// Does the work of a step between its first and last event.
    fn step<R>(&self, step: SessionStep, work: impl FnOnce(&dyn Fn(&TuneEvent<'_>)) -> R) -> R {
        (self.on_event)(SessionEvent::Step(step, StepEvent::Begun));
        let result =
            work(&|event| (self.on_event)(SessionEvent::Step(step, StepEvent::Progress(event))));
        (self.on_event)(SessionEvent::Step(step, StepEvent::Ended));
        result
    }

    /// Warm starts for a problem, from the databases as they are now: they have the winners of this session too.
    fn hints(
        &self,
        problem: &Problem,
        families: &[Family],
        templates: &Templates,
    ) -> Result<Hints, SessionError> {
        let near = |path: &Path| Database::load_near_or_empty(path, problem);
        let own = self.plan.database.iter().map(|database| near(database.path()));
        let mut databases = own.collect::<Result<Vec<Database>, _>>()?;
        let others = self.plan.other_databases.iter();
        databases.extend(others.filter_map(|path| near(path).ok()));
        let records = databases.iter().flat_map(Database::records);
        let regime = self.plan.settings.regime;
        let lookup = Lookup::new(records, families, templates, &self.device, regime);
        let mut start = lookup.warm_start(problem);
        if start.record.is_none() {
            let answer = self.plan.answers.iter().find(|(own, _)| own == problem);
            start.record = answer.map(|(_, hint)| hint.clone());
        }
        Ok(Hints { start, predictor: self.transfer.predictor() })
    }

    fn record(&self, summary: &Summary, kit: &Kit) -> Result<Option<StoreOutcome>, SessionError> {
        let Some(database) = &self.plan.database else { return Ok(None) };
        let family = summary.winner().map(|winner| winner.family.as_str());
        let template = kit.families.iter().find(|known| Some(known.name.as_str()) == family);
        let origin = ResultOrigin {
            device: self.device.clone(),
            template_hash: template.map(|family| kit.templates.hash(family)).unwrap_or_default(),
            nvrtc: self.nvrtc.clone(),
            time: jiff::Timestamp::now(),
            seed: self.plan.settings.seed,
        };
        Ok(record_summary(summary, &origin, database.path(), self.plan.replace)?)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::compile::{CompileError, CompileRequest, Compiled};
    use crate::database::ReplacePolicy;
    use crate::model::Dtype;
    use crate::predict::Predictor;
    use crate::search::Search;
    use crate::space::Families;
    use crate::tune::Settings;

    /// Refuses every source, as a test without NVRTC has no kernel to execute.
    struct RefusingCompiler;

    impl Compile for RefusingCompiler {
        fn compile(&self, _: &CompileRequest) -> Result<Compiled, CompileError> {
            Err(CompileError::Source { log: "refused".to_owned() })
        }
    }

    fn plan(shapes: &[&str]) -> SessionPlan {
        let problem = |shape: &&str| Problem::new(shape.parse().unwrap(), Dtype::F32);
        let families = Families::built_in().unwrap();
        SessionPlan {
            problems: shapes.iter().map(problem).collect(),
            families: families.iter().take(1).cloned().collect(),
            templates: Templates::built_in().unwrap(),
            settings: Settings {
                max_configs: Some(3),
                search: Search::Random,
                ..Settings::default()
            },
            predictor: Arc::new(Predictor::default()),
            database: None,
            other_databases: Vec::new(),
            replace: ReplacePolicy::IfFaster,
            answers: Vec::new(),
        }
    }

    fn device() -> SessionDevice {
        SessionDevice {
            machine: Machine::Host,
            compiler: Arc::new(RefusingCompiler),
            nvrtc: "0.0".to_owned(),
            threads: CompileThreads::new(NonZeroUsize::MIN).unwrap(),
        }
    }

    #[test]
    fn a_session_tunes_each_problem_and_reports_it_without_printing() {
        let plan = plan(&["16x16x16", "33x17x9"]);
        let events = Mutex::new(Vec::new());
        let note = |word: String| events.lock().unwrap().push(word);
        let stop = AtomicBool::new(false);
        let results = run(&plan, device(), &stop, &|event| match event {
            SessionEvent::Started { device, lanes } => {
                assert!(device.is_cpu());
                note(format!("started with {lanes} lane"));
            }
            SessionEvent::Step(SessionStep { number, problem, stage }, event) => {
                assert_eq!(problem, plan.problems[number]);
                match event {
                    StepEvent::Begun => note(format!("{number} {stage:?} begun")),
                    StepEvent::Progress(TuneEvent::Evaluated { .. }) => {
                        note(format!("{number} evaluated"));
                    }
                    StepEvent::Progress(TuneEvent::Searched) => note(format!("{number} searched")),
                    StepEvent::Progress(_) => {}
                    StepEvent::Ended => note(format!("{number} {stage:?} ended")),
                }
            }
            SessionEvent::Finished(result) => note(format!("{} finished", result.number)),
        });
        let results = results.unwrap();
        let mut expected = vec!["started with 1 lane".to_owned()];
        for number in 0..2 {
            expected.push(format!("{number} Tuning begun"));
            expected.extend(vec![format!("{number} evaluated"); 3]);
            expected.extend(
                ["searched", "Tuning ended", "finished"].map(|word| format!("{number} {word}")),
            );
        }
        assert_eq!(*events.lock().unwrap(), expected);
        for (number, result) in results.iter().enumerate() {
            assert_eq!((result.number, result.problem), (number, plan.problems[number]));
            let ProblemOutcome::NoWinner(summary) = &result.outcome else { panic!("{result:?}") };
            assert_eq!(summary.evaluated(), 3);
        }
        assert_eq!(results.len(), 2);
    }

    #[test]
    fn a_stopped_session_begins_no_problem() {
        let stop = AtomicBool::new(true);
        let results = run(&plan(&["16x16x16"]), device(), &stop, &|_| {}).unwrap();
        assert!(results.is_empty());
    }
}
