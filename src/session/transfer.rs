//! What the problems of one run tell of each other while they are tuned: what their kernels took, as the
//! answers come. Decides nothing by it.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::model::{Device, Problem};
use crate::predict::{LearnedModel, ProblemTimes, TransferModel};
use crate::space::Family;
use crate::tune::Event;

/// Answers after which a problem tells of itself again: as many as a search asks for at once.
const EVERY: usize = 12;

/// What was told so far.
pub struct TransferHub {
    transfer: Mutex<Arc<TransferModel>>,
    device: Device,
    families: Vec<Family>,
    /// What kernels took for other problems on this GPU: what is told is what that is off by.
    experience: Arc<LearnedModel>,
}

impl TransferHub {
    /// Nothing yet, of kernels of these families.
    pub fn new(device: Device, families: Vec<Family>, experience: Arc<LearnedModel>) -> Self {
        Self { transfer: Mutex::default(), device, families, experience }
    }

    /// What is known by now.
    pub fn corrections(&self) -> Arc<TransferModel> {
        Arc::clone(&self.transfer.lock())
    }

    /// The model learned before this run.
    pub fn learned(&self) -> Arc<LearnedModel> {
        Arc::clone(&self.experience)
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
            let TransferHub { transfer, device, families, experience } = self.transfer;
            Arc::make_mut(&mut transfer.lock()).learn(&self.told, experience, families, device);
        }
        is_enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Configuration, Dtype, Outcome};
    use crate::space::Families;

    #[test]
    fn a_problem_tells_after_twelve_answers_and_in_the_end() {
        let device = Device::h200();
        let families: Vec<Family> = Families::built_in().unwrap().iter().cloned().collect();
        let experience = Arc::new(LearnedModel::built_in(&device).unwrap());
        let transfer = TransferHub::new(device, families, experience);
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
        assert!(!transfer.corrections().has_related(&problem), "nothing was correct");
    }
}
