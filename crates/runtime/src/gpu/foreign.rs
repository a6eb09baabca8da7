//! Kernels in a context that the embedding program created: loaded into it and launched on its
//! streams, from any of its threads. Nothing here creates a context or waits for the device.

#![expect(unsafe_code, reason = "the CUDA driver is a C library")]

use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys;

use super::cubin::check_cubin;
use super::error::{GpuError, check};
use super::function::{KernelArgument, LoadedFunction};
use super::library::{describe, device_count};
use super::stream::Stream;
use super::tensor_map::{EncodedMap, encode};
use crate::model::{Device, LaunchShape, PlacedMap};
use crate::operands::{RowsToCopy, RowsToFill};

/// A context of the embedding program, current when this value was created.
#[derive(Debug)]
pub struct ForeignContext {
    device: Device,
}

/// A loaded image, unloaded when dropped.
#[derive(Debug)]
struct ForeignModule(sys::CUmodule);

/// A kernel loaded into a foreign context.
#[derive(Debug, Clone)]
pub struct ForeignKernel {
    function: LoadedFunction,
    _image: Arc<ForeignModule>,
}

/// Device memory in a foreign context, freed when dropped.
#[derive(Debug)]
pub struct ForeignBuffer {
    address: u64,
    bytes: u64,
}

// SAFETY: driver handles may be used from any thread (CUDA driver API, "the driver API is
// thread-safe"). The last owner unloads the module once.
unsafe impl Send for ForeignModule {}
// SAFETY: as above; a shared reference changes nothing.
unsafe impl Sync for ForeignModule {}
// SAFETY: as for the module, which it keeps loaded.
unsafe impl Send for ForeignKernel {}
// SAFETY: as above.
unsafe impl Sync for ForeignKernel {}

impl ForeignContext {
    /// Uses the context that is current on this thread.
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

    /// Properties that kernels depend on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Loads a cubin or PTX and finds kernels in it, each with the dynamic shared memory of its
    /// launches. The context must be current.
    ///
    /// # Errors
    /// [`GpuError::Image`], [`GpuError::NoEntry`], [`GpuError::Call`].
    pub fn load(
        &self,
        image: &[u8],
        kernels: &[(&str, u32)],
    ) -> Result<Vec<ForeignKernel>, GpuError> {
        let is_text = image.first().is_some_and(|byte| byte.is_ascii_graphic() || *byte == b'\n');
        let ended = [image, &[0]].concat();
        if !is_text {
            check_cubin(image).map_err(|why| GpuError::Image { why })?;
        }
        let mut handle = ptr::null_mut();
        // SAFETY: a complete ELF file, or text that ends with a NUL.
        let status = unsafe { sys::cuModuleLoadData(&raw mut handle, ended.as_ptr().cast()) };
        check("cuModuleLoadData", status)?;
        let image = Arc::new(ForeignModule(handle));
        kernels.iter().map(|(entry, shared)| kernel(&image, entry, *shared)).collect()
    }

    /// Launches a kernel; does not wait or allocate. Arguments refer to `maps` by index.
    ///
    /// # Errors
    /// [`GpuError::Arguments`], [`GpuError::Call`]. A later call reports a fault during execution.
    ///
    /// # Safety
    /// The context is current, the stream is one of it, and the kernel accesses only memory that it may access with
    /// these arguments and sizes, until the launch has run.
    pub unsafe fn launch(
        &self,
        stream: Stream,
        kernel: &ForeignKernel,
        shape: LaunchShape,
        arguments: &[KernelArgument],
        maps: &[EncodedMap],
    ) -> Result<(), GpuError> {
        // SAFETY: the kernel keeps its image loaded; the rest is the caller's contract.
        unsafe { kernel.function.launch(stream.handle(), shape, arguments, maps) }
    }

    /// Encodes a tensor map, for kernel arguments.
    ///
    /// # Errors
    /// [`GpuError::Library`], [`GpuError::Call`].
    pub fn encode(&self, map: &PlacedMap) -> Result<EncodedMap, GpuError> {
        encode(map)
    }

