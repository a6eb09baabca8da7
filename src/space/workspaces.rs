//! Bytes of a configuration's workspaces for other problems, as formulas of their extents.

use super::family::Family;
use super::formula::{Formula, Solver};
use super::legality::Extents;
use crate::model::{Configuration, Device, Problem, Storage};

/// The sizes of a configuration's workspaces on a device.
#[derive(Debug, Clone)]
pub struct WorkspaceSizes {
    /// `None` where some size has no formula of reasonable size.
    formulas: Option<Vec<Formula>>,
}

impl WorkspaceSizes {
    /// Of `configuration` on `device`, for problems that are like `pattern` but for their extents.
    pub fn of(
        family: &Family,
        configuration: &Configuration,
        pattern: &Problem,
        device: &Device,
    ) -> Self {
        let formulas = Solver::new(family, configuration, pattern, device).workspaces();
        Self { formulas }
    }

    /// Bytes of all of them, each aligned; `None` where that is unknown.
    pub fn bytes(&self, extents: &Extents) -> Option<u64> {
        let sizes = self.formulas.as_ref()?.iter().map(|formula| {
            let bytes = u64::try_from(formula.value(extents.values())?).ok()?;
            bytes.checked_next_multiple_of(Storage::ALLOCATED)
        });
        sizes.sum::<Option<u64>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, Shape};
    use crate::render::{Templates, launches};
    use crate::space::{Families, LegalSpace};

    #[test]
    fn sizes_are_those_of_the_launch_plan() {
        let device = Device::h200();
        let _ = Templates::built_in().unwrap();
        let problem = |m| Problem::new(Shape { m, n: 512, k: 2048 }, Dtype::F32);
        let mut with_some = 0;
        for family in Families::built_in().unwrap().iter() {
            let space = LegalSpace::of(family, &problem(512), &device).unwrap();
            for place in 0..space.len().min(40) {
                let configuration = space.get(place * (space.len() / 40).max(1)).unwrap();
                let sizes = WorkspaceSizes::of(family, &configuration, &problem(64), &device);
                for problem in [problem(512), problem(515)] {
                    let storage = Storage::packed(&problem);
                    if family.forbidden(&configuration, &problem, &device).unwrap().is_some() {
                        continue;
                    }
                    let plan = launches(family, &configuration, &problem, &storage, &device);
                    let spaces = plan.unwrap().workspaces;
                    let bytes = spaces.iter().map(|own| own.bytes.next_multiple_of(256)).sum();
                    let own = sizes.bytes(&Extents::new(&problem, &storage));
                    assert_eq!(own, Some(bytes), "{} {configuration} {problem}", family.name);
                    with_some += usize::from(bytes > 0);
                }
            }
        }
        assert!(with_some > 10, "{with_some}");
    }
}
