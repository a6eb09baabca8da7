//! Compares the kernels of two versions of the templates and search spaces: the same machine code but for
//! names, and the same launch plan but for names, mean that times, records and learned models still hold.

use std::collections::BTreeMap;
use std::fmt;

use rayon::prelude::*;

use crate::compile::{Compile, CompileRequest, Fingerprint};
use crate::model::{
    Argument, Configuration, Device, LaunchPlan, Problem, ProblemPattern, Shape, Value,
};
use crate::render::{Templates, render};
use crate::space::{Family, LegalSpace};

/// A folder of search spaces with the templates that belong to it.
#[derive(Debug, Clone, Copy)]
pub struct Edition<'e> {
    /// The families.
    pub families: &'e [Family],
    /// Their templates.
    pub templates: &'e Templates,
}

/// Where a configuration to compare comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A record of a database, by its place there.
    Record(usize),
    /// A default or seed of a family.
    Default,
    /// Drawn at random.
    Random,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(place) => write!(f, "record {}", place + 1),
            Self::Default => f.write_str("default"),
            Self::Random => f.write_str("random"),
        }
    }
}

/// A family's name and a configuration of it.
pub type FamilyConfiguration = (String, Configuration);

/// A kernel of the edition before, with what it is called in the edition after.
#[derive(Debug, Clone)]
pub struct Case {
    /// Where it comes from.
    pub source: Source,
    /// What it computes.
    pub problem: Problem,
    /// The kernel as it was.
    pub before: FamilyConfiguration,
    /// The kernel as it is; the reason where it cannot be expressed any more.
    pub after: Result<FamilyConfiguration, String>,
}

/// What a comparison found.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Machine code and launch plan are the same but for names.
    Equal,
    /// They differ.
    Different(Difference),
    /// The edition after has no such kernel.
    Inexpressible(String),
    /// One of the two has no machine code.
    Failed(String),
}

/// In what two kernels differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Whether the machine code does.
    pub code: bool,
    /// Whether launches, workspaces or tensor maps do.
    pub plan: bool,
    /// Registers of the kernel with the most, and bytes that all spill, before and after.
    pub figures: [(u32, u32); 2],
}

/// Shapes for which configurations are drawn, with batches.
const PROBLEMS: [((u64, u64, u64), u64); 18] = [
    ((1, 4096, 4096), 1),
    ((4096, 1, 4096), 1),
    ((7, 5, 3), 1),
    ((12, 1000, 1000), 3),
    ((33, 65, 129), 1),
    ((64, 64, 64), 16),
    ((127, 129, 131), 1),
    ((256, 256, 256), 1),
    ((512, 512, 512), 3),
    ((1000, 1000, 1000), 1),
    ((2048, 2048, 2048), 1),
    ((4096, 4096, 1024), 1),
    ((1024, 1024, 16384), 1),
    ((32, 32, 65536), 1),
    ((3072, 3072, 3072), 1),
    ((100, 5000, 300), 1),
    ((1023, 2050, 770), 1),
    ((5120, 5120, 5120), 1),
];

/// Draws that are tried for each configuration that is wanted.
const TRIES: usize = 400;

impl Edition<'_> {
    fn family(&self, name: &str) -> Option<&Family> {
        self.families.iter().find(|family| family.name == name)
    }

    /// The kernel of an older edition in this one's words: of the family with the same name, or of the
    /// first other family that can express it.
    pub fn current(
        &self,
        (name, configuration): &FamilyConfiguration,
    ) -> Result<FamilyConfiguration, String> {
        let expressed = |family: &Family| {
            let completed =
                family.completed(configuration.clone()).map_err(|error| error.to_string())?;
            for (parameter, value) in &completed.0 {
                if !family.parameters.get(parameter).is_some_and(|known| known.contains(value)) {
                    let family = &family.name;
                    return Err(format!("family {family} has no {parameter} = {value}"));
                }
            }
            Ok((family.name.clone(), completed))
        };
        let own = match self.family(name) {
            Some(family) => expressed(family),
            None => Err(format!("no family is named `{name}`")),
        };
        own.or_else(|reason| {
            let known = |family: &&Family| family.fixed_values().next().is_some();
            let others = self.families.iter().filter(known).filter(|family| family.name != *name);
            others.map(expressed).find_map(Result::ok).ok_or(reason)
        })
    }

    fn render(
        &self,
        (name, configuration): &FamilyConfiguration,
        problem: &Problem,
        device: &Device,
    ) -> Result<(String, LaunchPlan), String> {
        let family = self.family(name).ok_or_else(|| format!("no family is named `{name}`"))?;
        let rendered = render(family, self.templates, configuration, problem, device)
            .map_err(|error| error.to_string())?;
        Ok((rendered.source, rendered.plan))
    }
}

/// The defaults of every family of `before`, each for the first of the listed problems that it is legal
/// for.
pub fn defaults(before: Edition<'_>, after: Edition<'_>, device: &Device) -> Vec<Case> {
    let mut cases = Vec::new();
    for family in before.families {
        let problems = problems(family, device);
        for configuration in family.defaults(device) {
            let is_legal = |problem: &&Problem| {
                matches!(family.forbidden(configuration, problem, device), Ok(None))
            };
            let Some(problem) = problems.iter().find(is_legal) else { continue };
            let named = (family.name.clone(), configuration.clone());
            let now = after.current(&named);
            cases.push(Case {
                source: Source::Default,
                problem: *problem,
                before: named,
                after: now,
            });
        }
    }
    cases
}

