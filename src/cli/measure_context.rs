//! Measure context: what measuring recorded winners and named kernels needs, and its progress. Searches are in `tune`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::arguments::{CommonArguments, FamilyArguments};
use super::console::Console;
use super::failure::Failure;
use super::machine::{Wish, Workshop};
use super::{databases, interrupt, request};
use crate::compile::CompileThreads;
use crate::model::Problem;
use crate::predict::Predictor;
use crate::render::Templates;
use crate::space::Family;
use crate::tune::{Kit, Machine, TuneEvent};

/// Families to choose from, and a device that is ready for their kernels.
pub(super) struct MeasureContext {
    pub(super) families: Vec<Family>,
    pub(super) templates: Templates,
    pub(super) machine: Machine,
    workshop: Workshop,
}

impl MeasureContext {
    /// The context for a device and the families that the command line names.
    pub(super) fn new(
        wish: Wish,
        families: &FamilyArguments,
        common: &CommonArguments,
        console: Console,
    ) -> Result<Self, Failure> {
        let (families, templates) = request::families(families)?;
        let workshop = Workshop::new(common)?;
        let machine = workshop.machine(wish, console)?;
        Ok(Self { families, templates, machine, workshop })
    }

    /// Adds the compiler, which is searched, and perhaps installed, only now.
    pub(super) fn kit(self, console: Console) -> Result<Kit, Failure> {
        Ok(self.kit_and_nvrtc(console)?.0)
    }

    /// As [`Self::kit`], with the compiler's version, which records name.
    pub(super) fn kit_and_nvrtc(self, console: Console) -> Result<(Kit, String), Failure> {
        let Self { families, templates, machine, workshop } = self;
        let compiler = workshop.compiler(&machine, console)?;
        let (major, minor) = compiler.nvrtc().version();
        let threads = CompileThreads::new(request::jobs(None)?).map_err(Failure::work)?;
        let device = machine.device();
        // A GPU measures.
        let predictor = if device.is_cpu() {
            databases::predictor([], &device, (&families, &templates), console)?
        } else {
            Predictor::default()
        };
        let (compiler, predictor) = (Arc::new(compiler), Arc::new(predictor));
        let kit = Kit { families, templates, compiler, threads, machine, predictor };
        Ok((kit, format!("{major}.{minor}")))
    }
}

/// The problems one after the other, each with a note, until Ctrl-C.
pub(super) fn in_turn(
    problems: &[Problem],
    console: Console,
) -> Result<impl Iterator<Item = &Problem>, Failure> {
    let stop = interrupt::listen()?;
    let announced = problems.iter().enumerate().map_while(move |(number, problem)| {
        if stop.load(Ordering::Relaxed) {
            console.note("interrupted");
            return None;
        }
        console.note(&format!("{} of {}: {problem}", number + 1, problems.len()));
        Some(problem)
    });
    Ok(announced)
}

/// Prints the notes of a measurement.
pub(super) fn notes(console: Console) -> impl FnMut(TuneEvent<'_>) {
    move |event| {
        if let TuneEvent::Note(note) = event {
            console.note(&note);
        }
    }
}
