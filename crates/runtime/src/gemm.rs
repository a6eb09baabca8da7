//! Matrix products by problem: selects, loads and launches kernels.

#![expect(unsafe_code, reason = "operands are addresses here")]

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::bundle::Bundle;
use crate::catalogue::Catalogue;
use crate::column_major::{check_columns, row_major, row_major_operands};
use crate::driver::Driver;
use crate::error::RuntimeError;
use crate::gpu::{ForeignContext, KernelArgument, Stream};
use crate::model::{LaunchShape, Problem};
use crate::operands::GemmOperands;
use crate::prepared::{MAX_ARGUMENTS, PreparedKernel, WorkspaceAddresses, prepare};
use crate::question::Question;

/// Problems that are prepared before all are forgotten: a program with changing extents, such as lengths of
/// sequences, has thousands.
const MOST_PREPARED: usize = 4096;

/// Kernels for matrix products, prepared by problem.
pub struct Runtime<C: Catalogue, D: Driver = ForeignContext> {
    catalogue: C,
    pub(crate) driver: D,
    prepared: RwLock<HashMap<Question, Arc<PreparedKernel<D>>>>,
    /// Loaded kernels by image. The lock is held while a kernel is compiled and loaded, so that
    /// this happens once. Kernels are never unloaded: the program may have captured their launches
    /// in a CUDA graph, which would then run freed code. A bundle bounds them by its files, a
    /// database by its records and defaults for each set of constants that their code holds.
    images: Mutex<HashMap<String, Vec<D::KernelHandle>>>,
    /// Scratch memory by stream; the products of a stream share it.
    workspaces: Mutex<HashMap<Stream, D::Allocation>>,
}

