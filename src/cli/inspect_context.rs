//! Inspect context: families, a problem, the description of a device, and the answer of lookup. It needs no GPU.

use std::path::PathBuf;

use super::arguments::KernelArguments;
use super::console::Console;
use super::failure::Failure;
use super::known_records::KnownRecords;
use super::machine::{Wish, Workshop};
use super::{databases, request};
use crate::compile::{Architecture, Compile as _, CompileTarget, Compiled, located_error};
use crate::database::Record;
use crate::inspect::{InspectedKernel, ResourceFigures, figures};
use crate::lookup::{AnswerSource, Lookup, Question};
use crate::model::{Configuration, Device, Micros, Problem, Regime};
use crate::render::{SourceMap, Templates};
use crate::space::{Family, LoadError};

/// The problem, device and families that inspected kernels have in common.
pub(super) struct InspectContext {
    pub(super) console: Console,
    pub(super) workshop: Workshop,
    pub(super) families: Vec<Family>,
    pub(super) templates: Templates,
    pub(super) problem: Problem,
    pub(super) device: Device,
    named: Vec<PathBuf>,
}

/// The answer of lookup for a problem.
pub(super) struct LookedUp {
    pub(super) kernel: InspectedKernel,
    /// Its predicted time; measured, where the problem is recorded.
    pub(super) time: Option<Micros>,
    /// The record of the problem.
    pub(super) record: Option<Record>,
}

impl InspectContext {
    /// The context for a shape and the other arguments.
    pub(super) fn new(
        shape: &str,
        arguments: &KernelArguments,
        console: Console,
    ) -> Result<Self, Failure> {
        let problem = request::problem(Problem {
            shape: shape.parse().map_err(Failure::usage)?,
            ..arguments.pattern.pattern()?
        })?;
        let (families, templates) = request::families(&arguments.families)?;
        let workshop = Workshop::new(&arguments.common)?;
        let wish = arguments.device.wish()?;
        let recorded = match &wish {
            Wish::Named(name) => {
                KnownRecords::read(&arguments.db, &[problem], console)?.device(Some(name)).ok()
            }
            _ => None,
        };
        let device = match recorded {
            Some(device) => device,
            None => workshop.described_device(wish, console)?,
        };
        let named = arguments.db.clone();
        Ok(Self { console, workshop, families, templates, problem, device, named })
    }

    /// The kernel of a family with some of its parameters set.
    pub(super) fn chosen(&self, family: &str, set: &str) -> Result<InspectedKernel, Failure> {
        let family = self.family(family).map_err(Failure::usage)?;
        let chosen = family.choose(set, &self.problem, &self.device).map_err(Failure::usage)?;
        self.subject(family, chosen)
    }

    /// The kernel of `FAMILY:NAME=VALUE,...`; what is not named is the family's default.
    pub(super) fn configured(&self, config: &str) -> Result<InspectedKernel, Failure> {
        let (family, set) = config.split_once(':').unwrap_or((config, ""));
        self.chosen(family, set)
    }

    /// The kernel that lookup answers with for the problem.
    pub(super) fn looked_up(&self) -> Result<LookedUp, Failure> {
        let (regime, problems) = (Regime::default(), [self.problem]);
        let known = KnownRecords::read(&self.named, &problems, self.console)?.for_device(
            &self.device,
            &problems,
            regime,
        )?;
        let code = (&self.families[..], &self.templates);
        let predictor = databases::predictor(known.files(), &self.device, code, self.console)?;
        let (families, templates) = code;
        let lookup = Lookup::new(known.all(), families, templates, &self.device, regime)
            .with_predictor(predictor);
        let answer = lookup.answer(&Question::packed(self.problem)).map_err(Failure::work)?;
        if answer.template_changed {
            self.console.note(&format!(
                "the template of `{}` has changed since its record: this is what it gives today",
                answer.family.name
            ));
        }
        let mut kernel = self.subject(answer.family, answer.configuration.clone())?;
        kernel.chosen = Some((answer.source, answer.because()));
        if answer.record.is_some_and(|record| known.is_built_in(record)) {
            databases::note_built_in(self.console);
        }
        let exact = answer.source == AnswerSource::Exact;
        let record = answer.record.filter(|_| exact).cloned();
        Ok(LookedUp { kernel, time: answer.predicted, record })
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
        let map = || {
            let InspectedKernel { configuration, problem, device, .. } = subject;
            let family = self.family(&subject.family).ok()?;
            let map =
                SourceMap::new(family, &self.templates, configuration, problem, device).ok()?;
            let source = subject.source();
            let before = source.strip_suffix(subject.rendered.source.as_str()).unwrap_or("");
            Some(map.behind(before))
        };
        let compiled = compiler.compile(&subject.request());
        compiled.map_err(|error| Failure::Work(located_error(error, map)))
    }
}
