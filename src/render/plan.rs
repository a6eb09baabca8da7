//! The launch plan: the launches of a configuration, with every extent evaluated.

use crate::model::launch::{KernelLaunch, LaunchPlan, STANDARD_ARGUMENTS, Workspace};
use crate::model::{Argument, Diagnostic, GemmType, Problem, Storage, TensorMap};
use crate::space::family::TensorMapSpec;
use crate::space::{Expression, Family, Scope};

/// Largest workspace, and extent of a tensor map: what a 64-bit signed offset addresses.
const MAX_SIZE: u64 = i64::MAX as u64;

/// Evaluates the launches, workspaces and tensor maps of `family` in `scope`.
///
/// A launch that lists no arguments takes the standard ones, then the operands of the epilogue, every
/// workspace and every tensor map in order. Of the operands that a launch lists, it takes those of the problem's epilogue.
pub(super) fn launch_plan<'a>(
    family: &'a Family,
    scope: &Scope<'a>,
    storage: &Storage,
    problem: &Problem,
) -> Result<LaunchPlan, Box<Diagnostic>> {
    let epilogue = problem.epilogue;
    let size32 = |expression: &'a Expression| size32(family, expression, scope);
    let three = |extents: &'a [Expression]| -> Result<[u32; 3], Box<Diagnostic>> {
        let mut sizes = [1; 3];
        for (size, expression) in sizes.iter_mut().zip(extents) {
            *size = size32(expression)?;
        }
        Ok(sizes)
    };
    let mut plan = LaunchPlan::default();
    for workspace in &family.workspaces {
        let bytes = family.size(&workspace.bytes, scope, MAX_SIZE)?;
        if bytes > 0 {
            let (name, align) = (workspace.name.clone(), workspace.align);
            plan.workspaces.push(Workspace { name, bytes, align });
        }
    }
    // Elsewhere rows stand for what they are aligned to; here they say where elements lie.
    let places = scope.with_rows([storage.lda, storage.ldb, storage.ldc]);
    for map in &family.tensor_maps {
        if let Some(map) = tensor_map(family, map, &plan, (&places, problem.types))? {
            plan.tensor_maps.push(map);
        }
    }
    let workspaces = plan.workspaces.iter().map(|space| &space.name);
    let named = workspaces.chain(plan.tensor_maps.iter().map(|map| &map.name));
    let named = named.map(|name| Argument::Named(name.clone()));
    let of_epilogue = epilogue.operands().map(Argument::Epilogue);
    let convention: Vec<Argument> =
        STANDARD_ARGUMENTS.into_iter().chain(of_epilogue).chain(named).collect();
    let is_there = |argument: &&Argument| match argument {
        Argument::Epilogue(operation) => epilogue.operands().any(|own| own == *operation),
        _ => true,
    };
    for kernel in &family.kernels {
        if let Some(when) = &kernel.when
            && !family.holds(when, scope)?
        {
            continue;
        }
        let programmatic = match &kernel.programmatic {
            Some(when) => family.holds(when, scope)?,
            None => false,
        };
        plan.kernels.push(KernelLaunch {
            programmatic,
            entry: kernel.entry.clone(),
            grid: three(&kernel.grid)?,
            block: three(&kernel.block)?,
            dynamic_shared_bytes: match &kernel.dynamic_shared_bytes {
                Some(bytes) => size32(bytes)?,
                None => 0,
            },
            arguments: match &kernel.arguments {
                Some(own) => own.iter().filter(|argument| is_there(argument)).cloned().collect(),
                None => convention.clone(),
            },
        });
    }
    plan.nondeterministic = match &family.nondeterministic {
        Some(when) => family.holds(when, scope)?,
        None => false,
    };
    Ok(plan)
}

/// A tensor map, if the configuration has it. `plan` has its workspaces and the maps before it.
fn tensor_map<'a>(
    family: &'a Family,
    map: &'a TensorMapSpec,
    plan: &LaunchPlan,
    (scope, types): (&Scope<'a>, GemmType),
) -> Result<Option<TensorMap>, Box<Diagnostic>> {
    if let Some(when) = &map.when
        && !family.holds(when, scope)?
    {
        return Ok(None);
    }
    let is_workspace = family.workspaces.iter().any(|space| space.name == map.operand);
    let is_there = plan.workspaces.iter().any(|space| space.name == map.operand);
    let fault = if is_workspace && !is_there {
        let operand = &map.operand;
        Some(format!("tensor map `{}` is of workspace `{operand}`, which has 0 bytes", map.name))
    } else if plan.tensor_maps.iter().any(|known| known.name == map.name) {
        Some(format!("the configuration has two tensor maps `{}`", map.name))
    } else {
        None
    };
    // No map is without extents: the first is where it is blamed.
    if let (Some(what), Some(at)) = (fault, map.extents.first()) {
        return Err(family.blame(at, what));
    }
    let size = |expression: &'a Expression| family.size(expression, scope, MAX_SIZE);
    let sizes =
        |expressions: &'a [Expression]| expressions.iter().map(size).collect::<Result<_, _>>();
    Ok(Some(TensorMap {
        name: map.name.clone(),
        operand: map.operand.clone(),
        dtype: map.dtype,
        offset: map.offset.as_ref().map_or(Ok(0), size)?,
        extents: sizes(&map.extents)?,
        strides: sizes(&map.strides)?,
        tile: map.tile.iter().map(|one| size32(family, one, scope)).collect::<Result<_, _>>()?,
        swizzle: map.swizzle,
        rounds_to: map.rounding(types),
    }))
}

