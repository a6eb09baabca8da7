//! Kernels of a database, selected by lookup and compiled on first use.

use std::sync::Arc;

use gemm_tune_runtime::{Catalogue, RuntimeError, SelectedKernel, SelectedLaunch};

use crate::compile::{Compile, CompileRequest};
use crate::lookup::{Lookup, Question};
use crate::model::Device;
use crate::render::{Templates, render_stored};

/// A lookup with the templates and the compiler for its answers.
pub struct DatabaseKernels {
    lookup: Lookup,
    templates: Templates,
    compiler: Box<dyn Compile>,
    device: Device,
}

impl DatabaseKernels {
    /// Takes a lookup for `device`, [`Lookup::pinned`] or not, and a compiler for it.
    pub fn new(
        lookup: Lookup,
        templates: Templates,
        compiler: Box<dyn Compile>,
        device: &Device,
    ) -> Self {
        Self { lookup, templates, compiler, device: device.clone() }
    }
}

impl Catalogue for DatabaseKernels {
    fn choose(&self, question: &Question) -> Result<SelectedKernel, RuntimeError> {
        let answer = self.lookup.answer(question).map_err(RuntimeError::of_source)?;
        let Question { problem, storage, .. } = question;
        let (family, configuration) = (answer.family, answer.configuration);
        let rendered =
            render_stored(family, &self.templates, configuration, problem, storage, &self.device)
                .map_err(RuntimeError::of_source)?;
        let plan = rendered.plan;
        let launches: Vec<SelectedLaunch> = plan
            .kernels
            .iter()
            .map(|kernel| SelectedLaunch {
                entry: kernel.entry.clone(),
                shape: kernel.shape(),
                packs: None,
                arguments: kernel.arguments.iter().map(|a| a.name().to_owned()).collect(),
            })
            .collect();
        let hash = blake3::hash(rendered.source.as_bytes()).to_hex();
        Ok(SelectedKernel {
            name: format!("{} {configuration}", family.name),
            image: SelectedKernel::image_of(&hash, &launches),
            source: Some(rendered.source.into()),
            workspaces: plan
                .workspaces
                .into_iter()
                .map(|space| (space.name, space.bytes))
                .collect(),
            tensor_maps: plan.tensor_maps,
            launches,
        })
    }

    fn code(&self, chosen: &SelectedKernel) -> Result<Arc<[u8]>, RuntimeError> {
        let source = chosen.source.clone().unwrap_or_default();
        let name = "gemm.cu".to_owned();
        let request = CompileRequest { source, name, options: Vec::new() };
        Ok(self.compiler.compile(&request).map_err(RuntimeError::of_source)?.image)
    }
}
