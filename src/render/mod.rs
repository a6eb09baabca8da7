//! From a family and a configuration to what is compiled and launched: CUDA source and a launch
//! plan. Nothing is compiled or run here.

mod children;
mod language;
mod marks;
mod plan;
mod source_map;
mod templates;

use thiserror::Error;

pub use children::{RenderChildren, serve_templates};
#[cfg(test)]
pub(crate) use language::language as template_language;
pub use source_map::{NamedPlace, SourceMap, source_name};
pub use templates::Templates;

use crate::model::launch::LaunchLimit;
use crate::model::{
    Configuration, Device, Diagnostic, LaunchPlan, Problem, Storage, TensorMapLimit,
};
use crate::quote;
use crate::space::Family;

/// A configuration made concrete for a problem on a device.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// CUDA C++ that needs no header.
    pub source: String,
    /// How its entry points are launched.
    pub plan: LaunchPlan,
}

/// Why a configuration has no source or launch plan.
#[derive(Debug, Error)]
pub enum RenderError {
    /// An expression of the search space, or the template, is wrong.
    #[error("{}", .0.summary())]
    Located(#[from] Box<Diagnostic>),
    /// The family's template is nowhere.
    #[error("family `{family}` ({file}) names template `{template}`, which does not exist")]
    NoTemplate {
        /// The family.
        family: String,
        /// Its search-space file.
        file: String,
        /// The missing template.
        template: String,
    },
    /// The template did not render in time.
    #[error(
        "template `{template}` did not render within {seconds:.0} s: look for nested loops, or ranges and texts that grow"
    )]
    TimedOut {
        /// The template.
        template: String,
        /// The limit.
        seconds: f64,
    },
    /// The rendering process ended, by a crash or for want of memory.
    #[error(
        "the process that rendered template `{template}` ended: {how}; its text may fill the memory"
    )]
    Ended {
        /// The template.
        template: String,
        /// Exit status and last error output.
        how: String,
    },
    /// The program was interrupted.
    #[error("rendering was interrupted")]
    Cancelled,
    /// No device accepts the launch.
    #[error("{0}")]
    Limit(#[from] LaunchLimit),
    /// No device accepts a tensor map.
    #[error("{0}")]
    Map(#[from] TensorMapLimit),
}

/// How a configuration is launched for operands that need not be packed, without its source.
///
/// # Errors
/// As [`render`].
pub fn launches(
    family: &Family,
    configuration: &Configuration,
    problem: &Problem,
    storage: &Storage,
    device: &Device,
) -> Result<LaunchPlan, RenderError> {
    let scope = family.scope_stored(configuration, problem, storage, device)?;
    let plan = plan::launch_plan(family, &scope, storage, problem)?;
    plan.check_limits()?;
    plan.check_maps(problem.types)?;
    Ok(plan)
}

/// Renders a configuration.
///
/// # Errors
/// See [`RenderError`].
pub fn render(
    family: &Family,
    templates: &Templates,
    configuration: &Configuration,
    problem: &Problem,
    device: &Device,
) -> Result<Rendered, RenderError> {
    render_stored(family, templates, configuration, problem, &Storage::packed(problem), device)
}

/// As [`render`], for operands that need not be packed.
///
/// # Errors
/// As [`render`].
pub fn render_stored(
    family: &Family,
    templates: &Templates,
    configuration: &Configuration,
    problem: &Problem,
    storage: &Storage,
    device: &Device,
) -> Result<Rendered, RenderError> {
    let scope = family.scope_stored(configuration, problem, storage, device)?;
    let plan = plan::launch_plan(family, &scope, storage, problem)?;
    plan.check_limits()?;
    plan.check_maps(problem.types)?;
    let body = templates.render(family, &scope)?;
    let source = format!(
        "// {}: {}\n{}// {}, {}\n\n{body}",
        family.name,
        quote::c_comment(&family.summary),
        comment(&quote::c_comment(&configuration.to_string())),
        problem.pattern(),
        problem.types.compute,
    );
    Ok(Rendered { source, plan })
}

/// The columns that a comment of many words fills.
const COMMENT_COLUMNS: usize = 118;

/// Comment lines that hold `words`.
fn comment(words: &str) -> String {
    let mut lines = String::new();
    let mut line = String::from("//");
    for word in words.split(' ') {
        if line.len() + 1 + word.len() > COMMENT_COLUMNS {
            lines += &line;
            lines.push('\n');
            line.truncate(2);
        }
        line.push(' ');
        line += word;
    }
    lines + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_comment_takes_several_lines() {
        let word = "X".repeat(COMMENT_COLUMNS / 2 - 2);
        for (words, expected) in [
            ("BM=64", "// BM=64\n".to_owned()),
            (&format!("{word} {word}"), format!("// {word} {word}\n")),
            (&format!("{word}X {word}"), format!("// {word}X\n// {word}\n")),
        ] {
            assert_eq!(comment(words), expected);
        }
    }
}
