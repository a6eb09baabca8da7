//! Defaults, and a sample of each space, compile for the H200 and do not spill. Needs no GPU.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use gemm_tune::compile::{
    Architecture, CompilePool, CompileRequest, CompileTarget, CompileThreads, Compiler,
};
use gemm_tune::model::{Configuration, Dtype, GemmType, Layout, Problem, ProblemPattern, Value};
use gemm_tune::render::Rendered;
use gemm_tune::space::Family;

use super::{CANONICAL, default, device, families, home, legal, rendered, say, served};
use crate::support::nvrtc_or_skip;

/// How many configurations are compiled beside the defaults.
const SAMPLE: usize = 12;

/// A default that spills more than this is a bad default: fewer bytes cost no time that shows.
const SPILL_TOLERANCE_BYTES: u32 = 16;

/// What follows the product in kernels of tensor cores that must not spill: nothing, operands of different extents,
/// activations, and two operands of the extents of C.
const EPILOGUES: [&str; 5] = ["", "residual", "bias,gelu", "silu,mul", "bias,residual"];

/// A kernel to compile.
struct Candidate {
    what: String,
    /// Whether more spilt bytes than are tolerated fail the test.
    must_not_spill: bool,
    rendered: Rendered,
}

impl Candidate {
    fn new(family: &Family, configuration: &Configuration, problem: &Problem) -> Self {
        Self {
            what: format!("{} {configuration}, {problem}", family.name),
            must_not_spill: default(family, problem).as_ref() == Some(configuration),
            rendered: rendered(family, configuration, problem),
        }
    }
}

/// Kernels of tensor cores with each epilogue: defaults, and `wgmma` with the most sums that a thread may have and each
/// way to store them.
fn kernels_with_epilogues() -> Vec<Candidate> {
    let families = families();
    let (wgmma, mma) = (families.get("wgmma").unwrap(), families.get("mma").unwrap());
    let mut candidates = Vec::new();
    for epilogue in EPILOGUES {
        let pattern = ProblemPattern {
            types: GemmType::of(Dtype::Bf16),
            layout: Layout::Nt,
            epilogue: epilogue.parse().unwrap(),
        };
        let problem = pattern.problem("4096x4096x1024".parse().unwrap());
        for family in [mma, wgmma] {
            let configuration = default(family, &problem).unwrap();
            candidates.push(Candidate::new(family, &configuration, &problem));
        }
        // Rows of C that TMA does not store.
        let unaligned = pattern.problem("4096x4100x1024".parse().unwrap());
        let stores =
            [(256, 1, "direct", problem), (128, 2, "tma", problem), (128, 2, "lines", unaligned)];
        for (columns, blocks, store, problem) in stores {
            let mut configuration = default(wgmma, &problem).unwrap();
            for (parameter, value) in [
                ("WARPGROUPS", Value::Int(2)),
                ("BN", Value::Int(columns)),
                ("INSTRUCTIONS_M", Value::Int(blocks)),
                ("SCHEDULE", Value::Text("cooperative".to_owned())),
                ("EPILOGUE", Value::Text(store.to_owned())),
            ] {
                *configuration.0.get_mut(parameter).unwrap() = value;
            }
            let candidate = Candidate::new(wgmma, &configuration, &problem);
            candidates.push(Candidate { must_not_spill: true, ..candidate });
        }
    }
    candidates
}

/// Each family's default, and a sample of all spaces that is the same in every run.
fn candidates() -> Vec<Candidate> {
    let families = families();
    let mut candidates = Vec::new();
    for family in families.iter() {
        let problem = home(family)[0];
        let default = default(family, &problem).unwrap();
        candidates.push(Candidate::new(family, &default, &problem));
    }
    let mut random = fastrand::Rng::with_seed(9);
    let in_turn: Vec<&Family> = families.iter().collect();
    for family in in_turn.into_iter().cycle().take(SAMPLE) {
        let (problem, space) = loop {
            let problems = served(family, CANONICAL[random.usize(..CANONICAL.len())]);
            let problem = problems[random.usize(..problems.len())];
            let space = legal(family, &problem);
            if !space.is_empty() {
                break (problem, space);
            }
        };
        let configuration = space.get(random.usize(..space.len())).unwrap();
        candidates.push(Candidate::new(family, &configuration, &problem));
    }
    candidates
}

#[test]
fn defaults_and_a_sample_of_each_space_compile() {
    let architecture = Architecture::from(device().compute_capability);
    let Some(nvrtc) = nvrtc_or_skip() else { return };
    let compiler = Compiler::new(nvrtc, None, CompileTarget::Cubin(architecture)).unwrap();
    let jobs = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let pool = CompilePool::new(Arc::new(compiler), CompileThreads::new(jobs).unwrap());
    let mut candidates = candidates();
    candidates.extend(kernels_with_epilogues());
    for (index, candidate) in candidates.iter().enumerate() {
        let source = candidate.rendered.source.as_str().into();
        pool.submit(index, CompileRequest { source, name: "gemm.cu".to_owned(), options: vec![] });
    }
    for _ in &candidates {
        let (index, result) = pool.recv_timeout(Duration::from_secs(120)).expect("a result");
        let Candidate { what, must_not_spill, rendered } = &candidates[index];
        let compiled = result.unwrap_or_else(|error| panic!("{what}: {error}"));
        for kernel in &rendered.plan.kernels {
            let entry = &kernel.entry;
            let Some(resources) = compiled.resources.get(entry) else {
                panic!("{what}: the source has no kernel `{entry}`");
            };
            let spilt = resources.spill_bytes();
            let tolerated = spilt <= SPILL_TOLERANCE_BYTES;
            assert!(tolerated || !must_not_spill, "{what}: `{entry}` spills {spilt} bytes");
            if !tolerated {
                say(&format!("notice: {what}: `{entry}` spills {spilt} bytes"));
            }
        }
    }
}
