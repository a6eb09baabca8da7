//! What kernels took for other problems, as a forecast of what they take for this one. The model of
//! cost ([`Cost`]) knows tiles and waves; what it is off by is learned here from measured times, by
//! trees over the kernel's parameters and the problem (`boost.rs`).
//!
//! **How good.** [`Experience::found_by`] says it of problems that were held out.
//!
//! It knows no journals: who has times gives them, and who needs a forecast asks.

mod boost;
mod few;
mod kin;
mod pool;
mod shortlists;
mod traits;

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::measure::Cost;
use crate::model::{
    Compute, Configuration, Device, Dtype, Micros, Problem, Storage, Value, statistics,
};
use crate::space::{Besides, Family, Footprint, Footprints};
use boost::{Boosted, COLUMNS, Row, Rows, SIDE_BY_SIDE};
pub use kin::{Kin, Opinion};
use shortlists::Shortlists;
use traits::{Columns, OfProblem, Reading};

/// Raised whenever columns or their meaning change: what was learned of others is of no use.
const VERSION: u32 = 3;

/// How many times slower than a problem's best a kernel is from which nothing is learned: what makes
/// it so is not what makes the good ones better.
const HOPELESS: f64 = 3.0;

/// Problems of which a family needs times, and how many times.
const FEWEST_PROBLEMS: usize = 8;
const FEWEST_TIMES: usize = 200;

/// Kernels of a problem that are remembered, and how many times slower than the best they are at most.
const REMEMBERED: usize = 4;
const AMONG_BEST: f64 = 1.03;

/// Parts of the problems, each forecast by the others to see how far that is off; and the share of
/// forecasts that is within the error that is told.
const PARTS: usize = 4;
const WITHIN: f64 = 0.9;

/// What kernels took for a problem.
#[derive(Debug, Clone)]
pub struct Measured {
    /// The problem, its operands packed.
    pub problem: Problem,
    /// Families, configurations and times.
    pub times: Vec<(String, Configuration, Micros)>,
}

/// What is learned of a device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experience {
    gemm_tune_experience: u32,
    /// The device's name.
    pub device: String,
    /// What is learned of each family.
    pub families: BTreeMap<String, Lesson>,
}

/// What is learned of a family.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lesson {
    /// From how many problems.
    pub problems: usize,
    /// And how many times.
    pub times: usize,
    /// How far forecasts are off, in per cent of the time: what nine in ten are within, of problems that
    /// had no part in what was learned.
    pub error_percent: f64,
    /// What the problems have in common.
    dtype: Dtype,
    compute: Compute,
    /// The parameters that kernels are told apart by.
    parameters: Vec<String>,
    /// Kernels that were among the best of some problem, as few as are enough: their parameters' values.
    kernels: Vec<Vec<Value>>,
    /// Which of these to ask about.
    #[serde(default)]
    shortlists: Shortlists,
    boosted: Boosted,
}

/// Why a text holds no experience.
#[derive(Debug, Error)]
pub enum ExperienceError {
    /// It is none.
    #[error("no file of `gemm-tune learn`: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Of another version.
    #[error(
        "it was learned by another version of gemm-tune (its form is {found}, this one's {VERSION}): \
         learn it again with `gemm-tune learn`"
    )]
    Version {
        /// The form that it has.
        found: u32,
    },
}

impl Experience {
    /// What comes with the program; nothing of a device that it does not know.
    ///
    /// # Errors
    /// [`ExperienceError`]: never, for a test reads what comes with it.
    pub fn built_in(device: &Device) -> Result<Self, ExperienceError> {
        let experience = Self::parse(include_str!("../../results/nvidia-h200.experience.json"))?;
        Ok(if experience.device == device.name { experience } else { Self::default() })
    }

    /// Learns from what was measured on a device; where dtypes or computes are mixed, from those of the
    /// first problem. Families of fewer than eight problems or 200 times are left out, and of every problem
    /// what is more than three times slower than its best.
    pub fn learn(device: &Device, families: &[Family], measured: &[Measured]) -> Self {
        let lesson =
            |family: &Family| Some((family.name.clone(), Lesson::learn(device, family, measured)?));
        Self {
            gemm_tune_experience: VERSION,
            device: device.name.clone(),
            families: families.iter().filter_map(lesson).collect(),
        }
    }

