//! Modelled times of the cpu device beside times measured on an H200: kernels of seven journals, 100 of each main
//! family drawn by a seed, and those of two tables of the ladder (`tests/data/loads.jsonl.gz`). No learned model
//! saw these problems, nor did the choice of the weight of the learned time beside the modelled one.

#[path = "../examples/modelled_times.rs"]
#[allow(dead_code, reason = "an example, of which the printing is not used here")]
mod example;

use example::{SetQuality, qualities, read_loads};

fn all() -> Vec<SetQuality> {
    qualities(&read_loads("tests/data/loads.jsonl.gz".as_ref()).unwrap()).unwrap()
}

#[test]
fn families_are_in_the_measured_order() {
    let all = all();
    let ladder: Vec<&SetQuality> =
        all.iter().filter(|one| one.set.starts_with("ladder, ")).collect();
    assert_eq!(ladder.len(), 24);
    for one in ladder {
        assert_eq!(one.is_ordered, [true, true], "{}", one.set);
    }
    for one in &all {
        assert!(one.has_best_family[1], "{}", one.set);
    }
}

#[test]
fn the_first_choice_is_nearly_the_best() {
    for one in all().iter().filter(|one| !one.set.starts_with("ladder, ")) {
        assert!(one.first_choice[1] < 1.15, "{}: {:.2}", one.set, one.first_choice[1]);
    }
}

/// The best rank correlations of a model that shipped, less 0.03: a model that ranks worse must be meant. What the cpu
/// device gives is at least 0.9.
#[test]
fn kernels_of_a_family_are_ranked_as_well_as_before() {
    let all = all();
    for (set, least) in RANK_CORRELATIONS {
        let one = all.iter().find(|one| one.set == set).unwrap_or_else(|| panic!("no {set}"));
        for (found, least) in one.correlation.into_iter().zip(least) {
            assert!(found > least - 0.03, "{set}: {found:.3} is below {least:.3}");
        }
        assert!(one.correlation[1] >= 0.9, "{set}: {:.3}", one.correlation[1]);
    }
}

/// From the loads alone, and as the cpu device gives times.
const RANK_CORRELATIONS: [(&str, [f64; 2]); 7] = [
    ("127x129x131 f32 tn", [0.654, 0.948]),
    ("1x4096x4096 f32 nn", [0.888, 0.955]),
    ("256x256x256 f32 nn", [0.792, 0.970]),
    ("32x32x65536 f32 nn", [0.960, 0.980]),
    ("4096x1x4096 f32 nn", [0.650, 0.916]),
    ("4096x4096x1024 f32 nn", [0.414, 0.915]),
    ("64x64x64 f32 nn x256", [0.815, 0.954]),
];
