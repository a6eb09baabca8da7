//! Matrix products by problem: selects, loads and launches kernels.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::bundle::Bundle;
use super::catalogue::Catalogue;
use super::driver::Driver;
use super::error::RuntimeError;
use super::operands::GemmOperands;
use super::prepared::{MAX_ARGUMENTS, PreparedKernel, prepare};
use crate::gpu::{ForeignContext, KernelArgument, Stream};
use crate::lookup::Question;
use crate::model::{Problem, Shape};

/// Problems that are prepared before all are forgotten: a program with changing extents, such as lengths of
/// sequences, has thousands.
const MOST_PREPARED: usize = 4096;

/// Kernels for matrix products, prepared by problem.
pub struct Runtime<C: Catalogue, D: Driver = ForeignContext> {
    catalogue: C,
    driver: D,
    prepared: RwLock<HashMap<Question, Arc<PreparedKernel<D>>>>,
    /// Loaded kernels by image. The lock is held while a kernel is compiled and loaded, so that
    /// this happens once. Kernels are never unloaded: the program may have captured their launches
    /// in a CUDA graph, which would then run freed code. A bundle bounds them by its files, a
    /// database by its records and defaults for each set of constants that their code holds.
    images: Mutex<HashMap<String, Vec<D::KernelHandle>>>,
    /// Scratch memory by stream; the products of a stream share it.
    workspaces: Mutex<HashMap<Stream, D::Allocation>>,
}

impl Runtime<Bundle> {
    /// Opens a bundle for the GPU whose context is current.
    ///
    /// # Errors
    /// [`RuntimeError`].
    pub fn open_bundle(folder: &Path) -> Result<Self, RuntimeError> {
        let context = ForeignContext::enter()?;
        let bundle = Bundle::open(folder, context.device())?;
        Ok(Self::new(bundle, context))
    }
}

impl<C: Catalogue, D: Driver> Runtime<C, D> {
    /// Takes kernels from a catalogue; a driver loads and launches them.
    pub fn new(catalogue: C, driver: D) -> Self {
        Self {
            catalogue,
            driver,
            prepared: RwLock::default(),
            images: Mutex::default(),
            workspaces: Mutex::default(),
        }
    }

    /// Enqueues a product in the stream and returns without waiting.
    ///
    /// The addresses must be operands of the problem in the current context. They are not checked:
    /// a kernel with wrong addresses accesses invalid memory. Nothing is done for an M, an N or a batch of 0; a K of 0
    /// is an error, where the C library fills D.
    ///
    /// # Errors
    /// [`RuntimeError`].
    pub fn gemm(
        &self,
        stream: Stream,
        problem: &Problem,
        operands: &GemmOperands,
    ) -> Result<(), RuntimeError> {
        let Shape { m, n, .. } = problem.shape;
        if m == 0 || n == 0 || problem.batch == 0 {
            return Ok(());
        }
        let rows_of_c = operands.rows_of_c(problem)?;
        let mut room = Question::ANY;
        loop {
            let prepared = self.prepare(problem, operands, room)?;
            if let Some(rows) = rows_of_c.filter(|_| room == Question::ANY) {
                self.driver.copy_rows(stream, &rows)?;
            }
            if prepared.workspace_bytes == 0 {
                return self.launch(stream, &prepared, problem, operands, 0);
            }
            // Locked until the last launch, because another product on this stream would use the same
            // memory.
            let mut workspaces = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
            let known = workspaces.get(&stream).map(D::address_and_size);
            let address = match known {
                Some((address, bytes)) if bytes >= prepared.workspace_bytes => address,
                _ => match self.driver.allocate(prepared.workspace_bytes) {
                    Ok(memory) => {
                        let (address, _) = D::address_and_size(&memory);
                        // Frees the smaller allocation once the device has finished with it.
                        workspaces.insert(stream, memory);
                        address
                    }
                    // The smaller allocation stays, and a kernel that needs less is used.
                    Err(error) if error.is_out_of_memory() => {
                        room = prepared.workspace_bytes - 1;
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                },
            };
            return self.launch(stream, &prepared, problem, operands, address);
        }
    }

    /// Selects, compiles and loads the kernel for a problem, so that the first [`Runtime::gemm`] is
    /// as fast as the second. Returns the kernel's name.
    ///
    /// # Errors
    /// [`RuntimeError`].
    pub fn warm_up(
        &self,
        problem: &Problem,
        operands: &GemmOperands,
    ) -> Result<String, RuntimeError> {
        Ok(self.prepare(problem, operands, Question::ANY)?.name.clone())
    }

    /// Number of problems that are prepared.
    #[cfg(test)]
    pub(super) fn prepared_problems(&self) -> usize {
        self.prepared.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn prepare(
        &self,
        problem: &Problem,
        operands: &GemmOperands,
        workspace: u64,
    ) -> Result<Arc<PreparedKernel<D>>, RuntimeError> {
        operands.check(problem)?;
        let question = Question::new(*problem, operands.storage()).within(workspace);
        let known = self.prepared.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(prepared) = known.get(&question) {
            return Ok(Arc::clone(prepared));
        }
        drop(known);
        question.storage.check(problem)?;
        let chosen = self.catalogue.choose(&question)?;
        let mut images = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        let kernels = match images.get(&chosen.image) {
            Some(kernels) => kernels.clone(),
            None => {
                let code = self.catalogue.code(&chosen)?;
                let entries: Vec<(&str, u32)> = chosen
                    .launches
                    .iter()
                    .map(|launch| (launch.entry.as_str(), launch.shape.dynamic_shared_bytes))
                    .collect();
                let kernels = self.driver.load(&code, &entries)?;
                images.insert(chosen.image.clone(), kernels.clone());
                kernels
            }
        };
        drop(images);
        let prepared = Arc::new(prepare(problem, chosen, kernels)?);
        let mut known = self.prepared.write().unwrap_or_else(PoisonError::into_inner);
        // Kernels stay loaded: a problem that comes back is only selected again.
        if known.len() >= MOST_PREPARED {
            known.clear();
        }
        Ok(Arc::clone(known.entry(question).or_insert(prepared)))
    }

    fn launch(
        &self,
        stream: Stream,
        prepared: &PreparedKernel<D>,
        problem: &Problem,
        operands: &GemmOperands,
        workspace: u64,
    ) -> Result<(), RuntimeError> {
        let maps = prepared.maps.encoded(&self.driver, operands, workspace)?;
        let maps = maps.as_deref().unwrap_or_default();
        let mut arguments = [KernelArgument::I32(0); MAX_ARGUMENTS];
        for launch in &prepared.launches {
            for (argument, slot) in arguments.iter_mut().zip(&launch.slots) {
                *argument = slot.value(problem, operands, workspace);
            }
            let given = &arguments[..launch.slots.len()];
            self.driver.launch(stream, &launch.kernel, launch.shape, given, maps)?;
        }
        Ok(())
    }
}
