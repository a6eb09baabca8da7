//! A GPU opened through the CUDA driver, and its memory. Kernels are in `kernel`, time in
//! `timing`.

#![expect(unsafe_code, reason = "the CUDA driver is a C library")]

use std::cell::RefCell;
use std::ffi::{CStr, c_char};
use std::ptr;
use std::rc::Rc;

use cudarc::driver::sys;

use super::error::{GpuError, check, require_symbols};
use super::guest::Stream;
use super::kernel::Image;
use super::sensors::Sensors;
use crate::model::{ComputeCapability, Device};

/// The driver functions that this room calls. `cuEventElapsedTime_v2` is the youngest.
pub(super) const SYMBOLS: &[&str] = &[
    "cuCtxGetCurrent",
    "cuCtxGetDevice",
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetPCIBusId",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncGetAttribute",
    "cuFuncGetParamInfo",
    "cuFuncLoad",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphUpload",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD32Async",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuStreamBeginCapture_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamSynchronize",
];

/// An open GPU: its primary context, current on this thread, and the one stream that all work
/// goes through. A process opens one.
#[derive(Debug)]
pub struct Gpu {
    pub(super) context: Rc<Context>,
    device: Device,
    pci_bus_id: String,
}

/// What every handle keeps alive.
#[derive(Debug)]
pub(super) struct Context {
    device: sys::CUdevice,
    pub(super) stream: sys::CUstream,
    /// The images of kernels launched since a capture began, while one is under way: a graph must
    /// not outlive the code that it launches.
    pub(super) captured: RefCell<Option<Vec<Rc<Image>>>>,
}

/// The device's memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// What can still be allocated, by any process.
    pub free: u64,
    /// All of it.
    pub total: u64,
}

/// Device memory, freed when dropped.
#[derive(Debug)]
pub struct Buffer {
    address: u64,
    bytes: u64,
    /// Keeps the context until the memory is freed.
    _context: Rc<Context>,
}

/// How many CUDA devices the driver shows. Opens the driver, no device.
///
/// # Errors
/// [`GpuError::NoDriver`] and [`GpuError::Library`] where there is no driver or one too old;
/// [`GpuError::Call`] where it does not start.
pub fn device_count() -> Result<usize, GpuError> {
    // SAFETY: opens and closes the driver library, whose initialisers ask nothing of us.
    if !unsafe { sys::is_culib_present() } {
        return Err(GpuError::NoDriver { why: "libcuda.so.1 was not found".to_owned() });
    }
    // SAFETY: the library is there, so cudarc opens it too and does not panic.
    let library = unsafe { sys::culib() };
    let needed = "a driver of CUDA 12.8 or later (570) is needed";
    require_symbols("libcuda.so.1", library, SYMBOLS, needed)?;
    // SAFETY: no precondition.
    let status = unsafe { sys::cuInit(0) };
    if status == sys::CUresult::CUDA_ERROR_STUB_LIBRARY {
        let why = "the libcuda.so found first is a toolkit's stub, made for linking";
        return Err(GpuError::NoDriver { why: why.to_owned() });
    }
    if status == sys::CUresult::CUDA_ERROR_NO_DEVICE {
        return Ok(0);
    }
    check("cuInit", status)?;
    let mut count = 0;
    // SAFETY: `count` is written.
    check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&raw mut count) })?;
    Ok(usize::try_from(count).unwrap_or(0))
}

impl Gpu {
    /// Opens device `ordinal`, counted from 0 as the driver counts.
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
        // NVML alone knows the driver's own version; without it the field stays empty.
        let driver = Sensors::open(&pci_bus_id).ok().and_then(|sensors| sensors.driver_version());
        Ok(Self {
            context: Rc::new(Context::open(device)?),
            device: describe(device, driver.unwrap_or_default())?,
            pci_bus_id,
        })
    }

    /// What kernels depend on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The stream that all work goes through.
    pub fn stream(&self) -> Stream {
        Stream::from_raw(self.context.stream.cast())
    }

    /// The device's place on the PCI bus, `0000:04:00.0`, by which NVML finds it.
    pub fn pci_bus_id(&self) -> &str {
        &self.pci_bus_id
    }

    /// Waits until the device has done all that it was given.
    ///
    /// # Errors
    /// [`GpuError::Call`]; the fault of a kernel launched earlier surfaces here.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        // SAFETY: the context keeps its stream.
        check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.context.stream) })
    }

    /// How much device memory there is, and is left.
    ///
    /// # Errors
    /// [`GpuError::Call`].
    pub fn memory(&self) -> Result<Memory, GpuError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are written; the context is current.
        let status = unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) };
        check("cuMemGetInfo", status)?;
        Ok(Memory { free: free as u64, total: total as u64 })
    }

    /// Allocates device memory; its contents are undefined, its address a multiple of 256.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`]; [`GpuError::Call`], also for no bytes at all.
    pub fn allocate(&self, bytes: u64) -> Result<Buffer, GpuError> {
        let mut address = 0;
        // SAFETY: `address` is written; the context is current.
        let status = unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes as usize) };
        if status == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Err(GpuError::OutOfMemory { bytes, free: self.memory()?.free });
        }
        check("cuMemAlloc", status)?;
        Ok(Buffer { address, bytes, _context: Rc::clone(&self.context) })
    }

    /// Sets `bytes` bytes from `address` on to `value`, in the stream's turn; does not wait.
    ///
    /// # Errors
    /// [`GpuError::Call`], where the range is no device memory for one.
    pub fn fill_bytes(&self, address: u64, value: u8, bytes: u64) -> Result<(), GpuError> {
        let stream = self.context.stream;
        // SAFETY: no host memory takes part; the driver checks the range.
        let status = unsafe { sys::cuMemsetD8Async(address, value, bytes as usize, stream) };
        check("cuMemsetD8Async", status)
    }

    /// Sets `count` 32-bit words from `address` on to `value`, in the stream's turn; does not
    /// wait.
    ///
    /// # Errors
    /// [`GpuError::Call`], where the range is no device memory or `address` no multiple of 4.
    pub fn fill_words(&self, address: u64, value: u32, count: u64) -> Result<(), GpuError> {
        let stream = self.context.stream;
        // SAFETY: no host memory takes part; the driver checks the range.
        let status = unsafe { sys::cuMemsetD32Async(address, value, count as usize, stream) };
        check("cuMemsetD32Async", status)
    }

    /// Copies `data` to the device in the stream's turn, and waits.
    ///
    /// # Errors
    /// [`GpuError::Call`], where the range is no device memory for one.
    pub fn copy_to_device(&self, address: u64, data: &[u8]) -> Result<(), GpuError> {
        let stream = self.context.stream;
        // SAFETY: `data` outlives the copy, which is waited for below.
        let status =
            unsafe { sys::cuMemcpyHtoDAsync_v2(address, data.as_ptr().cast(), data.len(), stream) };
        check("cuMemcpyHtoDAsync", status)?;
        self.synchronize()
    }

    /// Fills `data` from the device in the stream's turn, and waits.
    ///
    /// # Errors
    /// [`GpuError::Call`], where the range is no device memory for one.
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

