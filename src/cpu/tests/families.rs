//! The families that come with the program give the bits that three loops give.

use std::collections::BTreeSet;

use super::rig::{Case, Filling, checked, compile, problem, rendered};
use crate::cpu::{Options, Program};
use crate::model::{Configuration, Device, Dtype, Problem};
use crate::render::{Rendered, Templates, render};
use crate::space::{Families, LegalSpace};

fn check(rendered: &Rendered, what: &str, problem: &Problem, (alpha, beta): (f32, f32)) {
    let Some(ptx) = compile(&rendered.source, &[]) else { return };
    let program = Program::parse(&ptx).unwrap_or_else(|error| panic!("{what}: {error}"));
    // Several launches may sum in another order than three loops.
    let filling = if rendered.plan.kernels.len() == 1 { Filling::Uniform } else { Filling::Exact };
    let case = Case { alpha, beta, filling, ..Case::new(*problem) };
    let expected = case.expected();
    for options in [Options::default(), checked()] {
        let (result, _) = case
            .run(&program, &rendered.plan, &options)
            .unwrap_or_else(|error| panic!("{what} {problem:?}: {error}"));
        let wrong =
            result.iter().zip(&expected).position(|(result, expected)| !expected.contains(result));
        assert_eq!(wrong, None, "{what} {problem:?}");
    }
}

#[test]
fn every_family_gives_the_bits_of_three_loops() {
    for family in ["naive", "tiled", "coarsened", "blocktile", "pipelined"] {
        for (shape, layout) in
            [("1x1x1", "nn"), ("7x5x3", "tt"), ("33x65x129", "nt"), ("64x64x64", "tn")]
        {
            let problem = problem(shape, Dtype::F32, layout);
            let rendered = rendered(family, &problem, &[]);
            check(&rendered, family, &problem, (1.0, 0.0));
            check(&rendered, family, &problem, (1.5, -0.5));
        }
    }
}

#[test]
fn integers_wrap_as_on_the_gpu() {
    for family in ["naive", "tiled", "coarsened"] {
        let problem = problem("33x17x40", Dtype::I32, "nn");
        check(&rendered(family, &problem, &[]), family, &problem, (3.0, 2.0));
    }
}

/// Legal configurations among which the one with the most values not seen yet is looked for.
const DRAWS: usize = 100;

/// Configurations of `space` that between them have every value of every parameter, unless some
/// are rare: drawn at random, each for the values that it adds to `seen`.
fn cover(
    space: &LegalSpace,
    seen: &mut BTreeSet<String>,
    random: &mut fastrand::Rng,
) -> Vec<Configuration> {
    let values = |configuration: &Configuration| -> BTreeSet<String> {
        configuration.0.iter().map(|(name, value)| format!("{name}={value}")).collect()
    };
    let mut chosen = Vec::new();
    loop {
        let draws = (0..DRAWS).filter_map(|_| space.get(random.usize(..space.len())));
        let adds = |configuration: &Configuration| values(configuration).difference(seen).count();
        match draws.max_by_key(adds) {
            Some(best) if adds(&best) > 0 => {
                seen.extend(values(&best));
                chosen.push(best);
            }
            _ => return chosen,
        }
    }
}

#[test]
fn every_value_of_a_space_passes_all_checks() {
    let (device, families) = (Device::h200(), Families::built_in().unwrap());
    let templates = Templates::built_in().unwrap();
    let mut random = fastrand::Rng::with_seed(3);
    for family in families.iter() {
        let mut seen = BTreeSet::new();
        for (shape, layout) in
            [("33x65x35", "nn"), ("64x36x20", "tn"), ("31x33x7", "nt"), ("40x70x260", "tt")]
        {
            let problem = Problem { batch: 2, ..problem(shape, Dtype::F32, layout) };
            let space = LegalSpace::of(family, &problem, &device).unwrap();
            for configuration in cover(&space, &mut seen, &mut random) {
                let rendered = render(family, &templates, &configuration, &problem, &device);
                let what = format!("{} {configuration}", family.name);
                check(&rendered.unwrap(), &what, &problem, (1.5, 0.5));
            }
        }
    }
}
