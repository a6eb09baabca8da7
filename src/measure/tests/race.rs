//! Cost and losses of races, on populations with known truth.

use fastrand::Rng;

use super::noise::normal;
use crate::measure::{DropReason, Race, RaceStep, RacingCandidate, SAMPLES};
use crate::model::Micros;

/// Number of finalists.
const FINALISTS: usize = 5;

const KERNELS: usize = 1000;

/// Standard deviation of the logarithms of times. Recorded spaces of CLBlast's GEMM have 0.545 (RTX
/// 2080 Ti) and 0.483 (RTX 3060 laptop).
const SPREAD_OF_TIMES: f64 = 0.5;

/// Kernels of a race, and the noise of their samples.
struct Population {
    /// True time of each.
    times: Vec<f64>,
    /// The standard deviation of a sample's logarithm.
    noise: f64,
    /// Fraction of first series that are ten times too fast in all samples.
    outliers: f64,
    rng: Rng,
    /// Slow drift shared by all samples.
    wander: f64,
}

/// Samples per candidate without a race, as autotuners take.
const EACH: usize = 20;

/// Result of a race.
struct Raced {
    samples: usize,
    /// Estimate and index of the fully sampled candidates.
    enough: Vec<(f64, usize)>,
}

impl Population {
    fn lognormal(noise: f64, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let times =
            (0..KERNELS).map(|_| 100.0 * (SPREAD_OF_TIMES * normal(&mut rng)).exp()).collect();
        Self { times, noise, outliers: 0.0, rng, wander: 0.0 }
    }

    fn sample(&mut self, kernel: usize) -> Micros {
        // 0.3 %, with a memory of 1000 samples.
        self.wander = 0.999 * self.wander + 0.003 * 0.0447 * normal(&mut self.rng);
        Micros(self.times[kernel] * (self.noise * normal(&mut self.rng) + self.wander).exp())
    }

    fn race(&mut self) -> Raced {
        let mut race = Race::new(FINALISTS, Micros(0.0));
        let mut raced = Raced { samples: 0, enough: Vec::new() };
        for kernel in 0..self.times.len() {
            let mut racer = RacingCandidate::new();
            let mut factor = if self.rng.f64() < self.outliers { 0.1 } else { 1.0 };
            loop {
                raced.samples += 1;
                let sample = Micros(factor * self.sample(kernel).0);
                match racer.take(sample, &race) {
                    RaceStep::More => {}
                    RaceStep::Confirm(_) => factor = 1.0,
                    RaceStep::Enough => {
                        race.admit(racer.samples());
                        let mut samples: Vec<f64> =
                            racer.samples().iter().map(|sample| sample.0).collect();
                        samples.sort_by(f64::total_cmp);
                        raced.enough.push((samples[SAMPLES / 2], kernel));
                        break;
                    }
                    RaceStep::Drop(_) => break,
                }
            }
        }
        raced.enough.sort_by(|a, b| a.0.total_cmp(&b.0));
        raced
    }

    /// Whether a kernel within 0.5 % of the best is among the finalists.
    fn best_survives(&self, raced: &Raced) -> bool {
        let best = self.times.iter().copied().fold(f64::INFINITY, f64::min);
        let finalists = raced.enough.iter().take(FINALISTS);
        finalists.into_iter().any(|(_, kernel)| self.times[*kernel] <= 1.005 * best)
    }
}

/// Returns the samples of races relative to [`EACH`] per kernel, and the fraction of races that the
/// best survives.
fn figures(races: u64, population: impl Fn(u64) -> Population) -> (f64, f64) {
    let (mut samples, mut survived) = (0, 0);
    let mut all = 0;
    for seed in 0..races {
        let mut population = population(seed);
        let raced = population.race();
        samples += raced.samples;
        all += EACH * population.times.len();
        survived += u64::from(population.best_survives(&raced));
    }
    let (samples, survived) = (samples as f64 / all as f64, survived as f64 / races as f64);
    println!("{samples:.3} of the samples, the best survived in {survived:.3}");
    (samples, survived)
}

#[test]
fn a_race_takes_a_tenth_of_the_samples_and_keeps_the_best() {
    for noise in [0.003, 0.01] {
        let (samples, survived) = figures(200, |seed| Population::lognormal(noise, seed));
        assert!(samples <= 0.1, "{noise}: {samples}");
        assert!(survived >= 0.99, "{noise}: {survived}");
    }
}

#[test]
fn many_close_candidates_cost_more_and_lose_no_better() {
    // As late in a search: all within 30 % of the best.
    let crowded = |seed| {
        let mut population = Population::lognormal(0.003, seed);
        for time in &mut population.times {
            *time = 100.0 * (1.0 + 0.3 * population.rng.f64());
        }
        population
    };
    let (samples, survived) = figures(50, crowded);
    assert!(samples <= 0.2, "{samples}");
    assert!(survived >= 0.99, "{survived}");
}

#[test]
fn outliers_neither_win_nor_drop_the_best() {
    let with_outliers = |seed| Population { outliers: 0.02, ..Population::lognormal(0.003, seed) };
    let (samples, survived) = figures(50, with_outliers);
    assert!(samples <= 0.2, "{samples}");
    assert!(survived >= 0.99, "{survived}");
}

