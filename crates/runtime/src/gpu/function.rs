//! A function of a loaded image: lookup, and launches on any stream. The owners of context and
//! image are in `kernel` and `foreign`.
//!
//! The driver does not check its input (arguments have no types), so this module does.

#![expect(unsafe_code, reason = "the CUDA driver is a C library")]

use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::OnceLock;

use cudarc::driver::sys;
use cudarc::driver::sys::CUfunction_attribute as Attribute;

use super::error::{GpuError, check, require_symbols};
use super::tensor_map::EncodedMap;
use crate::model::LaunchShape;

/// Maximum number of launch arguments. Families use about fifteen.
const MAX_ARGUMENTS: usize = 64;

/// Functions that only programmatic dependent launches need; looked up for them.
pub(super) const SYMBOLS: &[&str] = &["cuLaunchKernelEx"];

/// The first version whose graphs have edges of programmatic dependent launches, as `cuDriverGetVersion` has it.
const CUDA_OF_EARLY_LAUNCHES: i32 = 12_030;

/// The first compute capability with programmatic dependent launches, without its dot. Code for earlier ones does not wait.
const CAPABILITY_OF_EARLY_LAUNCHES: u32 = 90;

/// Shared memory per block without opting in, on every device so far.
const DEFAULT_SHARED_BYTES: u32 = 48 << 10;

/// A function that can be launched while its image is loaded.
#[derive(Debug, Clone)]
pub struct LoadedFunction {
    entry: String,
    /// The driver's handle.
    pub handle: sys::CUfunction,
    /// Size of each parameter in bytes, in order.
    parameters: Vec<usize>,
    /// Bytes of static shared memory of a block.
    pub static_shared_bytes: u32,
    /// Compute capability of its machine code, without the dot.
    binary_version: u32,
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
    /// A tensor map, by its index among those of the launch.
    Map(usize),
}

impl KernelArgument {
    /// Address and size of the value; `None` for a missing map. The driver copies the value during
    /// the launch.
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

impl LoadedFunction {
    /// Finds `entry` in an image and finishes loading it, so that its first launch costs no more
    /// than later ones.
    ///
    /// # Errors
    /// [`GpuError::NoEntry`]; [`GpuError::Arguments`] for a kernel of more than 64 parameters;
    /// [`GpuError::Call`].
    ///
    /// # Safety
    /// The image is loaded in the current context, and stays loaded while the function is used.
    pub unsafe fn find(image: sys::CUmodule, entry: &str) -> Result<Self, GpuError> {
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
            // SAFETY: the function was just found.
            static_shared_bytes: unsafe {
                figure(handle, Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?
            },
            // SAFETY: the function was just found.
            binary_version: unsafe { figure(handle, Attribute::CU_FUNC_ATTRIBUTE_BINARY_VERSION)? },
        })
    }

    /// Allows launches up to `bytes` of dynamic shared memory. Needed above 48 KiB, static
    /// included.
    ///
    /// # Errors
    /// [`GpuError::Call`], for more than a block of the device can have.
    pub fn allow_dynamic_shared(&self, bytes: u32) -> Result<(), GpuError> {
        if bytes.saturating_add(self.static_shared_bytes) <= DEFAULT_SHARED_BYTES {
            return Ok(());
        }
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let most = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the function's image is loaded.
        let status = unsafe { sys::cuFuncSetAttribute(self.handle, attribute, most) };
        check("cuFuncSetAttribute", status)
    }

