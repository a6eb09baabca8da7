//! Every configuration once, defaults first.

use super::{Pick, Strategy, Territory};
use crate::model::Micros;

/// See the module.
#[derive(Debug)]
pub(super) struct Exhaustive {
    /// The defaults, one of each family that has one.
    defaults: Vec<Pick>,
    /// How many configurations each family has.
    lens: Vec<usize>,
    /// How many were asked of the defaults, and the next of the others.
    begun: usize,
    next: Pick,
}

impl Exhaustive {
    /// All configurations of `territories`.
    pub(super) fn new(territories: &[Territory]) -> Self {
        let defaults = territories
            .iter()
            .enumerate()
            .filter_map(|(family, territory)| Some(Pick { family, rank: territory.default? }));
        Self {
            defaults: defaults.collect(),
            lens: territories.iter().map(|territory| territory.space.len()).collect(),
            begun: 0,
            next: Pick { family: 0, rank: 0 },
        }
    }

    fn next(&mut self) -> Option<Pick> {
        if let Some(default) = self.defaults.get(self.begun) {
            self.begun += 1;
            return Some(*default);
        }
        while self.next.family < self.lens.len() {
            let next = self.next;
            if next.rank == self.lens[next.family] {
                self.next = Pick { family: next.family + 1, rank: 0 };
                continue;
            }
            self.next.rank += 1;
            if !self.defaults.contains(&next) {
                return Some(next);
            }
        }
        None
    }
}

impl Strategy for Exhaustive {
    fn ask(&mut self, most: usize) -> Vec<Pick> {
        (0..most).map_while(|_| self.next()).collect()
    }

    fn tell(&mut self, _: Pick, _: Option<Micros>) {}
}
