//! Bundle: a folder with kernels that other programs run without gemm-tune. It holds source,
//! machine code and PTX of each kernel, a manifest that describes the launches, and `SHA256SUMS` of
//! all files, as `sha256sum -c` reads it. Kernels with the same source share their files.

use std::collections::{BTreeMap, BTreeSet};

use gemm_tune_runtime::manifest::{
    BundledDevice, BundledFile, BundledFiles, BundledKernel, BundledLaunch, BundledMap,
    BundledPacking, BundledWorkspace, LaunchFormulas, Manifest, SCHEMA,
};
use gemm_tune_runtime::opening::{CHECKSUMS, MANIFEST, sha256};

use super::draft::KernelDraft;
use crate::dispatch::DispatchNode;
use crate::model::Device;
use crate::model::tensor_map::operand_dtype;
use crate::predict::LibraryModel;
use crate::quote;

/// Digits of a checksum in a file name.
const NAME_DIGITS: usize = 12;

/// A kernel with its compiled code.
#[derive(Debug, Clone)]
pub struct ExportedKernel {
    /// The kernel.
    pub draft: KernelDraft,
    /// PTX for the lowest architecture; empty for formats without PTX.
    pub ptx: std::sync::Arc<[u8]>,
    /// Machine code by architecture: `sm_90`.
    pub cubins: BTreeMap<String, std::sync::Arc<[u8]>>,
}

/// Contents of an artifact.
#[derive(Debug, Clone)]
pub struct Artifact {
    /// The GPU that the kernels were tuned on.
    pub device: Device,
    /// The kernels.
    pub kernels: Vec<ExportedKernel>,
    /// Decision tree for shapes that were not tuned, where one was fitted.
    pub tree: Option<DispatchNode>,
    /// Forecasts of the library's time, where programs may call the library.
    pub libraries: Option<Vec<LibraryModel>>,
}

/// Makes the files of a bundle, by name.
pub fn bundle(artifact: &Artifact) -> BTreeMap<String, Vec<u8>> {
    let Artifact { device, kernels, tree, .. } = artifact;
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut entries: Vec<BundledKernel> = Vec::new();
    let names = names(kernels.iter().map(|kernel| &kernel.draft));
    for (kernel, name) in kernels.iter().zip(names) {
        let digest = sha256(kernel.draft.source.as_bytes());
        let mut add = |suffix: &str, bytes: &[u8]| {
            let file = unused_name(
                &files,
                &quote::file_name(&kernel.draft.family),
                &digest,
                suffix,
                bytes,
            );
            let described = BundledFile {
                file: file.clone(),
                bytes: bytes.len() as u64,
                sha256: sha256(bytes),
            };
            files.insert(file, bytes.to_vec());
            described
        };
        let described = BundledFiles {
            source: add(".cu", kernel.draft.source.as_bytes()),
            ptx: add(".ptx", &kernel.ptx),
            cubins: kernel
                .cubins
                .iter()
                .map(|(name, image)| (name.clone(), add(&format!(".{name}.cubin"), image)))
                .collect(),
        };
        entries.push(BundledKernel { name, ..entry(&kernel.draft, described) });
    }
    let manifest = Manifest {
        schema: SCHEMA,
        gemm_tune: env!("CARGO_PKG_VERSION").to_owned(),
        device: BundledDevice {
            name: device.name.clone(),
            compute_capability: device.compute_capability.to_string(),
            sms: device.sms,
        },
        kernels: entries,
        dispatch: tree.clone(),
    };
    files.insert(MANIFEST.to_owned(), format!("{:#}\n", serde_json::json!(manifest)).into_bytes());
    seal(files)
}

/// The names of kernels in an artifact: no two are alike.
pub(super) fn names<'a>(drafts: impl Iterator<Item = &'a KernelDraft>) -> Vec<String> {
    let mut known = BTreeSet::new();
    drafts.map(|draft| unique(&mut known, draft.name())).collect()
}

/// A name that no kernel has yet: the wished one, or that with the first number that makes it one.
fn unique(names: &mut BTreeSet<String>, wished: String) -> String {
    let numbered = (2..).map(|number: u32| format!("{wished}_{number}"));
    let mut free = std::iter::once(wished.clone()).chain(numbered);
    let name = free.find(|name| !names.contains(name)).unwrap_or(wished);
    names.insert(name.clone());
    name
}

/// The name of a file with this content: family, first digits of a checksum, suffix. More digits where another
/// content has that name.
pub(super) fn unused_name(
    files: &BTreeMap<String, Vec<u8>>,
    family: &str,
    digest: &str,
    suffix: &str,
    content: &[u8],
) -> String {
    let names = (NAME_DIGITS..=digest.len()).map(|digits| digest.get(..digits).unwrap_or(digest));
    let mut names = names.map(|digits| format!("{family}-{digits}{suffix}"));
    let is_free = |name: &String| files.get(name).is_none_or(|known| known == content);
    names.find(is_free).unwrap_or_else(|| format!("{family}-{}{suffix}", sha256(content)))
}

/// Adds the checksums of all files.
pub fn seal(mut files: BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<u8>> {
    files.remove(CHECKSUMS);
    let lines: String =
        files.iter().map(|(name, bytes)| format!("{}  {name}\n", sha256(bytes))).collect();
    files.insert(CHECKSUMS.to_owned(), lines.into_bytes());
    files
}

fn entry(draft: &KernelDraft, files: BundledFiles) -> BundledKernel {
    let bound = &draft.bound;
    let launches =
        bound.launches.iter().zip(&draft.plan.kernels).map(|(launch, own)| BundledLaunch {
            entry: own.entry.clone(),
            grid: own.grid,
            block: own.block,
            dynamic_shared_bytes: own.dynamic_shared_bytes,
            programmatic: launch.programmatic,
            packs: launch.packs.as_ref().map(|packs| BundledPacking {
                operands: packs.operands.iter().map(|own| own.name().to_owned()).collect(),
                workspace: packs.workspace.clone(),
            }),
            formulas: LaunchFormulas {
                grid: launch.grid.clone(),
                block: launch.block.clone(),
                dynamic_shared_bytes: launch.dynamic_shared_bytes.clone(),
            },
            arguments: own.arguments.iter().map(|argument| argument.name().to_owned()).collect(),
        });
    let workspaces = bound.workspaces.iter().zip(&draft.plan.workspaces);
    let maps = bound.tensor_maps.iter().map(|map| {
        let own = || operand_dtype(&map.operand, draft.problem.types);
        BundledMap::of(map, map.dtype.unwrap_or_else(own))
    });
    let measured = draft.record.as_ref().filter(|_| !draft.changed);
    BundledKernel {
        name: draft.name(),
        problem: (&draft.problem).into(),
        tuned: draft.record.is_some(),
        family: draft.family.clone(),
        parameters: draft.configuration.0.clone(),
        deterministic: !draft.plan.nondeterministic,
        serves: bound.serves.clone(),
        launches: launches.collect(),
        workspaces: workspaces
            .map(|((name, formula), own)| BundledWorkspace {
                name: name.clone(),
                bytes: own.bytes,
                formula: formula.clone(),
            })
            .collect(),
        tensor_maps: maps.collect(),
        expectation: draft.expectation,
        median_us: measured.map(|record| record.measurement.median_us),
        timing: measured.map(|record| {
            record.measurement.timing.clone().unwrap_or_else(|| "measured".to_owned())
        }),
        baseline: measured.and_then(|record| record.baseline.clone()),
        validation: measured.map(|record| record.validation.clone()),
        files,
    }
}
