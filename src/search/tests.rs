//! Requirements of every strategy: no proposal twice, all of a small space, an end, and determinism.

use std::collections::HashSet;

use fastrand::Rng;
use proptest::prelude::*;

use super::*;
use crate::cases::cases;
use crate::model::{Configuration, Device, Dtype, Micros, Problem, Shape, Value};
use crate::predict::Forecast;
use crate::space::{Family, LegalSpace};

/// Two families: `far` is slow everywhere, `near` has one best place among 4096.
pub(super) fn search_spaces() -> Vec<SearchSpace> {
    let problem = Problem::new(Shape { m: 1, n: 1, k: 1 }, Dtype::F32);
    ["far", "near"]
        .map(|name| {
            let values = if name == "far" { "[0, 1, 2]" } else { "[0, 1, 2, 3, 4, 5, 6, 7]" };
            let text = format!(
                "schema = 1\nname = '{name}'\nsummary = ''\ndtypes = ['f32']\n\
                 compute = ['f32']\nlayouts = ['nn']\n\
                 kernels = [{{ entry = 'k', grid = [1], block = [1] }}]\n\
                 parameters = {{ A = {values}, B = {values}, C = {values}, D = {values} }}\n\
                 default = {{ A = 0, B = 0, C = 0, D = 0 }}"
            );
            let family = Family::parse(name, &text).unwrap();
            let space = LegalSpace::of(&family, &problem, &Device::h200()).unwrap();
            SearchSpace {
                space,
                default: Some(0),
                hints: Vec::new(),
                seeds: Vec::new(),
                forecast: None,
            }
        })
        .to_vec()
}

pub(super) fn time(search_spaces: &[SearchSpace], pick: Pick) -> Micros {
    let configuration = search_spaces[pick.family].space.get(pick.rank).unwrap();
    let distance: i64 = configuration
        .0
        .values()
        .zip([6, 1, 4, 3])
        .map(|(value, best)| match value {
            Value::Int(value) => (value - best).abs(),
            _ => 0,
        })
        .sum();
    Micros(if pick.family == 0 { 1000.0 } else { 10.0 + distance as f64 })
}

/// Everything that a search asks for, up to `most`, in batches, where `outcome` says what became
/// of each.
fn proposed(
    search: Search,
    seed: u64,
    most: usize,
    batch: usize,
    outcome: impl Fn(&[SearchSpace], Pick) -> Option<Micros>,
) -> Vec<Pick> {
    let spaces = search_spaces();
    let mut strategy = search.begin(search_spaces(), seed);
    let mut proposed = Vec::new();
    while proposed.len() < most {
        let picks = strategy.propose(batch.min(most - proposed.len()));
        if picks.is_empty() {
            break;
        }
        for pick in picks {
            proposed.push(pick);
            strategy.observe(pick, outcome(&spaces, pick));
        }
    }
    proposed
}

fn correct(spaces: &[SearchSpace], pick: Pick) -> Option<Micros> {
    Some(time(spaces, pick))
}

#[test]
fn the_best_place_is_found_with_a_fraction_of_the_space() {
    for (search, most) in [(Search::Local, 300), (Search::Evolve, 300), (Search::Auto, 120)] {
        for seed in 0..cases(3, 10) as u64 {
            let spaces = search_spaces();
            let picks = proposed(search, seed, most, 4, correct);
            let best = picks.iter().map(|pick| time(&spaces, *pick).0).fold(1e9, f64::min);
            assert_eq!(best, 10.0, "{search} with seed {seed}");
        }
    }
}

#[test]
fn nothing_is_proposed_twice_and_batches_are_no_larger_than_wanted() {
    for search in Search::ALL {
        let mut strategy = search.begin(search_spaces(), 1);
        let mut distinct = HashSet::new();
        for _ in 0..60 {
            let picks = strategy.propose(5);
            assert!(picks.len() <= 5, "{search}");
            for pick in picks {
                assert!(distinct.insert(pick), "{search}");
                strategy.observe(pick, Some(time(&search_spaces(), pick)));
            }
        }
        assert!(distinct.len() > 250, "{search}: {}", distinct.len());
    }
}

