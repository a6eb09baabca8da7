//! Compiled kernels in a context of this program: loading them, what they use, and launching them.
//!
//! The driver trusts what it is given (an image has no length), so it is checked first.

#![expect(unsafe_code, reason = "the CUDA driver is a C library")]

use std::ptr;
use std::rc::Rc;

use cudarc::driver::sys;
use cudarc::driver::sys::CUfunction_attribute as Attribute;

use super::driver::{Context, Gpu};
use super::error::{GpuError, check};
use super::function::{Function, KernelArgument, figure};
use super::tensor_map::EncodedMap;

/// A loaded cubin. Its kernels, and graphs that launch them, keep it loaded.
#[derive(Debug)]
pub struct Module(Rc<Image>);

/// A cubin in the context, unloaded when the last user is gone.
#[derive(Debug)]
pub(super) struct Image {
    handle: sys::CUmodule,
    /// Keeps the context until the image is unloaded.
    _context: Rc<Context>,
}

/// A kernel that is ready to launch, with what the compiler made of it.
#[derive(Debug)]
pub struct Kernel {
    function: Function,
    image: Rc<Image>,
    registers: u32,
    local_bytes: u32,
    max_threads_per_block: u32,
}

impl Gpu {
    /// Loads a cubin made for this device.
    ///
    /// # Errors
    /// [`GpuError::Image`] for what is not a whole cubin; [`GpuError::Call`], for one of another
    /// architecture too.
    pub fn load(&self, image: &[u8]) -> Result<Module, GpuError> {
        check_cubin(image).map_err(|why| GpuError::Image { why })?;
        let mut handle = ptr::null_mut();
        // SAFETY: the image is an ELF file with all the tables that its header announces.
        let status = unsafe { sys::cuModuleLoadData(&raw mut handle, image.as_ptr().cast()) };
        check("cuModuleLoadData", status)?;
        Ok(Module(Rc::new(Image { handle, _context: Rc::clone(&self.context) })))
    }

    /// Launches `kernel` on `grid` blocks of `block` threads with `dynamic_shared` bytes of
    /// dynamic shared memory (see [`Kernel::allow_dynamic_shared`]); does not wait. `maps` are those
    /// that arguments name by their place.
    ///
    /// # Errors
    /// [`GpuError::Arguments`] where number or sizes are not the kernel's; [`GpuError::Call`] for
    /// a launch that the device cannot do. A fault while running shows at a later call.
    pub fn launch(
        &self,
        kernel: &Kernel,
        (grid, block, dynamic_shared): ([u32; 3], [u32; 3], u32),
        arguments: &[KernelArgument],
        maps: &[EncodedMap],
    ) -> Result<(), GpuError> {
        let stream = self.context.stream;
        kernel.function.launch(stream, (grid, block, dynamic_shared), arguments, maps)?;
        if let Some(images) = self.context.captured.borrow_mut().as_mut() {
            images.push(Rc::clone(&kernel.image));
        }
        Ok(())
    }
}

impl Module {
    /// Finds the kernel `entry` and finishes loading it, so that its first launch costs what
    /// later ones cost.
    ///
    /// # Errors
    /// [`GpuError::NoEntry`]; [`GpuError::Arguments`] for a kernel of more than 64 parameters;
    /// [`GpuError::Call`].
    pub fn kernel(&self, entry: &str) -> Result<Kernel, GpuError> {
        let function = Function::find(self.0.handle, entry)?;
        let figure = |attribute| figure(function.handle, attribute);
        Ok(Kernel {
            image: Rc::clone(&self.0),
            registers: figure(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: figure(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            max_threads_per_block: figure(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            function,
        })
    }
}

impl Kernel {
    /// Registers of a thread.
    pub fn registers(&self) -> u32 {
        self.registers
    }

    /// Bytes of local memory of a thread: spilled registers, and arrays indexed at run time.
    pub fn local_bytes(&self) -> u32 {
        self.local_bytes
    }

    /// Bytes of shared memory that the kernel declares with a size.
    pub fn static_shared_bytes(&self) -> u32 {
        self.function.static_shared_bytes
    }

    /// Threads that a block can have, given the registers.
    pub fn max_threads_per_block(&self) -> u32 {
        self.max_threads_per_block
    }

    /// Lets launches use up to `bytes` of dynamic shared memory. Above 48 KiB, static included,
    /// a kernel must be told; below, this does nothing.
    ///
    /// # Errors
    /// [`GpuError::Call`], where a block of this device cannot have as much.
    pub fn allow_dynamic_shared(&self, bytes: u32) -> Result<(), GpuError> {
        self.function.allow_dynamic_shared(bytes)
    }

    /// How many blocks of `threads` threads and `dynamic_shared` bytes of dynamic shared memory
    /// an SM holds at once; 0 where not even one fits.
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

impl Drop for Image {
    fn drop(&mut self) {
        // A failure is not looked at: after a kernel's fault every call fails.
        // SAFETY: kernels and graphs keep the image, so nothing uses it any more.
        unsafe { sys::cuModuleUnload(self.handle) };
    }
}

/// Checks that an image is an ELF file with all of its tables: `cuModuleLoadData` takes no length
/// and would read past the end of a file that was cut short.
pub(super) fn check_cubin(image: &[u8]) -> Result<(), &'static str> {
    if image.is_empty() {
        return Err("it is empty");
    }
    if !image.starts_with(b"\x7fELF") {
        return Err("it does not begin as an ELF file");
    }
    // The ELF-64 header: e_phoff and e_shoff are 8 bytes at 32 and 40, then from 54 on e_phentsize,
    // e_phnum, e_shentsize and e_shnum, 2 bytes each.
    let Some(header) = image.first_chunk::<64>() else { return Err("its header is cut short") };
    let field = |at: usize, bytes: usize| {
        header[at..at + bytes].iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
    };
    for (offset, entry_bytes, entries) in
        [(field(32, 8), field(54, 2), field(56, 2)), (field(40, 8), field(58, 2), field(60, 2))]
    {
        if offset.saturating_add(entry_bytes * entries) > image.len() as u64 {
            return Err("it is cut short");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_is_no_whole_cubin_is_refused() {
        let mut elf = vec![0; 200];
        elf[..4].copy_from_slice(b"\x7fELF");
        elf[40] = 72; // section headers at 72,
        elf[58] = 64; // of 64 bytes,
        elf[60] = 2; // two of them: up to byte 200
        assert_eq!(check_cubin(&elf), Ok(()));
        for (image, why) in [
            (&[][..], "it is empty"),
            (b".version 9.0", "it does not begin as an ELF file"),
            (&elf[..63], "its header is cut short"),
            (&elf[..199], "it is cut short"),
        ] {
            assert_eq!(check_cubin(image), Err(why));
        }
    }
}