/// A race whose finalists take these times, without noise.
fn race_of(times: &[f64]) -> Race {
    let mut race = Race::new(3, Micros(10.0));
    for time in times {
        let mut racer = RacingCandidate::new();
        while run(&mut racer, &race, &[*time; SAMPLES]) != RaceStep::Enough {}
        race.admit(racer.samples());
    }
    race
}

/// Returns the last step after these samples; all earlier steps are `More`.
fn run(racer: &mut RacingCandidate, race: &Race, times: &[f64]) -> RaceStep {
    let steps: Vec<RaceStep> = times.iter().map(|time| racer.take(Micros(*time), race)).collect();
    let (last, others) = steps.split_last().unwrap();
    assert!(others.iter().all(|step| *step == RaceStep::More), "{steps:?}");
    *last
}

#[test]
fn slow_candidates_are_dropped_as_soon_as_significant() {
    let race = race_of(&[100.0, 101.0, 110.0, 104.0]);
    assert_eq!(race.best(), Some(Micros(100.0)));
    // The last finalist takes 104; samples that do not scatter are sure within the drift of 1 %.
    for (times, expected) in [
        (&[201.0][..], RaceStep::Drop(DropReason::Hopeless(2.01))),
        (&[199.0], RaceStep::More),
        (&[199.0, 121.0], RaceStep::Drop(DropReason::ClearlySlower(1.21))),
        (&[108.0, 117.0, 112.0], RaceStep::More), // it scatters
        (&[118.0, 118.0], RaceStep::Drop(DropReason::NoFinalist)),
        (&[106.0, 106.0], RaceStep::Drop(DropReason::NoFinalist)),
        (&[105.0; SAMPLES], RaceStep::Enough),
        (&[100.0; SAMPLES], RaceStep::Enough),
        (&[99.5; SAMPLES], RaceStep::Enough),
    ] {
        assert_eq!(run(&mut RacingCandidate::new(), &race, times), expected, "{times:?}");
    }
    assert_eq!(race.hopeless(Micros(300.0)), Some(DropReason::Hopeless(3.0)));
    assert_eq!(race.hopeless(Micros(200.0)), None);
}

#[test]
fn no_candidate_is_dropped_before_there_are_rivals() {
    let race = Race::new(3, Micros(0.0));
    assert_eq!(
        run(&mut RacingCandidate::new(), &race, &[1e6; SAMPLES]),
        RaceStep::Confirm(Micros(1e6))
    );
    // Two of three places are free.
    let race = race_of(&[100.0]);
    assert_eq!(run(&mut RacingCandidate::new(), &race, &[119.0; SAMPLES]), RaceStep::Enough);
}

#[test]
fn a_time_that_beats_the_best_is_confirmed() {
    let race = race_of(&[100.0, 101.0, 104.0]);
    let first = |time: f64| {
        let mut racer = RacingCandidate::new();
        assert_eq!(run(&mut racer, &race, &[time; SAMPLES]), RaceStep::Confirm(Micros(time)));
        racer
    };
    // Confirmed.
    let mut racer = first(80.0);
    assert_eq!(run(&mut racer, &race, &[80.4; SAMPLES]), RaceStep::Enough);
    assert_eq!(racer.samples(), [Micros(80.4); SAMPLES]);
    // An outlier: its second series is judged normally.
    assert_eq!(run(&mut first(20.0), &race, &[250.0]), RaceStep::Drop(DropReason::Hopeless(2.5)));
    let mut racer = first(20.0);
    assert_eq!(run(&mut racer, &race, &[101.0; SAMPLES]), RaceStep::Enough);
    assert_eq!(racer.samples(), [Micros(101.0); SAMPLES]);
    // Three series that all beat the best and disagree: the slower of the last two counts.
    for (third, counts) in [(90.0, 90.0), (70.0, 80.0)] {
        let mut racer = first(60.0);
        assert_eq!(run(&mut racer, &race, &[80.0; SAMPLES]), RaceStep::Confirm(Micros(80.0)));
        assert_eq!(run(&mut racer, &race, &[third; SAMPLES]), RaceStep::Enough);
        assert_eq!(racer.samples(), [Micros(counts); SAMPLES]);
    }
}

#[test]
fn nothing_faster_than_the_floor_is_accepted() {
    let race = race_of(&[100.0]);
    let floor = Micros(10.0);
    for impossible in [9.9, 0.0, -1.0, f64::NAN, f64::INFINITY] {
        let step = run(&mut RacingCandidate::new(), &race, &[impossible; 3]);
        assert_eq!(step, RaceStep::Drop(DropReason::Impossible { floor }), "{impossible}");
    }
    // A single impossible sample is discarded.
    let mut racer = RacingCandidate::new();
    let mut times = vec![105.0; SAMPLES + 1];
    times[SAMPLES - 2] = 1.0;
    assert_eq!(run(&mut racer, &race, &times), RaceStep::Enough);
    assert_eq!(racer.samples(), [Micros(105.0); SAMPLES]);
}

#[test]
fn reasons_have_messages() {
    for (reason, words) in [
        (DropReason::Hopeless(2.51), "one sample was 2.5 times the best"),
        (DropReason::ClearlySlower(1.214), "takes 1.21 times as long as the best"),
        (DropReason::NoFinalist, "significantly slower than the last finalist"),
        (
            DropReason::Impossible { floor: Micros(342.0) },
            "its samples are impossible (no kernel takes less than 342.0 µs)",
        ),
    ] {
        assert_eq!(reason.to_string(), words);
    }
}
