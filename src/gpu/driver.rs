//! The CUDA driver library: the functions that only the worker calls, and the addresses of devices.

#![expect(unsafe_code, reason = "the CUDA driver is a C library")]

use std::ffi::{CStr, c_char};

use cudarc::driver::sys;

use super::error::{GpuError, check, require_symbols};

/// Driver functions that this room calls besides those of the crate that launches kernels of bundles;
/// `cuEventElapsedTime_v2` is the newest.
pub(super) const SYMBOLS: &[&str] = &[
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDeviceGetPCIBusId",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphUpload",
    "cuMemGetInfo_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD32Async",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuStreamBeginCapture_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamSynchronize",
];

/// Number of CUDA devices that the driver reports. Opens the driver, but no device.
///
/// # Errors
/// [`GpuError::NoDriver`], [`GpuError::Library`] for a missing or old driver; [`GpuError::Call`]
/// when it does not initialise.
pub fn device_count() -> Result<usize, GpuError> {
    let count = gemm_tune_runtime::gpu::device_count()?;
    // SAFETY: the library was opened by the call before.
    let library = unsafe { sys::culib() };
    let needed = "a driver of CUDA 12.8 or later (570) is needed";
    require_symbols("libcuda.so.1", library, SYMBOLS, needed)?;
    Ok(count)
}

pub(super) fn pci_bus_id(device: sys::CUdevice) -> Result<String, GpuError> {
    let mut text = [0; 32];
    // SAFETY: the driver writes at most `text.len()` bytes, the last of them a zero.
    let status = unsafe {
        sys::cuDeviceGetPCIBusId(text.as_mut_ptr().cast::<c_char>(), text.len() as i32, device)
    };
    check("cuDeviceGetPCIBusId", status)?;
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
    Ok(text.to_string_lossy().into_owned())
}
