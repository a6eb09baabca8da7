//! The walk over all assignments that lists the legal ones. A constraint is tried as soon as its
//! parameters are bound, so that a broken one removes a whole subtree; each distinct input of a
//! constraint is evaluated once and remembered. Search strategies live elsewhere.

use std::collections::HashMap;

use tera::Context;
use thiserror::Error;

use super::family::{Family, Located};
use super::scope::{bind, built_in_scope};
use crate::model::{Configuration, Device, Diagnostic, Problem, Value};

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

/// How many raw configurations a constraint removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pruned {
    /// The constraint as written.
    pub require: String,
    /// The family's reason.
    pub because: String,
    /// Raw configurations that it was the first to rule out.
    pub configurations: u128,
}

/// The legal configurations of one family for one problem on one device.
///
/// A configuration is a position: its values' indices as digits of a mixed-radix number, the first
/// parameter the most significant. Positions are ascending, so that membership is a binary search.
#[derive(Debug, Clone)]
pub struct LegalSpace {
    parameters: Vec<(String, Vec<Value>)>,
    positions: Vec<u64>,
    /// All assignments, legal or not.
    pub raw: u128,
    /// One entry for each constraint, as declared.
    pub pruned: Vec<Pruned>,
}

impl LegalSpace {
    /// Lists the legal configurations of `family`.
    ///
    /// # Errors
    /// See [`SpaceError`].
    pub fn of(family: &Family, problem: &Problem, device: &Device) -> Result<Self, SpaceError> {
        let mut walk = Walk::new(family, problem, device)?;
        walk.descend(0, 0)?;
        let Walk { positions, removed, radices, .. } = walk;
        let pruned = family
            .constraints
            .iter()
            .zip(removed)
            .map(|(constraint, configurations)| Pruned {
                require: constraint.text.clone(),
                because: constraint.because.clone(),
                configurations,
            })
            .collect();
        Ok(Self {
            parameters: family.parameters.clone().into_iter().collect(),
            positions,
            raw: radices.iter().map(|radix| u128::from(*radix)).product(),
            pruned,
        })
    }

    /// The space of `family` with nothing in it yet: `rule` keeps all out, `because` says why.
    pub fn closed(family: &Family, rule: &str, because: &str) -> Self {
        let parameters: Vec<(String, Vec<Value>)> = family.parameters.clone().into_iter().collect();
        let raw = parameters.iter().map(|(_, values)| values.len() as u128).product();
        let pruned =
            Pruned { require: rule.to_owned(), because: because.to_owned(), configurations: raw };
        Self { parameters, positions: Vec::new(), raw, pruned: vec![pruned] }
    }

