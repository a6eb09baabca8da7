//! `gemm-tune new-family`: writes a family that works, as the start of one's own.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::arguments::OutputArguments;
use super::console::Console;
use super::failure::Failure;
use super::output::finish;
use crate::space::Families;
use crate::{files, quote};

const SPACE: &str = include_str!("space.toml");
const TEMPLATE: &str = include_str!("template.cu.tera");

/// What the files have in place of the family's name.
const PLACEHOLDER: &str = "NAME";

/// Most characters of a name, which file names and messages have.
const LONGEST: usize = 64;

#[derive(Debug, Args)]
pub(super) struct NewFamilyArguments {
    /// Name of the family: letters, digits and `_`
    name: String,
    /// Folder for its two files [default: a folder with the family's name]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArguments,
}

/// Writes the files, and prints what to do with them.
pub(super) fn main(arguments: &NewFamilyArguments) -> ExitCode {
    let console = Console::of_output(&arguments.output);
    finish(console, run(arguments, console))
}

fn run(arguments: &NewFamilyArguments, console: Console) -> Result<(Value, ExitCode), Failure> {
    let name = arguments.name.as_str();
    check_name(name)?;
    let folder = arguments.dir.clone().unwrap_or_else(|| PathBuf::from(name));
    let [space, template] =
        ["toml", "cu.tera"].map(|extension| folder.join(format!("{name}.{extension}")));
    for path in [&space, &template] {
        if path.symlink_metadata().is_ok() {
            return Err(Failure::Work(format!(
                "`{}` exists already: choose another name, or another folder with `--dir`",
                path.display()
            )));
        }
    }
    write(&space, &SPACE.replace(PLACEHOLDER, name))?;
    write(&template, &TEMPLATE.replace(PLACEHOLDER, name))?;
    let commands = commands(name, &folder);
    let [check, tune, inspect] = &commands;
    console.result(&format!(
        "wrote {} and {}: a kernel that works; edit both\n\n\
         # execute it on this host with every check, no GPU is needed\n{check}\n\
         # find its fastest configuration; `--device cpu` models times where there is no GPU\n{tune}\n\
         # show the CUDA source of its default configuration\n{inspect}\n",
        space.display(),
        template.display()
    ));
    let document = json!({ "files": [space, template], "commands": commands });
    Ok((document, ExitCode::SUCCESS))
}

/// Refuses names that a search-space file cannot have, and those of built-in families.
fn check_name(name: &str) -> Result<(), Failure> {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let goes_on_well = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !starts_well || !goes_on_well || name.len() > LONGEST {
        return Err(Failure::Usage(format!(
            "`{}` is no name for a family: it has up to {LONGEST} letters, digits and `_`, and \
             does not begin with a digit",
            quote::line(name)
        )));
    }
    let built_in = Families::built_in().map_err(Failure::work)?;
    if built_in.get(name).is_ok() {
        return Err(Failure::Usage(format!(
            "`{name}` is a built-in family: choose another name, so that records tell them apart"
        )));
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    files::replace(path, text.as_bytes()).map_err(|error| {
        Failure::Work(format!(
            "cannot write `{}`: {error}; choose another folder with `--dir`",
            path.display()
        ))
    })
}

/// The commands that follow: check, tune, inspect.
fn commands(name: &str, folder: &Path) -> [String; 3] {
    let folder = quote::shell_word(&folder.to_string_lossy());
    let family = format!("--family {name} --spaces {folder} --templates {folder}");
    [
        format!("gemm-tune check {family}"),
        format!("gemm-tune 256x256x256 {family}"),
        format!("gemm-tune inspect --shape 256x256x256 {family} --emit cuda"),
    ]
}
