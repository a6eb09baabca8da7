//! cuBLASLt: the product of `cublas`, by every algorithm that NVIDIA's heuristic proposes, with the
//! epilogue that the library fuses. A tuned kernel is thus compared with the library's best, not
//! only with its first choice.
//!
//! Strict f32 has the compute type `CUBLAS_COMPUTE_32F_PEDANTIC`. Problems without pedantic kernels
//! use `CUBLAS_COMPUTE_32F`, which also computes in at least 32 bits: tf32 and bf16 pieces have
//! compute types of their own (`..._FAST_TF32`, `..._FAST_16BF`, `..._EMULATED_16BFX9`), and only
//! problems whose compute type is `tf32` use the first of these.

#![expect(unsafe_code, reason = "cuBLASLt is a C library")]

use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;

use cudarc::cublaslt::sys;

use super::column_major::ColumnMajor;
use super::context::{CudaDevice, PrimaryContext};
use super::cublas::WORKSPACE_BYTES;
use super::error::{GpuError, check_lt};
use super::library_call::{LibraryCall, LibraryOperands, LibraryPrecision};
use super::lt_algorithm::{COMPUTE, LibraryAlgorithm, WORKSPACE, algorithm_name, attributes};
use super::lt_descriptors::{HeuristicPreference, HeuristicRequest, MatmulDescriptors};
use super::memory::DeviceBuffer;
use crate::model::Problem;

/// cuBLASLt functions that this room calls.
pub(super) const SYMBOLS: &[&str] = &[
    "cublasLtCreate",
    "cublasLtDestroy",
    "cublasLtGetStatusName",
    "cublasLtGetStatusString",
    "cublasLtMatmul",
    "cublasLtMatmulAlgoConfigGetAttribute",
    "cublasLtMatmulAlgoGetHeuristic",
    "cublasLtMatmulDescCreate",
    "cublasLtMatmulDescDestroy",
    "cublasLtMatmulDescSetAttribute",
    "cublasLtMatmulPreferenceCreate",
    "cublasLtMatmulPreferenceDestroy",
    "cublasLtMatmulPreferenceSetAttribute",
    "cublasLtMatrixLayoutCreate",
    "cublasLtMatrixLayoutDestroy",
    "cublasLtMatrixLayoutSetAttribute",
];

/// Alignment that the heuristic assumes (`..._PREF_MIN_ALIGNMENT_*_BYTES`).
const ALIGNMENT: u64 = 256;

/// Requests to the heuristic. One request returns four to eight algorithms, whatever the requested
/// count (13.1, H200); smaller workspace or alignment limits return others.
const HEURISTIC_REQUESTS: [HeuristicRequest; 4] = [
    HeuristicRequest { workspace_bytes: WORKSPACE_BYTES, alignment_bytes: 256 },
    HeuristicRequest { workspace_bytes: 0, alignment_bytes: 256 },
    HeuristicRequest { workspace_bytes: WORKSPACE_BYTES, alignment_bytes: 8 },
    HeuristicRequest { workspace_bytes: WORKSPACE_BYTES, alignment_bytes: 4 },
];

/// One cuBLASLt algorithm for one problem.
#[derive(Debug)]
pub struct CublasLtPlan {
    matmul: Rc<MatmulDescriptors>,
    algorithm: sys::cublasLtMatmulAlgo_t,
    numbers: LibraryAlgorithm,
    name: String,
}

impl CublasLtPlan {
    /// Distinguishing name: `cublasLt#20 tile 18 stages 8 split-k 1`, in cuBLASLt's own numbers.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What makes the algorithm again in another process.
    pub fn algorithm(&self) -> &LibraryAlgorithm {
        &self.numbers
    }
}

/// A cuBLASLt handle, with its workspace and context.
#[derive(Debug)]
pub(super) struct CublasLt {
    handle: sys::cublasLtHandle_t,
    workspace: DeviceBuffer,
    context: Rc<PrimaryContext>,
}

impl CublasLt {
    pub(super) fn open(gpu: &CudaDevice) -> Result<Self, GpuError> {
        let workspace = gpu.allocate(WORKSPACE_BYTES)?;
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is written; the GPU's context is current.
        check_lt("cublasLtCreate", unsafe { sys::cublasLtCreate(&raw mut handle) })?;
        Ok(Self { handle, workspace, context: Rc::clone(&gpu.context) })
    }

    /// See `Cublas::lt_plans`.
    pub(super) fn plans(
        &self,
        problem: &Problem,
        count: usize,
    ) -> Result<Vec<CublasLtPlan>, GpuError> {
        let call = LibraryCall::of(problem)?;
        let gemm = ColumnMajor::of(problem, "libcublasLt")?;
        let mut plans: Vec<CublasLtPlan> = Vec::new();
        for request in HEURISTIC_REQUESTS {
            for compute in compute_types(call.precision) {
                let matmul = Rc::new(MatmulDescriptors::create(*compute, &gemm, call)?);
                for plan in self.plans_of(&matmul, *compute, request, count)? {
                    let known =
                        plans.iter().any(|other| other.algorithm.data == plan.algorithm.data);
                    if plans.len() < count && !known {
                        plans.push(plan);
                    }
                }
            }
        }
        Ok(plans)
    }

