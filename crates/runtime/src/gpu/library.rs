//! The CUDA driver library: which devices it reports, and their properties.

#![expect(unsafe_code, reason = "the CUDA driver is a C library")]

use std::ffi::{CStr, c_char};

use cudarc::driver::sys;

use super::error::{GpuError, check, require_symbols};
use crate::model::{ComputeCapability, Device};

/// Driver functions that this crate calls for every kernel; `cuFuncGetParamInfo` is the newest.
pub const SYMBOLS: &[&str] = &[
    "cuCtxGetCurrent",
    "cuCtxGetDevice",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuFuncGetAttribute",
    "cuFuncGetParamInfo",
    "cuFuncLoad",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemcpy2DAsync_v2",
    "cuMemsetD2D8Async",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
];

/// Number of CUDA devices that the driver reports. Opens the driver, but no device.
///
/// # Errors
/// [`GpuError::NoDriver`], [`GpuError::Library`] for a missing or old driver; [`GpuError::Call`]
/// when it does not initialise.
pub fn device_count() -> Result<usize, GpuError> {
    // SAFETY: opens and closes the driver library, whose initialisers have no preconditions.
    if !unsafe { sys::is_culib_present() } {
        return Err(GpuError::NoDriver { why: "libcuda.so.1 was not found".to_owned() });
    }
    // SAFETY: the library is there, so cudarc opens it too and does not panic.
    let library = unsafe { sys::culib() };
    let needed = "a driver of CUDA 12.4 or later (550) is needed";
    require_symbols("libcuda.so.1", library, SYMBOLS, needed)?;
    // SAFETY: no precondition.
    let status = unsafe { sys::cuInit(0) };
    if status == sys::CUresult::CUDA_ERROR_STUB_LIBRARY {
        let why = "the first libcuda.so found is a toolkit's stub for linking";
        return Err(GpuError::NoDriver { why: why.to_owned() });
    }
    if status == sys::CUresult::CUDA_ERROR_NO_DEVICE {
        return Ok(0);
    }
    check("cuInit", status)?;
    let mut count = 0;
    // SAFETY: `count` is written.
    check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&raw mut count) })?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Properties of a device that kernels depend on; `driver` is the version that NVML reports.
///
/// # Errors
/// [`GpuError::Call`].
pub fn describe(device: sys::CUdevice, driver: String) -> Result<Device, GpuError> {
    use sys::CUdevice_attribute as Attribute;

    let attribute = |attribute: Attribute| {
        let mut value = 0;
        // SAFETY: `value` is written; `device` came from the driver.
        let status = unsafe { sys::cuDeviceGetAttribute(&raw mut value, attribute, device) };
        // None of the attributes below is ever negative.
        check("cuDeviceGetAttribute", status).map(|()| value.unsigned_abs())
    };
    let mut name = [0; 256];
    // SAFETY: the driver writes at most `name.len()` bytes, the last of them a zero.
    let status = unsafe {
        sys::cuDeviceGetName(name.as_mut_ptr().cast::<c_char>(), name.len() as i32, device)
    };
    check("cuDeviceGetName", status)?;
    let (mut memory_bytes, mut driver_cuda) = (0, 0);
    // SAFETY: `memory_bytes` is written; `device` came from the driver.
    let status = unsafe { sys::cuDeviceTotalMem_v2(&raw mut memory_bytes, device) };
    check("cuDeviceTotalMem", status)?;
    // SAFETY: `driver_cuda` is written.
    check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&raw mut driver_cuda) })?;
    Ok(Device {
        name: string(&name),
        compute_capability: ComputeCapability {
            major: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            minor: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        },
        sms: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        shared_bytes_per_block: attribute(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        )?,
        shared_bytes_per_sm: attribute(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
        )?,
        shared_bytes_reserved: attribute(
            Attribute::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK,
        )?,
        registers_per_block: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK)?,
        registers_per_sm: attribute(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
        )?,
        threads_per_sm: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
        threads_per_block: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        warp_size: attribute(Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?,
        l2_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.into(),
        memory_bytes: memory_bytes as u64,
        // The attribute is in kHz.
        max_sm_clock_mhz: attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)? / 1000,
        driver,
        driver_cuda,
    })
}

/// The text before the first NUL.
fn string(bytes: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(bytes).unwrap_or_default();
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For a machine without a driver; `tests/gpu.rs` covers one with a driver.
    #[test]
    fn a_missing_driver_is_an_error_and_no_panic() {
        // SAFETY: opens and closes the driver library.
        if unsafe { sys::is_culib_present() } {
            println!("skipped: this machine has a CUDA driver");
            return;
        }
        let error = device_count().unwrap_err();
        assert!(matches!(error, GpuError::NoDriver { .. }), "{error:?}");
    }
}
