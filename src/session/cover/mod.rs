//! Cover: the map of a device. Tunes problems as users have them until answers for problems that nobody tuned are nearly
//! as good as tuned kernels.
//!
//! Each round chooses problems (`acquisition`), asks for the answer to each before it is tuned, tunes them, and notes
//! by how much the answer is slower than the winner: the held-out regret. Between rounds the model is trained on all
//! timings, each time that a quarter more problems are known. Problems that were taken at random estimate the regret.
//! What measures is a [`Mapper`], so that this is tested without a device.

mod acquisition;
mod log;
mod problems;

pub use log::{CoverLog, CoverLogError};
pub use problems::MapProblems;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use crate::model::Problem;

/// Problems of a round: an eighth of those known, within these limits.
const LEAST_ROUND: usize = 16;
const MOST_ROUND: usize = 48;

/// Problems before the first training, and growth between two.
const FIRST_TRAINING: usize = 16;
const GROWTH: f64 = 1.25;

/// Random problems that estimate the regret: the latest so many.
const ESTIMATED_FROM: usize = 32;

/// A tuned problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoverStep {
    /// The problem.
    pub problem: Problem,
    /// Logarithm of the answer's time over the winner's; `None` where there was no answer, or one of both failed.
    pub log_regret: Option<f64>,
    /// Whether the problem was taken at random.
    pub at_random: bool,
    /// Trainings of the model before it.
    pub trainings: usize,
    /// Seconds that the map had taken when its round had ended, of all runs together.
    pub after_s: f64,
}

/// When a map is good enough.
#[derive(Debug, Clone, PartialEq)]
pub struct MapGoal {
    /// Held-out regret to end at, as a fraction: 0.05 for answers that take 5 % longer than tuned kernels in the geometric
    /// mean.
    pub regret: f64,
    /// What the map is made of. It ends when all problems of a list are tuned.
    pub problems: MapProblems,
    /// Seed of the problems.
    pub seed: u64,
}

/// What measures problems and trains the model.
pub trait Mapper {
    /// Why it cannot go on.
    type Error;

    /// Whether to end now, as when the time is over.
    fn is_over(&self) -> bool;

    /// Seconds since this run began.
    fn seconds(&self) -> f64;

    /// Tunes problems. Gives for each that was tuned the logarithm of the time of the answer that was known before over the
    /// winner's.
    ///
    /// # Errors
    /// Where the device or a file is lost; a problem that cannot be tuned is no error.
    fn tune(&mut self, problems: &[Problem]) -> Result<Vec<(Problem, Option<f64>)>, Self::Error>;

    /// Trains the model on all timings.
    ///
    /// # Errors
    /// Where files cannot be read or written.
    fn train(&mut self) -> Result<(), Self::Error>;

    /// Takes note of the state after a round.
    ///
    /// # Errors
    /// Where the log cannot be written.
    fn note(&mut self, steps: &[CoverStep], state: &CoverState) -> Result<(), Self::Error>;
}

/// How far a map is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CoverState {
    /// Tuned problems.
    pub problems: usize,
    /// Held-out regret of the latest problems that were taken at random, as a fraction; `None` without any.
    pub regret: Option<f64>,
    /// How many these are, 32 at most.
    pub estimated_from: usize,
    /// Trainings of the model.
    pub trainings: usize,
}

impl CoverState {
    /// The state after steps.
    pub fn of(steps: &[CoverStep], trainings: usize) -> Self {
        let random = steps.iter().rev().filter(|step| step.at_random);
        let latest: Vec<f64> =
            random.filter_map(|step| step.log_regret).take(ESTIMATED_FROM).collect();
        let mean = latest.iter().sum::<f64>() / latest.len() as f64;
        Self {
            problems: steps.len(),
            regret: (!latest.is_empty()).then(|| mean.exp_m1()),
            estimated_from: latest.len(),
            trainings,
        }
    }

    /// Whether a map is as good as wanted, by enough problems.
    pub fn reaches(&self, goal: &MapGoal) -> bool {
        self.estimated_from >= ESTIMATED_FROM && self.regret.is_some_and(|own| own <= goal.regret)
    }
}

