//! Results of the built-in families, compared bit by bit with three nested loops.

use super::harness::{Case, Filling, checked, compile, problem, rendered};
use gemm_tune::cpu::{LaunchOptions, PtxModule};
use gemm_tune::model::{Dtype, Problem};
use gemm_tune::render::Rendered;

fn check(rendered: &Rendered, what: &str, problem: &Problem, (alpha, beta): (f32, f32)) {
    let Some(ptx) = compile(&rendered.source, &[]) else { return };
    let program = PtxModule::parse(&ptx).unwrap_or_else(|error| panic!("{what}: {error}"));
    // Plans of several launches may sum in another order than the loops.
    let filling = if rendered.plan.kernels.len() == 1 { Filling::Uniform } else { Filling::Exact };
    let case = Case { alpha, beta, filling, ..Case::new(*problem) };
    let expected = case.expected();
    for options in [LaunchOptions::default(), checked()] {
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
    const SHAPES: [(&str, &str); 4] =
        [("1x1x1", "nn"), ("7x5x3", "tt"), ("33x65x129", "nt"), ("64x64x64", "tn")];
    for family in ["naive", "tiled", "coarsened", "blocktile", "pipelined"] {
        for (shape, layout) in SHAPES {
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

/// Rows and vectors of C that one thread has: rows of 37 elements begin at another place of 16 bytes each.
#[test]
fn threads_with_several_elements_of_a_short_k_give_the_bits_of_three_loops() {
    for layout in ["nn", "nt", "tn", "tt"] {
        for (tm, tn) in [(1, 1), (2, 1), (16, 1), (1, 4), (8, 4)] {
            let problem = Problem { batch: 2, ..problem("69x37x5", Dtype::F32, layout) };
            for unroll in [1, 4] {
                let values = [("TM", tm), ("TN", tn), ("UNROLL", unroll)];
                let rendered = rendered("short_k", &problem, &values);
                check(&rendered, &format!("short_k {values:?}"), &problem, (1.5, -0.5));
            }
        }
    }
}
