//! An opened GPU: its primary context and stream, and the cubins loaded into it. Kernels are in
//! `kernel`, memory in `memory`, timing in `timing`.

#![expect(unsafe_code, reason = "the CUDA driver is a C library")]

use std::cell::RefCell;
use std::ptr;
use std::rc::Rc;

use cudarc::driver::sys;

use gemm_tune_runtime::gpu::{Stream, check_cubin, describe};

use super::driver::{device_count, pci_bus_id};
use super::error::{GpuError, check};
use super::nvml::Sensors;
use crate::model::Device;

/// An opened GPU: its primary context, current on this thread, and the one stream for all work. A
/// process opens one.
#[derive(Debug)]
pub struct CudaDevice {
    pub(super) context: Rc<PrimaryContext>,
    device: Device,
    pci_bus_id: String,
}

/// The primary context and its stream, which every handle keeps alive.
#[derive(Debug)]
pub(super) struct PrimaryContext {
    device: sys::CUdevice,
    pub(super) stream: sys::CUstream,
    /// Cubins of kernels launched since a capture began, while one is active: a graph must not
    /// outlive the code that it launches.
    pub(super) captured: RefCell<Option<Vec<Rc<LoadedCubin>>>>,
}

/// A cubin in the context, unloaded with its last user.
#[derive(Debug)]
pub(super) struct LoadedCubin {
    pub(super) handle: sys::CUmodule,
    /// Keeps the context until the cubin is unloaded.
    _context: Rc<PrimaryContext>,
}

impl CudaDevice {
    /// Opens device `ordinal`, counted from 0 in the driver's order.
    ///
    /// # Errors
    /// Those of [`device_count`]; [`GpuError::NoDevice`]; [`GpuError::Call`] where the device
    /// cannot be used now.
    pub fn open(ordinal: usize) -> Result<Self, GpuError> {
        let count = device_count()?;
        let number = i32::try_from(ordinal).ok().filter(|_| ordinal < count);
        let Some(number) = number else { return Err(GpuError::NoDevice { ordinal, count }) };
        let mut device = 0;
        // SAFETY: `device` is written.
        check("cuDeviceGet", unsafe { sys::cuDeviceGet(&raw mut device, number) })?;
        let pci_bus_id = pci_bus_id(device)?;
        // Only NVML reports the driver version; without it the field stays empty.
        let driver = Sensors::open(&pci_bus_id).ok().and_then(|sensors| sensors.driver_version());
        Ok(Self {
            context: Rc::new(PrimaryContext::open(device)?),
            device: describe(device, driver.unwrap_or_default())?,
            pci_bus_id,
        })
    }

    /// Properties that kernels depend on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The stream for all work.
    pub fn stream(&self) -> Stream {
        Stream::from_raw(self.context.stream.cast())
    }

    /// The PCI bus address, `0000:04:00.0`, which identifies the device to NVML.
    pub fn pci_bus_id(&self) -> &str {
        &self.pci_bus_id
    }

    /// Waits until the device has finished all work.
    ///
    /// # Errors
    /// [`GpuError::Call`]; the fault of a kernel launched earlier surfaces here.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        // SAFETY: the context keeps its stream.
        check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.context.stream) })
    }
}

impl PrimaryContext {
    fn open(device: sys::CUdevice) -> Result<Self, GpuError> {
        let mut handle = ptr::null_mut();
        // SAFETY: `device` came from the driver.
        let status = unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut handle, device) };
        check("cuDevicePrimaryCtxRetain", status)?;
        // From here on, dropping releases the context.
        let mut context = Self { device, stream: ptr::null_mut(), captured: RefCell::default() };
        // SAFETY: the context was just retained.
        check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(handle) })?;
        // Non-blocking: not ordered with the default stream, which libraries might use.
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the stream is written; the context is current.
        let status = unsafe { sys::cuStreamCreate(&raw mut context.stream, flags) };
        check("cuStreamCreate", status)?;
        Ok(context)
    }
}

impl Drop for PrimaryContext {
    fn drop(&mut self) {
        // Failures are ignored: after a kernel's fault every call here fails.
        // SAFETY: users of the stream or the context keep this alive, so there are none.
        unsafe {
            if !self.stream.is_null() {
                sys::cuStreamDestroy_v2(self.stream);
            }
            sys::cuDevicePrimaryCtxRelease_v2(self.device);
        }
    }
}

impl LoadedCubin {
    /// Loads a cubin made for the context's device.
    pub(super) fn load(context: &Rc<PrimaryContext>, image: &[u8]) -> Result<Self, GpuError> {
        check_cubin(image).map_err(|why| GpuError::Image { why })?;
        let mut handle = ptr::null_mut();
        // SAFETY: the image is a complete ELF file, which `check_cubin` verified.
        let status = unsafe { sys::cuModuleLoadData(&raw mut handle, image.as_ptr().cast()) };
        check("cuModuleLoadData", status)?;
        Ok(Self { handle, _context: Rc::clone(context) })
    }
}

impl Drop for LoadedCubin {
    fn drop(&mut self) {
        // A failure is ignored: after a kernel's fault every call fails.
        // SAFETY: kernels and graphs keep the cubin loaded, so it has no users left.
        unsafe { sys::cuModuleUnload(self.handle) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_driver_is_an_error_and_no_panic() {
        // SAFETY: opens and closes the driver library.
        if unsafe { sys::is_culib_present() } {
            println!("skipped: this machine has a CUDA driver");
            return;
        }
        let error = CudaDevice::open(0).unwrap_err();
        assert!(matches!(error, GpuError::NoDriver { .. }), "{error:?}");
    }
}
