//! Compiles ahead: what a search of the next problem will ask first, while the final of this one keeps the
//! device busy and the cores idle. Nothing is kept but the compile cache's files; a guess that is wrong
//! costs compiler time that nobody waits for.

use std::sync::Arc;

use super::prepare::spaces;
use super::warm_start::Hints;
use super::{Kit, Settings, TuneError};
use crate::compile::{Compile, CompilePool, CompileRequest, CompileThreads};
use crate::model::{Device, Problem};
use crate::render::{Templates, render};
use crate::space::Family;

/// First questions that are compiled: as many as are asked before the answers have a say.
const QUESTIONS: usize = 12;

/// What compiling for another problem needs, beside a kit that is at work.
pub struct Precompiler {
    families: Vec<Family>,
    templates: Templates,
    compiler: Arc<dyn Compile>,
    threads: CompileThreads,
    device: Device,
}

/// Compiles that were ordered. Dropping it forgets those that have not begun, and waits for the others.
pub struct Precompilation {
    _pool: CompilePool<()>,
}

impl Precompiler {
    /// On the threads of a kit.
    pub fn of(kit: &Kit) -> Self {
        Self {
            families: kit.families.clone(),
            templates: kit.templates.clone(),
            compiler: Arc::clone(&kit.compiler),
            threads: kit.threads.clone(),
            device: kit.machine.device(),
        }
    }

    /// The families to choose from.
    pub fn families(&self) -> &[Family] {
        &self.families
    }

    /// Their templates.
    pub fn templates(&self) -> &Templates {
        &self.templates
    }

    /// Orders the kernels that a search of a problem asks for first.
    ///
    /// # Errors
    /// Those with which the search will end before it begins.
    pub fn order(
        &self,
        problem: &Problem,
        hints: &Hints,
        settings: &Settings,
    ) -> Result<Precompilation, TuneError> {
        let Self { families, templates, device, .. } = self;
        let mut spaces = spaces(families, templates, problem, device, hints)?;
        spaces.forecast(families, problem, device, hints);
        let search_spaces = spaces.search_spaces(hints, settings.fresh);
        let picks = settings.search.begin(search_spaces, settings.seed).propose(QUESTIONS);
        let pool = CompilePool::new(Arc::clone(&self.compiler), self.threads.clone());
        for pick in picks {
            let entry = &spaces.families[pick.family];
            let family = &families[entry.family];
            let configuration = entry.space.get(pick.rank).unwrap_or_default();
            if let Ok(rendered) = render(family, templates, &configuration, problem, device) {
                pool.submit((), CompileRequest::kernel(&family.name, rendered.source));
            }
        }
        Ok(Precompilation { _pool: pool })
    }
}