#[test]
fn a_space_is_evaluated_whole_and_then_the_search_ends() {
    for search in Search::ALL {
        let small = || search_spaces().into_iter().take(1).collect::<Vec<_>>();
        let mut strategy = search.begin(small(), 3);
        let mut count = 0;
        loop {
            let picks = strategy.propose(7);
            if picks.is_empty() {
                break;
            }
            for pick in picks {
                count += 1;
                strategy.observe(pick, Some(Micros(1.0 + (pick.rank % 7) as f64)));
            }
        }
        assert_eq!(count, 81, "{search}");
    }
}

#[test]
fn defaults_come_first() {
    for search in Search::ALL {
        let first = search.begin(search_spaces(), 9).propose(2);
        let defaults = [Pick { family: 0, rank: 0 }, Pick { family: 1, rank: 0 }];
        assert_eq!(first, defaults, "{search}");
    }
}

#[test]
fn hints_are_tried_early() {
    for search in Search::ALL {
        let mut search_spaces = search_spaces();
        search_spaces[1].hints = vec![77, 0, 99, 77];
        let first = search.begin(search_spaces, 9).propose(12);
        for rank in [77, 99] {
            assert!(first.contains(&Pick { family: 1, rank }), "{search}: {first:?}");
        }
        let distinct: HashSet<&Pick> = first.iter().collect();
        assert_eq!(distinct.len(), first.len(), "{search}");
    }
}

/// Forecasts of the two families, so many times slower than the best.
fn forecast(slowness: [f64; 2]) -> Vec<SearchSpace> {
    let mut search_spaces = search_spaces();
    for (search_space, times) in search_spaces.iter_mut().zip(slowness) {
        let likely = (10..200).filter(|rank| *rank < search_space.space.len()).collect();
        let time = Micros(7.0 * times);
        search_space.forecast = Some(Forecast {
            best: time,
            default: Some(time),
            likely,
            times: None,
            is_learned: false,
            compiled: None,
        });
    }
    search_spaces
}

#[test]
fn of_a_hopeless_family_only_the_default_is_evaluated_and_of_a_worse_one_nothing() {
    for (slowness, default) in [(4.0, 1), (11.0, 0)] {
        let search_spaces = forecast([slowness, 1.0]);
        let mut strategy = Search::Auto.begin(search_spaces.clone(), 3);
        let mut proposed = Vec::new();
        while proposed.len() < 120 {
            let picks = strategy.propose(12);
            for pick in &picks {
                // As slow as was said.
                let times = if pick.family == 0 { slowness } else { 1.0 };
                strategy.observe(*pick, Some(Micros(times * time(&search_spaces, *pick).0)));
            }
            proposed.extend(picks);
        }
        let tried: Vec<&Pick> = proposed.iter().filter(|pick| pick.family == 0).collect();
        assert_eq!(tried.len(), default, "{slowness}: {tried:?}");
        // What it says last is proposed last, though its family is the first.
        assert_ne!(proposed[0].family, 0);
    }
}

#[test]
fn first_proposals_are_spread_over_likely_configurations() {
    let search_spaces = forecast([1.0, 1.2]);
    let mut strategy = Search::Model.begin(search_spaces, 5);
    let first = strategy.propose(8);
    let likely = first.iter().filter(|pick| (10..200).contains(&pick.rank)).count();
    assert_eq!(likely, first.len() - 2, "all but the defaults: {first:?}");
}

#[test]
fn small_spaces_are_evaluated_whole_in_order() {
    let rows: Vec<RecordedRow> =
        (1..=40).map(|x| row("t", &[("X", Value::Int(x))], Some(x as f64))).collect();
    let recording = Recording::new(&rows).unwrap();
    let mut strategy = Search::Auto.begin(recording.search_spaces().to_vec(), 7);
    let ranks: Vec<usize> = strategy.propose(50).into_iter().map(|pick| pick.rank).collect();
    assert_eq!(ranks, (0..40).collect::<Vec<_>>());
}

#[test]
fn the_chance_of_better_falls_without_gains() {
    let mut strategy = Search::Model.begin(search_spaces(), 2);
    let mut chances = Vec::new();
    for _ in 0..40 {
        for pick in strategy.propose(12) {
            strategy.observe(pick, Some(time(&search_spaces(), pick)));
        }
        chances.push(strategy.chance_of_better(0.01).unwrap());
    }
    assert!(chances.iter().all(|chance| (0.0..=1.0).contains(chance)), "{chances:?}");
    assert!(chances[39] < LEAST_CHANCE + 0.01 && chances[39] < chances[1], "{chances:?}");
    assert_eq!(Search::Local.begin(search_spaces(), 2).chance_of_better(0.01), None);
}

