//! Time on the device: events in the stream, and graphs that replay launches without the host's
//! cost between them. How often to measure, and what to make of it, is decided elsewhere.

#![expect(unsafe_code, reason = "the CUDA driver is a C library")]

use std::ptr;
use std::rc::Rc;

use cudarc::driver::sys;

use super::driver::{Context, Gpu};
use super::error::{GpuError, check};
use super::kernel::Image;
use crate::model::Micros;

/// A point in the stream whose time the device notes.
#[derive(Debug)]
pub struct Event {
    handle: sys::CUevent,
    context: Rc<Context>,
}

/// Recorded launches, replayed as one. Keeps its kernels loaded; the buffers that they were given
/// must be kept by whoever replays it.
#[derive(Debug)]
pub struct Graph {
    handle: sys::CUgraphExec,
    /// Dropped after the handle is destroyed.
    _images: Vec<Rc<Image>>,
    context: Rc<Context>,
}

impl Gpu {
    /// Makes an event.
    ///
    /// # Errors
    /// [`GpuError::Call`].
    pub fn event(&self) -> Result<Event, GpuError> {
        let mut handle = ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DEFAULT as u32; // with timing
        // SAFETY: `handle` is written; the context is current.
        check("cuEventCreate", unsafe { sys::cuEventCreate(&raw mut handle, flags) })?;
        Ok(Event { handle, context: Rc::clone(&self.context) })
    }

    /// Records what `work` puts into the stream, without running it. `work` launches; it cannot
    /// wait, copy or read times.
    ///
    /// # Errors
    /// That of `work`, after the recording was ended; [`GpuError::Call`].
    pub fn capture(
        &self,
        work: impl FnOnce(&Self) -> Result<(), GpuError>,
    ) -> Result<Graph, GpuError> {
        let stream = self.context.stream;
        // Relaxed: the stricter modes guard against other threads and streams, which there are
        // none of, and forbid the lazy loading that cuBLAS may do at a first call.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the context keeps its stream.
        let status = unsafe { sys::cuStreamBeginCapture_v2(stream, mode) };
        check("cuStreamBeginCapture", status)?;
        self.context.captured.replace(Some(Vec::new()));
        let worked = work(self);
        let images = self.context.captured.take().unwrap_or_default();
        let mut template = Template(ptr::null_mut());
        // SAFETY: the graph is written: null where the capture was invalidated.
        let status = unsafe { sys::cuStreamEndCapture(stream, &raw mut template.0) };
        worked?;
        check("cuStreamEndCapture", status)?;

        let mut handle = ptr::null_mut();
        // SAFETY: the capture succeeded, so the graph is valid.
        let status = unsafe { sys::cuGraphInstantiateWithFlags(&raw mut handle, template.0, 0) };
        check("cuGraphInstantiate", status)?;
        let graph = Graph { handle, _images: images, context: Rc::clone(&self.context) };
        // So that the first launch costs what later ones cost.
        // SAFETY: the graph was just instantiated.
        check("cuGraphUpload", unsafe { sys::cuGraphUpload(graph.handle, stream) })?;
        Ok(graph)
    }
}

impl Event {
    /// Puts the event into the stream, behind all work given so far.
    ///
    /// # Errors
    /// [`GpuError::Call`].
    pub fn record(&self) -> Result<(), GpuError> {
        // SAFETY: event and stream belong to the context that this keeps.
        let status = unsafe { sys::cuEventRecord(self.handle, self.context.stream) };
        check("cuEventRecord", status)
    }

    /// Waits until the device has passed the event.
    ///
    /// # Errors
    /// [`GpuError::Call`]; the fault of a kernel launched earlier surfaces here.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        // SAFETY: the event is not destroyed yet.
        check("cuEventSynchronize", unsafe { sys::cuEventSynchronize(self.handle) })
    }

    /// The time from `start` to this event, in steps of about half a microsecond. The device must
    /// have passed both.
    ///
    /// # Errors
    /// [`GpuError::Call`]: `CUDA_ERROR_NOT_READY` where one is not passed yet,
    /// `CUDA_ERROR_INVALID_HANDLE` where one was never recorded.
    pub fn elapsed_since(&self, start: &Self) -> Result<Micros, GpuError> {
        let mut milliseconds = 0f32;
        // SAFETY: `milliseconds` is written; neither event is destroyed yet.
        let status =
            unsafe { sys::cuEventElapsedTime_v2(&raw mut milliseconds, start.handle, self.handle) };
        check("cuEventElapsedTime", status)?;
        Ok(Micros(f64::from(milliseconds) * 1e3))
    }
}

impl Graph {
    /// Puts all that was recorded into the stream; does not wait.
    ///
    /// # Errors
    /// [`GpuError::Call`].
    pub fn launch(&self) -> Result<(), GpuError> {
        // SAFETY: graph and stream belong to the context that this keeps.
        let status = unsafe { sys::cuGraphLaunch(self.handle, self.context.stream) };
        check("cuGraphLaunch", status)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: destroyed once; the driver allows it before the event is passed.
        unsafe { sys::cuEventDestroy_v2(self.handle) };
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: destroyed once; the driver lets a launch under way finish first.
        unsafe { sys::cuGraphExecDestroy(self.handle) };
    }
}

/// A recorded graph, of no use once it is instantiated.
struct Template(sys::CUgraph);

impl Drop for Template {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: destroyed once.
            unsafe { sys::cuGraphDestroy(self.0) };
        }
    }
}
