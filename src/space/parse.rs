//! Parser of search-space files. In the family that it makes every name is known, every expression
//! parsed, and derived values stand in an order in which they can be computed.

mod defaults;
mod former;
mod maps;
mod words;
mod work;
mod workspaces;

use std::collections::BTreeMap;
use std::sync::Arc;

use indexmap::IndexMap;
use toml::Spanned;

use super::expression::{DerivedValue, Expression, SourceFile};
use super::family::{Constraint, Excludes, Family, KernelSpec, PackingSpec, SpecializedValue};
use super::file::{FamilyFile, KernelFile, PackingFile, PrunesFile, SCHEMA};
use super::formula::Slot;
use super::scope::FIRST_PARAMETER;
use super::work::contradiction;
use crate::model::diagnostic::did_you_mean;
use crate::model::launch::STANDARD_ARGUMENTS;
use crate::model::{Argument, ComputeCapability, Diagnostic, EpilogueOp, Value};

/// Most values of a parameter: no search could try more.
const MAX_VALUES: usize = 4096;

/// The reason of the constraint that excludes non-deterministic kernels.
const UNREPEATABLE: &str =
    "two runs may differ in their last bits: `--allow-nondeterministic` searches it";

impl Family {
    /// Reads a search-space file. `file` is its name in messages.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place: TOML, unknown fields and names, expressions
    /// that do not parse, values that no parameter has, incomplete defaults, declared work that
    /// contradicts the grid.
    pub fn parse(file: &str, text: &str) -> Result<Self, Box<Diagnostic>> {
        let source = SourceFile::new(file, text);
        let parsed: FamilyFile =
            toml::from_str(text).map_err(|error| toml_error(&source, &error))?;
        let family = Builder { source, names: Vec::new(), derived: Vec::new() }.build(parsed)?;
        contradiction(&family).map_or(Ok(family), |error| Err(Box::new(error)))
    }
}

/// Builds a family from its file and checks it on the way.
struct Builder {
    source: Arc<SourceFile>,
    /// Parameters and derived values, which expressions may read beside the built-in names.
    names: Vec<String>,
    /// The derived values, each after those that it reads.
    derived: Vec<DerivedValue>,
}

type Parsing<T> = Result<T, Diagnostic>;

impl Builder {
    fn build(mut self, file: FamilyFile) -> Parsing<Family> {
        if *file.schema.get_ref() != SCHEMA {
            let message =
                format!("schema is {}, this program reads {SCHEMA}", file.schema.get_ref());
            return Err(self.source.error(file.schema.span(), message));
        }
        let name = self.identifier(&file.name, "a family's name")?;
        let parameters = self.parameters(file.parameters)?;
        self.derive(&parameters, file.derived)?;

        let specialized = self.specialized(&file.specialized)?;
        let mut constraints = Vec::new();
        for constraint in file.constraints {
            let require = self.expression(&constraint.require)?;
            let text = constraint.require.into_inner();
            let because = constraint.because;
            let (require, excludes) = match &constraint.prunes {
                None => (require, Excludes::Illegal),
                Some(prunes) => {
                    (self.bound_where_measured(require, &text, prunes)?, Excludes::Slow)
                }
            };
            constraints.push(Constraint { require, text, because, excludes });
        }
        let nondeterministic = match &file.nondeterministic {
            Some(when) => Some(self.expression(when)?),
            None => None,
        };
        // A constraint like others: searches keep to it, and counts and reasons name it.
        if let Some(when) = &file.nondeterministic {
            let text = format!("not ({})", when.get_ref());
            let require = self.parse_expression(&text, when.span())?;
            let because = UNREPEATABLE.to_owned();
            let excludes = Excludes::Nondeterministic;
            constraints.push(Constraint { require, text, because, excludes });
        }
        let workspaces = self.workspaces(file.workspaces)?;
        let tensor_maps = self.tensor_maps(file.tensor_maps, &workspaces)?;
        let buffers: Vec<&str> = workspaces
            .iter()
            .map(|workspace| workspace.name.as_str())
            .chain(tensor_maps.iter().map(|map| map.name.as_str()))
            .collect();
        let kernels = file
            .kernels
            .into_iter()
            .map(|kernel| self.kernel(kernel, &buffers))
            .collect::<Parsing<Vec<_>>>()?;
        let work = file.work.map(|work| self.work(work, &kernels)).transpose()?;
        let defaults = self.defaults(&parameters, file.default)?;
        let renamed = self.renamed(&parameters, file.renamed)?;
        let removed = self.removed(&parameters, file.removed)?;
        let template = match file.template {
            Some(template) => template.into_inner(),
            None => format!("{name}.cu.tera"),
        };
        let min_compute_capability = match file.min_compute_capability {
            None => None,
            Some(text) => Some(ComputeCapability::parse(text.get_ref()).ok_or_else(|| {
                let message = format!("`{}` is no compute capability: write `9.0`", text.get_ref());
                self.source.error(text.span(), message)
            })?),
        };
        Ok(Family {
            name,
            summary: file.summary,
            template,
            superseded_by: file.superseded_by,
            parameters,
            constraints,
            dtypes: self.words(&file.dtypes)?,
            epilogue: file.epilogue,
            outputs: self.words(&file.outputs)?,
            compute: self.words(&file.compute)?,
            layouts: self.words(&file.layouts)?,
            min_compute_capability,
            nondeterministic,
            specialized,
            derived: self.derived,
            own_names: self.names,
            kernels,
            workspaces,
            tensor_maps,
            defaults,
            seeds: Vec::new(),
            renamed,
            removed,
            work,
            file: self.source,
        })
    }

