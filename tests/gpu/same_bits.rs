//! Kernels give the same bits on a GPU and on the cpu device.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use gemm_tune::compile::{Architecture, Compile as _, CompileRequest, CompileTarget, Compiler};
use gemm_tune::cpu::PtxModule;
use gemm_tune::model::{
    Compute, Configuration, Dtype, Epilogue, GemmType, LaunchPlan, Layout, Problem, ProblemPattern,
};
use gemm_tune::render::{Rendered, Templates, render};
use gemm_tune::space::{Family, LegalSpace};
use gemm_tune::validate::{
    GuardedBuffer, HostValidator, KERNELS, ValidationSubject, Validator, compile_options,
};
use gemm_tune::worker::{Executor as _, GpuWorker, KernelSetup, Scalars, WorkItem, bind};
use libtest_mimic::Failed;
use rayon::prelude::*;

use crate::rig::{compile_children, compiler, searched_families, worker};

/// Configurations of each family that are executed on both devices, for each problem.
const SAME_BITS_SAMPLE: usize = 4;

/// A kernel for a GPU and for the cpu device.
struct BothKernels {
    what: String,
    plan: LaunchPlan,
    cubin: Arc<[u8]>,
    program: PtxModule,
}

impl BothKernels {
    fn compile(
        what: String,
        rendered: Rendered,
        [to_cubin, to_ptx]: [&Compiler; 2],
    ) -> Result<Self, Failed> {
        let request = CompileRequest {
            source: rendered.source.into(),
            name: "gemm.cu".to_owned(),
            options: Vec::new(),
        };
        let cubin = to_cubin.compile(&request)?.image;
        let ptx = to_ptx.compile(&request)?.image;
        let program = PtxModule::parse(&String::from_utf8_lossy(&ptx))?;
        Ok(Self { what, plan: rendered.plan, cubin, program })
    }

    /// The bits of C.
    fn result_of_gpu(
        &self,
        problem: &Problem,
        (validator, worker): (&Validator, &mut GpuWorker),
        scalars: Scalars,
    ) -> Result<Vec<u32>, Failed> {
        let module = worker.load(&self.cubin, &KernelSetup::of(&self.plan))?.module;
        let sizes = self.plan.workspaces.iter().map(|workspace| workspace.bytes);
        let workspaces: Vec<GuardedBuffer> =
            sizes.map(|bytes| GuardedBuffer::allocate(worker, bytes)).collect::<Result<_, _>>()?;
        let addresses: Vec<u64> = workspaces.iter().map(|zone| zone.address).collect();
        let work = |operands, scalars| {
            let launches = bind(&self.plan, module, problem, operands, &addresses, scalars);
            launches.unwrap().into_iter().map(WorkItem::Kernel).collect()
        };
        let subject = ValidationSubject { work: &work, workspaces: &workspaces };
        let result = validator.result(worker, &subject, scalars)?;
        worker.unload(module)?;
        for zone in workspaces {
            zone.free(worker)?;
        }
        Ok(result)
    }
}

