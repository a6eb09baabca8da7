//! Forecasts of a family's legal configurations before any is evaluated: which are likely to be fast, and how fast
//! the best can be. By the analytic model alone they are lower bounds, by which families compare only roughly.

use std::collections::{BTreeMap, HashSet};

use fastrand::Rng;
use rayon::prelude::*;

use super::analytic::CostModel;
use super::device_limits::least_time;
use super::family_predictor::FamilyPredictor;
use super::features::ProblemFeatures;
use super::transfer::Correction;
use crate::model::{CachePolicy, Configuration, Device, Micros, Problem, Storage};
use crate::space::{Family, LegalSpace};
use crate::trees::Precision;

/// Most configurations in a forecast, at random where there are more: by the model of tiles and waves, and by models
/// that predict times, which rank them better. With 60,000 of 186,475 for 4096x128x4096, 4 of 7 searches ended 2.3 to 2.8 % slower.
const MOST_ANALYTIC: usize = 20_000;
const MOST_PREDICTED: usize = 250_000;

/// Configurations of a forecast that are predicted by all trees of a learned model.
const FULLY_PREDICTED: usize = 10_000;

/// Share of a forecast that is likely to be fast, and the fewest. With a tenth instead of three, 9 of 32 searches
/// for 1000x1000x1000 missed the best.
const LIKELY: f64 = 0.3;
const FEWEST: usize = 256;

/// Configurations that are corrected by related problems: those with the lowest predicted times.
const MOST_CORRECTED: usize = 4000;

/// Forecast of a family for one problem. Times are optimistic.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// The time of its best.
    pub best: Micros,
    /// The time of its default.
    pub default: Option<Micros>,
    /// Ranks of configurations that are likely to be fast, the likeliest first; at least one.
    pub likely: Vec<usize>,
    /// Predicted times by rank, where a model predicts times and not only ratios; infinity outside the forecast.
    pub times: Option<Vec<Micros>>,
    /// Whether a learned model predicted them.
    pub is_learned: bool,
    /// Ranks of kernels that were compiled for related problems, where these corrected the times.
    pub compiled: Option<HashSet<usize>>,
}

/// Predicted time over the least from which defaults and winners of other problems are not evaluated first; nine in
/// ten predictions are within 1.15 of the measured time.
pub(crate) const SERIOUS: f64 = 1.25;

/// The same for corrected times: of 19 layers of a language model, the best was always within 1.05.
const SERIOUS_CORRECTED: f64 = 1.05;

/// Factor on the predicted time of a kernel that has to be compiled, where related problems compiled others. With 1
/// and with 1.04, 20 layers compile 380 to 400 and 280 kernels (docs/decisions/2026-11-23-compile-factor.md).
const UNCOMPILED: f64 = 1.04;

impl Forecast {
    /// Whether related problems corrected the times.
    pub(crate) fn is_corrected(&self) -> bool {
        self.compiled.is_some()
    }

    /// Factor on the predicted time of a configuration that has to be compiled.
    pub(crate) fn compile_factor(&self, rank: usize) -> f64 {
        compile_factor(self.compiled.as_ref().is_none_or(|compiled| compiled.contains(&rank)))
    }

    /// Predicted time of a configuration, where there is one.
    pub(crate) fn time(&self, rank: usize) -> Option<Micros> {
        let times = self.times.as_ref()?;
        times.get(rank).copied().filter(|time| time.0.is_finite())
    }

    /// Raises the optimistic times to at least this.
    pub(super) fn raise_to(&mut self, least: Micros) {
        for time in [Some(&mut self.best), self.default.as_mut()].into_iter().flatten() {
            time.0 = time.0.max(least.0);
        }
    }

    /// Predicted time over the least up to which a configuration is worth one of the first evaluations.
    pub(crate) fn serious(&self) -> f64 {
        if self.is_corrected() { SERIOUS_CORRECTED } else { SERIOUS }
    }
}

fn compile_factor(is_compiled: bool) -> f64 {
    if is_compiled { 1.0 } else { UNCOMPILED }
}

/// Forecasts a family's legal space: by its learned model where there is a `predictor`, with the correction from
/// related problems.
pub(super) fn forecast(
    (family, space): (&Family, &LegalSpace),
    default: Option<&Configuration>,
    (problem, device): (&Problem, &Device),
    (predictor, correction): (Option<&FamilyPredictor<'_>>, Option<&Correction<'_>>),
) -> Option<Forecast> {
    let cost =
        |configuration: &Configuration| super::cost((family, configuration), problem, device);
    let least = least_time(problem, device, CachePolicy::Rotate);
    let time = |cost: &CostModel| cost.time(problem, device.max_sm_clock_mhz).0.max(least.0);
    let is_predicted = predictor.is_some() || family.feeds_tensor_cores();
    let most = if is_predicted { MOST_PREDICTED } else { MOST_ANALYTIC };
    let mut groups: Vec<(f64, CostModel, Vec<usize>)> = by_launch(family, space, most)
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
    let mut compiled = None;
    let (mut likely, times) = match predictor {
        Some(predictor) => {
            let costs = groups.iter().map(|(_, cost, ranks)| (cost, ranks.clone()));
            let (mut ranked, mut times) = learned_times(predictor, space, problem, costs.collect());
            if let Some(correction) = correction {
                compiled = Some(correct(correction, (family, space), &mut ranked, &mut times));
            }
            // Ranked as they were predicted, but none below what is possible.
            times.iter_mut().for_each(|time| time.0 = time.0.max(least.0));
            (ranked, Some(times))
        }
        None => {
            let mut times = is_predicted.then(|| vec![Micros(f64::INFINITY); space.len()]);
            for (time, _, ranks) in &groups {
                let Some(times) = &mut times else { break };
                ranks.iter().for_each(|rank| times[*rank] = Micros(*time));
            }
            (groups.into_iter().flat_map(|(.., ranks)| ranks).collect(), times)
        }
    };
    likely.truncate(wanted);
    Some(Forecast { best, default, likely, times, is_learned: predictor.is_some(), compiled })
}

