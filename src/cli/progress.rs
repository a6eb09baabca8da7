//! Progress of searches: a bar on a terminal, a line now and then elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::console::{Console, Volume};
use super::eta::SearchEta;
use super::interrupt;
use crate::model::{Device, LocatedFailure, Micros, Outcome, Problem, Tflops};
use crate::report::mapped::counted;
use crate::session::SessionStage;
use crate::tune::TuneEvent;

/// How often a plain line is written.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Draws the progress of problems that are tuned at the same time, and prints results between the bars.
#[derive(Clone)]
pub(super) struct ProgressBoard {
    console: Console,
    bars: MultiProgress,
    /// Whether lines begin with their problem.
    names_problems: Arc<AtomicBool>,
}

impl ProgressBoard {
    pub(super) fn new(console: Console) -> Self {
        Self { console, bars: MultiProgress::new(), names_problems: Arc::default() }
    }

    /// Sets whether lines begin with their problem.
    pub(super) fn name_problems(&self, names: bool) {
        self.names_problems.store(names, Ordering::Relaxed);
    }

    /// A result, whole and between the bars.
    pub(super) fn result(&self, text: &str) {
        self.between_bars(|| self.console.result(text));
    }

    /// What went wrong.
    pub(super) fn error(&self, text: &str) {
        self.between_bars(|| self.console.error(text));
    }

    /// A note.
    pub(super) fn note(&self, text: &str) {
        self.between_bars(|| self.console.note(text));
    }

    /// Prints while no bar is drawn. After a signal there are no bars: the terminal may be gone, and
    /// drawing on it would panic.
    fn between_bars(&self, print: impl FnOnce()) {
        if interrupt::flag().load(Ordering::Relaxed) {
            self.bars.set_draw_target(ProgressDrawTarget::hidden());
            print();
        } else if self.console.interactive() {
            self.bars.suspend(print);
        } else {
            print();
        }
    }
}

/// Draws the events of one problem's tuning.
pub(super) struct TuneProgress {
    board: ProgressBoard,
    problem: Problem,
    stage: SessionStage,
    /// Whether times are modelled rather than measured.
    modelled: bool,
    bar: ProgressBar,
    compiled: usize,
    eta: SearchEta,
    last_line: Instant,
}

impl TuneProgress {
    pub(super) fn new(
        board: &ProgressBoard,
        problem: Problem,
        device: &Device,
        stage: SessionStage,
    ) -> Self {
        let bar = if board.console.interactive() {
            board.bars.add(ProgressBar::no_length())
        } else {
            ProgressBar::hidden()
        };
        let now = Instant::now();
        let modelled = device.is_cpu();
        let board = board.clone();
        let eta = SearchEta::new(now, None);
        Self { board, problem, stage, modelled, bar, compiled: 0, eta, last_line: now }
    }

