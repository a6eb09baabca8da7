//! Enumeration of legal configurations. A constraint is evaluated as soon as its parameters have
//! values, so that a broken one removes a whole subtree, and once for each distinct input. The result
//! becomes a [`super::LegalSpace`], whose tests cover this file too.

use std::collections::HashMap;

use thiserror::Error;

use super::expression::{DerivedValue, Expression};
use super::family::Family;
use super::formula::{Slot, Term};
use super::scope::{FIRST_PARAMETER, Scope};
use crate::model::{Device, Diagnostic, Problem, Storage, Value};

/// Most assignments, complete or partial, that are visited: about ten seconds' worth.
const MAX_VISITS: u64 = 1_000_000_000;

/// Most legal configurations that are kept: 8 bytes each.
const MAX_LEGAL: usize = 100_000_000;

/// Most entries of a memo that has room for all inputs: a byte each, or 32 for derived values.
const MAX_DENSE_MEMO: u64 = 1 << 22;

/// Why a space could not be enumerated.
#[derive(Debug, Error)]
pub enum SpaceError {
    /// A constraint or derived value cannot be evaluated.
    #[error("{}", .0.summary())]
    Expression(#[from] Box<Diagnostic>),
    /// The enumeration would take too long or hold too much.
    #[error(
        "the space of family `{family}` is too large to list ({what}): give its parameters fewer \
         values, or constraints that cut earlier"
    )]
    TooLarge {
        /// The family.
        family: String,
        /// The limit.
        what: String,
    },
}

/// The legal assignments of a space.
pub(super) struct LegalPositions {
    /// Ascending: the values' indices as digits, the first parameter's first.
    pub(super) positions: Vec<u64>,
    /// Raw configurations that each constraint was the first to rule out.
    pub(super) removed: Vec<u128>,
}

/// Enumerates the legal configurations of a family for a problem on a device.
///
/// # Errors
/// See [`SpaceError`].
pub(super) fn enumerate(
    family: &Family,
    problem: &Problem,
    device: &Device,
) -> Result<LegalPositions, SpaceError> {
    let mut enumeration = Enumeration::new(family, problem, device)?;
    enumeration.descend(0, 0)?;
    Ok(LegalPositions { positions: enumeration.positions, removed: enumeration.removed })
}

/// The state of one enumeration: a depth-first search over the parameters.
struct Enumeration<'a> {
    family: &'a Family,
    values: Vec<&'a [Value]>,
    radices: Vec<u64>,
    /// Assignments below a node at each depth.
    below: Vec<u128>,
    /// Constraints that become decidable once the first `depth` parameters have values.
    decidable: Vec<Vec<usize>>,
    constraints: Vec<MemoizedConstraint<'a>>,
    scope: Scope<'a>,
    derived: Vec<MemoizedValue<'a>>,
    chosen: Vec<u16>,
    positions: Vec<u64>,
    removed: Vec<u128>,
    visits: u64,
}

struct MemoizedConstraint<'a> {
    require: &'a Expression,
    memo: Memo<bool>,
}

struct MemoizedValue<'a> {
    derived: &'a DerivedValue,
    memo: Memo<Term<'a>>,
}

