//! Status codes of cuBLAS and cuBLASLt as errors. The driver's are in the crate that launches kernels of bundles.

#![expect(unsafe_code, reason = "cuBLAS names its errors in C")]

use cudarc::{cublas, cublaslt};
use gemm_tune_runtime::gpu::failed;

pub(super) use gemm_tune_runtime::gpu::{GpuError, check, require_symbols};

/// Converts the status of a cuBLAS call.
pub(super) fn check_blas(
    call: &'static str,
    status: cublas::sys::cublasStatus_t,
) -> Result<(), GpuError> {
    if status as u32 == 0 {
        return Ok(());
    }
    // SAFETY: cuBLAS returns a static text for any status.
    Err(unsafe {
        let name = cublas::sys::cublasGetStatusName(status);
        let message = cublas::sys::cublasGetStatusString(status);
        failed(call, "CUBLAS_STATUS", status as u32, name, message)
    })
}

/// Converts the status of a cuBLASLt call.
pub(super) fn check_lt(
    call: &'static str,
    status: cublaslt::sys::cublasStatus_t,
) -> Result<(), GpuError> {
    if status as u32 == 0 {
        return Ok(());
    }
    // SAFETY: cuBLASLt returns a static text for any status.
    Err(unsafe {
        let name = cublaslt::sys::cublasLtGetStatusName(status);
        let message = cublaslt::sys::cublasLtGetStatusString(status);
        failed(call, "CUBLAS_STATUS", status as u32, name, message)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// cudarc panics at a missing symbol, so a call that is missing from its library's list is a
    /// bug.
    #[test]
    fn every_foreign_call_is_looked_up_when_its_library_is_opened() {
        let sources = [
            include_str!("context.rs"),
            include_str!("cublas.rs"),
            include_str!("cublas_lt.rs"),
            include_str!("driver.rs"),
            include_str!("error.rs"),
            include_str!("kernel.rs"),
            include_str!("lt_algorithm.rs"),
            include_str!("lt_descriptors.rs"),
            include_str!("memory.rs"),
            include_str!("timing.rs"),
        ];
        let looked_up: BTreeSet<&str> = super::super::driver::SYMBOLS
            .iter()
            .chain(super::super::cublas::SYMBOLS)
            .chain(super::super::cublas_lt::SYMBOLS)
            .copied()
            .collect();
        let by_the_runtime: BTreeSet<&str> =
            gemm_tune_runtime::gpu::SYMBOLS.iter().copied().collect();
        let called: BTreeSet<&str> = sources
            .iter()
            .flat_map(|source| source.split("sys::").skip(1))
            .filter_map(|after| after.split_once('('))
            .map(|(name, _)| name)
            .filter(|name| name.starts_with("cu") && *name != "culib")
            .filter(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
            .collect();
        let own: BTreeSet<&str> = called.difference(&by_the_runtime).copied().collect();
        assert_eq!(own, looked_up);
    }
}
