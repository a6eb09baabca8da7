//! Families without their large tiles, whose kernels take NVRTC and the `cpu` device the longest.

use gemm_tune::model::Value;
use gemm_tune::space::Family;

/// The most that a parameter may be: NVRTC unrolls all sums of a thread, for as many steps of K.
const MOST: [(&str, i64); 9] = [
    ("BM", 64),
    ("BN", 96),
    ("TM", 8),
    ("TN", 8),
    ("UNROLL", 8),
    ("TILE", 32),
    ("COARSENING", 8),
    ("LINES_PER_THREAD", 4),
    ("LINES_PER_WARP", 32),
];

/// The family without values that make large kernels.
pub(crate) fn with_small_tiles(family: &Family) -> Family {
    let mut family = family.clone();
    for (name, most) in MOST {
        if let Some(values) = family.parameters.get_mut(name) {
            values.retain(|value| !matches!(value, Value::Int(value) if *value > most));
        }
    }
    family
}
