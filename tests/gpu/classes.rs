//! Every class of operands, through a bundle and through lookup: row lengths and addresses that are aligned to 4, 2 or
//! 1 elements, with memory for workspaces and without. `tests/export/classes.rs` has the same by predictions.

#![expect(unsafe_code, reason = "operands are addresses")]

use std::path::Path;

use gemm_tune::database::Database;
use gemm_tune::export::classes;
use gemm_tune::gpu::{
    CudaDevice, EncodedMap, ForeignBuffer, ForeignContext, ForeignKernel, GpuError, KernelArgument,
    Stream,
};
use gemm_tune::lookup::{Lookup, Question};
use gemm_tune::model::{Dtype, LaunchShape, Layout, PlacedMap, Problem, Regime};
use gemm_tune::predict::{LearnedModel, Predictor};
use gemm_tune::render::Templates;
use gemm_tune::runtime::{
    Bundle, Catalogue, DatabaseKernels, Driver, GemmOperands, RowsToCopy, RowsToFill, Runtime,
};
use gemm_tune::space::{Families, Family};
use libtest_mimic::Failed;

use crate::rig::{compiler, gemm_tune, worker};

const SHAPES: [&str; 2] = ["1000x1000x1000", "2000x2000x2000"];
const LAUNCHES: usize = 20;
const SAMPLES: usize = 15;

/// Most that a bundle's kernels may take of what lookup's take, in the geometric mean.
const MEAN: f64 = 1.1;

/// The device of the caller's context, with memory for workspaces or without.
struct Limited {
    context: ForeignContext,
    has_memory: bool,
}

impl Driver for Limited {
    type KernelHandle = ForeignKernel;
    type Allocation = ForeignBuffer;
    type MapHandle = EncodedMap;

    fn load(&self, image: &[u8], kernels: &[(&str, u32)]) -> Result<Vec<ForeignKernel>, GpuError> {
        self.context.load(image, kernels)
    }

    fn encode(&self, map: &PlacedMap) -> Result<EncodedMap, GpuError> {
        self.context.encode(map)
    }

    unsafe fn copy_rows(&self, stream: Stream, rows: &RowsToCopy) -> Result<(), GpuError> {
        // SAFETY: as the caller's.
        unsafe { self.context.copy_rows(stream, rows) }
    }

    unsafe fn fill_rows(&self, stream: Stream, rows: &RowsToFill) -> Result<(), GpuError> {
        // SAFETY: as the caller's.
        unsafe { self.context.fill_rows(stream, rows) }
    }

    unsafe fn launch(
        &self,
        stream: Stream,
        kernel: &ForeignKernel,
        shape: LaunchShape,
        arguments: &[KernelArgument],
        maps: &[EncodedMap],
    ) -> Result<(), GpuError> {
        // SAFETY: as the caller's.
        unsafe { self.context.launch(stream, kernel, shape, arguments, maps) }
    }

    fn allocate(&self, bytes: u64) -> Result<ForeignBuffer, GpuError> {
        match self.has_memory {
            true => self.context.allocate(bytes),
            false => Err(GpuError::OutOfMemory { bytes, free: 0 }),
        }
    }

    fn address_and_size(memory: &ForeignBuffer) -> (u64, u64) {
        (memory.address(), memory.bytes())
    }
}

/// Median time of a product in microseconds.
fn median_us<C: Catalogue>(
    gpu: &CudaDevice,
    runtime: &Runtime<C, Limited>,
    question: &Question,
) -> Result<f64, Failed> {
    let Question { problem, storage, .. } = question;
    let offset = if storage.alignment < 256 { storage.alignment } else { 0 };
    let [a, b, c] = [problem.a_elements(), problem.b_elements(), problem.c_elements()]
        .map(|elements| gpu.allocate(4 * elements + offset).unwrap());
    let at = |address: u64| address + offset;
    let operands = GemmOperands::packed(problem, at(a.address()), at(b.address()), at(c.address()));
    let launch_all = |gpu: &CudaDevice| {
        for _ in 0..LAUNCHES {
            // SAFETY: the buffers have the problem's sizes, and live until the device is done.
            unsafe { runtime.gemm(gpu.stream(), problem, &operands).unwrap() };
        }
        Ok(())
    };
    launch_all(gpu)?;
    gpu.synchronize()?;
    let graph = gpu.capture(launch_all)?;
    let (before, after) = (gpu.event()?, gpu.event()?);
    let mut samples = Vec::new();
    for _ in 0..SAMPLES {
        before.record()?;
        graph.launch()?;
        after.record()?;
        after.synchronize()?;
        samples.push(after.elapsed_since(&before)?.0 / LAUNCHES as f64);
    }
    samples.sort_by(f64::total_cmp);
    Ok(samples[SAMPLES / 2])
}

/// Exports a bundle of the shipped records of one layout, and measures it beside lookup's kernels.
pub(crate) fn classes_are_as_fast_as_lookups() -> Result<(), Failed> {
    let folder = Path::new("target/test-artifacts/gpu-classes");
    let _ = std::fs::remove_dir_all(folder);
    let (worker, layout) = (worker(), Layout::Nt);
    let device = gemm_tune::worker::Executor::device(&worker).clone();
    if !Database::is_built_in_for(&device) {
        println!("skipped: no records of this GPU ship");
        return Ok(());
    }
    let records = Database::built_in(&device)?.records().to_vec();
    let database = format!("results/{}.toml", device.slug());
    let database = database.as_str();
    let out = folder.to_str().unwrap();
    let arguments = ["export", "--format", "bundle", "-o", out, "--db", database, "--layout", "nt"];
    assert_eq!(gemm_tune(&[&arguments[..], &["--changed-templates"]].concat()).1, Some(0));
    let compilers = [(true, compiler(&worker)), (false, compiler(&worker))];
    drop(worker);
    let gpu = CudaDevice::open(0)?;
    let families: Vec<Family> = Families::built_in()?.iter().cloned().collect();
    let mut times = Vec::new();
    for (has_memory, compiler) in compilers {
        let enter = || -> Result<Limited, Failed> {
            Ok(Limited { context: ForeignContext::enter()?, has_memory })
        };
        let (device, templates) = (enter()?.context.device().clone(), Templates::built_in()?);
        let (predictor, _) =
            Predictor::new(LearnedModel::built_in(&device)?, &families, &templates);
        let lookup = Lookup::new(&records, &families, &templates, &device, Regime::default());
        let lookup = lookup.with_predictor(predictor);
        let kernels = DatabaseKernels::new(lookup, templates, Box::new(compiler), &device);
        let (bundled, looked_up) = (
            Runtime::new(Bundle::open(folder, &device)?, enter()?),
            Runtime::new(kernels, enter()?),
        );
        for shape in SHAPES {
            let problem = Problem { layout, ..Problem::new(shape.parse()?, Dtype::F32) };
            let questions = classes(&problem).into_iter();
            for question in questions.filter(|question| question.workspace == Question::ANY) {
                let own = median_us(&gpu, &bundled, &question)?;
                let other = median_us(&gpu, &looked_up, &question)?;
                let (shape, alignment) = (question.problem.shape, question.storage.alignment);
                println!(
                    "{shape} at {alignment} bytes, memory {has_memory}: {own:.2} us, lookup {other:.2} us, {:.3}",
                    own / other
                );
                times.push((own / other).ln());
            }
        }
    }
    let mean = (times.iter().sum::<f64>() / times.len() as f64).exp();
    println!("{} classes: {mean:.3}", times.len());
    assert!(mean <= MEAN, "{mean}");
    Ok(())
}
