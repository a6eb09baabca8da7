//! What is learned of kernels whose times are made up, and what becomes of it in a file.

use super::*;
use crate::model::{Dtype, Shape, Value};
use crate::space::{Families, LegalSpace};

fn family() -> Family {
    Families::built_in().unwrap().get("pipelined").unwrap().clone()
}

fn problem(m: u64, n: u64, k: u64) -> Problem {
    Problem::new(Shape { m, n, k }, Dtype::F32)
}

/// A time of which the model of cost knows one part: more stages are worse, the more so the deeper
/// the product.
fn time(family: &Family, configuration: &Configuration, problem: &Problem) -> Micros {
    let device = Device::h200();
    let modelled =
        cost(family, configuration, problem, &device).time(problem, device.max_sm_clock_mhz);
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

fn learned(family: &Family) -> LearnedModel {
    let mut all = Vec::new();
    for m in [256, 512, 1000] {
        for k in [256, 1024, 4096, 8192] {
            all.push(measured(family, problem(m, 768, k)));
        }
    }
    LearnedModel::learn(&Device::h200(), std::slice::from_ref(family), &all)
}

#[test]
fn what_the_model_is_off_by_is_learned_and_told_of_other_problems() {
    let (family, device) = (family(), Device::h200());
    let experience = learned(&family);
    let predictor = experience.predictor(&family, &device).unwrap();
    let held_out = measured(&family, problem(640, 512, 3000));
    let storage = Storage::packed(&held_out.problem);
    let mut errors = Vec::new();
    for (_, configuration, time) in &held_out.times {
        let cost = cost(&family, configuration, &held_out.problem, &device);
        let expected = predictor.expects(configuration, &cost, (&held_out.problem, &storage));
        errors.push((expected.0 / time.0).ln().abs());
    }
    errors.sort_by(f64::total_cmp);
    // The model alone is off by 0.21 to 0.64.
    assert!(errors[errors.len() * 9 / 10] < 0.1, "{errors:?}");
    let found = experience.found_by(&[family], &device, &held_out, &[1, 10]).unwrap();
    assert!(found[0] < 1.1 && found[1] < 1.02, "{found:?}");
}

#[test]
fn a_file_holds_what_was_learned_and_others_are_refused() {
    let (family, device) = (family(), Device::h200());
    let experience = learned(&family);
    let text = experience.text().unwrap();
    assert_eq!(LearnedModel::parse(&text).unwrap(), experience);
    let newer = text.replacen(
        &format!("\"gemm_tune_experience\":{VERSION}"),
        "\"gemm_tune_experience\":99",
        1,
    );
    for (text, words) in [
        ("", "no file of `gemm-tune learn`: EOF"),
        ("{}", "no file of `gemm-tune learn`: missing field"),
        (newer.as_str(), "its form is 99"),
    ] {
        let error = LearnedModel::parse(text).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    // Of another device, or of a parameter that is no more, it tells nothing.
    let other = Device { name: "another".to_owned(), ..device.clone() };
    assert!(experience.predictor(&family, &other).is_none());
    let mut poorer = family.clone();
    poorer.parameters.shift_remove("STAGES");
    assert!(experience.predictor(&poorer, &device).is_none());
    assert!(experience.predictor(&family, &device).is_some());
}

#[test]
fn few_problems_teach_nothing() {
    let family = family();
    let few: Vec<ProblemTimes> = (1..FEWEST_PROBLEMS as u64)
        .map(|at| measured(&family, problem(128 * at, 512, 512)))
        .collect();
    let experience = LearnedModel::learn(&Device::h200(), &[family], &few);
    assert!(experience.families.is_empty());
}

#[test]
fn what_comes_with_the_program_fits_its_families() {
    let device = Device::h200();
    let experience = LearnedModel::built_in(&device).unwrap();
    assert_eq!(experience.device, device.name);
    let families = Families::built_in().unwrap();
    for name in experience.families.keys() {
        let family = families.get(name).unwrap();
        assert!(experience.predictor(family, &device).is_some(), "{name}: learn it again");
    }
    assert_eq!(LearnedModel::built_in(&Device::cpu()).unwrap(), LearnedModel::default());
}

#[test]
fn kernels_are_expected_together_as_they_are_one_by_one() {
    let (family, device) = (family(), Device::h200());
    let experience = learned(&family);
    let predictor = experience.predictor(&family, &device).unwrap();
    let problem = problem(640, 512, 3000);
    let space = LegalSpace::of(&family, &problem, &device).unwrap();
    let known = |rank: usize| {
        let configuration = space.get(rank).unwrap();
        let cost = cost(&family, &configuration, &problem, &device);
        (predictor.knows(&configuration, &cost), cost, rank)
    };
    let known: Vec<_> = (0..space.len()).step_by(space.len() / 20).map(known).collect();
    let asked = ProblemFeatures::of(&problem, &Storage::packed(&problem));
    let kernels: Vec<&KernelFeatures> = known.iter().map(|(known, ..)| known).collect();
    let together = predictor.family_model().expects_each(&kernels, &asked, &device);
    assert_eq!(together.len(), known.len());
    let of_space = predictor.of_space(space.parameters());
    for ((known, cost, rank), time) in known.iter().zip(together) {
        assert_eq!(time, predictor.family_model().expects(known, &asked, &device));
        let indices = space.indices(*rank).unwrap();
        assert_eq!(time, of_space.alike(cost, &asked).expects(&indices));
    }
}

/// Of a family_model of few kernels, for problems that had no part in choosing the lists.
#[test]
fn one_of_a_short_list_is_nearly_the_best_of_all() {
    let (family, device) = (family(), Device::h200());
    let experience = LearnedModel::built_in(&device).unwrap();
    let family_model = experience.predictor(&family, &device).unwrap().family_model().clone();
    let (mut lost, mut asked_about) = (Vec::new(), 0);
    let shapes = [
        (100, 700, 3000),
        (4096, 4096, 1024),
        (257, 1024, 64),
        (8000, 200, 500),
        (512, 333, 512),
        (1000, 1000, 777),
        (90, 1111, 2222),
        (3001, 2050, 130),
    ];
    for (m, n, k) in shapes {
        let problem = problem(m, n, k);
        let times =
            kernel_pool::Pool::of((&family_model, &family), &device, &problem).times(&problem);
        let best = times.iter().copied().fold(f32::INFINITY, f32::min);
        let list = family_model.shortlist(&problem, &Storage::packed(&problem)).unwrap();
        let listed = list.iter().map(|kernel| times[usize::from(*kernel)]);
        lost.push(listed.fold(f32::INFINITY, f32::min) - best);
        asked_about += list.len();
    }
    assert!(lost.iter().all(|lost| *lost < 0.05), "{lost:?}");
    assert!(asked_about <= shapes.len() * shortlists::MOST, "{asked_about}");
    // Too small, too large, or several at once: there is no list.
    for (m, batch) in [(8, 1), (1 << 20, 1), (512, 2)] {
        let problem = Problem { batch, ..problem(m, 512, 512) };
        assert!(family_model.shortlist(&problem, &Storage::packed(&problem)).is_none());
    }
    // Rows that lie apart are of other vectors than what they hold, which has its own list.
    let problem = problem(512, 512, 512);
    let packed = Storage::packed(&problem);
    let padded = Storage { lda: 513, ..packed };
    assert!(family_model.shortlist(&problem, &padded).is_some());
    assert_ne!(
        family_model.shortlist(&problem, &padded),
        family_model.shortlist(&problem, &packed)
    );
}
