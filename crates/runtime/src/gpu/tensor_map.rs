//! Tensor maps, encoded by the driver for the tensor memory accelerator of its devices.

#![expect(unsafe_code, reason = "the CUDA driver is a C library")]

use std::ptr;

use cudarc::driver::sys;

use super::error::{GpuError, check, require_symbols};
use crate::model::tensor_map::MAX_RANK;
use crate::model::{CopyRounding, Dtype, PlacedMap, Swizzle};

/// Functions that only kernels with tensor maps need; looked up for the first one.
pub(super) const SYMBOLS: &[&str] = &["cuTensorMapEncodeTiled"];

/// A tensor map as passed to kernels by value: 128 bytes that only the hardware reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C, align(128))]
pub struct EncodedMap([u64; 16]);

/// Encodes a map for kernel arguments. The operand's extent is not checked; elements outside the map's extents read as
/// zero. Callers have opened a device or a context, and with it the library.
///
/// # Errors
/// [`GpuError::Library`] for a driver without tensor maps; [`GpuError::Call`] for a map that the device rejects, as
/// devices without a tensor memory accelerator do.
pub fn encode(map: &PlacedMap) -> Result<EncodedMap, GpuError> {
    // SAFETY: callers have opened the library.
    let library = unsafe { sys::culib() };
    let needed = "kernels with tensor maps need a driver of CUDA 12.0 or later";
    require_symbols("libcuda.so.1", library, SYMBOLS, needed)?;
    let mut encoded = EncodedMap::default();
    let steps = [1_u32; MAX_RANK];
    // SAFETY: the encoded map has 128 aligned bytes, and no rank exceeds the length of the lists.
    let status = unsafe {
        sys::cuTensorMapEncodeTiled(
            (&raw mut encoded).cast(),
            element(map),
            map.rank.min(MAX_RANK as u32),
            ptr::with_exposed_provenance_mut(map.address as usize),
            map.extents.as_ptr(),
            map.strides.as_ptr(),
            map.tile.as_ptr(),
            steps.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle(map.swizzle),
            sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    check("cuTensorMapEncodeTiled", status)?;
    Ok(encoded)
}

fn element(map: &PlacedMap) -> sys::CUtensorMapDataType {
    use sys::CUtensorMapDataType as Type;
    match map.dtype {
        Dtype::F32 => match map.rounds_to {
            Some(CopyRounding::Tf32) => Type::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
            None => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        },
        Dtype::I32 => Type::CU_TENSOR_MAP_DATA_TYPE_INT32,
        Dtype::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        Dtype::Bf16 => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        Dtype::I8 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT8,
    }
}

fn swizzle(swizzle: Swizzle) -> sys::CUtensorMapSwizzle {
    use sys::CUtensorMapSwizzle as Of;
    match swizzle {
        Swizzle::None => Of::CU_TENSOR_MAP_SWIZZLE_NONE,
        Swizzle::B32 => Of::CU_TENSOR_MAP_SWIZZLE_32B,
        Swizzle::B64 => Of::CU_TENSOR_MAP_SWIZZLE_64B,
        Swizzle::B128 => Of::CU_TENSOR_MAP_SWIZZLE_128B,
    }
}
