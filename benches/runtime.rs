//! What a call of the runtime costs besides the driver's launch, once its kernel is prepared: for one
//! problem again and again, and for 1000 in turn.
//!
//! `cargo bench --bench runtime`
#![expect(unsafe_code, reason = "operands are addresses")]
#![expect(clippy::unwrap_used, reason = "a benchmark may fail")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use gemm_tune::gpu::{GpuError, KernelArgument, Stream};
use gemm_tune::lookup::Question;
use gemm_tune::model::{Dtype, LaunchShape, PlacedMap, Problem, STANDARD_ARGUMENTS, Shape};
use gemm_tune::runtime::{
    Catalogue, Driver, GemmOperands, RowsToCopy, RowsToFill, Runtime, RuntimeError, SelectedKernel,
    SelectedLaunch,
};

/// One kernel for everything.
struct Single;

impl Catalogue for Single {
    fn choose(&self, _: &Question) -> Result<SelectedKernel, RuntimeError> {
        Ok(SelectedKernel {
            name: "kernel".to_owned(),
            image: "image".to_owned(),
            source: None,
            launches: vec![SelectedLaunch {
                entry: "gemm".to_owned(),
                shape: LaunchShape {
                    grid: [64, 1, 1],
                    block: [256, 1, 1],
                    dynamic_shared_bytes: 0,
                    programmatic: false,
                },
                packs: None,
                arguments: STANDARD_ARGUMENTS.iter().map(|a| a.name().to_owned()).collect(),
            }],
            workspaces: Vec::new(),
            tensor_maps: Vec::new(),
        })
    }

    fn code(&self, _: &SelectedKernel) -> Result<Arc<[u8]>, RuntimeError> {
        Ok(Arc::from(*b"code"))
    }
}

/// Launches nothing.
struct Idle;

impl Driver for Idle {
    type KernelHandle = ();
    type Allocation = u64;
    type MapHandle = ();

    fn load(&self, _: &[u8], kernels: &[(&str, u32)]) -> Result<Vec<()>, GpuError> {
        Ok(vec![(); kernels.len()])
    }

    fn encode(&self, _: &PlacedMap) -> Result<(), GpuError> {
        Ok(())
    }

    unsafe fn copy_rows(&self, _: Stream, _: &RowsToCopy) -> Result<(), GpuError> {
        Ok(())
    }

    unsafe fn fill_rows(&self, _: Stream, _: &RowsToFill) -> Result<(), GpuError> {
        Ok(())
    }

    unsafe fn launch(
        &self,
        _: Stream,
        (): &(),
        _: LaunchShape,
        arguments: &[KernelArgument],
        _: &[()],
    ) -> Result<(), GpuError> {
        black_box(arguments);
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> Result<u64, GpuError> {
        Ok(bytes)
    }

    fn address_and_size(memory: &u64) -> (u64, u64) {
        (0, *memory)
    }
}

fn benchmark(criterion: &mut Criterion) {
    let runtime = Runtime::new(Single, Idle);
    let problems: Vec<(Problem, GemmOperands)> = (1..=1000)
        .map(|n| {
            let problem = Problem::new(Shape { m: 7 * n, n: 64, k: 128 }, Dtype::F32);
            (problem, GemmOperands::packed(&problem, 256, 512, 768))
        })
        .collect();
    for (problem, operands) in &problems {
        runtime.warm_up(problem, operands).unwrap();
    }
    for (name, problems) in [("one problem", &problems[..1]), ("1000 problems", &problems[..])] {
        let mut next = problems.iter().cycle();
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| {
                let (problem, operands) = next.next().unwrap();
                // SAFETY: the driver launches nothing, so that no address is accessed.
                unsafe {
                    runtime
                        .gemm(Stream::default(), black_box(problem), black_box(operands))
                        .unwrap();
                }
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = benchmark
}
criterion_main!(benches);
