//! Descriptors of a cuBLASLt multiplication: its operation, its matrices, and what its algorithms may use.

#![expect(unsafe_code, reason = "cuBLASLt is a C library")]

use std::ffi::c_void;
use std::ptr;

use cudarc::cublaslt::sys;

use super::column_major::{ColumnMajor, ColumnMajorOperand};
use super::cublas::operation;
use super::error::{GpuError, check_lt};
use super::library_call::{FusedActivation, FusedEpilogue, LibraryCall, LibraryPrecision};
use crate::model::Dtype;

/// Limits for one heuristic request.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeuristicRequest {
    pub(super) workspace_bytes: u64,
    pub(super) alignment_bytes: u32,
}

/// Descriptors of one multiplication; null until created.
#[derive(Debug)]
pub(super) struct MatmulDescriptors {
    pub(super) call: LibraryCall,
    pub(super) operation: sys::cublasLtMatmulDesc_t,
    pub(super) first: sys::cublasLtMatrixLayout_t,
    pub(super) second: sys::cublasLtMatrixLayout_t,
    pub(super) result: sys::cublasLtMatrixLayout_t,
}

impl MatmulDescriptors {
    pub(super) fn create(
        compute: sys::cublasComputeType_t,
        gemm: &ColumnMajor,
        call: LibraryCall,
    ) -> Result<Self, GpuError> {
        use sys::cublasLtMatmulDescAttributes_t as Attribute;

        let mut matmul = Self {
            call,
            operation: ptr::null_mut(),
            first: ptr::null_mut(),
            second: ptr::null_mut(),
            result: ptr::null_mut(),
        };
        let scale = match call.precision {
            LibraryPrecision::I32 => sys::cudaDataType::CUDA_R_32I,
            _ => sys::cudaDataType::CUDA_R_32F,
        };
        // SAFETY: `operation` is written.
        check_lt("cublasLtMatmulDescCreate", unsafe {
            sys::cublasLtMatmulDescCreate(&raw mut matmul.operation, compute, scale)
        })?;
        for (attribute, operand) in [
            (Attribute::CUBLASLT_MATMUL_DESC_TRANSA, gemm.first),
            (Attribute::CUBLASLT_MATMUL_DESC_TRANSB, gemm.second),
        ] {
            matmul.set(attribute, operation(operand))?;
        }
        matmul.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue(call.epilogue))?;
        if call.epilogue.bias {
            // Each product of the batch has a bias for each of the result's rows.
            let stride = i64::from(gemm.m);
            matmul.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, stride)?;
        }
        let [ab, d] = [call.ab, call.d].map(data_type);
        create_layout(&mut matmul.first, ab, gemm.first, gemm.batch)?;
        create_layout(&mut matmul.second, ab, gemm.second, gemm.batch)?;
        create_layout(&mut matmul.result, d, gemm.result, gemm.batch)?;
        Ok(matmul)
    }

    /// Sets the address of the epilogue's bias, a value for each row of the column-major result.
    pub(super) fn set_bias(&self, address: u64) -> Result<(), GpuError> {
        use sys::cublasLtMatmulDescAttributes_t as Attribute;

        self.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, address as *const c_void)
    }

    /// `value` has the attribute's type.
    fn set<T: Copy>(
        &self,
        attribute: sys::cublasLtMatmulDescAttributes_t,
        value: T,
    ) -> Result<(), GpuError> {
        // SAFETY: the descriptor is valid; the value is copied, and its size says its type.
        check_lt("cublasLtMatmulDescSetAttribute", unsafe {
            sys::cublasLtMatmulDescSetAttribute(
                self.operation,
                attribute,
                (&raw const value).cast(),
                size_of::<T>(),
            )
        })
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
    dtype: sys::cudaDataType,
    operand: ColumnMajorOperand,
    batch: i32,
) -> Result<(), GpuError> {
    use sys::cublasLtMatrixLayoutAttribute_t as Attribute;

    // SAFETY: `layout` is written.
    check_lt("cublasLtMatrixLayoutCreate", unsafe {
        sys::cublasLtMatrixLayoutCreate(
            layout,
            dtype,
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

/// What a proposed algorithm may use.
pub(super) struct HeuristicPreference(sys::cublasLtMatmulPreference_t);

impl HeuristicPreference {
    pub(super) fn create(request: HeuristicRequest, call: LibraryCall) -> Result<Self, GpuError> {
        use sys::cublasLtMatmulPreferenceAttributes_t as Attribute;

        let mut preference = Self(ptr::null_mut());
        // SAFETY: the handle is written.
        check_lt("cublasLtMatmulPreferenceCreate", unsafe {
            sys::cublasLtMatmulPreferenceCreate(&raw mut preference.0)
        })?;
        let HeuristicRequest { workspace_bytes, alignment_bytes } = request;
        preference.set(Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes)?;
        if !call.reduces_in_d() {
            let schemes = sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
            preference.set(Attribute::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes)?;
        }
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

    pub(super) fn raw(&self) -> sys::cublasLtMatmulPreference_t {
        self.0
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

pub(super) fn epilogue(fused: FusedEpilogue) -> sys::cublasLtEpilogue_t {
    use sys::cublasLtEpilogue_t as Fused;

    match (fused.bias, fused.activation) {
        (false, None) => Fused::CUBLASLT_EPILOGUE_DEFAULT,
        (true, None) => Fused::CUBLASLT_EPILOGUE_BIAS,
        (false, Some(FusedActivation::Relu)) => Fused::CUBLASLT_EPILOGUE_RELU,
        (true, Some(FusedActivation::Relu)) => Fused::CUBLASLT_EPILOGUE_RELU_BIAS,
        (false, Some(FusedActivation::GeluTanh)) => Fused::CUBLASLT_EPILOGUE_GELU,
        (true, Some(FusedActivation::GeluTanh)) => Fused::CUBLASLT_EPILOGUE_GELU_BIAS,
    }
}

pub(super) fn data_type(dtype: Dtype) -> sys::cudaDataType {
    match dtype {
        Dtype::F32 => sys::cudaDataType::CUDA_R_32F,
        Dtype::F16 => sys::cudaDataType::CUDA_R_16F,
        Dtype::Bf16 => sys::cudaDataType::CUDA_R_16BF,
        Dtype::I8 => sys::cudaDataType::CUDA_R_8I,
        Dtype::I32 => sys::cudaDataType::CUDA_R_32I,
    }
}
