//! Training of learned models on measured times.

use std::collections::HashSet;

use indexmap::IndexMap;
use rayon::prelude::*;

use super::features::{FeatureReader, ProblemFeatures};
use super::learned_model::{FamilyModel, LearnedModel, VERSION};
use super::{calibration, kernel_set};
use crate::model::{Configuration, Device, GemmType, Micros, Problem, Storage, Value};
use crate::render::Templates;
use crate::space::Family;
use crate::trees::{BoostedTrees, FeatureRow, Precision, TrainingRows};

/// Times over a problem's best above which kernels are left out: their reasons do not matter for good ones.
const HOPELESS: f64 = 3.0;

/// Fewest problems, times and different kernels of a family model. Searches evaluate the defaults of all families: these
/// alone say nothing of other kernels.
const FEWEST_PROBLEMS: usize = 8;
const FEWEST_TIMES: usize = 200;
const FEWEST_KERNELS: usize = 20;

/// Kernels of each problem that are candidates of the kernel set, and their most times over the best.
const REMEMBERED: usize = 4;
const AMONG_BEST: f64 = 1.03;

/// What a time of a former version of the kernels counts. 153 problems of `wgmma` on an H200 were held out in three parts. With
/// 0.05, 0.1, 0.2, 0.3, 0.4 and 0.5, the kernel with the lowest predicted time takes 1.072, 1.067, 1.065, 1.061, 1.062 and 1.071
/// times the best. It takes 1.082 times the best where the former times make a base.
const FORMER_WEIGHT: f64 = 0.3;

/// Folds of the cross-validation that finds a model's error.
const FOLDS: usize = 4;

/// Measured times of kernels for one problem.
#[derive(Debug, Clone)]
pub struct ProblemTimes {
    /// The problem, its operands packed.
    pub problem: Problem,
    /// Families, configurations and times.
    pub times: Vec<(String, Configuration, Micros)>,
}

/// What models are trained on.
#[derive(Debug, Clone, Copy, Default)]
pub struct TrainingTimes<'t> {
    /// Times of today's kernels.
    pub measured: &'t [ProblemTimes],
    /// Times of former versions of the kernels. They count less where enough is measured of today's.
    pub former: &'t [ProblemTimes],
}

impl<'t> From<&'t [ProblemTimes]> for TrainingTimes<'t> {
    fn from(measured: &'t [ProblemTimes]) -> Self {
        Self { measured, former: &[] }
    }
}

impl ProblemTimes {
    /// The shortest time.
    pub(super) fn best(&self) -> f64 {
        self.times.iter().map(|(.., time)| time.0).fold(f64::INFINITY, f64::min)
    }
}

impl LearnedModel {
    /// Trains models on times that were measured on a device with today's templates, one for each family and
    /// GEMM types that multiply alike, with at least eight problems and 200 times.
    pub fn learn(
        device: &Device,
        families: &[Family],
        templates: &Templates,
        measured: &[ProblemTimes],
    ) -> Self {
        Self::default().refined(device, families, templates, measured.into())
    }

    /// As [`Self::learn`], beginning with these models: of the same device, or of another one of its compute capability.
    /// Families and GEMM types that too little was measured of keep their models.
    #[must_use]
    pub fn refined(
        &self,
        device: &Device,
        families: &[Family],
        templates: &Templates,
        times: TrainingTimes<'_>,
    ) -> Self {
        let TrainingTimes { measured, former } = times;
        let all_times = measured.iter().chain(former);
        let mut gemm_types: Vec<_> = all_times.map(|one| one.problem.types).collect();
        gemm_types.sort_unstable();
        // One of each that multiply alike: they have one model.
        let mut alike: Vec<GemmType> = Vec::new();
        for types in gemm_types {
            if !alike.iter().any(|known| known.multiplies_like(&types)) {
                alike.push(types);
            }
        }
        let of_family = |family: &Family| -> Vec<FamilyModel> {
            let hash = templates.hash(family);
            let base = |types: &GemmType| {
                let known = self.families.get(&family.name)?;
                let is_own = |model: &&FamilyModel| {
                    model.types.multiplies_like(types) && model.template_hash == hash
                };
                known.iter().find(is_own)
            };
            let of_type = |types: &GemmType| {
                let is_own = |one: &&ProblemTimes| one.problem.types.multiplies_like(types);
                let [own, former] = [measured, former]
                    .map(|all| all.iter().filter(is_own).collect::<Vec<&ProblemTimes>>());
                let untrained = UntrainedModel { device, family, base: base(types), types };
                untrained.train(hash.clone(), &own, &former)
            };
            alike.par_iter().filter_map(of_type).collect()
        };
        let trained = families.par_iter().map(|family| (family.name.clone(), of_family(family)));
        let trained: Vec<_> = trained.collect();
        let families = trained.into_iter().filter(|(_, models)| !models.is_empty()).collect();
        let (device, libraries) = (device.name.clone(), Vec::new());
        let mut refined = Self { gemm_tune_model: VERSION, device, families, libraries };
        refined.keep(self.clone());
        refined
    }
}

