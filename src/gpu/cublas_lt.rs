//! cuBLASLt: the product of `cublas`, by every algorithm that NVIDIA's heuristic proposes. A tuned
//! kernel is thus compared with the library's best, not only with its first choice.
//!
//! Binary32 throughout: operands and result are `CUDA_R_32F`, and the compute type is
//! `CUBLAS_COMPUTE_32F_PEDANTIC`. Problems without pedantic kernels use `CUBLAS_COMPUTE_32F`, which
//! also computes in at least 32 bits: tf32 and bf16 pieces have compute types of their own
//! (`..._FAST_TF32`, `..._FAST_16BF`, `..._EMULATED_16BFX9`), which are never requested.

#![expect(unsafe_code, reason = "cuBLASLt is a C library")]

use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;

use cudarc::cublaslt::sys;

use super::column_major::{ColumnMajor, ColumnMajorOperand};
use super::context::{CudaDevice, PrimaryContext};
use super::cublas::{WORKSPACE_BYTES, operation};
use super::error::{GpuError, check_lt};
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

/// Limits for one heuristic request.
#[derive(Debug, Clone, Copy)]
struct HeuristicRequest {
    workspace_bytes: u64,
    alignment_bytes: u32,
}

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
    name: String,
}

impl CublasLtPlan {
    /// Distinguishing name: `cublasLt#20 tile 18 stages 8 split-k 1`, in cuBLASLt's own numbers.
    pub fn name(&self) -> &str {
        &self.name
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
        use sys::cublasComputeType_t::{CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_PEDANTIC};

        let gemm = ColumnMajor::of(problem, "libcublasLt")?;
        let mut plans: Vec<CublasLtPlan> = Vec::new();
        for request in HEURISTIC_REQUESTS {
            // The default mode is as strict for f32 operands as the pedantic one, and offers other
            // kernels. Only the FAST modes and two environment variables, which the worker unsets,
            // round operands.
            for compute in [CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_COMPUTE_32F] {
                for plan in self.plans_computed_in(compute, &gemm, request, count)? {
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

    fn plans_computed_in(
        &self,
        compute: sys::cublasComputeType_t,
        gemm: &ColumnMajor,
        request: HeuristicRequest,
        count: usize,
    ) -> Result<Vec<CublasLtPlan>, GpuError> {
        let matmul = Rc::new(MatmulDescriptors::create(compute, gemm)?);
        let preference = HeuristicPreference::create(request)?;
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
                preference.0,
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
        let plan = |result: sys::cublasLtMatmulHeuristicResult_t| CublasLtPlan {
            matmul: Rc::clone(&matmul),
            algorithm: result.algo,
            name: name(&result.algo),
        };
        Ok(found.into_iter().map(plan).collect())
    }

    /// See `Cublas::lt_run`.
    pub(super) fn run(
        &self,
        plan: &CublasLtPlan,
        [a, b, c]: [u64; 3],
        alpha: f32,
        beta: f32,
    ) -> Result<(), GpuError> {
        if let Some(address) = [a, b, c].into_iter().find(|address| address % ALIGNMENT != 0) {
            let what = format!("address {address:#x} is not a multiple of {ALIGNMENT}");
            return Err(GpuError::Unsupported { library: "libcublasLt", what });
        }
        let [a, b, c] = [a, b, c].map(|address| address as *mut c_void);
        let matmul = &plan.matmul;
        // SAFETY: the factors live until the call returns; the plan keeps its descriptors and this
        // value the workspace; the rest is device memory.
        let status = unsafe {
            sys::cublasLtMatmul(
                self.handle,
                matmul.operation,
                (&raw const alpha).cast(),
                b,
                matmul.first,
                a,
                matmul.second,
                (&raw const beta).cast(),
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

/// Descriptors of one multiplication; null until created.
#[derive(Debug)]
struct MatmulDescriptors {
    operation: sys::cublasLtMatmulDesc_t,
    first: sys::cublasLtMatrixLayout_t,
    second: sys::cublasLtMatrixLayout_t,
    result: sys::cublasLtMatrixLayout_t,
}

impl MatmulDescriptors {
    fn create(compute: sys::cublasComputeType_t, gemm: &ColumnMajor) -> Result<Self, GpuError> {
        use sys::cublasLtMatmulDescAttributes_t as Attribute;

        let mut matmul = Self {
            operation: ptr::null_mut(),
            first: ptr::null_mut(),
            second: ptr::null_mut(),
            result: ptr::null_mut(),
        };
        let scale = sys::cudaDataType::CUDA_R_32F;
        // SAFETY: `operation` is written.
        check_lt("cublasLtMatmulDescCreate", unsafe {
            sys::cublasLtMatmulDescCreate(&raw mut matmul.operation, compute, scale)
        })?;
        for (attribute, operand) in [
            (Attribute::CUBLASLT_MATMUL_DESC_TRANSA, gemm.first),
            (Attribute::CUBLASLT_MATMUL_DESC_TRANSB, gemm.second),
        ] {
            let operation = operation(operand);
            let (value, bytes) = ((&raw const operation).cast(), size_of_val(&operation));
            // SAFETY: the attribute is of the value's type and is copied.
            check_lt("cublasLtMatmulDescSetAttribute", unsafe {
                sys::cublasLtMatmulDescSetAttribute(matmul.operation, attribute, value, bytes)
            })?;
        }
        create_layout(&mut matmul.first, gemm.first, gemm.batch)?;
        create_layout(&mut matmul.second, gemm.second, gemm.batch)?;
        create_layout(&mut matmul.result, gemm.result, gemm.batch)?;
        Ok(matmul)
    }
}

impl Drop for MatmulDescriptors {
    fn drop(&mut self) {
        // SAFETY: what was created is destroyed, once.
        unsafe {
            for layout in [self.first, self.second, self.result] {
                if !layout.is_null() {
                    sys::cublasLtMatrixLayoutDestroy(layout);
                }
            }
            if !self.operation.is_null() {
                sys::cublasLtMatmulDescDestroy(self.operation);
            }
        }
    }
}

/// Creates a layout in `layout`. The owner destroys it, also after a failure half-way.
fn create_layout(
    layout: &mut sys::cublasLtMatrixLayout_t,
    operand: ColumnMajorOperand,
    batch: i32,
) -> Result<(), GpuError> {
    use sys::cublasLtMatrixLayoutAttribute_t as Attribute;

    // SAFETY: `layout` is written.
    check_lt("cublasLtMatrixLayoutCreate", unsafe {
        sys::cublasLtMatrixLayoutCreate(
            layout,
            sys::cudaDataType::CUDA_R_32F,
            u64::from(operand.rows.unsigned_abs()),
            u64::from(operand.columns.unsigned_abs()),
            i64::from(operand.leading_dimension()),
        )
    })?;
    let stride = operand.stride;
    // SAFETY: the attributes are an int32 and an int64, and are copied.
    unsafe {
        check_lt(
            "cublasLtMatrixLayoutSetAttribute",
            sys::cublasLtMatrixLayoutSetAttribute(
                *layout,
                Attribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                (&raw const batch).cast(),
                size_of::<i32>(),
            ),
        )?;
        check_lt(
            "cublasLtMatrixLayoutSetAttribute",
            sys::cublasLtMatrixLayoutSetAttribute(
                *layout,
                Attribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                (&raw const stride).cast(),
                size_of::<i64>(),
            ),
        )
    }
}

/// Resources that a proposed algorithm may use: the workspace only.
struct HeuristicPreference(sys::cublasLtMatmulPreference_t);

impl HeuristicPreference {
    fn create(request: HeuristicRequest) -> Result<Self, GpuError> {
        use sys::cublasLtMatmulPreferenceAttributes_t as Attribute;

        let mut preference = Self(ptr::null_mut());
        // SAFETY: the handle is written.
        check_lt("cublasLtMatmulPreferenceCreate", unsafe {
            sys::cublasLtMatmulPreferenceCreate(&raw mut preference.0)
        })?;
        let HeuristicRequest { workspace_bytes, alignment_bytes } = request;
        preference.set(Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes)?;
        for operand in [
            Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
            Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
            Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        ] {
            preference.set(operand, alignment_bytes)?;
        }
        Ok(preference)
    }

    /// `value` has the attribute's type: uint64 for the workspace, uint32 for alignments.
    fn set<T: Copy>(
        &self,
        attribute: sys::cublasLtMatmulPreferenceAttributes_t,
        value: T,
    ) -> Result<(), GpuError> {
        // SAFETY: the handle is valid; the value is copied, and its size says its type.
        check_lt("cublasLtMatmulPreferenceSetAttribute", unsafe {
            sys::cublasLtMatmulPreferenceSetAttribute(
                self.0,
                attribute,
                (&raw const value).cast(),
                size_of::<T>(),
            )
        })
    }
}

impl Drop for HeuristicPreference {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: destroyed once.
            unsafe { sys::cublasLtMatmulPreferenceDestroy(self.0) };
        }
    }
}

/// Name of an algorithm, from its readable settings.
fn name(algorithm: &sys::cublasLtMatmulAlgo_t) -> String {
    use sys::cublasLtMatmulAlgoConfigAttributes_t as Attribute;

    let mut name = "cublasLt".to_owned();
    for (label, attribute) in [
        ("#", Attribute::CUBLASLT_ALGO_CONFIG_ID),
        (" tile ", Attribute::CUBLASLT_ALGO_CONFIG_TILE_ID),
        (" stages ", Attribute::CUBLASLT_ALGO_CONFIG_STAGES_ID),
        (" split-k ", Attribute::CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
    ] {
        let (mut value, mut written) = (0u32, 0);
        // SAFETY: all four attributes have 32 bits.
        let status = unsafe {
            sys::cublasLtMatmulAlgoConfigGetAttribute(
                algorithm,
                attribute,
                (&raw mut value).cast(),
                size_of::<u32>(),
                &raw mut written,
            )
        };
        if status as u32 == 0 {
            name += &format!("{label}{value}");
        }
    }
    name
}
