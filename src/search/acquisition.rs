//! Configurations that models look at to choose a batch, what the models say of them, and the rules
//! by which some are picked.

use fastrand::Rng;
use rayon::prelude::*;

use super::encoding::EncodedPoint;
use super::forest::{self, Forest, ForestVote};
use super::gaussian::{Gaussian, Prediction};
use super::strategy::Pick;
use super::surrogate::Surrogate;

/// The rules, and how often each has its turn. On recorded spaces no single one is best on all:
/// the process finds the optimum of one in 200 evaluations in 99.9 % and of the other in 99.0 %,
/// the forest sooner on the latter.
const RULES: [(AcquisitionRule, f64); 3] = [
    (AcquisitionRule::ProcessImprovement, 0.5),
    (AcquisitionRule::ForestImprovement, 0.25),
    (AcquisitionRule::OneTree, 0.25),
];

/// Acquisition that one thread looks up or scores, in the time that it takes to have another one help.
pub(super) const AT_ONCE: usize = 200;

/// How a pick is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AcquisitionRule {
    /// The most improvement that the process expects.
    ProcessImprovement,
    /// The most improvement that the forest expects.
    ForestImprovement,
    /// The shortest time that one tree expects: Thompson sampling.
    OneTree,
}

/// What is known of the times so far: logarithms.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeLevels {
    pub(super) fastest: f64,
    /// What takes longer, a process knows only as slow.
    pub(super) slow: f64,
    pub(super) slowest: f64,
}

/// A configuration that the models look at.
pub(super) struct LookedAt {
    pub(super) pick: Pick,
    pub(super) point: EncodedPoint,
    /// The logarithm of what was expected before; the models say what that is off by.
    pub(super) expected: f64,
    /// The logarithm of what it costs to ask for it beyond its time.
    pub(super) price: f64,
}

/// See the module.
pub(super) struct Acquisition {
    fastest: f64,
    scored: Vec<ScoredPick>,
    surveys: Vec<Survey>,
    /// Where the turn of the rules is, from 0 to 1.
    turn: f64,
}

/// A configuration.
struct ScoredPick {
    pick: Pick,
    survey: usize,
    /// Its place in the survey.
    at: usize,
    expected: f64,
    price: f64,
    vote: ForestVote,
    is_taken: bool,
}

/// Those of one family, and the process that looks at them.
struct Survey {
    points: Vec<EncodedPoint>,
    process: Option<(Gaussian, Prediction)>,
}

impl Acquisition {
    /// None yet.
    pub(super) fn new(times: TimeLevels, turn: f64) -> Self {
        Self { fastest: times.fastest, scored: Vec::new(), surveys: Vec::new(), turn }
    }

    /// Has a family's models look at some of its configurations.
    pub(super) fn survey(
        &mut self,
        surrogate: &mut Surrogate,
        looked_at: Vec<LookedAt>,
        times: TimeLevels,
        rng: &mut Rng,
    ) {
        let survey = self.surveys.len();
        let own = |LookedAt { pick, point, expected, price }| (point, (pick, expected, price));
        let (points, looked_at): (Vec<EncodedPoint>, Vec<_>) =
            looked_at.into_iter().map(own).unzip();
        let grow = surrogate.forest(times.slowest, rng);
        // Few threads can help to fit a process: others make the forest meanwhile.
        let by_forest = || {
            let forest = grow();
            let both = looked_at.par_iter().zip(&points).enumerate();
            let scored = both.map(|(at, (&(pick, expected, price), point))| {
                let vote = forest.vote(&forest::values(&surrogate.encoding, point));
                ScoredPick { pick, survey, at, expected, price, vote, is_taken: false }
            });
            scored.collect::<Vec<_>>()
        };
        let by_process = || {
            let process = surrogate.process(times.slow, rng)?;
            let prediction = process.predict(&points);
            Some((process, prediction))
        };
        let (scored, process) = rayon::join(by_forest, by_process);
        if let Some((process, _)) = &process {
            surrogate.keep_fit(process);
        }
        self.scored.extend(scored);
        self.surveys.push(Survey { points, process });
    }