    /// With lists of the kernels that are worth asking about for problems that are alike
    /// ([`Lesson::shortlist`]): without, all are. It takes a core several minutes; `chosen` hears for each
    /// family how many lists are chosen, of how many.
    #[must_use]
    pub fn with_shortlists(
        mut self,
        device: &Device,
        families: &[Family],
        chosen: &(dyn Fn(usize, usize) + Sync),
    ) -> Self {
        for family in families {
            if let Some(lesson) = self.families.get_mut(&family.name) {
                lesson.shortlists = Shortlists::choose((lesson, family), device, chosen);
            }
        }
        self
    }

    /// Reads what [`Self::text`] wrote.
    ///
    /// # Errors
    /// [`ExperienceError`].
    pub fn parse(text: &str) -> Result<Self, ExperienceError> {
        let experience: Self = serde_json::from_str(text)?;
        match experience.gemm_tune_experience {
            VERSION => Ok(experience),
            found => Err(ExperienceError::Version { found }),
        }
    }

    /// The experience as JSON.
    ///
    /// # Errors
    /// Where a number has no form in JSON: never of what was learned from finite times.
    pub fn text(&self) -> Result<String, ExperienceError> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// How much longer than the best of all kernels of a problem the best of those takes that are
    /// expected to take least: 1 is as long. One answer for each of `counts`, of the families that
    /// something is known of; `None` where that is none.
    pub fn found_by(
        &self,
        families: &[Family],
        device: &Device,
        measured: &Measured,
        counts: &[usize],
    ) -> Option<Vec<f64>> {
        let Measured { problem, times } = measured;
        let storage = Storage::packed(problem);
        let mut ranked = Vec::new();
        for family in families {
            let Some(expert) = self.expert(family, device) else { continue };
            for (_, configuration, time) in times.iter().filter(|(name, ..)| *name == family.name) {
                let cost = cost(family, configuration, problem, device);
                ranked.push((expert.expects(configuration, &cost, (problem, &storage)).0, time.0));
            }
        }
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        let best_of = |count: usize| {
            let first = ranked.iter().take(count).map(|(_, time)| *time);
            first.fold(f64::INFINITY, f64::min)
        };
        let best = times.iter().map(|(.., time)| time.0).fold(f64::INFINITY, f64::min);
        (!ranked.is_empty()).then(|| counts.iter().map(|count| best_of(*count) / best).collect())
    }

    /// Who forecasts kernels of a family; none where nothing was learned of it, or of parameters that
    /// it does not have any more.
    pub fn expert<'e>(&'e self, family: &'e Family, device: &'e Device) -> Option<Expert<'e>> {
        let lesson = self.families.get(&family.name).filter(|_| self.device == device.name)?;
        let reading = Reading::of(family, &lesson.parameters)?;
        Some(Expert { reading, lesson, device })
    }
}

/// A kernel as what was learned of its family is asked about it.
#[derive(Debug, Clone)]
pub struct Known {
    of_configuration: Row,
    cost: Cost,
}

/// A problem as what was learned is asked about it.
#[derive(Debug, Clone)]
pub struct Asked {
    problem: Problem,
    of_problem: OfProblem,
}

impl Asked {
    /// A problem whose operands lie so in memory.
    pub fn of(problem: &Problem, storage: &Storage) -> Self {
        Self { problem: *problem, of_problem: traits::of_problem(problem, storage) }
    }
}

/// Forecasts kernels of one family.
#[derive(Debug)]
pub struct Expert<'e> {
    reading: Reading<'e>,
    lesson: &'e Lesson,
    device: &'e Device,
}

impl Expert<'_> {
    /// What a kernel is expected to take. `cost` is the configuration's, of an occupancy that is not
    /// known, as it was when the lesson was learned.
    pub fn expects(
        &self,
        configuration: &Configuration,
        cost: &Cost,
        question: (&Problem, &Storage),
    ) -> Micros {
        let question = Asked::of(question.0, question.1);
        self.lesson.expects(&self.knows(configuration, cost), &question, self.device)
    }

    /// A kernel made ready, for many questions.
    pub fn knows(&self, configuration: &Configuration, cost: &Cost) -> Known {
        let of_configuration = self.reading.of_configuration(configuration);
        Known { of_configuration, cost: *cost }
    }

    /// A space whose configurations will be asked about by the values that each parameter has.
    pub fn of_space(&self, parameters: &[(String, Vec<Value>)]) -> OfSpace<'_> {
        OfSpace { expert: self, columns: Columns::of(&self.reading, parameters) }
    }

    /// What was learned.
    pub fn lesson(&self) -> &Lesson {
        self.lesson
    }
}

/// A space of configurations as its expert reads it: they are asked about without being made.
#[derive(Debug)]
pub struct OfSpace<'e> {
    expert: &'e Expert<'e>,
    columns: Columns,
}

