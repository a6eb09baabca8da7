//! Errors of the driver and the libraries, and which of them end the process's context.

#![expect(unsafe_code, reason = "the driver names its errors in C")]

use std::ffi::{CStr, c_char};
use std::ptr;

use cudarc::driver;
use thiserror::Error;

use crate::model::units::human_bytes;

/// Error of an operation that needs a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GpuError {
    /// There is no driver.
    #[error(
        "no NVIDIA driver: {why}; run on a machine with an NVIDIA GPU, or give the container access to its driver"
    )]
    NoDriver {
        /// The reason, as a clause.
        why: String,
    },
    /// The driver reports no device of that number.
    #[error(
        "there is no CUDA device {ordinal}: the driver reports {count} (`CUDA_VISIBLE_DEVICES` limits them)"
    )]
    NoDevice {
        /// The requested device, counted from 0.
        ordinal: usize,
        /// The number of devices.
        count: usize,
    },
    /// No context is current on the thread.
    #[error(
        "no CUDA context is current on this thread: make one current, for instance by a call of the CUDA runtime"
    )]
    NoContext,
    /// A call of the driver or a library failed.
    #[error("{call} failed: {message} ({code})")]
    Call {
        /// The function.
        call: &'static str,
        /// The error's name: `CUDA_ERROR_ILLEGAL_ADDRESS`, `CUBLAS_STATUS_NOT_SUPPORTED`.
        code: String,
        /// The library's message.
        message: String,
    },
    /// The device has too little free memory.
    #[error(
        "out of device memory: {} requested, {} free; choose a smaller problem or end other programs on this GPU",
        human_bytes(*.bytes),
        human_bytes(*.free)
    )]
    OutOfMemory {
        /// Requested bytes.
        bytes: u64,
        /// Free bytes at that time.
        free: u64,
    },
    /// A shared library is missing or unusable.
    #[error("{name} cannot be used: {why}")]
    Library {
        /// The library's file name.
        name: &'static str,
        /// The reason.
        why: String,
    },
    /// An image is not a complete cubin.
    #[error("the image is not a loadable cubin: {why}; compile the kernel again")]
    Image {
        /// The reason.
        why: &'static str,
    },
    /// An image lacks the requested entry point.
    #[error(
        "the cubin has no kernel `{entry}`: declare it `extern \"C\" __global__` under that name"
    )]
    NoEntry {
        /// The requested name.
        entry: String,
    },
    /// The arguments of a launch do not match the kernel's parameters.
    #[error("kernel `{entry}` cannot take these arguments: {what}")]
    Arguments {
        /// The kernel's name.
        entry: String,
        /// The mismatch, with the figures.
        what: String,
    },
    /// A library does not support the problem.
    #[error("{library} cannot be used for this problem: {what}")]
    Unsupported {
        /// The library.
        library: &'static str,
        /// The exceeded limit, with the figures.
        what: String,
    },
}

/// Errors after which every call in the context fails until the process ends. The driver's
/// documentation says so for all up to `EXTERNAL_DEVICE`; after the others a device or context is
/// unfit for measurements.
const STICKY: [&str; 18] = [
    "CUDA_ERROR_CONTAINED",
    "CUDA_ERROR_ILLEGAL_ADDRESS",
    "CUDA_ERROR_LAUNCH_TIMEOUT",
    "CUDA_ERROR_ASSERT",
    "CUDA_ERROR_HARDWARE_STACK_ERROR",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "CUDA_ERROR_MISALIGNED_ADDRESS",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE",
    "CUDA_ERROR_INVALID_PC",
    "CUDA_ERROR_LAUNCH_FAILED",
    "CUDA_ERROR_TENSOR_MEMORY_LEAK",
    "CUDA_ERROR_EXTERNAL_DEVICE",
    "CUDA_ERROR_ECC_UNCORRECTABLE",
    "CUDA_ERROR_NVLINK_UNCORRECTABLE",
    "CUDA_ERROR_MPS_CLIENT_TERMINATED",
    "CUDA_ERROR_CONTEXT_IS_DESTROYED",
    "CUDA_ERROR_DEINITIALIZED",
    "CUDA_ERROR_UNKNOWN",
];

impl GpuError {
    /// Whether there is no GPU, rather than a failing one.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::NoDriver { .. } | Self::NoDevice { count: 0, .. })
    }

    /// Whether the device has too little free memory.
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            Self::OutOfMemory { .. } => true,
            Self::Call { code, .. } => code == "CUDA_ERROR_OUT_OF_MEMORY",
            _ => false,
        }
    }

    /// Whether the context is lost, so that only a new process can use the GPU.
    ///
    /// cuBLAS reports a lost context by codes that it also uses for harmless failures. After one of
    /// those, synchronizing the context returns the driver's status.
    pub fn is_sticky(&self) -> bool {
        matches!(self, Self::Call { code, .. } if STICKY.contains(&code.as_str()))
    }
}

