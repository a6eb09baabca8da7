//! A family's launches as formulas, for one configuration on one device.
//!
//! Code that was made for one problem is right for another where every name that its template reads
//! has the same value there: that is a condition like the constraints are. What it fixes is known to
//! all formulas after it.

use super::{
    Binary, Bound, BoundLaunch, BoundMap, BoundPacking, Formula, OPEN, Slot, Term, Unary, equal,
};
use crate::model::{Argument, Configuration, Device, GemmType, Problem};
use crate::space::Family;
use crate::space::expression::{DerivedValue, Expression};
use crate::space::family::{Excludes, PackingSpec, TensorMapSpec};
use crate::space::scope::{FIRST_PARAMETER, Scope, slot_of};

/// Most values and operations of a formula, and most of them one inside another. A program would
/// evaluate larger ones at each call.
const MAX_SIZE: usize = 2000;
const MAX_DEPTH: usize = 180;

/// Derives formulas of the extents from a family's expressions.
#[derive(Debug)]
pub struct Solver<'a> {
    family: &'a Family,
    /// The names with one value for all extents.
    scope: Scope<'a>,
    /// Values and formulas of names, by slot.
    known: Vec<Option<Formula>>,
    device: &'a Device,
}

impl<'a> Solver<'a> {
    /// For one configuration of a family.
    pub fn new(
        family: &'a Family,
        configuration: &'a Configuration,
        pattern: &Problem,
        device: &'a Device,
    ) -> Self {
        let mut scope = Scope::unsized_problem(pattern, device, family.names().count());
        family.bind_parameters(configuration, &mut scope);
        let known = scope.values().iter().map(|value| Formula::literal(*value)).collect();
        Self { family, scope, known, device }
    }

    /// The constraints with exclusions that count, in order, each as a condition on the extents; `None`
    /// where that is too large.
    pub(crate) fn conditions(
        mut self,
        counts: fn(Excludes) -> bool,
    ) -> impl Iterator<Item = Option<Formula>> {
        for derived in &self.family.derived {
            let formula = self.formula(&derived.expression);
            self.know(derived, formula);
        }
        let all = self.family.constraints.iter();
        all.filter(move |constraint| counts(constraint.excludes))
            .map(move |constraint| self.closed(&constraint.require))
    }

    /// The bytes of the workspaces, in order; `None` where one is too large.
    pub(crate) fn workspaces(self) -> Option<Vec<Formula>> {
        let bytes: Vec<&Expression> =
            self.family.workspaces.iter().map(|workspace| &workspace.bytes).collect();
        self.expressions(&bytes)
    }

    /// Expressions of the family, in order; `None` where one is too large.
    pub(crate) fn expressions(mut self, expressions: &[&Expression]) -> Option<Vec<Formula>> {
        for derived in &self.family.derived {
            let formula = self.formula(&derived.expression);
            self.know(derived, formula);
        }
        expressions.iter().map(|expression| self.closed(expression)).collect()
    }

    fn know(&mut self, derived: &'a DerivedValue, formula: Option<Formula>) {
        let value = match &formula {
            Some(Formula::Int(value)) => Some(Term::Int(i128::from(*value))),
            Some(Formula::Bool(value)) => Some(Term::Bool(*value)),
            _ => derived.expression.value(&self.scope).ok(),
        };
        if let Some(value) = value {
            self.scope.bind(derived.slot, value);
        }
        if let Some(known) = self.known.get_mut(usize::from(derived.slot)) {
            *known = formula;
        }
    }

