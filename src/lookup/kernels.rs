//! A kernel that an answer may be, made ready: what its legality and its cost hang on, and what is
//! known of its time.

use super::answer::Question;
use super::landmarks::Sighting;
use super::neighbours::{Position, position};
use crate::database::Record;
use crate::model::{Configuration, Device, Micros, Problem};
use crate::predict::CostModel;
use crate::predict::{self, Predictor};
use crate::space::{Family, Legality, Work};

/// By how much a prediction is distrusted for each factor of two between the costs: of two records
/// from which about the same is expected, the one that is more alike is believed.
pub(super) const CAUTION: f64 = 0.05;

/// A kernel, and what it asks of the device that is asked about.
#[derive(Debug, Clone)]
pub(super) struct KnownKernel {
    /// The place of its family.
    pub(super) family: usize,
    pub(super) configuration: Configuration,
    pub(super) legality: Legality,
    pub(super) cost: CostModel,
    /// As what was learned of its family is asked about it.
    pub(super) learned: Option<predict::KernelFeatures>,
}

/// A kernel with a measured time.
#[derive(Debug)]
pub(super) struct RecordedKernel {
    pub(super) kernel: KnownKernel,
    pub(super) record: Record,
    pub(super) problem: Problem,
    /// What a launch takes besides.
    launch: f64,
    /// Clocks that the problem of the record costs on the device that is asked about.
    clocks: f64,
    /// Microseconds for each clock of its cost.
    rate: f64,
    /// Where its problem is among others.
    pub(super) position: Position,
    /// What the landmarks of its problem tell; nothing until its group is surveyed.
    pub(super) sighting: Option<Sighting>,
    /// The number of its kernel in the roster of its group.
    pub(super) number: Option<usize>,
}

/// What starting a kernel takes of a time, half of it at most.
pub(super) fn launch(cost: &CostModel, time: Micros) -> Micros {
    Micros(cost.launching().0.min(time.0 / 2.0))
}

impl KnownKernel {
    /// `None` where the configuration is not legal on the device, whatever the extents.
    pub(super) fn new(
        (place, family): (usize, &Family),
        configuration: Configuration,
        pattern: &Problem,
        (occupancy, device): (Option<f64>, &Device),
    ) -> Option<Self> {
        let legality = Legality::of(family, &configuration, pattern, device)?;
        let work = Work::of(family, &configuration, pattern, device);
        let cost = CostModel::new(work, occupancy, device);
        Some(Self { family: place, configuration, legality, cost, learned: None })
    }

    /// Makes it ready for forecasts of what was learned.
    pub(super) fn learn(&mut self, predictor: &Predictor<'_>, device: &Device) {
        let unmeasured = self.cost.on(device, None);
        self.learned = Some(predictor.knows(&self.configuration, &unmeasured));
    }

    /// The time for a problem as the model has it, on a device with so many clocks in a microsecond.
    pub(super) fn modelled(&self, problem: &Problem, clock_mhz: u32) -> f64 {
        self.cost.time(problem, clock_mhz).0
    }

    /// The time for a problem at so many microseconds a clock.
    pub(super) fn time(&self, problem: &Problem, launch: f64, rate: f64) -> f64 {
        launch + self.cost.clocks(problem) * rate
    }
}

impl RecordedKernel {
    /// `at_home` is the cost on the device that the record is of, and `clock_ratio` that device's
    /// clock over the one of the device asked about.
    pub(super) fn new(
        kernel: KnownKernel,
        record: Record,
        problem: Problem,
        at_home: &CostModel,
        clock_ratio: f64,
    ) -> Self {
        let median = record.median().0;
        let launch = launch(at_home, Micros(median)).0;
        let rate = (median - launch) / at_home.clocks(&problem) * clock_ratio;
        let clocks = kernel.cost.clocks(&problem);
        let position = position(&Question::packed(problem));
        Self {
            kernel,
            record,
            problem,
            launch,
            clocks,
            rate,
            position,
            sighting: None,
            number: None,
        }
    }

    /// The same with [`CAUTION`], for choosing between several.
    pub(super) fn cautious(&self, problem: &Problem) -> f64 {
        let clocks = self.kernel.cost.clocks(problem);
        let time = self.launch + clocks * self.rate;
        time * (1.0 + CAUTION).powf((clocks / self.clocks).log2().abs())
    }

    /// The time that it is expected to take for another problem.
    pub(super) fn predict(&self, problem: &Problem) -> f64 {
        self.kernel.time(problem, self.launch, self.rate)
    }

    /// What a default is expected to take at best: it uses clocks no better than this winner, and
    /// was no faster where this one won, for defaults are measured in every search.
    pub(super) fn predict_default(&self, default: &KnownKernel, problem: &Problem) -> f64 {
        let there = (self.record.median().0 - self.launch) / default.cost.clocks(&self.problem);
        let launch = default.cost.launching().0;
        default.time(problem, launch, self.rate.max(there))
    }
}
