//! What kernels took for other problems, as a forecast of what they take for this one. The model of
//! cost ([`CostModel`]) knows tiles and waves; what it is off by is learned here from measured times, by
//! trees over the kernel's parameters and the problem (`boost.rs`).
//!
//! **How good.** [`LearnedModel::found_by`] says it of problems that were held out.
//!
//! It knows no journals: who has times gives them, and who needs a forecast asks.

mod boosted_trees;
mod features;
mod kernel_pool;
mod kernel_set;
mod shortlists;

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::model::{
    Compute, Configuration, Device, Dtype, Micros, Problem, Storage, Value, statistics,
};
use crate::predict::CostModel;
use crate::space::{Family, Work};
use boosted_trees::{Boosted, COLUMNS, Row, Rows, SIDE_BY_SIDE};
use features::{Columns, FeatureReader, OfProblem};
use shortlists::Shortlists;

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
pub struct ProblemTimes {
    /// The problem, its operands packed.
    pub problem: Problem,
    /// Families, configurations and times.
    pub times: Vec<(String, Configuration, Micros)>,
}

/// What is learned of a device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearnedModel {
    gemm_tune_experience: u32,
    /// The device's name.
    pub device: String,
    /// What is learned of each family.
    pub families: BTreeMap<String, FamilyModel>,
}

/// What is learned of a family.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FamilyModel {
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
pub enum LearnedModelError {
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

impl LearnedModel {
    /// What comes with the program; nothing of a device that it does not know.
    ///
    /// # Errors
    /// [`LearnedModelError`]: never, for a test reads what comes with it.
    pub fn built_in(device: &Device) -> Result<Self, LearnedModelError> {
        let experience = Self::parse(include_str!("../../../results/nvidia-h200.experience.json"))?;
        Ok(if experience.device == device.name { experience } else { Self::default() })
    }

    /// Learns from what was measured on a device; where dtypes or computes are mixed, from those of the
    /// first problem. Families of fewer than eight problems or 200 times are left out, and of every problem
    /// what is more than three times slower than its best.
    pub fn learn(device: &Device, families: &[Family], measured: &[ProblemTimes]) -> Self {
        let family_model = |family: &Family| {
            Some((family.name.clone(), FamilyModel::learn(device, family, measured)?))
        };
        Self {
            gemm_tune_experience: VERSION,
            device: device.name.clone(),
            families: families.iter().filter_map(family_model).collect(),
        }
    }

    /// With lists of the kernels that are worth asking about for problems that are alike
    /// ([`FamilyModel::shortlist`]): without, all are. It takes a core several minutes; `chosen` hears for each
    /// family how many lists are chosen, of how many.
    #[must_use]
    pub fn with_shortlists(
        mut self,
        device: &Device,
        families: &[Family],
        chosen: &(dyn Fn(usize, usize) + Sync),
    ) -> Self {
        for family in families {
            if let Some(family_model) = self.families.get_mut(&family.name) {
                family_model.shortlists =
                    Shortlists::choose((family_model, family), device, chosen);
            }
        }
        self
    }

    /// Reads what [`Self::text`] wrote.
    ///
    /// # Errors
    /// [`LearnedModelError`].
    pub fn parse(text: &str) -> Result<Self, LearnedModelError> {
        let experience: Self = serde_json::from_str(text)?;
        match experience.gemm_tune_experience {
            VERSION => Ok(experience),
            found => Err(LearnedModelError::Version { found }),
        }
    }