    /// Lets in those of `configurations` of the family that are right for the problem, though a rule
    /// that only spares a search's time kept them out.
    ///
    /// # Errors
    /// See [`SpaceError`].
    pub fn admit<'c>(
        &mut self,
        family: &Family,
        (problem, device): (&Problem, &Device),
        configurations: impl IntoIterator<Item = &'c Configuration>,
    ) -> Result<(), SpaceError> {
        for configuration in configurations {
            let Some(position) = self.position_of(configuration) else { continue };
            let Err(place) = self.positions.binary_search(&position) else { continue };
            if family.forbidden(configuration, problem, device)?.is_some() {
                continue;
            }
            self.positions.insert(place, position);
            // It was the first rule that it breaks that counted it, or the one that closed the space.
            let broken = family.violated(configuration, problem, device)?;
            let broken = broken.map(|constraint| constraint.text.as_str());
            let counted = self.pruned.iter().position(|rule| Some(&*rule.require) == broken);
            if let Some(pruned) = self.pruned.get_mut(counted.unwrap_or(0)) {
                pruned.configurations = pruned.configurations.saturating_sub(1);
            }
        }
        Ok(())
    }

    /// The space of exactly these configurations, given as value indices in the order of
    /// `parameters`; `None` where there are more assignments than 2^64.
    pub fn of_recorded(
        parameters: Vec<(String, Vec<Value>)>,
        configurations: impl IntoIterator<Item = Vec<usize>>,
    ) -> Option<Self> {
        let radices = parameters.iter().map(|(_, values)| values.len() as u64);
        let raw = radices.into_iter().try_fold(1u64, u64::checked_mul)?;
        let mut space =
            Self { parameters, positions: Vec::new(), raw: raw.into(), pruned: Vec::new() };
        let positions = configurations.into_iter().map(|indices| space.position(&indices));
        space.positions = positions.collect();
        space.positions.sort_unstable();
        space.positions.dedup();
        Some(space)
    }

    /// How many configurations are legal.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether no configuration is legal.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The configuration with the given rank among the legal ones.
    pub fn get(&self, rank: usize) -> Option<Configuration> {
        let digits = self.digits(*self.positions.get(rank)?);
        let pairs = self.parameters.iter().zip(digits);
        Some(pairs.map(|((name, values), digit)| (name.clone(), values[digit].clone())).collect())
    }

    /// The rank of a configuration, `None` if it is not legal.
    pub fn rank(&self, configuration: &Configuration) -> Option<usize> {
        self.positions.binary_search(&self.position_of(configuration)?).ok()
    }

    /// How many values each parameter has, in the order of declaration.
    pub fn radices(&self) -> impl Iterator<Item = usize> {
        self.parameters.iter().map(|(_, values)| values.len())
    }

    /// The indices of a configuration's values among each parameter's, in the order of
    /// declaration.
    pub fn indices(&self, rank: usize) -> Option<Vec<usize>> {
        self.positions.get(rank).map(|position| self.digits(*position))
    }

    /// The rank of the configuration with these value indices, `None` if it is not legal.
    pub fn rank_of(&self, indices: &[usize]) -> Option<usize> {
        self.positions.binary_search(&self.position(indices)).ok()
    }

    /// Each parameter's name and values, in the order of declaration.
    pub fn parameters(&self) -> &[(String, Vec<Value>)] {
        &self.parameters
    }

    fn position_of(&self, configuration: &Configuration) -> Option<u64> {
        let mut position = 0;
        for (name, values) in &self.parameters {
            let value = configuration.get(name)?;
            let digit = values.iter().position(|known| known == value)?;
            position = position * values.len() as u64 + digit as u64;
        }
        Some(position)
    }

    fn position(&self, indices: &[usize]) -> u64 {
        self.radices()
            .zip(indices)
            .fold(0, |position, (radix, index)| position * radix as u64 + *index as u64)
    }

    /// Value indices, first parameter first.
    fn digits(&self, mut position: u64) -> Vec<usize> {
        let mut digits = vec![0; self.parameters.len()];
        for (digit, (_, values)) in digits.iter_mut().zip(&self.parameters).rev() {
            let radix = values.len() as u64;
            *digit = (position % radix) as usize;
            position /= radix;
        }
        digits
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Dtype, Shape};

    fn family(body: &str) -> Family {
        let text = format!(
            "schema = 1\nname = 't'\nsummary = ''\ndtypes = ['f32']\ncompute = ['f32']\n\
             layouts = ['nn']\nkernels = [{{ entry = 'k', grid = [1], block = [1] }}]\n{body}"
        );
        Family::parse("t.toml", &text).unwrap_or_else(|error| panic!("{error}"))
    }

    fn problem() -> Problem {
        Problem::new(Shape { m: 64, n: 64, k: 64 }, Dtype::F32)
    }

    fn space(body: &str) -> Result<LegalSpace, SpaceError> {
        LegalSpace::of(&family(body), &problem(), &Device::h200())
    }

    const TILES: &str = "
        parameters = { BM = [32, 64, 96], TM = [4, 6, 8], SPLIT = [true, false] }
        derived = { ROWS = 'BM // TM', HALF = 'TM // 2' }
        constraints = [
            { require = 'BM % TM == 0', because = 'a thread owns whole tiles' },
            { require = 'not SPLIT or HALF % 2 == 0', because = 'halves are vectors' },
            { require = 'BM <= M', because = 'no block beyond the problem' },
        ]
        default = { BM = 32, TM = 4, SPLIT = true }";

    #[test]
    fn the_walk_agrees_with_trying_everything() {
        let space = space(TILES).unwrap();
        let all: Vec<String> =
            (0..space.len()).map(|rank| space.get(rank).unwrap().to_string()).collect();
        assert_eq!(
            all,
            [
                "BM=32 TM=4 SPLIT=true",
                "BM=32 TM=4 SPLIT=false",
                "BM=32 TM=8 SPLIT=true",
                "BM=32 TM=8 SPLIT=false",
                "BM=64 TM=4 SPLIT=true",
                "BM=64 TM=4 SPLIT=false",
                "BM=64 TM=8 SPLIT=true",
                "BM=64 TM=8 SPLIT=false",
            ]
        );
    }

    #[test]
    fn every_raw_configuration_is_legal_or_pruned_once() {
        let space = space(TILES).unwrap();
        let pruned: Vec<u128> = space.pruned.iter().map(|pruned| pruned.configurations).collect();
        assert_eq!(pruned, [4, 0, 6]);
        assert_eq!(pruned.iter().sum::<u128>() + space.len() as u128, space.raw);
    }

    #[test]
    fn what_was_pruned_is_let_in_where_it_is_right_and_counted_once() {
        let pruning = TILES
            .replace("because = 'halves are vectors'", "because = '', prunes = true")
            .replace("BM % TM == 0", "BM >= TM");
        let family = family(&pruning);
        let named = |text: &str| family.read_configuration(text).unwrap();
        // Legal already, pruned, not right.
        let known = ["BM=32 TM=4 SPLIT=true", "BM=32 TM=6 SPLIT=true", "BM=96 TM=4 SPLIT=false"];
        let known = known.map(named);
        let (problem, device) = (problem(), Device::h200());
        let mut space = LegalSpace::of(&family, &problem, &device).unwrap();
        let legal = space.len();
        assert_eq!(space.rank(&known[1]), None);
        space.admit(&family, (&problem, &device), &known).unwrap();
        assert_eq!(space.len(), legal + 1);
        assert!(space.rank(&known[1]).is_some() && space.rank(&known[2]).is_none());
        let pruned: u128 = space.pruned.iter().map(|pruned| pruned.configurations).sum();
        assert_eq!(pruned + space.len() as u128, space.raw);

        let mut few = LegalSpace::closed(&family, "a rule", "a reason");
        assert!(few.is_empty());
        few.admit(&family, (&problem, &device), &known).unwrap();
        assert_eq!(few.get(0).as_ref(), Some(&known[0]));
        assert_eq!((few.len(), few.pruned[0].configurations), (2, few.raw - 2));
    }

    #[test]
    fn ranks_and_indices_find_their_way() {
        let space = space(TILES).unwrap();
        for rank in 0..space.len() {
            assert_eq!(space.rank(&space.get(rank).unwrap()), Some(rank));
            assert_eq!(space.rank_of(&space.indices(rank).unwrap()), Some(rank));
        }
    }

    #[test]
    fn a_guard_protects_what_comes_after_it() {
        let guarded = "
            parameters = { TM = [0, 4] }
            constraints = [
                { require = 'TM > 0', because = 'a tile has rows' },
                { require = '64 % TM == 0', because = 'whole tiles' },
            ]
            default = { TM = 4 }";
        assert_eq!(space(guarded).unwrap().len(), 1);
    }

    #[test]
    fn an_impossible_expression_is_named_with_its_values() {
        let unguarded = "
            parameters = { TM = [0, 4] }
            constraints = [{ require = '64 % TM == 0', because = 'whole tiles' }]
            default = { TM = 4 }";
        let error = space(unguarded).unwrap_err().to_string();
        assert!(error.contains("t.toml:10:") && error.contains("with TM = 0"), "{error}");
    }

    #[test]
    fn a_space_beyond_counting_is_refused() {
        let values: Vec<String> = (0..100).map(|value| value.to_string()).collect();
        let parameters: Vec<String> =
            (0..12).map(|index| format!("P{index} = [{}]", values.join(","))).collect();
        let defaults: Vec<String> = (0..12).map(|index| format!("P{index} = 0")).collect();
        let body = format!(
            "parameters = {{ {} }}\ndefault = {{ {} }}",
            parameters.join(", "),
            defaults.join(", ")
        );
        assert!(matches!(space(&body), Err(SpaceError::TooLarge { .. })));
    }
}