/// What NVRTC makes of a source gives the same C on a GPU, as a cubin, and on the host, as PTX.
pub(crate) fn same_bits() -> Result<(), Failed> {
    let mut worker = worker();
    let device = worker.device().clone();
    let compiler = compiler(&worker);
    let target = CompileTarget::Ptx(Architecture::from(device.compute_capability));
    let to_ptx =
        Compiler::new(compiler.nvrtc().clone(), None, target)?.in_children(compile_children());
    let templates = Templates::built_in().unwrap();
    let mut random = fastrand::Rng::with_seed(11);
    let mut pairs = BTreeMap::new();
    let families = searched_families();
    let plain = |types: &GemmType| Epilogue::NONE.check(*types).is_ok();
    let of_tensor_cores: Vec<GemmType> =
        GemmType::all().filter(is_of_tensor_cores).filter(plain).collect();
    let f32 = GemmType::of(Dtype::F32);
    let mut cases = vec![
        (f32, Layout::Nn, "33x65x129", 1),
        (f32, Layout::Tt, "200x136x72", 1),
        (f32, Layout::Nt, "7x130x1000", 3),
        (f32, Layout::Tn, "300x70x19", 2),
        (GemmType::of(Dtype::I32), Layout::Tn, "65x64x100", 1),
    ];
    // Rows of the second and fourth are multiples of 16 bytes, as tensor maps need. The last has a short K.
    let shapes = ["33x65x129", "200x136x72", "7x130x1000", "72x80x160", "300x70x19"];
    for (number, types) in of_tensor_cores.into_iter().enumerate() {
        for (at, shape) in shapes.into_iter().enumerate() {
            let layout = Layout::ALL[(number + at) % Layout::ALL.len()];
            cases.push((types, layout, shape, 1 + at as u64));
        }
    }
    for (types, layout, shape, batch) in cases {
        let wanted: Epilogue = "row-scale,bias,relu,residual".parse()?;
        let epilogue = if is_of_tensor_cores(&types) && batch > 1 {
            wanted.check(types).unwrap_or_default()
        } else {
            Epilogue::NONE
        };
        let pattern = ProblemPattern { types, layout, epilogue };
        let problem = Problem { batch, ..pattern.problem(shape.parse().unwrap()) };
        let image = compiler.compile(&CompileRequest {
            source: KERNELS.into(),
            name: "kernels.cu".to_owned(),
            options: compile_options(&problem),
        })?;
        let validator = Validator::prepare(&mut worker, &image.image, &problem, 5, u64::MAX)?;
        let host = HostValidator::prepare(&problem, &device, 5)?;
        let mut chosen = Vec::new();
        for family in &families {
            if family.refusal(&problem, &device).is_some() {
                continue;
            }
            let space = LegalSpace::of(family, &problem, &device)?;
            let mut one = || space.get(random.usize(..space.len())).unwrap();
            let count = if space.is_empty() { 0 } else { SAME_BITS_SAMPLE };
            chosen.extend((0..count).map(|_| (family, one())));
        }
        let compile = |(family, configuration): &(&Family, Configuration)| {
            let rendered = render(family, &templates, configuration, &problem, &device)?;
            let what = format!("{} {configuration} for {problem}", family.name);
            BothKernels::compile(what, rendered, [&compiler, &to_ptx])
        };
        let began = Instant::now();
        let kernels: Vec<BothKernels> = chosen.par_iter().map(compile).collect::<Result<_, _>>()?;
        let compiled = began.elapsed();
        let scalars = [Scalars::PLAIN, Scalars { alpha: -3.0, beta: 2.0 }];
        let mut results = Vec::new();
        for kernel in &kernels {
            for scalars in scalars {
                let gpu = kernel.result_of_gpu(&problem, (&validator, &mut worker), scalars)?;
                results.push((kernel, scalars, gpu));
            }
        }
        for (family, _) in &chosen {
            *pairs.entry((family.name.clone(), types.to_string())).or_insert(0) += 1;
        }
        validator.release(&mut worker)?;
        let executed = began.elapsed();
        results.par_iter().for_each(|(kernel, scalars, gpu)| {
            let what = format!("{} {scalars:?}", kernel.what);
            let cpu = host.result(&kernel.program, &kernel.plan, *scalars);
            let cpu = cpu.unwrap_or_else(|failure| panic!("{what}: {failure}"));
            let other = gpu.iter().zip(&cpu).position(|(gpu, cpu)| gpu != cpu);
            let bits = other.map(|at| (at, gpu[at], cpu[at]));
            assert_eq!(bits, None, "{what}");
            assert_eq!(gpu.len(), cpu.len(), "{what}");
        });
        let times = [compiled, executed, began.elapsed()].map(|time| time.as_secs_f32());
        println!(
            "{problem}: {} kernels; compiled, on the GPU, on the host after {times:.1?} s",
            chosen.len()
        );
    }
    println!("the same bits for {pairs:?}");
    assert!(pairs.values().sum::<usize>() >= 150, "{pairs:?}");
    let executed: BTreeSet<&String> = pairs.keys().map(|(family, _)| family).collect();
    assert_eq!(executed.len(), families.len(), "{pairs:?}");
    Ok(())
}

/// Whether products are summed by tensor cores.
fn is_of_tensor_cores(types: &GemmType) -> bool {
    matches!(types.compute, Compute::Tf32 | Compute::F16 | Compute::Bf16 | Compute::I8)
}
