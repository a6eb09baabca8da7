//! Precompiling: the first candidates of the next problem compile while a final keeps the device busy and the cores
//! idle. Only the files of the compile cache are kept. A wrong guess costs idle compiler time.

use std::sync::Arc;

use crate::compile::{Compile, CompilePool, CompileThreads};
use crate::model::{Device, Problem};
use crate::render::Templates;
use crate::space::Family;
use crate::tune::{Hints, Kit, Opening, Settings, TuneError};

/// Candidates that are compiled: as many as a search proposes before the first outcome counts.
const CANDIDATES: usize = 12;

/// What compiling for another problem needs while a kit is in use.
pub(super) struct Precompiler {
    families: Vec<Family>,
    templates: Templates,
    compiler: Arc<dyn Compile>,
    threads: CompileThreads,
    device: Device,
}

/// Compiles under way. Dropping it cancels those that have not begun, and waits for the others.
pub(super) struct Precompilation {
    _pool: CompilePool<()>,
}

impl Precompiler {
    /// A precompiler on the threads of a kit.
    pub(super) fn of(kit: &Kit) -> Self {
        Self {
            families: kit.families.clone(),
            templates: kit.templates.clone(),
            compiler: Arc::clone(&kit.compiler),
            threads: kit.threads.clone(),
            device: kit.machine.device(),
        }
    }

    /// The families to choose from.
    pub(super) fn families(&self) -> &[Family] {
        &self.families
    }

    /// Their templates.
    pub(super) fn templates(&self) -> &Templates {
        &self.templates
    }

    /// Starts compiling the candidates that a search of a problem proposes first.
    ///
    /// # Errors
    /// Those with which the search will end before it begins.
    pub(super) fn start(
        &self,
        problem: &Problem,
        hints: &Hints,
        settings: &Settings,
    ) -> Result<Precompilation, TuneError> {
        let Self { families, templates, device, .. } = self;
        let opening = Opening { families, templates, device, settings };
        let pool = CompilePool::new(Arc::clone(&self.compiler), self.threads.clone());
        for request in opening.requests(problem, hints, CANDIDATES)? {
            pool.submit((), request);
        }
        Ok(Precompilation { _pool: pool })
    }
}