#[test]
fn first_outcomes_count_for_the_end_of_a_search() {
    let mut search_spaces = forecast([1.0, 1.0]);
    for SearchSpace { space, forecast, .. } in &mut search_spaces {
        let expected = (0..space.len()).map(|rank| Micros(7.0 + rank as f64)).collect();
        let forecast = forecast.as_mut().unwrap();
        *forecast = Forecast { times: Some(expected), is_learned: true, ..forecast.clone() };
    }
    let mut strategy = Search::Model.begin(search_spaces, 5);
    let picks = strategy.propose(12);
    strategy.observe(picks[0], Some(Micros(7.0)));
    let until = |strategy: &dyn super::Strategy| strategy.answers_until(0.01, 0.15).unwrap();
    let at_once = until(strategy.as_ref());
    for pick in &picks[1..5] {
        strategy.observe(*pick, Some(Micros(9.0)));
    }
    assert_eq!(until(strategy.as_ref()), at_once - 4);
}

#[test]
fn compiled_configurations_come_first_after_corrections() {
    let first = |tried: HashSet<usize>| -> Vec<Pick> {
        let mut search_spaces = forecast([1.0, 1.0]);
        for SearchSpace { space, forecast, .. } in &mut search_spaces {
            let expected = (0..space.len()).map(|rank| Micros(7.0 + 1e-6 * rank as f64)).collect();
            let forecast = forecast.as_mut().unwrap();
            *forecast = Forecast {
                times: Some(expected),
                is_learned: true,
                compiled: Some(tried.clone()),
                ..forecast.clone()
            };
        }
        Search::Model.begin(search_spaces, 5).propose(12)
    };
    let last = *first(HashSet::new()).last().unwrap();
    let now = first(HashSet::from([last.rank]));
    assert_eq!(now[0].rank, last.rank, "{last:?} {now:?}");
}

#[test]
fn a_far_family_is_left_behind() {
    for (search, first) in [(Search::Evolve, 6), (Search::Model, 8)] {
        let picks = proposed(search, 1, 300, 12, correct);
        assert_eq!(picks.iter().filter(|pick| pick.family == 0).count(), first, "{search}");
    }
}

#[test]
fn one_seed_gives_one_sequence() {
    for search in Search::ALL {
        let run = |seed| proposed(search, seed, 100, 12, correct);
        assert_eq!(run(5), run(5), "{search}");
        assert_eq!(run(5) == run(6), search == Search::Exhaustive, "{search}");
    }
}

#[test]
fn evolution_proposes_nearly_the_same_with_noise() {
    let run = |noise: u64| -> HashSet<Pick> {
        let outcome = |spaces: &[SearchSpace], pick: Pick| {
            let at = (noise << 32) + pick.rank as u64;
            let factor = 1.0 + 0.005 * (Rng::with_seed(at).f64() - 0.5);
            Some(Micros(time(spaces, pick).0 * factor))
        };
        proposed(Search::Evolve, 3, 400, 1, outcome).into_iter().collect()
    };
    let (first, second) = (run(1), run(2));
    let common = first.intersection(&second).count();
    assert!(common > 250, "{common} of {}", first.len());
}

#[test]
fn a_search_of_failures_does_not_panic() {
    for search in Search::ALL {
        let picks = proposed(search, 0, 100, 12, |_, _| None);
        assert!(picks.len() >= 12, "{search}: {}", picks.len());
    }
}

#[test]
fn the_names_of_searches_are_read_back() {
    for search in Search::ALL {
        assert_eq!(search.name().parse::<Search>().unwrap(), search);
    }
    let error = "best".parse::<Search>().unwrap_err().to_string();
    assert!(error.starts_with("`best` is no search: choose one of "), "{error}");
}

fn row(family: &str, values: &[(&str, Value)], time: Option<f64>) -> RecordedRow {
    let pairs = values.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    RecordedRow {
        family: family.to_owned(),
        configuration: pairs.collect::<Configuration>(),
        time: time.map(Micros),
    }
}

