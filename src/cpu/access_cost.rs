//! Cost of one access of a warp: sectors of global memory, wavefronts of shared memory.

use super::lanes::lanes;

/// Distinct sectors of 32 bytes of global memory that an access touches.
pub(super) fn sectors(addresses: &[u64; 32], mask: u32, bytes: u32) -> u64 {
    let mut sectors = [0; 64];
    let mut found = 0;
    for lane in lanes(mask) {
        let first = addresses[lane] / 32;
        let last = (addresses[lane] + u64::from(bytes) - 1) / 32;
        for sector in [first, last] {
            if !sectors[..found].contains(&sector) {
                sectors[found] = sector;
                found += 1;
            }
        }
    }
    found as u64
}

/// Wavefronts of an access to shared memory, and the number that a layout without bank conflicts
/// needs.
///
/// The hardware serves accesses of 8 bytes half a warp at a time, and accesses of 16 bytes a
/// quarter at a time. It serves two adjacent groups together where each lane has the address of its
/// neighbour, or each the address of its neighbour but one. This rule reproduces the wavefronts
/// that an H200 counts for `LDS.128` under four maps of lanes to addresses (4, 2, 2 and 2). A
/// single address for all lanes costs one wavefront.
pub(super) fn wavefronts(addresses: &[u64; 32], mask: u32, bytes: u32) -> (u64, u64) {
    let mut wavefronts = 0;
    let mut needed = 0;
    for (first, last) in groups(addresses, mask, bytes) {
        let group = mask & group_mask(first, last);
        if group != 0 {
            needed += 1;
            wavefronts += passes(addresses, group, bytes);
        }
    }
    (wavefronts, needed)
}

/// Ranges of lanes whose accesses the hardware serves together.
fn groups(addresses: &[u64; 32], mask: u32, bytes: u32) -> Vec<(usize, usize)> {
    let width = match bytes {
        0..=4 => 32,
        5..=8 => 16,
        _ => 8,
    };
    if width == 32 || uniform(addresses, mask) {
        return vec![(0, 32)];
    }
    let mut groups = Vec::with_capacity(4);
    for first in (0..32).step_by(2 * width) {
        let (middle, last) = (first + width, first + 2 * width);
        if shares_addresses(addresses, mask, (first, last)) {
            groups.push((first, last));
        } else {
            groups.extend([(first, middle), (middle, last)]);
        }
    }
    groups
}

fn group_mask(first: usize, last: usize) -> u32 {
    ((1_u64 << last) - (1_u64 << first)) as u32
}

fn uniform(addresses: &[u64; 32], mask: u32) -> bool {
    let first = addresses[mask.trailing_zeros() as usize & 31];
    lanes(mask).all(|lane| addresses[lane] == first)
}

fn shares_addresses(addresses: &[u64; 32], mask: u32, (first, last): (usize, usize)) -> bool {
    let group = mask & group_mask(first, last);
    [1, 2].into_iter().any(|step| {
        lanes(group).all(|lane| {
            let other = lane ^ step;
            group >> other & 1 == 0 || addresses[lane] == addresses[other]
        })
    })
}

/// Passes over the banks: the largest number of distinct words in one bank.
fn passes(addresses: &[u64; 32], group: u32, bytes: u32) -> u64 {
    let mut words: Vec<u64> = lanes(group)
        .flat_map(|lane| addresses[lane] / 4..=(addresses[lane] + u64::from(bytes) - 1) / 4)
        .collect();
    words.sort_unstable();
    words.dedup();
    let mut banks = [0_u64; 32];
    for word in words {
        banks[word as usize % 32] += 1;
    }
    banks.into_iter().max().unwrap_or(0)
}
