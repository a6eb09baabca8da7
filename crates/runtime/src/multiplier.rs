//! Products of cudarc's slices with the kernels of a bundle, each operand checked.

#![expect(unsafe_code, reason = "kernels take the addresses of the checked slices")]

use std::fmt;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, DriverError, SyncOnDrop};

use crate::bundle::Bundle;
use crate::column_major::{check_columns, row_major};
use crate::error::RuntimeError;
use crate::gemm::Runtime;
use crate::gpu::{GpuError, Stream, check};
use crate::model::{EpilogueAddresses, EpilogueOp, Problem};
use crate::needed::Rows;
use crate::operands::{GemmOperands, SeparateC};
use crate::packing::{GemmFactor, PackedFactor};
use crate::slice_operands::{Operands, check_operands, described};
use crate::slices::DeviceOperand;

/// Kernels of a bundle in a CUDA context, for all threads and streams of it.
pub struct Multiplier {
    // Dropped before the context.
    runtime: Runtime<Bundle>,
    context: Arc<CudaContext>,
}

/// A slice that is a factor of products, packed where their kernel packs it.
#[derive(Debug)]
pub struct PackedSlice<'a> {
    // Dropped before the context.
    packed: PackedFactor,
    context: Arc<CudaContext>,
    slice: PhantomData<&'a dyn DeviceOperand>,
}

impl fmt::Debug for Multiplier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Multiplier")
            .field("device", &self.context.ordinal())
            .finish_non_exhaustive()
    }
}

impl Multiplier {
    /// Opens the folder of a bundle, for the device of a context. Kernels are loaded when a product first needs them.
    ///
    /// A bundle holds machine code: open only what you would run.
    ///
    /// # Errors
    /// [`RuntimeError::Bundle`] for a bundle that was changed; [`RuntimeError::Device`] for one without code for the
    /// device; [`RuntimeError::ContextLost`]; [`RuntimeError::Gpu`].
    pub fn open(context: &Arc<CudaContext>, folder: &Path) -> Result<Self, RuntimeError> {
        bind(context)?;
        Ok(Self { runtime: Runtime::open_bundle(folder)?, context: Arc::clone(context) })
    }

    /// The context that its kernels are loaded in.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Enqueues a product of row-major matrices in a stream, and returns without waiting.
    ///
    /// Extents may be 0, as in BLAS: nothing is done for an M, an N or a batch of 0. For a K or an alpha of 0, D is the
    /// epilogue of beta C, and A and B are not read.
    ///
    /// # Errors
    /// [`RuntimeError::OtherContext`], [`RuntimeError::WrongDtype`], [`RuntimeError::TooShort`] name the operand. The
    /// others say what is impossible or missing.
    pub fn multiply(
        &self,
        stream: &CudaStream,
        problem: &Problem,
        operands: Operands<'_>,
    ) -> Result<(), RuntimeError> {
        self.enqueue(stream, (problem, None), operands)
    }

    /// Enqueues a product of column-major matrices, as BLAS has them: A is stored M x K in columns of `lda` elements, or
    /// K x M where the layout says that it is transposed.
    ///
    /// The epilogue works on the memory of D. `bias` and `col-scale` have M values, one for each element of a column.
    /// `row-scale` has N values, one for each column. A `residual` or `mul` is stored as D is.
    ///
    /// # Errors
    /// As [`Multiplier::multiply`]; [`RuntimeError::Columns`].
    pub fn multiply_column_major(
        &self,
        stream: &CudaStream,
        problem: &Problem,
        operands: Operands<'_>,
    ) -> Result<(), RuntimeError> {
        let problem = row_major(problem);
        if let Some(leading_dimensions) = operands.leading_dimensions {
            check_columns(&problem, leading_dimensions)?;
        }
        self.multiply(stream, &problem, operands.swapped())
    }