    /// Derived values that code serves other problems with, each with the condition.
    fn specialized(
        &self,
        declared: &IndexMap<Spanned<String>, Spanned<String>>,
    ) -> Parsing<Vec<SpecializedValue>> {
        let each = declared.iter().map(|(name, require)| {
            let slot = self.names.iter().position(|known| known == name.get_ref());
            let slot = slot.map(|place| (FIRST_PARAMETER + place) as Slot);
            let slot = slot.filter(|slot| self.derived.iter().any(|own| own.slot == *slot));
            let Some(slot) = slot else {
                let message = format!("`{}` is no derived value of this family", name.get_ref());
                return Err(self.source.error(name.span(), message));
            };
            Ok(SpecializedValue { slot, require: self.expression(require)? })
        });
        each.collect()
    }

    /// A constraint that only spares searches, as it binds on devices: everywhere, or on those of the
    /// architectures that it was measured on.
    fn bound_where_measured(
        &mut self,
        require: Expression,
        text: &str,
        prunes: &Spanned<PrunesFile>,
    ) -> Parsing<Expression> {
        let on = match prunes.get_ref() {
            PrunesFile::Everywhere(true) => return Ok(require),
            PrunesFile::Everywhere(false) => {
                let message = "leave `prunes` out of a constraint that is no matter of taste";
                return Err(self.source.error(prunes.span(), message));
            }
            PrunesFile::On { on } => on,
        };
        let mut elsewhere = Vec::new();
        for word in on {
            let Some(ComputeCapability { major, minor }) = ComputeCapability::parse(word) else {
                let message = format!("`{word}` is no compute capability: write `9.0`");
                return Err(self.source.error(prunes.span(), message));
            };
            elsewhere.push(format!("compute_capability != {}", 10 * major + minor));
        }
        if elsewhere.is_empty() {
            let message = "name the architectures that it was measured on, as in `on = [\"9.0\"]`";
            return Err(self.source.error(prunes.span(), message));
        }
        let bound = format!("{} or ({text})", elsewhere.join(" and "));
        self.parse_expression(&bound, require.span)
    }

    fn parameters(
        &self,
        declared: IndexMap<Spanned<String>, Spanned<Vec<Spanned<Value>>>>,
    ) -> Parsing<IndexMap<String, Vec<Value>>> {
        let mut parameters = IndexMap::new();
        for (name, values) in declared {
            let span = values.span();
            self.new_name(&name)?;
            let count = values.get_ref().len();
            if count > MAX_VALUES {
                let message =
                    format!("`{}` has {count} values, the most are {MAX_VALUES}", name.get_ref());
                return Err(self.source.error(span, message));
            }
            let mut list: Vec<Value> = Vec::new();
            for value in values.into_inner() {
                let at = value.span();
                let value = value.into_inner();
                if matches!(value, Value::Float(_)) {
                    let message = "a parameter's values are integers, booleans or strings";
                    return Err(self.source.error(at, message));
                }
                if list.first().is_some_and(|first| first.kind() != value.kind()) {
                    let message = format!("`{}` mixes kinds of values", name.get_ref());
                    return Err(self.source.error(at, message));
                }
                if list.contains(&value) {
                    return Err(self.source.error(at, format!("{value} is listed twice")));
                }
                list.push(value);
            }
            if list.is_empty() {
                let message = format!("`{}` has no value to choose from", name.get_ref());
                return Err(self.source.error(span, message));
            }
            parameters.insert(name.into_inner(), list);
        }
        Ok(parameters)
    }

