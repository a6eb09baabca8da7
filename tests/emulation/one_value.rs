//! Families on the `cpu` device with one value of a parameter alone, which samples of whole spaces have too rarely.

use gemm_tune::model::{ComputeCapability, Device, Dtype, Layout, Problem};
use gemm_tune::render::Templates;
use gemm_tune::space::{Families, Family, LegalSpace};
use gemm_tune::tune::Sample;

use super::{all_pass, checked, checked_on, problem, with_epilogues};
use crate::support::cases::cases;
use crate::support::compiler_or_skip;

/// A family with one value of a parameter alone.
pub(super) fn restricted(mut family: Family, parameter: &str, value: &str) -> Family {
    let values = family.parameters.get_mut(parameter).unwrap();
    values.retain(|known| known.to_string() == value);
    assert_eq!(values.len(), 1, "{parameter} = {value}");
    family
}

fn built_in(family: &str) -> Family {
    Families::built_in().unwrap().get(family).unwrap().clone()
}

/// A GPU of 3 or 5 SMs has its tail where products are small enough for the host.
#[test]
fn a_tail_that_blocks_share_is_right_on_every_kind_of_edge() {
    let Some(compiler) = compiler_or_skip() else { return };
    let (family, templates) = (
        [restricted(built_in("pipelined"), "SCHEDULER", "stream_k")],
        Templates::built_in().unwrap(),
    );
    let mut executed = 0;
    for (sms, shapes) in [
        (3, ["256x256x300", "257x391x258", "300x262x517"]),
        (5, ["320x384x131", "510x258x260", "301x515x257"]),
    ] {
        let device = Device { sms, ..Device::cpu() };
        let pairs = Layout::ALL.iter().flat_map(|layout| shapes.map(|s| problem(s, *layout)));
        let mut problems: Vec<Problem> = pairs.collect();
        with_epilogues(&mut problems);
        let kit = (family.as_slice(), &templates);
        let results = checked_on(&device, &compiler, kit, &problems, Sample::Of(1));
        for result in &results {
            println!("{} on {sms} SMs: {} of {}", result.problem, result.passed, result.legal);
        }
        executed += all_pass(&results);
    }
    println!("{executed} executions passed");
    assert!(executed >= 19, "{executed}");
}

#[test]
fn rows_that_no_tensor_map_takes_are_loaded_and_shifted() {
    let Some(compiler) = compiler_or_skip() else { return };
    let family = [restricted(built_in("wgmma"), "UNALIGNED", "load")];
    let templates = Templates::built_in().unwrap();
    // One operand or both; rows of every alignment below 16 bytes; extents within a tile, and beyond.
    let all = [Layout::Nn, Layout::Nt, Layout::Tn, Layout::Tt];
    let shapes = ["130x66x196", "100x33x263", "131x57x323", "300x12x1001", "9x302x126"];
    let mut problems: Vec<Problem> = Vec::new();
    for (number, (shape, layout)) in shapes.iter().flat_map(|s| all.map(|l| (s, l))).enumerate() {
        let dtype = if number % 2 == 0 { Dtype::Bf16 } else { Dtype::F16 };
        let problem = Problem { layout, ..Problem::new(shape.parse().unwrap(), dtype) };
        problems.push(Problem { batch: 1 + number as u64 % 3, ..problem });
    }
    let of_bytes = Problem::new("70x40x205".parse().unwrap(), Dtype::I8);
    problems.push(Problem { layout: Layout::Nt, ..of_bytes });
    with_epilogues(&mut problems[..8]);
    let sample = cases(1, 2);
    let kit = (family.as_slice(), &templates);
    let results = checked_on(&Device::h200(), &compiler, kit, &problems, Sample::Of(sample));
    assert_eq!(all_pass(&results), sample * problems.len());
}

#[test]
fn parts_of_k_that_meet_in_a_cluster_are_right_on_every_kind_of_edge() {
    let Some(compiler) = compiler_or_skip() else { return };
    let (family, templates) = (
        [restricted(built_in("pipelined"), "REDUCTION", "cluster")],
        Templates::built_in().unwrap(),
    );
    let shapes = ["65x70x300", "33x129x517", "96x64x1030"];
    let pairs = Layout::ALL.iter().flat_map(|layout| shapes.map(|s| problem(s, *layout)));
    let mut problems: Vec<Problem> = pairs.collect();
    problems.push(Problem { batch: 3, ..problem("40x50x260", Layout::Nn) });
    with_epilogues(&mut problems);
    let kit = (family.as_slice(), &templates);
    let sample = cases(1, 2);
    let results = checked_on(&Device::h200(), &compiler, kit, &problems, Sample::Of(sample));
    assert_eq!(all_pass(&results), sample * problems.len());
}

#[test]
fn parts_of_k_that_are_added_to_c_are_right_on_every_kind_of_edge() {
    let Some(compiler) = compiler_or_skip() else { return };
    let family =
        [restricted(built_in("pipelined"), "REDUCTION", "atomic").allowing_nondeterministic()];
    let templates = Templates::built_in().unwrap();
    let shapes = ["65x70x300", "33x129x517", "96x64x1030"];
    let pairs = Layout::ALL.iter().flat_map(|layout| shapes.map(|s| problem(s, *layout)));
    let mut problems: Vec<Problem> = pairs.collect();
    problems.push(Problem { batch: 3, ..problem("40x50x260", Layout::Nn) });
    let kit = (family.as_slice(), &templates);
    let sample = cases(1, 2);
    let results = checked_on(&Device::h200(), &compiler, kit, &problems, Sample::Of(sample));
    assert_eq!(all_pass(&results), sample * problems.len());

    // No block has the whole sum, to which an epilogue applies.
    let followed = Problem { epilogue: "relu".parse().unwrap(), ..problems[0] };
    assert!(LegalSpace::of(&family[0], &followed, &Device::h200()).unwrap().is_empty());

    // Additions one at a time, for what cannot add vectors.
    let eight = ComputeCapability { major: 8, minor: 0 };
    let a100 = Device { compute_capability: eight, ..Device::h200() };
    let results = checked_on(&a100, &compiler, kit, &problems[..2], Sample::Of(2));
    assert_eq!(all_pass(&results), 4);

    // Of a large problem no part can be judged, which is said.
    let large = [problem("128x128x65536", Layout::Nn)];
    let results = checked_on(&Device::h200(), &compiler, kit, &large, Sample::Of(1));
    let why = &results[0].failures[0].failure.message;
    assert!(why.contains("blocks add to the same elements"), "{why}");
}

#[test]
fn some_blocks_of_a_large_problem_have_their_operands_laid_out_whole() {
    let Some(compiler) = compiler_or_skip() else { return };
    let kit =
        (vec![restricted(built_in("pipelined"), "PACK", "a")], Templates::built_in().unwrap());
    let results = checked(&compiler, &kit, &[problem("2040x2000x64", Layout::Nn)], Sample::Of(2));
    assert_eq!(all_pass(&results), 2);
}
