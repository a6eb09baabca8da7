//! What other programs run: kernels chosen, compiled and put into a folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rayon::prelude::*;

use super::arguments::{ExportArguments, ExportFormat, Files};
use crate::cli::console::Console;
use crate::cli::failure::Failure;
use crate::cli::machine::Workshop;
use crate::cli::{databases, environment, request};
use crate::compile::{Architecture, Compile as _, CompileRequest, CompileTarget, Compiler};
use crate::database::Record;
use crate::dispatch::{Dispatch, DispatchNode};
use crate::export::{
    self, Artifact, ExportSource, ExportedKernel, KernelDraft, for_any_shape, of_dispatch,
};
use crate::files::{self, InputKind};
use crate::lookup::Lookup;
use crate::model::Device;

/// The files of a format, and what is in them. `records` were chosen; `all` are known besides.
pub(super) fn files(
    arguments: &ExportArguments,
    records: &[&Record],
    all: &[&Record],
    console: Console,
) -> Result<(Files, String), Failure> {
    let regime = request::regime(&arguments.cache_policy, &arguments.power)?;
    let (families, templates) = request::all_families(&arguments.folders)?;
    let device = databases::device(records, None)?;
    let source = ExportSource {
        families: &families,
        templates: &templates,
        changed_templates: arguments.changed_templates,
        device: &device,
    };
    let own = records.iter().copied();
    let own = own.filter(|record| record.is_of(&device) && record.regime() == Some(regime));
    let lookup = || -> Result<Lookup, Failure> {
        let lookup = Lookup::new(all.iter().copied(), &families, &templates, &device, regime);
        let known = (&families[..], &templates);
        Ok(lookup.with_predictor(databases::predictor([], &device, known, console)?))
    };
    if let Some(path) = &arguments.dispatch {
        let own: Vec<&Record> = own.collect();
        let dispatch = read_dispatch(path)?;
        let found = of_dispatch(&dispatch, &own, &lookup()?, source).map_err(Failure::work)?;
        let (drafts, tree) = found;
        let what =
            format!("{} kernels for {} of a dispatch set", drafts.len(), dispatch.kernels.len());
        return written(arguments, (drafts, Some(tree)), &device, what, console);
    }
    let mut drafts = Vec::new();
    for record in own {
        match KernelDraft::of_record(record, source) {
            Ok(draft) => drafts.push(draft),
            Err(why) => console.note(&format!("record {} is left out: {why}", record.key())),
        }
    }
    if drafts.is_empty() {
        return Err(Failure::Work(format!(
            "no record of {} can be exported: tune it again, or choose others with `--shape` and \
             `--cache-policy`",
            device.name
        )));
    }
    let tuned = drafts.len();
    if !arguments.only_tuned {
        for_any_shape(&mut drafts, &lookup()?, source);
    }
    let others = drafts.len() - tuned;
    let what = format!("{tuned} winners and {others} other kernels");
    written(arguments, (drafts, None), &device, what, console)
}

fn read_dispatch(path: &Path) -> Result<Dispatch, Failure> {
    let text = files::read_text(path, InputKind::Dispatch)
        .map_err(|error| Failure::Work(format!("cannot read `{}`: {error}", path.display())))?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::Work(format!(
            "`{}` is no dispatch set: {error}; `gemm-tune dispatch` writes one",
            path.display()
        ))
    })
}

