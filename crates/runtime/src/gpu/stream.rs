//! A CUDA stream handle of the embedding program.

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys;

/// A CUDA stream of the caller. The default is the context's null stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Stream(usize);

impl Stream {
    /// Wraps a `CUstream` or `cudaStream_t`, such as cudarc's `CudaStream::cu_stream`.
    pub fn from_raw(stream: *mut c_void) -> Self {
        Self(stream.expose_provenance())
    }

    /// The handle.
    pub fn handle(self) -> sys::CUstream {
        ptr::with_exposed_provenance_mut(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_keeps_its_pointer() {
        let mut value = 0_u8;
        let stream = Stream::from_raw((&raw mut value).cast());
        assert_eq!(stream.handle().cast::<u8>(), &raw mut value);
    }
}
