//! Records and families prepared for one device; `resolve` answers from them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::OnceLock;

use elsa::sync::FrozenMap;
use rayon::prelude::*;

use super::answer::Question;
use super::candidates::CandidateIndex;
use super::kernels::{Demand, KnownKernel, LearnedKernels, RecordedKernel};
use super::learned::Choices;
use super::neighbours::NeighbourIndex;
use crate::database::{Record, preference};
use crate::model::{Configuration, Device, Problem, ProblemPattern, Regime, Shape};
use crate::predict::{Predictor, error_percent};
use crate::render::Templates;
use crate::space::Family;

/// Most records in the search for a legal one.
pub(super) const MOST_LOOKED_AT: usize = 64;

/// Most records that are predicted from the others, for the error of predictions.
const MOST_CHECKED: usize = 128;

/// Nearest records that one is predicted from: about as many as an answer compares.
const CHECKED_AGAINST: usize = 12;

/// Fewest records for that error.
pub(super) const FEWEST_CHECKED: usize = 5;

/// Record that no answer can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// Its key.
    pub key: String,
    /// The reason.
    pub why: String,
}

/// Lookup of kernels for a device.
#[derive(Debug)]
pub struct Lookup {
    pub(super) device: Device,
    pub(super) regime: Regime,
    pub(super) families: Vec<(Family, String)>,
    pub(super) known: Vec<RecordedKernel>,
    pub(super) exact: HashMap<Problem, usize>,
    /// Groups with records.
    groups: HashMap<ProblemPattern, Group>,
    /// Groups without records, made on demand: each default takes milliseconds.
    made: FrozenMap<ProblemPattern, Box<Group>>,
    unusable: Vec<Unusable>,
    pub(super) pinned: bool,
    pub(super) predictor: Predictor,
}

/// Kernels for problems of one pattern.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// The pattern.
    pub(super) pattern: Option<ProblemPattern>,
    /// Records of this device.
    pub(super) own: NeighbourIndex,
    /// Records of other devices.
    pub(super) siblings: NeighbourIndex,
    pub(super) defaults: Vec<KnownKernel>,
    /// Candidates without a learned model.
    pub(super) candidates: CandidateIndex,
    /// Kernels of learned models, prepared on demand.
    pub(super) learned: OnceLock<LearnedKernels>,
    /// Choices by learned models.
    pub(super) choices: Choices,
    /// Families that have a record in any layout, and the number of records.
    pub(super) winning: BTreeSet<usize>,
    pub(super) records: usize,
    pub(super) error_percent: Option<f64>,
}

