//! Candidates for answers without a learned model: the defaults of a group's families and the winners of its
//! records, with their landmark errors.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use super::answer::Question;
use super::kernels::{KnownKernel, RecordedKernel};
use super::neighbours::{CELLS, cell, position};
use crate::predict::{LandmarkModel, LogErrors, ProblemPosition};

/// Time over the winner's above which a landmark is left out: its reasons do not matter for good kernels.
const HOPELESS: f64 = 2.0;

/// Kernel that an answer may have.
#[derive(Debug, Clone, Copy)]
pub(super) struct LookupCandidate {
    pub(super) kernel_ref: KernelRef,
    /// Index of a record that it won: the nearest, if there is a near one. `None` for a default without one.
    pub(super) record: Option<usize>,
    /// Factor on its modelled time.
    pub(super) factor: f64,
}

/// Reference to a kernel of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KernelRef {
    /// Index among the group's defaults.
    Default(usize),
    /// Index of the record that it won.
    Winner(usize),
    /// Index among the kernels of learned models.
    Learned(usize),
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct CandidateIndex {
    landmarks: LandmarkModel,
    defaults: usize,
    /// Index of a record, for each kernel that is no default.
    winners: Vec<usize>,
    /// By cell, computed on demand; see [`super::neighbours`].
    cells: Vec<OnceLock<Option<Vec<LookupCandidate>>>>,
}

impl CandidateIndex {
    /// Candidates from defaults and from the records at `places`; sets the landmark errors of these.
    pub(super) fn of(
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
        let measured = |(place, name): (&usize, &String)| -> LogErrors {
            let known = &all[*place];
            let won = known.record.median().0;
            let own = [(name.as_str(), won)];
            let landmarks = &known.record.landmarks_us;
            // A winner without landmarks has nothing to compare with.
            let own = own.into_iter().filter(|_| !landmarks.is_empty());
            let others = landmarks.iter().filter(|(other, _)| *other != name);
            let times = own.chain(others.map(|(name, time)| (&**name, *time)));
            let is_useful = |time: f64| time > 0.0 && time <= HOPELESS * won;
            let error = |(name, time): (&str, f64)| {
                let number = *numbers.get(name).filter(|_| is_useful(time))?;
                let kernel = match number.checked_sub(defaults.len()) {
                    None => defaults[number].1,
                    Some(winner) => &all[winners[winner]].kernel,
                };
                let error = (time / kernel.modelled(&known.problem, clock_mhz)).ln();
                error.is_finite().then_some((number, error))
            };
            times.filter_map(error).collect()
        };
        let measured: Vec<LogErrors> = places.iter().zip(&names).map(measured).collect();
        let (landmarks, errors) = LandmarkModel::fit(defaults.len() + winners.len(), &measured);
        let of_winner: Vec<Option<usize>> =
            names.iter().map(|name| numbers.get(&**name).copied()).collect();
        for ((place, errors), number) in places.iter().zip(errors).zip(of_winner) {
            (known[*place].errors, known[*place].number) = (errors, number);
        }
        let cells = if places.is_empty() { 0 } else { CELLS };
        Self {
            landmarks,
            defaults: defaults.len(),
            winners,
            cells: std::iter::repeat_with(OnceLock::new).take(cells).collect(),
        }
    }

    /// Candidates with the factors of these near records; `None` where the records have no landmarks. Problems of
    /// one cell share them.
    pub(super) fn around(
        &self,
        question: &Question,
        known: &[RecordedKernel],
        near: &[usize],
    ) -> Option<Cow<'_, [LookupCandidate]>> {
        let cell = cell(question).and_then(|(cell, middle)| Some((self.cells.get(cell)?, middle)));
        match cell {
            Some((cell, middle)) => {
                let found = cell.get_or_init(|| self.candidates(&middle, known, near));
                found.as_deref().map(Cow::Borrowed)
            }
            None => self.candidates(&position(question), known, near).map(Cow::Owned),
        }
    }

    /// The kernels of all candidates, each once.
    pub(super) fn kernels(&self) -> impl Iterator<Item = KernelRef> {
        let winners = self.winners.iter().map(|place| KernelRef::Winner(*place));
        (0..self.defaults).map(KernelRef::Default).chain(winners)
    }

    /// The defaults, without factors.
    pub(super) fn defaults(
        &self,
        known: &[RecordedKernel],
        near: &[usize],
    ) -> Vec<LookupCandidate> {
        (0..self.defaults).map(|number| self.candidate(number, known, near, 1.0)).collect()
    }

    /// The winners of records, without factors, each once; `near` are the nearest records.
    pub(super) fn of_records<'a>(
        &'a self,
        known: &'a [RecordedKernel],
        records: impl Iterator<Item = usize>,
        near: &'a [usize],
    ) -> impl Iterator<Item = LookupCandidate> + 'a {
        let numbers: BTreeSet<usize> = records.filter_map(|place| known[place].number).collect();
        numbers.into_iter().map(|number| self.candidate(number, known, near, 1.0))
    }

    /// Candidates with the factors at one position.
    pub(super) fn candidates(
        &self,
        here: &ProblemPosition,
        known: &[RecordedKernel],
        near: &[usize],
    ) -> Option<Vec<LookupCandidate>> {
        let errors = near.iter().filter_map(|place| {
            let known = &known[*place];
            Some((&known.position, known.errors.as_ref()?))
        });
        let local = self.landmarks.local(here, errors)?;
        // Winners that were measured nearby, and those of near records that have no landmarks.
        let own = near.iter().filter_map(|place| known[*place].number);
        let winners: BTreeSet<usize> =
            local.measured().chain(own).filter(|number| *number >= self.defaults).collect();
        let candidate = |number: usize| {
            self.candidate(number, known, near, self.landmarks.factor(&local, number))
        };
        Some((0..self.defaults).chain(winners).map(candidate).collect())
    }

    /// The candidate of a number, as the winner of a near record where it is one.
    fn candidate(
        &self,
        number: usize,
        known: &[RecordedKernel],
        near: &[usize],
        factor: f64,
    ) -> LookupCandidate {
        let won = near.iter().copied().find(|place| known[*place].number == Some(number));
        match number.checked_sub(self.defaults) {
            None => LookupCandidate { kernel_ref: KernelRef::Default(number), record: won, factor },
            Some(winner) => {
                let place = self.winners[winner];
                LookupCandidate {
                    kernel_ref: KernelRef::Winner(place),
                    record: won.or(Some(place)),
                    factor,
                }
            }
        }
    }
}
