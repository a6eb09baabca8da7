//! Learned models of made-up times, and their files.

use std::sync::LazyLock;

use crate::model::{
    ComputeCapability, Configuration, Device, Dtype, GemmType, Micros, Problem, Shape, Storage,
    Value,
};
use crate::predict::{
    KernelFeatures, LearnedModel, PredictionSource, Predictor, ProblemFeatures, ProblemTimes,
    TrainingTimes, cost,
};
use crate::render::Templates;
use crate::space::{Families, Family, LegalSpace};
use crate::trees::Precision;

fn family() -> Family {
    Families::built_in().unwrap().get("pipelined").unwrap().clone()
}

fn problem(m: u64, n: u64, k: u64) -> Problem {
    Problem::new(Shape { m, n, k }, Dtype::F32)
}

/// A time that the analytic model explains in part: more stages are slower, the more so the deeper the product.
fn time(family: &Family, configuration: &Configuration, problem: &Problem) -> Micros {
    let device = Device::h200();
    let cost = cost((family, configuration), problem, &device);
    let modelled = cost.time(problem, device.max_sm_clock_mhz);
    let stages = configuration.get("STAGES").and_then(Value::number).unwrap();
    let depth = (problem.shape.k as f64 / 256.0).log2();
    Micros(modelled.0 * (0.03 * stages * depth).exp())
}

fn measured(family: &Family, problem: Problem) -> ProblemTimes {
    let space = LegalSpace::of(family, &problem, &Device::h200()).unwrap();
    let ranks = (0..space.len()).step_by((space.len() / 60).max(1));
    let times = ranks.map(|rank| {
        let configuration = space.get(rank).unwrap();
        let time = time(family, &configuration, &problem);
        (family.name.clone(), configuration, time)
    });
    ProblemTimes { problem, times: times.collect() }
}

/// Trained once for all tests.
static LEARNED: LazyLock<LearnedModel> = LazyLock::new(|| {
    let family = family();
    let depths = [256, 1024, 4096, 8192];
    let problems = [256, 512, 1000].map(|m| depths.map(|k| problem(m, 768, k)));
    let all = problems.as_flattened().iter().map(|problem| measured(&family, *problem));
    learn(&family, &all.collect::<Vec<_>>())
});

fn learn(family: &Family, all: &[ProblemTimes]) -> LearnedModel {
    let templates = Templates::built_in().unwrap();
    LearnedModel::learn(&Device::h200(), std::slice::from_ref(family), &templates, all)
}

fn predictor(learned: LearnedModel, family: &Family) -> Predictor {
    let templates = Templates::built_in().unwrap();
    let (predictor, stale) = Predictor::new(learned, std::slice::from_ref(family), &templates);
    assert!(stale.is_empty(), "{stale:?}");
    predictor
}

#[test]
fn errors_of_the_analytic_model_are_learned_for_other_problems() {
    let (family, device) = (family(), Device::h200());
    let predictor = predictor(LEARNED.clone(), &family);
    let held_out = measured(&family, problem(640, 512, 3000));
    let mut errors = Vec::new();
    for (_, configuration, time) in &held_out.times {
        let predicted = predictor.time((&family, configuration), &held_out.problem, &device);
        assert_eq!(predicted.source, PredictionSource::Learned);
        errors.push((predicted.time.0 / time.0).ln().abs());
    }
    errors.sort_by(f64::total_cmp);
    // The analytic model alone is off by 0.21 to 0.64.
    assert!(errors[errors.len() * 9 / 10] < 0.1, "{errors:?}");
    let ranking = predictor.ranking(&[family], &device, &held_out, &[1, 10]).unwrap();
    assert!(ranking.over_best[0] < 1.1 && ranking.over_best[1] < 1.02, "{ranking:?}");
    assert!(ranking.correlation.is_some_and(|own| own > 0.9), "{ranking:?}");
}

