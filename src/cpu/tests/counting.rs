//! Bank conflicts of accesses with known values.

use crate::cpu::step_counts::StepCounts;

/// Wavefronts of vector accesses, as counted on an H200, for maps of lanes to addresses.
#[test]
fn vectors_are_served_by_half_and_quarter_warps() {
    let wavefronts = |bytes: u32, place: fn(u64) -> u64| {
        let mut counts = StepCounts::default();
        let addresses = std::array::from_fn(|lane| u64::from(bytes) * place(lane as u64));
        counts.shared(&addresses, u32::MAX, bytes);
        counts.memory.wavefronts
    };
    for (bytes, place, expected) in [
        (4, (|lane| lane) as fn(u64) -> u64, 1),
        (4, |lane| 2 * lane, 2),
        (4, |lane| 32 * lane, 32),
        (4, |_| 7, 1),
        (8, |lane| lane, 2),
        (8, |lane| lane / 2, 1),
        (16, |lane| lane, 4),
        (16, |_| 3, 1),
        (16, |lane| lane % 4, 4),
        (16, |lane| lane / 4, 2),
        (16, |lane| lane / 8, 2),
        (16, |lane| lane % 8, 4),
        (16, |lane| 2 * (lane / 8) + lane % 2, 2),
        (16, |lane| lane / 2 % 4, 2),
    ] {
        assert_eq!(
            wavefronts(bytes, place),
            expected,
            "{bytes}: {:?}",
            (0..32).map(place).collect::<Vec<_>>()
        );
    }
}
