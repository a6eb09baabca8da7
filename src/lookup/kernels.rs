//! Kernels that answers choose from, prepared: their legality, their cost, and their measured times.

use std::sync::OnceLock;

use super::answer::Question;
use super::neighbours::position;
use crate::database::Record;
use crate::model::{Configuration, Device, Micros, Problem};
use crate::predict::{
    CAUTION, CostModel, FamilyPredictor, KernelFeatures, LandmarkErrors, ProblemPosition,
    launch_time,
};
use crate::space::{Extents, Family, Legality, SharedConditions, WorkspaceSizes};

/// Kernel prepared for a device.
#[derive(Debug, Clone)]
pub(super) struct KnownKernel {
    /// Index of its family.
    pub(super) family: usize,
    pub(super) configuration: Configuration,
    pub(super) legality: Legality,
    pub(super) cost: CostModel,
    /// Features for the learned model of its family, where there is one.
    pub(super) features: Option<KernelFeatures>,
    /// Sizes of its workspaces, found when memory for them is limited.
    pub(super) workspaces: OnceLock<WorkspaceSizes>,
}

/// The kernels of learned models for a group, and their conditions.
#[derive(Debug)]
pub(super) struct LearnedKernels {
    pub(super) kernels: Vec<KnownKernel>,
    pub(super) conditions: SharedConditions,
}

impl From<Vec<KnownKernel>> for LearnedKernels {
    fn from(kernels: Vec<KnownKernel>) -> Self {
        let own = kernels.iter().map(|kernel| kernel.legality.conditions());
        let conditions = SharedConditions::of(own);
        Self { kernels, conditions }
    }
}

/// What an answer has to be legal for: the extents of a problem, and the memory for workspaces.
#[derive(Debug)]
pub(super) struct Demand {
    pub(super) problem: Problem,
    pub(super) extents: Extents,
    pub(super) workspace: u64,
}

impl From<&Question> for Demand {
    fn from(Question { problem, storage, workspace }: &Question) -> Self {
        let extents = Extents::new(problem, storage);
        Self { problem: *problem, extents, workspace: *workspace }
    }
}

/// Kernel of a record.
#[derive(Debug)]
pub(super) struct RecordedKernel {
    pub(super) kernel: KnownKernel,
    pub(super) record: Record,
    pub(super) problem: Problem,
    /// Time of starting its launches.
    launch: f64,
    /// Clocks of the record's problem on the device of the lookup.
    clocks: f64,
    /// Microseconds for each clock of its cost.
    rate: f64,
    /// Position of its problem.
    pub(super) position: ProblemPosition,
    /// Landmark errors of its problem; `None` until its group is complete.
    pub(super) errors: Option<LandmarkErrors>,
    /// Number of its kernel among the candidates of its group.
    pub(super) number: Option<usize>,
}

impl KnownKernel {
    /// `None` where the configuration is illegal on the device for all extents.
    pub(super) fn new(
        family: (usize, &Family),
        configuration: Configuration,
        pattern: &Problem,
        measured: (Option<f64>, &Device),
    ) -> Option<Self> {
        let legality = Legality::of(family.1, &configuration, pattern, measured.1)?;
        Some(Self::with(legality, family, configuration, pattern, measured))
    }

    /// A kernel that was timed for other problems: it serves those whose searches would try it.
    pub(super) fn of_set(
        family: (usize, &Family),
        configuration: Configuration,
        pattern: &Problem,
        device: &Device,
    ) -> Option<Self> {
        let legality = Legality::of_searched(family.1, &configuration, pattern, device)?;
        Some(Self::with(legality, family, configuration, pattern, (None, device)))
    }

    fn with(
        legality: Legality,
        (place, family): (usize, &Family),
        configuration: Configuration,
        pattern: &Problem,
        (occupancy, device): (Option<f64>, &Device),
    ) -> Self {
        let cost = CostModel::of((family, &configuration), pattern, (device, occupancy));
        Self {
            family: place,
            configuration,
            legality,
            cost,
            features: None,
            workspaces: OnceLock::new(),
        }
    }

    /// Whether it serves a demand; `family` is its own.
    pub(super) fn meets(&self, demand: &Demand, family: &Family, device: &Device) -> bool {
        self.legality.permits(family, &demand.extents) && self.has_room(demand, family, device)
    }

    /// The same where the conditions of its legality are known to hold.
    pub(super) fn meets_rest(&self, demand: &Demand, family: &Family, device: &Device) -> bool {
        self.legality.permits_rest(family, &demand.extents) && self.has_room(demand, family, device)
    }

    /// Whether its workspaces fit into the memory for them.
    fn has_room(&self, demand: &Demand, family: &Family, device: &Device) -> bool {
        if demand.workspace == Question::ANY {
            return true;
        }
        let sizes = || WorkspaceSizes::of(family, &self.configuration, &demand.problem, device);
        let bytes = self.workspaces.get_or_init(sizes).bytes(&demand.extents);
        bytes.is_some_and(|bytes| bytes <= demand.workspace)
    }

    /// Prepares it for a learned model, which has no measured occupancy.
    pub(super) fn prepare(&mut self, predictor: &FamilyPredictor<'_>, device: &Device) {
        let unmeasured = self.cost.on(device, None);
        self.features = Some(predictor.prepare(&self.configuration, &unmeasured));
    }

    /// Modelled time for a problem at a clock rate.
    pub(super) fn modelled(&self, problem: &Problem, clock_mhz: u32) -> f64 {
        self.cost.time(problem, clock_mhz).0
    }

    /// Time for a problem at so many microseconds a clock.
    pub(super) fn time(&self, problem: &Problem, launch: f64, rate: f64) -> f64 {
        launch + self.cost.clocks(problem) * rate
    }
}

impl RecordedKernel {
    /// `at_home` is the cost on the record's device, and `clock_ratio` that device's clock over the one of the
    /// lookup's device.
    pub(super) fn new(
        kernel: KnownKernel,
        record: Record,
        problem: Problem,
        at_home: &CostModel,
        clock_ratio: f64,
    ) -> Self {
        let median = record.median().0;
        let launch = launch_time(at_home, Micros(median)).0;
        let rate = (median - launch) / at_home.clocks(&problem) * clock_ratio;
        let clocks = kernel.cost.clocks(&problem);
        let position = position(&Question::packed(problem));
        Self { kernel, record, problem, launch, clocks, rate, position, errors: None, number: None }
    }

    /// Predicted time with [`CAUTION`], for a choice between records.
    pub(super) fn cautious(&self, problem: &Problem) -> f64 {
        let clocks = self.kernel.cost.clocks(problem);
        let time = self.launch + clocks * self.rate;
        time * (1.0 + CAUTION).powf((clocks / self.clocks).log2().abs())
    }

    /// Predicted time for another problem.
    pub(super) fn predict(&self, problem: &Problem) -> f64 {
        self.kernel.time(problem, self.launch, self.rate)
    }

    /// Lowest predicted time of a default: it uses clocks no better than this winner, and was no faster for this
    /// winner's problem, because every search measures defaults.
    pub(super) fn predict_default(&self, default: &KnownKernel, problem: &Problem) -> f64 {
        let there = (self.record.median().0 - self.launch) / default.cost.clocks(&self.problem);
        let launch = default.cost.launching().0;
        default.time(problem, launch, self.rate.max(there))
    }
}
