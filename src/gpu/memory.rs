//! Device memory of an opened GPU: allocation, fills and copies.

#![expect(unsafe_code, reason = "the CUDA driver is a C library")]

use std::rc::Rc;

use cudarc::driver::sys;

use super::context::{CudaDevice, PrimaryContext};
use super::error::{GpuError, check};

/// Device memory, freed when dropped.
#[derive(Debug)]
pub struct DeviceBuffer {
    address: u64,
    bytes: u64,
    /// Keeps the context until the memory is freed.
    _context: Rc<PrimaryContext>,
}

impl CudaDevice {
    /// Reads the number of free bytes of device memory, for all processes.
    ///
    /// # Errors
    /// [`GpuError::Call`].
    pub fn free_memory(&self) -> Result<u64, GpuError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are written; the context is current.
        let status = unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) };
        check("cuMemGetInfo", status)?;
        Ok(free as u64)
    }

    /// Allocates device memory; its contents are undefined, its address a multiple of 256.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`]; [`GpuError::Call`], also for no bytes at all.
    pub fn allocate(&self, bytes: u64) -> Result<DeviceBuffer, GpuError> {
        let mut address = 0;
        // SAFETY: `address` is written; the context is current.
        let status = unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes as usize) };
        if status == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Err(GpuError::OutOfMemory { bytes, free: self.free_memory()? });
        }
        check("cuMemAlloc", status)?;
        Ok(DeviceBuffer { address, bytes, _context: Rc::clone(&self.context) })
    }

    /// Sets `bytes` bytes from `address` to `value`, in stream order; does not wait.
    ///
    /// # Errors
    /// [`GpuError::Call`], for instance for a range outside device memory.
    pub fn fill_bytes(&self, address: u64, value: u8, bytes: u64) -> Result<(), GpuError> {
        let stream = self.context.stream;
        // SAFETY: no host memory takes part; the driver checks the range.
        let status = unsafe { sys::cuMemsetD8Async(address, value, bytes as usize, stream) };
        check("cuMemsetD8Async", status)
    }

    /// Sets `count` 32-bit words from `address` to `value`, in stream order; does not wait.
    ///
    /// # Errors
    /// [`GpuError::Call`], for instance for a range outside device memory or an unaligned
    /// `address`.
    pub fn fill_words(&self, address: u64, value: u32, count: u64) -> Result<(), GpuError> {
        let stream = self.context.stream;
        // SAFETY: no host memory takes part; the driver checks the range.
        let status = unsafe { sys::cuMemsetD32Async(address, value, count as usize, stream) };
        check("cuMemsetD32Async", status)
    }

    /// Copies `data` to the device in stream order, and waits.
    ///
    /// # Errors
    /// [`GpuError::Call`], for instance for a range outside device memory.
    pub fn copy_to_device(&self, address: u64, data: &[u8]) -> Result<(), GpuError> {
        let stream = self.context.stream;
        // SAFETY: `data` outlives the copy, which is waited for below.
        let status =
            unsafe { sys::cuMemcpyHtoDAsync_v2(address, data.as_ptr().cast(), data.len(), stream) };
        check("cuMemcpyHtoDAsync", status)?;
        self.synchronize()
    }

    /// Copies device memory to `data` in stream order, and waits.
    ///
    /// # Errors
    /// [`GpuError::Call`], for instance for a range outside device memory.
    pub fn copy_to_host(&self, address: u64, data: &mut [u8]) -> Result<(), GpuError> {
        let stream = self.context.stream;
        // SAFETY: `data` is borrowed until the copy, waited for below, is done.
        let status = unsafe {
            sys::cuMemcpyDtoHAsync_v2(data.as_mut_ptr().cast(), address, data.len(), stream)
        };
        check("cuMemcpyDtoHAsync", status)?;
        self.synchronize()
    }
}

impl DeviceBuffer {
    /// Device address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        // A failure is ignored, as for the context; the driver waits for running kernels.
        // SAFETY: allocated by `CudaDevice::allocate`, freed once.
        unsafe { sys::cuMemFree_v2(self.address) };
    }
}
