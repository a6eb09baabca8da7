//! Slices of device memory as operands: those of cudarc, with elements of a dtype that kernels multiply.

use std::sync::Arc;

use cudarc::driver::{
    CudaContext, CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut,
    DeviceSlice, SyncOnDrop,
};

use crate::model::Dtype;

mod sealed {
    /// Keeps other crates from implementing a trait, whose promises unsafe code relies on.
    pub trait Sealed {}
}

/// An element of a matrix: `f32`, `i32`, `i8`, and with the feature `half` also `half::f16` and `half::bf16`.
pub trait SliceElement: sealed::Sealed {
    /// Its dtype.
    const DTYPE: Dtype;
}

/// Device memory that a product reads: a [`CudaSlice`], [`CudaView`] or [`CudaViewMut`] of an [`SliceElement`].
pub trait DeviceOperand: sealed::Sealed {
    /// Dtype of its elements.
    fn dtype(&self) -> Dtype;

    /// Number of elements.
    fn elements(&self) -> u64;

    /// The context that it lies in.
    fn context(&self) -> &Arc<CudaContext>;

    /// Its address, for a read in the order of a stream: the stream waits for writes of others. The other value is
    /// dropped after the read was queued.
    fn read_on<'a>(&'a self, stream: &'a CudaStream) -> (u64, SyncOnDrop<'a>);
}

/// Device memory that a product writes: a [`CudaSlice`] or [`CudaViewMut`] of an [`SliceElement`].
pub trait DeviceResult: DeviceOperand {
    /// Its address, for a write in the order of a stream: the stream waits for reads and writes of others. The other
    /// value is dropped after the write was queued.
    fn write_on<'a>(&'a mut self, stream: &'a CudaStream) -> (u64, SyncOnDrop<'a>);
}

macro_rules! elements {
    ($($(#[$attribute:meta])* $element:ty => $dtype:ident),* $(,)?) => {$(
        $(#[$attribute])*
        impl sealed::Sealed for $element {}

        $(#[$attribute])*
        impl SliceElement for $element {
            const DTYPE: Dtype = Dtype::$dtype;
        }
    )*};
}

elements! {
    f32 => F32,
    i32 => I32,
    i8 => I8,
    #[cfg(feature = "half")]
    half::f16 => F16,
    #[cfg(feature = "half")]
    half::bf16 => Bf16,
}

macro_rules! operands {
    ($($slice:ty),*) => {$(
        impl<T: SliceElement> sealed::Sealed for $slice {}

        impl<T: SliceElement> DeviceOperand for $slice {
            fn dtype(&self) -> Dtype {
                T::DTYPE
            }

            fn elements(&self) -> u64 {
                DeviceSlice::len(self) as u64
            }

            fn context(&self) -> &Arc<CudaContext> {
                DeviceSlice::stream(self).context()
            }

            fn read_on<'a>(&'a self, stream: &'a CudaStream) -> (u64, SyncOnDrop<'a>) {
                self.device_ptr(stream)
            }
        }
    )*};
}

macro_rules! results {
    ($($slice:ty),*) => {$(
        impl<T: SliceElement> DeviceResult for $slice {
            fn write_on<'a>(&'a mut self, stream: &'a CudaStream) -> (u64, SyncOnDrop<'a>) {
                self.device_ptr_mut(stream)
            }
        }
    )*};
}

operands!(CudaSlice<T>, CudaView<'_, T>, CudaViewMut<'_, T>);
results!(CudaSlice<T>, CudaViewMut<'_, T>);
