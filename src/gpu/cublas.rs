//! cuBLAS, the baseline for tuned kernels.
//!
//! A strict f32 product consists of binary32 multiply-adds, and nothing is rounded to tf32 or split
//! into bf16 pieces. Two settings ensure this: `CUBLAS_PEDANTIC_MATH` for cuBLAS, which excludes
//! every faster mode with other results, and the compute types in `cublas_lt` for cuBLASLt. Products
//! of 16-bit operands are summed in binary32, and parts of a sum are not rounded to 16 bits. The
//! parent process unsets the environment variables that would change either
//! ([`LIBRARY_VARIABLES`](crate::process::LIBRARY_VARIABLES)), so that no baseline depends on them.

#![expect(unsafe_code, reason = "cuBLAS is a C library")]

use std::error::Error;
use std::ffi::{OsStr, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::rc::Rc;

use cudarc::cublas::sys;
use cudarc::cublaslt;

use super::column_major::{ColumnMajor, ColumnMajorOperand};
use super::context::{CudaDevice, PrimaryContext};
use super::cublas_lt::{self, CublasLt, CublasLtPlan};
use super::error::{GpuError, check_blas, require_symbols};
use super::library_call::{LibraryCall, LibraryOperands, LibraryPrecision};
use super::memory::DeviceBuffer;
use crate::model::{Dtype, Problem};

/// cuBLAS functions that this room calls.
pub(super) const SYMBOLS: &[&str] = &[
    "cublasCreate_v2",
    "cublasDestroy_v2",
    "cublasGemmEx",
    "cublasGemmStridedBatchedEx",
    "cublasGetProperty",
    "cublasGetStatusName",
    "cublasGetStatusString",
    "cublasSetMathMode",
    "cublasSetStream_v2",
    "cublasSetWorkspace_v2",
    "cublasSgemmStridedBatched",
    "cublasSgemm_v2",
];

/// Scratch memory for each library: NVIDIA's recommendation for Hopper, which is also cuBLAS's
/// default. Passed explicitly, it is not allocated during a measurement.
pub(super) const WORKSPACE_BYTES: u64 = 32 << 20;

/// cuBLAS and cuBLASLt on one GPU's stream.
#[derive(Debug)]
pub struct Cublas {
    handle: CublasHandle,
    lt: CublasLt,
    version: String,
}

/// A cuBLAS handle, with its workspace and context.
#[derive(Debug)]
struct CublasHandle {
    raw: sys::cublasHandle_t,
    _workspace: DeviceBuffer,
    _context: Rc<PrimaryContext>,
}

impl Cublas {
    /// Opens cuBLAS and cuBLASLt: the first of `candidates` (absolute paths of `libcublas.so.*`)
    /// that loads together with the cuBLASLt beside it, else the one that the dynamic linker finds.
    ///
    /// A `libcublas.so` without a number on the linker's path takes precedence even over the
    /// candidates, since cudarc tries that name first. [`Cublas::version`] reports the opened one.
    ///
    /// # Errors
    /// [`GpuError::Library`] for a missing or incomplete library; [`GpuError::OutOfMemory`] for the
    /// workspaces; [`GpuError::Call`].
    pub fn open(gpu: &CudaDevice, candidates: &[PathBuf]) -> Result<Self, GpuError> {
        find(candidates)?;
        // SAFETY: `find` succeeded, so cudarc finds both libraries and does not panic.
        let (blas, lt) = unsafe { (sys::culib(), cublaslt::sys::culib()) };
        let needed = "cuBLAS 12 or later is needed";
        require_symbols("libcublas", blas, SYMBOLS, needed)?;
        require_symbols("libcublasLt", lt, cublas_lt::SYMBOLS, needed)?;
        Ok(Self { handle: CublasHandle::open(gpu)?, lt: CublasLt::open(gpu)?, version: version()? })
    }

    /// The version of the cuBLAS in use: `13.0.2`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Why no library routine computes `problem`; `None` where one does.
    pub fn refusal(problem: &Problem) -> Option<GpuError> {
        LibraryCall::of(problem).err()
    }

    /// Whether cuBLAS itself computes `problem`: it fuses no epilogue.
    pub fn has_routine(problem: &Problem) -> bool {
        LibraryCall::of(problem).is_ok_and(|call| call.is_plain())
    }

    /// Enqueues C = alpha op(A) op(B) + beta C with the kernel that cuBLAS selects; does not wait.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`] for other dtypes, an epilogue, and extents beyond 32 bits;
    /// [`GpuError::Call`].
    pub fn gemm(
        &self,
        problem: &Problem,
        operands: LibraryOperands,
        [alpha, beta]: [f32; 2],
    ) -> Result<(), GpuError> {
        let call = LibraryCall::of(problem)?;
        if !call.is_plain() {
            let what = format!("`{}` is an epilogue of cuBLASLt only", problem.epilogue);
            return Err(GpuError::Unsupported { library: "libcublas", what });
        }
        let gemm = ColumnMajor::of(problem, "libcublas")?;
        self.handle.set_math_mode(call.precision)?;
        match call.precision {
            LibraryPrecision::StrictF32 => self.handle.sgemm(&gemm, operands, [alpha, beta]),
            LibraryPrecision::I32 => {
                // The scalars that are used are small integers.
                let scalars = [alpha as i32, beta as i32];
                self.handle.gemm_ex(&gemm, call, operands, &scalars)
            }
            LibraryPrecision::Tf32 | LibraryPrecision::F32 => {
                self.handle.gemm_ex(&gemm, call, operands, &[alpha, beta])
            }
        }
    }

    /// Requests up to `count` algorithms for `problem` from cuBLASLt, best first by its own
    /// estimate; empty if it has none.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`] where no routine computes the problem; [`GpuError::Call`].
    pub fn lt_plans(&self, problem: &Problem, count: usize) -> Result<Vec<CublasLtPlan>, GpuError> {
        self.lt.plans(problem, count)
    }

    /// Enqueues D = epilogue(alpha op(A) op(B) + beta C) with the algorithm of `plan`, for the
    /// problem of the plan; does not wait. D is C.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`] for addresses that are no multiples of 256; [`GpuError::Call`].
    pub fn lt_run(
        &self,
        plan: &CublasLtPlan,
        operands: LibraryOperands,
        scalars: [f32; 2],
    ) -> Result<(), GpuError> {
        self.lt.run(plan, operands, scalars)
    }
}

impl CublasHandle {
    fn open(gpu: &CudaDevice) -> Result<Self, GpuError> {
        let workspace = gpu.allocate(WORKSPACE_BYTES)?;
        let (stream, address) = (gpu.context.stream, workspace.address());
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is written; the GPU's context is current.
        check_blas("cublasCreate", unsafe { sys::cublasCreate_v2(&raw mut raw) })?;
        let context = Rc::clone(&gpu.context);
        let handle = Self { raw, _workspace: workspace, _context: context };
        // SAFETY: the handle keeps stream and workspace. The stream is set first, because setting
        // it resets the workspace.
        unsafe {
            check_blas("cublasSetStream", sys::cublasSetStream_v2(raw, stream.cast()))?;
            check_blas(
                "cublasSetWorkspace",
                sys::cublasSetWorkspace_v2(raw, address as *mut _, WORKSPACE_BYTES as usize),
            )?;
        }
        Ok(handle)
    }

    fn set_math_mode(&self, precision: LibraryPrecision) -> Result<(), GpuError> {
        use sys::cublasMath_t as Mode;

        let mode = match precision {
            LibraryPrecision::StrictF32 => Mode::CUBLAS_PEDANTIC_MATH,
            _ => Mode::CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION,
        };
        // SAFETY: the handle is valid.
        check_blas("cublasSetMathMode", unsafe { sys::cublasSetMathMode(self.raw, mode) })
    }

    fn sgemm(
        &self,
        gemm: &ColumnMajor,
        operands: LibraryOperands,
        [alpha, beta]: [f32; 2],
    ) -> Result<(), GpuError> {
        let ColumnMajor { m, n, k, first, second, result, batch } = *gemm;
        let handle = self.raw;
        let LibraryOperands { a, b, c, bias: _ } = operands;
        let [a, b, c] = [a, b, c].map(|address| address as *mut f32);
        let (first_ld, second_ld) = (first.leading_dimension(), second.leading_dimension());
        if batch == 1 {
            // SAFETY: the factors live until the call returns; the rest is device memory.
            check_blas("cublasSgemm", unsafe {
                sys::cublasSgemm_v2(
                    handle,
                    operation(first),
                    operation(second),
                    m,
                    n,
                    k,
                    &raw const alpha,
                    b,
                    first_ld,
                    a,
                    second_ld,
                    &raw const beta,
                    c,
                    result.leading_dimension(),
                )
            })
        } else {
            // SAFETY: the factors live until the call returns; the rest is device memory.
            check_blas("cublasSgemmStridedBatched", unsafe {
                sys::cublasSgemmStridedBatched(
                    handle,
                    operation(first),
                    operation(second),
                    m,
                    n,
                    k,
                    &raw const alpha,
                    b,
                    first_ld,
                    first.stride,
                    a,
                    second_ld,
                    second.stride,
                    &raw const beta,
                    c,
                    result.leading_dimension(),
                    result.stride,
                    batch,
                )
            })
        }
    }

    /// `scalars` are alpha and beta, in the precision of the call.
    fn gemm_ex<S>(
        &self,
        gemm: &ColumnMajor,
        call: LibraryCall,
        operands: LibraryOperands,
        [alpha, beta]: &[S; 2],
    ) -> Result<(), GpuError> {
        let ColumnMajor { m, n, k, first, second, result, batch } = *gemm;
        let handle = self.raw;
        let LibraryOperands { a, b, c, bias: _ } = operands;
        let [a, b, c] = [a, b, c].map(|address| address as *mut c_void);
        let (ab, d) = (data_type(call.ab), data_type(call.d));
        let (first_ld, second_ld) = (first.leading_dimension(), second.leading_dimension());
        let [alpha, beta] = [ptr::from_ref(alpha).cast(), ptr::from_ref(beta).cast()];
        let algorithm = sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT;
        let compute = compute_type(call.precision);
        if batch == 1 {
            // SAFETY: the factors live until the call returns; the rest is device memory.
            check_blas("cublasGemmEx", unsafe {
                sys::cublasGemmEx(
                    handle,
                    operation(first),
                    operation(second),
                    m,
                    n,
                    k,
                    alpha,
                    b,
                    ab,
                    first_ld,
                    a,
                    ab,
                    second_ld,
                    beta,
                    c,
                    d,
                    result.leading_dimension(),
                    compute,
                    algorithm,
                )
            })
        } else {
            // SAFETY: the factors live until the call returns; the rest is device memory.
            check_blas("cublasGemmStridedBatchedEx", unsafe {
                sys::cublasGemmStridedBatchedEx(
                    handle,
                    operation(first),
                    operation(second),
                    m,
                    n,
                    k,
                    alpha,
                    b,
                    ab,
                    first_ld,
                    first.stride,
                    a,
                    ab,
                    second_ld,
                    second.stride,
                    beta,
                    c,
                    d,
                    result.leading_dimension(),
                    result.stride,
                    batch,
                    compute,
                    algorithm,
                )
            })
        }
    }
}

impl Drop for CublasHandle {
    fn drop(&mut self) {
        // A failure is ignored: after a kernel's fault every call fails.
        // SAFETY: destroyed once.
        unsafe { sys::cublasDestroy_v2(self.raw) };
    }
}

/// Loads the first loadable candidate permanently. cudarc then opens the libraries by name, and the
/// dynamic linker returns those of that name (SONAME) that are loaded.
fn find(candidates: &[PathBuf]) -> Result<(), GpuError> {
    let mut reasons = Vec::new();
    for candidate in candidates {
        match preload(candidate) {
            Ok(()) => break,
            Err(why) => reasons.push(why),
        }
    }
    // Checked even after a candidate was loaded: cudarc may not know its name.
    // SAFETY: opens and closes the libraries, whose initialisers have no preconditions.
    if unsafe { sys::is_culib_present() && cublaslt::sys::is_culib_present() } {
        return Ok(());
    }
    reasons.push("the dynamic linker finds no libcublas with its libcublasLt".to_owned());
    Err(GpuError::Library { name: "libcublas", why: reasons.join("; ") })
}

/// Loads `libcublas` at a path, after the `libcublasLt` beside it, on which it depends.
fn preload(path: &Path) -> Result<(), String> {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let Some(suffix) = name.strip_prefix("libcublas.so") else {
        return Err(format!("`{}` is not named `libcublas.so`", path.display()));
    };
    for library in [&path.with_file_name(format!("libcublasLt.so{suffix}")), path] {
        // SAFETY: NVIDIA's initialisers have no preconditions; the library is never unloaded.
        match unsafe { Library::open(Some(library.as_os_str()), RTLD_NOW | RTLD_GLOBAL) } {
            Ok(library) => std::mem::forget(library),
            // The source has the loader's message, which names the file and the fault.
            Err(error) => {
                return Err(error.source().map_or_else(|| error.to_string(), ToString::to_string));
            }
        }
    }
    Ok(())
}

fn version() -> Result<String, GpuError> {
    let part = |part: sys::libraryPropertyType| {
        let mut value = 0;
        // SAFETY: `value` is written.
        let status = unsafe { sys::cublasGetProperty(part, &raw mut value) };
        check_blas("cublasGetProperty", status).map(|()| value)
    };
    let major = part(sys::libraryPropertyType::MAJOR_VERSION)?;
    let minor = part(sys::libraryPropertyType::MINOR_VERSION)?;
    let patch = part(sys::libraryPropertyType::PATCH_LEVEL)?;
    Ok(format!("{major}.{minor}.{patch}"))
}

/// Transposition flag of an operand, shared by both libraries.
pub(super) fn operation(operand: ColumnMajorOperand) -> sys::cublasOperation_t {
    match operand.transposed {
        false => sys::cublasOperation_t::CUBLAS_OP_N,
        true => sys::cublasOperation_t::CUBLAS_OP_T,
    }
}

fn data_type(dtype: Dtype) -> sys::cudaDataType {
    match dtype {
        Dtype::F32 => sys::cudaDataType::CUDA_R_32F,
        Dtype::F16 => sys::cudaDataType::CUDA_R_16F,
        Dtype::Bf16 => sys::cudaDataType::CUDA_R_16BF,
        Dtype::I8 => sys::cudaDataType::CUDA_R_8I,
        Dtype::I32 => sys::cudaDataType::CUDA_R_32I,
    }
}

fn compute_type(precision: LibraryPrecision) -> sys::cublasComputeType_t {
    match precision {
        LibraryPrecision::StrictF32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_PEDANTIC,
        LibraryPrecision::Tf32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
        LibraryPrecision::F32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
        LibraryPrecision::I32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32I,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_names_what_was_tried() {
        let directory = tempfile::tempdir().unwrap();
        let library = directory.path().join("libcublas.so.13");
        std::fs::write(&library, "no library").unwrap();
        let why = preload(&library).unwrap_err();
        assert!(why.contains("libcublasLt.so.13: cannot open"), "{why}");
        assert!(preload(Path::new("libm.so.6")).unwrap_err().contains("is not named"));
    }
}
