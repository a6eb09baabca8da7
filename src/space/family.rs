//! A family: what a search-space file means, and the evaluation of its expressions for a problem,
//! a device and a configuration. `parse` makes it from the file.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use indexmap::IndexMap;
use tera::Context;

use super::expression::{ExpressionError, ExpressionId, Expressions};
use super::parse;
use super::recorded::{Removed, Renamed};
use super::scope::{bind, bind_all, built_in_scope, stored_scope};
use super::seeds::{self, Seeds};
use crate::model::{
    Argument, Compute, ComputeCapability, Configuration, Device, Diagnostic, Dtype, Layout,
    Problem, Storage, Swizzle, Value,
};

/// An expression of a family and where its text stands in the file.
#[derive(Debug, Clone)]
pub(crate) struct Located {
    pub(crate) id: ExpressionId,
    pub(super) span: Range<usize>,
}

/// A rule that every legal configuration satisfies.
#[derive(Debug, Clone)]
pub struct Constraint {
    pub(crate) require: Located,
    /// The expression as written.
    pub text: String,
    /// Why it must hold, in the family's words.
    pub because: String,
    /// What it keeps out.
    pub bars: Bars,
}

/// What a constraint keeps out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bars {
    /// What would be wrong, or could not run.
    Wrong,
    /// What would be right and is only not worth a search's time: no reason against a kernel that is
    /// known to be fast elsewhere.
    Slow,
    /// What is right and gives other bits in each run: nobody gets it who did not ask for it.
    Unrepeatable,
}

/// One launch, its extents still expressions.
#[derive(Debug, Clone)]
pub(crate) struct KernelSpec {
    pub(crate) entry: String,
    /// Whether the configuration has this launch; nothing where it always does.
    pub(crate) when: Option<Located>,
    pub(crate) grid: Vec<Located>,
    pub(crate) block: Vec<Located>,
    pub(crate) dynamic_shared_bytes: Option<Located>,
    /// What the file lists; nothing where it leaves the convention to decide.
    pub(crate) arguments: Option<Vec<Argument>>,
}

/// A scratch buffer; a configuration that needs none of its bytes has no such buffer.
#[derive(Debug, Clone)]
pub(crate) struct WorkspaceSpec {
    pub(crate) name: String,
    pub(crate) bytes: Located,
}

/// A tensor map. Several may have one name, of which a configuration has one at most.
#[derive(Debug, Clone)]
pub(crate) struct TensorMapSpec {
    pub(crate) name: String,
    /// Whether the configuration has this map; nothing where it always does.
    pub(crate) when: Option<Located>,
    pub(crate) operand: String,
    /// Bytes into the operand; nothing for its beginning.
    pub(crate) offset: Option<Located>,
    pub(crate) extents: Vec<Located>,
    pub(crate) strides: Vec<Located>,
    pub(crate) tile: Vec<Located>,
    pub(crate) swizzle: Swizzle,
}

/// How large a launch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Blocks of its grid.
    pub blocks: u64,
    /// Threads of a block.
    pub threads: u64,
}

