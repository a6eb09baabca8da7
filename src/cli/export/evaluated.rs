//! Every evaluated configuration of a problem: from its journal to a text.

use std::fs;
use std::path::{Path, PathBuf};

use super::{ExportArguments, Format};
use crate::cli::Failure;
use crate::cli::environment::cache_folder;
use crate::database::Selection;
use crate::export::{self, EvaluatedSpace};
use crate::model::Problem;
use crate::tune::Recorded;

/// The text of a format that is made from a journal, and what it is of.
pub(super) fn text(
    arguments: &ExportArguments,
    selection: &Selection,
) -> Result<(String, String), Failure> {
    let path = match &arguments.journal {
        Some(path) => path.clone(),
        None => journal(&cache_folder(&arguments.common)?.join("journal"), selection)?,
    };
    let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, &error))?;
    let recorded = Recorded::parse(&text).ok_or_else(|| {
        Failure::Work(format!(
            "`{}` is no journal of this version of gemm-tune: tune the problem again",
            path.display()
        ))
    })?;
    let modified = fs::metadata(&path).and_then(|metadata| metadata.modified());
    let modified = modified.map_err(|error| unreadable(&path, &error))?;
    let time = jiff::Timestamp::try_from(modified).map_err(Failure::work)?;
    let space =
        EvaluatedSpace::of(&recorded, arguments.family.as_deref(), time).map_err(Failure::work)?;
    let text = match arguments.format {
        Format::T4 => format!("{:#}\n", export::t4(&space)),
        _ => export::kernel_tuner(&space),
    };
    Ok((text, format!("{} configurations of {}", space.len(), recorded.problem)))
}

/// The only journal below `folder` that a selection takes.
fn journal(folder: &Path, selection: &Selection) -> Result<PathBuf, Failure> {
    let mut found: Vec<(PathBuf, Problem, String)> = Vec::new();
    for device in entries(folder)? {
        if !device.is_dir() {
            continue;
        }
        for path in entries(&device)? {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let first = text.lines().next().unwrap_or_default();
            if let Some(heading) = Recorded::parse(first)
                && selection.takes_problem(&heading.problem, &heading.device)
            {
                found.push((path, heading.problem, heading.device));
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    match found.as_slice() {
        [(path, ..)] => Ok(path.clone()),
        [] => Err(Failure::Work(format!(
            "no such journal below {}: tune the problem, or name a journal with `--journal FILE`",
            folder.display()
        ))),
        _ => {
            let lines: Vec<String> = found
                .iter()
                .map(|(path, problem, device)| {
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

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    match fs::read_dir(folder) {
        Ok(entries) => {
            Ok(entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(unreadable(folder, &error)),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Work(format!("cannot read `{}`: {error}", path.display()))
}
