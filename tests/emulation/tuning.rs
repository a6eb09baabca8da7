//! Whole tuning runs on the `cpu` device.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gemm_tune::compile::{Compile, CompileThreads};
use gemm_tune::model::{Device, Hint, Layout, Timing, WarmStart};
use gemm_tune::render::Templates;
use gemm_tune::search::Search;
use gemm_tune::space::{Families, Family};
use gemm_tune::tune::{Hints, Kit, Machine, Settings, TuneEvent, spaces, tune};

use super::{built_in, faulty, jobs, problem};
use crate::support::compiler_or_skip;

#[test]
fn tuning_on_the_host_finds_a_right_kernel_and_says_that_its_time_is_modelled() {
    let Some(compiler) = compiler_or_skip() else { return };
    // Templates of a folder come on top of the built-in ones.
    let (mut families, templates) = faulty("faulty");
    families.extend(built_in().0);
    let mut kit = Kit {
        families,
        templates,
        compiler: Arc::new(compiler),
        threads: CompileThreads::new(jobs()).unwrap(),
        machine: Machine::Host,
        predictor: Arc::default(),
    };
    let settings = Settings { max_configs: Some(40), ..Settings::default() };
    let mut evaluated = 0;
    let on_event = &mut |event: TuneEvent<'_>| {
        evaluated += usize::from(matches!(event, TuneEvent::Evaluated { .. }));
    };
    let problem = problem("65x100x40", Layout::Nn);
    let stop = AtomicBool::new(false);
    let summary = tune(&problem, &Hints::default(), &mut kit, &settings, &stop, on_event).unwrap();
    assert_eq!((summary.evaluated(), evaluated), (40, 40));
    let winner = summary.winner().unwrap();
    assert_eq!(winner.measurement.timing, Timing::Modelled);
    assert!(winner.validation.reference.contains("on the host, all "), "{winner:?}");
    assert!(winner.measurement.median().0 > 0.0);
    let failed: usize = summary.coverage.iter().map(|family| family.failures.len()).sum();
    assert!(failed > 0 && summary.restarts == 0);
}

#[test]
fn kernels_with_other_bits_in_each_run_are_tried_by_who_allows_them() {
    let Some(compiler) = compiler_or_skip() else { return };
    let family = Families::built_in().unwrap().get("pipelined").unwrap().clone();
    let problem = problem("40x50x300", Layout::Nn);
    let choice = "PACK=none,BM=32,BN=32,TM=4,TN=4,LANES_M=4,BK=16,STAGES=3,FRAGMENT_STAGES=1,MIN_BLOCKS=8,\
                  SPLIT_K=2,SCHEDULER=data_parallel,REDUCTION=atomic,UNROLL=16,READ_ORDER=down";
    let configuration = family.choose(choice, &problem, &Device::cpu()).unwrap();
    let record = Hint { family: "pipelined".to_owned(), configuration: configuration.clone() };
    let start = WarmStart { record: Some(record), others: Vec::new() };
    let hints = Hints { start, ..Hints::default() };
    let compiler: Arc<dyn Compile> = Arc::new(compiler);
    let tuned = |family: Family| {
        let mut kit = Kit {
            families: vec![family],
            templates: Templates::built_in().unwrap(),
            compiler: Arc::clone(&compiler),
            threads: CompileThreads::new(jobs()).unwrap(),
            machine: Machine::Host,
            predictor: Arc::default(),
        };
        let settings = Settings { max_configs: Some(1), ..Settings::default() };
        let stop = AtomicBool::new(false);
        tune(&problem, &hints, &mut kit, &settings, &stop, &mut |_| {}).unwrap()
    };
    let of = |summary: &gemm_tune::tune::Summary| {
        let own = summary.ranking.iter().find(|one| one.configuration == configuration);
        own.map(|standing| standing.plan.nondeterministic)
    };
    let usual = tuned(family.clone());
    assert_eq!(of(&usual), None, "the record has no part in a run that does not allow it");
    let rule = "not (REDUCTION == 'atomic')";
    let pruned = usual.coverage[0].pruned.iter().find(|pruned| pruned.require == rule).unwrap();
    assert!(pruned.configurations > 0);
    assert!(pruned.because.contains("--allow-nondeterministic"), "{}", pruned.because);
    assert!(usual.ranking.iter().all(|standing| !standing.plan.nondeterministic));
    let allowed = tuned(family.allowing_nondeterministic());
    assert_eq!(of(&allowed), Some(true));
}

#[test]
fn what_won_before_is_tried_first_and_the_record_is_in_the_final_whatever_the_search() {
    let Some(compiler) = compiler_or_skip() else { return };
    let (families, templates) = built_in();
    let mut kit = Kit {
        families: families.into_iter().filter(|family| family.name == "coarsened").collect(),
        templates,
        compiler: Arc::new(compiler),
        threads: CompileThreads::new(jobs()).unwrap(),
        machine: Machine::Host,
        predictor: Arc::default(),
    };
    let problem = problem("40x30x20", Layout::Nn);
    let known =
        spaces(&kit.families, &kit.templates, &problem, &Device::cpu(), &Hints::default()).unwrap();
    let space = &known.families[0].space;
    let hint = |rank: usize| {
        let family = "coarsened".to_owned();
        Hint { family, configuration: space.get(rank).unwrap() }
    };
    let default = known.families[0].default.clone().unwrap();
    // Neither the default nor what comes right after it.
    let others: Vec<usize> =
        (5..space.len()).filter(|rank| Some(*rank) != space.rank(&default)).collect();
    let gone = Hint { family: "gone".to_owned(), configuration: default.clone() };
    let won = vec![gone, hint(others[0])];
    let start = WarmStart { record: Some(hint(others[1])), others: won };
    let hints = Hints { start, ..Hints::default() };
    let mut tuned = |fresh: bool, max_configs: usize| {
        let (search, max_configs) = (Search::Exhaustive, Some(max_configs));
        let settings = Settings { max_configs, fresh, search, ..Settings::default() };
        let (mut evaluated, mut announced) = (Vec::new(), 0);
        let on_event = &mut |event: TuneEvent<'_>| match event {
            TuneEvent::Started { hints, .. } => announced = hints,
            TuneEvent::Evaluated { configuration, .. } => evaluated.push(configuration.clone()),
            _ => {}
        };
        let stop = AtomicBool::new(false);
        let summary = tune(&problem, &hints, &mut kit, &settings, &stop, on_event).unwrap();
        let ranked = summary.ranking.iter().map(|standing| standing.configuration.clone());
        // What others are compared by is measured and told: the default, and what won before.
        let landmarks = summary.landmarks.iter().map(|landmark| &landmark.configuration);
        assert!(landmarks.clone().all(|one| evaluated.contains(one)));
        assert!(landmarks.clone().any(|one| *one == default));
        assert_eq!(landmarks.count(), evaluated.len());
        (evaluated, announced, ranked.collect::<Vec<_>>())
    };
    let (record, other) = (space.get(others[1]).unwrap(), space.get(others[0]).unwrap());
    let (evaluated, announced, _) = tuned(false, 3);
    assert_eq!((evaluated.len(), announced), (3, 2));
    for expected in [&default, &record, &other] {
        assert!(evaluated.contains(expected), "{expected}");
    }
    // Nothing known chooses, or there is no room for it: the record comes in the end.
    for (fresh, announced) in [(true, 0), (false, 2)] {
        let (evaluated, said, ranked) = tuned(fresh, 1);
        assert_eq!(evaluated, [default.clone(), record.clone()]);
        assert_eq!(said, announced);
        assert!(ranked.contains(&record), "{ranked:?}");
    }
}
