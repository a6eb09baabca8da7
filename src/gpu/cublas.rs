//! cuBLAS, the baseline for tuned kernels, in strict binary32.
//!
//! Strict: each product consists of binary32 multiply-adds, and nothing is rounded to tf32 or split
//! into bf16 pieces. Two settings ensure this: `CUBLAS_PEDANTIC_MATH` for cuBLAS, which excludes
//! every faster mode with other results, and the compute types in `cublas_lt` for cuBLASLt. Two
//! environment variables change the arithmetic of less strict programs. `NVIDIA_TF32_OVERRIDE`
//! turns tf32 off by its one documented value (0), and `CUBLAS_EMULATE_SINGLE_PRECISION` allows
//! emulation in bf16. The parent process unsets both for the worker, so that no baseline depends on
//! them.

#![expect(unsafe_code, reason = "cuBLAS is a C library")]

use std::error::Error;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::ptr;
use std::rc::Rc;

use cudarc::cublas::sys;
use cudarc::cublaslt;

use super::column_major::{ColumnMajor, ColumnMajorOperand};
use super::context::{CudaDevice, PrimaryContext};
use super::cublas_lt::{self, CublasLt, CublasLtPlan};
use super::error::{GpuError, check_blas, require_symbols};
use super::memory::DeviceBuffer;
use crate::model::Problem;

/// cuBLAS functions that this room calls.
pub(super) const SYMBOLS: &[&str] = &[
    "cublasCreate_v2",
    "cublasDestroy_v2",
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

    /// Whether this baseline computes `problem`: binary32 throughout.
    pub fn supports(problem: &Problem) -> bool {
        ColumnMajor::supports(problem)
    }

    /// Enqueues C = alpha op(A) op(B) + beta C with the kernel that cuBLAS selects; does not wait.
    /// `a`, `b` and `c` are device addresses of packed operands.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`] for other arithmetic and for extents beyond 32 bits;
    /// [`GpuError::Call`].
    pub fn sgemm(
        &self,
        problem: &Problem,
        a: u64,
        b: u64,
        c: u64,
        alpha: f32,
        beta: f32,
    ) -> Result<(), GpuError> {
        let gemm = ColumnMajor::of(problem, "libcublas")?;
        let ColumnMajor { m, n, k, first, second, result, batch } = gemm;
        let handle = self.handle.raw;
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

    /// Requests up to `count` algorithms for `problem` from cuBLASLt, best first by its own
    /// estimate; empty if it has none.
    ///
    /// # Errors
    /// As [`Cublas::sgemm`].
    pub fn lt_plans(&self, problem: &Problem, count: usize) -> Result<Vec<CublasLtPlan>, GpuError> {
        self.lt.plans(problem, count)
    }

    /// Enqueues C = alpha op(A) op(B) + beta C with the algorithm of `plan`, for the problem of the
    /// plan; does not wait. `a`, `b` and `c` are device addresses, multiples of 256.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`] for other addresses; [`GpuError::Call`].
    pub fn lt_run(
        &self,
        plan: &CublasLtPlan,
        a: u64,
        b: u64,
        c: u64,
        alpha: f32,
        beta: f32,
    ) -> Result<(), GpuError> {
        self.lt.run(plan, [a, b, c], alpha, beta)
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
            let mode = sys::cublasMath_t::CUBLAS_PEDANTIC_MATH;
            check_blas("cublasSetMathMode", sys::cublasSetMathMode(raw, mode))?;
        }
        Ok(handle)
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