    /// Code made for `problem`, whose template uses `names`. `None` where something has no formula.
    pub fn bound(mut self, problem: &Problem, open: &[i64; 7], names: &[String]) -> Option<Bound> {
        if self.family.refusal(problem, self.device).is_some() {
            return None;
        }
        let mut serves = Vec::new();
        let own = || self.family.names().zip(FIRST_PARAMETER..);
        let slot = |name: &str| {
            let own = || own().find(|(own, _)| *own == name).map(|(_, slot)| slot as Slot);
            slot_of(name).or_else(own)
        };
        let used: Vec<Slot> = names.iter().filter_map(|name| slot(name)).collect();
        for place in (0..OPEN.len()).filter(|place| used.contains(&(*place as Slot))) {
            serves.push(equal(Formula::Name(place as Slot), open[place]));
        }
        // In the order of derivation: each uses the values fixed before it.
        for derived in &self.family.derived {
            let mut formula = self.formula(&derived.expression);
            if self.family.specialized.iter().any(|own| own.slot == derived.slot) {
                // The code keeps the value of its own problem; a condition says what else it serves.
                formula = Some(Formula::Int(formula?.value(open)?));
            } else if used.contains(&derived.slot) {
                // What is text in the end is so everywhere, or the formula was none.
                formula = Some(self.fix(formula.as_ref()?, open, &mut serves)?);
            }
            self.know(derived, formula);
        }
        for specialized in &self.family.specialized {
            push(&mut serves, self.closed(&specialized.require)?);
        }
        let constraints = self.family.constraints.iter();
        for constraint in constraints.filter(|one| one.excludes == Excludes::Illegal) {
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
        let mut tensor_maps = Vec::new();
        for map in &self.family.tensor_maps {
            if self.is_there(map.when.as_ref(), open, &mut serves)? {
                tensor_maps.push(self.tensor_map(map, problem.types)?);
            }
        }
        let mut launches = Vec::new();
        for kernel in &self.family.kernels {
            if !self.is_there(kernel.when.as_ref(), open, &mut serves)? {
                continue;
            }
            let three = |extents: &[Expression]| {
                let mut sizes = [const { Formula::Int(1) }; 3];
                for (size, extent) in sizes.iter_mut().zip(extents) {
                    *size = self.closed(extent)?;
                }
                Some(sizes)
            };
            let programmatic = match &kernel.programmatic {
                Some(when) => self.is_there(Some(when), open, &mut serves)?,
                None => false,
            };
            let packs = match &kernel.packs {
                Some(packs) => self.packing(packs, open, &mut serves)?,
                None => None,
            };
            launches.push(BoundLaunch {
                programmatic,
                packs: packs.filter(|packs| {
                    workspaces.iter().any(|(workspace, _)| *workspace == packs.workspace)
                }),
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
        Some(Bound { serves, launches, workspaces, tensor_maps })
    }

    /// Whether a launch or a tensor map is there, which decides what kernels are called with: where it could be
    /// otherwise for another problem, that becomes a condition.
    fn is_there(
        &self,
        when: Option<&Expression>,
        open: &[i64; 7],
        serves: &mut Vec<Formula>,
    ) -> Option<bool> {
        let Some(when) = when else { return Some(true) };
        let when = self.closed(when)?;
        Some(self.fix(&when, open, serves)? == Formula::Bool(true))
    }

    /// The operands that a launch packs; `None` within where there are none.
    fn packing(
        &self,
        packs: &PackingSpec,
        open: &[i64; 7],
        serves: &mut Vec<Formula>,
    ) -> Option<Option<BoundPacking>> {
        let mut operands = Vec::new();
        for (operand, when) in [(Argument::A, &packs.a), (Argument::B, &packs.b)] {
            if let Some(when) = when
                && self.is_there(Some(when), open, serves)?
            {
                operands.push(operand);
            }
        }
        let workspace = packs.workspace.clone();
        Some((!operands.is_empty()).then_some(BoundPacking { operands, workspace }))
    }

    fn tensor_map(&self, map: &TensorMapSpec, types: GemmType) -> Option<BoundMap> {
        let closed = |expressions: &[Expression]| {
            expressions.iter().map(|expression| self.closed(expression)).collect::<Option<_>>()
        };
        let offset = map.offset.as_ref().map(|offset| self.closed(offset));
        Some(BoundMap {
            name: map.name.clone(),
            operand: map.operand.clone(),
            dtype: map.dtype,
            swizzle: map.swizzle,
            rounds_to: map.rounding(types),
            offset: offset.unwrap_or(Some(Formula::Int(0)))?,
            extents: closed(&map.extents)?,
            strides: closed(&map.strides)?,
            tile: closed(&map.tile)?,
        })
    }

    /// An expression with all that is known put in; `None` where that is too large.
    fn formula(&self, expression: &Expression) -> Option<Formula> {
        if let Ok(value) = expression.value(&self.scope) {
            return Formula::literal(value);
        }
        let known = |slot: Slot| self.known.get(usize::from(slot)).cloned().flatten();
        let formula = expression.formula.with(&known);
        (formula.size() <= MAX_SIZE && formula.depth() <= MAX_DEPTH).then_some(formula)
    }

    fn closed(&self, expression: &Expression) -> Option<Formula> {
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
        if formula.is_literal() {
            return Some(formula.clone());
        }
        if !formula.is_closed() {
            return None;
        }
        let value = formula.value(open)?;
        if formula.is_condition() {
            let holds = value != 0;
            let condition = if holds {
                formula.clone()
            } else {
                Formula::Unary(Unary::Not, Box::new(formula.clone()))
            };
            push(serves, condition);
            return Some(Formula::Bool(holds));
        }
        push(serves, equal(formula.clone(), value));
        Some(Formula::Int(value))
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