    /// Packs a factor for products of one problem, as weights of a model: the kernel of some problems packs A or B in a
    /// launch of its own, which [`Multiplier::multiply_packed`] then leaves out. Waits until the factor is packed. The slice
    /// stays borrowed, so that the copy is never older than it.
    ///
    /// `leading_dimensions` are the elements from a row of A, B and D to the next, where these are not packed without gaps.
    ///
    /// # Errors
    /// As [`Multiplier::multiply`].
    pub fn prepack<'a>(
        &self,
        stream: &CudaStream,
        problem: &Problem,
        (factor, slice): (GemmFactor, &'a dyn DeviceOperand),
        leading_dimensions: Option<[u64; 3]>,
    ) -> Result<PackedSlice<'a>, RuntimeError> {
        bind(&self.context)?;
        let name = factor.name();
        for (operand, context) in [("the stream", stream.context()), (name, slice.context())] {
            if *context != self.context {
                return Err(RuntimeError::OtherContext { operand });
            }
        }
        let rows = match leading_dimensions {
            None => Rows::packed(problem),
            Some([lda, ldb, ldd]) => Rows { lda, ldb, ldd },
        };
        let (dtype, elements) = match factor {
            GemmFactor::A => (problem.types.a, rows.elements_of_a(problem)),
            GemmFactor::B => (problem.types.b, rows.elements_of_b(problem)),
        };
        described(name, slice).check(dtype, elements)?;
        let (address, read) = slice.read_on(stream);
        // The factor's address stands for the others, which packing does not access.
        let mut epilogue = EpilogueAddresses::default();
        problem.epilogue.operands().for_each(|operation| epilogue.set(operation, address));
        let Rows { lda, ldb, ldd } = rows;
        let packed = GemmOperands::packed(problem, address, address, address);
        let given = GemmOperands { lda, ldb, ldd, epilogue, ..packed };
        let raw = Stream::from_raw(stream.cu_stream().cast());
        // SAFETY: the context is current, and the stream and the slice belong to it. The slice is as long as the factor
        // and has its dtype; it stays borrowed.
        let packed = unsafe { self.runtime.prepack(raw, problem, &given, factor)? };
        drop(read);
        stream.synchronize().map_err(|error| driver_error("cuStreamSynchronize", error))?;
        let context = Arc::clone(&self.context);
        Ok(PackedSlice { packed, context, slice: PhantomData })
    }

    /// Enqueues a product of row-major matrices with a factor that [`Multiplier::prepack`] packed, for the problem that it was
    /// packed for. `operands` have the slice that was packed too.
    ///
    /// # Errors
    /// As [`Multiplier::multiply`]; [`RuntimeError::OtherFactor`].
    pub fn multiply_packed(
        &self,
        stream: &CudaStream,
        factor: &PackedSlice<'_>,
        operands: Operands<'_>,
    ) -> Result<(), RuntimeError> {
        if factor.context != self.context {
            return Err(RuntimeError::OtherContext { operand: "the packed factor" });
        }
        self.enqueue(stream, (&factor.packed.problem, Some(&factor.packed)), operands)
    }

    /// Selects and loads the kernel for a problem with packed operands in allocations of their own, so that the first
    /// product is as fast as the second. Returns the kernel's name; `nothing` where no kernel is needed.
    ///
    /// # Errors
    /// [`RuntimeError`].
    pub fn warm_up(&self, problem: &Problem) -> Result<String, RuntimeError> {
        bind(&self.context)?;
        // Addresses of allocations, which are not read.
        const ALIGNED: u64 = 1 << 8;
        let mut epilogue = EpilogueAddresses::default();
        problem.epilogue.operands().for_each(|operation| epilogue.set(operation, ALIGNED));
        let packed = GemmOperands::packed(problem, ALIGNED, ALIGNED, ALIGNED);
        self.runtime.warm_up(problem, &GemmOperands { epilogue, ..packed })
    }

    /// Enqueues a product of matrices at device addresses.
    ///
    /// # Errors
    /// [`RuntimeError`].
    ///
    /// # Safety
    /// The stream is one of [`Multiplier::context`]. The addresses are operands of the problem in device memory that
    /// kernels in this context may access, with the rows that `operands` says. Until the product has run, nothing else
    /// writes to them, and nothing else reads D.
    pub unsafe fn multiply_at(
        &self,
        stream: Stream,
        problem: &Problem,
        operands: &GemmOperands,
    ) -> Result<(), RuntimeError> {
        bind(&self.context)?;
        // SAFETY: the context is current; the rest is the caller's contract.
        unsafe { self.runtime.gemm(stream, problem, operands) }
    }

    /// The same for column-major matrices: see [`Multiplier::multiply_column_major`].
    ///
    /// # Errors
    /// [`RuntimeError`].
    ///
    /// # Safety
    /// As for [`Multiplier::multiply_at`].
    pub unsafe fn multiply_column_major_at(
        &self,
        stream: Stream,
        problem: &Problem,
        operands: &GemmOperands,
    ) -> Result<(), RuntimeError> {
        bind(&self.context)?;
        // SAFETY: the context is current; the rest is the caller's contract.
        unsafe { self.runtime.gemm_column_major(stream, problem, operands) }
    }

    /// Checks and enqueues a product, with a packed factor of it or without.
    fn enqueue(
        &self,
        stream: &CudaStream,
        (problem, packed): (&Problem, Option<&PackedFactor>),
        operands: Operands<'_>,
    ) -> Result<(), RuntimeError> {
        bind(&self.context)?;
        self.check_contexts(stream, &operands)?;
        let rows = match operands.leading_dimensions {
            None => Rows::packed(problem),
            Some([lda, ldb, ldd]) => Rows { lda, ldb, ldd },
        };
        check_operands(problem, &rows, &operands)?;
        let Operands { a, b, d, c, alpha, beta, epilogue, .. } = operands;
        let ((a, _a), (b, _b), (d, _d)) =
            (a.read_on(stream), b.read_on(stream), d.write_on(stream));
        let mut reads: [Option<SyncOnDrop<'_>>; EpilogueOp::ALL.len()] = [const { None }; _];
        let mut addresses = EpilogueAddresses::default();
        for operation in EpilogueOp::ALL.iter().copied() {
            if let Some(operand) = epilogue[operation as usize] {
                let (address, read) = operand.read_on(stream);
                addresses.set(operation, address);
                reads[operation as usize] = Some(read);
            }
        }
        let c = c.map(|(c, ldc)| (c.read_on(stream), ldc.unwrap_or(rows.ldd)));
        let separate =
            c.as_ref().map(|((address, _), ldc)| SeparateC { address: *address, ldc: *ldc });
        let Rows { lda, ldb, ldd } = rows;
        let given =
            GemmOperands { a, b, d, lda, ldb, ldd, alpha, beta, c: separate, epilogue: addresses };
        let stream = Stream::from_raw(stream.cu_stream().cast());
        // SAFETY: the context is current, and stream and slices belong to it. The slices are as long as the problem's
        // operands and have their dtypes. D is borrowed mutably, so that no other slice of this call overlaps it; the
        // values that `read_on` and `write_on` gave order the product among other work on the slices.
        // A factor was packed before `prepack` returned, and is borrowed since.
        unsafe {
            match packed {
                None => self.runtime.gemm(stream, problem, &given),
                Some(packed) => self.runtime.gemm_packed(stream, packed, &given),
            }
        }
    }

    /// Checks that the stream and all operands belong to the context of the kernels.
    fn check_contexts(
        &self,
        stream: &CudaStream,
        operands: &Operands<'_>,
    ) -> Result<(), RuntimeError> {
        let Operands { a, b, d, c, epilogue, names: [name_a, name_b], .. } = operands;
        let matrices =
            [("the stream", stream.context()), (name_a, a.context()), (name_b, b.context())];
        let others = [Some(("D", d.context())), c.as_ref().map(|(c, _)| ("C", c.context()))];
        let of_epilogue = EpilogueOp::ALL.iter().copied().filter_map(|operation| {
            let operand = epilogue[operation as usize]?;
            Some((operation.name(), operand.context()))
        });
        let all = matrices.into_iter().chain(others.into_iter().flatten()).chain(of_epilogue);
        for (operand, context) in all {
            if *context != self.context {
                return Err(RuntimeError::OtherContext { operand });
            }
        }
        Ok(())
    }
}

impl PackedSlice<'_> {
    /// Whether there is a packed copy. The kernel of some problems reads the factor where it lies, or packs both factors
    /// in one launch: products are then the same as without packing.
    pub fn is_packed(&self) -> bool {
        self.packed.is_packed()
    }
}

impl Drop for Multiplier {
    fn drop(&mut self) {
        // Kernels are unloaded in their context.
        bind_to_drop(&self.context);
    }
}

impl Drop for PackedSlice<'_> {
    fn drop(&mut self) {
        // The copy is freed in its context.
        bind_to_drop(&self.context);
    }
}

/// Makes a context current. An error of an earlier call is reported once and then forgotten; where the context is gone,
/// what was in it is too.
fn bind_to_drop(context: &CudaContext) {
    if context.bind_to_thread().is_err() {
        let _ = context.bind_to_thread();
    }
}

/// Makes a context current on this thread.
fn bind(context: &CudaContext) -> Result<(), RuntimeError> {
    context.bind_to_thread().map_err(|error| driver_error("cuCtxSetCurrent", error))
}

fn driver_error(call: &'static str, DriverError(status): DriverError) -> RuntimeError {
    // A status of success is no error of cudarc's.
    check(call, status).err().unwrap_or(GpuError::NoContext).into()
}