#[test]
fn a_file_holds_the_model_and_others_are_refused() {
    let (family, device) = (family(), Device::h200());
    let learned = LEARNED.clone();
    let text = learned.text().unwrap();
    assert_eq!(LearnedModel::parse(&text).unwrap(), learned);
    let newer = text.replacen("\"gemm_tune_model\":7", "\"gemm_tune_model\":99", 1);
    for (text, words) in [
        ("", "no file of `gemm-tune learn`: EOF"),
        ("{}", "no file of `gemm-tune learn`: missing field"),
        (newer.as_str(), "its form is 99"),
    ] {
        let error = LearnedModel::parse(text).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    // Not for another device or GEMM type, nor without one of its parameters.
    let (problem, predictor) = (problem(64, 64, 64), predictor(learned.clone(), &family));
    let source = |problem: &Problem, device: &Device| {
        predictor.time((&family, family.default()), problem, device).source
    };
    assert_eq!(source(&problem, &device), PredictionSource::Learned);
    let other = Device { name: "another".to_owned(), ..device.clone() };
    assert_eq!(source(&problem, &other), PredictionSource::Analytic);
    let other = Problem { types: GemmType::of(Dtype::F16), ..problem };
    assert_eq!(source(&other, &device), PredictionSource::Analytic);
    let mut poorer = family.clone();
    poorer.parameters.shift_remove("STAGES");
    assert_eq!(Predictor::new(learned, &[poorer], &Templates::built_in().unwrap()).1.len(), 1);
}

#[test]
fn a_model_of_other_code_is_not_used_until_it_is_stamped_anew() {
    let (family, device) = (family(), Device::h200());
    let templates = Templates::built_in().unwrap();
    let mut learned = LEARNED.clone();
    let model = &mut learned.families.get_mut(&family.name).unwrap()[0];
    model.template_hash = "0123456789abcdef".to_owned();
    let families = std::slice::from_ref(&family);
    let (predictor, stale) = Predictor::new(learned.clone(), families, &templates);
    let [stale] = stale.as_slice() else { panic!("{stale:?}") };
    assert!(stale.to_string().contains("`pipelined` belongs to other code"), "{stale}");
    assert!(predictor.family(&family, &problem(64, 64, 64), &device).is_none());

    let hash = templates.hash(&family);
    assert_eq!(learned.restamp("pipelined", "fedcba9876543210", &hash), 0);
    assert_eq!(learned.restamp("pipelined", "0123456789abcdef", &hash), 1);
    let (predictor, stale) = Predictor::new(learned, families, &templates);
    assert!(stale.is_empty());
    assert!(predictor.family(&family, &problem(64, 64, 64), &device).is_some());
}

#[test]
fn files_of_former_versions_are_read_as_models_of_unknown_code() {
    let family = family();
    let learned = LEARNED.clone();
    let mut old = serde_json::to_value(&learned.families[&family.name][0]).unwrap();
    old.as_object_mut().unwrap().remove("template_hash");
    // Decimal numbers, as they were then.
    old["boosted"] = serde_json::json!({
        "base": 0.5, "trees": [{ "columns": vec![3; 16], "cuts": vec![0.5; 16], "leaves": vec![0.1; 16] }]
    });
    old["parameters"] = family.parameters.keys().cloned().collect();
    let families = std::collections::BTreeMap::from([(&family.name, old)]);
    let file = serde_json::json!({
        "gemm_tune_experience": 3, "device": learned.device, "families": families
    });
    let text = learned.text().unwrap();
    let with_other_columns = text.replacen("\"gemm_tune_model\":7", "\"gemm_tune_model\":4", 1);
    for former in [file.to_string(), with_other_columns] {
        let former = LearnedModel::parse(&former).unwrap();
        let templates = Templates::built_in().unwrap();
        let family = std::slice::from_ref(&family);
        let (predictor, stale) = Predictor::new(former, family, &templates);
        assert_eq!(stale.len(), 1, "its code is unknown");
        assert!(predictor.family(&family[0], &problem(64, 64, 64), &Device::h200()).is_none());
    }
}

#[test]
fn few_problems_make_no_model() {
    let family = family();
    let few: Vec<ProblemTimes> =
        (1..8).map(|at| measured(&family, problem(128 * at, 512, 512))).collect();
    assert!(learn(&family, &few).families.is_empty());
}

#[test]
fn every_known_gpu_has_files() {
    let known = Device::known().map(|device| device.slug());
    assert_eq!(known, crate::files::SHIPPED_GPUS.map(|gpu| gpu.slug.to_owned()));
}

#[test]
fn the_built_in_model_fits_the_built_in_families() {
    let device = Device::h200();
    let learned = LearnedModel::built_in(&device).unwrap();
    assert_eq!(learned.device, device.name);
    let families: Vec<Family> = Families::built_in().unwrap().iter().cloned().collect();
    let (predictor, stale) =
        Predictor::new(learned.clone(), &families, &Templates::built_in().unwrap());
    assert!(stale.is_empty(), "{stale:?}");
    for (name, models) in &learned.families {
        let family = families.iter().find(|family| family.name == *name).unwrap();
        for model in models {
            let problem = Problem { types: model.types, ..problem(64, 64, 64) };
            let found = predictor.family(family, &problem, &device);
            assert!(found.is_some(), "{name} of {}: learn it again", model.types);
        }
    }
    // The cpu device models the times of that GPU.
    assert!(LearnedModel::built_in(&Device::cpu()).unwrap() == learned);
}

#[test]
fn another_device_of_the_capability_begins_with_a_model_that_ships() {
    let known = Device::h200();
    let learned = LearnedModel::built_in(&known).unwrap();
    let other = Device { name: "NVIDIA GH200".to_owned(), ..known.clone() };
    let own = LearnedModel::built_in(&other).unwrap();
    assert!(own.device == other.name && own.libraries.is_empty());
    for (family, models) in &own.families {
        for (own, known) in models.iter().zip(&learned.families[family]) {
            assert!(own.error_percent > known.error_percent, "{family}");
            assert!(own.boosted == known.boosted, "{family}");
        }
    }
    let compute_capability = ComputeCapability { major: 8, minor: 9 };
    let older = Device { compute_capability, ..other };
    assert!(LearnedModel::built_in(&older).unwrap() == LearnedModel::default());
    assert!(LearnedModel::built_in(&Device::h100()).unwrap().device == Device::h100().name);
}

#[test]
fn a_model_of_another_device_and_few_problems_are_better_than_either() {
    let (family, templates) = (family(), Templates::built_in().unwrap());
    let device = Device { name: "NVIDIA GH200".to_owned(), ..Device::h200() };
    let all = std::slice::from_ref(&family);
    let base = LEARNED.clone().as_base_for(&device);
    let slower = |problem| {
        let mut own = measured(&family, problem);
        own.times.iter_mut().for_each(|(.., time)| time.0 *= 1.3);
        own
    };
    let few: Vec<ProblemTimes> = (1..9).map(|at| slower(problem(128 * at, 512, 2000))).collect();
    let held_out = slower(problem(640, 800, 6000));
    let error = |learned| error_of(learned, (&family, &device), &held_out);
    let refined = error(base.refined(&device, all, &templates, few.as_slice().into()));
    let fresh = error(LearnedModel::learn(&device, all, &templates, &few));
    let alone = error(base.clone());
    assert!(refined < 0.8 * fresh && refined < 0.5 * alone, "{refined} {fresh} {alone}");
    // What nothing was measured of stays.
    assert!(base.refined(&device, all, &templates, TrainingTimes::default()) == base);
}

#[test]
fn kernels_are_predicted_together_as_one_by_one_and_by_the_places_of_their_values() {
    let (family, device) = (family(), Device::h200());
    let predictor = predictor(LEARNED.clone(), &family);
    let problem = problem(640, 512, 3000);
    let own = predictor.family(&family, &problem, &device).unwrap();
    let space = LegalSpace::of(&family, &problem, &device).unwrap();
    let prepared = |rank: usize| {
        let configuration = space.get(rank).unwrap();
        let cost = cost((&family, &configuration), &problem, &device);
        (own.prepare(&configuration, &cost), cost, rank)
    };
    let all: Vec<_> = (0..space.len()).step_by(space.len() / 20).map(prepared).collect();
    let features = ProblemFeatures::of(&problem, &Storage::packed(&problem));
    let kernels: Vec<&KernelFeatures> = all.iter().map(|(kernel, ..)| kernel).collect();
    let together = own.model.times(&kernels, &features, &device);
    assert_eq!(together.len(), all.len());
    let columns = own.columns(space.parameters());
    for ((kernel, cost, rank), time) in all.iter().zip(together) {
        assert_eq!(time, own.model.times(&[kernel], &features, &device)[0]);
        let indices = space.indices(*rank).into_iter();
        assert_eq!(own.times_of((&columns, cost), &features, indices, Precision::Full), [time]);
    }
}

#[test]
fn coarse_predictions_keep_a_kernel_that_is_nearly_the_best_of_all() {
    let (family, device) = (family(), Device::h200());
    let predictor = predictor(LearnedModel::built_in(&device).unwrap(), &family);
    let some = problem(64, 64, 64);
    let own = predictor.family(&family, &some, &device).unwrap();
    let kernels: Vec<KernelFeatures> = own
        .model
        .kernels(&family)
        .map(|kernel| own.prepare(&kernel, &cost((&family, &kernel), &some, &device)))
        .collect();
    let kernels: Vec<&KernelFeatures> = kernels.iter().collect();
    let mut lost = Vec::new();
    let mut random = fastrand::Rng::with_seed(1);
    let limits = crate::predict::DrawLimits::default();
    while lost.len() < 200 {
        let drawn = crate::predict::draw(&mut random, some.types, &limits).unwrap();
        let features = ProblemFeatures::of(&drawn, &Storage::packed(&drawn));
        let times = own.model.times(&kernels, &features, &device);
        let coarse = own.model.coarse_times(&kernels, &features, &device);
        let mut places: Vec<usize> = (0..kernels.len()).collect();
        places.sort_by(|a, b| coarse[*a].0.total_cmp(&coarse[*b].0));
        let least = |places: &[usize]| {
            places.iter().map(|place| times[*place].0).fold(f64::INFINITY, f64::min)
        };
        lost.push((least(&places[..24]) / least(&places)).ln());
    }
    let mean = lost.iter().sum::<f64>() / lost.len() as f64;
    let most = lost.iter().copied().fold(0.0, f64::max);
    assert!(mean < 0.003 && most < 0.1, "{mean} {most}");
}

#[test]
fn times_of_former_kernels_say_what_a_few_of_todays_do_not() {
    let (family, device) = (family(), Device::h200());
    let templates = Templates::built_in().unwrap();
    let all = std::slice::from_ref(&family);
    let few: Vec<ProblemTimes> =
        (1..9).map(|at| measured(&family, problem(128 * at, 512, 2000))).collect();
    let slower = |k| {
        let mut own = measured(&family, problem(384, 768, k));
        own.times.iter_mut().for_each(|(.., time)| time.0 *= 1.03);
        own
    };
    let former: Vec<ProblemTimes> =
        [256, 512, 1024, 2000, 4096, 8192].into_iter().map(slower).collect();
    let held_out = measured(&family, problem(640, 800, 6000));
    let error = |former: &[ProblemTimes]| {
        let times = TrainingTimes { measured: &few, former };
        let learned = LearnedModel::default().refined(&device, all, &templates, times);
        assert_eq!(learned.families[&family.name][0].problems, few.len());
        error_of(learned, (&family, &device), &held_out)
    };
    let (with, without) = (error(&former), error(&[]));
    assert!(with < 0.7 * without, "{with} {without}");
}

#[test]
fn former_times_count_like_todays_where_these_are_too_few() {
    let (family, device) = (family(), Device::h200());
    let templates = Templates::built_in().unwrap();
    let all = std::slice::from_ref(&family);
    let of = |from: u64, to: u64| -> Vec<ProblemTimes> {
        (from..to).map(|at| measured(&family, problem(128 * at, 512, 2000))).collect()
    };
    let learn = |measured: &[ProblemTimes], former: &[ProblemTimes]| {
        let times = TrainingTimes { measured, former };
        let learned = LearnedModel::default().refined(&device, all, &templates, times);
        learned.families.get(&family.name).map(|models| models[0].clone())
    };
    let together = learn(&of(1, 9), &[]).unwrap();
    for todays in [0, 3] {
        let model = learn(&of(1, 1 + todays), &of(1 + todays, 9)).unwrap();
        assert_eq!(model.problems, 8, "{todays}");
        assert_eq!(model.boosted, together.boosted, "{todays}");
    }
    assert!(learn(&of(1, 4), &of(4, 7)).is_none(), "six problems are too few");
}

/// The mean error of predictions, as a logarithm.
fn error_of(
    learned: LearnedModel,
    (family, device): (&Family, &Device),
    held_out: &ProblemTimes,
) -> f64 {
    let predictor = predictor(learned, family);
    let error = |(_, configuration, time): &(String, Configuration, Micros)| {
        let predicted = predictor.time((family, configuration), &held_out.problem, device);
        (predicted.time.0 / time.0).ln().abs()
    };
    held_out.times.iter().map(error).sum::<f64>() / held_out.times.len() as f64
}
