//! Evaluation of a family's expressions for a problem, a device and a configuration.

use std::collections::BTreeSet;

use super::expression::Expression;
use super::family::{Constraint, Excludes, Family, TensorCoreSpec};
use super::formula::{OPEN, Slot, Term};
use super::scope::{FIRST_PARAMETER, Scope};
use crate::model::{Configuration, Device, Diagnostic, Problem, Storage};

impl Family {
    /// Whether two runs of a configuration give the same bits, by its declaration.
    ///
    /// # Errors
    /// An expression that cannot be evaluated.
    pub fn is_deterministic(
        &self,
        configuration: &Configuration,
        problem: &Problem,
        device: &Device,
    ) -> Result<bool, Box<Diagnostic>> {
        let Some(expression) = &self.nondeterministic else { return Ok(true) };
        let mut scope = self.parameter_scope(configuration, problem, device);
        self.derive(expression, &mut scope)?;
        Ok(!self.holds(expression, &scope)?)
    }

    /// The first of the device's defaults that is legal for `problem`; where constraints that exclude slow
    /// kernels leave none, the first that is correct. Without either, the default of the family's file.
    ///
    /// # Errors
    /// An expression that cannot be evaluated.
    pub fn default_for(
        &self,
        problem: &Problem,
        device: &Device,
    ) -> Result<Option<Configuration>, Box<Diagnostic>> {
        let mut correct = None;
        for configuration in self.defaults(device) {
            if self.violated(configuration, problem, device)?.is_none() {
                return Ok(Some(configuration.clone()));
            }
            if correct.is_none() && self.excluded(configuration, problem, device)?.is_none() {
                correct = Some(configuration.clone());
            }
        }
        if correct.is_none() && self.violated(self.default(), problem, device)?.is_none() {
            correct = Some(self.default().clone());
        }
        Ok(correct)
    }

    /// The first constraint that `configuration` breaks, `None` if it is legal.
    ///
    /// # Errors
    /// An expression that cannot be evaluated.
    pub fn violated(
        &self,
        configuration: &Configuration,
        problem: &Problem,
        device: &Device,
    ) -> Result<Option<&Constraint>, Box<Diagnostic>> {
        self.first_broken(configuration, problem, device, |_| true)
    }

    /// The first constraint that `configuration` breaks of those that exclude illegal kernels; `None` if
    /// it is correct, whether fast or deterministic or not.
    ///
    /// # Errors
    /// An expression that cannot be evaluated.
    pub fn forbidden(
        &self,
        configuration: &Configuration,
        problem: &Problem,
        device: &Device,
    ) -> Result<Option<&Constraint>, Box<Diagnostic>> {
        self.first_broken(configuration, problem, device, |excludes| excludes == Excludes::Illegal)
    }

    /// The first constraint that excludes `configuration` from a search even where it is known to be
    /// fast: it would be wrong, or non-deterministic without a request for that.
    ///
    /// # Errors
    /// An expression that cannot be evaluated.
    pub(super) fn excluded(
        &self,
        configuration: &Configuration,
        problem: &Problem,
        device: &Device,
    ) -> Result<Option<&Constraint>, Box<Diagnostic>> {
        self.first_broken(configuration, problem, device, |excludes| excludes != Excludes::Slow)
    }

    fn first_broken(
        &self,
        configuration: &Configuration,
        problem: &Problem,
        device: &Device,
        counts: impl Fn(Excludes) -> bool,
    ) -> Result<Option<&Constraint>, Box<Diagnostic>> {
        let mut scope = self.parameter_scope(configuration, problem, device);
        Ok(self.first_broken_in(&mut scope, counts)?.map(|at| &self.constraints[at]))
    }

