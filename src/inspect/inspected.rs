//! What is looked at: a configuration of a family for a problem on a device, rendered.

use thiserror::Error;

use crate::compile::CompileRequest;
use crate::cpu::{LoadError, Program};
use crate::model::{Configuration, Device, Problem};
use crate::render::{RenderError, Rendered, Templates, render};
use crate::space::{ChoiceError, Family};
use crate::validate::HostFailure;

/// A kernel to look at.
#[derive(Debug, Clone)]
pub struct InspectedKernel {
    /// The name of its family.
    pub family: String,
    /// Its parameters.
    pub configuration: Configuration,
    /// What it computes.
    pub problem: Problem,
    /// Where it would run.
    pub device: Device,
    /// Its source and launches.
    pub rendered: Rendered,
}

/// Why something cannot be looked at.
#[derive(Debug, Error)]
pub enum InspectError {
    /// It is no configuration.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// It has no source.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// Its PTX is not understood.
    #[error("the `cpu` device does not understand the kernel: {0}")]
    Program(#[from] LoadError),
    /// The `cpu` device does not run it.
    #[error("the `cpu` device does not run the kernel: {0}")]
    Execution(#[from] HostFailure),
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
        Ok(Self { family: family.name.clone(), configuration, problem, device, rendered })
    }

    /// What is compiled to look at it further; logs and line tables call it `FAMILY.cu`.
    pub fn request(&self) -> CompileRequest {
        CompileRequest::kernel(&self.family, self.rendered.source.as_str())
    }

    /// Its PTX as a program of the `cpu` device.
    pub(super) fn program(&self, ptx: &[u8]) -> Result<Program, InspectError> {
        Ok(Program::parse(&String::from_utf8_lossy(ptx))?)
    }
}