impl OfSpace<'_> {
    /// Configurations that are the same to the model of cost.
    pub fn alike(&self, cost: &Cost, asked: &Asked) -> Alike<'_> {
        let mut row = [0.0; COLUMNS];
        let question = (&asked.of_problem, &asked.problem);
        let modelled = traits::complete(&mut row, cost, question, self.expert.device);
        Alike { of_space: self, row, modelled }
    }
}

/// Configurations of a space that are the same to the model of cost, asked about for one problem.
#[derive(Debug)]
pub struct Alike<'e> {
    of_space: &'e OfSpace<'e>,
    row: Row,
    modelled: f64,
}

impl Alike<'_> {
    /// What a configuration is expected to take, as [`Expert::expects`] says: it is given by the places of
    /// its values among those of each parameter of the space.
    pub fn expects(&self, indices: &[usize]) -> Micros {
        let mut row = self.row;
        self.of_space.columns.fill(&mut row, indices);
        let boosted = &self.of_space.expert.lesson.boosted;
        Micros((self.modelled + f64::from(boosted.predict(&row))).exp())
    }
}

impl Lesson {
    /// Whether it tells anything of a problem.
    pub fn serves(&self, problem: &Problem) -> bool {
        (self.dtype, self.compute) == (problem.dtype, problem.compute)
    }

    /// What a kernel is expected to take on the device that was learned of.
    pub fn expects(&self, kernel: &Known, asked: &Asked, device: &Device) -> Micros {
        let mut row = kernel.of_configuration;
        let question = (&asked.of_problem, &asked.problem);
        let modelled = traits::complete(&mut row, &kernel.cost, question, device);
        Micros((modelled + f64::from(self.boosted.predict(&row))).exp())
    }

    /// The same of several kernels at once, in half the time.
    pub fn expects_each(&self, kernels: &[&Known], asked: &Asked, device: &Device) -> Vec<Micros> {
        let question = (&asked.of_problem, &asked.problem);
        let mut times = Vec::with_capacity(kernels.len());
        for kernels in kernels.chunks(SIDE_BY_SIDE) {
            // A few are sooner asked one by one than all places abreast.
            if kernels.len() <= SIDE_BY_SIDE / 2 {
                times.extend(kernels.iter().map(|kernel| self.expects(kernel, asked, device)));
                continue;
            }
            let (mut rows, mut modelled) = ([[0.0; SIDE_BY_SIDE]; COLUMNS], [0.0; SIDE_BY_SIDE]);
            for (place, kernel) in kernels.iter().enumerate() {
                let mut row = kernel.of_configuration;
                modelled[place] = traits::complete(&mut row, &kernel.cost, question, device);
                for (column, value) in rows.iter_mut().zip(row) {
                    column[place] = value;
                }
            }
            let off = self.boosted.predict_abreast(&rows);
            let time = |(modelled, off): (f64, f32)| Micros((modelled + f64::from(off)).exp());
            times.extend(modelled.into_iter().zip(off).take(kernels.len()).map(time));
        }
        times
    }

    /// Kernels that were among the best of some problem, as few as are enough for any, of a family as it
    /// is now.
    pub fn kernels(&self, family: &Family) -> impl Iterator<Item = Configuration> {
        self.kernels.iter().map(|values| {
            let named = self.parameters.iter().cloned().zip(values.iter().cloned());
            let configuration: Configuration = named.collect();
            family.completed(configuration.clone()).unwrap_or(configuration)
        })
    }

    /// Places among [`Self::kernels`] of those of which one is nearly always the best for problems like
    /// this one, eight at most; `None` where no list was made, as for batches.
    pub fn shortlist(&self, problem: &Problem, storage: &Storage) -> Option<&[u8]> {
        self.shortlists.of(problem, storage).filter(|_| self.serves(problem))
    }

    fn learn(device: &Device, family: &Family, measured: &[Measured]) -> Option<Self> {
        let parameters: Vec<String> = family.parameters.keys().cloned().collect();
        let reading = Reading::of(family, &parameters)?;
        let footprints = Footprints::new();
        let of_problem = |one: &Measured| reading.told_by((family, device), &footprints, one);
        let Problem { dtype, compute, .. } = measured.first()?.problem;
        let is_alike =
            |one: &&Measured| (one.problem.dtype, one.problem.compute) == (dtype, compute);
        let measured: Vec<Measured> = measured.iter().filter(is_alike).cloned().collect();
        let told: Vec<Rows> = measured.par_iter().map(of_problem).collect();
        let told: Vec<Rows> = told.into_iter().filter(|rows| !rows.values.is_empty()).collect();
        let rows = Rows::joined(told.iter());
        if told.len() < FEWEST_PROBLEMS || rows.values.len() < FEWEST_TIMES {
            return None;
        }
        let mut lesson = Self {
            problems: told.len(),
            times: rows.values.len(),
            error_percent: error_percent(&told),
            dtype,
            compute,
            kernels: worth_asking((family, device), &measured, &parameters),
            parameters,
            shortlists: Shortlists::default(),
            boosted: Boosted::learn(&rows),
        };
        let few = few::few(&lesson, family, device);
        lesson.kernels = few.into_iter().map(|at| lesson.kernels[at].clone()).collect();
        Some(lesson)
    }
}

