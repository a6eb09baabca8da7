//! What kernels took for other problems, as a forecast of what they take for this one. The model of
//! cost ([`Cost`]) knows tiles and waves; what it is off by is learned here from measured times, by
//! trees over the kernel's parameters and the problem ([`boost`]).
//!
//! **How good.** [`Experience::found_by`] says it of problems that were held out.
//!
//! Knows neither journals nor files: who has times gives them, and who needs a forecast asks.

mod boost;
mod traits;

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::measure::Cost;
use crate::model::{Configuration, Device, Micros, Problem, Storage};
use crate::space::{Besides, Family, Footprint};
use boost::{Boosted, Rows};
use traits::Reading;

/// Raised whenever columns or their meaning change: what was learned of others is of no use.
const VERSION: u32 = 1;

/// How many times slower than a problem's best a kernel is from which nothing is learned: what makes
/// it so is not what makes the good ones better.
const HOPELESS: f64 = 3.0;

/// Problems of which a family needs times.
const FEWEST_PROBLEMS: usize = 8;

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
    /// The parameters that kernels are told apart by.
    parameters: Vec<String>,
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

    /// Learns from what was measured on a device. Families of fewer than eight problems are left out,
    /// and of every problem what is more than three times slower than its best.
    pub fn learn(device: &Device, families: &[Family], measured: &[Measured]) -> Self {
        let lesson =
            |family: &Family| Some((family.name.clone(), Lesson::learn(device, family, measured)?));
        Self {
            gemm_tune_experience: VERSION,
            device: device.name.clone(),
            families: families.iter().filter_map(lesson).collect(),
        }
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
    of_configuration: Box<[f32]>,
    cost: Cost,
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
        self.lesson.expects(&self.knows(configuration, cost), question, self.device)
    }

    /// A kernel made ready, for many questions.
    pub fn knows(&self, configuration: &Configuration, cost: &Cost) -> Known {
        let of_configuration = self.reading.of_configuration(configuration).into();
        Known { of_configuration, cost: *cost }
    }

    /// What was learned.
    pub fn lesson(&self) -> &Lesson {
        self.lesson
    }
}

impl Lesson {
    /// What a kernel is expected to take on the device that was learned of.
    pub fn expects(
        &self,
        kernel: &Known,
        question: (&Problem, &Storage),
        device: &Device,
    ) -> Micros {
        let mut row = kernel.of_configuration.to_vec();
        let modelled = traits::complete(&mut row, &kernel.cost, question, device);
        Micros((modelled + f64::from(self.boosted.predict(&row))).exp())
    }

    fn learn(device: &Device, family: &Family, measured: &[Measured]) -> Option<Self> {
        let parameters: Vec<String> = family.parameters.keys().cloned().collect();
        let reading = Reading::of(family, &parameters)?;
        let costs = Costs::new(family, device);
        let of_problem = |one: &Measured| reading.told_by(&costs, one);
        let told: Vec<Rows> = measured.par_iter().map(of_problem).collect();
        let told = told.into_iter().filter(|rows| !rows.values.is_empty());
        let (mut rows, mut problems) = (Rows::default(), 0);
        for one in told {
            problems += 1;
            rows.values.extend(one.values);
            rows.targets.extend(one.targets);
            rows.weights.extend(one.weights);
        }
        if problems < FEWEST_PROBLEMS {
            return None;
        }
        let times = rows.values.len();
        for weight in &mut rows.weights {
            *weight *= times as f64 / problems as f64;
        }
        Some(Self { problems, times, parameters, boosted: Boosted::learn(&rows) })
    }
}

impl Reading<'_> {
    /// What the times of one problem tell of a family. All together weigh 1: every problem tells as
    /// much, however many of its kernels were measured.
    fn told_by(&self, costs: &Costs<'_>, measured: &Measured) -> Rows {
        let Costs { family, device, .. } = costs;
        let Measured { problem, times } = measured;
        let best = times.iter().map(|(.., time)| time.0).fold(f64::INFINITY, f64::min);
        let is_telling = |time: f64| time > 0.0 && time <= HOPELESS * best;
        let own = times.iter().filter(|(name, _, time)| *name == family.name && is_telling(time.0));
        let storage = Storage::packed(problem);
        let mut rows = Rows::default();
        for (_, configuration, time) in own {
            let configuration = family.completed(configuration.clone());
            let cost = costs.of(&configuration, problem);
            let mut row = self.of_configuration(&configuration);
            let modelled = traits::complete(&mut row, &cost, (problem, &storage), device);
            rows.values.push(row);
            rows.targets.push(time.0.ln() - modelled);
        }
        rows.weights = vec![1.0 / rows.values.len() as f64; rows.values.len()];
        rows
    }
}

/// Costs of a family's configurations, found once for all that are launched alike.
struct Costs<'f> {
    family: &'f Family,
    device: &'f Device,
    /// The parameters that extents of launches hang on.
    deciding: Vec<&'f str>,
    found: Mutex<HashMap<String, Cost>>,
}

impl<'f> Costs<'f> {
    fn new(family: &'f Family, device: &'f Device) -> Self {
        let names: Vec<&str> = family.parameters.keys().map(String::as_str).collect();
        let deciding = family.extent_parameters().into_iter().map(|at| names[at]).collect();
        Self { family, device, deciding, found: Mutex::default() }
    }

    fn of(&self, configuration: &Configuration, problem: &Problem) -> Cost {
        let values = self.deciding.iter().map(|name| configuration.get(name));
        let pattern = (problem.dtype, problem.compute, problem.layout);
        let alike = format!("{pattern:?} {:?}", values.collect::<Vec<_>>());
        let found = |found: &Self| found.found.lock().ok()?.get(&alike).copied();
        found(self).unwrap_or_else(|| {
            let cost = cost(self.family, configuration, problem, self.device);
            if let Ok(mut found) = self.found.lock() {
                found.insert(alike, cost);
            }
            cost
        })
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
