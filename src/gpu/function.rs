//! A function of a loaded image: finding it, and launching it on any stream. Whose the context is, and
//! what keeps the image loaded, is not known here: see `kernel` and `guest`.
//!
//! The driver trusts what it is given (arguments have no types), so it is checked first.

#![expect(unsafe_code, reason = "the CUDA driver is a C library")]

use std::ffi::{CString, c_void};
use std::ptr;

use cudarc::driver::sys;
use cudarc::driver::sys::CUfunction_attribute as Attribute;

use super::error::{GpuError, check};
use super::tensor_map::EncodedMap;

/// The most arguments that a launch can have. Families use about fifteen.
const MAX_ARGUMENTS: usize = 64;

/// The shared memory that a block gets without asking for more, on every device to date.
const DEFAULT_SHARED_BYTES: u32 = 48 << 10;

/// A function that is ready to launch for as long as its image is loaded.
#[derive(Debug, Clone)]
pub(super) struct Function {
    entry: String,
    pub(super) handle: sys::CUfunction,
    /// Bytes of each parameter, in order.
    parameters: Vec<usize>,
    pub(super) static_shared_bytes: u32,
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
    /// A tensor map, by its place among those of the launch.
    Map(usize),
}

impl KernelArgument {
    /// Where the value is, and its size; nothing for a map that is not there. The driver copies it out
    /// during the launch.
    fn storage(&self, maps: &[EncodedMap]) -> Option<(*mut c_void, usize)> {
        fn of<T>(value: &T) -> (*mut c_void, usize) {
            (ptr::from_ref(value).cast_mut().cast(), size_of::<T>())
        }
        Some(match self {
            Self::Pointer(value) => of(value),
            Self::I32(value) => of(value),
            Self::I64(value) => of(value),
            Self::F32(value) => of(value),
            Self::Map(place) => of(maps.get(*place)?),
        })
    }
}

impl Function {
    /// Finds `entry` in an image and finishes loading it, so that its first launch costs what later
    /// ones cost.
    pub(super) fn find(image: sys::CUmodule, entry: &str) -> Result<Self, GpuError> {
        let missing = || GpuError::NoEntry { entry: entry.to_owned() };
        let name = CString::new(entry).map_err(|_| missing())?;
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is written; the image is loaded.
        let status = unsafe { sys::cuModuleGetFunction(&raw mut handle, image, name.as_ptr()) };
        if status == sys::CUresult::CUDA_ERROR_NOT_FOUND {
            return Err(missing());
        }
        check("cuModuleGetFunction", status)?;
        // SAFETY: the function was just found.
        check("cuFuncLoad", unsafe { sys::cuFuncLoad(handle) })?;
        Ok(Self {
            entry: entry.to_owned(),
            handle,
            parameters: parameters(entry, handle)?,
            static_shared_bytes: figure(handle, Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
        })
    }

    /// Lets launches use up to `bytes` of dynamic shared memory. Only what is above 48 KiB, static
    /// included, has to be told.
    pub(super) fn allow_dynamic_shared(&self, bytes: u32) -> Result<(), GpuError> {
        if bytes.saturating_add(self.static_shared_bytes) <= DEFAULT_SHARED_BYTES {
            return Ok(());
        }
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let most = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the function's image is loaded.
        let status = unsafe { sys::cuFuncSetAttribute(self.handle, attribute, most) };
        check("cuFuncSetAttribute", status)
    }

    /// Launches it on `grid` blocks of `block` threads; does not wait and does not allocate.
    pub(super) fn launch(
        &self,
        stream: sys::CUstream,
        (grid, block, dynamic_shared): ([u32; 3], [u32; 3], u32),
        arguments: &[KernelArgument],
        maps: &[EncodedMap],
    ) -> Result<(), GpuError> {
        check_arguments(&self.parameters, arguments, maps)
            .map_err(|what| GpuError::Arguments { entry: self.entry.clone(), what })?;
        let mut storage = [ptr::null_mut(); MAX_ARGUMENTS];
        for (slot, argument) in storage.iter_mut().zip(arguments) {
            *slot = argument.storage(maps).map_or(ptr::null_mut(), |(value, _)| value);
        }
        // SAFETY: each of the function's parameters (`parameters` bounds their number) has a slot
        // that points to a value of its size, which lives until the call returns; no map is missing,
        // which was checked with the sizes.
        let status = unsafe {
            sys::cuLaunchKernel(
                self.handle,
                grid[0],
                grid[1],
                grid[2],
                block[0],
                block[1],
                block[2],
                dynamic_shared,
                stream,
                storage.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        check("cuLaunchKernel", status)
    }
}

/// What the compiler made of a function; for attributes that are never negative.
pub(super) fn figure(function: sys::CUfunction, attribute: Attribute) -> Result<u32, GpuError> {
    let mut value = 0;
    // SAFETY: `value` is written; the function's image is loaded.
    let status = unsafe { sys::cuFuncGetAttribute(&raw mut value, attribute, function) };
    check("cuFuncGetAttribute", status).map(|()| value.unsigned_abs())
}

/// The sizes of a function's parameters, in order.
fn parameters(entry: &str, function: sys::CUfunction) -> Result<Vec<usize>, GpuError> {
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

/// Compares arguments with the sizes of a function's parameters.
fn check_arguments(
    parameters: &[usize],
    arguments: &[KernelArgument],
    maps: &[EncodedMap],
) -> Result<(), String> {
    if parameters.len() != arguments.len() {
        return Err(format!("it takes {}, given {}", parameters.len(), arguments.len()));
    }
    for (position, (parameter, argument)) in parameters.iter().zip(arguments).enumerate() {
        if argument.storage(maps).is_none_or(|(_, bytes)| *parameter != bytes) {
            return Err(format!(
                "number {} takes {parameter} bytes, given {argument:?}",
                position + 1
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_must_match_the_parameters() {
        let arguments = [KernelArgument::Pointer(256), KernelArgument::F32(1.0)];
        let check = |parameters: &[usize], arguments: &[KernelArgument], maps: &[EncodedMap]| {
            check_arguments(parameters, arguments, maps).err().unwrap_or_default()
        };
        for (parameters, expected) in [
            (&[8, 4][..], ""),
            (&[8], "it takes 1, given 2"),
            (&[8, 8], "number 2 takes 8 bytes, given F32(1.0)"),
        ] {
            assert_eq!(check(parameters, &arguments, &[]), expected);
        }
        let map = [KernelArgument::Map(0)];
        assert_eq!(check(&[128], &map, &[EncodedMap::default()]), "");
        assert_eq!(check(&[128], &map, &[]), "number 1 takes 128 bytes, given Map(0)");
    }
}
