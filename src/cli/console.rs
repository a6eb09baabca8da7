//! Console output: results go to standard output, everything else to standard error.

use std::io::{IsTerminal as _, stderr};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::arguments::{CommonArguments, OutputArguments};
use super::streams;

/// Columns where the width of the terminal is not known.
const DEFAULT_WIDTH: u16 = 120;

/// How much is printed besides results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Volume {
    Quiet,
    Normal,
    Verbose,
}

/// Prints in the chosen form and volume.
#[derive(Debug, Clone, Copy)]
pub(super) struct Console {
    pub(super) volume: Volume,
    pub(super) json: bool,
}

impl Console {
    pub(super) fn new(common: &CommonArguments) -> Self {
        let volume = match (common.quiet, common.verbose) {
            (true, _) => Volume::Quiet,
            (_, true) => Volume::Verbose,
            _ => Volume::Normal,
        };
        Self { volume, json: common.json }
    }

    /// For a command that only has results, as a document or for people.
    pub(super) fn of_results(json: bool) -> Self {
        Self { volume: Volume::Normal, json }
    }

    /// For a command that needs no device.
    pub(super) fn of_output(output: &OutputArguments) -> Self {
        let volume = if output.quiet { Volume::Quiet } else { Volume::Normal };
        Self { volume, json: output.json }
    }

    pub(super) fn plain() -> Self {
        Self { volume: Volume::Normal, json: false }
    }

    /// Whether a person watches standard error.
    pub(super) fn interactive(self) -> bool {
        stderr().is_terminal() && self.volume == Volume::Normal
    }

    /// Columns for tables.
    pub(super) fn width(self) -> u16 {
        if !std::io::stdout().is_terminal() {
            return DEFAULT_WIDTH;
        }
        let (_, columns) = console_size().unwrap_or((0, DEFAULT_WIDTH));
        columns.max(60)
    }

    /// Prints a result for people; nothing where JSON is printed.
    pub(super) fn result(self, text: &str) {
        if !self.json {
            streams::out(text);
        }
    }

    /// Prints code: coloured on a terminal, plain for a file or a program, so that it compiles.
    pub(super) fn code(self, text: &str, colored: fn(&str) -> String) {
        if std::io::stdout().is_terminal() {
            self.result(&colored(text));
        } else {
            self.result(text);
        }
    }

    /// Prints the JSON document with `--json`.
    pub(super) fn document(self, document: &impl Serialize) {
        if self.json {
            streams::json(document);
        }
    }

    /// Prints a note.
    pub(super) fn note(self, text: &str) {
        if self.volume > Volume::Quiet {
            streams::err(&format!("{text}\n"));
        }
    }

    /// Prints an error.
    pub(super) fn error(self, text: &str) {
        let red = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
        streams::err(&format!("{red}error:{red:#} {text}\n"));
    }
}

/// Rows and columns of the terminal.
fn console_size() -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some((size.ws_row, size.ws_col))
}
