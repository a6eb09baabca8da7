//! What the problems of one run tell of each other: by how much kernels took longer than was expected of
//! them is alike for like kernels and like problems. Of 20 layers of a language model, tuned on an H200,
//! what the same kernel is off by correlates by 0.54 between two layers for as many tokens, and by 0.34
//! between any two; the kernel of which least is expected takes 3.9 % longer than the best without this,
//! 1.1 % with it, and the best of the first 24 takes 0.15 and 0.11 % longer.
//!
//! A Gaussian process over configurations and problems (Rasmussen and Williams 2006, chapter 2). Its
//! lengths were chosen on these layers; half and twice of them tell about as much.

use std::collections::{BTreeMap, HashSet};

use rayon::prelude::*;

use super::{LearnedModel, ProblemTimes};
use crate::model::{Configuration, Device, Micros, Problem, Storage, Value, statistics};
use crate::predict::CostModel;
use crate::predict::cholesky::{backward, decompose, dot, forward, row_start};
use crate::space::{Family, Work};

/// By how many parameters configurations differ whose correlation is 1/e, by how many factors of two the
/// extents of problems whose correlation is 1/√e, and what a transposed operand counts as.
const CHANGES: f64 = 4.0;
const OCTAVES: f64 = 3.0;
const TRANSPOSED: f64 = 2.0;

/// The variance of what one time tells of itself alone, over that of the process.
const NOISE: f64 = 0.6;

/// Kernels that took longer than their problem's best by more than this, as a logarithm, tell nothing of
/// the good ones; and what one is off by counts as so much at most.
const TELLING: f64 = 0.25;
const MOST_OFF: f64 = 0.3;

/// Times that are listened to, those of the nearest problems.
const LISTENED_TO: usize = 400;

/// The correlation of problems from which on one is another's kin.
const KIN: f64 = 0.5;

/// What was measured for problems of one run, on one device: of families that something was learned of their
/// kernels' times, of the others how far they are behind.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TransferModel {
    told: BTreeMap<String, Vec<Told>>,
    /// Where problems are, and how many times as long as the best of all each family's best took there.
    behind: Vec<(Place, BTreeMap<String, f64>)>,
}

/// One time.
#[derive(Debug, Clone, PartialEq)]
struct Told {
    place: Place,
    values: Values,
    /// The logarithm of the time over what was expected, less what is usual for the problem.
    off: f64,
}

/// Where a problem is among others.
type Place = [f64; 6];

/// A configuration's values in the order of its family's parameters, each by its place among them.
type Values = Vec<usize>;

impl TransferModel {
    /// Takes in what a problem's kernels took, in place of what was known of it before.
    pub fn learn(
        &mut self,
        measured: &ProblemTimes,
        experience: &LearnedModel,
        families: &[Family],
        device: &Device,
    ) {
        let ProblemTimes { problem, times } = measured;
        let storage = Storage::packed(problem);
        let own = place(problem);
        self.behind.retain(|(place, _)| *place != own);
        self.told.values_mut().for_each(|told| told.retain(|told| told.place != own));
        let best = times.iter().map(|(.., time)| time.0).fold(f64::INFINITY, f64::min);
        let mut behind: BTreeMap<String, f64> = BTreeMap::new();
        for (family, _, time) in times {
            let least = behind.entry(family.clone()).or_insert(f64::INFINITY);
            *least = least.min(time.0 / best);
        }
        if !behind.is_empty() {
            self.behind.push((own, behind));
        }
        for family in families {
            let predictor = experience.predictor(family, device);
            let Some(predictor) =
                predictor.filter(|predictor| predictor.family_model().serves(problem))
            else {
                continue;
            };
            let is_telling = |(name, _, time): &&(String, Configuration, Micros)| {
                *name == family.name && (time.0 / best).ln() <= TELLING
            };
            let off = |(_, configuration, time): &(String, Configuration, Micros)| {
                let work = Work::of(family, configuration, problem, device);
                let cost = CostModel::new(work, None, device);
                let expected = predictor.expects(configuration, &cost, (problem, &storage));
                let off = (time.0 / expected.0).ln().clamp(-MOST_OFF, MOST_OFF);
                (values(family, configuration), off)
            };
            let offs: Vec<(Values, f64)> = times.par_iter().filter(is_telling).map(off).collect();
            let all: Vec<f64> = offs.iter().map(|(_, off)| *off).collect();
            let usual = statistics::median(&all).unwrap_or(0.0);
            let told = self.told.entry(family.name.clone()).or_default();
            told.extend(offs.into_iter().map(|(values, off)| Told {
                place: own,
                values,
                off: off - usual,
            }));
        }
    }

