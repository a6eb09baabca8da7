//! Products of cudarc's slices with the kernels of a bundle, each operand checked.

#![expect(unsafe_code, reason = "kernels take the addresses of the checked slices")]

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, DriverError, SyncOnDrop};

use crate::bundle::Bundle;
use crate::column_major::{check_columns, row_major};
use crate::error::RuntimeError;
use crate::gemm::Runtime;
use crate::gpu::{GpuError, Stream, check};
use crate::model::{EpilogueAddresses, EpilogueOp, Problem};
use crate::needed::{GivenOperand, Rows};
use crate::operands::{GemmOperands, SeparateC};
use crate::slices::{DeviceOperand, DeviceResult};

/// Kernels of a bundle in a CUDA context, for all threads and streams of it.
pub struct Multiplier {
    // Dropped before the context.
    runtime: Runtime<Bundle>,
    context: Arc<CudaContext>,
}

/// Operands of a product D = epilogue(alpha op(A) op(B) + beta C).
///
/// Without further calls, alpha is 1, beta is 0, rows have no gaps between them, and C lies in D.
pub struct Operands<'a> {
    a: &'a dyn DeviceOperand,
    b: &'a dyn DeviceOperand,
    d: &'a mut dyn DeviceResult,
    c: Option<(&'a dyn DeviceOperand, Option<u64>)>,
    leading_dimensions: Option<[u64; 3]>,
    alpha: f64,
    beta: f64,
    epilogue: [Option<&'a dyn DeviceOperand>; EpilogueOp::ALL.len()],
    /// Names of A and B in messages.
    names: [&'static str; 2],
}

impl<'a> Operands<'a> {
    /// A, B and D of a product.
    pub fn new(
        a: &'a dyn DeviceOperand,
        b: &'a dyn DeviceOperand,
        d: &'a mut dyn DeviceResult,
    ) -> Self {
        Self {
            a,
            b,
            d,
            c: None,
            leading_dimensions: None,
            alpha: 1.0,
            beta: 0.0,
            epilogue: [None; EpilogueOp::ALL.len()],
            names: ["A", "B"],
        }
    }

    /// Sets the factors of the product and of C. C is not read where beta is 0, and A and B are not where alpha is 0.
    #[must_use]
    pub fn scaled(self, alpha: f64, beta: f64) -> Self {
        Self { alpha, beta, ..self }
    }

    /// Sets the elements from a row of A, B and D to the next; in a column-major product, from a column to the next.
    #[must_use]
    pub fn leading_dimensions(self, lda: u64, ldb: u64, ldd: u64) -> Self {
        Self { leading_dimensions: Some([lda, ldb, ldd]), ..self }
    }

    /// Gives C in a slice of its own, whose rows lie as those of D do. It is copied to D before the product, unless beta
    /// is 0.
    #[must_use]
    pub fn with_c(self, c: &'a dyn DeviceOperand) -> Self {
        Self { c: Some((c, None)), ..self }
    }

    /// The same with `ldc` elements from a row of C to the next.
    #[must_use]
    pub fn with_c_rows(self, c: &'a dyn DeviceOperand, ldc: u64) -> Self {
        Self { c: Some((c, Some(ldc))), ..self }
    }

    /// Gives the operand of an operation of the problem's epilogue.
    #[must_use]
    pub fn with(mut self, operation: EpilogueOp, operand: &'a dyn DeviceOperand) -> Self {
        self.epilogue[operation as usize] = Some(operand);
        self
    }

    /// The operands of the row-major product with the same memory.
    fn swapped(self) -> Self {
        let Self { a, b, names: [name_a, name_b], leading_dimensions, .. } = self;
        let leading_dimensions = leading_dimensions.map(|[lda, ldb, ldd]| [ldb, lda, ldd]);
        Self { a: b, b: a, names: [name_b, name_a], leading_dimensions, ..self }
    }
}

impl fmt::Debug for Multiplier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Multiplier")
            .field("device", &self.context.ordinal())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Operands<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { alpha, beta, leading_dimensions, .. } = self;
        f.debug_struct("Operands")
            .field("alpha", alpha)
            .field("beta", beta)
            .field("leading_dimensions", leading_dimensions)
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
        // SAFETY: the context is current, and stream and slices belong to it. The slices are as long as the problem's
        // operands and have their dtypes. D is borrowed mutably, so that no other slice of this call overlaps it; the
        // values that `read_on` and `write_on` gave order the product among other work on the slices.
        unsafe { self.runtime.gemm(Stream::from_raw(stream.cu_stream().cast()), problem, &given) }
    }

    /// Enqueues a product of column-major matrices, as BLAS has them: A is stored M x K in columns of `lda` elements, or
    /// K x M where the layout says that it is transposed.
    ///
    /// The epilogue works on the memory of D: `bias` and `col-scale` have a value for each of the M elements of a column,
    /// `row-scale` has one for each of the N columns, and a `residual` or `mul` is stored as D is.
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

impl Drop for Multiplier {
    fn drop(&mut self) {
        // Kernels are unloaded in their context. An error of an earlier call is reported once and then forgotten; where
        // the context is gone, its modules are too.
        if self.context.bind_to_thread().is_err() {
            let _ = self.context.bind_to_thread();
        }
    }
}

/// Makes a context current on this thread.
fn bind(context: &CudaContext) -> Result<(), RuntimeError> {
    context.bind_to_thread().map_err(|DriverError(status)| {
        // A status of success is no error of cudarc's.
        check("cuCtxSetCurrent", status).err().unwrap_or(GpuError::NoContext).into()
    })
}

/// Checks dtypes and lengths of all operands.
fn check_operands(
    problem: &Problem,
    rows: &Rows,
    operands: &Operands<'_>,
) -> Result<(), RuntimeError> {
    let Operands { a, b, d, c, epilogue, names: [name_a, name_b], alpha, beta, .. } = operands;
    let types = problem.types;
    let nowhere = GemmOperands { alpha: *alpha, ..GemmOperands::packed(problem, 0, 0, 0) };
    let is_read = !nowhere.reads_no_factors(problem);
    let if_read = |elements: u64| if is_read { elements } else { 0 };
    described(name_a, *a).check(types.a, if_read(rows.elements_of_a(problem)))?;
    described(name_b, *b).check(types.b, if_read(rows.elements_of_b(problem)))?;
    let d = GivenOperand { name: "D", dtype: d.dtype(), elements: d.elements() };
    d.check(types.d, Rows::elements_of_d(problem, rows.ldd))?;
    if let Some((c, ldc)) = c {
        let elements = Rows::elements_of_d(problem, ldc.unwrap_or(rows.ldd));
        described("C", *c).check(types.d, if *beta == 0.0 { 0 } else { elements })?;
    }
    for operation in EpilogueOp::ALL.iter().copied() {
        let is_needed = problem.epilogue.operands().any(|needed| needed == operation);
        match (epilogue[operation as usize], is_needed) {
            (Some(operand), true) => {
                let elements = rows.elements_of_epilogue(problem, operation);
                described(operation.name(), operand)
                    .check(operation.operand_dtype(types), elements)?;
            }
            (None, true) => return Err(RuntimeError::MissingOperand { operation }),
            (Some(_), false) => return Err(RuntimeError::UnusedOperand { operation }),
            (None, false) => {}
        }
    }
    Ok(())
}

fn described(name: &'static str, operand: &dyn DeviceOperand) -> GivenOperand {
    GivenOperand { name, dtype: operand.dtype(), elements: operand.elements() }
}