    pub(super) fn event(&mut self, event: &TuneEvent<'_>) {
        match event {
            TuneEvent::Started { problem, spaces, candidates, patience, journal, known, hints } => {
                let families: Vec<&str> =
                    spaces.families.iter().map(|family| family.name.as_str()).collect();
                let doing = match self.stage {
                    SessionStage::Tuning => format!("tuning {problem}"),
                    SessionStage::Pilot => format!("pilot on {problem}, for the other problems"),
                };
                self.say(&format!(
                    "{doing}: at most {candidates} of {} candidates of {}",
                    spaces.legal(),
                    families.join(", ")
                ));
                if let (Some(journal), 1..) = (journal, known) {
                    self.say(&format!(
                        "{known} kernels are known already and not {} again (`--fresh` measures them again): {}",
                        self.done(),
                        journal.display()
                    ));
                }
                if *hints > 0 {
                    self.say(&format!(
                        "begins with the defaults and {} (`--fresh` begins without)",
                        counted(*hints, "earlier winner")
                    ));
                }
                self.eta = SearchEta::new(Instant::now(), *patience);
                self.bar.set_length(*candidates as u64);
                // The message is cut at the end of the line.
                let template = format!(
                    "{}{{bar:12}} {{pos}}/{{len}} {}, {{elapsed}}{{wide_msg}}",
                    self.prefix(),
                    self.done()
                );
                if let Ok(style) = ProgressStyle::with_template(&template) {
                    self.bar.set_style(style);
                }
                self.bar.enable_steady_tick(Duration::from_millis(200));
            }
            TuneEvent::Compiled { count } => self.compiled = *count,
            TuneEvent::Evaluated {
                count,
                family,
                configuration,
                outcome,
                failure,
                recalled,
                best,
                left,
            } => {
                if self.board.console.volume == Volume::Verbose {
                    let result = self.describe(outcome, *failure);
                    let mark = if *recalled { "=" } else { " " };
                    self.say(&format!("{count:>5}{mark}{result}  {family} {configuration}"));
                }
                self.eta.tick(Instant::now());
                self.bar.set_position(*count as u64);
                self.bar.set_length((count + left) as u64);
                let (best, ends) = (self.best(*best), self.ends(*left));
                self.bar.set_message(format!(", {best}, {ends}"));
                self.line(*count, *left, &best);
            }
            TuneEvent::Restarted { reason } => self.say(&format!("GPU worker restarted: {reason}")),
            TuneEvent::GivenUp { coverage } => self.say(&format!(
                "{} is given up: {} of its {} candidates so far ended the GPU worker; \
                 `--verbose` lists them, and `gemm-tune check --family {}` looks for the cause",
                coverage.family,
                coverage.restarts,
                coverage.evaluated(),
                coverage.family
            )),
            TuneEvent::FinalRound { entrants } => {
                let text = format!("final round of {entrants}");
                if self.board.console.volume == Volume::Verbose {
                    self.say(&text);
                }
                self.bar.set_message(format!(", {text}"));
            }
            TuneEvent::Searched => {}
            TuneEvent::Note(note) => self.say(note),
        }
    }

    pub(super) fn finish(self) {
        self.bar.finish_and_clear();
        self.board.bars.remove(&self.bar);
    }

    /// A line that survives the bar.
    fn say(&self, text: &str) {
        self.board.note(&format!("{}{text}", self.prefix()));
    }

    /// A plain line where there is no bar, at most every few seconds.
    fn line(&mut self, count: usize, left: usize, best: &str) {
        let due = self.last_line.elapsed() >= LINE_EVERY;
        if self.board.console.interactive() || self.board.console.volume != Volume::Normal || !due {
            return;
        }
        self.last_line = Instant::now();
        self.say(&format!(
            "{count} {}, {} compiled, {best}, {}",
            self.done(),
            self.compiled,
            self.ends(left)
        ));
    }

    /// How many candidates follow, and for how long, if nothing better is found.
    fn ends(&self, left: usize) -> String {
        let time = self.eta.remaining(left, Instant::now());
        let time = time.map(|time| format!(", about {:.0} s", time.as_secs_f64().ceil()));
        format!("up to {left} more{}", time.unwrap_or_default())
    }

    /// The problem that a line is about, where several are tuned at a time.
    fn prefix(&self) -> String {
        if self.board.names_problems.load(Ordering::Relaxed) {
            format!("{}: ", self.problem)
        } else {
            String::new()
        }
    }

    /// What is done to a candidate on the device.
    fn done(&self) -> &'static str {
        if self.modelled { "executed" } else { "measured" }
    }

    fn best(&self, best: Option<Micros>) -> String {
        match best {
            Some(best) => {
                let rate = Tflops::of(self.problem.operations(), best);
                let modelled = if self.modelled { " modelled" } else { "" };
                format!("best {rate} TFLOP/s ({best}{modelled})")
            }
            None => "none correct yet".to_owned(),
        }
    }

    fn describe(&self, outcome: &Outcome, failure: Option<&LocatedFailure>) -> String {
        match (outcome.measurement(), failure) {
            (Some(measurement), _) => format!(
                "{:>10} {:>6} TFLOP/s",
                measurement.median(),
                measurement.tflops(&self.problem)
            ),
            (None, failure) => {
                format!(
                    "{}: {}",
                    outcome.kind().name(),
                    failure.map_or("", |failure| &failure.message)
                )
            }
        }
    }
}
