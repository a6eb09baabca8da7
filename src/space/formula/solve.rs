//! A family's launches as formulas, for one configuration on one device.
//!
//! Code that was made for one problem is right for another where every name that its template reads
//! has the same value there: that is a condition like the constraints are. What it fixes is known to
//! all formulas after it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Binary, Formula, OPEN};
use crate::model::{Argument, Configuration, Device, LaunchPlan, Problem};
use crate::space::Family;
use crate::space::family::{Bars, Constraint, Located};
use crate::space::scope::{bind_all, built_in_scope};

/// Formulas beyond this are not worth having: a program would evaluate them at each call.
const MAX_SIZE: usize = 2000;

/// Names of [`OPEN`] that say what is computed: M, N, K and the batch. The others are rows.
const EXTENTS: usize = 4;

/// A configuration whose code and launches serve all problems for which `serves` holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// Whether the very code that was made serves a problem, and is legal for it. Leading dimensions
    /// are given as [`crate::model::Storage::leading_dimensions`] has them.
    pub serves: Vec<Formula>,
    /// The launches, first to last.
    pub launches: Vec<BoundLaunch>,
    /// Scratch buffers: name and bytes.
    pub workspaces: Vec<(String, Formula)>,
}

/// A launch for any problem that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundLaunch {
    /// The name of the kernel.
    pub entry: String,
    /// Blocks in x, y and z.
    pub grid: [Formula; 3],
    /// Threads in x, y and z.
    pub block: [Formula; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared_bytes: Formula,
    /// What it is called with; `None`: the standard arguments, then every workspace.
    pub arguments: Option<Vec<Argument>>,
}

/// What formulas are made from.
#[derive(Debug)]
pub struct Solver<'a> {
    family: &'a Family,
    known: BTreeMap<String, Formula>,
    device: &'a Device,
}

impl<'a> Solver<'a> {
    /// For one configuration of a family.
    pub fn new(
        family: &'a Family,
        configuration: &Configuration,
        pattern: &Problem,
        device: &'a Device,
    ) -> Self {
        let mut scope = built_in_scope(pattern, device);
        bind_all(&mut scope, configuration);
        let names = super::super::scope::BUILT_INS.iter().map(|(name, _)| *name);
        let names = names.chain(configuration.0.keys().map(String::as_str));
        let closed = names.filter(|name| !OPEN.contains(name));
        let known = closed.filter_map(|name| {
            let value = scope.get(name)?;
            let formula = match (value.as_bool(), value.as_str(), value.as_i64()) {
                (Some(value), ..) => Formula::Bool(value),
                (_, Some(text), _) => Formula::Text(text.to_owned()),
                (.., Some(value)) => Formula::Int(value),
                _ => return None,
            };
            Some((name.to_owned(), formula))
        });
        Self { family, known: known.collect(), device }
    }

    /// The constraints that a kernel has to satisfy to be right, in order: each as a condition of what
    /// is open; `None` where it is no formula.
    pub(crate) fn conditions(mut self) -> impl Iterator<Item = (&'a Constraint, Option<Formula>)> {
        for (name, expression) in &self.family.derived {
            if let Some(formula) = self.formula(expression) {
                self.known.insert(name.clone(), formula);
            }
        }
        let all = self.family.constraints.iter();
        all.filter(|constraint| constraint.bars == Bars::Wrong)
            .map(move |constraint| (constraint, self.closed(&constraint.require)))
    }

    /// Code made for `problem`, whose template uses `names`. `None` where something is no formula.
    pub fn bound(mut self, problem: &Problem, open: &[i64; 7], names: &[String]) -> Option<Bound> {
        if self.family.refusal(problem, self.device).is_some() {
            return None;
        }
        let mut serves = Vec::new();
        let used: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        for place in (0..OPEN.len()).filter(|place| used.contains(OPEN[*place])) {
            let equal = (Box::new(Formula::Open(place)), Box::new(Formula::Int(open[place])));
            serves.push(Formula::Binary(Binary::Equal, equal.0, equal.1));
        }
        // In the order in which they are derived: each knows what is fixed before it.
        for (name, expression) in &self.family.derived {
            let mut formula = self.formula(expression);
            if used.contains(name.as_str()) {
                let fixed = self.fix(formula.as_ref()?, open, &mut serves);
                // What is text in the end is so everywhere, or the formula was none.
                formula = Some(fixed?);
            }
            if let Some(formula) = formula {
                self.known.insert(name.clone(), formula);
            }
        }
        let rules = self.family.constraints.iter();
        for constraint in rules.filter(|constraint| constraint.bars == Bars::Wrong) {
            push(&mut serves, self.closed(&constraint.require)?);
        }
        let mut workspaces = Vec::new();
        for workspace in &self.family.workspaces {
            let bytes = self.closed(&workspace.bytes)?;
            let some = Formula::Binary(
                Binary::Greater,
                Box::new(bytes.clone()),
                Box::new(Formula::Int(0)),
            );
            // Whether a buffer is there decides what kernels are called with.
            if self.fix(&some.with(&|_| None), open, &mut serves)? == Formula::Bool(true) {
                workspaces.push((workspace.name.clone(), bytes));
            }
        }
        // Whether a map is there decides what kernels are called with, too. Addresses hang on it, which
        // no formula knows.
        for map in &self.family.tensor_maps {
            let when = self.closed(map.when.as_ref()?)?;
            if self.fix(&when, open, &mut serves)? == Formula::Bool(true) {
                return None;
            }
        }
        let mut launches = Vec::new();
        for kernel in &self.family.kernels {
            if let Some(when) = &kernel.when {
                let when = self.closed(when)?;
                if self.fix(&when, open, &mut serves)? == Formula::Bool(false) {
                    continue;
                }
            }
            let three = |extents: &[Located]| {
                let mut sizes = [const { Formula::Int(1) }; 3];
                for (size, extent) in sizes.iter_mut().zip(extents) {
                    *size = self.closed(extent)?;
                }
                Some(sizes)
            };
            launches.push(BoundLaunch {
                entry: kernel.entry.clone(),
                grid: three(&kernel.grid)?,
                block: three(&kernel.block)?,
                dynamic_shared_bytes: match &kernel.dynamic_shared_bytes {
                    Some(bytes) => self.closed(bytes)?,
                    None => Formula::Int(0),
                },
                arguments: kernel.arguments.clone(),
            });
        }
        Some(Bound { serves, launches, workspaces })
    }

