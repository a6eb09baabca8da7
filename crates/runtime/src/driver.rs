//! Loading and launching kernels: the interface, and its implementation on a GPU.

#![expect(unsafe_code, reason = "launches take addresses")]

use crate::gpu::{
    EncodedMap, ForeignBuffer, ForeignContext, ForeignKernel, GpuError, KernelArgument, Stream,
};
use crate::model::{LaunchShape, PlacedMap};
use crate::operands::{RowsToCopy, RowsToFill};

/// Interface that loads and launches kernels. [`ForeignContext`] implements it for a GPU; tests record the
/// calls.
pub trait Driver: Send + Sync {
    /// A loaded kernel.
    type KernelHandle: Clone + Send + Sync;
    /// Device memory.
    type Allocation: Send;
    /// An encoded tensor map.
    type MapHandle: Send + Sync;

    /// Loads an image and returns handles of its kernels, each with its dynamic shared memory.
    ///
    /// # Errors
    /// [`GpuError`].
    fn load(
        &self,
        image: &[u8],
        kernels: &[(&str, u32)],
    ) -> Result<Vec<Self::KernelHandle>, GpuError>;

    /// Encodes a tensor map for kernel arguments.
    ///
    /// # Errors
    /// [`GpuError`].
    fn encode(&self, map: &PlacedMap) -> Result<Self::MapHandle, GpuError>;

    /// Launches a kernel. Arguments refer to `maps` by index.
    ///
    /// # Errors
    /// [`GpuError`].
    ///
    /// # Safety
    /// The context is current, the stream is one of it, and the kernel accesses only memory that it may access with
    /// these arguments and sizes, until the launch has run.
    unsafe fn launch(
        &self,
        stream: Stream,
        kernel: &Self::KernelHandle,
        shape: LaunchShape,
        arguments: &[KernelArgument],
        maps: &[Self::MapHandle],
    ) -> Result<(), GpuError>;

    /// Copies rows in device memory, in the order of the stream.
    ///
    /// # Errors
    /// [`GpuError`].
    ///
    /// # Safety
    /// The context is current, the stream is one of it, and nothing else accesses the rows until the copy has run.
    unsafe fn copy_rows(&self, stream: Stream, rows: &RowsToCopy) -> Result<(), GpuError>;

    /// Fills rows in device memory with zeros, in the order of the stream.
    ///
    /// # Errors
    /// [`GpuError`].
    ///
    /// # Safety
    /// As for [`Driver::copy_rows`].
    unsafe fn fill_rows(&self, stream: Stream, rows: &RowsToFill) -> Result<(), GpuError>;

    /// Allocates memory.
    ///
    /// # Errors
    /// [`GpuError`].
    fn allocate(&self, bytes: u64) -> Result<Self::Allocation, GpuError>;

    /// Address and size of an allocation.
    fn address_and_size(memory: &Self::Allocation) -> (u64, u64);
}

impl Driver for ForeignContext {
    type KernelHandle = ForeignKernel;
    type Allocation = ForeignBuffer;
    type MapHandle = EncodedMap;

    fn load(&self, image: &[u8], kernels: &[(&str, u32)]) -> Result<Vec<ForeignKernel>, GpuError> {
        Self::load(self, image, kernels)
    }

    fn encode(&self, map: &PlacedMap) -> Result<EncodedMap, GpuError> {
        Self::encode(self, map)
    }

    unsafe fn launch(
        &self,
        stream: Stream,
        kernel: &ForeignKernel,
        shape: LaunchShape,
        arguments: &[KernelArgument],
        maps: &[EncodedMap],
    ) -> Result<(), GpuError> {
        // SAFETY: as the caller's.
        unsafe { Self::launch(self, stream, kernel, shape, arguments, maps) }
    }

    unsafe fn copy_rows(&self, stream: Stream, rows: &RowsToCopy) -> Result<(), GpuError> {
        // SAFETY: as the caller's.
        unsafe { Self::copy_rows(self, stream, rows) }
    }

    unsafe fn fill_rows(&self, stream: Stream, rows: &RowsToFill) -> Result<(), GpuError> {
        // SAFETY: as the caller's.
        unsafe { Self::fill_rows(self, stream, rows) }
    }

    fn allocate(&self, bytes: u64) -> Result<ForeignBuffer, GpuError> {
        Self::allocate(self, bytes)
    }

    fn address_and_size(memory: &ForeignBuffer) -> (u64, u64) {
        (memory.address(), memory.bytes())
    }
}