/// Predicts configurations that are grouped by their costs: their ranks, the fastest first, and the times by rank. Of
/// many, those with the lowest coarse predictions are predicted fully.
fn learned_times(
    predictor: &FamilyPredictor<'_>,
    space: &LegalSpace,
    problem: &Problem,
    groups: Vec<(&CostModel, Vec<usize>)>,
) -> (Vec<usize>, Vec<Micros>) {
    let features = ProblemFeatures::of(problem, &Storage::packed(problem));
    let columns = predictor.columns(space.parameters());
    let predict = |groups: &[(&CostModel, Vec<usize>)], precision: Precision| {
        let of_group = |(cost, ranks): &(&CostModel, Vec<usize>)| -> Vec<(f64, usize)> {
            let configurations = ranks.iter().filter_map(|rank| space.indices(*rank));
            let kernels = (&columns, *cost);
            let times = predictor.times_of(kernels, &features, configurations, precision);
            times.into_iter().map(|time| time.0).zip(ranks.iter().copied()).collect()
        };
        let found: Vec<Vec<(f64, usize)>> = groups.par_iter().map(of_group).collect();
        let mut ranked = found.concat();
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        ranked
    };
    let all: usize = groups.iter().map(|(_, ranks)| ranks.len()).sum();
    let ranked = if all <= FULLY_PREDICTED {
        predict(&groups, Precision::Full)
    } else {
        let mut coarse = predict(&groups, Precision::Coarse);
        let slower = coarse.split_off(FULLY_PREDICTED);
        let chosen: HashSet<usize> = coarse.into_iter().map(|(_, rank)| rank).collect();
        let mut groups = groups;
        groups.iter_mut().for_each(|(_, ranks)| ranks.retain(|rank| chosen.contains(rank)));
        let mut ranked = predict(&groups, Precision::Full);
        ranked.extend(slower);
        ranked
    };
    let mut times = vec![Micros(f64::INFINITY); space.len()];
    for (time, rank) in &ranked {
        times[*rank] = Micros(*time);
    }
    (ranked.into_iter().map(|(_, rank)| rank).collect(), times)
}

/// Corrects the lowest predicted times and ranks these configurations anew, with the factor for compiling. Returns
/// the ranks of those that are compiled.
fn correct(
    correction: &Correction<'_>,
    (family, space): (&Family, &LegalSpace),
    ranked: &mut [usize],
    times: &mut [Micros],
) -> HashSet<usize> {
    let corrected = ranked.len().min(MOST_CORRECTED);
    let first = &mut ranked[..corrected];
    let corrections = first.par_iter().map(|rank| {
        let configuration = space.get(*rank)?;
        let is_compiled = correction.is_compiled(family, &configuration);
        Some((correction.factor(family, &configuration), is_compiled))
    });
    let corrections: Vec<Option<(f64, bool)>> = corrections.collect();
    let mut compiled = HashSet::new();
    for (rank, correction) in first.iter().zip(corrections) {
        let Some((factor, is_compiled)) = correction else { continue };
        times[*rank].0 *= factor;
        compiled.extend(is_compiled.then_some(*rank));
    }
    let worth = |rank: &usize| times[*rank].0 * compile_factor(compiled.contains(rank));
    first.sort_by(|a, b| worth(a).total_cmp(&worth(b)).then(a.cmp(b)));
    compiled
}

/// Ranks of at most `most` configurations, grouped by equal launches.
fn by_launch(family: &Family, space: &LegalSpace, most: usize) -> Vec<Vec<usize>> {
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
    use crate::predict::Predictor;
    use crate::space::Families;

    /// The forecasts of the families that come with the program, by name.
    fn forecasts(shape: &str) -> BTreeMap<String, (Forecast, LegalSpace)> {
        let (families, device) = (Families::built_in().unwrap(), Device::h200());
        let problem = Problem::new(shape.parse().unwrap(), Dtype::F32);
        let predictor = Predictor::default();
        let serving = families.iter().filter(|family| family.refusal(&problem, &device).is_none());
        let spaces = serving.filter_map(|family| {
            let space = LegalSpace::of(family, &problem, &device).unwrap();
            let default = family.default_for(&problem, &device).unwrap();
            let spaces = [(family, &space, default.as_ref())];
            let forecast = predictor.forecasts(&spaces, &problem, &device).pop()??;
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
        // The best that was measured there is similar to some of the likely ones.
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