    fn first_broken_in<'a>(
        &'a self,
        scope: &mut Scope<'a>,
        counts: impl Fn(Excludes) -> bool,
    ) -> Result<Option<usize>, Box<Diagnostic>> {
        for (at, constraint) in self.constraints.iter().enumerate() {
            if !counts(constraint.excludes) {
                continue;
            }
            // Only what the constraint reads: an earlier one may guard a division by zero.
            self.derive(&constraint.require, scope)?;
            if !self.holds(&constraint.require, scope)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Whether a configuration breaks none of the constraints that count, for a problem like the pattern with these
    /// values of `OPEN`.
    pub(super) fn meets_constraints(
        &self,
        counts: fn(Excludes) -> bool,
        (configuration, pattern, device): (&Configuration, &Problem, &Device),
        open: [i128; OPEN.len()],
    ) -> bool {
        let mut scope = self.parameter_scope(configuration, pattern, device);
        scope.open(open);
        let broken = self.first_broken_in(&mut scope, counts);
        broken.is_ok_and(|broken| broken.is_none())
    }

    /// The values of all names that a template or launch of `configuration` may use.
    ///
    /// # Errors
    /// A derived value that cannot be evaluated.
    pub fn scope<'a>(
        &'a self,
        configuration: &'a Configuration,
        problem: &Problem,
        device: &Device,
    ) -> Result<Scope<'a>, Box<Diagnostic>> {
        self.scope_stored(configuration, problem, &Storage::packed(problem), device)
    }

    /// As [`Family::scope`], for operands that are not packed.
    ///
    /// # Errors
    /// As [`Family::scope`].
    pub fn scope_stored<'a>(
        &'a self,
        configuration: &'a Configuration,
        problem: &Problem,
        storage: &Storage,
        device: &Device,
    ) -> Result<Scope<'a>, Box<Diagnostic>> {
        let mut scope = Scope::of_problem(problem, storage, device, self.own_names.len());
        self.bind_parameters(configuration, &mut scope);
        for derived in &self.derived {
            let value = self.evaluate(&derived.expression, &scope)?;
            scope.bind(derived.slot, value);
        }
        Ok(scope)
    }

    /// The names that `scope` has for the family's parameters and derived values, with their values.
    pub(crate) fn own_values<'a>(
        &'a self,
        scope: &'a Scope<'_>,
    ) -> impl Iterator<Item = (&'a str, Term<'a>)> {
        self.names().zip((FIRST_PARAMETER..).map(|slot| scope.get(slot as Slot)))
    }

    /// The built-in names for a packed problem and the parameters, without derived values.
    fn parameter_scope<'a>(
        &'a self,
        configuration: &'a Configuration,
        problem: &Problem,
        device: &Device,
    ) -> Scope<'a> {
        let packed = Storage::packed(problem);
        let mut scope = Scope::of_problem(problem, &packed, device, self.own_names.len());
        self.bind_parameters(configuration, &mut scope);
        scope
    }

    /// Gives the parameters the values of a configuration.
    pub(super) fn bind_parameters<'a>(
        &self,
        configuration: &'a Configuration,
        scope: &mut Scope<'a>,
    ) {
        for (at, name) in self.parameters.keys().enumerate() {
            // Configurations mostly have the order of the family.
            let value = match configuration.0.get_index(at) {
                Some((found, value)) if found == name => Some(value),
                _ => configuration.get(name),
            };
            if let Some(value) = value {
                scope.bind((FIRST_PARAMETER + at) as Slot, Term::of(value));
            }
        }
    }

    /// Computes the derived values that an expression needs and `scope` does not have yet.
    pub(super) fn derive<'a>(
        &'a self,
        expression: &Expression,
        scope: &mut Scope<'a>,
    ) -> Result<(), Box<Diagnostic>> {
        for need in &expression.needs {
            let derived = &self.derived[*need];
            if scope.get(derived.slot) == Term::Unknown {
                let value = self.evaluate(&derived.expression, scope)?;
                scope.bind(derived.slot, value);
            }
        }
        Ok(())
    }

    /// The value of an expression where `scope` lacks names; `None` where it depends on these.
    pub(super) fn known_value<'a>(
        &'a self,
        expression: &'a Expression,
        scope: &mut Scope<'a>,
    ) -> Option<Term<'a>> {
        for need in &expression.needs {
            let derived = &self.derived[*need];
            if scope.get(derived.slot) == Term::Unknown
                && let Ok(value) = derived.expression.value(scope)
            {
                scope.bind(derived.slot, value);
            }
        }
        expression.value(scope).ok()
    }

    /// The parameters (by position) that an expression depends on, directly or through derived values.
    pub(crate) fn parameters_for(&self, expression: &Expression) -> Vec<usize> {
        let needed = expression.needs.iter().map(|need| &self.derived[*need].expression);
        let slots = needed.chain([expression]).flat_map(|one| &one.reads);
        let own = slots.filter_map(|slot| usize::from(*slot).checked_sub(FIRST_PARAMETER));
        let mut positions: Vec<usize> = own.filter(|at| *at < self.parameters.len()).collect();
        positions.sort_unstable();
        positions.dedup();
        positions
    }

    /// The parameters (by position) that the extents of launches and the work of tensor cores depend on.
    pub fn extent_parameters(&self) -> BTreeSet<usize> {
        let kernels = self.kernels.iter();
        let launches =
            kernels.flat_map(|kernel| kernel.when.iter().chain(&kernel.grid).chain(&kernel.block));
        let declared = self.work.iter().filter_map(|work| work.tensor_cores.as_ref());
        let expressions = launches.chain(declared.flat_map(TensorCoreSpec::expressions));
        expressions.flat_map(|expression| self.parameters_for(expression)).collect()
    }

    /// The value of an expression, whose names have values in `scope`.
    pub(crate) fn evaluate<'a>(
        &'a self,
        expression: &'a Expression,
        scope: &Scope<'a>,
    ) -> Result<Term<'a>, Box<Diagnostic>> {
        expression
            .value(scope)
            .map_err(|fault| Box::new(expression.blame(&self.file, &self.own_names, scope, fault)))
    }

    /// Whether a condition holds.
    pub(crate) fn holds<'a>(
        &'a self,
        expression: &'a Expression,
        scope: &Scope<'a>,
    ) -> Result<bool, Box<Diagnostic>> {
        match self.evaluate(expression, scope)? {
            Term::Bool(holds) => Ok(holds),
            other => Err(self.blame(
                expression,
                format!("a condition is true or false, this is the {} {other}", other.kind()),
            )),
        }
    }

    /// The value of an extent: a whole number from 0 to `most`.
    pub(crate) fn size<'a>(
        &'a self,
        expression: &'a Expression,
        scope: &Scope<'a>,
        most: u64,
    ) -> Result<u64, Box<Diagnostic>> {
        let value = self.evaluate(expression, scope)?;
        let size = match value {
            Term::Int(size) => u64::try_from(size).ok().filter(|size| *size <= most),
            _ => None,
        };
        size.ok_or_else(|| {
            let message = format!("a size is a whole number from 0 to {most}, this is {value}");
            self.blame(expression, message)
        })
    }

    pub(crate) fn blame(&self, expression: &Expression, message: String) -> Box<Diagnostic> {
        Box::new(self.file.error(expression.span.clone(), message))
    }
}
