//! Compiled kernels: loading them, what they use, and launching them.
//!
//! The driver trusts what it is given here (an image has no length, arguments have no types), so
//! both are checked first.

#![expect(unsafe_code, reason = "the CUDA driver is a C library")]

use std::ffi::{CString, c_void};
use std::ptr;
use std::rc::Rc;

use cudarc::driver::sys;
use cudarc::driver::sys::CUfunction_attribute as Attribute;

use super::driver::{Context, Gpu};
use super::error::{GpuError, check};

/// The most arguments that a launch can have. Families use about fifteen.
pub(super) const MAX_ARGUMENTS: usize = 64;

/// The shared memory that a block gets without asking for more, on every device to date.
pub(super) const DEFAULT_SHARED_BYTES: u32 = 48 << 10;

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
    entry: String,
    function: sys::CUfunction,
    image: Rc<Image>,
    /// Bytes of each parameter, in order.
    parameters: Vec<usize>,
    registers: u32,
    local_bytes: u32,
    static_shared_bytes: u32,
    max_threads_per_block: u32,
}

/// The value of one kernel argument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KernelArgument {
    /// A device address.
    Pointer(u64),
    /// An `int`.
    I32(i32),
    /// A `long long`.
    I64(i64),
    /// A `float`.
    F32(f32),
}

impl KernelArgument {
    /// Where the value is, and its size. The driver copies it out during the launch.
    pub(super) fn storage(&self) -> (*mut c_void, usize) {
        fn of<T>(value: &T) -> (*mut c_void, usize) {
            (ptr::from_ref(value).cast_mut().cast(), size_of::<T>())
        }
        match self {
            Self::Pointer(value) => of(value),
            Self::I32(value) => of(value),
            Self::I64(value) => of(value),
            Self::F32(value) => of(value),
        }
    }
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
    /// dynamic shared memory (see [`Kernel::allow_dynamic_shared`]); does not wait.
    ///
    /// # Errors
    /// [`GpuError::Arguments`] where number or sizes are not the kernel's; [`GpuError::Call`] for
    /// a launch that the device cannot do. A fault while running shows at a later call.
    pub fn launch(
        &self,
        kernel: &Kernel,
        grid: [u32; 3],
        block: [u32; 3],
        dynamic_shared: u32,
        arguments: &[KernelArgument],
    ) -> Result<(), GpuError> {
        check_arguments(&kernel.parameters, arguments)
            .map_err(|what| GpuError::Arguments { entry: kernel.entry.clone(), what })?;
        let mut storage = [ptr::null_mut(); MAX_ARGUMENTS];
        for (slot, argument) in storage.iter_mut().zip(arguments) {
            *slot = argument.storage().0;
        }
        // SAFETY: each of the kernel's parameters (`Module::kernel` bounds their number) has a
        // slot that points to a value of its size, which lives until the call returns.
        let status = unsafe {
            sys::cuLaunchKernel(
                kernel.function,
                grid[0],
                grid[1],
                grid[2],
                block[0],
                block[1],
                block[2],
                dynamic_shared,
                self.context.stream,
                storage.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        check("cuLaunchKernel", status)?;
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
        let missing = || GpuError::NoEntry { entry: entry.to_owned() };
        let name = CString::new(entry).map_err(|_| missing())?;
        let mut function = ptr::null_mut();
        // SAFETY: `function` is written; the image is loaded.
        let status =
            unsafe { sys::cuModuleGetFunction(&raw mut function, self.0.handle, name.as_ptr()) };
        if status == sys::CUresult::CUDA_ERROR_NOT_FOUND {
            return Err(missing());
        }
        check("cuModuleGetFunction", status)?;
        // SAFETY: the function was just found.
        check("cuFuncLoad", unsafe { sys::cuFuncLoad(function) })?;
        let attribute = |attribute: Attribute| {
            let mut value = 0;
            // SAFETY: `value` is written; the function's image is loaded.
            let status = unsafe { sys::cuFuncGetAttribute(&raw mut value, attribute, function) };
            // None of those asked for below is ever negative.
            check("cuFuncGetAttribute", status).map(|()| value.unsigned_abs())
        };
        Ok(Kernel {
            entry: entry.to_owned(),
            function,
            image: Rc::clone(&self.0),
            parameters: parameters(entry, function)?,
            registers: attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: attribute(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            static_shared_bytes: attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            max_threads_per_block: attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
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
        self.static_shared_bytes
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
        if bytes.saturating_add(self.static_shared_bytes) <= DEFAULT_SHARED_BYTES {
            return Ok(());
        }
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let most = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the function's image is loaded.
        let status = unsafe { sys::cuFuncSetAttribute(self.function, attribute, most) };
        check("cuFuncSetAttribute", status)
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
                self.function,
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

/// The sizes of a kernel's parameters, in order.
pub(super) fn parameters(entry: &str, function: sys::CUfunction) -> Result<Vec<usize>, GpuError> {
    let mut sizes = Vec::new();
    loop {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: both are written; the function was found in a loaded image.
        let status = unsafe {
            sys::cuFuncGetParamInfo(function, sizes.len(), &raw mut offset, &raw mut size)
        };
        // The driver's way of saying that there is no such parameter.
        if status == sys::CUresult::CUDA_ERROR_INVALID_VALUE {
            return Ok(sizes);
        }
        check("cuFuncGetParamInfo", status)?;
        if sizes.len() == MAX_ARGUMENTS {
            let what = format!("it has more than {MAX_ARGUMENTS} parameters");
            return Err(GpuError::Arguments { entry: entry.to_owned(), what });
        }
        sizes.push(size);
    }
}

/// Compares arguments with the sizes of a kernel's parameters.
pub(super) fn check_arguments(
    parameters: &[usize],
    arguments: &[KernelArgument],
) -> Result<(), String> {
    if parameters.len() != arguments.len() {
        return Err(format!("it takes {}, given {}", parameters.len(), arguments.len()));
    }
    for (position, (parameter, argument)) in parameters.iter().zip(arguments).enumerate() {
        if *parameter != argument.storage().1 {
            return Err(format!(
                "number {} takes {parameter} bytes, given {argument:?}",
                position + 1
            ));
        }
    }
    Ok(())
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

    #[test]
    fn arguments_must_match_the_parameters() {
        let arguments = [KernelArgument::Pointer(256), KernelArgument::F32(1.0)];
        for (parameters, expected) in [
            (&[8, 4][..], Ok(())),
            (&[8], Err("it takes 1, given 2")),
            (&[8, 8], Err("number 2 takes 8 bytes, given F32(1.0)")),
        ] {
            assert_eq!(check_arguments(parameters, &arguments), expected.map_err(str::to_owned));
        }
    }
}