    fn plans_of(
        &self,
        matmul: &Rc<MatmulDescriptors>,
        compute: sys::cublasComputeType_t,
        request: HeuristicRequest,
        count: usize,
    ) -> Result<Vec<CublasLtPlan>, GpuError> {
        let preference = HeuristicPreference::create(request, matmul.call)?;
        let empty = sys::cublasLtMatmulHeuristicResult_t {
            algo: sys::cublasLtMatmulAlgo_t { data: [0; 8] },
            workspaceSize: 0,
            state: sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS,
            wavesCount: 0.0,
            reserved: [0; 4],
        };
        let mut found = vec![empty; count];
        let mut returned = 0;
        // SAFETY: at most `count` results are written; the descriptors are alive.
        let status = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                self.handle,
                matmul.operation,
                matmul.first,
                matmul.second,
                matmul.result,
                matmul.result,
                preference.raw(),
                i32::try_from(count).unwrap_or(i32::MAX),
                found.as_mut_ptr(),
                &raw mut returned,
            )
        };
        // The library reports "no kernel" by this status.
        if status == sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED {
            return Ok(Vec::new());
        }
        check_lt("cublasLtMatmulAlgoGetHeuristic", status)?;
        found.truncate(usize::try_from(returned).unwrap_or(0));
        // Each result has its own status: some do not apply to the problem.
        found.retain(|result| result.state as u32 == 0);
        let plan = |result: sys::cublasLtMatmulHeuristicResult_t| {
            let mut numbers = attributes(&result.algo);
            let name = algorithm_name(&numbers);
            numbers.insert(COMPUTE.to_owned(), u64::from(compute as u32));
            numbers.insert(WORKSPACE.to_owned(), result.workspaceSize as u64);
            CublasLtPlan { matmul: Rc::clone(matmul), algorithm: result.algo, numbers, name }
        };
        Ok(found.into_iter().map(plan).collect())
    }

    /// See `Cublas::lt_run`.
    pub(super) fn run(
        &self,
        plan: &CublasLtPlan,
        operands: LibraryOperands,
        scalars: [f32; 2],
    ) -> Result<(), GpuError> {
        let LibraryOperands { a, b, c, bias } = operands;
        let matmul = &plan.matmul;
        if matmul.call.epilogue.bias {
            matmul.set_bias(bias)?;
        }
        if let Some(address) = [a, b, c, bias].into_iter().find(|one| one % ALIGNMENT != 0) {
            let what = format!("address {address:#x} is not a multiple of {ALIGNMENT}");
            return Err(GpuError::Unsupported { library: "libcublasLt", what });
        }
        let [a, b, c] = [a, b, c].map(|address| address as *mut c_void);
        // The scalars of integer products are small integers.
        let integers = scalars.map(|scalar| scalar as i32);
        let [alpha, beta]: [*const c_void; 2] = match matmul.call.precision {
            LibraryPrecision::I32 => integers.each_ref().map(|one| ptr::from_ref(one).cast()),
            _ => scalars.each_ref().map(|one| ptr::from_ref(one).cast()),
        };
        // SAFETY: the factors live until the call returns; the plan keeps its descriptors and this
        // value the workspace; the rest is device memory.
        let status = unsafe {
            sys::cublasLtMatmul(
                self.handle,
                matmul.operation,
                alpha,
                b,
                matmul.first,
                a,
                matmul.second,
                beta,
                c,
                matmul.result,
                c,
                matmul.result,
                &raw const plan.algorithm,
                self.workspace.address() as *mut c_void,
                WORKSPACE_BYTES as usize,
                self.context.stream.cast(),
            )
        };
        check_lt("cublasLtMatmul", status)
    }
}

impl Drop for CublasLt {
    fn drop(&mut self) {
        // A failure is ignored: after a kernel's fault every call fails.
        // SAFETY: destroyed once.
        unsafe { sys::cublasLtDestroy(self.handle) };
    }
}

/// Compute types that keep a precision. The default mode is as strict for f32 operands as the
/// pedantic one, and offers other kernels. Only the FAST modes, and variables that the worker
/// unsets, round operands.
fn compute_types(precision: LibraryPrecision) -> &'static [sys::cublasComputeType_t] {
    use sys::cublasComputeType_t as Type;

    match precision {
        LibraryPrecision::StrictF32 => {
            &[Type::CUBLAS_COMPUTE_32F_PEDANTIC, Type::CUBLAS_COMPUTE_32F]
        }
        LibraryPrecision::Tf32 => &[Type::CUBLAS_COMPUTE_32F_FAST_TF32],
        LibraryPrecision::F32 => &[Type::CUBLAS_COMPUTE_32F],
        LibraryPrecision::I32 => &[Type::CUBLAS_COMPUTE_32I],
    }
}
