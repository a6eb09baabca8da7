//! What is expected of a family's configurations before any was evaluated: which are likely to be
//! fast, and how fast the best can be, by [`CostModel`]. It is a bound from below, for only what the
//! grid shows of a kernel is counted, so that families are compared by it only roughly: of one
//! that is several times slower even so, there is nothing to hope for.

use std::collections::{BTreeMap, HashSet};

use fastrand::Rng;
use rayon::prelude::*;

use super::analytic::CostModel;
use crate::model::{Configuration, Device, Micros, Problem, Storage};
use crate::predict::{Correction, Predictor, ProblemFeatures, TransferModel};
use crate::space::{Family, LegalSpace, Work};

/// Configurations that are looked at, at random where there are more; and where it is known what other
/// problems took, which tells more of each. The best of 4096x128x4096 is expected to be among the best
/// thousandth of 186,475: of 60,000 looked at, 4 of 7 searches on an H200 ended 2.3 to 2.8 % behind it, of all
/// of them none of 4.
const LOOKED_AT: usize = 20_000;
const LOOKED_AT_BY_EXPERT: usize = 250_000;

/// The share of these that is likely to be fast, and how many at least: first questions are spread
/// over them, and differ in what the forecast does not see. On an H200 the best of 1000x1000x1000
/// begin at its 17th percentile; with a tenth 9 of 32 searches of a model of its 24,268
/// configurations missed them, with three tenths none. All of them cost 0.005 after 50 evaluations.
const LIKELY: f64 = 0.3;
const FEWEST: usize = 256;

/// What a launch takes that does nothing: an H200's smallest product takes 4.5 µs.
const LAUNCH: Micros = Micros(2.0);

/// Configurations that problems of the same run are asked about: so many of which least is expected.
const ASKED_KIN: usize = 4000;

/// What is expected of a family before anything was evaluated. Times are optimistic.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// The time of its best.
    pub best: Micros,
    /// The time of its default.
    pub default: Option<Micros>,
    /// Ranks of configurations that are likely to be fast, the likeliest first; at least one.
    pub likely: Vec<usize>,
    /// What each configuration is expected to take, by rank, where other problems tell it; infinity
    /// of those that nobody looked at.
    pub expected: Option<Vec<Micros>>,
    /// Where problems of the same run told what these times are off by: the ranks of kernels that they
    /// tried, which are compiled.
    pub tried: Option<HashSet<usize>>,
}

/// Defaults and winners of other problems that are expected to take this many times as long as the
/// least are left to the models, where times are expected: forecasts of an H200's kernels are nine times in
/// ten within 1.15 of what they take.
pub(crate) const NOT_SERIOUS: f64 = 1.25;

/// The same where problems of the same run told what the forecasts are off by: of 19 layers of a language
/// model the best was always among those of which at most 1.05 times the least was expected.
const NOT_SERIOUS_AMONG_KIN: f64 = 1.05;

/// How many times as long one may take that is compiled and be asked for in place of one that is not, among
/// problems of one run. Compiling takes 0.7 s of a core, trying what is compiled 12 ms of the device. 20 layers of
/// a language model, tuned together on an H200 with 16 cores, compiled 380 and 400 kernels with 1, 310 to 370 with
/// 1.01 to 1.03 and 280 with 1.04, and what was found was 0.6, 0.6 and 0.8 % behind the best that is known; with
/// 1.05 it was once 3.2 % at worst.
const UNCOMPILED: f64 = 1.04;

impl Forecast {
    /// Whether problems of the same run told what its times are off by.
    pub(crate) fn is_among_kin(&self) -> bool {
        self.tried.is_some()
    }

    /// By what an expected time is multiplied when it is weighed whether to ask for a kernel among kin.
    pub fn price(is_new: bool) -> f64 {
        if is_new { UNCOMPILED } else { 1.0 }
    }

    /// The price of a configuration.
    pub(crate) fn price_of(&self, rank: usize) -> f64 {
        Self::price(self.tried.as_ref().is_some_and(|tried| !tried.contains(&rank)))
    }

    /// What a configuration is expected to take, where that is known.
    pub(crate) fn expects(&self, rank: usize) -> Option<Micros> {
        let expected = self.expected.as_ref()?;
        expected.get(rank).copied().filter(|time| time.0.is_finite())
    }