    /// Whether a problem's kin told something.
    pub fn has_related(&self, problem: &Problem) -> bool {
        let here = place(problem);
        self.behind.iter().any(|(place, _)| are_kin(&here, place))
    }

    /// How many times as long as the best of all a family's best took for a problem's kin, where that was
    /// the least; nothing where it was not tried for any.
    pub fn behind(&self, family: &Family, problem: &Problem) -> Option<f64> {
        let here = place(problem);
        let near = self.behind.iter().filter(|(place, _)| are_kin(&here, place));
        let own = near.filter_map(|(_, behind)| behind.get(&family.name).copied());
        own.reduce(f64::min)
    }

    /// What they tell of a family for a problem; nothing where none of them is its kin.
    pub fn of(&self, family: &Family, problem: &Problem) -> Option<Correction<'_>> {
        let here = place(problem);
        let told = self.told.get(&family.name)?;
        let others = told.iter().filter(|told| told.place != here);
        let mut near: Vec<(f64, &Told)> =
            others.map(|told| (alike(&here, &told.place), told)).collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        near.truncate(LISTENED_TO);
        if near.first().is_none_or(|(correlation, _)| *correlation < KIN) {
            return None;
        }
        let count = near.len();
        let mut correlations = Vec::with_capacity(row_start(count));
        for (row, (_, one)) in near.iter().enumerate() {
            let others = near[..row].iter().map(|(_, other)| {
                alike(&one.place, &other.place) * similar(&one.values, &other.values)
            });
            correlations.extend(others);
            correlations.push(1.0 + NOISE);
        }
        decompose(&mut correlations, count)?;
        let mut weights: Vec<f64> = near.iter().map(|(_, told)| told.off).collect();
        forward(&correlations, &mut weights);
        backward(&correlations, &mut weights);
        for (weight, (correlation, _)) in weights.iter_mut().zip(&near) {
            *weight *= correlation;
        }
        let values = near.into_iter().map(|(_, told)| &told.values).collect();
        let [.., a, b] = here;
        let is_alike = |told: &&Told| matches!(told.place, [.., x, y] if (x, y) == (a, b));
        let tried = self.told[&family.name].iter().filter(is_alike).map(|told| &told.values);
        Some(Correction { values, weights, tried: tried.collect() })
    }
}

/// What kin tell of one family's kernels for one problem.
#[derive(Debug)]
pub struct Correction<'k> {
    values: Vec<&'k Values>,
    weights: Vec<f64>,
    tried: HashSet<&'k Values>,
}

impl Correction<'_> {
    /// How many times as long as expected a kernel takes.
    pub fn factor(&self, family: &Family, configuration: &Configuration) -> f64 {
        let own = values(family, configuration);
        let similar: Vec<f64> = self.values.iter().map(|other| similar(&own, other)).collect();
        dot(&similar, &self.weights).exp()
    }

    /// Whether a kernel was tried for a problem of the same layout, and was not far behind there: the
    /// source is the same, as a rule, so that nothing is left to compile.
    pub fn tried(&self, family: &Family, configuration: &Configuration) -> bool {
        self.tried.contains(&values(family, configuration))
    }
}

fn place(problem: &Problem) -> Place {
    let shape = problem.shape;
    let [m, n, k, batch] =
        [shape.m, shape.n, shape.k, problem.batch].map(|extent| (extent as f64).log2());
    let layout = problem.layout;
    let [a, b] = [layout.a_transposed(), layout.b_transposed()]
        .map(|is| TRANSPOSED * f64::from(u8::from(is)));
    [m, n, k, batch, a, b]
}

/// Whether one of two problems tells of the other; none is its own kin.
fn are_kin(one: &Place, other: &Place) -> bool {
    one != other && alike(one, other) >= KIN
}

/// The correlation of two problems.
fn alike(one: &Place, other: &Place) -> f64 {
    let squares: f64 = one.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum();
    (-0.5 * squares / (OCTAVES * OCTAVES)).exp()
}

fn values(family: &Family, configuration: &Configuration) -> Values {
    let place = |(name, all): (&String, &Vec<Value>)| {
        let value = configuration.get(name).or(all.first());
        value.and_then(|value| all.iter().position(|one| one == value)).unwrap_or(usize::MAX)
    };
    family.parameters.iter().map(place).collect()
}