/// One way to write the kernel: a template and the space of its parameters.
#[derive(Debug, Clone)]
pub struct Family {
    /// Its name, also the stem of both its files.
    pub name: String,
    /// One sentence on how the kernel works.
    pub summary: String,
    /// The template's file name.
    pub template: String,
    /// The family that has beaten it wherever both were measured: where that one serves a problem,
    /// a search of both evaluates only the default of this one.
    pub superseded_by: Option<String>,
    /// Parameters and their values, as declared.
    pub parameters: IndexMap<String, Vec<Value>>,
    /// The rules of legality, as declared.
    pub constraints: Vec<Constraint>,
    pub(super) dtypes: Vec<Dtype>,
    pub(super) compute: Vec<Compute>,
    pub(super) layouts: Vec<Layout>,
    pub(super) min_compute_capability: Option<ComputeCapability>,
    /// Which configurations may give other bits in each run; nothing where none does.
    pub(crate) nondeterministic: Option<Located>,
    /// Name and expression, each after those that it reads.
    pub(crate) derived: IndexMap<String, Located>,
    pub(crate) kernels: Vec<KernelSpec>,
    pub(crate) workspaces: Vec<WorkspaceSpec>,
    pub(crate) tensor_maps: Vec<TensorMapSpec>,
    /// Of the file: one at least.
    pub(super) defaults: Vec<Configuration>,
    /// What searches begin with, by GPU.
    pub(super) seeds: Vec<Seeds>,
    /// Old names of parameters, for configurations that were written down.
    pub(super) renamed: IndexMap<String, Renamed>,
    /// Parameters that the family had once, with what their value follows from today.
    pub(super) removed: IndexMap<String, Removed>,
    pub(super) expressions: Expressions,
    pub(super) file: Arc<SourceFile>,
}

/// The text that a family was read from, for pointing at it.
#[derive(Debug)]
pub(super) struct SourceFile {
    pub(super) name: String,
    pub(super) text: String,
}

impl SourceFile {
    pub(super) fn error(&self, span: Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            file: self.name.clone(),
            source: self.text.clone(),
            span,
            message: message.into(),
            help: None,
        }
    }

    /// An error inside an expression. The text of a TOML string starts one byte after its span
    /// where it is written plainly; otherwise the whole string is blamed.
    pub(super) fn expression_error(
        &self,
        at: &Range<usize>,
        text: &str,
        error: ExpressionError,
    ) -> Diagnostic {
        let plain = self.text.get(at.start + 1..at.start + 1 + text.len()) == Some(text);
        let span = if plain {
            at.start + 1 + error.span.start..at.start + 1 + error.span.end
        } else {
            at.clone()
        };
        self.error(span, error.message)
    }
}

impl Family {
    /// Reads a search-space file. `file` is its name in messages.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place: TOML, unknown fields and names, expressions
    /// that do not parse, values that no parameter has, defaults that are not whole.
    pub fn parse(file: &str, text: &str) -> Result<Self, Box<Diagnostic>> {
        parse::family(file, text).map_err(Box::new)
    }

    /// The file it was read from, as messages name it.
    pub fn file(&self) -> &str {
        &self.file.name
    }