/// What a model is trained for, and what it begins with.
struct UntrainedModel<'a> {
    device: &'a Device,
    family: &'a Family,
    types: &'a GemmType,
    base: Option<&'a FamilyModel>,
}

impl UntrainedModel<'_> {
    /// Trains on problems of the GEMM type, and on former times of such. Where too little is measured of today's kernels,
    /// former times count like theirs. `None` with too few of both.
    fn train(
        &self,
        template_hash: String,
        measured: &[&ProblemTimes],
        former: &[&ProblemTimes],
    ) -> Option<FamilyModel> {
        let Self { device, family, base, .. } = *self;
        let parameters = base.map_or(&family.parameters, |base| &base.parameters);
        let reader = FeatureReader::of(family, parameters)?;
        let rows = |all: &[&ProblemTimes], weight: f64| -> Vec<ProblemRows> {
            let of_problem = |one: &&ProblemTimes| ProblemRows {
                problem: one.problem,
                rows: training_rows(&reader, (family, device), one, weight),
            };
            let all: Vec<ProblemRows> = all.par_iter().map(of_problem).collect();
            all.into_iter().filter(|one| !one.rows.values.is_empty()).collect()
        };
        let all_times = [measured, former].concat();
        let mut of_problems = rows(measured, 1.0);
        let mut of_former = rows(former, FORMER_WEIGHT);
        if !is_enough(&of_problems, family, measured) {
            of_problems = rows(&all_times, 1.0);
            of_former.clear();
            if !is_enough(&of_problems, family, &all_times) {
                return None;
            }
        }
        let times = number_of_times(&of_problems);
        let mut kernels = best_kernels((family, device), parameters, &all_times);
        let known = base.into_iter().flat_map(|base| &base.kernels);
        let new: Vec<_> = known.filter(|one| !kernels.contains(one)).cloned().collect();
        kernels.extend(new);
        let (error_percent, boosted) = rayon::join(
            || self.cross_validate(&of_problems, &of_former),
            || self.boosted(of_problems.iter().chain(&of_former)),
        );
        let mut model = FamilyModel {
            template_hash,
            problems: of_problems.len(),
            times,
            error_percent,
            types: *self.types,
            kernels,
            parameters: parameters.clone(),
            boosted,
        };
        let chosen = kernel_set::choose(&model, family, device);
        model.kernels = chosen.into_iter().map(|at| model.kernels[at].clone()).collect();
        Some(model)
    }

    /// Trees for these rows, after those of the base.
    fn boosted<'r>(&self, all: impl Iterator<Item = &'r ProblemRows>) -> BoostedTrees {
        let rows = &TrainingRows::joined(all.map(|one| &one.rows));
        self.base.map_or_else(|| BoostedTrees::learn(rows), |base| base.boosted.refined(rows))
    }

    /// The error of predictions for problems outside the training data.
    fn cross_validate(&self, of_problems: &[ProblemRows], former: &[ProblemRows]) -> f64 {
        let of_fold = |fold: usize| -> Vec<f64> {
            let part = |is_own: bool| {
                let all = of_problems.iter().enumerate();
                all.filter(move |(at, _)| (at % FOLDS == fold) == is_own).map(|(_, one)| one)
            };
            let held_out: HashSet<&Problem> = part(true).map(|one| &one.problem).collect();
            let former = former.iter().filter(|one| !held_out.contains(&one.problem));
            let boosted = self.boosted(part(false).chain(former));
            let error = |(row, target): (&FeatureRow, &f64)| {
                target - f64::from(boosted.predict(row, Precision::Full))
            };
            let errors = |one: &ProblemRows| -> Vec<f64> {
                one.rows.values.iter().zip(&one.rows.targets).map(error).collect()
            };
            part(true).flat_map(errors).collect()
        };
        let errors: Vec<Vec<f64>> = (0..FOLDS).into_par_iter().map(of_fold).collect();
        calibration::error_percent(errors.into_iter().flatten()).unwrap_or(f64::NAN)
    }
}

