//! Transfer of timings: passes the timings of each problem on while it is tuned, so that they correct the predictions for
//! related problems of the same run. The model is the [`Predictor`]'s.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::model::{Device, Problem};
use crate::predict::{Predictor, ProblemTimes};
use crate::space::Family;
use crate::tune::TuneEvent;

/// Outcomes after which the timings of a problem are passed on again: as many as a search proposes at once.
const EVERY: usize = 12;

/// The timings that were passed on so far, and what predictions are made from besides.
pub(super) struct TransferHub {
    predictor: Mutex<Arc<Predictor>>,
    device: Device,
    families: Vec<Family>,
}

impl TransferHub {
    /// A hub without timings.
    pub(super) fn new(device: Device, families: Vec<Family>, predictor: Arc<Predictor>) -> Self {
        Self { predictor: Mutex::new(predictor), device, families }
    }

    /// The predictor with all timings so far.
    pub(super) fn predictor(&self) -> Arc<Predictor> {
        Arc::clone(&self.predictor.lock())
    }

    /// An observer that passes the timings of a problem on.
    pub(super) fn observer(&self, problem: &Problem) -> TransferObserver<'_> {
        let timings = ProblemTimes { problem: *problem, times: Vec::new() };
        TransferObserver { hub: self, timings, outcomes: 0 }
    }
}

/// Collects the timings of one problem.
pub(super) struct TransferObserver<'t> {
    hub: &'t TransferHub,
    timings: ProblemTimes,
    outcomes: usize,
}

impl TransferObserver<'_> {
    /// Takes an event, and passes the timings on when there are enough new ones. Returns whether it did.
    pub(super) fn observe(&mut self, event: &TuneEvent<'_>) -> bool {
        let is_due = match event {
            TuneEvent::Evaluated { family, configuration, outcome, .. } => {
                self.outcomes += 1;
                self.timings.times.extend(outcome.measurement().map(|measurement| {
                    ((*family).to_owned(), (*configuration).clone(), measurement.median())
                }));
                self.outcomes.is_multiple_of(EVERY)
            }
            TuneEvent::Searched => true,
            _ => false,
        };
        if is_due {
            let TransferHub { predictor, device, families } = self.hub;
            Arc::make_mut(&mut predictor.lock()).observe(&self.timings, families, device);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Configuration, Dtype, Outcome};
    use crate::predict::LearnedModel;
    use crate::render::Templates;
    use crate::space::Families;

    #[test]
    fn timings_are_passed_on_after_twelve_outcomes_and_in_the_end() {
        let device = Device::h200();
        let families: Vec<Family> = Families::built_in().unwrap().iter().cloned().collect();
        let learned = LearnedModel::built_in(&device).unwrap();
        let (predictor, _) = Predictor::new(learned, &families, &Templates::built_in().unwrap());
        let transfer = TransferHub::new(device, families, Arc::new(predictor));
        let problem = Problem::new("1024x1024x1024".parse().unwrap(), Dtype::F32);
        let mut observer = transfer.observer(&problem);
        let configuration = Configuration::default();
        let outcome = Outcome::Compile { log: String::new() };
        let mut passed_on = Vec::new();
        for count in 1..=25 {
            let is_passed_on = observer.observe(&TuneEvent::Evaluated {
                count,
                family: "pipelined",
                configuration: &configuration,
                outcome: &outcome,
                failure: None,
                recalled: false,
                best: None,
                left: 0,
            });
            if is_passed_on {
                passed_on.push(count);
            }
        }
        assert_eq!(passed_on, [12, 24]);
        assert!(observer.observe(&TuneEvent::Searched));
        assert!(!transfer.predictor().has_related(&problem), "nothing was correct");
    }
}