impl Context {
    fn open(device: sys::CUdevice) -> Result<Self, GpuError> {
        let mut handle = ptr::null_mut();
        // SAFETY: `device` came from the driver.
        let status = unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut handle, device) };
        check("cuDevicePrimaryCtxRetain", status)?;
        // From here on, dropping gives the context back.
        let mut context = Self { device, stream: ptr::null_mut(), captured: RefCell::default() };
        // SAFETY: the context was just retained.
        check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(handle) })?;
        // Non-blocking: no order with the default stream, which libraries might touch.
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the stream is written; the context is current.
        let status = unsafe { sys::cuStreamCreate(&raw mut context.stream, flags) };
        check("cuStreamCreate", status)?;
        Ok(context)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // Failures are not looked at: after a kernel's fault every call here fails.
        // SAFETY: whatever used the stream or the context kept this alive, so nothing does.
        unsafe {
            if !self.stream.is_null() {
                sys::cuStreamDestroy_v2(self.stream);
            }
            sys::cuDevicePrimaryCtxRelease_v2(self.device);
        }
    }
}

impl Buffer {
    /// Where it begins, as kernels see it.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // A failure is not looked at, as in Context; the driver waits for kernels at work.
        // SAFETY: allocated by `Gpu::allocate`, freed once.
        unsafe { sys::cuMemFree_v2(self.address) };
    }
}

fn pci_bus_id(device: sys::CUdevice) -> Result<String, GpuError> {
    let mut text = [0; 32];
    // SAFETY: the driver writes at most `text.len()` bytes, the last of them a zero.
    let status = unsafe {
        sys::cuDeviceGetPCIBusId(text.as_mut_ptr().cast::<c_char>(), text.len() as i32, device)
    };
    check("cuDeviceGetPCIBusId", status)?;
    Ok(string(&text))
}

pub(super) fn describe(device: sys::CUdevice, driver: String) -> Result<Device, GpuError> {
    use sys::CUdevice_attribute as Attribute;

    let attribute = |attribute: Attribute| {
        let mut value = 0;
        // SAFETY: `value` is written; `device` came from the driver.
        let status = unsafe { sys::cuDeviceGetAttribute(&raw mut value, attribute, device) };
        // None of those asked for below is ever negative.
        check("cuDeviceGetAttribute", status).map(|()| value.unsigned_abs())
    };
    let mut name = [0; 256];
    // SAFETY: the driver writes at most `name.len()` bytes, the last of them a zero.
    let status = unsafe {
        sys::cuDeviceGetName(name.as_mut_ptr().cast::<c_char>(), name.len() as i32, device)
    };
    check("cuDeviceGetName", status)?;
    let (mut memory_bytes, mut driver_cuda) = (0, 0);
    // SAFETY: `memory_bytes` is written; `device` came from the driver.
    let status = unsafe { sys::cuDeviceTotalMem_v2(&raw mut memory_bytes, device) };
    check("cuDeviceTotalMem", status)?;
    // SAFETY: `driver_cuda` is written.
    check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&raw mut driver_cuda) })?;
    Ok(Device {
        name: string(&name),
        compute_capability: ComputeCapability {
            major: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            minor: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        },
        sms: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        shared_bytes_per_block: attribute(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        )?,
        shared_bytes_per_sm: attribute(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
        )?,
        shared_bytes_reserved: attribute(
            Attribute::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK,
        )?,
        registers_per_block: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK)?,
        registers_per_sm: attribute(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
        )?,
        threads_per_sm: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
        threads_per_block: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        warp_size: attribute(Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?,
        l2_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.into(),
        memory_bytes: memory_bytes as u64,
        // The attribute is in kHz.
        max_sm_clock_mhz: attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)? / 1000,
        driver,
        driver_cuda,
    })
}

/// The text before the first zero.
fn string(bytes: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(bytes).unwrap_or_default();
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a machine without a driver must give; one with a driver is tested in `tests/gpu.rs`.
    #[test]
    fn a_missing_driver_is_an_error_and_no_panic() {
        // SAFETY: opens and closes the driver library.
        if unsafe { sys::is_culib_present() } {
            println!("skipped: this machine has a CUDA driver");
            return;
        }
        let error = device_count().unwrap_err();
        assert!(matches!(error, GpuError::NoDriver { .. }), "{error:?}");
        assert_eq!(Gpu::open(0).unwrap_err(), error);
    }
}