impl<'a> Enumeration<'a> {
    fn new(family: &'a Family, problem: &Problem, device: &Device) -> Result<Self, SpaceError> {
        let values: Vec<&[Value]> = family.parameters.values().map(Vec::as_slice).collect();
        let radices: Vec<u64> = values.iter().map(|values| values.len() as u64).collect();
        if radices.iter().try_fold(1u64, |product, radix| product.checked_mul(*radix)).is_none() {
            return Err(SpaceError::TooLarge {
                family: family.name.clone(),
                what: "more than 2^64 raw configurations".to_owned(),
            });
        }
        let memoized = |derived: &'a DerivedValue| MemoizedValue {
            derived,
            memo: Memo::new(family.parameters_for(&derived.expression), &radices),
        };
        let mut decidable = vec![Vec::new(); radices.len() + 1];
        let mut constraints = Vec::new();
        for (index, constraint) in family.constraints.iter().enumerate() {
            let inputs = family.parameters_for(&constraint.require);
            decidable[inputs.last().map_or(0, |last| last + 1)].push(index);
            let memo = Memo::new(inputs, &radices);
            constraints.push(MemoizedConstraint { require: &constraint.require, memo });
        }
        let mut below = vec![1u128; radices.len() + 1];
        for depth in (0..radices.len()).rev() {
            below[depth] = below[depth + 1] * u128::from(radices[depth]);
        }
        let packed = Storage::packed(problem);
        Ok(Self {
            family,
            values,
            below,
            decidable,
            constraints,
            scope: Scope::of_problem(problem, &packed, device, family.own_names.len()),
            derived: family.derived.iter().map(memoized).collect(),
            chosen: vec![0; radices.len()],
            positions: Vec::new(),
            removed: vec![0; family.constraints.len()],
            visits: 0,
            radices,
        })
    }

    fn descend(&mut self, depth: usize, position: u64) -> Result<(), SpaceError> {
        self.visits += 1;
        if self.visits > MAX_VISITS {
            return Err(self.too_large(format!("more than {MAX_VISITS} partial assignments")));
        }
        for at in 0..self.decidable[depth].len() {
            let constraint = self.decidable[depth][at];
            if !self.holds(constraint)? {
                self.removed[constraint] += self.below[depth];
                return Ok(());
            }
        }
        if depth == self.radices.len() {
            if self.positions.len() == MAX_LEGAL {
                return Err(self.too_large(format!("more than {MAX_LEGAL} legal configurations")));
            }
            self.positions.push(position);
            return Ok(());
        }
        for digit in 0..self.radices[depth] {
            self.chosen[depth] = digit as u16;
            self.descend(depth + 1, position * self.radices[depth] + digit)?;
        }
        Ok(())
    }

    fn holds(&mut self, constraint: usize) -> Result<bool, Box<Diagnostic>> {
        let MemoizedConstraint { require, memo } = &mut self.constraints[constraint];
        if let Some(known) = memo.get(&self.chosen) {
            return Ok(*known);
        }
        for input in &memo.inputs {
            let value = &self.values[*input][usize::from(self.chosen[*input])];
            self.scope.bind((FIRST_PARAMETER + input) as Slot, Term::of(value));
        }
        for need in &require.needs {
            let MemoizedValue { derived, memo } = &mut self.derived[*need];
            let value = match memo.get(&self.chosen) {
                Some(known) => *known,
                None => {
                    let value = self.family.evaluate(&derived.expression, &self.scope)?;
                    memo.set(&self.chosen, value);
                    value
                }
            };
            self.scope.bind(derived.slot, value);
        }
        let holds = self.family.holds(require, &self.scope)?;
        memo.set(&self.chosen, holds);
        Ok(holds)
    }

    fn too_large(&self, what: String) -> SpaceError {
        SpaceError::TooLarge { family: self.family.name.clone(), what }
    }
}

/// Results of an expression by the indices of the parameters that it reads.
struct Memo<T> {
    inputs: Vec<usize>,
    strides: Vec<u64>,
    results: MemoizedResults<T>,
}

enum MemoizedResults<T> {
    Dense(Vec<Option<T>>),
    Sparse(HashMap<u64, T>),
}

impl<T> Memo<T> {
    fn new(inputs: Vec<usize>, radices: &[u64]) -> Self {
        let mut entries = 1u64;
        let mut strides = Vec::with_capacity(inputs.len());
        for input in &inputs {
            strides.push(entries);
            entries *= radices[*input]; // cannot overflow: the whole product was checked
        }
        let results = if entries <= MAX_DENSE_MEMO {
            MemoizedResults::Dense((0..entries).map(|_| None).collect())
        } else {
            MemoizedResults::Sparse(HashMap::new())
        };
        Self { inputs, strides, results }
    }

    fn index(&self, chosen: &[u16]) -> u64 {
        let digits = self.inputs.iter().map(|input| u64::from(chosen[*input]));
        digits.zip(&self.strides).map(|(digit, stride)| digit * stride).sum()
    }

    fn get(&self, chosen: &[u16]) -> Option<&T> {
        let index = self.index(chosen);
        match &self.results {
            MemoizedResults::Dense(results) => results[index as usize].as_ref(),
            MemoizedResults::Sparse(results) => results.get(&index),
        }
    }

    fn set(&mut self, chosen: &[u16], result: T) {
        let index = self.index(chosen);
        match &mut self.results {
            MemoizedResults::Dense(results) => results[index as usize] = Some(result),
            MemoizedResults::Sparse(results) => {
                results.insert(index, result);
            }
        }
    }
}