/// The correlation of two configurations.
fn similar(one: &Values, other: &Values) -> f64 {
    let changes = one.iter().zip(other).filter(|(a, b)| a != b).count();
    (-(changes as f64) / CHANGES).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dtype;
    use crate::space::Families;

    fn problem(shape: &str) -> Problem {
        Problem::new(shape.parse().unwrap(), Dtype::F32)
    }

    /// Some configurations of `pipelined`, with what they are expected to take for a problem.
    fn expected(shape: &str) -> (Family, Vec<(Configuration, Micros)>) {
        let device = Device::h200();
        let family = Families::built_in().unwrap().get("pipelined").unwrap().clone();
        let experience = LearnedModel::built_in(&device).unwrap();
        let predictor = experience.predictor(&family, &device).unwrap();
        let problem = problem(shape);
        let storage = Storage::packed(&problem);
        let of = |configuration: Configuration| {
            let work = Work::of(&family, &configuration, &problem, &device);
            let cost = CostModel::new(work, None, &device);
            let time = predictor.expects(&configuration, &cost, (&problem, &storage));
            (configuration, time)
        };
        let all = predictor.family_model().kernels(&family).take(40).map(of).collect();
        (family, all)
    }

    #[test]
    fn what_a_kernel_is_off_by_is_believed_of_it_and_of_its_like_for_kin() {
        let (family, all) = expected("1024x2048x2048");
        let least = all.iter().map(|(_, time)| time.0).fold(f64::INFINITY, f64::min);
        let good: Vec<_> = all.into_iter().filter(|(_, time)| time.0 < 1.2 * least).collect();
        assert!(good.len() > 5, "{}", good.len());
        // The first is 10 % slower than expected, the others are as expected.
        let times = good.iter().enumerate().map(|(at, (configuration, time))| {
            let factor = if at == 0 { 1.1 } else { 1.0 };
            ("pipelined".to_owned(), configuration.clone(), Micros(time.0 * factor))
        });
        let measured = ProblemTimes { problem: problem("1024x2048x2048"), times: times.collect() };
        let (device, mut transfer) = (Device::h200(), TransferModel::default());
        let experience = LearnedModel::built_in(&device).unwrap();
        transfer.learn(&measured, &experience, std::slice::from_ref(&family), &device);
        let of = |shape: &str, at: usize| {
            let opinion = transfer.of(&family, &problem(shape))?;
            Some(opinion.factor(&family, &good[at].0))
        };
        let near = of("1024x4096x2048", 0).unwrap();
        assert!((1.02..1.1).contains(&near), "{near}");
        let other = of("1024x4096x2048", good.len() - 1).unwrap();
        assert!(other < near && (0.97..1.03).contains(&other), "{other}");
        let farther = of("512x8192x1024", 0).unwrap();
        assert!(farther < near, "{farther} {near}");
        assert_eq!(of("64x64x65536", 0), None, "it is no kin");
        assert_eq!(of("1024x2048x2048", 0), None, "nor is it its own");
        let opinion = transfer.of(&family, &problem("1024x4096x2048")).unwrap();
        assert!(opinion.tried(&family, &good[0].0));
        let (_, others) = expected("64x64x64");
        let is_other = |configuration: &Configuration| good.iter().all(|(c, _)| c != configuration);
        let other = others.iter().map(|(configuration, _)| configuration).find(|c| is_other(c));
        assert!(!opinion.tried(&family, other.unwrap()));
        let mut again = transfer.clone();
        again.learn(&measured, &experience, std::slice::from_ref(&family), &device);
        assert_eq!(again, transfer, "what is told again takes the place of what was");
        let behind = transfer.behind(&family, &problem("1024x4096x2048"));
        assert_eq!(behind, Some(1.0), "no other family was tried");
        assert_eq!(transfer.behind(&family, &problem("64x64x65536")), None);
    }

    #[test]
    fn nobody_knows_nothing() {
        let (family, _) = expected("64x64x64");
        assert!(TransferModel::default().of(&family, &problem("64x64x64")).is_none());
        let (device, mut transfer) = (Device::h200(), TransferModel::default());
        let nothing = ProblemTimes { problem: problem("64x64x64"), times: Vec::new() };
        transfer.learn(&nothing, &LearnedModel::default(), std::slice::from_ref(&family), &device);
        assert_eq!(transfer, TransferModel::default());
    }
}