/// Compiles, in the requested form.
fn written(
    arguments: &ExportArguments,
    (drafts, tree): (Vec<KernelDraft>, Option<DispatchNode>),
    device: &Device,
    what: String,
    console: Console,
) -> Result<(Files, String), Failure> {
    let architectures = match arguments.arch.as_slice() {
        [] => vec![Architecture::from(device.compute_capability)],
        names => names
            .iter()
            .map(|name| name.parse().map_err(Failure::usage))
            .collect::<Result<_, _>>()?,
    };
    let kernels = compiled(arguments, drafts, &architectures, console)?;
    let artifact = Artifact { device: device.clone(), kernels, tree };
    let bytes = |files: BTreeMap<String, String>| -> BTreeMap<String, Vec<u8>> {
        files.into_iter().map(|(name, text)| (name, text.into_bytes())).collect()
    };
    let (files, left_out) = match arguments.format {
        ExportFormat::C => {
            let (files, left_out) = export::c(&artifact, &architectures);
            (bytes(files), left_out)
        }
        ExportFormat::Python => {
            let (files, left_out) = export::python(&artifact, &architectures);
            (bytes(files), left_out)
        }
        ExportFormat::Rust => {
            let first = architectures.first().map(ToString::to_string).unwrap_or_default();
            export::rust(&artifact, &first)
        }
        _ => (export::bundle(&artifact), Vec::new()),
    };
    left_out.iter().for_each(|why| console.note(&format!("left out: {why}")));
    if files.is_empty() {
        return Err(Failure::Work("no kernel fits this format; use a bundle".to_owned()));
    }
    let out = &arguments.out;
    Ok((files.into_iter().map(|(name, bytes)| (out.join(name), bytes)).collect(), what))
}

/// Builds the shared library of the Python module in its folder. Where there is no C compiler, the module says how
/// to build it.
pub(super) fn build_library(folder: &Path, console: Console) -> Result<Option<PathBuf>, Failure> {
    let by_hand = format!("`cc {}` in `{}`", export::LIBRARY_ARGUMENTS.join(" "), folder.display());
    let Some(compiler) = environment::program("cc") else {
        console.note(&format!(
            "there is no C compiler: build the library that `gemm_tuned.py` loads with {by_hand}"
        ));
        return Ok(None);
    };
    let mut command = Command::new(&compiler);
    let output = command.args(export::LIBRARY_ARGUMENTS).current_dir(folder).output();
    let output = output
        .map_err(|error| Failure::Work(format!("cannot run `{}`: {error}", compiler.display())))?;
    if !output.status.success() {
        return Err(Failure::Work(format!(
            "`{}` failed: {}; build the library with {by_hand}",
            compiler.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        )));
    }
    Ok(Some(folder.join(export::LIBRARY)))
}

/// Machine code and PTX of each.
fn compiled(
    arguments: &ExportArguments,
    drafts: Vec<KernelDraft>,
    architectures: &[Architecture],
    console: Console,
) -> Result<Vec<ExportedKernel>, Failure> {
    let workshop = Workshop::new(&arguments.common)?;
    let compiler = |target: CompileTarget| workshop.compiler_to(target, None, console);
    let to_cubin: Vec<(String, Compiler)> = architectures
        .iter()
        .map(|architecture| {
            Ok((architecture.to_string(), compiler(CompileTarget::Cubin(*architecture))?))
        })
        .collect::<Result<_, Failure>>()?;
    let lowest = architectures.iter().min_by_key(|architecture| architecture.number);
    let Some(lowest) = lowest else { return Ok(Vec::new()) };
    let to_ptx = compiler(CompileTarget::Ptx(*lowest))?;
    let ship = |draft: KernelDraft| -> Result<ExportedKernel, Failure> {
        let request = CompileRequest::kernel(&draft.family, Arc::clone(&draft.source));
        let image = |compiler: &Compiler| match compiler.compile(&request) {
            Ok(compiled) => Ok(compiled.image),
            Err(error) => Err(Failure::Work(format!("{}: {error}", draft.name()))),
        };
        let cubins = to_cubin.iter().map(|(name, compiler)| Ok((name.clone(), image(compiler)?)));
        let cubins: BTreeMap<_, _> = cubins.collect::<Result<_, Failure>>()?;
        // Bundles alone hold PTX.
        let ptx = match arguments.format {
            ExportFormat::Bundle => image(&to_ptx)?,
            _ => Arc::from([]),
        };
        Ok(ExportedKernel { ptx, cubins, draft })
    };
    drafts.into_par_iter().map(ship).collect()
}
