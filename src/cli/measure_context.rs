//! What measuring of recorded winners and other chosen kernels takes, and how its course is told. The
//! search that finds winners has more to set and to say: see `tune`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::arguments::{CommonArguments, FamilyArguments};
use super::console::Console;
use super::failure::Failure;
use super::machine::{Wish, Workshop};
use super::{interrupt, request};
use crate::compile::CompileThreads;
use crate::model::Problem;
use crate::render::Templates;
use crate::space::Family;
use crate::tune::{Kit, Machine, TuneEvent};

/// Kernels to choose from, and a device that is ready for them.
pub(super) struct MeasureContext {
    pub(super) families: Vec<Family>,
    pub(super) templates: Templates,
    pub(super) machine: Machine,
    workshop: Workshop,
}

impl MeasureContext {
    /// As it was typed.
    pub(super) fn new(
        device: &str,
        families: &FamilyArguments,
        common: &CommonArguments,
        console: Console,
    ) -> Result<Self, Failure> {
        let wish: Wish = device.parse()?;
        let (families, templates) = request::families(families)?;
        let workshop = Workshop::new(common)?;
        let machine = workshop.machine(wish, console)?;
        Ok(Self { families, templates, machine, workshop })
    }

    /// With a compiler, which is looked for, and perhaps installed, only now.
    pub(super) fn kit(self, console: Console) -> Result<Kit, Failure> {
        let Self { families, templates, machine, workshop } = self;
        let compiler = Arc::new(workshop.compiler(&machine, console)?);
        let threads = CompileThreads::new(request::jobs(None)).map_err(Failure::work)?;
        Ok(Kit { families, templates, compiler, threads, machine })
    }
}

/// The problems one after the other, each announced, until Ctrl-C asks for the end.
pub(super) fn in_turn(
    problems: &[Problem],
    console: Console,
) -> Result<impl Iterator<Item = &Problem>, Failure> {
    let stop = interrupt::listen()?;
    let announced = problems.iter().enumerate().map_while(move |(number, problem)| {
        if stop.load(Ordering::Relaxed) {
            console.note("stopped as asked");
            return None;
        }
        console.note(&format!("{} of {}: {problem}", number + 1, problems.len()));
        Some(problem)
    });
    Ok(announced)
}

/// Tells what a person has to know of a measurement.
pub(super) fn notes(console: Console) -> impl FnMut(TuneEvent<'_>) {
    move |event| {
        if let TuneEvent::Note(note) = event {
            console.note(&note);
        }
    }
}
