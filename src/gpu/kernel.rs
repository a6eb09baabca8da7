//! Compiled kernels in a context of this program: loading, resource figures and launches.

#![expect(unsafe_code, reason = "the CUDA driver is a C library")]

use std::rc::Rc;

use cudarc::driver::sys;
use cudarc::driver::sys::CUfunction_attribute as Attribute;

use gemm_tune_runtime::gpu::{EncodedMap, KernelArgument, LoadedFunction, encode, figure};

use super::context::{CudaDevice, LoadedCubin};
use super::error::{GpuError, check};
use crate::model::{LaunchShape, PlacedMap};

/// A loaded cubin. Its kernels, and graphs that launch them, keep it loaded.
#[derive(Debug)]
pub struct GpuModule(Rc<LoadedCubin>);

/// A kernel that is ready to launch, with its resource figures.
#[derive(Debug)]
pub struct GpuKernel {
    function: LoadedFunction,
    image: Rc<LoadedCubin>,
    registers: u32,
    local_bytes: u32,
}

impl CudaDevice {
    /// Loads a cubin made for this device.
    ///
    /// # Errors
    /// [`GpuError::Image`] for an incomplete cubin; [`GpuError::Call`], also for one of another
    /// architecture.
    pub fn load(&self, image: &[u8]) -> Result<GpuModule, GpuError> {
        LoadedCubin::load(&self.context, image).map(|cubin| GpuModule(Rc::new(cubin)))
    }

    /// Encodes a tensor map. The operand's extent is not checked; elements outside the map's extents
    /// read as zero.
    ///
    /// # Errors
    /// [`GpuError::Library`] for a driver without tensor maps; [`GpuError::Call`] for a map that the
    /// device rejects, as devices without a tensor memory accelerator do.
    pub fn encode(&self, map: &PlacedMap) -> Result<EncodedMap, GpuError> {
        encode(map)
    }

    /// Launches `kernel`, whose dynamic shared memory was allowed ([`GpuKernel::allow_dynamic_shared`]); does not
    /// wait. Arguments refer to `maps` by index.
    ///
    /// # Errors
    /// [`GpuError::Arguments`] when number or sizes differ from the kernel's; [`GpuError::Call`]
    /// for a launch that the device cannot do. A later call reports a fault during execution.
    pub fn launch(
        &self,
        kernel: &GpuKernel,
        shape: LaunchShape,
        arguments: &[KernelArgument],
        maps: &[EncodedMap],
    ) -> Result<(), GpuError> {
        let stream = self.context.stream;
        // SAFETY: the kernel keeps its image loaded in this context, whose stream it is. Addresses are the caller's:
        // Rust's guarantees end at a launch (see the room's description).
        unsafe { kernel.function.launch(stream, shape, arguments, maps)? };
        if let Some(images) = self.context.captured.borrow_mut().as_mut() {
            images.push(Rc::clone(&kernel.image));
        }
        Ok(())
    }
}

impl GpuModule {
    /// Finds the kernel `entry` and finishes loading it, so that its first launch costs no more
    /// than later ones.
    ///
    /// # Errors
    /// [`GpuError::NoEntry`]; [`GpuError::Arguments`] for a kernel of more than 64 parameters;
    /// [`GpuError::Call`].
    pub fn kernel(&self, entry: &str) -> Result<GpuKernel, GpuError> {
        // SAFETY: the module is loaded, and the kernel keeps it so.
        let function = unsafe { LoadedFunction::find(self.0.handle, entry)? };
        // SAFETY: as above.
        let figure = |attribute| unsafe { figure(function.handle, attribute) };
        Ok(GpuKernel {
            image: Rc::clone(&self.0),
            registers: figure(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: figure(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            function,
        })
    }
}

impl GpuKernel {
    /// Registers per thread.
    pub fn registers(&self) -> u32 {
        self.registers
    }

    /// Bytes of local memory per thread: spilled registers, and arrays indexed at run time.
    pub fn local_bytes(&self) -> u32 {
        self.local_bytes
    }

    /// Bytes of static shared memory per block.
    pub fn static_shared_bytes(&self) -> u32 {
        self.function.static_shared_bytes
    }

    /// Allows launches up to `bytes` of dynamic shared memory. Needed above 48 KiB, static
    /// included; below, this does nothing.
    ///
    /// # Errors
    /// [`GpuError::Call`], for more than a block of this device can have.
    pub fn allow_dynamic_shared(&self, bytes: u32) -> Result<(), GpuError> {
        self.function.allow_dynamic_shared(bytes)
    }

    /// Number of blocks of `threads` threads and `dynamic_shared` bytes of dynamic shared memory
    /// that an SM holds at once; 0 if not even one fits.
    ///
    /// # Errors
    /// [`GpuError::Call`].
    pub fn blocks_per_sm(&self, threads: u32, dynamic_shared: u32) -> Result<u32, GpuError> {
        let mut blocks = 0;
        let threads = i32::try_from(threads).unwrap_or(i32::MAX);
        // SAFETY: `blocks` is written; the function's image is loaded.
        let status = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut blocks,
                self.function.handle,
                threads,
                dynamic_shared as usize,
            )
        };
        check("cuOccupancyMaxActiveBlocksPerMultiprocessor", status)?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }
}
