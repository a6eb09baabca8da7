//! The quotient of counts of tiles by which kernels of `wgmma` find their tile (`parts/wgmma_raster.cuh.tera`).

/// The largest count of blocks that the family's constraint allows.
const MOST: u32 = 1 << 20;

/// `(count + 0.5) / by` in binary32, as far off as `__fdividef` may be: 2 units in the last place
/// (CUDA Programming Guide, intrinsic functions).
fn quotients(count: u32, by: u32) -> impl Iterator<Item = f32> {
    let quotient = (count as f32 + 0.5) / by as f32;
    (-2..=2).map(move |ulps: i32| f32::from_bits(quotient.to_bits().wrapping_add_signed(ulps)))
}

#[test]
fn quotients_of_counts_of_tiles_are_exact() {
    let all_by = (1..3000).chain((3000..MOST).step_by(4099)).chain([MOST - 1, MOST]);
    for by in all_by {
        // Counts beside multiples are closest to another quotient; those of large quotients most of all.
        let multiples = (0..=MOST / by).rev().take(40).chain([1, 2]).map(|quotient| quotient * by);
        let counts = multiples.flat_map(|count| [count.saturating_sub(1), count]);
        for count in counts.filter(|count| *count <= MOST) {
            for quotient in quotients(count, by) {
                assert_eq!(quotient as u32, count / by, "{count} / {by}: {quotient}");
            }
        }
    }
}

#[test]
fn the_limit_of_counts_is_needed() {
    let count = (1 << 24) - 1;
    assert!(quotients(count, 1).any(|quotient| quotient as u32 != count));
}
