//! Whether one configuration is right for other problems, worth a search's time or not: what does not hang on their extents is
//! decided once, so that each further question costs a few evaluations, or none where another
//! configuration asked the same before.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use tera::Context;

use super::family::{Family, Located};
use super::scope::{bind, bind_all, built_in_scope};
use crate::model::{Configuration, Device, Problem, Storage};

/// The names that differ between problems of one dtype, compute type and layout.
const OPEN: [&str; 7] = ["M", "N", "K", "batch", "lda", "ldb", "ldc"];

/// What is left to check of a configuration on a device.
#[derive(Debug, Clone)]
pub struct Legality {
    rules: Vec<Rule>,
}

/// A constraint that reads extents.
#[derive(Debug, Clone)]
struct Rule {
    require: Located,
    /// The values that it reads and that are known.
    fixed: Context,
    /// The names of [`OPEN`] that it reads, by place.
    open: Vec<usize>,
    /// The derived values that read extents.
    derived: Vec<(String, Located)>,
    /// The same for all configurations that answer alike.
    fingerprint: u64,
}

/// The extents of a problem, and what was found out about it.
#[derive(Debug)]
pub struct Extents {
    values: [u64; 7],
    known: Vec<(u64, bool)>,
}

impl Extents {
    /// Those of a problem as it is stored.
    pub fn new(problem: &Problem, storage: &Storage) -> Self {
        let [lda, ldb, ldc] = storage.leading_dimensions(problem);
        let shape = problem.shape;
        let values = [shape.m, shape.n, shape.k, problem.batch, lda, ldb, ldc];
        Self { values, known: Vec::new() }
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
        if family.refusal(pattern, device).is_some() {
            return None;
        }
        let mut scope = built_in_scope(pattern, device);
        bind_all(&mut scope, configuration);
        let mut rules = Vec::new();
        let constraints = family.constraints.iter().enumerate();
        for (number, constraint) in constraints.filter(|(_, constraint)| !constraint.prunes) {
            let require = &constraint.require;
            let mut open_names: BTreeSet<&str> = OPEN.into();
            let mut needed = family.reads(require);
            let mut derived = Vec::new();
            for name in family.derived_for(require.id) {
                let expression = &family.derived[name];
                let reads = family.reads(expression);
                if reads.iter().any(|name| open_names.contains(name.as_str())) {
                    open_names.insert(name);
                    derived.push((name.to_owned(), expression.clone()));
                } else {
                    let value = family.evaluate(expression, &scope).ok()?;
                    bind(&mut scope, name, &value);
                }
                needed.extend(reads);
            }
            if !needed.iter().any(|name| open_names.contains(name.as_str())) {
                if !family.holds(require, &scope).ok()? {
                    return None;
                }
                continue;
            }
            let mut hasher = DefaultHasher::new();
            (&family.name, number).hash(&mut hasher);
            let mut fixed = Context::new();
            let known = needed.iter().filter(|name| !open_names.contains(name.as_str()));
            for (name, value) in known.filter_map(|name| Some((name, scope.get(name)?))) {
                (name, value.to_string()).hash(&mut hasher);
                fixed.insert_value(name.clone(), value.clone());
            }
            let open = (0..OPEN.len()).filter(|place| needed.contains(OPEN[*place])).collect();
            let fingerprint = hasher.finish();
            rules.push(Rule { require: require.clone(), fixed, open, derived, fingerprint });
        }
        Some(Self { rules })
    }

    /// Whether the configuration, which is one of `family`, is legal for these extents.
    pub fn permits(&self, family: &Family, extents: &mut Extents) -> bool {
        self.rules.iter().all(|rule| {
            let known = extents.known.iter().find(|(known, _)| *known == rule.fingerprint);
            if let Some((_, holds)) = known {
                return *holds;
            }
            let holds = rule.holds(family, &extents.values);
            extents.known.push((rule.fingerprint, holds));
            holds
        })
    }
}

impl Rule {
    /// A rule that cannot be evaluated does not hold.
    fn holds(&self, family: &Family, values: &[u64; 7]) -> bool {
        let mut scope = self.fixed.clone();
        for place in &self.open {
            scope.insert(OPEN[*place], &values[*place]);
        }
        for (name, expression) in &self.derived {
            match family.evaluate(expression, &scope) {
                Ok(value) => bind(&mut scope, name, &value),
                Err(_) => return false,
            }
        }
        family.holds(&self.require, &scope).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{Dtype, Layout, Shape};
    use crate::space::{Families, LegalSpace};

    fn layouts() -> impl Strategy<Value = Layout> {
        prop::sample::select(vec![Layout::Nn, Layout::Nt, Layout::Tn, Layout::Tt])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// What is asked quickly is what the family says when asked in full.
        #[test]
        fn quick_answers_are_the_full_ones(
            (m, n, k) in (1..300_u64, 1..300_u64, 1..300_u64),
            layout in layouts(),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 4),
        ) {
            let device = Device::h200();
            let tuned = |m: u64| Problem {
                layout,
                ..Problem::new(Shape { m, n: 1024, k: 1024 }, Dtype::F32)
            };
            let asked = Problem { shape: Shape { m, n, k }, ..tuned(1024) };
            let storage = Storage::packed(&asked);
            let mut extents = Extents::new(&asked, &storage);
            for family in Families::built_in().unwrap().iter() {
                // Some families are for few rows only.
                let mut tuned = tuned(1024);
                let mut space = LegalSpace::of(family, &tuned, &device).unwrap();
                if space.is_empty() {
                    tuned.shape.m = 8;
                    space = LegalSpace::of(family, &tuned, &device).unwrap();
                }
                for pick in &picks {
                    let configuration = space.get(pick.index(space.len()) as _).unwrap();
                    let legality = Legality::of(family, &configuration, &tuned, &device).unwrap();
                    let full = family.forbidden(&configuration, &asked, &device).unwrap();
                    let quick = legality.permits(family, &mut extents);
                    prop_assert_eq!(quick, full.is_none(), "{} {} for {}", family.name, configuration, asked);
                }
            }
        }
    }

    #[test]
    fn what_no_problem_could_change_is_decided_at_once() {
        let families = Families::built_in().unwrap();
        let family = families.get("blocktile").unwrap();
        let problem = Problem::new(Shape { m: 1024, n: 1024, k: 1024 }, Dtype::F32);
        let device = Device::h200();
        let default = family.default_for(&problem, &device).unwrap().unwrap();
        let legality = Legality::of(family, &default, &problem, &device).unwrap();
        assert_eq!(legality.rules.len(), 1, "alignment alone is open");
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
            let mut extents = Extents::new(&problem, &storage);
            assert_eq!(legality.permits(family, &mut extents), legal, "{storage:?}");
        }
    }
}
