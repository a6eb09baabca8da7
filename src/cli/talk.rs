//! What the problems of one run tell of each other while they are tuned: what their kernels took, as the
//! answers come. Decides nothing by it.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::experience::{Experience, Kin, Measured};
use crate::model::{Device, Problem};
use crate::space::{Family, Footprints};
use crate::tune::Event;

/// Answers after which a problem tells of itself again: as many as a search asks for at once.
const EVERY: usize = 12;

/// What was told so far.
pub(super) struct Talk {
    kin: Mutex<Arc<Kin>>,
    device: Device,
    families: Vec<Family>,
    /// What kernels took for other problems on this GPU: what is told is what that is off by.
    experience: Arc<Experience>,
    /// What kernels ask of the device, as far as it was found for a problem of this run.
    footprints: Arc<Footprints>,
}

impl Talk {
    /// Nothing yet, of kernels of these families.
    pub(super) fn new(device: Device, families: Vec<Family>, experience: Arc<Experience>) -> Self {
        let (kin, footprints) = (Mutex::default(), Arc::default());
        Self { kin, device, families, experience, footprints }
    }

    /// What is known by now.
    pub(super) fn heard(&self) -> Arc<Kin> {
        Arc::clone(&self.kin.lock())
    }

    pub(super) fn experience(&self) -> Arc<Experience> {
        Arc::clone(&self.experience)
    }

    pub(super) fn footprints(&self) -> Arc<Footprints> {
        Arc::clone(&self.footprints)
    }

    /// What tells of a problem.
    pub(super) fn teller(&self, problem: &Problem) -> Teller<'_> {
        let told = Measured { problem: *problem, times: Vec::new() };
        Teller { talk: self, told, answers: 0 }
    }
}

/// One problem's part.
pub(super) struct Teller<'t> {
    talk: &'t Talk,
    told: Measured,
    answers: usize,
}

impl Teller<'_> {
    /// Takes what happens, and passes it on when there is enough of it; says whether it did.
    pub(super) fn hears(&mut self, event: &Event<'_>) -> bool {
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
            let Talk { kin, device, families, experience, footprints } = self.talk;
            Arc::make_mut(&mut kin.lock()).learn(
                &self.told,
                experience,
                families,
                (device, footprints),
            );
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
        let experience = Arc::new(Experience::built_in(&device).unwrap());
        let talk = Talk::new(device, families, experience);
        let problem = Problem::new("1024x1024x1024".parse().unwrap(), Dtype::F32);
        let mut teller = talk.teller(&problem);
        let configuration = Configuration::default();
        let outcome = Outcome::Compile { log: String::new() };
        let mut told = Vec::new();
        for count in 1..=25 {
            let told_now = teller.hears(&Event::Evaluated {
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
        assert!(teller.hears(&Event::Searched));
        assert!(!talk.heard().has_kin(&problem), "nothing was correct");
    }
}
