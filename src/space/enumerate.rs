//! The walk over all assignments that lists the legal ones. A constraint is tried as soon as its
//! parameters are bound, so that a broken one removes a whole subtree; each distinct input of a
//! constraint is evaluated once and remembered. What is found is a [`super::LegalSpace`], whose tests are
//! this walk's too.

use std::collections::HashMap;

use tera::Context;
use thiserror::Error;

use super::family::{Family, Located};
use super::scope::{bind, built_in_scope};
use crate::model::{Device, Diagnostic, Problem, Value};

/// Most assignments, complete or partial, that a walk visits: about ten seconds' worth.
const MAX_VISITS: u64 = 1_000_000_000;

/// Most legal configurations that are kept: 8 bytes each.
const MAX_LEGAL: usize = 100_000_000;

/// Largest table of remembered results: a byte, or 24 for derived values, an entry.
const MAX_DENSE_TABLE: u64 = 1 << 22;

/// Why a space could not be listed.
#[derive(Debug, Error)]
pub enum SpaceError {
    /// A constraint or derived value cannot be evaluated.
    #[error("{}", .0.summary())]
    Expression(#[from] Box<Diagnostic>),
    /// The walk would take too long or hold too much.
    #[error(
        "the space of family `{family}` is too large to list ({what}): give its parameters fewer \
         values, or constraints that cut earlier"
    )]
    TooLarge {
        /// The family.
        family: String,
        /// Which limit was met.
        what: String,
    },
}

/// What a walk found.
pub(super) struct Listed {
    /// Legal assignments, ascending: the values' indices as digits, the first parameter's first.
    pub(super) positions: Vec<u64>,
    /// Raw configurations that each constraint was the first to rule out.
    pub(super) removed: Vec<u128>,
}

/// Lists what is legal of a family for a problem on a device.
///
/// # Errors
/// See [`SpaceError`].
pub(super) fn list(
    family: &Family,
    problem: &Problem,
    device: &Device,
) -> Result<Listed, SpaceError> {
    let mut walk = Walk::new(family, problem, device)?;
    walk.descend(0, 0)?;
    Ok(Listed { positions: walk.positions, removed: walk.removed })
}

/// The state of one walk.
struct Walk<'a> {
    family: &'a Family,
    values: Vec<&'a [Value]>,
    names: Vec<&'a str>,
    radices: Vec<u64>,
    /// Assignments below a node at each depth.
    below: Vec<u128>,
    /// Constraints that become decidable once the first `depth` parameters are bound.
    decidable: Vec<Vec<usize>>,
    checks: Vec<Check<'a>>,
    scope: Context,
    derived: Vec<Derived<'a>>,
    chosen: Vec<u16>,
    positions: Vec<u64>,
    removed: Vec<u128>,
    visits: u64,
}

struct Check<'a> {
    require: &'a Located,
    /// Positions in `Walk::derived`, in order of computation.
    needs: Vec<usize>,
    table: Table<bool>,
}

struct Derived<'a> {
    name: &'a str,
    expression: &'a Located,
    table: Table<Value>,
}

impl<'a> Walk<'a> {
    fn new(family: &'a Family, problem: &Problem, device: &Device) -> Result<Self, SpaceError> {
        let names: Vec<&str> = family.parameters.keys().map(String::as_str).collect();
        let values: Vec<&[Value]> = family.parameters.values().map(Vec::as_slice).collect();
        let radices: Vec<u64> = values.iter().map(|values| values.len() as u64).collect();
        if radices.iter().try_fold(1u64, |product, radix| product.checked_mul(*radix)).is_none() {
            return Err(SpaceError::TooLarge {
                family: family.name.clone(),
                what: "more than 2^64 raw configurations".to_owned(),
            });
        }
        let derived: Vec<Derived<'_>> = family
            .derived
            .iter()
            .map(|(name, expression)| Derived {
                name,
                expression,
                table: Table::new(family.parameters_for(expression.id), &radices),
            })
            .collect();
        let mut decidable = vec![Vec::new(); radices.len() + 1];
        let mut checks = Vec::new();
        for (index, constraint) in family.constraints.iter().enumerate() {
            let inputs = family.parameters_for(constraint.require.id);
            decidable[inputs.last().map_or(0, |last| last + 1)].push(index);
            let needed = family.derived_for(constraint.require.id);
            checks.push(Check {
                require: &constraint.require,
                needs: (0..derived.len())
                    .filter(|at| needed.contains(&derived[*at].name))
                    .collect(),
                table: Table::new(inputs, &radices),
            });
        }
        let mut below = vec![1u128; radices.len() + 1];
        for depth in (0..radices.len()).rev() {
            below[depth] = below[depth + 1] * u128::from(radices[depth]);
        }
        Ok(Self {
            family,
            values,
            names,
            below,
            decidable,
            checks,
            scope: built_in_scope(problem, device),
            derived,
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
        if let Some(known) = self.checks[constraint].table.get(&self.chosen) {
            return Ok(*known);
        }
        for input in self.checks[constraint].table.inputs.clone() {
            self.bind_parameter(input);
        }
        for needed in self.checks[constraint].needs.clone() {
            self.bind_derived(needed)?;
        }
        let holds = self.family.holds(self.checks[constraint].require, &self.scope)?;
        self.checks[constraint].table.set(&self.chosen, holds);
        Ok(holds)
    }

    fn bind_parameter(&mut self, parameter: usize) {
        let value = &self.values[parameter][usize::from(self.chosen[parameter])];
        bind(&mut self.scope, self.names[parameter], value);
    }

    fn bind_derived(&mut self, at: usize) -> Result<(), Box<Diagnostic>> {
        let derived = &mut self.derived[at];
        if derived.table.get(&self.chosen).is_none() {
            let value = self.family.evaluate(derived.expression, &self.scope)?;
            derived.table.set(&self.chosen, value);
        }
        if let Some(value) = derived.table.get(&self.chosen) {
            bind(&mut self.scope, derived.name, value);
        }
        Ok(())
    }

    fn too_large(&self, what: String) -> SpaceError {
        SpaceError::TooLarge { family: self.family.name.clone(), what }
    }
}

/// Results of an expression by the indices of the parameters that it reads.
struct Table<T> {
    inputs: Vec<usize>,
    strides: Vec<u64>,
    results: Results<T>,
}

enum Results<T> {
    Dense(Vec<Option<T>>),
    Sparse(HashMap<u64, T>),
}

impl<T> Table<T> {
    fn new(inputs: Vec<usize>, radices: &[u64]) -> Self {
        let mut entries = 1u64;
        let mut strides = Vec::with_capacity(inputs.len());
        for input in &inputs {
            strides.push(entries);
            entries *= radices[*input]; // cannot overflow: the whole product was checked
        }
        let results = if entries <= MAX_DENSE_TABLE {
            Results::Dense((0..entries).map(|_| None).collect())
        } else {
            Results::Sparse(HashMap::new())
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
            Results::Dense(results) => results[index as usize].as_ref(),
            Results::Sparse(results) => results.get(&index),
        }
    }

    fn set(&mut self, chosen: &[u16], result: T) {
        let index = self.index(chosen);
        match &mut self.results {
            Results::Dense(results) => results[index as usize] = Some(result),
            Results::Sparse(results) => {
                results.insert(index, result);
            }
        }
    }
}