    /// An expression with all that is known put in.
    fn formula(&self, expression: &Located) -> Option<Formula> {
        let formula = self.family.expressions.formula(expression.id)?;
        let formula = formula.with(&|name| self.known.get(name).cloned());
        (formula.size() <= MAX_SIZE).then_some(formula)
    }

    fn closed(&self, expression: &Located) -> Option<Formula> {
        self.formula(expression).filter(Formula::is_closed)
    }

    /// The value that a formula has for the problem; where it could have another, that it has this
    /// one becomes a condition.
    fn fix(
        &self,
        formula: &Formula,
        open: &[i64; 7],
        serves: &mut Vec<Formula>,
    ) -> Option<Formula> {
        if matches!(formula, Formula::Int(_) | Formula::Bool(_) | Formula::Text(_)) {
            return Some(formula.clone());
        }
        if !formula.is_closed() {
            return None;
        }
        let value = formula.value(open)?;
        if formula.is_condition() {
            let holds = value != 0;
            let own = if holds {
                formula.clone()
            } else {
                Formula::Unary(super::Unary::Not, Box::new(formula.clone()))
            };
            push(serves, own);
            return Some(Formula::Bool(holds));
        }
        let equal = (Box::new(formula.clone()), Box::new(Formula::Int(value)));
        push(serves, Formula::Binary(Binary::Equal, equal.0, equal.1));
        Some(Formula::Int(value))
    }
}

impl Formula {
    /// Whether it is a condition and no number.
    fn is_condition(&self) -> bool {
        match self {
            Self::Bool(_) | Self::Unary(super::Unary::Not, _) => true,
            Self::Binary(operation, ..) => operation.is_condition(),
            Self::If(parts) => parts[1].is_condition(),
            _ => false,
        }
    }
}

/// Adds a condition that is not always met and not there yet; the parts of a conjunction apart.
fn push(serves: &mut Vec<Formula>, condition: Formula) {
    match condition {
        Formula::Bool(true) => {}
        Formula::Binary(Binary::And, a, b) => {
            push(serves, *a);
            push(serves, *b);
        }
        condition if serves.contains(&condition) => {}
        condition => serves.push(condition),
    }
}

impl Bound {
    /// Whether a problem is served.
    pub fn serves(&self, open: &[i64; 7]) -> bool {
        self.serves.iter().all(|condition| condition.holds(open))
    }
}

/// The values of [`OPEN`] for a problem as it is stored.
pub fn open_values(problem: &Problem, storage: &crate::model::Storage) -> [i64; 7] {
    let [lda, ldb, ldc] = storage.leading_dimensions(problem);
    let shape = problem.shape;
    [shape.m, shape.n, shape.k, problem.batch, lda, ldb, ldc]
        .map(|value| i64::try_from(value).unwrap_or(i64::MAX))
}

impl Bound {
    /// For the very problem whose values and launches are given, and no other.
    pub fn only(open: &[i64; 7], plan: &LaunchPlan) -> Self {
        let same = |place: usize| {
            let values = (Formula::Open(place), Formula::Int(open[place]));
            Formula::Binary(Binary::Equal, Box::new(values.0), Box::new(values.1))
        };
        let three = |sizes: [u32; 3]| sizes.map(|size| Formula::Int(i64::from(size)));
        let launches = plan.kernels.iter().map(|kernel| BoundLaunch {
            entry: kernel.entry.clone(),
            grid: three(kernel.grid),
            block: three(kernel.block),
            dynamic_shared_bytes: Formula::Int(i64::from(kernel.dynamic_shared_bytes)),
            arguments: Some(kernel.arguments.clone()),
        });
        let workspaces = plan.workspaces.iter().map(|workspace| {
            let bytes = i64::try_from(workspace.bytes).unwrap_or(i64::MAX);
            (workspace.name.clone(), Formula::Int(bytes))
        });
        Self {
            serves: (0..OPEN.len()).map(same).collect(),
            launches: launches.collect(),
            workspaces: workspaces.collect(),
        }
    }

    /// The same for one problem's extents and batch, with whatever rows it served before.
    pub fn of_one_problem(mut self, open: &[i64; 7]) -> Self {
        let alone = Self::only(open, &LaunchPlan::default()).serves;
        self.serves.splice(0..0, alone.into_iter().take(EXTENTS));
        self
    }
}
