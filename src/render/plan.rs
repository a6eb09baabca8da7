//! The launch plan: those of a family's launches that a configuration has, with every extent
//! evaluated.

use tera::Context;

use crate::model::launch::{KernelLaunch, LaunchPlan, STANDARD_ARGUMENTS, TensorMap, Workspace};
use crate::model::{Argument, Diagnostic};
use crate::space::Family;
use crate::space::family::Located;

/// Largest workspace: what a 64-bit signed offset addresses.
const MAX_WORKSPACE: u64 = i64::MAX as u64;

/// Evaluates the launches, workspaces and tensor maps of `family` in `scope`.
///
/// A launch that lists no arguments takes the standard ones, then every workspace in order.
pub(super) fn launch_plan(family: &Family, scope: &Context) -> Result<LaunchPlan, Box<Diagnostic>> {
    let size32 = |expression: &Located| {
        family.size(expression, scope, u64::from(u32::MAX)).map(|size| size as u32)
    };
    let three = |extents: &[Located]| -> Result<[u32; 3], Box<Diagnostic>> {
        let mut sizes = [1; 3];
        for (size, expression) in sizes.iter_mut().zip(extents) {
            *size = size32(expression)?;
        }
        Ok(sizes)
    };
    let mut plan = LaunchPlan::default();
    for workspace in &family.workspaces {
        let bytes = family.size(&workspace.bytes, scope, MAX_WORKSPACE)?;
        if bytes > 0 {
            plan.workspaces.push(Workspace { name: workspace.name.clone(), bytes });
        }
    }
    let workspaces = plan.workspaces.iter().map(|space| Argument::Named(space.name.clone()));
    let convention: Vec<Argument> = STANDARD_ARGUMENTS.into_iter().chain(workspaces).collect();
    for kernel in &family.kernels {
        if let Some(when) = &kernel.when
            && !family.holds(when, scope)?
        {
            continue;
        }
        plan.kernels.push(KernelLaunch {
            entry: kernel.entry.clone(),
            grid: three(&kernel.grid)?,
            block: three(&kernel.block)?,
            dynamic_shared_bytes: match &kernel.dynamic_shared_bytes {
                Some(bytes) => size32(bytes)?,
                None => 0,
            },
            arguments: kernel.arguments.clone().unwrap_or_else(|| convention.clone()),
        });
    }
    for map in &family.tensor_maps {
        plan.tensor_maps.push(TensorMap {
            name: map.name.clone(),
            operand: map.operand.clone(),
            tile: map.tile.iter().map(size32).collect::<Result<_, _>>()?,
            swizzle: map.swizzle.clone(),
        });
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Configuration, Device, Dtype, Problem, Shape, Value};

    const SPLIT: &str = r#"schema = 1
name = "t"
summary = ""
dtypes = ["f32"]
compute = ["f32"]
layouts = ["nn"]
parameters = { SPLITS = [1, 2] }
default = { SPLITS = 1 }

[[workspaces]]
name = "packed"
bytes = "4 * K"

[[workspaces]]
name = "partials"
bytes = "4 * M * N * SPLITS if SPLITS > 1 else 0"

[[kernels]]
entry = "gemm"
grid = ["SPLITS"]
block = [32]

[[kernels]]
entry = "reduce"
when = "SPLITS > 1"
grid = [1]
block = [64]
arguments = ["partials", "C"]
"#;

    fn plan(splits: i64) -> LaunchPlan {
        let family = Family::parse("t.toml", SPLIT).unwrap_or_else(|error| panic!("{error}"));
        let problem = Problem::new(Shape { m: 8, n: 4, k: 2 }, Dtype::F32);
        let settings = [("SPLITS".to_owned(), Value::Int(splits))];
        let configuration: Configuration = settings.into_iter().collect();
        let scope = family.scope(&configuration, &problem, &Device::h200()).unwrap();
        launch_plan(&family, &scope).unwrap()
    }

    #[test]
    fn launches_and_workspaces_that_a_configuration_lacks_are_left_out() {
        let entries =
            |plan: &LaunchPlan| plan.kernels.iter().map(|k| k.entry.clone()).collect::<Vec<_>>();
        let bytes = |plan: &LaunchPlan| plan.workspaces.iter().map(|w| w.bytes).collect::<Vec<_>>();
        let (whole, split) = (plan(1), plan(2));
        assert_eq!((entries(&whole), bytes(&whole)), (vec!["gemm".to_owned()], vec![8]));
        assert_eq!(entries(&split), ["gemm", "reduce"]);
        assert_eq!(bytes(&split), [8, 256]);
    }

    #[test]
    fn by_convention_a_launch_takes_the_standard_arguments_and_the_workspaces() {
        let named = |plan: &LaunchPlan, kernel: usize| {
            let names: Vec<String> =
                plan.kernels[kernel].arguments.iter().map(|a| a.name().to_owned()).collect();
            names
        };
        assert_eq!(named(&plan(1), 0)[14..], ["beta", "packed"]);
        assert_eq!(named(&plan(2), 0)[14..], ["beta", "packed", "partials"]);
        assert_eq!(named(&plan(2), 1), ["partials", "C"]);
    }
}
