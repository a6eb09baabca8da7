//! Device timing: events in the stream, and graphs that replay launches without host overhead
//! between them.

#![expect(unsafe_code, reason = "the CUDA driver is a C library")]

use std::ptr;
use std::rc::Rc;

use cudarc::driver::sys;

use super::context::{CudaDevice, LoadedCubin, PrimaryContext};
use super::error::{GpuError, check};
use crate::model::Micros;

/// A point in the stream at which the device records the time.
#[derive(Debug)]
pub struct CudaEvent {
    handle: sys::CUevent,
    context: Rc<PrimaryContext>,
}

/// Recorded launches, replayed as one. Keeps its kernels loaded; the caller keeps the buffers.
#[derive(Debug)]
pub struct CudaGraph {
    handle: sys::CUgraphExec,
    /// Dropped after the handle is destroyed.
    _images: Vec<Rc<LoadedCubin>>,
    context: Rc<PrimaryContext>,
}

impl CudaDevice {
    /// Creates an event.
    ///
    /// # Errors
    /// [`GpuError::Call`].
    pub fn event(&self) -> Result<CudaEvent, GpuError> {
        let mut handle = ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DEFAULT as u32; // with timing
        // SAFETY: `handle` is written; the context is current.
        check("cuEventCreate", unsafe { sys::cuEventCreate(&raw mut handle, flags) })?;
        Ok(CudaEvent { handle, context: Rc::clone(&self.context) })
    }

    /// Captures the launches that `work` enqueues, without running them. `work` cannot wait, copy
    /// or read times.
    ///
    /// # Errors
    /// The error of `work`, after the capture has ended; [`GpuError::Call`].
    pub fn capture(
        &self,
        work: impl FnOnce(&Self) -> Result<(), GpuError>,
    ) -> Result<CudaGraph, GpuError> {
        let stream = self.context.stream;
        // Relaxed: there are no other threads and streams for the stricter modes to guard against,
        // and those forbid the lazy loading of cuBLAS.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the context keeps its stream.
        let status = unsafe { sys::cuStreamBeginCapture_v2(stream, mode) };
        check("cuStreamBeginCapture", status)?;
        self.context.captured.replace(Some(Vec::new()));
        let worked = work(self);
        let images = self.context.captured.take().unwrap_or_default();
        let mut template = CapturedGraph(ptr::null_mut());
        // SAFETY: the graph is written: null where the capture was invalidated.
        let status = unsafe { sys::cuStreamEndCapture(stream, &raw mut template.0) };
        worked?;
        check("cuStreamEndCapture", status)?;

        let mut handle = ptr::null_mut();
        // SAFETY: the capture succeeded, so the graph is valid.
        let status = unsafe { sys::cuGraphInstantiateWithFlags(&raw mut handle, template.0, 0) };
        check("cuGraphInstantiate", status)?;
        let graph = CudaGraph { handle, _images: images, context: Rc::clone(&self.context) };
        // Uploaded, so that the first launch costs no more than later ones.
        // SAFETY: the graph was just instantiated.
        check("cuGraphUpload", unsafe { sys::cuGraphUpload(graph.handle, stream) })?;
        Ok(graph)
    }
}

impl CudaEvent {
    /// Enqueues the event after all work so far.
    ///
    /// # Errors
    /// [`GpuError::Call`].
    pub fn record(&self) -> Result<(), GpuError> {
        // SAFETY: event and stream belong to the context that this keeps.
        let status = unsafe { sys::cuEventRecord(self.handle, self.context.stream) };
        check("cuEventRecord", status)
    }

    /// Waits until the device reaches the event.
    ///
    /// # Errors
    /// [`GpuError::Call`]; the fault of a kernel launched earlier surfaces here.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        // SAFETY: the event is not destroyed yet.
        check("cuEventSynchronize", unsafe { sys::cuEventSynchronize(self.handle) })
    }

    /// Time from `start` to this event, with a resolution of half a microsecond. The device must
    /// have reached both.
    ///
    /// # Errors
    /// [`GpuError::Call`]: `CUDA_ERROR_NOT_READY` for an event not reached yet,
    /// `CUDA_ERROR_INVALID_HANDLE` for one that was never recorded.
    pub fn elapsed_since(&self, start: &Self) -> Result<Micros, GpuError> {
        let mut milliseconds = 0f32;
        // SAFETY: `milliseconds` is written; neither event is destroyed yet.
        let status =
            unsafe { sys::cuEventElapsedTime_v2(&raw mut milliseconds, start.handle, self.handle) };
        check("cuEventElapsedTime", status)?;
        Ok(Micros(f64::from(milliseconds) * 1e3))
    }
}

impl CudaGraph {
    /// Enqueues the recorded launches; does not wait.
    ///
    /// # Errors
    /// [`GpuError::Call`].
    pub fn launch(&self) -> Result<(), GpuError> {
        // SAFETY: graph and stream belong to the context that this keeps.
        let status = unsafe { sys::cuGraphLaunch(self.handle, self.context.stream) };
        check("cuGraphLaunch", status)
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        // SAFETY: destroyed once; the driver allows this before the event is reached.
        unsafe { sys::cuEventDestroy_v2(self.handle) };
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        // SAFETY: destroyed once; the driver lets a launch under way finish first.
        unsafe { sys::cuGraphExecDestroy(self.handle) };
    }
}

/// A captured graph, needed only until it is instantiated.
struct CapturedGraph(sys::CUgraph);

impl Drop for CapturedGraph {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: destroyed once.
            unsafe { sys::cuGraphDestroy(self.0) };
        }
    }
}