/// Name of the kernel of a product that launches none.
pub(crate) const NOTHING: &str = "nothing";

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
    /// Extents may be 0, as in BLAS: nothing is done for an M, an N or a batch of 0. For a K or an alpha of 0, D is the
    /// epilogue of beta C, and A and B are not read.
    ///
    /// # Errors
    /// [`RuntimeError`].
    ///
    /// # Safety
    /// The context of the driver is current, and the stream is one of it. The addresses are operands of the problem in
    /// device memory of this context, with the rows that `operands` says. Until the product has run, nothing else writes
    /// to them, and nothing else reads D.
    pub unsafe fn gemm(
        &self,
        stream: Stream,
        problem: &Problem,
        operands: &GemmOperands,
    ) -> Result<(), RuntimeError> {
        if is_nothing(problem) {
            return Ok(());
        }
        operands.check(problem)?;
        let rows_of_c = operands.rows_of_c(problem)?;
        if operands.reads_no_factors(problem) {
            // SAFETY: as the caller's.
            return unsafe { self.gemm_without_factors(stream, problem, operands) };
        }
        let mut room = Question::ANY;
        loop {
            let question = Question::new(*problem, operands.storage()).within(room);
            let prepared = self.prepare(question)?;
            if let Some(rows) = rows_of_c.filter(|_| room == Question::ANY) {
                // SAFETY: C and D are the caller's.
                unsafe { self.driver.copy_rows(stream, &rows)? };
            }
            let mut workspaces = self.workspaces();
            let bytes = prepared.workspace_bytes;
            match self.lend(&mut workspaces, stream, bytes)? {
                // SAFETY: the operands are the caller's; the workspace is the stream's, and large enough.
                Some(workspace) => unsafe {
                    let workspaces = WorkspaceAddresses::at_one(workspace);
                    return self.launch(
                        stream,
                        (&prepared, LaunchPart::Whole),
                        problem,
                        operands,
                        workspaces,
                    );
                },
                // A kernel that needs less is used.
                None => room = bytes - 1,
            }
        }
    }

    /// Enqueues a product of column-major matrices, as BLAS has them. The epilogue works on the memory of D.
    /// `bias` and `col-scale` have M values, one for each element of a column. `row-scale` has N, one for each column.
    ///
    /// # Errors
    /// [`RuntimeError`].
    ///
    /// # Safety
    /// As for [`Runtime::gemm`], with columns where that has rows.
    pub unsafe fn gemm_column_major(
        &self,
        stream: Stream,
        problem: &Problem,
        operands: &GemmOperands,
    ) -> Result<(), RuntimeError> {
        let problem = row_major(problem);
        if !is_nothing(&problem) && !operands.reads_no_factors(&problem) {
            check_columns(&problem, [operands.lda, operands.ldb, operands.ldd])?;
        }
        // SAFETY: the same memory, by the caller's contract.
        unsafe { self.gemm(stream, &problem, &row_major_operands(operands)) }
    }

    /// Selects, compiles and loads the kernel for a problem, so that the first [`Runtime::gemm`] is
    /// as fast as the second. Returns the kernel's name; `nothing` where none is launched.
    ///
    /// # Errors
    /// [`RuntimeError`].
    pub fn warm_up(
        &self,
        problem: &Problem,
        operands: &GemmOperands,
    ) -> Result<String, RuntimeError> {
        if is_nothing(problem) {
            return Ok(NOTHING.to_owned());
        }
        operands.check(problem)?;
        if operands.reads_no_factors(problem) {
            return self.name_without_factors(problem, operands);
        }
        Ok(self.prepare(Question::new(*problem, operands.storage()))?.name.clone())
    }

    /// Number of problems that are prepared, for tests.
    #[doc(hidden)]
    pub fn prepared_problems(&self) -> usize {
        self.prepared.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The scratch memory. Locked until the last launch of a product that has some, because another product on the
    /// stream would use the same memory.
    pub(crate) fn workspaces(&self) -> MutexGuard<'_, HashMap<Stream, D::Allocation>> {
        self.workspaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address of scratch memory of a stream, which grows on demand; 0 for no bytes. `None` where the device has no
    /// memory left: the smaller allocation stays.
    pub(crate) fn lend(
        &self,
        workspaces: &mut HashMap<Stream, D::Allocation>,
        stream: Stream,
        bytes: u64,
    ) -> Result<Option<u64>, RuntimeError> {
        if bytes == 0 {
            return Ok(Some(0));
        }
        if let Some((address, size)) = workspaces.get(&stream).map(D::address_and_size)
            && size >= bytes
        {
            return Ok(Some(address));
        }
        match self.driver.allocate(bytes) {
            Ok(memory) => {
                let (address, _) = D::address_and_size(&memory);
                // Frees the smaller allocation once the device has finished with it.
                workspaces.insert(stream, memory);
                Ok(Some(address))
            }
            Err(error) if error.is_out_of_memory() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Selects and loads the kernel for a question, or finds it.
    pub(crate) fn prepare(
        &self,
        question: Question,
    ) -> Result<Arc<PreparedKernel<D>>, RuntimeError> {
        let known = self.prepared.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(prepared) = known.get(&question) {
            return Ok(Arc::clone(prepared));
        }
        drop(known);
        question.storage.check(&question.problem)?;
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
        let prepared = Arc::new(prepare(&question.problem, chosen, kernels)?);
        let mut known = self.prepared.write().unwrap_or_else(PoisonError::into_inner);
        // Kernels stay loaded: a problem that comes back is only selected again.
        if known.len() >= MOST_PREPARED {
            known.clear();
        }
        Ok(Arc::clone(known.entry(question).or_insert(prepared)))
    }

    /// Launches a prepared kernel.
    ///
    /// # Safety
    /// As for [`Runtime::gemm`]; `workspace` is the address of as many bytes as the kernel needs, which nothing else uses
    /// until it has run.
    pub(crate) unsafe fn launch(
        &self,
        stream: Stream,
        (prepared, part): (&PreparedKernel<D>, LaunchPart),
        problem: &Problem,
        operands: &GemmOperands,
        workspaces: WorkspaceAddresses,
    ) -> Result<(), RuntimeError> {
        let maps = prepared.maps.encoded(&self.driver, operands, workspaces)?;
        let maps = maps.as_deref().unwrap_or_default();
        let mut arguments = [KernelArgument::I32(0); MAX_ARGUMENTS];
        // Where the first launch of all may begin early, all of them wait for whatever precedes the product. Elsewhere they
        // wait for launches of the product only.
        let begins_early = prepared.launches.first().is_some_and(|first| first.shape.programmatic);
        let mut is_first = true;
        for launch in prepared.launches.iter().filter(|launch| part.has(launch.packs.is_some())) {
            let programmatic = launch.shape.programmatic && (begins_early || !is_first);
            is_first = false;
            for (argument, slot) in arguments.iter_mut().zip(&launch.slots) {
                *argument = slot.value(problem, operands, workspaces);
            }
            let given = &arguments[..launch.slots.len()];
            // SAFETY: kernels of a catalogue access the operands of their problem and their workspaces.
            unsafe {
                let shape = LaunchShape { programmatic, ..launch.shape };
                self.driver.launch(stream, &launch.kernel, shape, given, maps)?;
            }
        }
        Ok(())
    }
}

/// Which launches of a kernel are launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaunchPart {
    /// All of them.
    Whole,
    /// Those that only pack operands.
    Packing,
    /// The others.
    Rest,
}

impl LaunchPart {
    fn has(self, packs: bool) -> bool {
        match self {
            Self::Whole => true,
            Self::Packing => packs,
            Self::Rest => !packs,
        }
    }
}

/// Whether D has no elements.
pub(crate) fn is_nothing(problem: &Problem) -> bool {
    problem.shape.m == 0 || problem.shape.n == 0 || problem.batch == 0
}
