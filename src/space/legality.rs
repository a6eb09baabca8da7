//! Whether one configuration is right for other problems, worth a search's time or not: what does not
//! hang on their extents is decided once, the rest is a few formulas for each further question.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use tera::Context;

use super::family::{Family, Located};
use super::formula::{Formula, OPEN, Solver, open_values};
use super::scope::{bind, bind_all, built_in_scope};
use crate::model::{Configuration, Device, Problem, Storage};

/// What is left to check of a configuration on a device.
#[derive(Debug, Clone)]
pub struct Legality {
    rules: Vec<Rule>,
}

/// A constraint that reads extents.
#[derive(Debug, Clone)]
enum Rule {
    /// As a formula, which takes 0.1 µs.
    Formula(Formula),
    /// What has none is asked of the engine, which takes 10 µs.
    Expression(Box<Expression>),
}

/// A constraint in the words of the file.
#[derive(Debug, Clone)]
struct Expression {
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
    values: [i64; 7],
    known: Vec<(u64, bool)>,
}

impl Extents {
    /// Those of a problem as it is stored.
    pub fn new(problem: &Problem, storage: &Storage) -> Self {
        Self { values: open_values(problem, storage), known: Vec::new() }
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
        let mut rules = Vec::new();
        for (constraint, formula) in
            Solver::new(family, configuration, pattern, device).conditions()
        {
            match formula {
                Some(Formula::Bool(true)) => {}
                Some(Formula::Bool(false)) => return None,
                Some(formula) => rules.push(Rule::Formula(formula)),
                None => {
                    let mut scope = built_in_scope(pattern, device);
                    bind_all(&mut scope, configuration);
                    match Expression::of(family, &constraint.require, scope)? {
                        Decided::Always => {}
                        Decided::Never => return None,
                        Decided::Open(rule) => rules.push(Rule::Expression(Box::new(rule))),
                    }
                }
            }
        }
        Some(Self { rules })
    }

    /// Whether the configuration, which is one of `family`, is legal for these extents.
    pub fn permits(&self, family: &Family, extents: &mut Extents) -> bool {
        self.rules.iter().all(|rule| match rule {
            Rule::Formula(formula) => formula.holds(&extents.values),
            Rule::Expression(rule) => {
                let known = extents.known.iter().find(|(known, _)| *known == rule.fingerprint);
                if let Some((_, holds)) = known {
                    return *holds;
                }
                let holds = rule.holds(family, &extents.values);
                extents.known.push((rule.fingerprint, holds));
                holds
            }
        })
    }
}

/// What is known of a constraint before any extent is.
enum Decided {
    Always,
    Never,
    Open(Expression),
}

impl Expression {
    /// Of a constraint, with the parameters and the device in `scope`; `None` where something that it
    /// reads cannot be evaluated.
    fn of(family: &Family, require: &Located, mut scope: Context) -> Option<Decided> {
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
            let holds = family.holds(require, &scope).ok()?;
            return Some(if holds { Decided::Always } else { Decided::Never });
        }
        let mut hasher = DefaultHasher::new();
        (&family.name, require.span.start).hash(&mut hasher);
        let mut fixed = Context::new();
        let known = needed.iter().filter(|name| !open_names.contains(name.as_str()));
        for (name, value) in known.filter_map(|name| Some((name, scope.get(name)?))) {
            (name, value.to_string()).hash(&mut hasher);
            fixed.insert_value(name.clone(), value.clone());
        }
        let open = (0..OPEN.len()).filter(|place| needed.contains(OPEN[*place])).collect();
        let fingerprint = hasher.finish();
        Some(Decided::Open(Self { require: require.clone(), fixed, open, derived, fingerprint }))
    }

    /// A rule that cannot be evaluated does not hold.
    fn holds(&self, family: &Family, values: &[i64; 7]) -> bool {
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