/// Training rows of a problem.
struct ProblemRows {
    problem: Problem,
    rows: TrainingRows,
}

/// Whether a model can be learned of these.
fn is_enough(of_problems: &[ProblemRows], family: &Family, measured: &[&ProblemTimes]) -> bool {
    of_problems.len() >= FEWEST_PROBLEMS
        && number_of_times(of_problems) >= FEWEST_TIMES
        && different_kernels(family, measured) >= FEWEST_KERNELS
}

fn number_of_times(of_problems: &[ProblemRows]) -> usize {
    of_problems.iter().map(|one| one.rows.values.len()).sum()
}

/// Different configurations of a family among measured times.
fn different_kernels(family: &Family, measured: &[&ProblemTimes]) -> usize {
    let all = measured.iter().flat_map(|one| &one.times);
    let own = all.filter(|(name, ..)| *name == family.name);
    own.map(|(_, configuration, _)| configuration.to_string()).collect::<HashSet<_>>().len()
}

/// Training rows of one problem, with a total weight: problems count alike, however many times they have.
fn training_rows(
    reader: &FeatureReader<'_>,
    (family, device): (&Family, &Device),
    measured: &ProblemTimes,
    weight: f64,
) -> TrainingRows {
    let ProblemTimes { problem, times } = measured;
    let best = measured.best();
    let is_useful = |time: f64| time > 0.0 && time <= HOPELESS * best;
    let own = times.iter().filter(|(name, _, time)| *name == family.name && is_useful(time.0));
    let features = ProblemFeatures::of(problem, &Storage::packed(problem));
    let mut rows = TrainingRows::default();
    for (_, configuration, time) in own {
        // The family cannot express these kernels any more.
        let Ok(configuration) = family.completed(configuration.clone()) else { continue };
        let cost = super::cost((family, &configuration), problem, device);
        let mut row = reader.row(&configuration);
        let modelled = features.complete(&mut row, &cost, device);
        rows.values.push(row);
        rows.targets.push(time.0.ln() - modelled);
    }
    rows.weights = vec![weight / rows.values.len() as f64; rows.values.len()];
    rows
}

/// The candidates of the kernel set: a family's defaults and its kernels among the best of each problem.
fn best_kernels(
    (family, device): (&Family, &Device),
    parameters: &IndexMap<String, Vec<Value>>,
    measured: &[&ProblemTimes],
) -> Vec<Vec<Value>> {
    let values = |configuration: &Configuration| -> Option<Vec<Value>> {
        parameters.keys().map(|name| configuration.get(name).cloned()).collect()
    };
    let mut kernels: Vec<Vec<Value>> = family.defaults(device).iter().filter_map(values).collect();
    for one in measured {
        let mut ranked: Vec<&(String, Configuration, Micros)> = one.times.iter().collect();
        ranked.sort_by(|a, b| a.2.0.total_cmp(&b.2.0));
        let most = AMONG_BEST * ranked.first().map_or(0.0, |(.., time)| time.0);
        let near = ranked.iter().filter(|(name, _, time)| *name == family.name && time.0 <= most);
        for (_, configuration, _) in near.take(REMEMBERED) {
            let own = family.completed(configuration.clone()).ok();
            let own = own.and_then(|configuration| values(&configuration));
            kernels.extend(own.filter(|one| !kernels.contains(one)));
        }
    }
    kernels
}