/// `count` configurations for each family of `after`: legal ones of searches, and those with up to four
/// parameters changed that are right though a search leaves them out. The same for the same seed.
pub fn random(
    before: Edition<'_>,
    after: Edition<'_>,
    device: &Device,
    (count, seed): (usize, u64),
) -> Vec<Case> {
    let drawn = after.families.par_iter().map(|family| {
        let mut random = fastrand::Rng::with_seed(seed);
        let fixed: Vec<(&str, &Value)> = family.fixed_values().collect();
        let has_fixed = |old: &&Family| {
            !fixed.is_empty() && fixed.iter().all(|(name, _)| old.parameters.contains_key(*name))
        };
        let old = before.family(&family.name).or_else(|| before.families.iter().find(has_fixed));
        let Some(old) = old else { return Vec::new() };
        let old = old.clone().allowing_nondeterministic();
        let problems = problems(&old, device);
        let mut spaces: BTreeMap<usize, Option<LegalSpace>> = BTreeMap::new();
        let mut cases: Vec<Case> = Vec::new();
        for _ in 0..count * TRIES {
            if cases.len() == count {
                break;
            }
            let place = random.usize(..problems.len());
            let problem = problems[place];
            let space = spaces.entry(place).or_insert_with(|| {
                LegalSpace::of(&old, &problem, device).ok().filter(|space| !space.is_empty())
            });
            let Some(space) = space else { continue };
            let Some(mut configuration) = space.get(random.usize(..space.len())) else { continue };
            for (name, value) in &fixed {
                configuration.0.insert((*name).to_owned(), (*value).clone());
            }
            for _ in 0..[0, 1, 2, 4][random.usize(..4)] {
                let (name, values) = &old
                    .parameters
                    .get_index(random.usize(..old.parameters.len()))
                    .map(|(name, values)| (name.clone(), values.clone()))
                    .unwrap_or_default();
                let value = values[random.usize(..values.len())].clone();
                configuration.0.insert(name.clone(), value);
            }
            if !matches!(old.forbidden(&configuration, &problem, device), Ok(None)) {
                continue;
            }
            let named = (old.name.clone(), configuration);
            let Ok(now) = after.current(&named) else { continue };
            let is_known =
                cases.iter().any(|case| (&case.before, case.problem) == (&named, problem));
            if now.0 == family.name && !is_known {
                let source = Source::Random;
                cases.push(Case { source, problem, before: named, after: Ok(now) });
            }
        }
        cases
    });
    drawn.flatten_iter().collect()
}

/// The listed problems that a family serves, in every layout.
fn problems(family: &Family, device: &Device) -> Vec<Problem> {
    let mut problems = Vec::new();
    for ((m, n, k), batch) in PROBLEMS {
        for pattern in ProblemPattern::all() {
            let problem = Problem { batch, ..pattern.problem(Shape { m, n, k }) };
            if family.refusal(&problem, device).is_none() {
                problems.push(problem);
            }
        }
    }
    problems
}

/// Compiles both kernels of every case on the threads of the current pool and compares them.
pub fn compare(
    cases: &[Case],
    (before, after): (Edition<'_>, Edition<'_>),
    device: &Device,
    compiler: &dyn Compile,
    done: &(dyn Fn() + Sync),
) -> Vec<Verdict> {
    let verdict = |case: &Case| {
        let verdict = compare_one(case, (before, after), device, compiler);
        done();
        verdict
    };
    cases.par_iter().map(verdict).collect()
}

fn compare_one(
    case: &Case,
    (before, after): (Edition<'_>, Edition<'_>),
    device: &Device,
    compiler: &dyn Compile,
) -> Verdict {
    let now = match &case.after {
        Ok(now) => now,
        Err(reason) => return Verdict::Inexpressible(reason.clone()),
    };
    let built = |edition: &Edition<'_>, named: &FamilyConfiguration| {
        let (source, plan) = edition.render(named, &case.problem, device)?;
        let request = CompileRequest::kernel(&named.0, source);
        let compiled = compiler.compile(&request).map_err(|error| error.to_string())?;
        let entries: Vec<&str> = plan.kernels.iter().map(|kernel| &*kernel.entry).collect();
        let registers = compiled.resources.values().map(|kernel| kernel.registers).max();
        let spilt = compiled.resources.values().map(|kernel| kernel.spill_bytes()).sum();
        let code = Fingerprint::of_code(&compiled.image, &entries);
        Ok::<_, String>((code, without_names(plan), (registers.unwrap_or(0), spilt)))
    };
    let both = built(&before, &case.before)
        .map_err(|error| format!("before: {error}"))
        .and_then(|old| Ok((old, built(&after, now).map_err(|error| format!("after: {error}"))?)));
    match both {
        Err(error) => Verdict::Failed(error),
        Ok((old, new)) => {
            let (code, plan) = (old.0 != new.0, old.1 != new.1);
            if code || plan {
                Verdict::Different(Difference { code, plan, figures: [old.2, new.2] })
            } else {
                Verdict::Equal
            }
        }
    }
}

/// A launch plan whose kernels, workspaces and tensor maps are called by their places.
fn without_names(mut plan: LaunchPlan) -> LaunchPlan {
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for (place, workspace) in plan.workspaces.iter_mut().enumerate() {
        let name = format!("workspace {place}");
        names.insert(std::mem::replace(&mut workspace.name, name.clone()), name);
    }
    for (place, map) in plan.tensor_maps.iter_mut().enumerate() {
        let name = format!("map {place}");
        names.insert(std::mem::replace(&mut map.name, name.clone()), name);
        if let Some(operand) = names.get(&map.operand) {
            map.operand = operand.clone();
        }
    }
    for (place, kernel) in plan.kernels.iter_mut().enumerate() {
        kernel.entry = format!("kernel {place}");
        for argument in &mut kernel.arguments {
            if let Argument::Named(name) = argument
                && let Some(place) = names.get(name)
            {
                *name = place.clone();
            }
        }
    }
    plan
}
