//! The kernels that a family_model remembers, made ready to be asked about problems of one layout.

use rayon::prelude::*;

use super::{FamilyModel, KernelFeatures, ProblemFeatures, cost, features::FeatureReader};
use crate::model::{Configuration, Device, Problem, Storage};
use crate::space::{Extents, Family, Legality};

/// See the module.
pub(super) struct Pool<'l> {
    family_model: &'l FamilyModel,
    family: &'l Family,
    device: &'l Device,
    /// In the family_model's order; none for one that no problem of the layout can have.
    kernels: Vec<Option<(Legality, KernelFeatures)>>,
}

impl<'l> Pool<'l> {
    /// `pattern` is any problem of the layout.
    pub(super) fn of(
        (family_model, family): (&'l FamilyModel, &'l Family),
        device: &'l Device,
        pattern: &Problem,
    ) -> Self {
        let reading = FeatureReader::of(family, &family_model.parameters);
        let ready = |configuration: &Configuration| {
            let of_configuration = reading.as_ref()?.of_configuration(configuration);
            let legality = Legality::of(family, configuration, pattern, device)?;
            let cost = cost(family, configuration, pattern, device);
            Some((legality, KernelFeatures { of_configuration, cost }))
        };
        let kernels: Vec<Configuration> = family_model.kernels(family).collect();
        Self { family_model, family, device, kernels: kernels.par_iter().map(ready).collect() }
    }

    /// The logarithms of what each kernel is expected to take for a problem; infinity where it is not
    /// legal.
    pub(super) fn times(&self, problem: &Problem) -> Vec<f32> {
        let storage = Storage::packed(problem);
        let (asked, extents) =
            (ProblemFeatures::of(problem, &storage), &mut Extents::new(problem, &storage));
        let is_legal = |(legality, known): &&(Legality, KernelFeatures), extents: &mut Extents| {
            known.cost.fits(problem) && legality.permits(self.family, extents)
        };
        let mut times = vec![f32::INFINITY; self.kernels.len()];
        let (mut places, mut legal) = (Vec::new(), Vec::new());
        for (place, kernel) in self.kernels.iter().enumerate() {
            if let Some((_, known)) = kernel.as_ref().filter(|one| is_legal(one, extents)) {
                places.push(place);
                legal.push(known);
            }
        }
        let expected = self.family_model.expects_each(&legal, &asked, self.device);
        for (place, time) in places.into_iter().zip(expected) {
            times[place] = time.0.ln() as f32;
        }
        times
    }
}
