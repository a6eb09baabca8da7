//! What a person sees while a search runs: a bar on a terminal, a line now and then elsewhere.

use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::console::{Console, Volume};
use super::eta::SearchEta;
use crate::model::{Device, Micros, Outcome, Problem, Tflops};
use crate::tune::Event;

/// How often a plain line is written.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Where the progress of problems that are tuned at the same time is drawn, and results between it.
#[derive(Clone)]
pub(super) struct Board {
    console: Console,
    bars: MultiProgress,
    /// Whether lines must say which problem they are about.
    several: bool,
}

impl Board {
    pub(super) fn new(console: Console, several: bool) -> Self {
        Self { console, bars: MultiProgress::new(), several }
    }

    /// A result, whole and between the bars.
    pub(super) fn result(&self, text: &str) {
        self.bars.suspend(|| self.console.result(text));
    }

    /// What went wrong.
    pub(super) fn error(&self, text: &str) {
        self.bars.suspend(|| self.console.error(text));
    }

    fn note(&self, text: &str) {
        self.bars.suspend(|| self.console.note(text));
    }
}

/// What is done with a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    /// A winner is looked for.
    Winner,
    /// It is asked a little, for what that tells of others.
    Others,
}

/// Draws the events of one problem's tuning.
pub(super) struct Progress {
    board: Board,
    problem: Problem,
    aim: Aim,
    /// Whether times are modelled rather than measured.
    modelled: bool,
    bar: ProgressBar,
    compiled: usize,
    pace: SearchEta,
    last_line: Instant,
}

impl Progress {
    pub(super) fn new(board: &Board, problem: Problem, device: &Device, aim: Aim) -> Self {
        let bar = if board.console.interactive() {
            board.bars.add(ProgressBar::no_length())
        } else {
            ProgressBar::hidden()
        };
        let now = Instant::now();
        let modelled = device.is_cpu();
        let board = board.clone();
        let pace = SearchEta::new(now, None);
        Self { board, problem, aim, modelled, bar, compiled: 0, pace, last_line: now }
    }

    pub(super) fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { problem, spaces, candidates, patience, journal, known, hints } => {
                let families: Vec<&str> =
                    spaces.families.iter().map(|family| family.name.as_str()).collect();
                let doing = match self.aim {
                    Aim::Winner => format!("tuning {problem}"),
                    Aim::Others => format!("asking what {problem} tells of the others"),
                };
                self.say(&format!(
                    "{doing}: at most {candidates} of {} candidates of {}",
                    spaces.legal(),
                    families.join(", ")
                ));
                if let (Some(journal), 1..) = (journal, known) {
                    self.say(&format!(
                        "{known} kernels are known already and not {} again (`--fresh` does): {}",
                        self.done(),
                        journal.display()
                    ));
                }
                if *hints > 0 {
                    self.say(&format!(
                        "begins with the defaults and what won before, {hints} of it (`--fresh` does without)"
                    ));
                }
                self.pace = SearchEta::new(Instant::now(), *patience);
                self.bar.set_length(*candidates as u64);
                let template = format!(
                    "{}{{bar:24}} {{pos}}/{{len}} {}, {{msg}}, {{elapsed}} elapsed",
                    self.prefix(),
                    self.done()
                );
                if let Ok(style) = ProgressStyle::with_template(&template) {
                    self.bar.set_style(style);
                }
                self.bar.enable_steady_tick(Duration::from_millis(200));
            }
            Event::Compiled { count } => self.compiled = *count,
            Event::Evaluated { count, family, configuration, outcome, recalled, best, left } => {
                if self.board.console.volume == Volume::Verbose {
                    let result = self.describe(outcome);
                    let mark = if *recalled { "=" } else { " " };
                    self.say(&format!("{count:>5}{mark}{result}  {family} {configuration}"));
                }
                self.pace.tick(Instant::now());
                self.bar.set_position(*count as u64);
                self.bar.set_length((count + left) as u64);
                let (best, ends) = (self.best(*best), self.ends(*left));
                let message = format!("{} compiled, {best}, {ends}", self.compiled);
                self.bar.set_message(message);
                self.line(*count, *left, &best);
            }
            Event::Restarted { reason } => self.say(&format!("GPU worker restarted: {reason}")),
            Event::GivenUp { coverage } => self.say(&format!(
                "{} is given up: {} of its {} candidates so far ended the GPU worker; \
                 `--verbose` lists them, and `gemm-tune check --family {}` looks for the cause",
                coverage.family,
                coverage.restarts,
                coverage.evaluated(),
                coverage.family
            )),
            Event::Contest { contestants } => {
                self.bar.set_message(format!("contest of {contestants}"));
                if self.board.console.volume == Volume::Verbose {
                    self.say(&format!("contest of {contestants}"));
                }
            }
            Event::Searched => {}
            Event::Note(note) => self.say(note),
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

    /// When the search ends, if nothing better comes.
    fn ends(&self, left: usize) -> String {
        let time = self.pace.remaining(left, Instant::now());
        let time = time.map(|time| format!(" in {:.0} s", time.as_secs_f64().ceil()));
        format!("{left} more{} if nothing better comes", time.unwrap_or_default())
    }

    /// Which problem a line is about, where that is not clear.
    fn prefix(&self) -> String {
        if self.board.several { format!("{}: ", self.problem) } else { String::new() }
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

    fn describe(&self, outcome: &Outcome) -> String {
        match (outcome.measurement(), outcome.failure()) {
            (Some(measurement), _) => format!(
                "{:>10} {:>6} TFLOP/s",
                measurement.median(),
                measurement.tflops(&self.problem)
            ),
            (None, failure) => {
                format!("{}: {}", outcome.kind().name(), failure.unwrap_or_default())
            }
        }
    }
}