impl Lookup {
    /// Prepares the records of `device` and of others of its compute capability, as far as they were measured in
    /// the regime.
    pub fn new<'r>(
        records: impl IntoIterator<Item = &'r Record>,
        families: &[Family],
        templates: &Templates,
        device: &Device,
        regime: Regime,
    ) -> Self {
        let families =
            families.iter().map(|family| (family.clone(), templates.hash(family))).collect();
        let mut lookup = Self {
            device: device.clone(),
            regime,
            families,
            known: Vec::new(),
            exact: HashMap::new(),
            groups: HashMap::new(),
            made: FrozenMap::new(),
            unusable: Vec::new(),
            pinned: false,
            predictor: Predictor::default(),
        };
        let records = best_of_each_place(records).into_par_iter();
        let ready: Vec<_> = records.map(|record| (record, lookup.ready(record))).collect();
        for (record, ready) in ready {
            match ready {
                Ok(Some(known)) => lookup.known.push(known),
                Ok(None) => {}
                Err(why) => lookup.unusable.push(Unusable { key: record.key(), why }),
            }
        }
        lookup.group();
        lookup
    }

    /// Answers only for the problems of its records, with their very kernels: answers never change.
    #[must_use]
    pub fn pinned(self) -> Self {
        Self { pinned: true, ..self }
    }

    /// Chooses between kernels by the learned models of a predictor, where it has one of their families.
    #[must_use]
    pub fn with_predictor(mut self, predictor: Predictor) -> Self {
        let Self { device, families, known, groups, .. } = &mut self;
        let defaults = groups.values_mut().flat_map(|group| {
            let problem = group.pattern.map(some_problem);
            group.defaults.iter_mut().filter_map(move |kernel| Some((kernel, problem?)))
        });
        let winners = known.iter_mut().map(|known| (&mut known.kernel, known.problem));
        let mut predictors = HashMap::new();
        for (kernel, problem) in winners.chain(defaults) {
            let key = (kernel.family, problem.types);
            let family = &families[kernel.family].0;
            let own =
                predictors.entry(key).or_insert_with(|| predictor.family(family, &problem, device));
            if let Some(own) = own {
                kernel.prepare(own, device);
            }
        }
        self.predictor = predictor;
        self.made = FrozenMap::new();
        self
    }

    /// Records that no answer can use.
    pub fn unusable(&self) -> &[Unusable] {
        &self.unusable
    }

    /// The record of a problem.
    pub(super) fn record(&self, problem: &Problem) -> Option<&RecordedKernel> {
        self.exact.get(problem).map(|place| &self.known[*place])
    }

    /// The group of a problem.
    pub(super) fn group_of(&self, problem: &Problem) -> &Group {
        let pattern = problem.pattern();
        let known = self.groups.get(&pattern).or_else(|| self.made.get(&pattern));
        known.unwrap_or_else(|| self.made.insert(pattern, Box::new(self.group_without(pattern))))
    }

    /// Whether a winner is legal for a problem.
    pub(super) fn serves(
        &self,
        known: &RecordedKernel,
        problem: &Problem,
        demand: &Demand,
    ) -> bool {
        known.kernel.cost.fits(problem) && self.permits(&known.kernel, demand)
    }

    pub(super) fn permits(&self, kernel: &KnownKernel, demand: &Demand) -> bool {
        kernel.meets(demand, &self.families[kernel.family].0, &self.device)
    }

    /// Prepares a record; `None` for one of another device or regime.
    fn ready(&self, record: &Record) -> Result<Option<RecordedKernel>, String> {
        let capability = self.device.compute_capability.to_string();
        let is_own = record.is_of(&self.device);
        if record.device.compute_capability != capability
            || record.is_modelled() != self.device.is_cpu()
            || record.regime() != Some(self.regime)
        {
            return Ok(None);
        }
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let problem = Problem::try_from(&record.problem).map_err(|error| text(&error))?;
        let named = |(family, _): &(Family, String)| family.name == record.family;
        let place = self.families.iter().position(named);
        let place = place.ok_or_else(|| format!("no family is named `{}`", record.family))?;
        let family = &self.families[place].0;
        let occupancy = record.resources.occupancy;
        if record.median().0.is_nan() || record.median().0 <= 0.0 {
            return Err("its time is not positive".to_owned());
        }
        let kernel = KnownKernel::new(
            (place, family),
            family.completed(record.configuration()).map_err(|error| text(&error))?,
            &problem,
            (occupancy, &self.device),
        );
        let unlike = || format!("its configuration is not legal on {}", self.device.name);
        let kernel = kernel.ok_or_else(unlike)?;
        if !self.permits(&kernel, &Demand::from(&Question::packed(problem))) {
            return Err("its configuration is not legal for its own problem any more".to_owned());
        }
        if is_own {
            let at_home = kernel.cost.clone();
            return Ok(Some(RecordedKernel::new(kernel, record.clone(), problem, &at_home, 1.0)));
        }
        let home = Device::try_from(&record.device).map_err(|error| text(&error))?;
        let at_home = kernel.cost.on(&home, occupancy);
        let clock = |device: &Device| f64::from(device.max_sm_clock_mhz.max(1));
        let ratio = clock(&home) / clock(&self.device);
        Ok(Some(RecordedKernel::new(kernel, record.clone(), problem, &at_home, ratio)))
    }

    /// Indexes records by problem and by position.
    fn group(&mut self) {
        let mut places: BTreeMap<(ProblemPattern, bool), Vec<(Question, usize)>> = BTreeMap::new();
        for (place, known) in self.known.iter().enumerate() {
            let problem = &known.problem;
            let pattern = problem.pattern();
            let is_own = known.record.is_of(&self.device);
            // A non-deterministic kernel answers only for its own problem, whose user allowed it.
            if known.record.deterministic {
                let own = (Question::packed(*problem), place);
                places.entry((pattern, is_own)).or_default().push(own);
            }
            if is_own {
                self.exact.insert(*problem, place);
            }
        }
        let patterns: BTreeSet<ProblemPattern> =
            places.keys().map(|(pattern, _)| *pattern).collect();
        for pattern in patterns {
            let [own, siblings] =
                [true, false].map(|is_own| places.remove(&(pattern, is_own)).unwrap_or_default());
            let defaults = self.repeatable_defaults(pattern).into_par_iter();
            let defaults = defaults.filter_map(|one| self.default_kernel(one, pattern));
            let mut group = self.group_with(pattern, own, siblings, defaults.collect());
            self.find_candidates(&mut group);
            group.error_percent = self.error(&group);
            self.groups.insert(pattern, group);
        }
    }

    /// A group without candidates.
    fn group_with(
        &self,
        pattern: ProblemPattern,
        own: Vec<(Question, usize)>,
        siblings: Vec<(Question, usize)>,
        defaults: Vec<KnownKernel>,
    ) -> Group {
        // Of any layout: families for few rows or columns win nothing where no record has few.
        let alike = self.known.iter().filter(|known| known.problem.types == pattern.types);
        Group {
            pattern: Some(pattern),
            defaults,
            winning: alike.map(|known| known.kernel.family).collect(),
            records: own.len() + siblings.len(),
            own: NeighbourIndex::new(own),
            siblings: NeighbourIndex::new(siblings),
            ..Group::default()
        }
    }

    /// A group without records. On one thread: while others wait for it, no stolen work may need it too.
    fn group_without(&self, pattern: ProblemPattern) -> Group {
        let defaults = self.repeatable_defaults(pattern).into_iter();
        let defaults = defaults.filter_map(|one| self.default_kernel(one, pattern));
        let mut group = self.group_with(pattern, Vec::new(), Vec::new(), defaults.collect());
        for kernel in &mut group.defaults {
            let family = &self.families[kernel.family].0;
            let predictor = self.predictor.family(family, &some_problem(pattern), &self.device);
            if let Some(predictor) = predictor {
                kernel.prepare(&predictor, &self.device);
            }
        }
        group.candidates =
            CandidateIndex::of(&self.named(&group.defaults), &mut [], &[], |_| String::new(), 0);
        group
    }

    /// Kernels by their names in landmarks.
    fn named<'k>(&self, kernels: &'k [KnownKernel]) -> Vec<(String, &'k KnownKernel)> {
        let name =
            |kernel: &KnownKernel| self.families[kernel.family].0.short_name(&kernel.configuration);
        kernels.iter().map(|kernel| (name(kernel), kernel)).collect()
    }

    /// The deterministic defaults of all families, each with its family's index.
    fn repeatable_defaults(&self, pattern: ProblemPattern) -> Vec<(usize, &Configuration)> {
        let problem = some_problem(pattern);
        let families = self.families.iter().enumerate();
        let of_family = families.flat_map(|(place, (family, _))| {
            let repeatable = move |configuration: &&Configuration| {
                family.is_deterministic(configuration, &problem, &self.device).unwrap_or(false)
            };
            family.defaults(&self.device).iter().filter(repeatable).map(move |one| (place, one))
        });
        of_family.collect()
    }

    /// Prepares a default, if it is legal for some problem of a pattern.
    fn default_kernel(
        &self,
        (place, configuration): (usize, &Configuration),
        pattern: ProblemPattern,
    ) -> Option<KnownKernel> {
        let family = (place, &self.families[place].0);
        let of = (None, &self.device);
        KnownKernel::new(family, configuration.clone(), &some_problem(pattern), of)
    }

    /// Fits the landmark errors of a group's own records.
    fn find_candidates(&mut self, group: &mut Group) {
        let defaults = self.named(&group.defaults);
        let families = &self.families;
        let name =
            |kernel: &KnownKernel| families[kernel.family].0.short_name(&kernel.configuration);
        let places: Vec<usize> = group.own.all().collect();
        let clock_mhz = self.device.max_sm_clock_mhz;
        group.candidates = CandidateIndex::of(&defaults, &mut self.known, &places, name, clock_mhz);
    }

    /// Error of a group's records in per cent, each predicted from the others.
    fn error(&self, group: &Group) -> Option<f64> {
        let places: Vec<usize> = group.own.all().collect();
        if places.len() < FEWEST_CHECKED {
            return None;
        }
        let step = places.len().div_ceil(MOST_CHECKED);
        let errors = places.iter().step_by(step).filter_map(|place| {
            let held_out = &self.known[*place];
            let problem = &held_out.problem;
            let question = Question::packed(*problem);
            let demand = Demand::from(&question);
            let others = group.own.nearest_first(&question).filter(|other| other != place);
            let near: Vec<usize> = others.take(CHECKED_AGAINST).collect();
            let candidates = group.candidates.candidates(&held_out.position, &self.known, &near);
            let answer = candidates.and_then(|all| {
                let timed = self.by_landmarks(group, problem, &all);
                self.fastest(group, problem, &timed, &demand)
            });
            let time = match answer {
                Some(answer) => answer.predicted?.0,
                None => {
                    let known = near.iter().map(|other| &self.known[*other]);
                    known
                        .filter(|known| self.permits(&known.kernel, &demand))
                        .min_by(|a, b| a.cautious(problem).total_cmp(&b.cautious(problem)))?
                        .predict(problem)
                }
            };
            let measured = held_out.record.median().0;
            Some((time / measured).ln())
        });
        error_percent(errors)
    }
}

/// A problem of a pattern with arbitrary extents.
pub(super) fn some_problem(pattern: ProblemPattern) -> Problem {
    pattern.problem(Shape { m: 1024, n: 1024, k: 1024 })
}

/// The best record of each problem and device, in an order that does not depend on that of the records.
fn best_of_each_place<'r>(records: impl IntoIterator<Item = &'r Record>) -> Vec<&'r Record> {
    let mut best: BTreeMap<(String, &str), &Record> = BTreeMap::new();
    for record in records {
        let place = best.entry((record.key(), &record.device.name)).or_insert(record);
        if preference(record, place).is_lt() {
            *place = record;
        }
    }
    best.into_values().collect()
}