/// Makes a map, from `steps` of an earlier run on. Returns all steps.
///
/// # Errors
/// Those of the mapper.
pub fn cover<M: Mapper>(
    goal: &MapGoal,
    mut steps: Vec<CoverStep>,
    mapper: &mut M,
) -> Result<(Vec<CoverStep>, CoverState), M::Error> {
    let mut trainings = steps.iter().map(|step| step.trainings).max().unwrap_or(0);
    let before_s = steps.iter().map(|step| step.after_s).fold(0.0, f64::max);
    let mut trained_on = 0;
    // A run that goes on draws other problems.
    let mut random = Rng::with_seed(goal.seed.wrapping_add(steps.len() as u64));
    loop {
        let is_due = steps.len() >= FIRST_TRAINING
            && steps.len() as f64 >= GROWTH * f64::from(u32::try_from(trained_on).unwrap_or(0));
        if is_due {
            mapper.train()?;
            (trained_on, trainings) = (steps.len(), trainings + 1);
        }
        let state = CoverState::of(&steps, trainings);
        if mapper.is_over() || state.reaches(goal) {
            return Ok((steps, state));
        }
        let is_new = |problem: &Problem| steps.iter().all(|step| step.problem != *problem);
        let pool = goal.problems.pool(is_new, &mut random);
        if pool.is_empty() {
            return Ok((steps, state));
        }
        let count = (steps.len() / 8).clamp(LEAST_ROUND, MOST_ROUND);
        let round = (steps.len(), count);
        let chosen = acquisition::choose(&pool, &steps, round, trainings);
        let problems: Vec<Problem> = chosen.iter().map(|(problem, _)| *problem).collect();
        let tuned = mapper.tune(&problems)?;
        let at_random =
            |problem: &Problem| chosen.iter().any(|(own, at_random)| own == problem && *at_random);
        let after_s = before_s + mapper.seconds();
        let new: Vec<CoverStep> = tuned
            .into_iter()
            .map(|(problem, log_regret)| CoverStep {
                problem,
                log_regret,
                at_random: at_random(&problem),
                trainings,
                after_s,
            })
            .collect();
        steps.extend(new.iter().cloned());
        mapper.note(&new, &CoverState::of(&steps, trainings))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Compute, Dtype, GemmType};
    use crate::predict::DrawLimits;

    /// Answers get better with each training, worse where problems are narrow; nothing is measured.
    #[derive(Default)]
    struct Simulated {
        trainings: usize,
        tuned: Vec<Problem>,
        notes: usize,
        most: usize,
    }

    impl Mapper for Simulated {
        type Error = String;

        fn is_over(&self) -> bool {
            self.tuned.len() >= self.most
        }

        fn seconds(&self) -> f64 {
            self.tuned.len() as f64
        }

        fn tune(&mut self, problems: &[Problem]) -> Result<Vec<(Problem, Option<f64>)>, String> {
            self.tuned.extend(problems);
            let regret = |problem: &Problem| {
                let narrow = problem.shape.m.min(problem.shape.n) <= 16;
                let first = if narrow { 0.8 } else { 0.2 };
                (*problem, Some(first * 0.7_f64.powi(self.trainings as i32)))
            };
            Ok(problems.iter().map(regret).collect())
        }

        fn train(&mut self) -> Result<(), String> {
            self.trainings += 1;
            Ok(())
        }

        fn note(&mut self, steps: &[CoverStep], state: &CoverState) -> Result<(), String> {
            assert!(!steps.is_empty() && state.problems == self.tuned.len());
            self.notes += 1;
            Ok(())
        }
    }

    const TYPE: GemmType = {
        let f32 = Dtype::F32;
        GemmType { a: f32, b: f32, d: f32, compute: Compute::F32 }
    };

    fn goal(regret: f64) -> MapGoal {
        MapGoal { regret, problems: MapProblems::drawn(TYPE, DrawLimits::default()), seed: 1 }
    }

    #[test]
    fn a_map_ends_at_its_regret_and_tunes_no_problem_twice() {
        let mut mapper = Simulated { most: 5000, ..Simulated::default() };
        let (steps, state) = cover(&goal(0.05), Vec::new(), &mut mapper).unwrap();
        assert!(state.regret.unwrap() <= 0.05 && state.estimated_from == 32, "{state:?}");
        assert!(steps.len() < 1500, "{}", steps.len());
        assert_eq!(state.trainings, mapper.trainings);
        for (at, step) in steps.iter().enumerate() {
            assert!(steps[..at].iter().all(|other| other.problem != step.problem));
        }
        let narrow = |at_random: bool| {
            let own: Vec<&CoverStep> =
                steps.iter().filter(|step| step.at_random == at_random).collect();
            let is = |step: &&&CoverStep| step.problem.shape.m.min(step.problem.shape.n) <= 16;
            own.iter().filter(is).count() as f64 / own.len() as f64
        };
        assert!(narrow(false) > narrow(true), "bad answers draw more: {}", narrow(false));
    }

    #[test]
    fn a_map_goes_on_where_it_was() {
        let mut first = Simulated { most: 60, ..Simulated::default() };
        let (steps, state) = cover(&goal(0.001), Vec::new(), &mut first).unwrap();
        assert!(steps.len() >= 60 && state.trainings > 1, "{state:?}");
        let mut second = Simulated { most: 40, trainings: state.trainings, ..Simulated::default() };
        second.tuned.extend(steps.iter().map(|step| step.problem));
        second.most += steps.len();
        let before = steps.len();
        let (steps, later) = cover(&goal(0.001), steps, &mut second).unwrap();
        assert!(steps.len() >= before + 40);
        assert!(later.trainings > state.trainings && later.regret < state.regret, "{later:?}");
    }

    #[test]
    fn a_map_of_a_list_ends_with_it() {
        let drawn = goal(0.001).problems.pool(|_| true, &mut Rng::with_seed(3));
        let list = drawn[..50].iter().map(|one| (one.problem, one.weight));
        let goal = MapGoal { problems: MapProblems::listed(list), ..goal(0.001) };
        let mut mapper = Simulated { most: 5000, ..Simulated::default() };
        let (steps, state) = cover(&goal, Vec::new(), &mut mapper).unwrap();
        assert_eq!((steps.len(), goal.problems.count()), (50, Some(50)));
        assert!(steps.iter().all(|step| goal.problems.has(&step.problem)), "{state:?}");
        assert!(state.trainings > 1, "trained between rounds: {state:?}");
    }
}
