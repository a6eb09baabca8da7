//! Kernels of a bundle, which are already compiled.

use crate::database::StoredPattern;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::catalogue::{Catalogue, SelectedKernel, SelectedLaunch};
use super::error::RuntimeError;
use crate::compile::Architecture;
use crate::export::{BundleError, BundledKernel, Manifest, open_bundle};
use crate::files::{self, InputKind};
use crate::lookup::Question;
use crate::model::{Device, LaunchShape, Problem, Storage};
use crate::space::Formula;
use crate::space::formula::{open_values, placed_values};

/// A bundle in memory.
#[derive(Debug)]
pub struct Bundle {
    manifest: Manifest,
    files: BTreeMap<String, Arc<[u8]>>,
    architecture: String,
    sms: u32,
}

impl Bundle {
    /// Opens a bundle's folder for a device.
    ///
    /// # Errors
    /// [`RuntimeError::Bundle`].
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
        Ok(Self {
            manifest,
            files: files.into_iter().map(|(name, bytes)| (name, bytes.into())).collect(),
            architecture: Architecture::from(device.compute_capability).to_string(),
            sms: device.sms,
        })
    }

    /// Its manifest.
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
        let kernels = self.manifest.kernels.iter();
        let fitting = kernels.filter(|kernel| kernel.problem.pattern == pattern);
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

/// Reads a file of a bundle; refuses what is not a regular file or is too large.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let refuse = |why: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, format!("not a file of a bundle: {why}"))
    };
    if path.is_symlink() {
        return Err(refuse(&"it is a symbolic link"));
    }
    files::read(path, InputKind::Bundle).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => error,
        _ => refuse(&error),
    })
}