fn size32<'a>(
    family: &'a Family,
    expression: &'a Expression,
    scope: &Scope<'a>,
) -> Result<u32, Box<Diagnostic>> {
    family.size(expression, scope, u64::from(u32::MAX)).map(|size| size as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Compute, Configuration, Device, Dtype, Problem, Shape, Value};

    const SPLIT: &str = r#"schema = 1
name = "t"
summary = ""
dtypes = ["f32"]
compute = ["f32"]
layouts = ["nn"]
parameters = { SPLIT_K = [1, 2] }
default = { SPLIT_K = 1 }

[[workspaces]]
name = "packed"
bytes = "4 * K"

[[workspaces]]
name = "partials"
bytes = "4 * M * N * SPLIT_K if SPLIT_K > 1 else 0"

[[kernels]]
entry = "gemm"
grid = ["SPLIT_K"]
block = [32]

[[kernels]]
entry = "reduce"
when = "SPLIT_K > 1"
grid = [1]
block = [64]
arguments = ["partials", "C"]
"#;

    fn plan(splits: i64) -> LaunchPlan {
        let family = Family::parse("t.toml", SPLIT).unwrap_or_else(|error| panic!("{error}"));
        let problem = Problem::new(Shape { m: 8, n: 4, k: 2 }, Dtype::F32);
        let settings = [("SPLIT_K".to_owned(), Value::Int(splits))];
        let configuration: Configuration = settings.into_iter().collect();
        let scope = family.scope(&configuration, &problem, &Device::h200()).unwrap();
        launch_plan(&family, &scope, &Storage::packed(&problem), &problem).unwrap()
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

    #[test]
    fn tensor_maps_come_last_where_a_configuration_has_them() {
        let map = |when: &str, operand: &str| {
            format!(
                "[[tensor_maps]]\nname = 'a_map'\nwhen = \"{when}\"\noperand = '{operand}'\n\
                 offset = '16 * SPLIT_K'\nextents = ['K', 'M', 'batch']\nstrides = ['lda', 'M * lda']\n\
                 tile = ['4 * SPLIT_K', 2, 1]\n"
            )
        };
        let with = |maps: &str| {
            let text = format!("{SPLIT}{maps}");
            let family = Family::parse("t.toml", &text).unwrap_or_else(|error| panic!("{error}"));
            let problem = Problem::new(Shape { m: 8, n: 4, k: 12 }, Dtype::F32);
            let settings = [("SPLIT_K".to_owned(), Value::Int(2))];
            let configuration: Configuration = settings.into_iter().collect();
            let scope = family.scope(&configuration, &problem, &Device::h200()).unwrap();
            let storage = Storage { lda: 128, ..Storage::packed(&problem) };
            launch_plan(&family, &scope, &storage, &problem).map_err(|error| error.summary())
        };
        let [of_a, of_space] = [map("SPLIT_K > 1", "A"), map("SPLIT_K == 1", "packed")];
        let plan = with(&format!("{of_space}{of_a}")).unwrap();
        let arguments: Vec<&str> = plan.kernels[0].arguments.iter().map(Argument::name).collect();
        assert_eq!(arguments[14..], ["beta", "packed", "partials", "a_map"]);
        let [map_of_a] = &plan.tensor_maps[..] else { panic!("{plan:?}") };
        assert_eq!((map_of_a.operand.as_str(), map_of_a.offset), ("A", 32));
        assert_eq!((&map_of_a.extents, &map_of_a.strides), (&vec![12, 8, 1], &vec![128, 1024]));
        assert_eq!(map_of_a.tile, [8, 2, 1]);
        assert_eq!(map_of_a.rounds_to, None);

        let twice = with(&format!("{of_a}{of_a}")).unwrap_err();
        assert!(twice.contains("two tensor maps `a_map`"), "{twice}");
        let empty = "[[workspaces]]\nname = 'none'\nbytes = 0\n";
        let none = with(&format!("{empty}{}", map("SPLIT_K > 1", "none"))).unwrap_err();
        assert!(none.contains("of workspace `none`, which has 0 bytes"), "{none}");
    }

    #[test]
    fn elements_are_rounded_where_products_are_of_that_type_and_elements_are_f32() {
        let map = |name: &str, operand: &str, more: &str| {
            format!(
                "[[tensor_maps]]\nname = '{name}'\noperand = '{operand}'\nextents = ['K']\ntile = [4]\n\
                 rounds_to = 'tf32'\n{more}"
            )
        };
        let half = map("half", "packed", "dtype = 'f16'\n");
        let text = format!("{SPLIT}{}{}{half}", map("a", "A", ""), map("own", "packed", ""));
        let text = text
            .replace("dtypes = [\"f32\"]", "dtypes = [\"f32\", \"bf16\"]")
            .replace("compute = [\"f32\"]", "compute = [\"f32\", \"tf32\", \"bf16\"]");
        let family = Family::parse("t.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        let settings = [("SPLIT_K".to_owned(), Value::Int(1))];
        let configuration: Configuration = settings.into_iter().collect();
        let rounded = |compute: Compute, dtype: Dtype| -> Vec<bool> {
            let problem = Problem::new(Shape { m: 8, n: 4, k: 16 }, dtype);
            let types = GemmType { compute, ..problem.types };
            let problem = Problem { types, ..problem };
            let scope = family.scope(&configuration, &problem, &Device::h200()).unwrap();
            let plan = launch_plan(&family, &scope, &Storage::packed(&problem), &problem).unwrap();
            plan.tensor_maps.iter().map(|map| map.rounds_to.is_some()).collect()
        };
        assert_eq!(rounded(Compute::Tf32, Dtype::F32), [true, true, false]);
        assert_eq!(rounded(Compute::F32, Dtype::F32), [false; 3]);
        assert_eq!(rounded(Compute::Bf16, Dtype::Bf16), [false; 3]);
    }
}
