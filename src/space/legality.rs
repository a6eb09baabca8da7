//! Legality of one configuration for other problems: what does not depend on their extents is decided
//! once, the rest is a few formulas for each problem.

use indexmap::IndexSet;

use super::family::{Excludes, Family};
use super::formula::{Formula, OPEN, Solver, open_values};
use crate::model::{Configuration, Device, Problem, Storage};

/// The conditions on extents that remain of a configuration's constraints on a device. They are those of a correct
/// kernel, or also those of a kernel that a search tries.
#[derive(Debug, Clone)]
pub struct Legality {
    conditions: Vec<Formula>,
    /// The configuration, where some constraint has no formula of reasonable size.
    unfolded: Option<Box<Unfolded>>,
}

/// A configuration whose constraints are evaluated in full for each problem.
#[derive(Debug, Clone)]
struct Unfolded {
    configuration: Configuration,
    pattern: Problem,
    device: Device,
    counts: fn(Excludes) -> bool,
}

/// The extents of a problem.
#[derive(Debug)]
pub struct Extents {
    values: [i64; OPEN.len()],
}

impl Extents {
    /// Those of a problem as it is stored.
    pub fn new(problem: &Problem, storage: &Storage) -> Self {
        Self { values: open_values(problem, storage) }
    }

    /// Their values, in the order of [`OPEN`].
    pub(crate) fn values(&self) -> &[i64; OPEN.len()] {
        &self.values
    }
}

impl Legality {
    /// Of `configuration` on `device`, for problems that are like `pattern` but for their extents;
    /// `None` where it is legal for none of them.
    pub fn of(
        family: &Family,
        configuration: &Configuration,
        pattern: &Problem,
        device: &Device,
    ) -> Option<Self> {
        Self::by(|excludes| excludes == Excludes::Illegal, family, configuration, pattern, device)
    }

    /// The same for problems whose searches try the configuration, if others are not known to be faster. No times
    /// are known of other problems, so that predictions for them are guesses.
    pub fn of_searched(
        family: &Family,
        configuration: &Configuration,
        pattern: &Problem,
        device: &Device,
    ) -> Option<Self> {
        let counts = |excludes| excludes != Excludes::Nondeterministic;
        Self::by(counts, family, configuration, pattern, device)
    }

    fn by(
        counts: fn(Excludes) -> bool,
        family: &Family,
        configuration: &Configuration,
        pattern: &Problem,
        device: &Device,
    ) -> Option<Self> {
        if family.refusal(pattern, device).is_some() {
            return None;
        }
        let mut legality = Self { conditions: Vec::new(), unfolded: None };
        for formula in Solver::new(family, configuration, pattern, device).conditions(counts) {
            match formula {
                Some(Formula::Bool(true)) => {}
                Some(Formula::Bool(false)) => return None,
                Some(formula) => legality.conditions.push(formula),
                None => {
                    legality.unfolded = Some(Box::new(Unfolded {
                        configuration: configuration.clone(),
                        pattern: *pattern,
                        device: device.clone(),
                        counts,
                    }));
                }
            }
        }
        Some(legality)
    }

    /// Whether the configuration, which is one of `family`, meets the conditions for these extents. A constraint
    /// that cannot be evaluated counts as broken.
    pub fn permits(&self, family: &Family, extents: &Extents) -> bool {
        self.conditions.iter().all(|condition| condition.holds(&extents.values))
            && self.permits_rest(family, extents)
    }

    /// The conditions on extents, without constraints that have no formula.
    pub fn conditions(&self) -> &[Formula] {
        &self.conditions
    }

    /// The same as [`Self::permits`] where [`Self::conditions`] are known to hold.
    pub fn permits_rest(&self, family: &Family, extents: &Extents) -> bool {
        self.unfolded.as_ref().is_none_or(|unfolded| unfolded.permits(family, extents))
    }
}

/// The conditions of many configurations, which have most of them in common: each is evaluated once for a problem.
#[derive(Debug)]
pub struct SharedConditions {
    distinct: Vec<Formula>,
    /// For each configuration the places of its conditions.
    places: Vec<Vec<usize>>,
}

impl SharedConditions {
    /// Those of configurations, in order.
    pub fn of<'a>(all: impl IntoIterator<Item = &'a [Formula]>) -> Self {
        let mut distinct: IndexSet<&Formula> = IndexSet::new();
        let mut place = |condition: &'a Formula| distinct.insert_full(condition).0;
        let places = all.into_iter().map(|own| own.iter().map(&mut place).collect()).collect();
        Self { distinct: distinct.into_iter().cloned().collect(), places }
    }

    /// For each configuration, in order, whether its conditions hold for these extents.
    pub fn hold(&self, extents: &Extents) -> Vec<bool> {
        let mut known: Vec<Option<bool>> = vec![None; self.distinct.len()];
        let mut holds = |at: &usize| {
            *known[*at].get_or_insert_with(|| self.distinct[*at].holds(&extents.values))
        };
        self.places.iter().map(|places| places.iter().all(&mut holds)).collect()
    }
}

