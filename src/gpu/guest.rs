//! Kernels in a context that is someone else's: loaded into it, launched on its streams, from any of
//! its threads. Nothing here makes a context or waits for the device.

#![expect(unsafe_code, reason = "the CUDA driver is a C library")]

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys;

use super::driver::{describe, device_count};
use super::error::{GpuError, check};
use super::function::{Function, KernelArgument};
use super::kernel::check_cubin;
use super::tensor_map::EncodedMap;
use crate::model::Device;

/// A CUDA stream of the user's. The default is the context's null stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Stream(usize);

impl Stream {
    /// From a `CUstream` or `cudaStream_t`, such as cudarc's `CudaStream::cu_stream`.
    pub fn from_raw(stream: *mut c_void) -> Self {
        Self(stream.expose_provenance())
    }

    fn handle(self) -> sys::CUstream {
        ptr::with_exposed_provenance_mut(self.0)
    }
}

/// The context that was current when it was entered.
#[derive(Debug)]
pub struct Guest {
    device: Device,
}

/// A loaded image.
#[derive(Debug)]
struct Image(sys::CUmodule);

/// A kernel that was loaded into the user's context.
#[derive(Debug, Clone)]
pub struct GuestKernel {
    function: Function,
    _image: Arc<Image>,
}

/// Device memory in the user's context, freed when dropped.
#[derive(Debug)]
pub struct GuestMemory {
    address: u64,
    bytes: u64,
}

// SAFETY: handles of the driver, which may be used from any thread (CUDA driver API, "the driver API
// is thread-safe"); unloading happens once, when the last owner is gone.
unsafe impl Send for Image {}
// SAFETY: as above; nothing is changed through a shared reference.
unsafe impl Sync for Image {}
// SAFETY: as for the image, which it keeps loaded.
unsafe impl Send for GuestKernel {}
// SAFETY: as above.
unsafe impl Sync for GuestKernel {}

impl Guest {
    /// Enters the context that is current on this thread.
    ///
    /// # Errors
    /// [`GpuError::NoDriver`], [`GpuError::Library`]; [`GpuError::NoContext`] where none is current.
    pub fn enter() -> Result<Self, GpuError> {
        device_count()?;
        let mut context = ptr::null_mut();
        // SAFETY: `context` is written.
        check("cuCtxGetCurrent", unsafe { sys::cuCtxGetCurrent(&raw mut context) })?;
        if context.is_null() {
            return Err(GpuError::NoContext);
        }
        let mut device = 0;
        // SAFETY: `device` is written; a context is current.
        check("cuCtxGetDevice", unsafe { sys::cuCtxGetDevice(&raw mut device) })?;
        Ok(Self { device: describe(device, String::new())? })
    }

    /// What kernels depend on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Loads an image, a cubin or PTX, and finds kernels in it, each with the dynamic shared memory
    /// that it is launched with. The context must be current.
    ///
    /// # Errors
    /// [`GpuError::Image`], [`GpuError::NoEntry`], [`GpuError::Call`].
    pub fn load(
        &self,
        image: &[u8],
        kernels: &[(&str, u32)],
    ) -> Result<Vec<GuestKernel>, GpuError> {
        let is_text = image.first().is_some_and(|byte| byte.is_ascii_graphic() || *byte == b'\n');
        let ended = [image, &[0]].concat();
        if !is_text {
            check_cubin(image).map_err(|why| GpuError::Image { why })?;
        }
        let mut handle = ptr::null_mut();
        // SAFETY: an ELF file with all the tables that its header announces, or text with a zero at
        // its end.
        let status = unsafe { sys::cuModuleLoadData(&raw mut handle, ended.as_ptr().cast()) };
        check("cuModuleLoadData", status)?;
        let image = Arc::new(Image(handle));
        kernels.iter().map(|(entry, shared)| kernel(&image, entry, *shared)).collect()
    }

    /// Launches a kernel on `grid` blocks of `block` threads with `dynamic_shared` bytes of dynamic
    /// shared memory; does not wait and does not allocate. `maps` are those that arguments name by their
    /// place. The context must be current.
    ///
    /// # Errors
    /// [`GpuError::Arguments`], [`GpuError::Call`]. A fault while running shows at a later call.
    pub fn launch(
        &self,
        stream: Stream,
        kernel: &GuestKernel,
        (grid, block, dynamic_shared): ([u32; 3], [u32; 3], u32),
        arguments: &[KernelArgument],
        maps: &[EncodedMap],
    ) -> Result<(), GpuError> {
        let sizes = (grid, block, dynamic_shared);
        kernel.function.launch(stream.handle(), sizes, arguments, maps)
    }

    /// Allocates device memory, whose address is a multiple of 256. The context must be current.
    ///
    /// # Errors
    /// [`GpuError::Call`].
    pub fn allocate(&self, bytes: u64) -> Result<GuestMemory, GpuError> {
        let mut address = 0;
        // SAFETY: `address` is written.
        let status = unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes as usize) };
        check("cuMemAlloc", status)?;
        Ok(GuestMemory { address, bytes })
    }
}

fn kernel(image: &Arc<Image>, entry: &str, shared: u32) -> Result<GuestKernel, GpuError> {
    let function = Function::find(image.0, entry)?;
    function.allow_dynamic_shared(shared)?;
    Ok(GuestKernel { function, _image: Arc::clone(image) })
}

impl GuestMemory {
    /// Where it begins, as kernels see it.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // A failure is not looked at: the context may be gone, and its images with it.
        // SAFETY: kernels keep the image, so nothing uses it any more.
        unsafe { sys::cuModuleUnload(self.0) };
    }
}

impl Drop for GuestMemory {
    fn drop(&mut self) {
        // A failure is not looked at, as above; the driver waits for kernels at work.
        // SAFETY: allocated by `Guest::allocate`, freed once.
        unsafe { sys::cuMemFree_v2(self.address) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_driver_there_is_nothing_to_enter() {
        // SAFETY: opens and closes the driver library.
        if unsafe { sys::is_culib_present() } {
            println!("skipped: this machine has a CUDA driver");
            return;
        }
        assert!(matches!(Guest::enter(), Err(GpuError::NoDriver { .. })));
        let mut value = 0_u8;
        let stream = Stream::from_raw((&raw mut value).cast());
        assert_eq!(stream.handle().cast::<u8>(), &raw mut value);
    }
}
