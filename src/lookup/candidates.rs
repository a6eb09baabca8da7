//! The kernels that a group of records knows, by number: its families' defaults, then the winners of
//! its records; and of these the ones that an answer near given records may be. Which of them is
//! legal for a problem, and which is expected to take the least, is decided where it is asked.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use super::answer::Question;
use super::kernels::{KnownKernel, RecordedKernel};
use super::landmarks::{Landmarks, Measured};
use super::neighbours::{CELLS, Position, cell, position};

/// How many times slower than the winner a kernel is that tells nothing any more: what makes it so is
/// not what makes those faster or slower that may be chosen.
const HOPELESS: f64 = 2.0;

/// A kernel that an answer may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) who: KernelRef,
    /// The place of a record that it is the winner of: the nearest, if there is a near one. None for
    /// a default that has not won hereabouts.
    pub(super) source: Option<usize>,
    /// How many times as long as modelled it is expected to take.
    pub(super) factor: f64,
}

/// Which kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KernelRef {
    /// The default at this place of the group's.
    Default(usize),
    /// The winner of the record at this place of all.
    Winner(usize),
    /// The kernel at this place of those that were learned of.
    Learned(usize),
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct CandidateIndex {
    landmarks: Landmarks,
    defaults: usize,
    /// The place of a record that has it, for each kernel that is no default.
    winners: Vec<usize>,
    /// By cell, once somebody asked; see [`super::neighbours`].
    cells: Vec<OnceLock<Option<Vec<Candidate>>>>,
}

impl CandidateIndex {
    /// Of defaults and of the records at `places`; tells each of these what its landmarks tell.
    pub(super) fn survey(
        defaults: &[(String, &KnownKernel)],
        known: &mut [RecordedKernel],
        places: &[usize],
        name: impl Fn(&KnownKernel) -> String,
        clock_mhz: u32,
    ) -> Self {
        let mut numbers: BTreeMap<&str, usize> =
            defaults.iter().enumerate().map(|(number, (name, _))| (&**name, number)).collect();
        let names: Vec<String> = places.iter().map(|place| name(&known[*place].kernel)).collect();
        let mut winners = Vec::new();
        for (place, name) in places.iter().zip(&names) {
            numbers.entry(name).or_insert_with(|| {
                winners.push(*place);
                defaults.len() + winners.len() - 1
            });
        }
        let all = &*known;
        let measured = |(place, name): (&usize, &String)| -> Measured {
            let known = &all[*place];
            let won = known.record.median().0;
            let own = [(name.as_str(), won)];
            let landmarks = &known.record.landmarks_us;
            // A winner alone, of which it is known only where it won, says nothing of others.
            let own = own.into_iter().filter(|_| !landmarks.is_empty());
            let others = landmarks.iter().filter(|(other, _)| *other != name);
            let times = own.chain(others.map(|(name, time)| (&**name, *time)));
            let tells = |time: f64| time > 0.0 && time <= HOPELESS * won;
            let off = |(name, time): (&str, f64)| {
                let number = *numbers.get(name).filter(|_| tells(time))?;
                let kernel = match number.checked_sub(defaults.len()) {
                    None => defaults[number].1,
                    Some(winner) => &all[winners[winner]].kernel,
                };
                let off = (time / kernel.modelled(&known.problem, clock_mhz)).ln();
                off.is_finite().then_some((number, off))
            };
            times.filter_map(off).collect()
        };
        let measured: Vec<Measured> = places.iter().zip(&names).map(measured).collect();
        let (landmarks, sightings) = Landmarks::survey(defaults.len() + winners.len(), &measured);
        let of_winner: Vec<Option<usize>> =
            names.iter().map(|name| numbers.get(&**name).copied()).collect();
        for ((place, sighting), number) in places.iter().zip(sightings).zip(of_winner) {
            (known[*place].sighting, known[*place].number) = (sighting, number);
        }
        let cells = if places.is_empty() { 0 } else { CELLS };
        Self {
            landmarks,
            defaults: defaults.len(),
            winners,
            cells: std::iter::repeat_with(OnceLock::new).take(cells).collect(),
        }
    }

    /// The kernels that an answer may be with these records near; `None` where these tell nothing.
    /// Problems of one cell have the same candidates.
    pub(super) fn around(
        &self,
        question: &Question,
        known: &[RecordedKernel],
        near: &[usize],
    ) -> Option<Cow<'_, [Candidate]>> {
        let cell = cell(question).and_then(|(cell, middle)| Some((self.cells.get(cell)?, middle)));
        match cell {
            Some((cell, middle)) => {
                let found = cell.get_or_init(|| self.candidates(&middle, known, near));
                found.as_deref().map(Cow::Borrowed)
            }
            None => self.candidates(&position(question), known, near).map(Cow::Owned),
        }
    }

    /// The defaults, without a factor of their own.
    pub(super) fn defaults(&self, known: &[RecordedKernel], near: &[usize]) -> Vec<Candidate> {
        (0..self.defaults).map(|number| self.candidate(number, known, near, 1.0)).collect()
    }

    /// The winners of records, without a factor of their own, each once; `near` are the nearest records.
    pub(super) fn of_records<'a>(
        &'a self,
        known: &'a [RecordedKernel],
        records: impl Iterator<Item = usize>,
        near: &'a [usize],
    ) -> impl Iterator<Item = Candidate> + 'a {
        let numbers: BTreeSet<usize> = records.filter_map(|place| known[place].number).collect();
        numbers.into_iter().map(|number| self.candidate(number, known, near, 1.0))
    }

    /// The same for one place among problems, found anew.
    pub(super) fn candidates(
        &self,
        here: &Position,
        known: &[RecordedKernel],
        near: &[usize],
    ) -> Option<Vec<Candidate>> {
        let sightings = near.iter().filter_map(|place| {
            let known = &known[*place];
            Some((&known.position, known.sighting.as_ref()?))
        });
        let bearings = self.landmarks.bearings(here, sightings)?;
        // Winners that were measured nearby, and those of near records that have no landmarks.
        let own = near.iter().filter_map(|place| known[*place].number);
        let winners: BTreeSet<usize> =
            bearings.seen().chain(own).filter(|number| *number >= self.defaults).collect();
        let candidate = |number: usize| {
            self.candidate(number, known, near, self.landmarks.factor(&bearings, number))
        };
        Some((0..self.defaults).chain(winners).map(candidate).collect())
    }

    /// The kernel of a number, as the winner of a near record where it is one.
    fn candidate(
        &self,
        number: usize,
        known: &[RecordedKernel],
        near: &[usize],
        factor: f64,
    ) -> Candidate {
        let won = near.iter().copied().find(|place| known[*place].number == Some(number));
        match number.checked_sub(self.defaults) {
            None => Candidate { who: KernelRef::Default(number), source: won, factor },
            Some(winner) => {
                let place = self.winners[winner];
                Candidate { who: KernelRef::Winner(place), source: won.or(Some(place)), factor }
            }
        }
    }
}