impl Unfolded {
    fn permits(&self, family: &Family, extents: &Extents) -> bool {
        let open = extents.values.map(i128::from);
        let Self { configuration, pattern, device, counts } = self;
        family.meets_constraints(*counts, (configuration, pattern, device), open)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{ComputeCapability, Dtype, Layout, Shape};
    use crate::space::{Families, LegalSpace};

    fn layouts() -> impl Strategy<Value = Layout> {
        prop::sample::select(vec![Layout::Nn, Layout::Nt, Layout::Tn, Layout::Tt])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(crate::cases::cases(4, 24) as u32))]

        /// The remaining conditions hold exactly where all constraints do, for correct kernels and for those that
        /// searches try.
        #[test]
        fn remaining_conditions_agree_with_all_constraints(
            (m, n, k) in (1..300_u64, 1..300_u64, 1..300_u64),
            layout in layouts(),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 4),
        ) {
            let device = Device::h200();
            for family in Families::built_in().unwrap().iter() {
                let types = family.a_pattern().unwrap().types;
                let tuned = |m: u64| Problem {
                    layout,
                    types,
                    ..Problem::new(Shape { m, n: 1024, k: 1024 }, Dtype::F32)
                };
                let other = Problem { shape: Shape { m, n, k }, ..tuned(1024) };
                let extents = Extents::new(&other, &Storage::packed(&other));
                // Some families are for few rows only, others for devices on which they are not pruned.
                let tries = [(1024, 9), (8, 9), (1024, 10)].map(|(m, major)| {
                    let compute_capability = ComputeCapability { major, minor: 0 };
                    (tuned(m), Device { compute_capability, ..device.clone() })
                });
                let mut spaces = tries.iter().map(|(tuned, device)| {
                    (tuned, device, LegalSpace::of(family, tuned, device).unwrap())
                });
                let found = spaces.find(|(.., space)| !space.is_empty());
                // A family may decline a layout for some types.
                let Some((tuned, device, space)) = found else { continue };
                for pick in &picks {
                    let configuration = space.get(pick.index(space.len()) as _).unwrap();
                    let legality = Legality::of(family, &configuration, tuned, device).unwrap();
                    let full = family.forbidden(&configuration, &other, device).unwrap();
                    let quick = legality.permits(family, &extents);
                    prop_assert_eq!(quick, full.is_none(), "{} {} for {}", family.name, configuration, other);
                    let shared = SharedConditions::of([legality.conditions(); 2]).hold(&extents);
                    let rest = legality.permits_rest(family, &extents);
                    prop_assert!(shared.into_iter().all(|holds| (holds && rest) == quick));
                    let legality = Legality::of_searched(family, &configuration, tuned, device).unwrap();
                    let full = family.violated(&configuration, &other, device).unwrap();
                    let quick = legality.permits(family, &extents);
                    prop_assert_eq!(quick, full.is_none(), "{} {} for {}", family.name, configuration, other);
                }
            }
        }
    }

    /// Each derived value has the one before it twice.
    #[test]
    fn constraints_without_a_formula_of_reasonable_size_are_evaluated_in_full() {
        let derived: String =
            (1..40).map(|at| format!("D{at} = 'D{0} - 1 + 0 * D{0}'\n", at - 1)).collect();
        let text = format!(
            "schema = 1\nname = 't'\nsummary = ''\ndtypes = ['f32']\ncompute = ['f32']\n\
             layouts = ['nn']\nkernels = [{{ entry = 'k', grid = [1], block = [1] }}]\n\
             parameters = {{ P = [1] }}\n[derived]\nD0 = 'M * P'\n{derived}\n\
             [[constraints]]\nrequire = 'D39 > 0'\nbecause = ''\n[default]\nP = 1\n"
        );
        let family = Family::parse("t.toml", &text).unwrap();
        let problem = |m| Problem::new(Shape { m, n: 8, k: 8 }, Dtype::F32);
        let (device, default) = (Device::h200(), family.default());
        let legality = Legality::of(&family, default, &problem(8), &device).unwrap();
        assert!(legality.unfolded.is_some());
        for (m, legal) in [(1, false), (39, false), (100, true)] {
            let extents = Extents::new(&problem(m), &Storage::packed(&problem(m)));
            assert_eq!(legality.permits(&family, &extents), legal, "{m}");
            let full = family.forbidden(default, &problem(m), &device).unwrap();
            assert_eq!(full.is_none(), legal, "{m}");
        }
    }

    #[test]
    fn constraints_that_no_extent_changes_are_decided_once() {
        let families = Families::built_in().unwrap();
        let family = families.get("blocktile").unwrap();
        let problem = Problem::new(Shape { m: 1024, n: 1024, k: 1024 }, Dtype::F32);
        let device = Device::h200();
        let default = family.default_for(&problem, &device).unwrap().unwrap();
        let legality = Legality::of(family, &default, &problem, &device).unwrap();
        assert_eq!(legality.conditions.len(), 1, "alignment alone is open");
        let small = Device { registers_per_sm: 1024, ..device };
        assert!(Legality::of(family, &default, &problem, &small).is_none());
        // Padded rows and odd addresses are as bad as odd rows.
        let packed = Storage::packed(&problem);
        for (storage, legal) in [
            (packed, true),
            (Storage { lda: 1025, ..packed }, false),
            (Storage { lda: 1028, ..packed }, true),
            (Storage { alignment: 16, ..packed }, true),
            (Storage { alignment: 8, ..packed }, false),
        ] {
            let extents = Extents::new(&problem, &storage);
            assert_eq!(legality.permits(family, &extents), legal, "{storage:?}");
        }
    }
}
