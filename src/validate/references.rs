//! Expected elements of the regions that candidates of a problem were last judged on. Most candidates write the same elements, so
//! that these are computed once for many of them.

use std::sync::{Arc, Mutex, PoisonError};

use super::region::Region;
use super::run::{ExpectedElement, ValidationRun};

/// Elements of the largest region that is kept: 24 MiB for each run.
const MAX_ELEMENTS: u64 = 1 << 20;

/// The elements of a region's segments.
pub(super) type ExpectedSegments = Arc<[Vec<ExpectedElement>]>;

/// Expected elements by run: those of one region each.
#[derive(Debug, Default)]
pub(super) struct References(Mutex<Vec<Reference>>);

#[derive(Debug)]
struct Reference {
    /// The run, whose problem and seeds are those of the validator.
    run: String,
    region: Region,
    expected: ExpectedSegments,
}

impl References {
    /// The elements that a run is expected to leave in a region.
    pub(super) fn of(&self, run: &ValidationRun, region: &Region) -> ExpectedSegments {
        let of_run = |known: &Reference| known.run == run.name;
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.iter().find(|known| of_run(known) && known.region == *region) {
            return Arc::clone(&known.expected);
        }
        // Several threads may compute the same: one that waits for others of its pool could wait for itself.
        drop(known);
        let expected: ExpectedSegments = run.expected_in(region).into();
        if region.elements() <= MAX_ELEMENTS {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.retain(|known| !of_run(known));
            let (run, region) = (run.name.clone(), region.clone());
            known.push(Reference { run, region, expected: Arc::clone(&expected) });
        }
        expected
    }
}

#[cfg(test)]
mod tests {
    use super::super::inputs::Seeds;
    use super::*;
    use crate::model::{Dtype, Problem};

    #[test]
    fn a_region_is_computed_once_and_others_have_their_own_elements() {
        let problem = Problem::new("5x7x9".parse().unwrap(), Dtype::F32);
        let whole = Region::of(&problem, &[true; 35]);
        let part = Region::of(&problem, &std::array::from_fn::<bool, 35, _>(|at| at % 3 != 1));
        let references = References::default();
        let runs = [
            ValidationRun::small(&problem, Seeds::of(3)),
            ValidationRun::mixed(&problem, Seeds::of(3)),
        ];
        for region in [&whole, &part, &whole] {
            for run in &runs {
                let expected = references.of(run, region);
                assert!(Arc::ptr_eq(&expected, &references.of(run, region)));
                let text = |expected: &[Vec<ExpectedElement>]| format!("{expected:?}");
                assert_eq!(text(&expected), text(&run.expected_in(region)));
            }
        }
    }
}
