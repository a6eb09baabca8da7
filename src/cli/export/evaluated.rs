//! Every evaluated configuration of a problem: from its journal to a text.

use std::fs;
use std::path::{Path, PathBuf};

use super::arguments::{ExportArguments, ExportFormat, Exported};
use crate::cli::console::Console;
use crate::cli::environment::cache_folder;
use crate::cli::failure::Failure;
use crate::cli::journals;
use crate::database::RecordFilter;
use crate::export::{self, EvaluatedSpace};
use crate::tune::Recorded;

/// What a format has that is made from a journal.
pub(super) fn export(
    arguments: &ExportArguments,
    selection: &RecordFilter,
    console: Console,
) -> Result<Exported, Failure> {
    let path = match &arguments.journal {
        Some(path) => path.clone(),
        None => journal(&cache_folder(&arguments.common)?.join("journal"), selection)?,
    };
    let recorded = journals::read(&path, console)?;
    let modified = fs::metadata(&path).and_then(|metadata| metadata.modified());
    let modified = modified.map_err(|error| journals::unreadable(&path, &error))?;
    let time = jiff::Timestamp::try_from(modified).map_err(Failure::work)?;
    let space =
        EvaluatedSpace::of(&recorded, arguments.family.as_deref(), time).map_err(Failure::work)?;
    if space.is_modelled() && !arguments.modelled {
        return Err(Failure::Work(format!(
            "all {} configurations of `{}` are left out, because the cpu device modelled their times: export them \
             with `--modelled`",
            space.len(),
            path.display()
        )));
    }
    let text = match arguments.format {
        ExportFormat::T4 => format!("{:#}\n", export::t4(&space)),
        _ => export::kernel_tuner(&space),
    };
    Ok(Exported {
        files: vec![(arguments.out.clone(), text.into_bytes())],
        what: format!("{} configurations of {}", space.len(), recorded.problem),
        left_out: Vec::new(),
    })
}

/// The only journal below `folder` that a selection takes.
fn journal(folder: &Path, selection: &RecordFilter) -> Result<PathBuf, Failure> {
    let taken = |(_, heading): &(PathBuf, Recorded)| {
        selection.matches_problem(&heading.problem, &heading.device)
    };
    let found: Vec<(PathBuf, Recorded)> =
        journals::below(folder)?.into_iter().filter(taken).collect();
    match found.as_slice() {
        [(path, ..)] => Ok(path.clone()),
        [] => Err(Failure::Work(format!(
            "no such journal below {}: tune the problem, or name a journal with `--journal FILE`",
            folder.display()
        ))),
        _ => {
            let lines: Vec<String> = found
                .iter()
                .map(|(path, Recorded { problem, device, .. })| {
                    format!("  {problem} on {device}: {}", path.display())
                })
                .collect();
            Err(Failure::Usage(format!(
                "several journals: narrow them down with `--shape`, `--dtype`, `--layout` and \
                 `--device-name`, or name one with `--journal FILE`:\n{}",
                lines.join("\n")
            )))
        }
    }
}
