//! Kernels of a bundle, which are already compiled.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::catalogue::{Catalogue, SelectedKernel, SelectedLaunch};
use crate::error::RuntimeError;
use crate::formula::{Formula, open_values, placed_values};
use crate::manifest::{BundledKernel, Manifest};
use crate::model::{Device, LaunchShape, Problem, Storage};
use crate::opening::{BundleError, open_bundle};
use crate::question::Question;
use crate::regular_file;
use crate::stored::StoredPattern;
use crate::target::{PtxTarget, runs_on};

/// A bundle in memory.
#[derive(Debug)]
pub struct Bundle {
    manifest: Manifest,
    files: BTreeMap<String, Arc<[u8]>>,
    architecture: String,
    sms: u32,
    /// Whether the device runs its code, for each kernel.
    is_usable: Vec<bool>,
}

impl Bundle {
    /// Opens a bundle's folder for a device.
    ///
    /// # Errors
    /// [`RuntimeError::Bundle`]; [`RuntimeError::Device`].
    pub fn open(folder: &Path, device: &Device) -> Result<Self, RuntimeError> {
        Self::read(|name| read(&folder.join(name)), device)
    }

    /// Opens a bundle whose files `read` gives by name.
    ///
    /// # Errors
    /// [`RuntimeError::Bundle`].
    pub fn read(
        read: impl Fn(&str) -> io::Result<Vec<u8>>,
        device: &Device,
    ) -> Result<Self, RuntimeError> {
        let (manifest, files) = open_bundle(read)?;
        let capability = device.compute_capability;
        let target = |kernel: &BundledKernel| {
            files.get(&kernel.files.ptx.file).and_then(|ptx| PtxTarget::of(ptx))
        };
        let is_usable: Vec<bool> = manifest
            .kernels
            .iter()
            .map(|kernel| runs_on(kernel, target(kernel).as_ref(), capability))
            .collect();
        if !is_usable.is_empty() && !is_usable.contains(&true) {
            let cubins = manifest.kernels.iter().flat_map(|kernel| kernel.files.cubins.keys());
            let ptx = manifest.kernels.iter().filter_map(target);
            let code: BTreeSet<String> =
                cubins.cloned().chain(ptx.map(|target| target.described())).collect();
            return Err(RuntimeError::Device {
                device: device.name.clone(),
                architecture: capability.architecture(),
                code: code.into_iter().collect::<Vec<_>>().join(", "),
            });
        }
        Ok(Self {
            is_usable,
            manifest,
            files: files.into_iter().map(|(name, bytes)| (name, bytes.into())).collect(),
            architecture: device.compute_capability.architecture(),
            sms: device.sms,
        })
    }

    /// Its manifest.
    #[doc(hidden)]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Selects the kernel that was tuned for exactly this problem, else the one that the dispatch
    /// tree prefers, else the one with the lowest predicted time; of those whose launches a device supports and
    /// whose workspaces there is memory for.
    fn best(&self, question: &Question) -> Option<SelectedKernel> {
        let Question { problem, storage, workspace } = question;
        let Problem { shape, batch, .. } = problem;
        let (open, placed) = (open_values(problem, storage), placed_values(problem, storage));
        let pattern = StoredPattern::from(problem.pattern());
        let usable = self.manifest.kernels.iter().zip(&self.is_usable);
        let usable = usable.filter(|(_, is_usable)| **is_usable).map(|(kernel, _)| kernel);
        let fitting = usable.filter(|kernel| kernel.problem.pattern == pattern);
        let mut timed: Vec<(f64, &BundledKernel)> = fitting
            .map(|kernel| {
                let own = &kernel.problem;
                let is_own =
                    (own.m, own.n, own.k, own.batch) == (shape.m, shape.n, shape.k, *batch);
                let time = if kernel.tuned && is_own {
                    0.0
                } else {
                    kernel.expectation.cautious_us(shape, *batch, self.sms)
                };
                (time, kernel)
            })
            .collect();
        timed.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (exact, others): (Vec<_>, Vec<_>) =
            timed.into_iter().partition(|(time, _)| *time <= 0.0);
        let preferred = self.manifest.dispatch.iter().flat_map(|tree| tree.order(shape));
        let preferred = preferred.filter_map(|place| {
            let kernel = self.manifest.kernels.get(*place)?;
            let known = others.iter().find(|(_, other)| std::ptr::eq(*other, kernel))?;
            Some(*known)
        });
        let order: Vec<(f64, &BundledKernel)> =
            exact.into_iter().chain(preferred.collect::<Vec<_>>()).chain(others).collect();
        order.into_iter().find_map(|(_, kernel)| {
            let serves = kernel.serves.iter().all(|condition| condition.holds(&open));
            let chosen = serves.then(|| self.chosen(kernel, [&open, &placed])).flatten()?;
            let fits = chosen.workspace_bytes().is_some_and(|bytes| bytes <= *workspace);
            let plan = chosen.plan();
            let is_launchable =
                plan.check_limits().is_ok() && plan.check_maps(problem.types).is_ok();
            (fits && is_launchable).then_some(chosen)
        })
    }