    /// The experience as JSON.
    ///
    /// # Errors
    /// Where a number has no form in JSON: never of what was learned from finite times.
    pub fn text(&self) -> Result<String, LearnedModelError> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// How much longer than the best of all kernels of a problem the best of those takes that are
    /// expected to take least: 1 is as long. One answer for each of `counts`, of the families that
    /// something is known of; `None` where that is none.
    pub fn found_by(
        &self,
        families: &[Family],
        device: &Device,
        measured: &ProblemTimes,
        counts: &[usize],
    ) -> Option<Vec<f64>> {
        let ProblemTimes { problem, times } = measured;
        let storage = Storage::packed(problem);
        let mut ranked = Vec::new();
        for family in families {
            let Some(predictor) = self.predictor(family, device) else { continue };
            for (_, configuration, time) in times.iter().filter(|(name, ..)| *name == family.name) {
                let cost = cost(family, configuration, problem, device);
                ranked
                    .push((predictor.expects(configuration, &cost, (problem, &storage)).0, time.0));
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
    pub fn predictor<'e>(
        &'e self,
        family: &'e Family,
        device: &'e Device,
    ) -> Option<Predictor<'e>> {
        let family_model =
            self.families.get(&family.name).filter(|_| self.device == device.name)?;
        let reading = FeatureReader::of(family, &family_model.parameters)?;
        Some(Predictor { reading, family_model, device })
    }
}

/// A kernel as what was learned of its family is asked about it.
#[derive(Debug, Clone)]
pub struct KernelFeatures {
    of_configuration: Row,
    cost: CostModel,
}

/// A problem as what was learned is asked about it.
#[derive(Debug, Clone)]
pub struct ProblemFeatures {
    problem: Problem,
    of_problem: OfProblem,
}

impl ProblemFeatures {
    /// A problem whose operands lie so in memory.
    pub fn of(problem: &Problem, storage: &Storage) -> Self {
        Self { problem: *problem, of_problem: features::of_problem(problem, storage) }
    }
}

/// Forecasts kernels of one family.
#[derive(Debug)]
pub struct Predictor<'e> {
    reading: FeatureReader<'e>,
    family_model: &'e FamilyModel,
    device: &'e Device,
}

impl Predictor<'_> {
    /// What a kernel is expected to take. `cost` is the configuration's, of an occupancy that is not
    /// known, as it was when the family_model was learned.
    pub fn expects(
        &self,
        configuration: &Configuration,
        cost: &CostModel,
        question: (&Problem, &Storage),
    ) -> Micros {
        let question = ProblemFeatures::of(question.0, question.1);
        self.family_model.expects(&self.knows(configuration, cost), &question, self.device)
    }

    /// A kernel made ready, for many questions.
    pub fn knows(&self, configuration: &Configuration, cost: &CostModel) -> KernelFeatures {
        let of_configuration = self.reading.of_configuration(configuration);
        KernelFeatures { of_configuration, cost: *cost }
    }

    /// A space whose configurations will be asked about by the values that each parameter has.
    pub fn of_space(&self, parameters: &[(String, Vec<Value>)]) -> SpacePredictor<'_> {
        SpacePredictor { predictor: self, columns: Columns::of(&self.reading, parameters) }
    }

    /// What was learned.
    pub fn family_model(&self) -> &FamilyModel {
        self.family_model
    }
}

/// A space of configurations as its predictor reads it: they are asked about without being made.
#[derive(Debug)]
pub struct SpacePredictor<'e> {
    predictor: &'e Predictor<'e>,
    columns: Columns,
}

impl SpacePredictor<'_> {
    /// Configurations that are the same to the model of cost.
    pub fn alike(&self, cost: &CostModel, asked: &ProblemFeatures) -> TilePredictor<'_> {
        let mut row = [0.0; COLUMNS];
        let question = (&asked.of_problem, &asked.problem);
        let modelled = features::complete(&mut row, cost, question, self.predictor.device);
        TilePredictor { of_space: self, row, modelled }
    }
}

/// Configurations of a space that are the same to the model of cost, asked about for one problem.
#[derive(Debug)]
pub struct TilePredictor<'e> {
    of_space: &'e SpacePredictor<'e>,
    row: Row,
    modelled: f64,
}

impl TilePredictor<'_> {
    /// What a configuration is expected to take, as [`Predictor::expects`] says: it is given by the places of
    /// its values among those of each parameter of the space.
    pub fn expects(&self, indices: &[usize]) -> Micros {
        let mut row = self.row;
        self.of_space.columns.fill(&mut row, indices);
        let boosted = &self.of_space.predictor.family_model.boosted;
        Micros((self.modelled + f64::from(boosted.predict(&row))).exp())
    }
}

impl FamilyModel {
    /// Whether it tells anything of a problem.
    pub fn serves(&self, problem: &Problem) -> bool {
        (self.dtype, self.compute) == (problem.dtype, problem.compute)
    }

    /// What a kernel is expected to take on the device that was learned of.
    pub fn expects(
        &self,
        kernel: &KernelFeatures,
        asked: &ProblemFeatures,
        device: &Device,
    ) -> Micros {
        let mut row = kernel.of_configuration;
        let question = (&asked.of_problem, &asked.problem);
        let modelled = features::complete(&mut row, &kernel.cost, question, device);
        Micros((modelled + f64::from(self.boosted.predict(&row))).exp())
    }