    /// Launches; does not wait or allocate. Arguments refer to `maps` by index.
    ///
    /// # Errors
    /// [`GpuError::Arguments`] when number or sizes differ from the kernel's; [`GpuError::Call`]
    /// for a launch that the device cannot do. A later call reports a fault during execution.
    ///
    /// # Safety
    /// The stream is a stream of the context that the image is loaded in. The kernel accesses only memory that it may
    /// access with these arguments and sizes, until the launch has run.
    pub unsafe fn launch(
        &self,
        stream: sys::CUstream,
        shape: LaunchShape,
        arguments: &[KernelArgument],
        maps: &[EncodedMap],
    ) -> Result<(), GpuError> {
        check_arguments(&self.parameters, arguments, maps)
            .map_err(|what| GpuError::Arguments { entry: self.entry.clone(), what })?;
        let mut storage = [ptr::null_mut(); MAX_ARGUMENTS];
        for (slot, argument) in storage.iter_mut().zip(arguments) {
            *slot = argument.storage(maps).map_or(ptr::null_mut(), |(value, _)| value);
        }
        let LaunchShape { grid, block, dynamic_shared_bytes, programmatic } = shape;
        if programmatic && self.binary_version >= CAPABILITY_OF_EARLY_LAUNCHES && launches_early() {
            return self.launch_dependent(stream, shape, &mut storage);
        }
        // SAFETY: each of the function's parameters (`parameters` bounds their number) has a slot
        // with a pointer to a value of its size, which lives until the call returns. No map is
        // missing, which the size check verified.
        let status = unsafe {
            sys::cuLaunchKernel(
                self.handle,
                grid[0],
                grid[1],
                grid[2],
                block[0],
                block[1],
                block[2],
                dynamic_shared_bytes,
                stream,
                storage.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        check("cuLaunchKernel", status)
    }

    /// Launches so that the kernel may begin before the launch before it ends. `storage` has a pointer to the value of
    /// each parameter.
    fn launch_dependent(
        &self,
        stream: sys::CUstream,
        LaunchShape { grid, block, dynamic_shared_bytes, .. }: LaunchShape,
        storage: &mut [*mut c_void; MAX_ARGUMENTS],
    ) -> Result<(), GpuError> {
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let configuration = sys::CUlaunchConfig {
            gridDimX: grid[0],
            gridDimY: grid[1],
            gridDimZ: grid[2],
            blockDimX: block[0],
            blockDimY: block[1],
            blockDimZ: block[2],
            sharedMemBytes: dynamic_shared_bytes,
            hStream: stream,
            attrs: &raw mut attribute,
            numAttrs: 1,
        };
        // SAFETY: as for `launch`; the attribute lives until the call returns.
        let status = unsafe {
            sys::cuLaunchKernelEx(
                &raw const configuration,
                self.handle,
                storage.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        check("cuLaunchKernelEx", status)
    }
}

/// Whether the driver can capture programmatic dependent launches in graphs (CUDA 12.3 and later). Without that, launches
/// begin after the end of the one before.
fn launches_early() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let mut version = 0;
        // SAFETY: the caller, which has a function, has opened the library; `version` is written.
        let status = unsafe { sys::cuDriverGetVersion(&raw mut version) };
        // SAFETY: as before.
        let library = unsafe { sys::culib() };
        let has_all = require_symbols("libcuda.so.1", library, SYMBOLS, "").is_ok();
        check("cuDriverGetVersion", status).is_ok() && version >= CUDA_OF_EARLY_LAUNCHES && has_all
    })
}

/// Reads an attribute of a compiled function; for attributes that are never negative.
///
/// # Errors
/// [`GpuError::Call`].
///
/// # Safety
/// The function's image is loaded.
pub unsafe fn figure(function: sys::CUfunction, attribute: Attribute) -> Result<u32, GpuError> {
    let mut value = 0;
    // SAFETY: `value` is written; the function's image is loaded.
    let status = unsafe { sys::cuFuncGetAttribute(&raw mut value, attribute, function) };
    check("cuFuncGetAttribute", status).map(|()| value.unsigned_abs())
}

/// Reads the sizes of a function's parameters, in order.
fn parameters(entry: &str, function: sys::CUfunction) -> Result<Vec<usize>, GpuError> {
    let mut sizes = Vec::new();
    loop {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: both are written; the function was found in a loaded image.
        let status = unsafe {
            sys::cuFuncGetParamInfo(function, sizes.len(), &raw mut offset, &raw mut size)
        };
        // The driver reports a missing parameter by this error.
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
        return Err(format!("expected {}, got {}", parameters.len(), arguments.len()));
    }
    for (position, (parameter, argument)) in parameters.iter().zip(arguments).enumerate() {
        if argument.storage(maps).is_none_or(|(_, bytes)| *parameter != bytes) {
            return Err(format!(
                "argument {} has {parameter} bytes, got {argument:?}",
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
            (&[8], "expected 1, got 2"),
            (&[8, 8], "argument 2 has 8 bytes, got F32(1.0)"),
        ] {
            assert_eq!(check(parameters, &arguments, &[]), expected);
        }
        let map = [KernelArgument::Map(0)];
        assert_eq!(check(&[128], &map, &[EncodedMap::default()]), "");
        assert_eq!(check(&[128], &map, &[]), "argument 1 has 128 bytes, got Map(0)");
    }
}