    /// A kernel with its sizes for a problem: [`open_values`] and [`placed_values`].
    fn chosen(
        &self,
        kernel: &BundledKernel,
        [open, placed]: [&[i64; 7]; 2],
    ) -> Option<SelectedKernel> {
        let size = |formula: &Formula| u32::try_from(formula.value(open)?).ok();
        let three =
            |sizes: &[Formula; 3]| Some([size(&sizes[0])?, size(&sizes[1])?, size(&sizes[2])?]);
        let launches: Vec<SelectedLaunch> = kernel
            .launches
            .iter()
            .map(|launch| {
                Some(SelectedLaunch {
                    entry: launch.entry.clone(),
                    shape: LaunchShape {
                        grid: three(&launch.formulas.grid)?,
                        block: three(&launch.formulas.block)?,
                        dynamic_shared_bytes: size(&launch.formulas.dynamic_shared_bytes)?,
                        programmatic: launch.programmatic,
                    },
                    packs: launch.packs.clone(),
                    arguments: launch.arguments.clone(),
                })
            })
            .collect::<Option<_>>()?;
        let workspaces = kernel.workspaces.iter().map(|workspace| {
            let bytes = u64::try_from(workspace.formula.value(open)?).ok()?;
            Some((workspace.name.clone(), bytes))
        });
        let maps = kernel.tensor_maps.iter().map(|map| map.bound().ok()?.tensor_map(placed));
        let files = &kernel.files;
        let code = files.cubins.get(&self.architecture).unwrap_or(&files.ptx);
        Some(SelectedKernel {
            name: kernel.name.clone(),
            image: SelectedKernel::image_of(&code.file, &launches),
            source: None,
            workspaces: workspaces.collect::<Option<_>>()?,
            tensor_maps: maps.collect::<Option<_>>()?,
            launches,
        })
    }
}

impl Catalogue for Bundle {
    fn choose(&self, question: &Question) -> Result<SelectedKernel, RuntimeError> {
        self.best(question).ok_or_else(|| {
            let Question { problem, storage, workspace } = question;
            let Storage { lda, ldb, ldc, alignment } = storage;
            let is_packed = *storage == Storage::packed(problem);
            let stored =
                format!(" with rows of {lda}, {ldb} and {ldc} elements at {alignment} bytes");
            let mut storage = if is_packed { String::new() } else { stored };
            if *workspace != Question::ANY {
                storage.push_str(&format!(" and at most {workspace} bytes of workspace"));
            }
            RuntimeError::NoKernel { problem: problem.to_string(), storage }
        })
    }

    fn code(&self, chosen: &SelectedKernel) -> Result<Arc<[u8]>, RuntimeError> {
        let file = chosen.image.split(' ').next().unwrap_or_default();
        let missing = || BundleError::Unlisted(file.to_owned());
        Ok(self.files.get(file).cloned().ok_or_else(missing)?)
    }
}

/// The largest file of a bundle: more than any cubin, and more than a manifest of all records.
const MAX_BYTES: u64 = 256 << 20;

/// Reads a file of a bundle; refuses what is not a regular file or is too large.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let refuse = |why: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, format!("not a file of a bundle: {why}"))
    };
    if path.is_symlink() {
        return Err(refuse(&"it is a symbolic link"));
    }
    regular_file::read(path, MAX_BYTES, "a file of a bundle").map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => error,
        _ => refuse(&error),
    })
}
