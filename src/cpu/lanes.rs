//! Lane masks: one bit for each of the 32 lanes of a warp.

/// The bit of each lane. Loops over lanes that test `mask & LANE_BITS[lane]` are vectorised, other than those that shift.
pub(super) const LANE_BITS: [u32; 32] = {
    let mut bits = [0; 32];
    let mut lane = 0;
    while lane < 32 {
        bits[lane] = 1 << lane;
        lane += 1;
    }
    bits
};

/// For each lane, the value of `a` where its bit in the mask is set, else that of `b`.
#[inline(always)]
pub(super) fn select<T: Copy>(mask: u32, a: &[T; 32], b: &[T; 32]) -> [T; 32] {
    let mut chosen = *b;
    for lane in 0..32 {
        chosen[lane] = if mask & LANE_BITS[lane] != 0 { a[lane] } else { b[lane] };
    }
    chosen
}

/// Iterator over the lanes of a mask.
pub(super) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        (rest != 0).then(|| {
            let lane = rest.trailing_zeros();
            rest &= rest - 1;
            lane as usize
        })
    })
}
