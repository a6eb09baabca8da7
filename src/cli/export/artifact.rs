//! What other programs run: kernels chosen, compiled and put into a folder.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rayon::prelude::*;

use super::arguments::{ExportArguments, ExportFormat, Exported};
use crate::cli::console::Console;
use crate::cli::failure::Failure;
use crate::cli::machine::Workshop;
use crate::cli::progress_bar::CountProgress;
use crate::cli::{databases, request};
use crate::compile::{
    Architecture, Compile as _, CompileError, CompileRequest, CompileTarget, Compiler,
};
use crate::database::Record;
use crate::dispatch::{Dispatch, DispatchNode};
use crate::export::{
    self, Artifact, ExportSource, ExportedKernel, KernelDraft, LeftOut, for_any_shape, of_dispatch,
};
use crate::files::{self, InputKind};
use crate::lookup::Lookup;
use crate::model::{ComputeCapability, Device};
use crate::predict::{LibraryChoice, LibraryModel};
use crate::report::mapped::counted;

/// The files of a format. `records` were chosen; `all` are those of the databases, whose files may have learned models
/// beside them.
pub(super) fn export(
    arguments: &ExportArguments,
    records: &[&Record],
    (all, databases): (&[&Record], &[PathBuf]),
    console: Console,
) -> Result<Exported, Failure> {
    let regime = request::regime(&arguments.cache_policy, &arguments.power)?;
    let (families, templates) = request::all_families(&arguments.folders)?;
    let device = device(arguments, records)?;
    let architectures = architectures(arguments, &device)?;
    let others = others(&architectures, &device);
    let source = ExportSource {
        families: &families,
        templates: &templates,
        changed_templates: arguments.changed_templates,
        device: &device,
        others: &others,
        max_kernels: arguments.max_kernels.map(NonZeroUsize::get),
    };
    let beside = || databases.iter().map(PathBuf::as_path);
    let predictor =
        || databases::predictor(beside(), &device, (&families[..], &templates), console);
    let lookup = || -> Result<Lookup, Failure> {
        let lookup = Lookup::new(all.iter().copied(), &families, &templates, &device, regime);
        Ok(lookup.with_predictor(predictor()?))
    };
    let mut left_out = Vec::new();
    let mut own: Vec<&Record> = Vec::new();
    for record in records {
        if !record.is_of(&device) {
            let why = format!("of another device, {}", record.device.name);
            left_out.push(LeftOut::new(record.key(), why));
        } else if record.regime() != Some(regime) {
            let why = "of another cache policy or power state: see `--cache-policy` and `--power`";
            left_out.push(LeftOut::new(record.key(), why));
        } else {
            own.push(record);
        }
    }
    let mut of_set = None;
    let (drafts, tree) = if let Some(path) = &arguments.dispatch {
        let dispatch = read_dispatch(path)?;
        let (drafts, tree, lacking) = of_dispatch(&dispatch, &own, &lookup()?, source);
        of_set = Some(dispatch.kernels.len() - lacking.len());
        left_out.extend(lacking);
        (drafts, Some(tree))
    } else {
        let mut drafts = Vec::new();
        for record in own {
            match KernelDraft::of_record(record, source) {
                Ok(draft) => drafts.push(draft),
                Err(why) => left_out.push(LeftOut::new(record.key(), why)),
            }
        }
        if !drafts.is_empty() && !arguments.only_tuned {
            let mut progress = CountProgress::new(console, "other problems answered");
            let on_question = &mut |count, total| {
                progress.expect(total);
                progress.reach(count, "");
            };
            for_any_shape(&mut drafts, &lookup()?, source, on_question);
        }
        (drafts, None)
    };
    let (kernels, tree) =
        compiled(arguments, (drafts, tree), &architectures, &mut left_out, console)?;
    let libraries = match arguments.with_library {
        // An artifact leaves the algorithm of an unmeasured problem to the library.
        true => {
            let own = |model: &&LibraryModel| model.algorithm == LibraryChoice::Own;
            Some(predictor()?.libraries(&device).iter().filter(own).cloned().collect())
        }
        false => None,
    };
    let artifact = Artifact { device, kernels, tree, libraries };
    Ok(written(arguments, &artifact, &architectures, (of_set, left_out)))
}

/// The device of the records; of several, that of this machine, where it is among them.
fn device(arguments: &ExportArguments, records: &[&Record]) -> Result<Device, Failure> {
    let names: BTreeSet<&str> = records.iter().map(|record| record.device.name.as_str()).collect();
    if names.len() > 1 {
        let here = Workshop::new(&arguments.common)?.assumed_device(None)?;
        if names.contains(here.name.as_str()) {
            return Ok(here);
        }
    }
    databases::device(records, None)
}

/// The architectures to compile for.
fn architectures(
    arguments: &ExportArguments,
    device: &Device,
) -> Result<Vec<Architecture>, Failure> {
    match arguments.arch.as_slice() {
        [] => Ok(vec![Architecture::from(device.compute_capability)]),
        names => names.iter().map(|name| name.parse().map_err(Failure::usage)).collect(),
    }
}