#[test]
fn a_recording_is_the_space_of_its_rows() {
    let word = |word: &str| Value::Text(word.to_owned());
    let rows = [
        row("one", &[("X", Value::Int(8)), ("W", word("b"))], Some(4.0)),
        row("one", &[("X", Value::Int(4)), ("W", word("a"))], Some(2.0)),
        row("two", &[("Y", Value::Bool(true))], None),
        row("one", &[("X", Value::Int(8)), ("W", word("a"))], Some(9.0)),
        row("one", &[("X", Value::Int(8)), ("W", word("a"))], Some(3.0)),
    ];
    let recording = Recording::new(&rows).unwrap();
    assert_eq!((recording.len(), recording.failed(), recording.best()), (4, 1, Micros(2.0)));
    let [one, two] = recording.search_spaces() else { panic!() };
    let all: Vec<String> =
        (0..one.space.len()).map(|rank| one.space.get(rank).unwrap().to_string()).collect();
    // Numbers are in order, words as they came.
    assert_eq!(all, ["X=4 W=a", "X=8 W=b", "X=8 W=a"]);
    assert_eq!(two.space.len(), 1);
    let times = (0..3).map(|rank| recording.time(Pick { family: 0, rank }).unwrap().0);
    assert_eq!(times.collect::<Vec<_>>(), [2.0, 4.0, 3.0]);
    assert_eq!(recording.time(Pick { family: 1, rank: 0 }), None);
    assert_eq!(recording.time(Pick { family: 7, rank: 7 }), None);
}

#[test]
fn rows_that_are_no_space_are_refused() {
    let one = row("t", &[("X", Value::Int(1))], Some(1.0));
    for (rows, words) in [
        (vec![], "no entry has a time"),
        (vec![row("t", &[("X", Value::Int(1))], None)], "no entry has a time"),
        (
            vec![one.clone(), row("t", &[("Y", Value::Int(1))], None)],
            "entry 2 has the parameters `Y`, the first of its kind has `X`",
        ),
        (
            vec![one, row("t", &[("X", Value::Int(1)), ("Y", Value::Int(1))], None)],
            "entry 2 has the parameters `X Y`",
        ),
    ] {
        let error = Recording::new(&rows).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_replay_counts_what_a_strategy_finds() {
    let rows: Vec<RecordedRow> =
        (1..=10).map(|x| row("t", &[("X", Value::Int(x))], Some((11 - x) as f64))).collect();
    let recording = Recording::new(&rows).unwrap();
    let trials = replay::Trials {
        search: Search::Exhaustive,
        repeats: 3,
        most: 8,
        batch: 3,
        seed: 0,
        within: 0.01,
    };
    let replayed = replay::replay(&recording, &trials);
    // The exhaustive search takes them in order: 10, 9, 8, ..., of which 1 is the best.
    assert_eq!(replayed.trials.len(), 3);
    assert_eq!(replayed.trials[0].curve.len(), 8);
    let level = replayed.level(4);
    assert_eq!((level.mean, level.median, level.worst), (1.0 / 7.0, 1.0 / 7.0, 1.0 / 7.0));
    assert_eq!(replayed.level(100), replay::ReplayLevel { evaluations: 100, ..replayed.level(8) });
    assert_eq!(replayed.levels(8).iter().map(|level| level.evaluations).collect::<Vec<_>>(), [8]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(2, 8) as u32))]

    #[test]
    fn any_outcomes_are_accepted(seed in any::<u64>(), batch in 1usize..30, salt in any::<u64>()) {
        for search in Search::ALL {
            let outcome = |_: &[SearchSpace], pick: Pick| {
                let mut rng = Rng::with_seed(salt ^ pick.rank as u64);
                (rng.f64() < 0.6).then(|| Micros(rng.f64() * 1e3 + 1e-3))
            };
            let picks = proposed(search, seed, 90, batch, outcome);
            let distinct: HashSet<&Pick> = picks.iter().collect();
            prop_assert_eq!(distinct.len(), picks.len());
        }
    }
}

#[test]
fn configurations_under_evaluation_are_left_too() {
    let rows: Vec<RecordedRow> =
        (1..=60).map(|x| row("t", &[("X", Value::Int(x))], Some(x as f64))).collect();
    let recording = Recording::new(&rows).unwrap();
    let mut strategy = Search::Model.begin(recording.search_spaces().to_vec(), 7);
    let mut proposed = Vec::new();
    while proposed.len() < 60 {
        let picks = strategy.propose(60 - proposed.len());
        for pick in picks.iter().take(picks.len() - 1) {
            strategy.observe(*pick, recording.time(*pick));
        }
        proposed.extend(picks);
        assert_ne!(strategy.chance_of_better(0.01), Some(0.0), "{} proposed", proposed.len());
    }
}