    /// All names that it declares: parameters, then derived values.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parameters.keys().chain(self.derived.keys()).map(String::as_str)
    }

    /// The configurations that searches on a device begin with, the best known first: the device's seeds,
    /// or those of the GPU with the nearest compute capability; without seeds, those of its file.
    pub fn defaults(&self, device: &Device) -> &[Configuration] {
        match seeds::nearest(&self.seeds, device) {
            Some(seeds) => &seeds.configurations,
            None => &self.defaults,
        }
    }

    /// The default of its file, which is right for every problem that the family serves on any device.
    pub fn default(&self) -> &Configuration {
        &self.defaults[0]
    }

    /// Why the family cannot serve `problem` on `device`; `None` if it can.
    pub fn refusal(&self, problem: &Problem, device: &Device) -> Option<String> {
        fn words<T: std::fmt::Display>(known: &[T]) -> String {
            known.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
        }
        if !self.dtypes.contains(&problem.dtype) {
            return Some(format!("serves dtype {}, not {}", words(&self.dtypes), problem.dtype));
        }
        if !self.compute.contains(&problem.compute) {
            let known = words(&self.compute);
            return Some(format!("serves compute {known}, not {}", problem.compute));
        }
        if !self.layouts.contains(&problem.layout) {
            return Some(format!("serves layout {}, not {}", words(&self.layouts), problem.layout));
        }
        let needed = self.min_compute_capability?;
        (device.compute_capability < needed).then(|| {
            format!(
                "needs compute capability {needed}, the device has {}",
                device.compute_capability
            )
        })
    }

    /// The same family, whose searches also try what may give other bits in each run.
    pub fn allowing_nondeterministic(mut self) -> Self {
        self.constraints.retain(|constraint| constraint.bars != Bars::Unrepeatable);
        self
    }

    /// Whether two runs of a configuration give the same bits, by what the file says of it.
    ///
    /// # Errors
    /// Where the file's expression or a derived value cannot be evaluated.
    pub fn is_deterministic(
        &self,
        configuration: &Configuration,
        problem: &Problem,
        device: &Device,
    ) -> Result<bool, Box<Diagnostic>> {
        let Some(expression) = &self.nondeterministic else { return Ok(true) };
        let mut scope = built_in_scope(problem, device);
        bind_all(&mut scope, configuration);
        for name in self.derived_for(expression.id) {
            let value = self.evaluate(&self.derived[name], &scope)?;
            bind(&mut scope, name, &value);
        }
        Ok(!self.holds(expression, &scope)?)
    }

    /// The first of the device's defaults that is legal for `problem`, or that of the family's file; where
    /// rules that only spare a search's time leave none, the first of the device's that is right.
    ///
    /// # Errors
    /// Where a constraint or derived value cannot be evaluated.
    pub fn default_for(
        &self,
        problem: &Problem,
        device: &Device,
    ) -> Result<Option<Configuration>, Box<Diagnostic>> {
        let mut right = None;
        for configuration in self.defaults(device) {
            if self.violated(configuration, problem, device)?.is_none() {
                return Ok(Some(configuration.clone()));
            }
            if right.is_none() && self.excluded(configuration, problem, device)?.is_none() {
                right = Some(configuration.clone());
            }
        }
        if right.is_none() && self.violated(self.default(), problem, device)?.is_none() {
            right = Some(self.default().clone());
        }
        Ok(right)
    }

    /// The first constraint that `configuration` breaks, `None` if it is legal.
    ///
    /// # Errors
    /// Where a constraint or derived value cannot be evaluated.
    pub fn violated(
        &self,
        configuration: &Configuration,
        problem: &Problem,
        device: &Device,
    ) -> Result<Option<&Constraint>, Box<Diagnostic>> {
        self.first_broken(configuration, problem, device, |_| true)
    }

    /// The first constraint that `configuration` breaks of those that do not just spare searches, `None`
    /// if it is right, fast or not, with the same bits in each run or not.
    ///
    /// # Errors
    /// Where a constraint or derived value cannot be evaluated.
    pub fn forbidden(
        &self,
        configuration: &Configuration,
        problem: &Problem,
        device: &Device,
    ) -> Result<Option<&Constraint>, Box<Diagnostic>> {
        self.first_broken(configuration, problem, device, |constraint| {
            constraint.bars == Bars::Wrong
        })
    }

    /// The first constraint that keeps `configuration` out of a search even where it is known to be fast:
    /// it would be wrong, or its bits are other ones in each run and nobody allowed that.
    ///
    /// # Errors
    /// Where a constraint or derived value cannot be evaluated.
    pub(super) fn excluded(
        &self,
        configuration: &Configuration,
        problem: &Problem,
        device: &Device,
    ) -> Result<Option<&Constraint>, Box<Diagnostic>> {
        self.first_broken(configuration, problem, device, |constraint| {
            constraint.bars != Bars::Slow
        })
    }

    fn first_broken(
        &self,
        configuration: &Configuration,
        problem: &Problem,
        device: &Device,
        counts: impl Fn(&Constraint) -> bool,
    ) -> Result<Option<&Constraint>, Box<Diagnostic>> {
        let mut scope = built_in_scope(problem, device);
        bind_all(&mut scope, configuration);
        let mut computed = BTreeSet::new();
        for constraint in self.constraints.iter().filter(|constraint| counts(constraint)) {
            // Only what the constraint reads: an earlier one may guard a division by zero.
            for name in self.derived_for(constraint.require.id) {
                if computed.insert(name) {
                    let value = self.evaluate(&self.derived[name], &scope)?;
                    bind(&mut scope, name, &value);
                }
            }
            if !self.holds(&constraint.require, &scope)? {
                return Ok(Some(constraint));
            }
        }
        Ok(None)
    }

    /// All names that a template or launch of `configuration` may use.
    ///
    /// # Errors
    /// Where a derived value cannot be evaluated.
    pub fn scope(
        &self,
        configuration: &Configuration,
        problem: &Problem,
        device: &Device,
    ) -> Result<Context, Box<Diagnostic>> {
        self.scope_stored(configuration, problem, &Storage::packed(problem), device)
    }

    /// As [`Family::scope`], for operands that are not packed.
    ///
    /// # Errors
    /// As [`Family::scope`].
    pub fn scope_stored(
        &self,
        configuration: &Configuration,
        problem: &Problem,
        storage: &Storage,
        device: &Device,
    ) -> Result<Context, Box<Diagnostic>> {
        let mut scope = stored_scope(problem, storage, device);
        bind_all(&mut scope, configuration);
        for (name, expression) in &self.derived {
            let value = self.evaluate(expression, &scope)?;
            bind(&mut scope, name, &value);
        }
        Ok(scope)
    }

    /// Blocks and threads of each launch, without evaluating what they do not hang on; `None` for
    /// a launch that does not happen.
    ///
    /// # Errors
    /// Where an extent or a derived value cannot be evaluated.
    pub fn extents(
        &self,
        configuration: &Configuration,
        problem: &Problem,
        device: &Device,
    ) -> Result<Vec<Option<Extent>>, Box<Diagnostic>> {
        let mut scope = built_in_scope(problem, device);
        bind_all(&mut scope, configuration);
        let mut computed = BTreeSet::new();
        let mut extents = Vec::new();
        for kernel in &self.kernels {
            let when = kernel.when.iter();
            for expression in when.chain(&kernel.grid).chain(&kernel.block) {
                for name in self.derived_for(expression.id) {
                    if computed.insert(name) {
                        let value = self.evaluate(&self.derived[name], &scope)?;
                        bind(&mut scope, name, &value);
                    }
                }
            }
            let happens = match &kernel.when {
                Some(when) => self.holds(when, &scope)?,
                None => true,
            };
            let product = |expressions: &[Located]| {
                expressions.iter().try_fold(1_u64, |product, expression| {
                    let size = self.size(expression, &scope, u64::from(u32::MAX))?;
                    Ok::<u64, Box<Diagnostic>>(product.saturating_mul(size))
                })
            };
            extents.push(if happens {
                Some(Extent { blocks: product(&kernel.grid)?, threads: product(&kernel.block)? })
            } else {
                None
            });
        }
        Ok(extents)
    }

    /// Bytes of all workspaces together.
    ///
    /// # Errors
    /// Where a size or a derived value cannot be evaluated.
    pub fn workspace_bytes(
        &self,
        configuration: &Configuration,
        problem: &Problem,
        device: &Device,
    ) -> Result<u64, Box<Diagnostic>> {
        let mut scope = built_in_scope(problem, device);
        bind_all(&mut scope, configuration);
        let mut computed = BTreeSet::new();
        let mut bytes = 0_u64;
        for workspace in &self.workspaces {
            for name in self.derived_for(workspace.bytes.id) {
                if computed.insert(name) {
                    let value = self.evaluate(&self.derived[name], &scope)?;
                    bind(&mut scope, name, &value);
                }
            }
            bytes = bytes.saturating_add(self.size(&workspace.bytes, &scope, u64::MAX)?);
        }
        Ok(bytes)
    }

    /// The names that an expression reads, not those behind derived ones.
    pub(super) fn reads(&self, expression: &Located) -> BTreeSet<String> {
        self.expressions.reads(expression.id)
    }

    /// The derived values that an expression needs, directly or through others, in order.
    pub(crate) fn derived_for(&self, id: ExpressionId) -> Vec<&str> {
        let mut needed: BTreeSet<String> = self.expressions.reads(id);
        for (name, expression) in self.derived.iter().rev() {
            if needed.contains(name) {
                needed.extend(self.expressions.reads(expression.id));
            }
        }
        self.derived.keys().map(String::as_str).filter(|name| needed.contains(*name)).collect()
    }

    /// The parameters (by position) that an expression depends on, directly or through derived
    /// values.
    pub(crate) fn parameters_for(&self, id: ExpressionId) -> Vec<usize> {
        let mut reads: BTreeSet<String> = self.expressions.reads(id);
        for name in self.derived_for(id) {
            reads.extend(self.expressions.reads(self.derived[name].id));
        }
        let positions = self.parameters.keys().enumerate();
        positions.filter(|(_, name)| reads.contains(*name)).map(|(index, _)| index).collect()
    }

    /// The parameters (by position) that the extents of launches depend on.
    pub fn extent_parameters(&self) -> BTreeSet<usize> {
        let expressions = self
            .kernels
            .iter()
            .flat_map(|kernel| kernel.when.iter().chain(&kernel.grid).chain(&kernel.block));
        expressions.flat_map(|expression| self.parameters_for(expression.id)).collect()
    }

    /// The same for the extents of launches and the bytes of workspaces.
    pub fn launch_parameters(&self) -> BTreeSet<usize> {
        let bytes = self.workspaces.iter().map(|workspace| &workspace.bytes);
        let of_bytes = bytes.flat_map(|expression| self.parameters_for(expression.id));
        self.extent_parameters().into_iter().chain(of_bytes).collect()
    }

    pub(crate) fn evaluate(
        &self,
        expression: &Located,
        scope: &Context,
    ) -> Result<Value, Box<Diagnostic>> {
        self.expressions.evaluate(expression.id, scope).map_err(|error| {
            let text = self.expressions.text(expression.id);
            let mut diagnostic = self.file.expression_error(&expression.span, text, error);
            diagnostic.help = self.values_read(expression.id, scope);
            Box::new(diagnostic)
        })
    }

    pub(crate) fn holds(
        &self,
        expression: &Located,
        scope: &Context,
    ) -> Result<bool, Box<Diagnostic>> {
        match self.evaluate(expression, scope)? {
            Value::Bool(holds) => Ok(holds),
            other => Err(self.blame(
                expression,
                format!("a condition is true or false, this is the {} {other}", other.kind()),
            )),
        }
    }

    /// The value of an extent: a whole number within 32 bits, or 64 for bytes of a workspace.
    pub(crate) fn size(
        &self,
        expression: &Located,
        scope: &Context,
        most: u64,
    ) -> Result<u64, Box<Diagnostic>> {
        let value = self.evaluate(expression, scope)?;
        match value {
            Value::Int(size) if u64::try_from(size).is_ok_and(|size| size <= most) => {
                Ok(size.unsigned_abs())
            }
            other => Err(self.blame(
                expression,
                format!("a size is a whole number from 0 to {most}, this is {other}"),
            )),
        }
    }

    pub(crate) fn blame(&self, expression: &Located, message: String) -> Box<Diagnostic> {
        Box::new(self.file.error(expression.span.clone(), message))
    }

    /// `with BM = 96, TM = 0`: what the failing expression read.
    fn values_read(&self, id: ExpressionId, scope: &Context) -> Option<String> {
        let values: Vec<String> = self
            .expressions
            .reads(id)
            .into_iter()
            .filter_map(|name| scope.get(&name).map(|value| format!("{name} = {value}")))
            .collect();
        (!values.is_empty()).then(|| format!("with {}", values.join(", ")))
    }
}
