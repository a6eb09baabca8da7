//! Inspect context: families, a problem, the description of a device, and the recorded winner. It needs no GPU.

use std::path::PathBuf;

use super::arguments::KernelArguments;
use super::console::Console;
use super::failure::Failure;
use super::machine::{Wish, Workshop};
use super::{databases, request};
use crate::compile::{Architecture, Compile as _, CompileTarget, Compiled};
use crate::database::{Database, Record};
use crate::inspect::{InspectedKernel, ResourceFigures, figures};
use crate::model::{Configuration, Device, Problem, Regime};
use crate::render::Templates;
use crate::space::{Family, LoadError};

/// The problem, device and families that inspected kernels have in common.
pub(super) struct InspectContext {
    pub(super) console: Console,
    pub(super) workshop: Workshop,
    pub(super) families: Vec<Family>,
    pub(super) templates: Templates,
    pub(super) problem: Problem,
    pub(super) device: Device,
    pub(super) database: PathBuf,
}

impl InspectContext {
    /// The context for a shape and the other arguments.
    pub(super) fn new(
        shape: &str,
        arguments: &KernelArguments,
        console: Console,
    ) -> Result<Self, Failure> {
        let problem = Problem {
            shape: shape.parse().map_err(Failure::usage)?,
            ..arguments.pattern.pattern()?
        };
        let (families, templates) = request::all_families(&arguments.folders)?;
        let wish: Wish = arguments.device.parse()?;
        let workshop = Workshop::new(&arguments.common)?;
        let device = workshop.described_device(wish, console)?;
        let database = databases::of(&device, arguments.db.as_deref());
        let problem = request::problem(problem)?;
        Ok(Self { console, workshop, families, templates, problem, device, database })
    }

    /// The kernel of a family with some of its parameters set.
    pub(super) fn chosen(&self, family: &str, set: &str) -> Result<InspectedKernel, Failure> {
        let family = self.family(family).map_err(Failure::usage)?;
        let chosen = family.choose(set, &self.problem, &self.device).map_err(Failure::usage)?;
        self.subject(family, chosen)
    }

    /// The record of the problem.
    pub(super) fn record(&self) -> Result<Option<Record>, Failure> {
        let database = Database::load(&self.database).map_err(Failure::work)?;
        databases::note_faults(database.faults(), self.console);
        Ok(database.find(&self.problem, &self.device, Regime::default()).cloned())
    }

    /// The recorded winner of the problem.
    pub(super) fn winner(&self) -> Result<InspectedKernel, Failure> {
        let record = self.record()?.ok_or_else(|| {
            Failure::Work(format!(
                "`{}` has no winner for {} on {}: tune it with `gemm-tune --shape {}`, or look \
                 at a family with `--family NAME`",
                self.database.display(),
                self.problem,
                self.device.name,
                self.problem.shape
            ))
        })?;
        self.recorded(&record)
    }

    /// The kernel of a record, rendered from the present template.
    pub(super) fn recorded(&self, record: &Record) -> Result<InspectedKernel, Failure> {
        let family = self.family(&record.family).map_err(|error| {
            let path = self.database.display();
            Failure::Work(format!("the winner in `{path}` cannot be made again: {error}"))
        })?;
        if self.templates.hash(family) != record.provenance.template_hash {
            self.console.note(&format!(
                "the template of `{}` has changed since the winner was recorded: this is what it \
                 gives today",
                family.name
            ));
        }
        self.subject(family, record.configuration())
    }

    /// A family by its name.
    pub(super) fn family(&self, name: &str) -> Result<&Family, LoadError> {
        request::family(&self.families, name)
    }

    /// A configuration of a family, rendered.
    pub(super) fn subject(
        &self,
        family: &Family,
        configuration: Configuration,
    ) -> Result<InspectedKernel, Failure> {
        let (problem, device) = (self.problem, self.device.clone());
        let configuration = family.completed(configuration).map_err(Failure::work)?;
        InspectedKernel::new(family, &self.templates, configuration, problem, device)
            .map_err(Failure::work)
    }

    /// The resources of a kernel, and its PTX.
    pub(super) fn figures(
        &self,
        subject: &InspectedKernel,
    ) -> Result<(Compiled, ResourceFigures), Failure> {
        let compiled = self.compiled(subject, CompileTarget::AssembledPtx)?;
        let figures = figures(subject, &compiled.resources);
        Ok((compiled, figures))
    }

    /// A kernel compiled for the device.
    pub(super) fn compiled(
        &self,
        subject: &InspectedKernel,
        target: fn(Architecture) -> CompileTarget,
    ) -> Result<Compiled, Failure> {
        let target = target(Architecture::from(self.device.compute_capability));
        let compiler = self.workshop.compiler_to(target, None, self.console)?;
        compiler.compile(&subject.request()).map_err(Failure::work)
    }
}
