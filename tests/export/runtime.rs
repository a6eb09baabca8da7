//! The runtime on a bundle: what it picks, and that a call that is not the first allocates nothing.
//! Kernels are not run: a counting driver replaces the GPU.

#![expect(unsafe_code, reason = "an allocator is unsafe to write, and operands are addresses")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use gemm_tune::gpu::{GpuError, KernelArgument, Stream};
use gemm_tune::model::{Device, Dtype, GemmType, LaunchShape, PlacedMap, Problem};
use gemm_tune::runtime::{
    Bundle, Driver, GemmOperands, RowsToCopy, RowsToFill, Runtime, RuntimeError,
};

use super::rig::artifact;

/// The system's, with the number of allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: passes everything on to the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Idle<'a>(&'a AtomicU64);

impl Driver for Idle<'_> {
    type KernelHandle = ();
    type Allocation = u64;
    type MapHandle = ();

    fn load(&self, image: &[u8], kernels: &[(&str, u32)]) -> Result<Vec<()>, GpuError> {
        assert!(image.starts_with(b"\x7fELF"), "machine code of sm_90");
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
        LaunchShape { grid, block, .. }: LaunchShape,
        arguments: &[KernelArgument],
        _: &[()],
    ) -> Result<(), GpuError> {
        assert!(!arguments.is_empty() && !grid.contains(&0) && !block.contains(&0));
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> Result<u64, GpuError> {
        Ok(bytes)
    }

    fn address_and_size(memory: &u64) -> (u64, u64) {
        (1 << 20, *memory)
    }
}

fn gemm(
    runtime: &Runtime<Bundle, Idle<'_>>,
    stream: Stream,
    problem: &Problem,
    operands: &GemmOperands,
) -> Result<(), RuntimeError> {
    // SAFETY: the driver launches nothing, so that no address is accessed.
    unsafe { runtime.gemm(stream, problem, operands) }
}

#[test]
fn a_runtime_on_a_bundle_allocates_nothing_after_the_first_call() {
    let Some(folder) = artifact("bundle") else { return };
    let launches = AtomicU64::new(0);
    let bundle = Bundle::open(&folder, &Device::h200()).unwrap();
    let runtime = Runtime::new(bundle, Idle(&launches));
    let problem = |shape: &str| Problem::new(shape.parse().unwrap(), Dtype::F32);
    for (shape, lda, name) in [
        ("44x31x23", 23, "gemm_f32_nn_44x31x23"),
        ("44x31x23", 25, "gemm_f32_nn_"),
        ("4096x4096x4096", 4096, "gemm_f32_nn_"),
        ("1x5000x5000", 5000, "gemm_f32_nn_"),
    ] {
        let problem = problem(shape);
        let operands = GemmOperands { lda, ..GemmOperands::packed(&problem, 256, 512, 768) };
        let told = runtime.warm_up(&problem, &operands).unwrap();
        assert!(told.starts_with(name), "{shape}: {told}");
        // A workspace is made by the first call that needs it.
        gemm(&runtime, Stream::default(), &problem, &operands).unwrap();
        let (before, launched) = (ALLOCATIONS.get(), launches.load(Ordering::Relaxed));
        for _ in 0..100 {
            gemm(&runtime, Stream::default(), &problem, &operands).unwrap();
        }
        assert_eq!(ALLOCATIONS.get() - before, 0, "{shape}");
        assert!(launches.load(Ordering::Relaxed) >= launched + 100);
    }
    let other = Problem { types: GemmType::of(Dtype::I32), ..problem("8x8x8") };
    let error =
        gemm(&runtime, Stream::default(), &other, &GemmOperands::packed(&other, 256, 256, 256));
    assert!(matches!(error, Err(RuntimeError::NoKernel { .. })), "{error:?}");
}

#[test]
fn a_runtime_refuses_a_bundle_that_was_changed() {
    let Some(folder) = artifact("bundle") else { return };
    let file = folder.join("manifest.json");
    let text = std::fs::read_to_string(&file).unwrap().replacen("true", "false", 1);
    std::fs::write(&file, text).unwrap();
    let error = Bundle::open(&folder, &Device::h200()).unwrap_err().to_string();
    assert!(error.contains("`manifest.json` was changed after the export"), "{error}");
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &file).unwrap();
    let error = Bundle::open(&folder, &Device::h200()).unwrap_err().to_string();
    assert!(error.contains("cannot read `manifest.json`: not a file of a bundle"), "{error}");
}
