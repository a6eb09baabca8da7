//! Order of the entrants within a round. Pure.

/// Returns the order of `entrants` in a round. Over as many rounds as entrants (twice as many for
/// an odd number), each entrant has every place and follows each other one equally often (Williams
/// 1949, "Experimental designs balanced for the estimation of residual effects of treatments").
/// Residual effects of a sample, such as heat or a lower clock, are thus shared equally.
pub(super) fn sampling_order(entrants: &[usize], round: usize) -> Vec<usize> {
    let count = entrants.len();
    // First, second, last, third, last but one ...
    let zigzag = |place: usize| match place % 2 {
        1 => place.div_ceil(2),
        _ => count - place / 2,
    };
    let mut order: Vec<usize> =
        (0..count).map(|place| entrants[(zigzag(place) + round) % count]).collect();
    if count % 2 == 1 && (round / count) % 2 == 1 {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn places_and_predecessors_are_shared_out_evenly() {
        for count in 1..=9 {
            let entrants: Vec<usize> = (10..10 + count).collect();
            let rounds = if count % 2 == 0 { count } else { 2 * count };
            let mut places: BTreeMap<(usize, usize), usize> = BTreeMap::new();
            let mut follows: BTreeMap<(usize, usize), usize> = BTreeMap::new();
            for round in 0..rounds {
                let order = sampling_order(&entrants, round);
                for (place, entrant) in order.iter().enumerate() {
                    *places.entry((place, *entrant)).or_default() += 1;
                }
                for pair in order.windows(2) {
                    *follows.entry((pair[0], pair[1])).or_default() += 1;
                }
            }
            assert_eq!(places.len(), count * count);
            assert!(places.values().all(|times| *times == rounds / count), "{count}: {places:?}");
            assert_eq!(follows.len(), count * (count - 1));
            assert!(follows.values().all(|times| *times == rounds / count), "{count}: {follows:?}");
        }
    }

    #[test]
    fn no_entrants_have_an_empty_order() {
        assert!(sampling_order(&[], 3).is_empty());
    }
}