/// A family's defaults, and of each problem its kernels that are among the best of all, each once.
fn worth_asking(
    (family, device): (&Family, &Device),
    measured: &[Measured],
    parameters: &[String],
) -> Vec<Vec<Value>> {
    let values = |configuration: &Configuration| -> Option<Vec<Value>> {
        parameters.iter().map(|name| configuration.get(name).cloned()).collect()
    };
    let mut kernels: Vec<Vec<Value>> = family.defaults(device).iter().filter_map(values).collect();
    for Measured { times, .. } in measured {
        let mut ranked: Vec<&(String, Configuration, Micros)> = times.iter().collect();
        ranked.sort_by(|a, b| a.2.0.total_cmp(&b.2.0));
        let best = ranked.first().map_or(0.0, |(.., time)| time.0);
        let near = ranked
            .iter()
            .filter(|(name, _, time)| *name == family.name && time.0 <= AMONG_BEST * best);
        for (_, configuration, _) in near.take(REMEMBERED) {
            let own = family.completed(configuration.clone()).ok();
            let own = own.and_then(|configuration| values(&configuration));
            kernels.extend(own.filter(|one| !kernels.contains(one)));
        }
    }
    kernels
}

/// What nine in ten forecasts are within, each by what the other parts of the problems tell.
fn error_percent(told: &[Rows]) -> f64 {
    let of_part = |part: usize| -> Vec<f64> {
        let is_own = |at: usize| at % PARTS == part;
        let others = told.iter().enumerate().filter(|(at, _)| !is_own(*at));
        let boosted = Boosted::learn(&Rows::joined(others.map(|(_, rows)| rows)));
        let own = told.iter().enumerate().filter(|(at, _)| is_own(*at)).map(|(_, rows)| rows);
        let off = |(row, target): (&Row, &f64)| (target - f64::from(boosted.predict(row))).abs();
        own.flat_map(|rows| rows.values.iter().zip(&rows.targets).map(off)).collect()
    };
    let errors: Vec<f64> = (0..PARTS).flat_map(of_part).collect();
    100.0 * statistics::quantile(&errors, WITHIN).unwrap_or(f64::NAN).exp_m1()
}

impl Reading<'_> {
    /// What the times of one problem tell of a family. All together weigh 1: every problem tells as
    /// much, however many of its kernels were measured.
    fn told_by(
        &self,
        (family, device): (&Family, &Device),
        footprints: &Footprints,
        measured: &Measured,
    ) -> Rows {
        let Measured { problem, times } = measured;
        let best = times.iter().map(|(.., time)| time.0).fold(f64::INFINITY, f64::min);
        let is_telling = |time: f64| time > 0.0 && time <= HOPELESS * best;
        let own = times.iter().filter(|(name, _, time)| *name == family.name && is_telling(time.0));
        let of_problem = traits::of_problem(problem, &Storage::packed(problem));
        let mut rows = Rows::default();
        for (_, configuration, time) in own {
            // Times of kernels that the family does not have any more teach nothing.
            let Ok(configuration) = family.completed(configuration.clone()) else { continue };
            let found = footprints.of(family, &configuration, problem, device);
            let cost = Cost::new(found, None, device);
            let mut row = self.of_configuration(&configuration);
            let modelled = traits::complete(&mut row, &cost, (&of_problem, problem), device);
            rows.values.push(row);
            rows.targets.push(time.0.ln() - modelled);
        }
        rows.weights = vec![1.0 / rows.values.len() as f64; rows.values.len()];
        rows
    }
}

/// The cost of a configuration as it is known before it is compiled.
pub fn cost(
    family: &Family,
    configuration: &Configuration,
    pattern: &Problem,
    device: &Device,
) -> Cost {
    let footprint = Footprint::of(family, configuration, pattern, device);
    let besides = Besides::of(family, configuration, pattern, device);
    Cost::new((footprint, besides), None, device)
}

#[cfg(test)]
mod tests;