/// Devices of the architectures that differ from a device's own.
fn others(architectures: &[Architecture], device: &Device) -> Vec<Device> {
    let named = architectures.iter().map(|own| (own.to_string(), ComputeCapability::from(*own)));
    named
        .filter(|(_, capability)| *capability != device.compute_capability)
        .map(|(name, capability)| Device::of_capability(&name, capability, device.sms))
        .collect()
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

/// The files of the requested form. `of_set` kernels are of a dispatch set.
fn written(
    arguments: &ExportArguments,
    artifact: &Artifact,
    architectures: &[Architecture],
    (of_set, mut left_out): (Option<usize>, Vec<LeftOut>),
) -> Exported {
    let bytes = |files: BTreeMap<String, String>| -> BTreeMap<String, Vec<u8>> {
        files.into_iter().map(|(name, text)| (name, text.into_bytes())).collect()
    };
    let (files, unfit) = match arguments.format {
        _ if artifact.kernels.is_empty() => (BTreeMap::new(), Vec::new()),
        ExportFormat::C => {
            let (files, unfit) = export::c(artifact, architectures);
            (bytes(files), unfit)
        }
        ExportFormat::Python => {
            let (files, unfit) = export::python(artifact, architectures);
            (bytes(files), unfit)
        }
        ExportFormat::Rust => {
            let first = architectures.first().map(ToString::to_string).unwrap_or_default();
            export::rust(artifact, &first)
        }
        _ => (export::bundle(artifact), Vec::new()),
    };
    let draft = |place: usize| artifact.kernels.get(place).map(|kernel| &kernel.draft);
    let is_tuned = |draft: &&KernelDraft| draft.record.is_some();
    let lacking: Vec<&KernelDraft> = unfit.iter().filter_map(|(place, _)| draft(*place)).collect();
    let all = artifact.kernels.iter().map(|kernel| &kernel.draft);
    let tuned = all.filter(is_tuned).count() - lacking.iter().copied().filter(is_tuned).count();
    let others = artifact.kernels.len() - lacking.len() - tuned;
    let what = match of_set {
        Some(count) => format!("{} kernels for {count} of a dispatch set", tuned + others),
        None => format!("{} and {}", counted(tuned, "winner"), counted(others, "other kernel")),
    };
    let named = unfit.into_iter().filter_map(|(place, why)| Some((draft(place)?.name(), why)));
    left_out.extend(named.map(|(name, why)| LeftOut { name, why }));
    let out = &arguments.out;
    let files = files.into_iter().map(|(name, bytes)| (out.join(name), bytes)).collect();
    Exported { files, what, left_out }
}

/// Machine code and PTX of each, and the tree without those that do not compile, which are left out.
fn compiled(
    arguments: &ExportArguments,
    (drafts, tree): (Vec<KernelDraft>, Option<DispatchNode>),
    architectures: &[Architecture],
    left_out: &mut Vec<LeftOut>,
    console: Console,
) -> Result<(Vec<ExportedKernel>, Option<DispatchNode>), Failure> {
    // What is left out counts before a missing compiler.
    if drafts.is_empty() {
        return Ok((Vec::new(), tree));
    }
    let workshop = Workshop::new(&arguments.common)?;
    let compiler = |target: CompileTarget| workshop.compiler_to(target, None, console);
    let to_cubin: Vec<(String, Compiler)> = architectures
        .iter()
        .map(|architecture| {
            Ok((architecture.to_string(), compiler(CompileTarget::Cubin(*architecture))?))
        })
        .collect::<Result<_, Failure>>()?;
    let lowest = architectures.iter().min_by_key(|architecture| architecture.number);
    let Some(lowest) = lowest else { return Ok((Vec::new(), tree)) };
    let to_ptx = compiler(CompileTarget::Ptx(*lowest))?;
    let progress = Mutex::new((0, CountProgress::new(console, "kernels compiled")));
    progress.lock().1.expect(drafts.len());
    let ship = |draft: KernelDraft| -> Result<Result<ExportedKernel, LeftOut>, Failure> {
        let request = CompileRequest::kernel(&draft.family, Arc::clone(&draft.source));
        let mut cubins = BTreeMap::new();
        for (name, compiler) in &to_cubin {
            match image(compiler, &request)? {
                Ok(image) => drop(cubins.insert(name.clone(), image)),
                Err(why) => {
                    let why = format!("does not compile for {name}: {why}");
                    return Ok(Err(LeftOut::new(draft.name(), why)));
                }
            }
        }
        // Bundles alone hold PTX.
        let ptx = match arguments.format {
            ExportFormat::Bundle => image(&to_ptx, &request)?,
            _ => Ok(Arc::from([])),
        };
        Ok(match ptx {
            Ok(ptx) => Ok(ExportedKernel { ptx, cubins, draft }),
            Err(why) => Err(LeftOut::new(draft.name(), format!("does not compile to PTX: {why}"))),
        })
    };
    let tracked = |draft: KernelDraft| {
        let shipped = ship(draft);
        let (count, bar) = &mut *progress.lock();
        *count += 1;
        bar.reach(*count, "");
        shipped
    };
    let shipped: Vec<_> = drafts.into_par_iter().map(tracked).collect::<Result<_, _>>()?;
    drop(progress);
    let mut kernels = Vec::new();
    let mut places = Vec::new();
    for one in shipped {
        places.push(one.as_ref().ok().map(|_| kernels.len()));
        match one {
            Ok(kernel) => kernels.push(kernel),
            Err(lacking) => left_out.push(lacking),
        }
    }
    let place = |old: usize| places.get(old).copied().flatten().into_iter().collect();
    Ok((kernels, tree.map(|tree| tree.mapped(&place))))
}

/// What a source compiles to, or why it alone does not.
fn image(
    compiler: &Compiler,
    request: &CompileRequest,
) -> Result<Result<Arc<[u8]>, String>, Failure> {
    match compiler.compile(request) {
        Ok(compiled) => Ok(Ok(compiled.image)),
        Err(CompileError::Source { log }) => {
            let error = log.lines().find(|line| line.contains("error"));
            Ok(Err(error.or(log.lines().next()).unwrap_or("no reason is given").to_owned()))
        }
        Err(error @ (CompileError::TimedOut { .. } | CompileError::Ended { .. })) => {
            Ok(Err(error.to_string()))
        }
        Err(error) => Err(Failure::work(error)),
    }
}