    /// Parses derived values and puts each after those that it reads.
    fn derive(
        &mut self,
        parameters: &IndexMap<String, Vec<Value>>,
        declared: IndexMap<Spanned<String>, Spanned<String>>,
    ) -> Parsing<()> {
        self.names.extend(parameters.keys().cloned());
        for name in declared.keys() {
            self.new_name(name)?;
            if parameters.contains_key(name.get_ref()) {
                let message = format!("`{}` is a parameter already", name.get_ref());
                return Err(self.source.error(name.span(), message));
            }
            self.names.push(name.get_ref().clone());
        }
        let mut waiting: BTreeMap<Slot, Expression> = BTreeMap::new();
        let first = FIRST_PARAMETER + parameters.len();
        for (slot, text) in (first as Slot..).zip(declared.values()) {
            waiting.insert(slot, self.expression(text)?);
        }
        while !waiting.is_empty() {
            let is_ready = |expression: &Expression| {
                expression.reads.iter().all(|read| !waiting.contains_key(read))
            };
            let ready = waiting.iter().find(|(_, expression)| is_ready(expression));
            let ready = ready.map(|(slot, _)| *slot);
            if let Some((slot, mut expression)) =
                ready.and_then(|slot| Some((slot, waiting.remove(&slot)?)))
            {
                expression.find_needs(&self.derived);
                self.derived.push(DerivedValue { slot, expression });
                continue;
            }
            let name = |slot: &Slot| self.names[usize::from(*slot) - FIRST_PARAMETER].as_str();
            let names: Vec<&str> = waiting.keys().map(name).collect();
            let message = format!("derived values depend on one another: {}", names.join(", "));
            let span = waiting.values().next().map_or(0..0, |first| first.span.clone());
            return Err(self.source.error(span, message));
        }
        Ok(())
    }

    fn kernel(&self, kernel: KernelFile, buffers: &[&str]) -> Parsing<KernelSpec> {
        let standard = standard_names();
        let choices: Vec<&str> =
            standard.iter().map(String::as_str).chain(buffers.iter().copied()).collect();
        let argument = |name| self.one_of(name, "argument", &choices).map(Argument::from);
        let arguments = match &kernel.arguments {
            Some(names) => Some(names.iter().map(argument).collect::<Parsing<_>>()?),
            None => None,
        };
        Ok(KernelSpec {
            entry: self.identifier(&kernel.entry, "a kernel's entry point")?,
            when: kernel.when.as_ref().map(|when| self.expression(when)).transpose()?,
            grid: self.extents(&kernel.grid, "grid", 1..=3)?,
            block: self.extents(&kernel.block, "block", 1..=3)?,
            dynamic_shared_bytes: (kernel.dynamic_shared_bytes.as_ref())
                .map(|bytes| self.extent(bytes))
                .transpose()?,
            programmatic: (kernel.programmatic.as_ref())
                .map(|when| self.expression(when))
                .transpose()?,
            packs: kernel.packs.as_ref().map(|packs| self.packing(packs, buffers)).transpose()?,
            arguments,
        })
    }

    fn packing(&self, packs: &PackingFile, buffers: &[&str]) -> Parsing<PackingSpec> {
        let condition = |of: &Option<Spanned<String>>| {
            of.as_ref().map(|condition| self.expression(condition)).transpose()
        };
        Ok(PackingSpec {
            a: condition(&packs.a)?,
            b: condition(&packs.b)?,
            workspace: self.one_of(&packs.into, "workspace", buffers)?,
        })
    }
}

/// A TOML error with its place, and a guess where a field's name is misspelt.
fn toml_error(source: &SourceFile, error: &toml::de::Error) -> Diagnostic {
    let message = error.message();
    // serde: "unknown field `derivd`, expected one of `schema`, `name`, ..."
    let mut quoted = message.split('`').skip(1).step_by(2);
    let help = message
        .starts_with("unknown field")
        .then(|| quoted.next().and_then(|given| did_you_mean(given, quoted)))
        .flatten();
    let message = if help.is_some() {
        message.split(", expected").next().unwrap_or(message)
    } else {
        message
    };
    Diagnostic { help, ..source.error(error.span().unwrap_or(0..0), message.trim()) }
}

/// Names of arguments that a family does not choose. The operands of an epilogue are there where it has them.
fn standard_names() -> Vec<String> {
    let has_operand = |operation: &&EpilogueOp| operation.operand().is_some();
    let of_epilogue = EpilogueOp::ALL.iter().filter(has_operand).copied();
    STANDARD_ARGUMENTS
        .into_iter()
        .chain(of_epilogue.map(Argument::Epilogue))
        .map(String::from)
        .collect()
}

#[cfg(test)]
mod tests;
