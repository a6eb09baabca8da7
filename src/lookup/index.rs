//! Records and families made ready for one device; `climb` answers from them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::OnceLock;

use rayon::prelude::*;

use super::answer::Question;
use super::experienced::{Choices, Learned};
use super::known::{Kernel, Known};
use super::near::Near;
use super::roster::Roster;
use crate::database::{Record, preference};
use crate::experience::{Experience, Expert, Lesson};
use crate::model::{
    Compute, Configuration, Device, Dtype, Layout, Problem, Regime, Shape, Storage, statistics,
};
use crate::render::Templates;
use crate::space::{Extents, Family, Footprints};

/// Records that are looked at for one that is legal.
pub(super) const MOST_LOOKED_AT: usize = 64;

/// Records that are predicted from the others, to say how far predictions are off.
const MOST_CHECKED: usize = 128;

/// The records nearest to one that it is predicted from: about as many as an answer compares.
const CHECKED_AGAINST: usize = 12;

/// Records below which nothing is said about that.
pub(super) const FEWEST_CHECKED: usize = 5;

/// The share of records that is within the error that is told.
const WITHIN: f64 = 0.9;

/// A record that no answer can come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// Its key.
    pub key: String,
    /// Why not.
    pub why: String,
}

/// The kernels that are known for a device.
#[derive(Debug)]
pub struct Lookup {
    pub(super) device: Device,
    regime: Regime,
    pub(super) families: Vec<(Family, String)>,
    pub(super) known: Vec<Known>,
    pub(super) exact: HashMap<Problem, usize>,
    /// Those without records are made when somebody asks: it takes the expression engine milliseconds for
    /// each default.
    groups: HashMap<Pattern, OnceLock<Group>>,
    unusable: Vec<Unusable>,
    pub(super) pinned: bool,
    /// What was learned of each family.
    pub(super) lessons: Vec<Option<Lesson>>,
    pub(super) experience: Experience,
}

/// What problems have in common that share kernels.
pub(super) type Pattern = (Dtype, Compute, Layout);

/// The kernels for problems of one pattern.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// What its problems have in common.
    pub(super) pattern: Option<Pattern>,
    /// Records of this device.
    pub(super) own: Near,
    /// Records of other devices.
    pub(super) siblings: Near,
    pub(super) defaults: Vec<Kernel>,
    /// All kernels of its own records, and what landmarks tell of them.
    pub(super) roster: Roster,
    /// Kernels that were learned of; made ready when one is asked about.
    pub(super) learned: OnceLock<Learned>,
    /// What was chosen by what was learned.
    pub(super) choices: Choices,
    /// Families that have a record in any layout, and the number of records.
    pub(super) winning: BTreeSet<usize>,
    pub(super) records: usize,
    pub(super) error_percent: Option<f64>,
}

