//! Records and families made ready for one device, and the ladder itself.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::answer::{Answer, NoAnswer, Question, Rung, Why};
use super::known::{Footprints, Kernel, Known};
use super::near::Near;
use super::roster::{Candidate, Roster, Who};
use crate::database::{Record, preference};
use crate::model::{
    Compute, Device, Dtype, Layout, Micros, Problem, Regime, Storage, floor, statistics,
};
use crate::render::Templates;
use crate::space::{Extents, Family};

/// Records that are looked at for one that is legal.
pub(super) const MOST_LOOKED_AT: usize = 64;

/// Records that are predicted from the others, to say how far predictions are off.
const MOST_CHECKED: usize = 128;

/// The records nearest to one that it is predicted from: about as many as an answer compares.
const CHECKED_AGAINST: usize = 12;

/// Records below which nothing is said about that.
const FEWEST_CHECKED: usize = 5;

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
    device: Device,
    regime: Regime,
    families: Vec<(Family, String)>,
    pub(super) known: Vec<Known>,
    exact: HashMap<Problem, usize>,
    groups: HashMap<Pattern, Group>,
    unusable: Vec<Unusable>,
    pinned: bool,
}

/// What problems have in common that share kernels.
type Pattern = (Dtype, Compute, Layout);

/// The kernels for problems of one pattern.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Records of this device.
    pub(super) own: Near,
    /// Records of other devices.
    pub(super) siblings: Near,
    defaults: Vec<Kernel>,
    /// All kernels of its own records, and what landmarks tell of them.
    roster: Roster,
    /// Families that have a record, and the number of records.
    winning: BTreeSet<usize>,
    records: usize,
    error_percent: Option<f64>,
}