    /// Takes in that none of its family takes less than this, by what problems of the same run tell.
    pub fn raise_to(&mut self, least: Micros) {
        for time in [Some(&mut self.best), self.default.as_mut()].into_iter().flatten() {
            time.0 = time.0.max(least.0);
        }
    }

    /// How many times as long as the least may be expected of what is worth a first question.
    pub(crate) fn not_serious(&self) -> f64 {
        if self.is_among_kin() { NOT_SERIOUS_AMONG_KIN } else { NOT_SERIOUS }
    }
}

/// The forecast of a family whose legal configurations these are: of each configuration by the
/// `predictor`, where there is one, and by what `kin` tell.
pub(crate) fn forecast(
    family: &Family,
    space: &LegalSpace,
    default: Option<&Configuration>,
    (problem, device): (&Problem, &Device),
    (predictor, transfer): (Option<&Predictor<'_>>, &TransferModel),
) -> Option<Forecast> {
    let opinion = predictor.and_then(|_| transfer.of(family, problem));
    let cost = |configuration: &Configuration| {
        CostModel::new(Work::of(family, configuration, problem, device), None, device)
    };
    let time = |cost: &CostModel| {
        let clocks = cost.clocks(problem);
        let moving = device.memory_bandwidth().map_or(0.0, |rate| problem.bytes() as f64 / rate);
        let computing = clocks / f64::from(device.max_sm_clock_mhz.max(1));
        LAUNCH.0 + computing.max(moving * 1e6)
    };
    let most = if predictor.is_some() { LOOKED_AT_BY_EXPERT } else { LOOKED_AT };
    let mut groups: Vec<(f64, CostModel, Vec<usize>)> = alike(family, space, most)
        .into_par_iter()
        .filter_map(|ranks| {
            let cost = cost(&space.get(*ranks.first()?)?);
            Some((time(&cost), cost, ranks))
        })
        .collect();
    groups.sort_by(|a, b| a.0.total_cmp(&b.0));
    let best = Micros(groups.first()?.0);
    let default = default.map(|default| Micros(time(&cost(default))));
    let all: usize = groups.iter().map(|(.., ranks)| ranks.len()).sum();
    let wanted = ((LIKELY * all as f64) as usize).max(FEWEST);
    let mut tried = None;
    let (mut likely, expected) = match predictor {
        Some(predictor) => {
            let costs = groups.iter().map(|(_, cost, ranks)| (cost, ranks.as_slice()));
            let (mut ranked, mut expected) = by_expert(predictor, space, problem, costs.collect());
            if let Some(opinion) = &opinion {
                tried = Some(correct(opinion, (family, space), &mut ranked, &mut expected));
            }
            (ranked, Some(expected))
        }
        None => (groups.into_iter().flat_map(|(.., ranks)| ranks).collect(), None),
    };
    likely.truncate(wanted);
    Some(Forecast { best, default, likely, expected, tried })
}

/// What an predictor expects of configurations that are given by their costs: their ranks, the least
/// expected first, and the times by rank.
fn by_expert(
    predictor: &Predictor<'_>,
    space: &LegalSpace,
    problem: &Problem,
    groups: Vec<(&CostModel, &[usize])>,
) -> (Vec<usize>, Vec<Micros>) {
    let asked = ProblemFeatures::of(problem, &Storage::packed(problem));
    let of_space = predictor.of_space(space.parameters());
    let of_group = |(cost, ranks): (&CostModel, &[usize])| -> Vec<(f64, usize)> {
        let alike = of_space.alike(cost, &asked);
        let expects = |rank: &usize| Some((alike.expects(&space.indices(*rank)?).0, *rank));
        ranks.iter().filter_map(expects).collect()
    };
    let found: Vec<Vec<(f64, usize)>> = groups.into_par_iter().map(of_group).collect();
    let mut ranked = found.concat();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut expected = vec![Micros(f64::INFINITY); space.len()];
    for (time, rank) in &ranked {
        expected[*rank] = Micros(*time);
    }
    (ranked.into_iter().map(|(_, rank)| rank).collect(), expected)
}

/// Corrects expectations by what kin tell, and puts those that they were asked about into the order in which
/// they are worth trying; gives the ranks of those that kin tried.
fn correct(
    opinion: &Correction<'_>,
    (family, space): (&Family, &LegalSpace),
    ranked: &mut [usize],
    expected: &mut [Micros],
) -> HashSet<usize> {
    let asked = ranked.len().min(ASKED_KIN);
    let first = &mut ranked[..asked];
    let told = |rank: &usize| {
        let configuration = space.get(*rank)?;
        let factor = opinion.factor(family, &configuration);
        Some((factor, opinion.tried(family, &configuration)))
    };
    let told: Vec<Option<(f64, bool)>> = first.par_iter().map(told).collect();
    let mut tried = HashSet::new();
    for (rank, told) in first.iter().zip(told) {
        let Some((factor, is_tried)) = told else { continue };
        expected[*rank].0 *= factor;
        if is_tried {
            tried.insert(*rank);
        }
    }
    let worth = |rank: &usize| expected[*rank].0 * Forecast::price(!tried.contains(rank));
    first.sort_by(|a, b| worth(a).total_cmp(&worth(b)).then(a.cmp(b)));
    tried
}

/// The ranks of `most` configurations, those together whose launches are of the same extents.
fn alike(family: &Family, space: &LegalSpace, most: usize) -> Vec<Vec<usize>> {
    // By name: a recorded space may have them in another order.
    let names: Vec<&String> = family.parameters.keys().collect();
    let named = family.extent_parameters().into_iter().map(|at| names[at]);
    let deciding: Vec<usize> = named
        .filter_map(|name| space.parameters().iter().position(|(known, _)| known == name))
        .collect();
    let mut ranks: Vec<usize> = if space.len() <= most {
        (0..space.len()).collect()
    } else {
        let mut rng = Rng::with_seed(0);
        (0..most).map(|_| rng.usize(..space.len())).collect()
    };
    ranks.sort_unstable();
    ranks.dedup();
    let mut groups: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
    for rank in ranks {
        let Some(indices) = space.indices(rank) else { continue };
        let key = deciding.iter().map(|parameter| indices[*parameter]).collect();
        groups.entry(key).or_default().push(rank);
    }
    groups.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dtype;
    use crate::space::Families;

    /// The forecasts of the families that come with the program, by name.
    fn forecasts(shape: &str) -> BTreeMap<String, (Forecast, LegalSpace)> {
        let (families, device) = (Families::built_in().unwrap(), Device::h200());
        let problem = Problem::new(shape.parse().unwrap(), Dtype::F32);
        let transfer = TransferModel::default();
        let serving = families.iter().filter(|family| family.refusal(&problem, &device).is_none());
        let spaces = serving.filter_map(|family| {
            let space = LegalSpace::of(family, &problem, &device).unwrap();
            let default = family.default_for(&problem, &device).unwrap();
            let forecast =
                forecast(family, &space, default.as_ref(), (&problem, &device), (None, &transfer))?;
            Some((family.name.clone(), (forecast, space)))
        });
        spaces.collect()
    }

    #[test]
    fn on_large_squares_a_sum_a_thread_is_hopeless_and_large_tiles_are_likely() {
        let forecasts = forecasts("4096x4096x4096");
        let best = |family: &str| forecasts[family].0.best.0;
        assert!(best("naive") > 5.0 * best("pipelined"), "{}", best("naive"));
        assert!(best("tiled") > 5.0 * best("pipelined"), "{}", best("tiled"));
        assert!(best("blocktile") < 1.5 * best("pipelined"), "{}", best("blocktile"));
        // The best that was measured there has company of its kind among the likely ones.
        let (forecast, space) = &forecasts["pipelined"];
        let measured = [("BM", "128"), ("BN", "256"), ("TM", "16"), ("TN", "8")];
        let is_alike = |rank: &&usize| {
            let configuration = space.get(**rank).unwrap();
            measured.iter().all(|(name, value)| {
                configuration.get(name).is_some_and(|known| known.to_string() == *value)
            })
        };
        let alike = forecast.likely.iter().filter(is_alike).count();
        assert!(alike >= 20, "{alike} of {}", forecast.likely.len());
        assert!(forecast.likely.len() < space.len() / 2);
    }

    #[test]
    fn on_small_problems_nothing_is_hopeless() {
        let forecasts = forecasts("40x48x32");
        let bests = || forecasts.values().map(|(forecast, _)| forecast.best.0);
        let (least, most) = (bests().fold(f64::INFINITY, f64::min), bests().fold(0.0, f64::max));
        assert!(most < 3.0 * least, "{least} to {most}");
        for (forecast, space) in forecasts.values() {
            assert!(!forecast.likely.is_empty());
            assert!(forecast.likely.iter().all(|rank| *rank < space.len()));
            assert!(forecast.default.is_some_and(|default| default.0 >= forecast.best.0));
        }
    }
}
