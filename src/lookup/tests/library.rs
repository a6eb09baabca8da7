//! The library as a candidate: by records and by the forecast.

use super::*;
use crate::database::StoredBaseline;
use crate::gpu::LibraryAlgorithm;
use crate::predict::{
    LIBRARY_TILES, LearnedModel, LibraryChoice, LibraryCosts, LibraryModel, Predictor,
};

const SHAPE: &str = "512x384x256";

/// A record for which the library took this part of the kernel's time.
fn recorded(share: f64, name: &str, algorithm: LibraryAlgorithm) -> Record {
    let problem = problem(SHAPE);
    let configuration = configuration("tiled", &problem, 500);
    let mut own = record(&problem, &Device::h200(), ("tiled", &configuration), 100.0);
    let (name, median_us) = (name.to_owned(), 100.0 * share);
    let all = Vec::new();
    own.baseline = Some(StoredBaseline { name, median_us, speedup: share, algorithm, all });
    own
}

fn lookup(record: &Record) -> Lookup {
    let templates = Templates::built_in().unwrap();
    Lookup::new([record], &families(), &templates, &Device::h200(), Regime::default())
}

/// A forecast with one cost for each product.
fn forecasting(lookup: Lookup, us: f64) -> Lookup {
    let costs = LibraryCosts {
        launch_us: us,
        alone: 1.0,
        wave_us: 0.0,
        byte_us: 0.0,
        split_us: 0.0,
        part_us: 0.0,
        step_us: [0.0; LIBRARY_TILES.len()],
    };
    let types = problem(SHAPE).types;
    let algorithm = LibraryChoice::Best;
    let model = LibraryModel { types, algorithm, error_percent: 12.0, costs, known: Vec::new() };
    let mut learned = LearnedModel::default();
    learned.device = Device::h200().name;
    learned.libraries = vec![model];
    let (predictor, _) = Predictor::new(learned, &families(), &Templates::built_in().unwrap());
    lookup.with_predictor(predictor)
}

#[test]
fn a_recorded_time_of_the_library_counts_where_it_is_clearly_lower() {
    let name = "cuBLASLt, best of 16 (cublasLt#66 tile 12 stages 35 split-k 1)";
    let question = Question::packed(problem(SHAPE));
    for (share, is_preferred) in [(0.9, true), (0.995, false), (1.2, false)] {
        let lookup = lookup(&recorded(share, name, LibraryAlgorithm::new()));
        let answer = lookup.answer(&question).unwrap();
        let library = lookup.library(&question, &answer).unwrap();
        assert_eq!((library.is_preferred, library.is_measured), (is_preferred, true), "{share}");
        // Of an earlier record the name has the numbers.
        assert_eq!(library.algorithm.get("stages"), Some(&35));
        // The workspace that such an algorithm needs is not known.
        let little = lookup.library(&question.within(1000), &answer).unwrap();
        assert!(!little.is_preferred);
    }
    let numbers = [("id", 66), ("workspace_bytes", 512)];
    let algorithm = numbers.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
    let lookup = lookup(&recorded(0.9, name, algorithm));
    let answer = lookup.answer(&question).unwrap();
    let library = lookup.library(&question.within(512), &answer).unwrap();
    assert!(library.is_preferred);
    let told = library.against(answer.predicted);
    let expected =
        "cuBLASLt is faster here: 90.00 µs measured against 100.0 µs, algorithm cublasLt#66";
    assert_eq!(told, expected);
    assert!(!lookup.library(&question.within(256), &answer).unwrap().is_preferred);
}

#[test]
fn the_library_is_preferred_unless_a_kernel_is_predicted_to_be_clearly_faster() {
    let record = recorded(1.2, "cuBLAS", LibraryAlgorithm::new());
    let question = Question::packed(problem("500x400x300"));
    let time = lookup(&record).answer(&question).unwrap().predicted.unwrap().0;
    // A kernel is preferred where its predicted time is less by 8 %.
    for (share, is_preferred) in [(0.9, true), (1.07, true), (1.09, false)] {
        let lookup = forecasting(lookup(&record), share * time);
        let answer = lookup.answer(&question).unwrap();
        let library = lookup.library(&question, &answer).unwrap();
        assert_eq!((library.is_preferred, library.is_measured), (is_preferred, false), "{share}");
        assert!(library.algorithm.is_empty());
        assert!(!lookup.library(&question.within(0), &answer).unwrap().is_preferred);
    }
    let lookup = forecasting(lookup(&record), 1e-3);
    let answer = lookup.answer(&question).unwrap();
    // The time is possible on the device.
    let time = lookup.library(&question, &answer).unwrap().time;
    let possible = least_time(&question.problem, &Device::h200(), CachePolicy::Rotate);
    assert_eq!(time, possible);
    // Neither for an epilogue, of which nothing is known, nor for what no routine computes.
    for epilogue in ["relu", "silu"] {
        let problem = Problem { epilogue: epilogue.parse().unwrap(), ..question.problem };
        assert_eq!(lookup.library(&Question::packed(problem), &answer), None, "{epilogue}");
    }
}
