//! cuBLAS, the baseline that found kernels are compared with, in strict binary32.
//!
//! Strict: each product is made of binary32 multiply-adds, nothing is rounded to tf32 or split
//! into bf16 pieces. Two settings ensure it, and both are made here: `CUBLAS_PEDANTIC_MATH` for
//! cuBLAS, which excludes every faster-but-different mode, and the compute types of `lt` for
//! cuBLASLt. Two environment variables change the arithmetic of programs that ask for less than
//! that: `NVIDIA_TF32_OVERRIDE`, which by its one documented value (0) only turns tf32 off, and
//! `CUBLAS_EMULATE_SINGLE_PRECISION`, which lets binary32 products be emulated in bf16. Whoever
//! starts the worker leaves both unset, so that no baseline depends on them.

#![expect(unsafe_code, reason = "cuBLAS is a C library")]

use std::error::Error;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::ptr;
use std::rc::Rc;

use cudarc::cublas::sys;
use cudarc::cublaslt;

use super::column_major::{ColumnMajor, Operand};
use super::driver::{Buffer, Context, Gpu};
use super::error::{GpuError, check_blas, require_symbols};
use super::lt::{self, Lt, LtPlan};
use crate::model::Problem;

/// The cuBLAS functions that this room calls.
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

/// Device memory that each library may use as scratch: what NVIDIA recommends for Hopper, where
/// cuBLAS takes as much by default. Given explicitly, it is not allocated during a measurement.
pub(super) const WORKSPACE_BYTES: u64 = 32 << 20;

/// cuBLAS and cuBLASLt on one GPU's stream.
#[derive(Debug)]
pub struct Blas {
    handle: Handle,
    lt: Lt,
    version: String,
}

/// A cuBLAS handle, with what it uses.
#[derive(Debug)]
struct Handle {
    raw: sys::cublasHandle_t,
    _workspace: Buffer,
    _context: Rc<Context>,
}

impl Blas {
    /// Opens cuBLAS and cuBLASLt: the first of `candidates` (absolute paths of `libcublas.so.*`)
    /// that loads together with the cuBLASLt beside it, or else what the dynamic linker finds.
    ///
    /// A `libcublas.so` without a number on the linker's path takes precedence even over the
    /// candidates (cudarc asks for that name first); [`Blas::version`] tells what was opened.
    ///
    /// # Errors
    /// [`GpuError::Library`] where there is none or it lacks a function;
    /// [`GpuError::OutOfMemory`] for the workspaces; [`GpuError::Call`].
    pub fn open(gpu: &Gpu, candidates: &[PathBuf]) -> Result<Self, GpuError> {
        find(candidates)?;
        // SAFETY: `find` succeeded, so cudarc finds both libraries and does not panic.
        let (blas, lt) = unsafe { (sys::culib(), cublaslt::sys::culib()) };
        let needed = "cuBLAS 12 or later is needed";
        require_symbols("libcublas", blas, SYMBOLS, needed)?;
        require_symbols("libcublasLt", lt, lt::SYMBOLS, needed)?;
        Ok(Self { handle: Handle::open(gpu)?, lt: Lt::open(gpu)?, version: version()? })
    }

    /// The version of the cuBLAS in use: `13.0.2`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether `problem` can be given to this baseline: binary32 throughout.
    pub fn supports(problem: &Problem) -> bool {
        ColumnMajor::supports(problem)
    }

    /// Puts C = alpha op(A) op(B) + beta C into the stream, by the kernel that cuBLAS picks; does
    /// not wait. `a`, `b` and `c` are device addresses of packed operands.
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

    /// Asks cuBLASLt for up to `count` ways to compute `problem`, best first by its own estimate.
    /// Empty where it has none.
    ///
    /// # Errors
    /// As [`Blas::sgemm`].
    pub fn lt_plans(&self, problem: &Problem, count: usize) -> Result<Vec<LtPlan>, GpuError> {
        self.lt.plans(problem, count)
    }

    /// Puts C = alpha op(A) op(B) + beta C into the stream, the way `plan` does it, for the
    /// problem that the plan was made for; does not wait. `a`, `b` and `c` are device addresses,
    /// multiples of 256.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`] for other addresses; [`GpuError::Call`].
    pub fn lt_run(
        &self,
        plan: &LtPlan,
        a: u64,
        b: u64,
        c: u64,
        alpha: f32,
        beta: f32,
    ) -> Result<(), GpuError> {
        self.lt.run(plan, [a, b, c], alpha, beta)
    }
}

impl Handle {
    fn open(gpu: &Gpu) -> Result<Self, GpuError> {
        let workspace = gpu.allocate(WORKSPACE_BYTES)?;
        let (stream, address) = (gpu.context.stream, workspace.address());
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is written; the GPU's context is current.
        check_blas("cublasCreate", unsafe { sys::cublasCreate_v2(&raw mut raw) })?;
        let context = Rc::clone(&gpu.context);
        let handle = Self { raw, _workspace: workspace, _context: context };
        // SAFETY: the handle keeps stream and workspace. The stream comes first: setting it
        // makes cuBLAS forget its workspace.
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

impl Drop for Handle {
    fn drop(&mut self) {
        // A failure is not looked at: after a kernel's fault every call fails.
        // SAFETY: destroyed once.
        unsafe { sys::cublasDestroy_v2(self.raw) };
    }
}

/// Loads the first candidate that can be loaded, for good: cudarc then opens the libraries by
/// name, and the dynamic linker gives it those of that name (SONAME) that are loaded already.
fn find(candidates: &[PathBuf]) -> Result<(), GpuError> {
    let mut reasons = Vec::new();
    for candidate in candidates {
        match preload(candidate) {
            Ok(()) => break,
            Err(why) => reasons.push(why),
        }
    }
    // Asked even after a candidate was loaded: one of a name that cudarc does not know is no use.
    // SAFETY: opens and closes the libraries, whose initialisers ask nothing of us.
    if unsafe { sys::is_culib_present() && cublaslt::sys::is_culib_present() } {
        return Ok(());
    }
    reasons.push("the dynamic linker finds no libcublas with its libcublasLt".to_owned());
    Err(GpuError::Library { name: "libcublas", why: reasons.join("; ") })
}

/// Loads `libcublas` at a path, and first the `libcublasLt` beside it, on which it depends.
fn preload(path: &Path) -> Result<(), String> {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let Some(suffix) = name.strip_prefix("libcublas.so") else {
        return Err(format!("`{}` is not named `libcublas.so`", path.display()));
    };
    for library in [&path.with_file_name(format!("libcublasLt.so{suffix}")), path] {
        // SAFETY: NVIDIA's initialisers ask nothing of us; the library is never unloaded.
        match unsafe { Library::open(Some(library.as_os_str()), RTLD_NOW | RTLD_GLOBAL) } {
            Ok(library) => std::mem::forget(library),
            // The loader's own words, which name the file and what is amiss, are the source.
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

/// How an operand is used, in the words of both libraries.
pub(super) fn operation(operand: Operand) -> sys::cublasOperation_t {
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
