//! Operands of tf32 products that tensor copies round on their way to shared memory.

use gemm_tune::cpu::{GlobalMemory, PtxModule, WriteTracking, launch};
use gemm_tune::model::{
    Compute, CopyRounding, Dtype, EpilogueAddresses, GemmType, LaunchPlan, Layout, Problem, Shape,
};
use gemm_tune::worker::{OperandAddresses, Scalars, bind};

use super::harness::{checked, compile, rendered};
use crate::support::rounded_copies::{copied_on_the_cpu, copies_request};

const EXTENT: u64 = 64;

/// 1 + 2^-11 + 2^-20: 1 + 2^-10 where it is rounded to nearest, 1 where it is truncated.
const ELEMENT: u32 = 0x3f80_1008;

fn problem(layout: Layout) -> Problem {
    let types = GemmType { compute: Compute::Tf32, ..GemmType::of(Dtype::F32) };
    let shape = Shape { m: EXTENT, n: EXTENT, k: EXTENT };
    Problem { types, layout, ..Problem::new(shape, Dtype::F32) }
}

/// The elements of C where all elements of A and B are [`ELEMENT`].
fn product(problem: &Problem, program: &PtxModule, plan: &LaunchPlan) -> Vec<f32> {
    let mut memory = GlobalMemory::new(WriteTracking::Written);
    let [a, b, c] = [(); 3].map(|()| memory.allocate(4 * EXTENT * EXTENT).unwrap());
    for address in [a, b] {
        memory.fill_with(address, EXTENT * EXTENT, |_| ELEMENT).unwrap();
    }
    let workspaces = plan.workspaces.iter().map(|space| memory.allocate(space.bytes).unwrap());
    let workspaces: Vec<u64> = workspaces.collect();
    let operands = OperandAddresses { a, b, c, epilogue: EpilogueAddresses::default() };
    for command in bind(plan, 0, problem, operands, &workspaces, Scalars::PLAIN).unwrap() {
        let parameters: Vec<_> = command.arguments.iter().map(|one| (*one).into()).collect();
        let (kernel, shared) =
            (program.kernel(&command.entry).unwrap(), command.dynamic_shared_bytes);
        let extents = (command.grid, command.block);
        launch(kernel, extents, shared, &parameters, &memory, &checked())
            .unwrap_or_else(|error| panic!("{problem}: {error}"));
    }
    let bytes = memory.read(c, 4 * EXTENT * EXTENT).unwrap();
    bytes.chunks(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn operands_of_tf32_products_are_rounded_as_they_are_copied() {
    let rounded = 1.0 + 2.0_f32.powi(-10);
    for layout in Layout::ALL {
        let problem = problem(*layout);
        for values in [&[][..], &[("SWAP", 1)]] {
            let kernel = rendered("wgmma", &problem, values);
            let Some(ptx) = compile(&kernel.source, &[]) else { return };
            let program = PtxModule::parse(&ptx).unwrap();
            for map in &kernel.plan.tensor_maps {
                let expected = (map.operand != "C").then_some(CopyRounding::Tf32);
                assert_eq!(map.rounds_to, expected, "{problem}: {}", map.name);
            }
            let found = product(&problem, &program, &kernel.plan);
            let sum = EXTENT as f32 * rounded * rounded;
            assert!(found.iter().all(|one| *one == sum), "{problem} {values:?}: {}", found[0]);
            if *layout == Layout::Nt {
                // Without the rounding, the instruction ignores the low bits.
                let mut truncating = kernel.plan;
                truncating.tensor_maps.iter_mut().for_each(|map| map.rounds_to = None);
                let found = product(&problem, &program, &truncating);
                assert!(found.iter().all(|one| *one == EXTENT as f32), "{problem}: {}", found[0]);
            }
        }
    }
}

#[test]
fn operands_of_other_products_are_copied_as_they_are() {
    for (dtype, layout) in [(Dtype::Bf16, Layout::Nt), (Dtype::I8, Layout::Nn)] {
        let shape = Shape { m: EXTENT, n: EXTENT, k: EXTENT };
        let problem = Problem { layout, ..Problem::new(shape, dtype) };
        let plan = rendered("wgmma", &problem, &[]).plan;
        assert!(plan.tensor_maps.iter().all(|map| map.rounds_to.is_none()), "{plan:?}");
    }
}

/// As an H200 rounds: infinities stay, and every NaN is the same.
fn expected(element: u32) -> u32 {
    let (sign, magnitude) = (element & 0x8000_0000, element & 0x7fff_ffff);
    match magnitude {
        0x7f80_0001.. => 0x7fff_e000,
        // The addition carries where the low bits are beyond half, or half of an odd value.
        _ => sign | (magnitude + 0xfff + (magnitude >> 13 & 1)) & !0x1fff,
    }
}

#[test]
fn copies_round_values_of_every_kind() {
    let Some(ptx) = compile(&copies_request().source, &[]) else { return };
    let [elements, kept] = copied_on_the_cpu(&ptx, None);
    assert_eq!(elements, kept);
    let [elements, rounded] = copied_on_the_cpu(&ptx, Some(CopyRounding::Tf32));
    for (element, found) in elements.into_iter().zip(rounded) {
        let wanted = expected(element);
        assert_eq!(found, wanted, "{element:#010x}: {found:#010x} for {wanted:#010x}");
    }
}
