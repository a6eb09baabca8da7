//! Calls the exported Rust module beside it for products whose A and B are not read. `spoken_driver.c` says what is queued.

#![allow(clippy::all, reason = "a program of a test")]

mod gemm_tuned;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use gemm_tuned::{Error, GemmTuned};
use std::mem::ManuallyDrop;
use std::sync::Arc;

unsafe extern "C" {
    fn fflush(stream: *mut std::ffi::c_void) -> i32;
}

const SHAPE: [i32; 3] = [44, 31, 23];

/// Memory of the host in the place of the device's: the driver of the test writes zeros there.
fn slice<T>(stream: &Arc<CudaStream>, bytes: &mut [u64]) -> ManuallyDrop<CudaSlice<T>> {
    let at = (bytes.as_ptr() as u64).next_multiple_of(256);
    let len = (bytes.len() * 8 - 256) / size_of::<T>();
    // SAFETY: nothing reads it on a device, and it is not freed.
    ManuallyDrop::new(unsafe { stream.upgrade_device_ptr(at, len) })
}

fn main() {
    let context = ManuallyDrop::new(CudaContext::new(0).unwrap());
    // SAFETY: there is one stream.
    unsafe { context.disable_event_tracking() };
    let stream = context.default_stream();
    let tuned = ManuallyDrop::new(GemmTuned::new(&context).unwrap());
    let (mut of_a, mut of_c, mut of_space) = (vec![0_u64; 4096], vec![0_u64; 4096], vec![0_u64; 4096]);
    let (a, mut c) = (slice::<f32>(&stream, &mut of_a), slice::<f32>(&stream, &mut of_c));
    let mut space = slice::<u8>(&stream, &mut of_space);
    let none = slice::<f32>(&stream, &mut [0; 32]);
    let [m, n, k] = SHAPE;
    let mut call = |k: i32, alpha: f32, beta: f32, a: &CudaSlice<f32>, has_space: bool| {
        println!("K {k} alpha {alpha} beta {beta}");
        let space = has_space.then_some(&mut *space);
        let row = k.max(1);
        let result = tuned.f32_nn(&stream, [m, n, k], alpha, (a, row), (a, n), beta, (&mut *c, n), space);
        // SAFETY: all streams of the host, of which the driver uses one.
        unsafe { fflush(std::ptr::null_mut()) };
        result
    };
    for (k, alpha) in [(0, f32::NAN), (k, 0.0)] {
        for beta in [0.0, 1.0, 0.5] {
            call(k, alpha, beta, &none, true).unwrap();
        }
        assert!(matches!(call(k, alpha, 0.5, &none, false), Err(Error::NoKernel)));
    }
    assert!(matches!(call(k, 1.0, 0.0, &none, true), Err(Error::BadArgument(_))));
    assert!(matches!(call(-1, 0.0, 0.0, &a, true), Err(Error::BadArgument(_))));
    call(k, 1.0, 0.5, &a, true).unwrap();
    println!("workspace {}", tuned.f32_nn_workspace([m, n, 0], [0, n, n]));
}