    /// The same of several kernels at once, in half the time.
    pub fn expects_each(
        &self,
        kernels: &[&KernelFeatures],
        asked: &ProblemFeatures,
        device: &Device,
    ) -> Vec<Micros> {
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
                modelled[place] = features::complete(&mut row, &kernel.cost, question, device);
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
            family.completed(named.collect())
        })
    }

    /// Places among [`Self::kernels`] of those of which one is nearly always the best for problems like
    /// this one, eight at most; `None` where no list was made, as for batches.
    pub fn shortlist(&self, problem: &Problem, storage: &Storage) -> Option<&[u8]> {
        self.shortlists.of(problem, storage).filter(|_| self.serves(problem))
    }

    fn learn(device: &Device, family: &Family, measured: &[ProblemTimes]) -> Option<Self> {
        let parameters: Vec<String> = family.parameters.keys().cloned().collect();
        let reading = FeatureReader::of(family, &parameters)?;
        let of_problem = |one: &ProblemTimes| reading.told_by((family, device), one);
        let Problem { dtype, compute, .. } = measured.first()?.problem;
        let is_alike =
            |one: &&ProblemTimes| (one.problem.dtype, one.problem.compute) == (dtype, compute);
        let measured: Vec<ProblemTimes> = measured.iter().filter(is_alike).cloned().collect();
        let told: Vec<Rows> = measured.par_iter().map(of_problem).collect();
        let told: Vec<Rows> = told.into_iter().filter(|rows| !rows.values.is_empty()).collect();
        let rows = Rows::joined(told.iter());
        if told.len() < FEWEST_PROBLEMS || rows.values.len() < FEWEST_TIMES {
            return None;
        }
        let mut family_model = Self {
            problems: told.len(),
            times: rows.values.len(),
            error_percent: error_percent(&told),
            dtype,
            compute,
            kernels: worth_asking(family, &measured, &parameters),
            parameters,
            shortlists: Shortlists::default(),
            boosted: Boosted::learn(&rows),
        };
        let few = kernel_set::few(&family_model, family, device);
        family_model.kernels = few.into_iter().map(|at| family_model.kernels[at].clone()).collect();
        Some(family_model)
    }
}

/// A family's defaults, and of each problem its kernels that are among the best of all, each once.
fn worth_asking(
    family: &Family,
    measured: &[ProblemTimes],
    parameters: &[String],
) -> Vec<Vec<Value>> {
    let values = |configuration: &Configuration| -> Option<Vec<Value>> {
        parameters.iter().map(|name| configuration.get(name).cloned()).collect()
    };
    let mut kernels: Vec<Vec<Value>> = family.defaults().iter().filter_map(values).collect();
    for ProblemTimes { times, .. } in measured {
        let mut ranked: Vec<&(String, Configuration, Micros)> = times.iter().collect();
        ranked.sort_by(|a, b| a.2.0.total_cmp(&b.2.0));
        let best = ranked.first().map_or(0.0, |(.., time)| time.0);
        let near = ranked
            .iter()
            .filter(|(name, _, time)| *name == family.name && time.0 <= AMONG_BEST * best);
        for (_, configuration, _) in near.take(REMEMBERED) {
            let own = values(&family.completed(configuration.clone()));
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

impl FeatureReader<'_> {
    /// What the times of one problem tell of a family. All together weigh 1: every problem tells as
    /// much, however many of its kernels were measured.
    fn told_by(&self, (family, device): (&Family, &Device), measured: &ProblemTimes) -> Rows {
        let ProblemTimes { problem, times } = measured;
        let best = times.iter().map(|(.., time)| time.0).fold(f64::INFINITY, f64::min);
        let is_telling = |time: f64| time > 0.0 && time <= HOPELESS * best;
        let own = times.iter().filter(|(name, _, time)| *name == family.name && is_telling(time.0));
        let of_problem = features::of_problem(problem, &Storage::packed(problem));
        let mut rows = Rows::default();
        for (_, configuration, time) in own {
            let configuration = family.completed(configuration.clone());
            let work = Work::of(family, &configuration, problem, device);
            let cost = CostModel::new(work, None, device);
            let mut row = self.of_configuration(&configuration);
            let modelled = features::complete(&mut row, &cost, (&of_problem, problem), device);
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
) -> CostModel {
    CostModel::new(Work::of(family, configuration, pattern, device), None, device)
}

#[cfg(test)]
mod tests;