/// Converts the status of a driver call.
///
/// cudarc declares status codes as Rust enums, and a driver may be newer than its list. A code is
/// therefore compared as a number, and never printed through the enum's `Debug`.
///
/// # Errors
/// [`GpuError::Call`].
pub fn check(call: &'static str, status: driver::sys::CUresult) -> Result<(), GpuError> {
    if status as u32 == 0 {
        return Ok(());
    }
    let (mut name, mut message) = (ptr::null(), ptr::null());
    // SAFETY: both calls only write the given pointer; for an unknown code they leave or set it
    // null.
    unsafe {
        driver::sys::cuGetErrorName(status, &raw mut name);
        driver::sys::cuGetErrorString(status, &raw mut message);
    }
    // SAFETY: the driver's texts are static.
    Err(unsafe { failed(call, "CUDA_ERROR", status as u32, name, message) })
}

/// The error of a call, by its code's name and message; `kind` and `number` replace a missing name.
///
/// # Safety
/// `name` and `message` are null or static C strings.
pub unsafe fn failed(
    call: &'static str,
    kind: &str,
    number: u32,
    name: *const c_char,
    message: *const c_char,
) -> GpuError {
    let text = |text: *const c_char| {
        // SAFETY: not null, hence a C string by this function's contract.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    };
    GpuError::Call {
        call,
        code: text(name).unwrap_or_else(|| format!("{kind}_{number}")),
        message: text(message).unwrap_or_else(|| "no description".to_owned()),
    }
}

/// Looks up every function that will be called, since cudarc panics at a missing one.
///
/// # Errors
/// [`GpuError::Library`] for the first that is missing; `needed` says what has all.
pub fn require_symbols(
    name: &'static str,
    library: &libloading::Library,
    symbols: &[&str],
    needed: &str,
) -> Result<(), GpuError> {
    for symbol in symbols {
        // SAFETY: the symbol is looked up, not called.
        if unsafe { library.get::<unsafe extern "C" fn()>(symbol.as_bytes()) }.is_err() {
            return Err(GpuError::Library { name, why: format!("it lacks `{symbol}`; {needed}") });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn call(code: &str) -> GpuError {
        GpuError::Call { call: "cuLaunchKernel", code: code.to_owned(), message: "m".to_owned() }
    }

    #[test]
    fn messages_state_the_fault_and_the_remedy() {
        for (error, text) in [
            (
                GpuError::NoDriver { why: "libcuda.so.1 was not found".to_owned() },
                "no NVIDIA driver: libcuda.so.1 was not found; run on a machine with an NVIDIA GPU, or give the container access to its driver",
            ),
            (
                GpuError::NoDevice { ordinal: 2, count: 1 },
                "there is no CUDA device 2: the driver reports 1 (`CUDA_VISIBLE_DEVICES` limits them)",
            ),
            (call("CUDA_ERROR_X"), "cuLaunchKernel failed: m (CUDA_ERROR_X)"),
            (
                GpuError::OutOfMemory { bytes: 3 << 30, free: 512 << 20 },
                "out of device memory: 3.00 GiB requested, 512.0 MiB free; choose a smaller problem or end other programs on this GPU",
            ),
            (
                GpuError::Library { name: "libcublas", why: "it was not found".to_owned() },
                "libcublas cannot be used: it was not found",
            ),
            (
                GpuError::Image { why: "it is empty" },
                "the image is not a loadable cubin: it is empty; compile the kernel again",
            ),
            (
                GpuError::NoEntry { entry: "gemm".to_owned() },
                "the cubin has no kernel `gemm`: declare it `extern \"C\" __global__` under that name",
            ),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn only_lost_contexts_are_sticky() {
        for code in STICKY {
            assert!(call(code).is_sticky(), "{code}");
        }
        for code in [
            "CUDA_ERROR_INVALID_VALUE",
            "CUDA_ERROR_OUT_OF_MEMORY",
            "CUDA_ERROR_NO_BINARY_FOR_GPU",
            "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
            "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
            "CUBLAS_STATUS_EXECUTION_FAILED",
        ] {
            assert!(!call(code).is_sticky(), "{code}");
        }
        assert!(!GpuError::NoDevice { ordinal: 0, count: 0 }.is_sticky());
    }

    /// cudarc panics at a missing symbol, so a call that is missing from its library's list is a
    /// bug.
    #[test]
    fn every_foreign_call_is_looked_up_when_its_library_is_opened() {
        let sources = [
            include_str!("error.rs"),
            include_str!("foreign.rs"),
            include_str!("function.rs"),
            include_str!("library.rs"),
            include_str!("tensor_map.rs"),
        ];
        let looked_up: BTreeSet<&str> = super::super::library::SYMBOLS
            .iter()
            .chain(super::super::function::SYMBOLS)
            .chain(super::super::tensor_map::SYMBOLS)
            .copied()
            .collect();
        let called: BTreeSet<&str> = sources
            .iter()
            .flat_map(|source| source.split("sys::").skip(1))
            .filter_map(|after| after.split_once('('))
            .map(|(name, _)| name)
            .filter(|name| name.starts_with("cu") && *name != "culib")
            .filter(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
            .collect();
        assert_eq!(called, looked_up);
    }
}