impl Lookup {
    /// Makes the records ready that are of `device` or of another of its compute capability, and
    /// were measured in the regime.
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
            unusable: Vec::new(),
            pinned: false,
            lessons: Vec::new(),
            experience: Experience::default(),
        };
        let footprints = Footprints::new();
        let records = best_of_each_place(records).into_par_iter();
        let ready: Vec<_> =
            records.map(|record| (record, lookup.ready(record, &footprints))).collect();
        for (record, ready) in ready {
            match ready {
                Ok(Some(known)) => lookup.known.push(known),
                Ok(None) => {}
                Err(why) => lookup.unusable.push(Unusable { key: record.key(), why }),
            }
        }
        lookup.group(&footprints);
        lookup
    }

    /// Answers for the problems of its records alone, and only with their very kernels: the same
    /// question has the same answer for ever.
    #[must_use]
    pub fn pinned(self) -> Self {
        Self { pinned: true, ..self }
    }

    /// Chooses between kernels by what was learned of the device, where that knows their families.
    #[must_use]
    pub fn experienced(mut self, experience: &Experience) -> Self {
        let Self { device, families, known, groups, .. } = &mut self;
        let experts: Vec<Option<Expert<'_>>> =
            families.iter().map(|(family, _)| experience.expert(family, device)).collect();
        let groups = groups.values_mut().filter_map(OnceLock::get_mut);
        let defaults = groups.flat_map(|group| &mut group.defaults);
        for kernel in known.iter_mut().map(|known| &mut known.kernel).chain(defaults) {
            if let Some(expert) = &experts[kernel.family] {
                kernel.learn(expert, device);
            }
        }
        let lesson = |expert: Option<Expert<'_>>| expert.map(|expert| expert.lesson().clone());
        self.lessons = experts.into_iter().map(lesson).collect();
        self.experience = experience.clone();
        self
    }

    /// Records that no answer can come from, and why.
    pub fn unusable(&self) -> &[Unusable] {
        &self.unusable
    }

    /// The record of a problem.
    pub(super) fn record(&self, problem: &Problem) -> Option<&Known> {
        self.exact.get(problem).map(|place| &self.known[*place])
    }

    /// What is known for problems like this one.
    pub(super) fn group_of(&self, problem: &Problem) -> Option<&Group> {
        let pattern = (problem.dtype, problem.compute, problem.layout);
        Some(self.groups.get(&pattern)?.get_or_init(|| self.group_without(pattern)))
    }

    /// Whether a winner is legal for a problem.
    pub(super) fn serves(&self, known: &Known, problem: &Problem, extents: &mut Extents) -> bool {
        known.kernel.cost.fits(problem) && self.permits(&known.kernel, extents)
    }

    pub(super) fn permits(&self, kernel: &Kernel, extents: &mut Extents) -> bool {
        kernel.legality.permits(&self.families[kernel.family].0, extents)
    }

    /// A record made ready; `None` for one that has no part in answers about this device.
    fn ready(&self, record: &Record, footprints: &Footprints) -> Result<Option<Known>, String> {
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
            return Err("its time is no time".to_owned());
        }
        let kernel = Kernel::new(
            (place, family),
            family.completed(record.configuration()).map_err(|error| text(&error))?,
            &problem,
            (occupancy, &self.device),
            footprints,
        );
        let unlike = || format!("its configuration is not legal on {}", self.device.name);
        let kernel = kernel.ok_or_else(unlike)?;
        let own_extents = &mut Extents::new(&problem, &Storage::packed(&problem));
        if !self.permits(&kernel, own_extents) {
            return Err("its configuration is not legal for its own problem any more".to_owned());
        }
        if is_own {
            let at_home = kernel.cost;
            return Ok(Some(Known::new(kernel, record.clone(), problem, &at_home, 1.0)));
        }
        let home = Device::try_from(&record.device).map_err(|error| text(&error))?;
        let at_home = kernel.cost.on(&home, occupancy);
        let clock = |device: &Device| f64::from(device.max_sm_clock_mhz.max(1));
        let ratio = clock(&home) / clock(&self.device);
        Ok(Some(Known::new(kernel, record.clone(), problem, &at_home, ratio)))
    }

    /// Puts what is known into place: by problem, and by nearness.
    fn group(&mut self, footprints: &Footprints) {
        let mut places: BTreeMap<(Pattern, bool), Vec<(Question, usize)>> = BTreeMap::new();
        for (place, known) in self.known.iter().enumerate() {
            let problem = &known.problem;
            let pattern = (problem.dtype, problem.compute, problem.layout);
            let is_own = known.record.is_of(&self.device);
            // Who asks for another problem did not choose a kernel with other bits in each run.
            if known.record.deterministic {
                let own = (Question::packed(*problem), place);
                places.entry((pattern, is_own)).or_default().push(own);
            }
            if is_own {
                self.exact.insert(*problem, place);
            }
        }
        for pattern in patterns() {
            let [own, siblings] =
                [true, false].map(|is_own| places.remove(&(pattern, is_own)).unwrap_or_default());
            if own.is_empty() && siblings.is_empty() {
                self.groups.insert(pattern, OnceLock::new());
                continue;
            }
            let defaults = self.repeatable_defaults(pattern).into_par_iter();
            let defaults = defaults.filter_map(|one| self.default_kernel(one, pattern, footprints));
            let mut group = self.group_with(pattern, own, siblings, defaults.collect());
            self.survey(&mut group);
            group.error_percent = self.error(&group);
            self.groups.insert(pattern, group.into());
        }
    }

    /// A group that is not surveyed.
    fn group_with(
        &self,
        pattern: Pattern,
        own: Vec<(Question, usize)>,
        siblings: Vec<(Question, usize)>,
        defaults: Vec<Kernel>,
    ) -> Group {
        // In any layout: families for few rows or columns win nothing where no record has few.
        let alike = self
            .known
            .iter()
            .filter(|known| (known.problem.dtype, known.problem.compute) == (pattern.0, pattern.1));
        Group {
            pattern: Some(pattern),
            defaults,
            winning: alike.map(|known| known.kernel.family).collect(),
            records: own.len() + siblings.len(),
            own: Near::new(own),
            siblings: Near::new(siblings),
            ..Group::default()
        }
    }

    /// A group without records. On one thread: while others wait for it, no work may be stolen that asks
    /// for it too.
    fn group_without(&self, pattern: Pattern) -> Group {
        let footprints = Footprints::new();
        let defaults = self.repeatable_defaults(pattern).into_iter();
        let defaults = defaults.filter_map(|one| self.default_kernel(one, pattern, &footprints));
        let mut group = self.group_with(pattern, Vec::new(), Vec::new(), defaults.collect());
        for kernel in &mut group.defaults {
            let family = &self.families[kernel.family].0;
            if let Some(expert) = self.experience.expert(family, &self.device) {
                kernel.learn(&expert, &self.device);
            }
        }
        group.roster =
            Roster::survey(&self.named(&group.defaults), &mut [], &[], |_| String::new(), 0);
        group
    }

    /// Kernels by the names that landmarks have.
    fn named<'k>(&self, kernels: &'k [Kernel]) -> Vec<(String, &'k Kernel)> {
        let name =
            |kernel: &Kernel| self.families[kernel.family].0.short_name(&kernel.configuration);
        kernels.iter().map(|kernel| (name(kernel), kernel)).collect()
    }

    /// The defaults of all families, each with its family's place, that give the same bits in every run.
    fn repeatable_defaults(&self, pattern: Pattern) -> Vec<(usize, &Configuration)> {
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

    /// A default made ready, if it is legal for some problem of a pattern.
    fn default_kernel(
        &self,
        (place, configuration): (usize, &Configuration),
        pattern: Pattern,
        footprints: &Footprints,
    ) -> Option<Kernel> {
        let family = (place, &self.families[place].0);
        let of = (None, &self.device);
        Kernel::new(family, configuration.clone(), &some_problem(pattern), of, footprints)
    }

    /// Learns what the landmarks of a group's own records tell.
    fn survey(&mut self, group: &mut Group) {
        let defaults = self.named(&group.defaults);
        let families = &self.families;
        let name = |kernel: &Kernel| families[kernel.family].0.short_name(&kernel.configuration);
        let places: Vec<usize> = group.own.all().collect();
        let clock_mhz = self.device.max_sm_clock_mhz;
        group.roster = Roster::survey(&defaults, &mut self.known, &places, name, clock_mhz);
    }

    /// How far records are predicted from the others of a group, in per cent: what nine in ten are
    /// within.
    fn error(&self, group: &Group) -> Option<f64> {
        let places: Vec<usize> = group.own.all().collect();
        if places.len() < FEWEST_CHECKED {
            return None;
        }
        let step = places.len().div_ceil(MOST_CHECKED);
        let errors = places.iter().step_by(step).filter_map(|place| {
            let asked = &self.known[*place];
            let problem = &asked.problem;
            let question = Question::packed(*problem);
            let mut extents = Extents::new(problem, &question.storage);
            let others = group.own.nearest_first(&question).filter(|other| other != place);
            let near: Vec<usize> = others.take(CHECKED_AGAINST).collect();
            let candidates = group.roster.candidates(&asked.position, &self.known, &near);
            let answer = candidates.and_then(|all| {
                let timed = self.by_landmarks(group, problem, &all);
                self.least_expected(group, problem, &timed, &mut extents)
            });
            let time = match answer {
                Some(answer) => answer.predicted?.0,
                None => {
                    let known = near.iter().map(|other| &self.known[*other]);
                    known
                        .filter(|known| self.permits(&known.kernel, &mut extents))
                        .min_by(|a, b| a.cautious(problem).total_cmp(&b.cautious(problem)))?
                        .predict(problem)
                }
            };
            let measured = asked.record.median().0;
            Some(100.0 * (time / measured).ln().abs().exp_m1())
        });
        statistics::quantile(&errors.collect::<Vec<f64>>(), WITHIN)
    }
}

/// A problem of a pattern, where its extents do not matter.
pub(super) fn some_problem((dtype, compute, layout): Pattern) -> Problem {
    let shape = Shape { m: 1024, n: 1024, k: 1024 };
    Problem { shape, batch: 1, dtype, compute, layout }
}

/// The best record of each place, in an order that does not hang on that of the records.
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

/// Every dtype with its usual arithmetic, and every layout, and what else there may be.
fn patterns() -> impl Iterator<Item = Pattern> {
    Dtype::ALL.iter().flat_map(|dtype| {
        Compute::ALL.iter().flat_map(move |compute| {
            Layout::ALL.iter().map(move |layout| (*dtype, *compute, *layout))
        })
    })
}
