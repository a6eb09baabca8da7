//! The inspected kernel: a configuration of a family for a problem on a device, rendered.

use thiserror::Error;

use super::header::{compiling, header};
use crate::compile::CompileRequest;
use crate::cpu::{PtxLoadError, PtxModule};
use crate::lookup::AnswerSource;
use crate::model::{Configuration, Device, Problem};
use crate::render::{RenderError, Rendered, Templates, render};
use crate::space::{ChoiceError, Family};
use crate::validate::HostFailure;

/// A kernel to inspect.
#[derive(Debug, Clone)]
pub struct InspectedKernel {
    /// Name of its family.
    pub family: String,
    /// Its parameters.
    pub configuration: Configuration,
    /// Its problem.
    pub problem: Problem,
    /// Its device.
    pub device: Device,
    /// The source of the answer of lookup that this kernel is, and the reason; `None` where the kernel was named.
    pub chosen: Option<(AnswerSource, String)>,
    /// Its source and launches.
    pub rendered: Rendered,
}

/// Reasons why a kernel cannot be inspected.
#[derive(Debug, Error)]
pub enum InspectError {
    /// The configuration is not legal.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// The kernel cannot be rendered.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The `cpu` device cannot parse its PTX.
    #[error("the `cpu` device cannot parse the kernel: {0}")]
    Program(#[from] PtxLoadError),
    /// The `cpu` device cannot execute it.
    #[error("the `cpu` device cannot execute the kernel: {0}")]
    Execution(#[from] HostFailure),
    /// Its data movement cannot be drawn, although the kernel may be executed.
    #[error("the picture cannot be drawn: {0}")]
    Picture(String),
}

impl InspectedKernel {
    /// Renders a configuration.
    ///
    /// # Errors
    /// [`InspectError::Render`].
    pub fn new(
        family: &Family,
        templates: &Templates,
        configuration: Configuration,
        problem: Problem,
        device: Device,
    ) -> Result<Self, InspectError> {
        let rendered = render(family, templates, &configuration, &problem, &device)?;
        let chosen = None;
        Ok(Self { family: family.name.clone(), configuration, problem, device, chosen, rendered })
    }

    /// Its source as it is shown and compiled for inspection: the rendered one below a description of its launches, in
    /// comments. Searches, records and exports have the rendered one alone, whose hash is its identity.
    pub fn source(&self) -> String {
        header(self, &compiling(self)) + &self.rendered.source
    }

    /// Lines of [`Self::source`] above the rendered one.
    pub fn header_lines(&self) -> usize {
        header(self, &compiling(self)).lines().count()
    }

    /// Comments that describe the kernel and its launches, with which its PTX is shown.
    pub fn description(&self) -> String {
        header(self, &[])
    }

    /// Compile request for further inspection; logs and line tables call the source `FAMILY.cu`.
    pub fn request(&self) -> CompileRequest {
        CompileRequest::kernel(&self.family, self.source())
    }

    /// Parses its PTX as a program of the `cpu` device.
    pub(super) fn program(&self, ptx: &[u8]) -> Result<PtxModule, InspectError> {
        Ok(PtxModule::parse(&String::from_utf8_lossy(ptx))?)
    }
}