    /// The next pick, by the rule whose turn it is; any where `at_random`.
    pub(super) fn pick(&mut self, at_random: bool, rng: &mut Rng) -> Option<Pick> {
        let chosen = if at_random {
            let all = self.scored.iter().enumerate();
            let free = all.filter_map(|(at, one)| (!one.is_taken).then_some(at));
            *rng.choice(&free.collect::<Vec<_>>())?
        } else {
            // Multiples of the golden ratio take turns evenly, whatever the weights.
            self.turn = (self.turn + 0.618_033_988_749_895) % 1.0;
            let (rule, tree) = (rule(self.turn), Forest::tree(rng.usize(..1 << 16)));
            let all = self.scored.par_iter().with_min_len(AT_ONCE).enumerate();
            let free = all.filter(|(_, one)| !one.is_taken);
            let scored = free.map(|(at, one)| (self.score(one, rule, tree), at));
            scored.max_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))).map(|(_, at)| at)?
        };
        let one = &mut self.scored[chosen];
        one.is_taken = true;
        let Survey { points, process } = &mut self.surveys[one.survey];
        if let Some((process, prediction)) = process {
            process.suppose(prediction, points, one.at);
        }
        Some(one.pick)
    }

    fn score(&self, one: &ScoredPick, rule: AcquisitionRule, tree: usize) -> f64 {
        let vote = &one.vote;
        match rule {
            AcquisitionRule::ProcessImprovement => self.process_improvement(one),
            AcquisitionRule::ForestImprovement => {
                improvement(self.fastest, one.price + one.by_forest(), vote.deviation.into())
            }
            // Many share a leaf; the other trees decide among them.
            AcquisitionRule::OneTree => {
                let own = f64::from(vote.each[tree] + 1e-3 * vote.mean);
                -(one.price + one.expected + own)
            }
        }
    }

    /// What the process expects; the forest where there is no process.
    fn process_improvement(&self, one: &ScoredPick) -> f64 {
        let ScoredPick { survey, at, expected, price, vote, .. } = one;
        let (mean, deviation) = match &self.surveys[*survey].process {
            Some((_, prediction)) => {
                (expected + prediction.means[*at], prediction.variances[*at].sqrt())
            }
            None => (one.by_forest(), vote.deviation.into()),
        };
        improvement(self.fastest, price + mean, deviation)
    }

    /// Those that promise most and were not picked: half of them by the process, half by the
    /// forest.
    pub(super) fn leads(&self, most: usize) -> Vec<Pick> {
        let all = || self.scored.par_iter().with_min_len(AT_ONCE);
        let free = || all().filter(|one| !one.is_taken);
        let by_forest = free().map(|one| (-one.by_forest(), one.pick));
        let by_process = free().map(|one| (self.process_improvement(one), one.pick));
        let mut leads = Vec::new();
        for mut scored in [by_forest.collect::<Vec<_>>(), by_process.collect()] {
            if scored.len() > most / 2 {
                scored.select_nth_unstable_by(most / 2, |a, b| b.0.total_cmp(&a.0));
                scored.truncate(most / 2);
            }
            leads.extend(scored.into_iter().map(|(_, pick)| pick));
        }
        leads
    }

    /// The logarithm of the least time that is expected of those that were not picked: the mean of
    /// what the process and the forest expect.
    pub(super) fn least(&self) -> Option<f64> {
        let free = self.scored.iter().filter(|one| !one.is_taken);
        let expected = free.map(|one| {
            let by_forest = one.by_forest();
            let process = self.surveys[one.survey].process.as_ref();
            process.map_or(by_forest, |(_, prediction)| {
                f64::midpoint(by_forest, one.expected + prediction.means[one.at])
            })
        });
        expected.min_by(f64::total_cmp)
    }

    /// Where the turn of the rules is.
    pub(super) fn turn(&self) -> f64 {
        self.turn
    }
}

impl ScoredPick {
    /// What the forest expects.
    fn by_forest(&self) -> f64 {
        self.expected + f64::from(self.vote.mean)
    }
}

/// The rule at a place from 0 to 1.
fn rule(mut at: f64) -> AcquisitionRule {
    for (rule, weight) in RULES {
        at -= weight;
        if at < 0.0 {
            return rule;
        }
    }
    RULES[0].0
}

/// By how much a normal variable is expected to be below `best` (Jones, Schonlau and Welch 1998).
fn improvement(best: f64, mean: f64, deviation: f64) -> f64 {
    let deviation = deviation.max(1e-9);
    let at = (best - mean) / deviation;
    let density = distrs::Normal::pdf(at, 0.0, 1.0);
    deviation * (at * distrs::Normal::cdf(at, 0.0, 1.0) + density)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_take_turns_by_their_weights() {
        let mut counts = [0; 3];
        let mut turn = 0.3;
        for _ in 0..400 {
            turn = (turn + 0.618_033_988_749_895) % 1.0;
            let at = RULES.iter().position(|(known, _)| *known == rule(turn)).unwrap();
            counts[at] += 1;
        }
        for (count, (_, weight)) in counts.into_iter().zip(RULES) {
            assert!((f64::from(count) - 400.0 * weight).abs() <= 3.0, "{counts:?}");
        }
    }

    #[test]
    fn improvement_is_what_a_normal_variable_has_below_the_best() {
        // At the best itself: deviation / sqrt(2 pi).
        assert!((improvement(1.0, 1.0, 2.0) - 0.797_884_56).abs() < 1e-6);
        assert!((improvement(1.0, -4.0, 1e-12) - 5.0).abs() < 1e-6);
        assert!(improvement(1.0, 4.0, 1e-12).abs() < 1e-12);
        assert!(improvement(1.0, 2.0, 1.0) > improvement(1.0, 2.0, 0.5));
    }
}
