//! Every configuration once, defaults first.

use std::collections::VecDeque;

use super::{Pick, Strategy, Territory};
use crate::model::Micros;

/// See the module.
#[derive(Debug)]
pub struct Exhaustive {
    left: VecDeque<Pick>,
}

impl Exhaustive {
    /// All configurations of `territories`.
    pub fn new(territories: &[Territory]) -> Self {
        let defaults = territories
            .iter()
            .enumerate()
            .filter_map(|(family, territory)| Some(Pick { family, rank: territory.default? }));
        let others = territories.iter().enumerate().flat_map(|(family, territory)| {
            (0..territory.space.len())
                .filter(|rank| Some(*rank) != territory.default)
                .map(move |rank| Pick { family, rank })
        });
        Self { left: defaults.chain(others).collect() }
    }
}

impl Strategy for Exhaustive {
    fn ask(&mut self) -> Option<Pick> {
        self.left.pop_front()
    }

    fn tell(&mut self, _: Pick, _: Option<Micros>) {}
}
