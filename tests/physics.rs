//! Predicted times are possible: none is below the longest of an empty launch, the arithmetic at the peak rate and the
//! bytes at the data sheet's bandwidth (`devices/`), and no measured time is either.

use std::path::{Path, PathBuf};

use fastrand::Rng;
use gemm_tune::database::Database;
use gemm_tune::lookup::{Lookup, Question};
use gemm_tune::model::{CachePolicy, Configuration, Device, Dtype, Layout, Problem, Regime, Shape};
use gemm_tune::predict::{LearnedModel, Predictor, least_time};
use gemm_tune::render::Templates;
use gemm_tune::space::{Families, Family, LegalSpace};
use gemm_tune::tune::read_measured_times;

use crate::support::cases::cases;

const DATABASE: &str = "results/nvidia-h200.toml";

/// A problem as users have them: extents of 1 to 16384, few rows or columns, all layouts, some batches.
fn drawn(rng: &mut Rng) -> Problem {
    let mut extent = |most: f64| (most.powf(rng.f64())) as u64;
    let [m, n, k] = [16_384.0; 3].map(&mut extent);
    let (narrow, batch) = (extent(16.0), extent(64.0));
    let (m, n) = match rng.u8(..4) {
        0 => (narrow, n),
        1 => (m, narrow),
        _ => (m, n),
    };
    let layout = *rng.choice(Layout::ALL).unwrap();
    let batch = if rng.u8(..5) == 0 { batch.max(1) } else { 1 };
    Problem { layout, batch, ..Problem::new(Shape { m, n, k }, Dtype::F32) }
}

fn families() -> Vec<Family> {
    Families::built_in().unwrap().iter().cloned().collect()
}

fn predictor(families: &[Family], device: &Device) -> Predictor {
    let learned = LearnedModel::built_in(device).unwrap();
    Predictor::new(learned, families, &Templates::built_in().unwrap()).0
}

#[test]
fn no_prediction_is_below_what_is_possible() {
    let (families, device) = (families(), Device::h200());
    let predictor = predictor(&families, &device);
    let mut rng = Rng::with_seed(31);
    let mut least_ratio = f64::INFINITY;
    for _ in 0..10_000 {
        let problem = drawn(&mut rng);
        let least = least_time(&problem, &device, CachePolicy::Rotate);
        for family in families.iter().filter(|one| one.refusal(&problem, &device).is_none()) {
            let values = family
                .parameters
                .iter()
                .map(|(name, values)| (name.clone(), values[rng.usize(..values.len())].clone()));
            let configuration: Configuration = values.collect();
            let predicted = predictor.time((family, &configuration), &problem, &device);
            least_ratio = least_ratio.min(predicted.time.0 / least.0);
            assert!(
                predicted.time >= least,
                "{problem}: {} is predicted for {} {configuration}, {least} is the least",
                predicted.time,
                family.name
            );
        }
    }
    assert!(least_ratio < 1.01, "some predictions are at the limit: {least_ratio}");
}

#[test]
fn no_forecast_of_a_space_is_below_what_is_possible() {
    let (families, device) = (families(), Device::h200());
    let predictor = predictor(&families, &device);
    let mut rng = Rng::with_seed(32);
    for _ in 0..cases(3, 12) {
        let problem = drawn(&mut rng);
        let least = least_time(&problem, &device, CachePolicy::Rotate);
        let served = families.iter().filter(|one| one.refusal(&problem, &device).is_none());
        let spaces: Vec<(&Family, LegalSpace)> = served
            .map(|family| (family, LegalSpace::of(family, &problem, &device).unwrap()))
            .filter(|(_, space)| !space.is_empty())
            .collect();
        let asked: Vec<_> = spaces.iter().map(|(family, space)| (*family, space, None)).collect();
        for forecast in predictor.forecasts(&asked, &problem, &device).into_iter().flatten() {
            assert!(forecast.best >= least, "{problem}: {} {least}", forecast.best);
            let times = forecast.times.iter().flatten();
            assert!(times.min_by(|a, b| a.0.total_cmp(&b.0)).is_none_or(|time| *time >= least));
        }
    }
}

#[test]
fn no_answer_of_lookup_is_below_what_is_possible() {
    let (families, device) = (families(), Device::h200());
    let database = Database::load(DATABASE.as_ref()).unwrap();
    let templates = Templates::built_in().unwrap();
    let regime = Regime::default();
    let lookup = Lookup::new(database.records(), &families, &templates, &device, regime)
        .with_predictor(predictor(&families, &device));
    let mut rng = Rng::with_seed(33);
    for _ in 0..cases(300, 3000) {
        let problem = drawn(&mut rng);
        let Ok(answer) = lookup.answer(&Question::packed(problem)) else { continue };
        let least = least_time(&problem, &device, regime.cache);
        assert!(answer.predicted.is_none_or(|time| time >= least), "{problem}: {answer:?}");
    }
}

#[test]
fn no_measured_time_is_below_what_is_possible() {
    let journals = std::fs::read_dir("tests/data/journals").unwrap();
    let mut journals: Vec<PathBuf> = journals.map(|entry| entry.unwrap().path()).collect();
    for device in Device::known() {
        let results = Path::new("results").join(device.slug());
        for record in Database::load(&results.with_extension("toml")).unwrap().records() {
            let problem = Problem::try_from(&record.problem).unwrap();
            let least = least_time(&problem, &device, record.regime().unwrap().cache);
            assert!(record.median() > least, "{problem}: {} {least}", record.median());
        }
        let times = results.with_extension("times.jsonl.gz");
        for file in std::mem::take(&mut journals).into_iter().chain([times]) {
            let measured = read_measured_times(&file).unwrap();
            assert_eq!(measured.device, device.name);
            for one in measured.problems {
                let least = least_time(&one.problem, &device, measured.regime.cache);
                for (_, configuration, time) in one.times {
                    assert!(time > least, "{}: {configuration}: {time} {least}", one.problem);
                }
            }
        }
    }
}
