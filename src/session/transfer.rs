//! What the problems of one run tell of each other while they are tuned: what their kernels took, as the
//! answers come. Decides nothing by it.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::model::{Device, Problem};
use crate::predict::{Predictor, ProblemTimes};
use crate::space::Family;
use crate::tune::Event;

/// Answers after which a problem tells of itself again: as many as a search asks for at once.
const EVERY: usize = 12;

/// What was told so far.
pub struct TransferHub {
    predictor: Mutex<Arc<Predictor>>,
    device: Device,
    families: Vec<Family>,
}

impl TransferHub {
    /// Delivers timings of kernels of these families to a predictor.
    pub fn new(device: Device, families: Vec<Family>, predictor: Predictor) -> Self {
        Self { predictor: Mutex::new(Arc::new(predictor)), device, families }
    }

    /// The predictor with all timings that were delivered so far.
    pub fn predictor(&self) -> Arc<Predictor> {
        Arc::clone(&self.predictor.lock())
    }

    /// What tells of a problem.
    pub fn observer(&self, problem: &Problem) -> TransferObserver<'_> {
        let told = ProblemTimes { problem: *problem, times: Vec::new() };
        TransferObserver { transfer: self, told, answers: 0 }
    }
}

/// One problem's part.
pub struct TransferObserver<'t> {
    transfer: &'t TransferHub,
    told: ProblemTimes,
    answers: usize,
}

impl TransferObserver<'_> {
    /// Takes what happens, and passes it on when there is enough of it; says whether it did.
    pub fn observe(&mut self, event: &Event<'_>) -> bool {
        let is_enough = match event {
            Event::Evaluated { family, configuration, outcome, .. } => {
                self.answers += 1;
                self.told.times.extend(outcome.measurement().map(|measurement| {
                    ((*family).to_owned(), (*configuration).clone(), measurement.median())
                }));
                self.answers.is_multiple_of(EVERY)
            }
            Event::Searched => true,
            _ => false,
        };
        if is_enough {
            let TransferHub { predictor, device, families } = self.transfer;
            Arc::make_mut(&mut predictor.lock()).observe(&self.told, families, device);
        }
        is_enough
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
    fn a_problem_tells_after_twelve_answers_and_in_the_end() {
        let device = Device::h200();
        let families: Vec<Family> = Families::built_in().unwrap().iter().cloned().collect();
        let learned = LearnedModel::built_in(&device).unwrap();
        let (predictor, _) = Predictor::new(learned, &families, &Templates::built_in().unwrap());
        let transfer = TransferHub::new(device, families, predictor);
        let problem = Problem::new("1024x1024x1024".parse().unwrap(), Dtype::F32);
        let mut observer = transfer.observer(&problem);
        let configuration = Configuration::default();
        let outcome = Outcome::Compile { log: String::new() };
        let mut told = Vec::new();
        for count in 1..=25 {
            let told_now = observer.observe(&Event::Evaluated {
                count,
                family: "pipelined",
                configuration: &configuration,
                outcome: &outcome,
                recalled: false,
                best: None,
                left: 0,
            });
            if told_now {
                told.push(count);
            }
        }
        assert_eq!(told, [12, 24]);
        assert!(observer.observe(&Event::Searched));
        assert!(!transfer.predictor().has_related(&problem), "nothing was correct");
    }
}