    /// Copies rows in device memory, in the order of the stream.
    ///
    /// # Errors
    /// [`GpuError::Call`]. A later call reports a fault during execution.
    ///
    /// # Safety
    /// The context is current, the stream is one of it, and nothing else accesses the rows until the copy has run.
    pub unsafe fn copy_rows(&self, stream: Stream, rows: &RowsToCopy) -> Result<(), GpuError> {
        let RowsToCopy { from: (from, from_pitch), to: (to, to_pitch), width, rows } = *rows;
        let copy = sys::CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
            srcHost: ptr::null(),
            srcDevice: from,
            srcArray: ptr::null_mut(),
            srcPitch: from_pitch as usize,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
            dstHost: ptr::null_mut(),
            dstDevice: to,
            dstArray: ptr::null_mut(),
            dstPitch: to_pitch as usize,
            WidthInBytes: width as usize,
            Height: rows as usize,
        };
        // SAFETY: the description lives during the call. The rows are the caller's; the driver checks addresses and
        // pitches.
        let status = unsafe { sys::cuMemcpy2DAsync_v2(&raw const copy, stream.handle()) };
        check("cuMemcpy2DAsync", status)
    }

    /// Fills rows in device memory with zeros, in the order of the stream.
    ///
    /// # Errors
    /// [`GpuError::Call`]. A later call reports a fault during execution.
    ///
    /// # Safety
    /// The context is current, the stream is one of it, and nothing else accesses the rows until they are filled.
    pub unsafe fn fill_rows(&self, stream: Stream, rows: &RowsToFill) -> Result<(), GpuError> {
        let RowsToFill { to: (to, pitch), width, rows } = *rows;
        if rows == 1 {
            // Without the limit of a pitch. SAFETY: the row is the caller's; the driver checks its address.
            let status = unsafe { sys::cuMemsetD8Async(to, 0, width as usize, stream.handle()) };
            return check("cuMemsetD8Async", status);
        }
        // SAFETY: the rows are the caller's; the driver checks addresses and pitches.
        let status = unsafe {
            sys::cuMemsetD2D8Async(
                to,
                pitch as usize,
                0,
                width as usize,
                rows as usize,
                stream.handle(),
            )
        };
        check("cuMemsetD2D8Async", status)
    }

    /// Allocates device memory, whose address is a multiple of 256. The context must be current.
    ///
    /// # Errors
    /// [`GpuError::Call`].
    pub fn allocate(&self, bytes: u64) -> Result<ForeignBuffer, GpuError> {
        let mut address = 0;
        // SAFETY: `address` is written.
        let status = unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes as usize) };
        check("cuMemAlloc", status)?;
        Ok(ForeignBuffer { address, bytes })
    }
}

fn kernel(image: &Arc<ForeignModule>, entry: &str, shared: u32) -> Result<ForeignKernel, GpuError> {
    // SAFETY: the image was just loaded in the current context, and the kernel keeps it loaded.
    let function = unsafe { LoadedFunction::find(image.0, entry)? };
    function.allow_dynamic_shared(shared)?;
    Ok(ForeignKernel { function, _image: Arc::clone(image) })
}

impl ForeignBuffer {
    /// Device address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for ForeignModule {
    fn drop(&mut self) {
        // A failure is ignored: the context and its modules may be gone.
        // SAFETY: kernels keep the module loaded, so it has no users left.
        unsafe { sys::cuModuleUnload(self.0) };
    }
}

impl Drop for ForeignBuffer {
    fn drop(&mut self) {
        // A failure is ignored, as above; the driver waits for running kernels.
        // SAFETY: allocated by `ForeignContext::allocate`, freed once.
        unsafe { sys::cuMemFree_v2(self.address) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_driver_there_is_no_foreign_context() {
        // SAFETY: opens and closes the driver library.
        if unsafe { sys::is_culib_present() } {
            println!("skipped: this machine has a CUDA driver");
            return;
        }
        assert!(matches!(ForeignContext::enter(), Err(GpuError::NoDriver { .. })));
    }
}
