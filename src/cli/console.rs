//! Console output: results go to standard output, everything else to standard error.

use std::io::{IsTerminal as _, stderr};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::arguments::{CommonArguments, OutputArguments, OutputFormat};
use super::streams;
use crate::report::table::{TableStyle, View};

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
    pub(super) format: OutputFormat,
    /// Whether standard output is the file that the command writes.
    pub(super) stdout_is_taken: bool,
}

impl Console {
    pub(super) fn new(common: &CommonArguments) -> Self {
        let volume = match (common.quiet, common.verbose) {
            (true, _) => Volume::Quiet,
            (_, true) => Volume::Verbose,
            _ => Volume::Normal,
        };
        Self { volume, format: common.format.format(), stdout_is_taken: false }
    }

    /// For a command that only has results, as a document or for people.
    pub(super) fn of_results(format: OutputFormat) -> Self {
        Self { volume: Volume::Normal, format, stdout_is_taken: false }
    }

    /// For a command that needs no device.
    pub(super) fn of_output(output: &OutputArguments) -> Self {
        let volume = if output.quiet { Volume::Quiet } else { Volume::Normal };
        Self { volume, format: output.format.format(), stdout_is_taken: false }
    }

    pub(super) fn plain() -> Self {
        Self::of_results(OutputFormat::Table)
    }

    /// Whether a person watches standard error.
    pub(super) fn interactive(self) -> bool {
        stderr().is_terminal() && self.volume == Volume::Normal
    }

    /// The form of tables.
    pub(super) fn table_style(self) -> TableStyle {
        if self.format == OutputFormat::Md {
            return TableStyle::Markdown;
        }
        let columns = std::io::stdout().is_terminal().then(console_size).flatten();
        TableStyle::Text { width: columns.unwrap_or(DEFAULT_WIDTH).max(60) }
    }

    /// How much of results is shown, and in which form.
    pub(super) fn view(self) -> View {
        View { style: self.table_style(), verbose: self.volume == Volume::Verbose }
    }

    /// Whether results are printed as text.
    pub(super) fn is_text(self) -> bool {
        matches!(self.format, OutputFormat::Table | OutputFormat::Md)
    }

    /// Prints a result for people; nothing where a program reads the results. On a terminal, lines break between words.
    pub(super) fn result(self, text: &str) {
        let columns = std::io::stdout().is_terminal().then(console_size).flatten();
        self.as_it_is(&wrapped(text, columns));
    }

    /// Prints a result whose lines are not broken, such as a drawing of letters.
    pub(super) fn as_it_is(self, text: &str) {
        if self.is_text() && !self.stdout_is_taken {
            streams::out(text);
        }
    }

    /// Prints code: coloured on a terminal, plain for a file or a program, so that it compiles.
    pub(super) fn code(self, text: &str, colored: fn(&str) -> String) {
        if std::io::stdout().is_terminal() {
            self.as_it_is(&colored(text));
        } else {
            self.as_it_is(text);
        }
    }

    /// Lines whose columns matter, such as a drawing of letters, after a blank line.
    pub(super) fn preformatted(self, text: &str) -> String {
        if self.format == OutputFormat::Md {
            return format!("\n```text\n{}\n```\n", text.trim_end());
        }
        format!("\n{text}")
    }

    /// Prints the JSON document, where that form is chosen.
    pub(super) fn document(self, document: &impl Serialize) {
        if self.format == OutputFormat::Json {
            streams::json(document);
        }
    }

    /// Prints comma-separated values, where that form is chosen.
    pub(super) fn values(self, csv: impl FnOnce() -> String) {
        if self.format == OutputFormat::Csv {
            streams::out(&csv());
        }
    }

    /// Prints a note.
    pub(super) fn note(self, text: &str) {
        if self.volume > Volume::Quiet {
            let columns = stderr().is_terminal().then(console_size).flatten();
            streams::err(&wrapped(&format!("{text}\n"), columns));
        }
    }

    /// Prints a note that only `--verbose` asks for.
    pub(super) fn detail(self, text: &str) {
        if self.volume == Volume::Verbose {
            self.note(text);
        }
    }

    /// Prints an error.
    pub(super) fn error(self, text: &str) {
        let red = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
        streams::err(&format!("{red}error:{red:#} {text}\n"));
    }
}

/// Columns of the terminal.
fn console_size() -> Option<u16> {
    let sizes =
        [rustix::termios::tcgetwinsize(std::io::stdout()), rustix::termios::tcgetwinsize(stderr())];
    sizes.into_iter().flatten().map(|size| size.ws_col).find(|columns| *columns > 0)
}

/// A text whose lines break between words. Lines that go on are indented by two columns more.
fn wrapped(text: &str, columns: Option<u16>) -> String {
    let Some(columns) = columns else { return text.to_owned() };
    let fits = |line: &str| textwrap::core::display_width(line) <= columns.into();
    let wrap = |line: &str| {
        if fits(line) {
            return line.to_owned();
        }
        let (blanks, rest) = line.split_at(line.len() - line.trim_start().len());
        let after = format!("{blanks}  ");
        let options = textwrap::Options::new(columns.into())
            .initial_indent(blanks)
            .subsequent_indent(&after)
            .word_splitter(textwrap::WordSplitter::NoHyphenation)
            .word_separator(textwrap::WordSeparator::AsciiSpace)
            .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit)
            .break_words(false);
        textwrap::fill(rest, options)
    };
    text.split('\n').map(wrap).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_break_between_words() {
        for (text, expected) in [
            ("short\n", "short\n"),
            ("one two three four five\n", "one two three\n  four five\n"),
            ("  one two three four\nfive", "  one two\n    three four\nfive"),
            ("a_word_that_is_longer_than_a_line", "a_word_that_is_longer_than_a_line"),
        ] {
            assert_eq!(wrapped(text, Some(14)), expected);
            assert_eq!(wrapped(text, None), text);
        }
    }
}
