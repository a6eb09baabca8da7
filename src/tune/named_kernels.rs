//! Kernels that are named by family and configuration, without a search: rendered, compiled, and timed one by one.

use std::sync::Arc;

use super::candidate::CompiledCandidate;
use super::cpu_evaluator::CpuEvaluator;
use super::error::TuneError;
use super::evaluator::Evaluator;
use super::gpu_evaluator::GpuEvaluator;
use super::kit::Kit;
use super::machine::Machine;
use super::ranking::{Standing, median};
use super::renderer::Renderer;
use crate::compile::{Compile, CompileRequest, located_error};
use crate::measure::Race;
use crate::model::{Configuration, Micros, Outcome, Problem, Regime, floor};
use crate::render::{SourceMap, render};

/// A family's name and a configuration of it.
pub type Named<'a> = (&'a str, &'a Configuration);

/// Times kernels for a problem, each by itself. Gives their medians, or why a kernel has none.
///
/// # Errors
/// See [`TuneError`]: where nothing can be timed at all.
pub fn time_each(
    problem: &Problem,
    kernels: &[Named<'_>],
    kit: &mut Kit,
    (regime, seed): (Regime, u64),
) -> Result<Vec<Result<Micros, String>>, TuneError> {
    let device = kit.machine.device();
    let Kit { families, templates, predictor, compiler, .. } = &*kit;
    let renderer = Renderer { problem, families, templates, device: &device, predictor };
    let mut candidates = Vec::new();
    for named in kernels {
        candidates.push(compile_named(&renderer, *named, compiler.as_ref())?);
    }
    // Places for all: none is dropped because others are faster.
    let race = Race::new(kernels.len(), floor(problem, &device));
    let mut evaluator = evaluator_for(problem, kit, (regime, seed))?;
    let mut times = Vec::new();
    for ((family, configuration), candidate) in kernels.iter().zip(candidates) {
        times.push(match candidate {
            Err(why) => Err(why),
            Ok(candidate) => {
                let evaluated = evaluator.evaluate(&candidate, &race)?;
                let standing = ranked(family, configuration, &candidate, evaluated.outcome);
                standing.map(|standing| Micros(median(&standing.measurement)))
            }
        });
    }
    evaluator.release()?;
    Ok(times)
}

/// The evaluator of a problem on the first device of a kit.
pub(super) fn evaluator_for<'k>(
    problem: &Problem,
    kit: &'k mut Kit,
    (regime, seed): (Regime, u64),
) -> Result<Box<dyn Evaluator + 'k>, TuneError> {
    let device = kit.machine.device();
    Ok(match &mut kit.machine {
        Machine::Host => Box::new(CpuEvaluator::prepare(*problem, device, seed, Arc::default())?),
        Machine::Gpus(gpus) => match gpus.first_mut() {
            Some(first) => {
                let compiler = kit.compiler.as_ref();
                Box::new(GpuEvaluator::prepare(first, *problem, compiler, regime, seed)?)
            }
            None => Box::new(CpuEvaluator::prepare(*problem, device, seed, Arc::default())?),
        },
    })
}

/// A compiled candidate, or why there is none.
pub(super) fn compile_named(
    renderer: &Renderer<'_>,
    (family, configuration): Named<'_>,
    compiler: &dyn Compile,
) -> Result<Result<CompiledCandidate, String>, TuneError> {
    let Renderer { problem, families, templates, device, .. } = *renderer;
    let Some(family) = families.iter().find(|known| known.name == family) else {
        return Ok(Err(format!("no family is named `{family}`")));
    };
    if let Some(refusal) = family.refusal(problem, device) {
        return Ok(Err(format!("`{}` {refusal}", family.name)));
    }
    match family.forbidden(configuration, problem, device) {
        Ok(None) => {}
        Ok(Some(constraint)) => {
            return Ok(Err(format!(
                "it is not legal any more: `{}` ({})",
                constraint.text, constraint.because
            )));
        }
        Err(error) => return Ok(Err(error.summary())),
    }
    let rendered = match render(family, templates, configuration, problem, device) {
        Ok(rendered) => rendered,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let request = CompileRequest::kernel(&family.name, rendered.source);
    match compiler.compile(&request) {
        Ok(compiled) => {
            let predicted = renderer.predicted(family, configuration);
            Ok(Ok(CompiledCandidate { plan: rendered.plan, compiled, predicted }))
        }
        Err(error) if error.ends_run() => Err(error.into()),
        Err(error) => {
            let map = || SourceMap::new(family, templates, configuration, problem, device).ok();
            Ok(Err(located_error(error, map)))
        }
    }
}

/// A correct candidate with its measurement, or why it is not correct.
pub(super) fn ranked(
    family: &str,
    configuration: &Configuration,
    candidate: &CompiledCandidate,
    outcome: Outcome,
) -> Result<Standing, String> {
    let failure = outcome.failure();
    let Outcome::Correct { validation, measurement, resources } = outcome else {
        return Err(failure.unwrap_or_else(|| "it is not correct".to_owned()));
    };
    Ok(Standing {
        family: family.to_owned(),
        configuration: configuration.clone(),
        plan: candidate.plan.clone(),
        validation,
        also: Vec::new(),
        measurement,
        resources,
        contested: false,
    })
}
