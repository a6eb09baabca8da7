//! The family of the GPU test of packed operands: its kernels pack A, on every GPU that the test may run on.

use gemm_tune::model::{Argument, Device, Dtype, Problem, Storage};
use gemm_tune::render::Templates;
use gemm_tune::space::formula::{Solver, open_values};
use gemm_tune::space::{Family, LegalSpace};

use crate::support::packing_family::packing_family;

/// Name, SMs and L2 cache of GPUs.
const GPUS: [(&str, u32, u64); 3] = [
    ("NVIDIA H200", 132, 60 << 20),
    ("NVIDIA H100 80GB HBM3", 132, 50 << 20),
    ("NVIDIA H100 PCIe", 114, 50 << 20),
];

#[test]
fn all_kernels_of_the_packing_family_pack_a() {
    let family = Family::parse("pipelined.toml", &packing_family()).unwrap();
    let templates = Templates::built_in().unwrap();
    let problem = Problem::new("512x384x256".parse().unwrap(), Dtype::F32);
    for (name, sms, l2_bytes) in GPUS {
        let device = Device { name: name.to_owned(), sms, l2_bytes, ..Device::h200() };
        let space = LegalSpace::of(&family, &problem, &device).unwrap();
        // As many as the test evaluates.
        assert!(space.len() >= 10, "{name}: {}", space.len());
        let names = templates.names_used(&family).unwrap();
        let open = open_values(&problem, &Storage::packed(&problem));
        for place in 0..20 {
            let configuration = space.get(place * (space.len() - 1) / 19).unwrap();
            let solver = Solver::new(&family, &configuration, &problem, &device);
            let bound = solver.bound(&problem, &open, &names).unwrap();
            let packs = bound.launches[0].packs.as_ref().map(|packs| &packs.operands[..]);
            assert_eq!(packs, Some(&[Argument::A][..]), "{name}: {configuration}");
        }
    }
}