/// A kernel that is legal, and the time it is expected to take.
struct Expected<'a> {
    known: &'a Known,
    time: f64,
    compared: usize,
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
        };
        let mut footprints = Footprints::new();
        for record in best_of_each_place(records) {
            match lookup.ready(record, &mut footprints) {
                Ok(Some(known)) => lookup.known.push(known),
                Ok(None) => {}
                Err(why) => lookup.unusable.push(Unusable { key: record.key(), why }),
            }
        }
        lookup.group(&mut footprints);
        lookup
    }

    /// Answers for the problems of its records alone, and only with their very kernels: the same
    /// question has the same answer for ever.
    #[must_use]
    pub fn pinned(self) -> Self {
        Self { pinned: true, ..self }
    }

    /// Records that no answer can come from, and why.
    pub fn unusable(&self) -> &[Unusable] {
        &self.unusable
    }

    /// The kernel to use.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub fn answer(&self, question: &Question) -> Result<Answer<'_>, NoAnswer> {
        let Question { problem, storage } = question;
        let mut extents = Extents::new(problem, storage);
        let exact = self.record(problem);
        let permitted = exact.filter(|known| self.permits(&known.kernel, &mut extents));
        if self.pinned {
            return self.pinned_answer(problem, exact, permitted);
        }
        if let Some(known) = permitted {
            return Ok(self.exactly(known));
        }
        let Some(group) = self.group_of(problem) else {
            return Err(self.nothing(problem));
        };
        let near = group.own.around(question);
        let candidates = group.roster.around(question, &self.known, &near);
        if let Some(answer) =
            candidates.and_then(|all| self.by_landmarks(group, problem, &all, &mut extents))
        {
            return Ok(answer);
        }
        let (own, mut tried) = self.nearest(&group.own, question, &mut extents);
        let mut rung = Rung::Neighbour;
        let best = own.or_else(|| {
            rung = Rung::Sibling;
            let (sibling, more) = self.nearest(&group.siblings, question, &mut extents);
            tried += more;
            sibling
        });
        let default = self.default(group, best.as_ref(), problem, &mut extents);
        match (best, default) {
            (Some(best), Some((kernel, Some(time)))) if time < best.time => Ok(Answer {
                rung: Rung::Default,
                why: Why::ExpectedFaster { best: Micros(best.time) },
                family: &self.families[kernel.family].0,
                configuration: &kernel.configuration,
                predicted: Some(self.possible(problem, time)),
                error_percent: group.error_percent,
                source: Some(&best.known.record),
                template_changed: false,
            }),
            (Some(best), default) => {
                let default = default.and_then(|(_, time)| time).map(Micros);
                let why = Why::BestOf { compared: best.compared, default };
                let predicted = Some(self.possible(problem, best.time));
                let error_percent = group.error_percent.filter(|_| rung == Rung::Neighbour);
                Ok(Answer { rung, why, predicted, error_percent, ..self.exactly(best.known) })
            }
            (None, Some((kernel, _))) => Ok(Answer {
                rung: Rung::Default,
                why: if tried == 0 { Why::NoRecords } else { Why::NoneLegal { tried } },
                family: &self.families[kernel.family].0,
                configuration: &kernel.configuration,
                predicted: None,
                error_percent: None,
                source: None,
                template_changed: false,
            }),
            (None, None) => Err(self.nothing(problem)),
        }
    }

    /// The record of a problem.
    pub(super) fn record(&self, problem: &Problem) -> Option<&Known> {
        self.exact.get(problem).map(|place| &self.known[*place])
    }

    /// What is known for problems like this one.
    pub(super) fn group_of(&self, problem: &Problem) -> Option<&Group> {
        self.groups.get(&(problem.dtype, problem.compute, problem.layout))
    }

    /// Whether a winner is legal for a problem.
    pub(super) fn serves(&self, known: &Known, problem: &Problem, extents: &mut Extents) -> bool {
        known.kernel.cost.fits(problem) && self.permits(&known.kernel, extents)
    }

    fn pinned_answer<'a>(
        &'a self,
        problem: &Problem,
        exact: Option<&Known>,
        permitted: Option<&'a Known>,
    ) -> Result<Answer<'a>, NoAnswer> {
        let text = problem.to_string();
        if exact.is_none() {
            let (device, pinned) = (self.device.name.clone(), self.exact.len());
            return Err(NoAnswer::NotPinned { problem: text, device, pinned });
        }
        let Some(known) = permitted else { return Err(NoAnswer::NotLegal { problem: text }) };
        let answer = self.exactly(known);
        if answer.template_changed {
            let family = answer.family.name.clone();
            return Err(NoAnswer::Changed { problem: text, family });
        }
        Ok(answer)
    }

    /// The answer that a record is for its own problem.
    fn exactly<'a>(&'a self, known: &'a Known) -> Answer<'a> {
        let (family, hash) = &self.families[known.kernel.family];
        let measurement = &known.record.measurement;
        let spread = (measurement.p95_us - measurement.p05_us) / 2.0 / measurement.median_us;
        Answer {
            rung: Rung::Exact,
            why: Why::Tuned,
            family,
            configuration: &known.kernel.configuration,
            predicted: Some(known.record.median()),
            error_percent: Some(100.0 * spread),
            source: Some(&known.record),
            template_changed: known.record.provenance.template_hash != *hash,
        }
    }

    fn nothing(&self, problem: &Problem) -> NoAnswer {
        NoAnswer::Nothing { problem: problem.to_string(), device: self.device.name.clone() }
    }

    fn permits(&self, kernel: &Kernel, extents: &mut Extents) -> bool {
        kernel.legality.permits(&self.families[kernel.family].0, extents)
    }

    /// Of the records near a question whose kernels are legal, the one of which the least is
    /// expected; where none is, the nearest that is. And how many were looked at.
    fn nearest(
        &self,
        near: &Near,
        question: &Question,
        extents: &mut Extents,
    ) -> (Option<Expected<'_>>, usize) {
        let problem = &question.problem;
        let mut legal = |place: usize| self.serves(&self.known[place], problem, extents);
        let around = near.around(question);
        let (mut looked_at, mut compared) = (around.len(), 0);
        let mut best: Option<(f64, usize)> = None;
        for place in around.iter().copied() {
            if legal(place) {
                compared += 1;
                let own = (self.known[place].cautious(problem), place);
                if best.is_none_or(|best| own < best) {
                    best = Some(own);
                }
            }
        }
        let best = best.map(|(_, place)| place).or_else(|| {
            let mut nearest = near.nearest_first(question).take(MOST_LOOKED_AT);
            nearest.find(|place| {
                looked_at += 1;
                compared = 1;
                legal(*place)
            })
        });
        let best = best.map(|place| {
            let known = &self.known[place];
            Expected { known, time: known.predict(problem), compared }
        });
        (best, looked_at)
    }

    /// The legal default of which the least is expected, with the time if there is anything to go by.
    fn default<'a>(
        &self,
        group: &'a Group,
        best: Option<&Expected<'_>>,
        problem: &Problem,
        extents: &mut Extents,
    ) -> Option<(&'a Kernel, Option<f64>)> {
        let expected = |kernel: &Kernel| match best {
            Some(best) => best.known.predict_default(kernel, problem),
            None => kernel.cost.clocks(problem),
        };
        // Defaults take part in every final: a family that has won none of several here is not
        // expected to, whatever a model says that sees grids alone.
        let told = best.is_some() && group.records >= FEWEST_CHECKED;
        let of_winners =
            group.defaults.iter().filter(|kernel| !told || group.winning.contains(&kernel.family));
        let mut left: Vec<(f64, &Kernel)> =
            of_winners.map(|kernel| (expected(kernel), kernel)).collect();
        let is_legal = |kernel: &Kernel| {
            kernel.cost.fits(problem) && self.permits(kernel, extents)
        };
        let (time, kernel) = first_legal(&mut left, is_legal)?;
        Some((kernel, best.map(|_| time)))
    }

    /// A record made ready; `None` for one that has no part in answers about this device.
    fn ready(&self, record: &Record, footprints: &mut Footprints) -> Result<Option<Known>, String> {
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
            record.configuration(),
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
    fn group(&mut self, footprints: &mut Footprints) {
        let mut places: BTreeMap<(Pattern, bool), Vec<(Question, usize)>> = BTreeMap::new();
        for (place, known) in self.known.iter().enumerate() {
            let problem = &known.problem;
            let pattern = (problem.dtype, problem.compute, problem.layout);
            let is_own = known.record.is_of(&self.device);
            let own = (Question::packed(*problem), place);
            places.entry((pattern, is_own)).or_default().push(own);
            if is_own {
                self.exact.insert(*problem, place);
            }
        }
        for pattern in patterns() {
            let mut group =
                Group { defaults: self.defaults(pattern, footprints), ..Group::default() };
            for (is_own, near) in [(true, &mut group.own), (false, &mut group.siblings)] {
                let found = places.remove(&(pattern, is_own)).unwrap_or_default();
                group.records += found.len();
                group.winning.extend(found.iter().map(|(_, at)| self.known[*at].kernel.family));
                *near = Near::new(found);
            }
            self.survey(&mut group);
            group.error_percent = self.error(&group);
            self.groups.insert(pattern, group);
        }
    }

    /// Every default that is legal for some problem of a pattern.
    fn defaults(&self, pattern: Pattern, footprints: &mut Footprints) -> Vec<Kernel> {
        let (dtype, compute, layout) = pattern;
        let shape = crate::model::Shape { m: 1024, n: 1024, k: 1024 };
        let problem = Problem { shape, batch: 1, dtype, compute, layout };
        let mut kernels = Vec::new();
        for (place, (family, _)) in self.families.iter().enumerate() {
            for configuration in family.defaults() {
                kernels.extend(Kernel::new(
                    (place, family),
                    configuration.clone(),
                    &problem,
                    (None, &self.device),
                    footprints,
                ));
            }
        }
        kernels
    }

    /// Learns what the landmarks of a group's own records tell.
    fn survey(&mut self, group: &mut Group) {
        let name = |kernel: &Kernel| {
            kernel.configuration.short_name(&self.families[kernel.family].0.name)
        };
        let names = group.defaults.iter().map(name);
        let defaults: Vec<(String, &Kernel)> = names.zip(&group.defaults).collect();
        let places: Vec<usize> = group.own.all().collect();
        let clock_mhz = self.device.max_sm_clock_mhz;
        group.roster = Roster::survey(&defaults, &mut self.known, &places, clock_mhz);
    }

    /// Of the legal candidates, the winner or default of which the least is expected.
    fn by_landmarks<'a>(
        &'a self,
        group: &'a Group,
        problem: &Problem,
        candidates: &[Candidate],
        extents: &mut Extents,
    ) -> Option<Answer<'a>> {
        let kernel = |candidate: &Candidate| match candidate.who {
            Who::Default(at) => &group.defaults[at],
            Who::Winner(place) => &self.known[place].kernel,
        };
        // A default of a family that has won none of several times is not expected to now.
        let told = group.records >= FEWEST_CHECKED;
        let is_serious = |candidate: &&Candidate| {
            !told || group.winning.contains(&kernel(candidate).family)
        };
        let mut least = |won: bool| {
            let of_kind = candidates.iter().filter(|candidate| candidate.source.is_some() == won);
            let mut left: Vec<(f64, &Candidate)> = of_kind
                .filter(is_serious)
                .map(|candidate| {
                    let modelled = kernel(candidate).modelled(problem, self.device.max_sm_clock_mhz);
                    (modelled * candidate.factor, candidate)
                })
                .collect();
            let compared = left.len();
            first_legal(&mut left, |candidate| {
                kernel(candidate).cost.fits(problem) && self.permits(kernel(candidate), extents)
            })
            .map(|(time, candidate)| (time, candidate, compared))
        };
        let (winner, default) = (least(true), least(false));
        let default_time = default.as_ref().map_or(f64::INFINITY, |(time, ..)| *time);
        let source = |candidate: &Candidate| candidate.source.map(|place| &self.known[place]);
        match winner {
            Some((time, candidate, compared)) if time <= default_time => Some(Answer {
                rung: Rung::Neighbour,
                why: Why::BestOf { compared, default: default.map(|(time, ..)| Micros(time)) },
                predicted: Some(self.possible(problem, time)),
                error_percent: group.error_percent,
                ..self.exactly(source(candidate)?)
            }),
            winner => {
                let (time, candidate, _) = default?;
                let kernel = kernel(candidate);
                Some(Answer {
                    rung: Rung::Default,
                    why: match winner {
                        Some((time, ..)) => Why::ExpectedFaster { best: Micros(time) },
                        None => Why::NoneLegal { tried: candidates.len() },
                    },
                    family: &self.families[kernel.family].0,
                    configuration: &kernel.configuration,
                    predicted: Some(self.possible(problem, time)),
                    error_percent: group.error_percent,
                    source: winner
                        .and_then(|(_, candidate, _)| source(candidate))
                        .map(|known| &known.record),
                    template_changed: false,
                })
            }
        }
    }

    /// A predicted time, but none that the device cannot reach: a model of what was measured on one
    /// problem knows no limit on another.
    fn possible(&self, problem: &Problem, time: f64) -> Micros {
        Micros(time.max(floor(problem, &self.device).0))
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
            let answer = candidates
                .and_then(|all| self.by_landmarks(group, problem, &all, &mut extents));
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

/// The first that is legal, from the least up. One of the first two nearly always is: that is found
/// sooner than all are sorted.
fn first_legal<'k, K>(
    left: &mut Vec<(f64, &'k K)>,
    mut is_legal: impl FnMut(&K) -> bool,
) -> Option<(f64, &'k K)> {
    while let Some(at) = (0..left.len()).min_by(|a, b| left[*a].0.total_cmp(&left[*b].0)) {
        let least = left.remove(at);
        if is_legal(least.1) {
            return Some(least);
        }
    }
    None
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
