//! Kernels of `mma`, compiled for several architectures and executed on the host.

use gemm_tune::compile::{Architecture, CompileTarget, Compiler};
use gemm_tune::model::{
    ComputeCapability, Device, Dtype, Epilogue, GemmType, Layout, Problem, Value,
};
use gemm_tune::render::Templates;
use gemm_tune::space::{Families, Family};
use gemm_tune::tune::Sample;

use crate::emulation::{all_pass, checked_on, problem};
use crate::support::cases::cases;
use crate::support::nvrtc_or_skip;

/// The family with one number of parts of K alone.
fn family_with_parts(parts: i64) -> Family {
    let mut family = Families::built_in().unwrap().get("mma").unwrap().clone();
    family.parameters["SPLIT_K"].retain(|known| *known == Value::Int(parts));
    family
}

/// Turing has no asynchronous copies and instructions of half the depth; Ampere has no launches that begin before
/// others end.
#[test]
fn tensor_cores_of_three_architectures_multiply_whole_and_in_parts() {
    let templates = Templates::built_in().unwrap();
    let families = [1, 3].map(family_with_parts);
    let of = |dtype, epilogue: &str| {
        let types = GemmType::of(dtype);
        let epilogue: Epilogue = epilogue.parse().unwrap();
        [("40x24x528", Layout::Nn), ("33x65x601", Layout::Tt), ("56x48x520", Layout::Tn)]
            .map(|(shape, layout)| Problem { types, epilogue, ..problem(shape, layout) })
    };
    let (half, bytes) = (of(Dtype::F16, "bias,relu"), of(Dtype::I8, ""));
    let brain = of(Dtype::Bf16, "");
    for (version, problems) in
        [((7, 5), [half, bytes].concat()), ((8, 0), brain.to_vec()), ((9, 0), brain.to_vec())]
    {
        let Some(nvrtc) = nvrtc_or_skip() else { return };
        let compute_capability = ComputeCapability { major: version.0, minor: version.1 };
        let device = Device { compute_capability, ..Device::h200() };
        let target = CompileTarget::Ptx(Architecture::from(compute_capability));
        let compiler = Compiler::new(nvrtc, None, target).unwrap();
        for family in &families {
            let kit = (std::slice::from_ref(family), &templates);
            let results = checked_on(&device, &compiler, kit, &problems, Sample::Of(cases(2, 5)));
            assert_eq!(all_pass(&results), cases(2, 5) * problems.len(), "{compute_capability}");
        }
    }
}
