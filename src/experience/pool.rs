//! The kernels that a lesson remembers, made ready to be asked about problems of one layout.

use rayon::prelude::*;

use super::{Asked, Known, Lesson, cost, traits::Reading};
use crate::model::{Configuration, Device, Problem, Storage};
use crate::space::{Extents, Family, Legality};

/// See the module.
pub(super) struct Pool<'l> {
    lesson: &'l Lesson,
    family: &'l Family,
    device: &'l Device,
    /// In the lesson's order; none for one that no problem of the layout can have.
    kernels: Vec<Option<(Legality, Known)>>,
}

impl<'l> Pool<'l> {
    /// `pattern` is any problem of the layout.
    pub(super) fn of(
        (lesson, family): (&'l Lesson, &'l Family),
        device: &'l Device,
        pattern: &Problem,
    ) -> Self {
        let reading = Reading::of(family, &lesson.parameters);
        let ready = |configuration: &Configuration| {
            let of_configuration = reading.as_ref()?.of_configuration(configuration);
            let legality = Legality::of(family, configuration, pattern, device)?;
            let cost = cost(family, configuration, pattern, device);
            Some((legality, Known { of_configuration, cost }))
        };
        let kernels: Vec<Configuration> = lesson.kernels(family).collect();
        Self { lesson, family, device, kernels: kernels.par_iter().map(ready).collect() }
    }

    /// The logarithms of what each kernel is expected to take for a problem; infinity where it is not
    /// legal.
    pub(super) fn times(&self, problem: &Problem) -> Vec<f32> {
        let storage = Storage::packed(problem);
        let (asked, extents) = (Asked::of(problem, &storage), &mut Extents::new(problem, &storage));
        let time = |kernel: &Option<(Legality, Known)>| match kernel {
            Some((legality, known))
                if known.cost.fits(problem) && legality.permits(self.family, extents) =>
            {
                self.lesson.expects(known, &asked, self.device).0.ln() as f32
            }
            _ => f32::INFINITY,
        };
        self.kernels.iter().map(time).collect()
    }
}
