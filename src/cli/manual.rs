//! `gemm-tune completions` and `gemm-tune man`: what shells and `man` read of the command line.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;
use serde_json::{Value, json};

use super::arguments::OutputFormat;
use super::console::Console;
use super::failure::Failure;
use super::output::{finish, is_stdout, write};

/// Prints the completions of a shell for the program's commands and options.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gemm-tune completions bash > ~/.local/share/bash-completion/completions/gemm-tune
  gemm-tune completions zsh > ~/.zfunc/_gemm-tune
  gemm-tune completions fish > ~/.config/fish/completions/gemm-tune.fish")]
pub(super) struct CompletionArguments {
    /// Shell to complete in
    shell: Shell,
}

/// Prints the manual page of the program, or writes those of all commands to a folder.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gemm-tune man | man -l -
  gemm-tune man -o ~/.local/share/man/man1")]
pub(super) struct ManArguments {
    /// Folder to write a page of each command to; `-` prints that of the program
    #[arg(short = 'o', long = "output", value_name = "DIR", default_value = "-")]
    out: PathBuf,
}

/// Prints the completions of `program`, and gives the exit code.
pub(super) fn completions(arguments: &CompletionArguments, mut program: Command) -> ExitCode {
    let mut text = Vec::new();
    let name = program.get_name().to_owned();
    clap_complete::generate(arguments.shell, &mut program, name, &mut text);
    let console = Console::of_results(OutputFormat::Table);
    console.as_it_is(&String::from_utf8_lossy(&text));
    finish(console, Ok((json!({}), ExitCode::SUCCESS)))
}

/// Prints or writes the manual pages of `program`, and gives the exit code.
pub(super) fn man(arguments: &ManArguments, program: Command) -> ExitCode {
    let console = Console::of_results(OutputFormat::Table);
    finish(console, pages(&arguments.out, program, console).map(|made| (made, ExitCode::SUCCESS)))
}

fn pages(out: &Path, mut program: Command, console: Console) -> Result<Value, Failure> {
    program.build();
    if is_stdout(out) {
        write(out, &page(&program)?)?;
        return Ok(json!({}));
    }
    let mut files = Vec::new();
    let own = program.get_name().to_owned();
    let visible = program.get_subcommands().filter(|command| !command.is_hide_set());
    let mut all = vec![(own.clone(), program.clone())];
    all.extend(visible.map(|command| (format!("{own}-{}", command.get_name()), command.clone())));
    for (name, command) in all {
        let path = out.join(format!("{name}.1"));
        write(&path, &page(&command)?)?;
        files.push(path.display().to_string());
    }
    console.result(&format!("{} pages written to {}\n", files.len(), out.display()));
    Ok(json!({ "files": files }))
}

/// The manual page of a command.
fn page(command: &Command) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text).map_err(Failure::work)?;
    Ok(text)
}
