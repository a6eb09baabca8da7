//! Line-up: named kernels and the libraries in one final, however slow they are. The ladder of kernels and recorded
//! winners are compared this way.

use std::sync::atomic::AtomicBool;

use super::error::TuneError;
use super::event::TuneEvent;
use super::finalist::{Admission, FinalOptions, Finalist};
use super::kernel_id::KernelId;
use super::kit::Kit;
use super::named_kernels::{Named, compile_named, evaluator_for, ranked};
use super::ranking::{BaselineTime, CONFIDENCE, Certainty, Standing, median};
use super::renderer::Renderer;
use crate::measure::{Margin, Race};
use crate::model::{Configuration, Problem, Regime, floor};

/// The result of a line-up.
#[derive(Debug, Clone)]
pub struct LineUp {
    /// The kernels in the order in which they were named, or why one has no time.
    pub standings: Vec<Result<Standing, String>>,
    /// The libraries, fastest first.
    pub libraries: Vec<BaselineTime>,
    /// The kernel that wins, and how sure that is; none where no final was held.
    pub decided: Option<(Standing, Certainty)>,
}

/// How a line-up is held.
#[derive(Debug, Clone, Copy)]
pub struct LineUpOptions {
    /// The conditions that times are measured under.
    pub regime: Regime,
    /// Seeds the operands.
    pub seed: u64,
    /// Whether the kernels are checked on neighbouring shapes too, as the finalists of a search are. Without, a kernel
    /// that is slow takes less time.
    pub checks_neighbours: bool,
}

impl LineUp {
    /// By how much the fastest library is slower than a kernel that took part; none where there is no
    /// library, or no round that both were in.
    pub fn against_library(&self, standing: &Standing) -> Option<Margin> {
        let library = self.libraries.first()?;
        let samples = (&library.measurement.samples, &standing.measurement.samples);
        let margin = || Margin::between(samples.0, samples.1, CONFIDENCE);
        standing.contested.then(margin).filter(|margin| margin.high.is_finite())
    }
}

/// Renders, compiles, validates and times kernels for a problem in turn with the libraries. A kernel that is named twice
/// is measured once.
///
/// # Errors
/// See [`TuneError`]: where nothing can be timed at all. A kernel that is not legal, does not compile or is wrong is a
/// result, and no error.
pub fn line_up(
    problem: &Problem,
    kernels: &[Named<'_>],
    kit: &mut Kit,
    options: LineUpOptions,
    on_event: &mut dyn FnMut(TuneEvent<'_>),
) -> Result<LineUp, TuneError> {
    let LineUpOptions { regime, seed, checks_neighbours } = options;
    let device = kit.machine.device();
    let Kit { families, templates, predictor, .. } = &*kit;
    let renderer = Renderer { problem, families, templates, device: &device, predictor };
    let mut candidates = Vec::new();
    for &(family, configuration) in kernels {
        let candidate = compile_named(&renderer, (family, configuration), kit.compiler.as_ref())?;
        let is_checked = checks_neighbours && candidate.is_ok();
        let neighbours = is_checked.then(|| renderer.neighbours(family, configuration));
        candidates.push((candidate, neighbours.unwrap_or_default()));
    }
    // Places for all: none is dropped because others are faster.
    let race = Race::new(kernels.len(), floor(problem, &device));
    let mut evaluator = evaluator_for(problem, kit, (regime, seed))?;
    let mut standings: Vec<Result<Standing, String>> = Vec::new();
    let mut finalists: Vec<Finalist> = Vec::new();
    for (place, ((family, configuration), (candidate, neighbours))) in
        kernels.iter().zip(candidates).enumerate()
    {
        if let Some(same) = kernels[..place].iter().position(|known| *known == kernels[place]) {
            standings.push(standings[same].clone());
            continue;
        }
        standings.push(match candidate {
            Err(why) => Err(why),
            Ok(candidate) => {
                let evaluated = evaluator.evaluate(&candidate, &race)?;
                let standing = ranked(family, configuration, &candidate, evaluated.outcome);
                if let Ok(standing) = &standing {
                    finalists.push(Finalist {
                        admission: Admission::Always,
                        kernel: KernelId::of(&candidate.compiled.image, &candidate.plan),
                        standing: standing.clone(),
                        candidate,
                        neighbours,
                    });
                }
                standing
            }
        });
    }
    finalists.sort_by(|a, b| {
        median(&a.standing.measurement).total_cmp(&median(&b.standing.measurement))
    });
    let decided =
        evaluator.decide(finalists, FinalOptions::default(), &AtomicBool::new(false), on_event)?;

    // The results of the final replace the earlier ones.
    for standing in &mut standings {
        let Ok(known) = standing else { continue };
        let is_known = |family: &String, configuration: &Configuration| {
            *family == known.family && *configuration == known.configuration
        };
        let timed = decided.ranking.iter().find(|one| is_known(&one.family, &one.configuration));
        let rejected =
            decided.rejected.iter().find(|one| is_known(&one.family, &one.configuration));
        if let Some(timed) = timed {
            *standing = Ok(timed.clone());
        } else if let Some(rejected) = rejected {
            let why = rejected.outcome.failure();
            *standing = Err(why.unwrap_or_else(|| "it is not correct".to_owned()));
        }
    }
    let winner = decided.ranking.into_iter().find(|standing| standing.contested);
    let decided_by = winner.zip(decided.certainty);
    Ok(LineUp { standings, libraries: decided.baselines, decided: decided_by })
}
