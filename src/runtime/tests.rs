//! Selection, caching and argument passing, with a driver that records its calls.

#![expect(unsafe_code, reason = "operands are addresses")]

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use indexmap::IndexMap;

use super::*;
use crate::compile::compiler::ImageOrigin;
use crate::compile::{Compile, CompileError, CompileRequest, Compiled};
use crate::gpu::{GpuError, KernelArgument, Stream};
use crate::lookup::Lookup;
use crate::model::{
    Device, Dtype, EpilogueOp, GemmType, LaunchShape, Layout, PlacedMap, Problem, Regime, Shape,
};
use crate::render::Templates;
use crate::space::{Families, Family};

/// A recorded launch: stream, entry, sizes, arguments, tensor maps.
type Launched = (Stream, String, LaunchShape, Vec<KernelArgument>, Vec<PlacedMap>);

#[derive(Default)]
struct RecordingDriver {
    loads: AtomicUsize,
    encoded: AtomicUsize,
    launched: Mutex<Vec<Launched>>,
    allocated: Mutex<Vec<u64>>,
    copied: Mutex<Vec<RowsToCopy>>,
    filled: Mutex<Vec<RowsToFill>>,
    next: AtomicU64,
    /// Bytes that an allocation may have at most, above 0.
    memory: AtomicU64,
}

impl Driver for &RecordingDriver {
    type KernelHandle = String;
    type Allocation = (u64, u64);
    type MapHandle = PlacedMap;

    fn load(&self, image: &[u8], kernels: &[(&str, u32)]) -> Result<Vec<String>, GpuError> {
        assert!(!image.is_empty());
        self.loads.fetch_add(1, Ordering::SeqCst);
        Ok(kernels.iter().map(|(entry, _)| (*entry).to_owned()).collect())
    }

    fn encode(&self, map: &PlacedMap) -> Result<PlacedMap, GpuError> {
        self.encoded.fetch_add(1, Ordering::SeqCst);
        Ok(*map)
    }

    unsafe fn launch(
        &self,
        stream: Stream,
        kernel: &String,
        shape: LaunchShape,
        arguments: &[KernelArgument],
        maps: &[PlacedMap],
    ) -> Result<(), GpuError> {
        let launched = (stream, kernel.clone(), shape, arguments.to_vec(), maps.to_vec());
        self.launched.lock().unwrap().push(launched);
        Ok(())
    }

    unsafe fn copy_rows(&self, _: Stream, rows: &RowsToCopy) -> Result<(), GpuError> {
        self.copied.lock().unwrap().push(*rows);
        Ok(())
    }

    unsafe fn fill_rows(&self, _: Stream, rows: &RowsToFill) -> Result<(), GpuError> {
        self.filled.lock().unwrap().push(*rows);
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> Result<(u64, u64), GpuError> {
        let memory = self.memory.load(Ordering::SeqCst);
        if memory > 0 && bytes > memory {
            return Err(GpuError::OutOfMemory { bytes, free: memory });
        }
        self.allocated.lock().unwrap().push(bytes);
        Ok((self.next.fetch_add(1 << 32, Ordering::SeqCst) + (1 << 32), bytes))
    }

    fn address_and_size(memory: &(u64, u64)) -> (u64, u64) {
        *memory
    }
}

/// A slow compiler that returns the source and counts its calls.
struct Counting(Arc<AtomicUsize>);

impl Compile for Counting {
    fn compile(&self, request: &CompileRequest) -> Result<Compiled, CompileError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(20));
        Ok(Compiled {
            image: request.source.as_bytes().into(),
            log: String::new(),
            resources: IndexMap::new(),
            origin: ImageOrigin::Compiler,
            elapsed: Duration::ZERO,
        })
    }
}

fn gemm<C: Catalogue>(
    runtime: &Runtime<C, &RecordingDriver>,
    stream: Stream,
    problem: &Problem,
    operands: &GemmOperands,
) -> Result<(), RuntimeError> {
    // SAFETY: the driver records launches; nothing accesses an address.
    unsafe { runtime.gemm(stream, problem, operands) }
}

fn families(names: &[&str]) -> Vec<Family> {
    let all = Families::built_in().unwrap();
    names.iter().map(|name| all.get(name).unwrap().clone()).collect()
}

fn kernels(names: &[&str], compiled: &Arc<AtomicUsize>) -> DatabaseKernels {
    kernels_of(&families(names), compiled)
}

fn kernels_of(families: &[Family], compiled: &Arc<AtomicUsize>) -> DatabaseKernels {
    let (device, templates) = (Device::h200(), Templates::built_in().unwrap());
    let lookup = Lookup::new([], families, &templates, &device, Regime::default());
    DatabaseKernels::new(lookup, templates, Box::new(Counting(Arc::clone(compiled))), &device)
}

fn problem(shape: &str) -> Problem {
    Problem::new(shape.parse().unwrap(), Dtype::F32)
}

#[test]
fn a_kernel_is_compiled_and_loaded_once_for_all_threads() {
    let compiled = Arc::new(AtomicUsize::new(0));
    let driver = RecordingDriver::default();
    let runtime = Runtime::new(kernels(&["tiled"], &compiled), &driver);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for shape in ["64x64x64", "100x30x7"] {
                    let problem = problem(shape);
                    let operands = GemmOperands::packed(&problem, 256, 512, 1024);
                    gemm(&runtime, Stream::default(), &problem, &operands).unwrap();
                }
            });
        }
    });
    assert_eq!(compiled.load(Ordering::SeqCst), 1, "both shapes have the same source");
    assert_eq!(driver.loads.load(Ordering::SeqCst), 1);
    assert_eq!(driver.launched.lock().unwrap().len(), 8);
}

#[test]
fn kernels_get_the_arguments_of_the_convention() {
    let driver = RecordingDriver::default();
    let compiled = Arc::default();
    let runtime = Runtime::new(kernels(&["tiled"], &compiled), &driver);
    let problem = Problem { batch: 3, layout: Layout::Tn, ..problem("5x6x7") };
    let operands = GemmOperands {
        a: 4096,
        b: 8192,
        d: 12_288,
        lda: 10,
        ldb: 11,
        ldd: 12,
        alpha: 1.5,
        beta: -2.0,
        ..GemmOperands::packed(&problem, 0, 0, 0)
    };
    let stream = Stream::from_raw(std::ptr::without_provenance_mut(64));
    gemm(&runtime, stream, &problem, &operands).unwrap();
    let launched = driver.launched.lock().unwrap();
    let (on, entry, LaunchShape { grid, .. }, arguments, _) = &launched[0];
    use KernelArgument::{F32, I32, I64, Pointer};
    assert_eq!((*on, entry.as_str(), grid[2]), (stream, "gemm", 3));
    let expected = [
        [Pointer(4096), Pointer(8192), Pointer(12_288), I32(5), I32(6)],
        [I32(7), I32(3), I32(10), I32(11), I32(12)],
        [I64(70), I64(77), I64(60), F32(1.5), F32(-2.0)],
    ];
    assert_eq!(arguments[..], expected.concat());
}

#[test]
fn workspaces_grow_on_demand_and_belong_to_a_stream() {
    let driver = RecordingDriver::default();
    let compiled = Arc::default();
    let runtime = Runtime::new(kernels(&["pipelined"], &compiled), &driver);
    let (one, other) = (Stream::default(), Stream::from_raw(std::ptr::without_provenance_mut(8)));
    // Few blocks and a deep K: the default splits it.
    let (small, large) = (problem("64x64x4096"), problem("128x64x4096"));
    for (stream, problem) in [(one, small), (one, large), (one, small), (other, small)] {
        let operands = GemmOperands::packed(&problem, 256, 256, 256);
        gemm(&runtime, stream, &problem, &operands).unwrap();
    }
    let allocated = driver.allocated.lock().unwrap();
    let [first, second, third] = allocated[..] else { panic!("{allocated:?}") };
    assert!(first < second && first == third, "{allocated:?}");
    let launched = driver.launched.lock().unwrap();
    let entries: Vec<&str> = launched.iter().map(|launch| launch.1.as_str()).collect();
    assert_eq!(entries, ["gemm", "reduce"].repeat(4));
    // The third call uses the workspace of the second.
    assert_eq!(launched[3].3[0], launched[5].3[0]);
    assert_ne!(launched[5].3[0], launched[7].3[0]);
}

#[test]
fn where_memory_is_missing_a_kernel_that_needs_none_is_used() {
    let driver = RecordingDriver::default();
    let runtime = Runtime::new(kernels(&["pipelined"], &Arc::default()), &driver);
    let entries = || {
        let launched = std::mem::take(&mut *driver.launched.lock().unwrap());
        launched.into_iter().map(|launch| (launch.1, launch.3[0])).collect::<Vec<_>>()
    };
    let (one, other) = (Stream::default(), Stream::from_raw(std::ptr::without_provenance_mut(8)));
    let call = |stream: Stream, shape: &str| {
        let problem = problem(shape);
        let operands = GemmOperands::packed(&problem, 256, 256, 256);
        gemm(&runtime, stream, &problem, &operands).unwrap();
        entries()
    };
    let small = call(one, "64x64x4096");
    assert_eq!(small.len(), 2, "K is split: {small:?}");
    driver.memory.store(1, Ordering::SeqCst);
    let without = call(other, "128x64x4096");
    assert_eq!(without.len(), 1, "a kernel without a workspace: {without:?}");
    // The smaller workspace stays, and a kernel that needs no more is used.
    assert_eq!(call(one, "128x64x4096")[0].1, small[0].1);
    assert_eq!(call(one, "64x64x4096"), small);
    assert_eq!(driver.allocated.lock().unwrap().len(), 1);
    driver.memory.store(0, Ordering::SeqCst);
    assert_eq!(call(other, "128x64x4096").len(), 2);
}

#[test]
fn what_kernels_cannot_take_is_refused_before_a_launch() {
    let driver = RecordingDriver::default();
    let runtime = Runtime::new(kernels(&["naive"], &Arc::default()), &driver);
    let own = problem("8x8x8");
    let packed = GemmOperands::packed(&own, 256, 512, 1024);
    let large = |m: u64| Problem { shape: Shape { m, ..own.shape }, ..own };
    let whole = Problem { types: GemmType::of(Dtype::I32), ..own };
    for (problem, operands, words) in [
        (own, GemmOperands { a: 257, ..packed }, "aligned to 1 bytes"),
        (own, GemmOperands { d: 1026, ..packed }, "aligned to 2 bytes"),
        (own, GemmOperands { b: 0, ..packed }, "the address of B is null"),
        (own, GemmOperands { lda: (1 << 32) + 64, ..packed }, "lda is 4294967360"),
        (large(3_000_000_000), packed, "M is 3000000000"),
        (large((1 << 31) - 4095), packed, "M is 2147479553: kernels take 1 to 2147479552"),
        (whole, GemmOperands { alpha: 1.5, ..packed }, "alpha is 1.5: give a whole number"),
        (whole, GemmOperands { beta: 3e9, ..packed }, "beta is 3000000000"),
    ] {
        let error = gemm(&runtime, Stream::default(), &problem, &operands).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    // Without elements of D nothing is done, whatever the addresses are.
    let nowhere = GemmOperands { a: 0, b: 0, d: 0, ..packed };
    for nothing in [large(0), Problem { batch: 0, ..own }] {
        gemm(&runtime, Stream::default(), &nothing, &nowhere).unwrap();
    }
    assert!(driver.launched.lock().unwrap().is_empty());
}

#[test]
fn a_k_or_an_alpha_of_0_fills_copies_or_multiplies_zeros() {
    let driver = RecordingDriver::default();
    let runtime = Runtime::new(kernels(&["naive"], &Arc::default()), &driver);
    let own = Problem { batch: 2, ..problem("8x6x4") };
    let empty = Problem { shape: Shape { k: 0, ..own.shape }, ..own };
    let call = |problem: &Problem, operands: &GemmOperands| {
        gemm(&runtime, Stream::default(), problem, operands).unwrap();
        let take = |rows: &Mutex<Vec<RowsToFill>>| std::mem::take(&mut *rows.lock().unwrap());
        let copied = std::mem::take(&mut *driver.copied.lock().unwrap());
        (take(&driver.filled), copied, std::mem::take(&mut *driver.launched.lock().unwrap()))
    };
    // A and B are not read: no address is needed.
    let plain = GemmOperands { ldd: 7, ..GemmOperands::packed(&own, 0, 0, 1024) };
    let zeros = RowsToFill { to: (1024, 28), width: 24, rows: 16 };
    let separate = Some(SeparateC { address: 2048, ldc: 9 });
    let rows_of_c = RowsToCopy { from: (2048, 36), to: (1024, 28), width: 24, rows: 16 };
    for (problem, alpha) in [(empty, 1.0), (empty, f64::NAN), (own, 0.0), (own, -1e-60)] {
        let plain = GemmOperands { alpha, ..plain };
        assert_eq!(call(&problem, &plain), (vec![zeros], vec![], vec![]));
        let with_c = GemmOperands { c: separate, ..plain };
        assert_eq!(call(&problem, &with_c), (vec![zeros], vec![], vec![]), "beta is 0");
        let with_c = GemmOperands { beta: 1.0, ..with_c };
        assert_eq!(call(&problem, &with_c), (vec![], vec![rows_of_c], vec![]));
        let in_place = GemmOperands { beta: 1.0, ..plain };
        assert_eq!(call(&problem, &in_place), (vec![], vec![], vec![]), "D is C");
        assert_eq!(runtime.warm_up(&problem, &in_place).unwrap(), "nothing");

        let scaled = GemmOperands { beta: 0.5, ..with_c };
        let (filled, copied, launched) = call(&problem, &scaled);
        let [RowsToFill { to: (address, _), width, rows: 1 }] = filled[..] else { panic!() };
        assert_eq!((width, copied), (4096, vec![rows_of_c]), "2 products of 8x64 elements");
        use KernelArgument::{F32, I32, I64, Pointer};
        let expected = [
            [Pointer(address), Pointer(address), Pointer(1024), I32(8), I32(6)],
            [I32(64), I32(2), I32(64), I32(6), I32(7)],
            [I64(512), I64(384), I64(56), F32(1.0), F32(0.5)],
        ];
        assert_eq!(launched[0].3, expected.concat());
        assert!(runtime.warm_up(&problem, &scaled).unwrap().starts_with("naive"));
    }
    let far = GemmOperands { d: 1026, ..plain };
    let error = gemm(&runtime, Stream::default(), &empty, &far).unwrap_err().to_string();
    assert!(error.contains("aligned to 2 bytes"), "{error}");
    let short = GemmOperands { ldd: 5, ..plain };
    let error = gemm(&runtime, Stream::default(), &empty, &short).unwrap_err().to_string();
    assert!(error.contains("ldc is 5: rows of C have 6"), "{error}");
    driver.memory.store(1, Ordering::SeqCst);
    let scaled = GemmOperands { beta: 0.5, ..plain };
    let stream = Stream::from_raw(std::ptr::without_provenance_mut(8));
    let error = gemm(&runtime, stream, &empty, &scaled).unwrap_err().to_string();
    assert!(error.contains("no kernel for 8x6x0"), "{error}");
}

#[test]
fn operands_of_an_epilogue_and_a_separate_c_reach_the_driver() {
    let driver = RecordingDriver::default();
    let runtime = Runtime::new(kernels(&["naive"], &Arc::default()), &driver);
    let problem =
        Problem { epilogue: "bias,relu,mul".parse().unwrap(), batch: 2, ..problem("8x6x4") };
    let addresses = |bias: u64, mul: u64| {
        let mut addresses = EpilogueAddresses::default();
        addresses.set(EpilogueOp::Bias, bias);
        addresses.set(EpilogueOp::Mul, mul);
        addresses
    };
    let epilogue = addresses(4100, 8192);
    let whole = GemmOperands {
        ldd: 7,
        beta: 0.5,
        c: Some(SeparateC { address: 2048, ldc: 9 }),
        epilogue,
        ..GemmOperands::packed(&problem, 256, 512, 1024)
    };
    gemm(&runtime, Stream::default(), &problem, &whole).unwrap();
    let launched = std::mem::take(&mut *driver.launched.lock().unwrap());
    let operands = [4100, 8192].map(KernelArgument::Pointer);
    assert!(launched[0].3.ends_with(&operands), "{launched:?}");
    let rows = RowsToCopy { from: (2048, 36), to: (1024, 28), width: 24, rows: 16 };
    assert_eq!(std::mem::take(&mut *driver.copied.lock().unwrap()), [rows]);
    // C is not read, or is D.
    let same = Some(SeparateC { address: 1024, ldc: 7 });
    for operands in [GemmOperands { beta: 0.0, ..whole }, GemmOperands { c: same, ..whole }] {
        gemm(&runtime, Stream::default(), &problem, &operands).unwrap();
    }
    assert!(driver.copied.lock().unwrap().is_empty());
    let (without, odd) = (addresses(4100, 0), addresses(4098, 8192));
    let over_d = Some(SeparateC { address: 1024, ldc: 9 });
    let short = Some(SeparateC { address: 2048, ldc: 5 });
    for (operands, words) in [
        (
            GemmOperands { epilogue: without, ..whole },
            "the epilogue's `mul` has the address 0: give",
        ),
        (GemmOperands { epilogue: odd, ..whole }, "the epilogue's `bias` has the address 4098"),
        (GemmOperands { c: over_d, ..whole }, "C is at 1024 with rows of 9 elements"),
        (GemmOperands { c: short, ..whole }, "C is at 2048 with rows of 5 elements"),
    ] {
        let error = gemm(&runtime, Stream::default(), &problem, &operands).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn prepared_problems_are_bounded() {
    let driver = RecordingDriver::default();
    let runtime = Runtime::new(kernels(&["naive"], &Arc::default()), &driver);
    for m in 1..=9000 {
        let problem = Problem::new(Shape { m, n: 8, k: 8 }, Dtype::F32);
        let operands = GemmOperands::packed(&problem, 256, 512, 1024);
        gemm(&runtime, Stream::default(), &problem, &operands).unwrap();
        assert!(runtime.prepared_problems() <= 4096);
    }
    assert_eq!(driver.loads.load(Ordering::SeqCst), 1, "kernels stay loaded");
}

#[test]
fn addresses_and_rows_decide_between_kernels() {
    let driver = RecordingDriver::default();
    let compiled = Arc::default();
    let runtime = Runtime::new(kernels(&["blocktile"], &compiled), &driver);
    let problem = problem("1024x1024x1024");
    let aligned = GemmOperands::packed(&problem, 256, 512, 1024);
    let odd = GemmOperands { lda: 1025, ..aligned };
    let name = |operands: &GemmOperands| runtime.warm_up(&problem, operands).unwrap();
    assert!(name(&aligned).contains("VEC=4"), "{}", name(&aligned));
    assert!(name(&odd).contains("VEC=1"));
    assert!(name(&GemmOperands { a: 260, ..aligned }).contains("VEC=1"));
    let short = GemmOperands { lda: 1000, ..aligned };
    let error = gemm(&runtime, Stream::default(), &problem, &short).unwrap_err();
    assert!(error.to_string().contains("lda is 1000: rows of A have 1024"), "{error}");
}

/// `tma`, with defaults for operands as they lie and for packed ones.
fn boxes() -> Family {
    let text = include_str!("../../search-spaces/tma.toml");
    let (head, rest) = text.split_once("[default]\n").unwrap();
    let (default, rest) = rest.split_once("\n[parameters]").unwrap();
    let packed = format!("[[default]]\n{default}");
    let as_it_lies = packed.replace(r#"PACK = "both""#, r#"PACK = "none""#);
    let text = format!("{head}{as_it_lies}{packed}\n[parameters]{rest}");
    Family::parse("tma.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn tensor_maps_are_encoded_once_for_each_set_of_operands() {
    let driver = RecordingDriver::default();
    let runtime = Runtime::new(kernels_of(&[boxes()], &Arc::default()), &driver);
    // Boxes of both operands as stored, then of a packed copy.
    let as_it_lies = Problem { layout: Layout::Tn, ..problem("64x96x4096") };
    let own = GemmOperands { lda: 68, ..GemmOperands::packed(&as_it_lies, 256, 512, 768) };
    let other = GemmOperands { b: 1 << 20, ..own };
    let twice = [KernelArgument::Map(0), KernelArgument::Map(1)];
    for operands in [own, own, other, own, other] {
        gemm(&runtime, Stream::default(), &as_it_lies, &operands).unwrap();
        let launched = std::mem::take(&mut *driver.launched.lock().unwrap());
        let (.., arguments, maps) = launched.iter().find(|launch| launch.1 == "gemm").unwrap();
        assert!(arguments.ends_with(&twice), "{arguments:?}");
        let [of_a, of_b] = &maps[..] else { panic!("{maps:?}") };
        assert_eq!((of_a.address, of_b.address), (operands.a, operands.b));
        assert_eq!((of_a.extents, of_a.strides[0]), ([64, 4096, 1, 1, 1], 4 * 68));
    }
    assert_eq!(driver.encoded.load(Ordering::SeqCst), 4, "two maps for two sets");

    let packed = problem("4096x4096x512");
    gemm(&runtime, Stream::default(), &packed, &GemmOperands::packed(&packed, 256, 512, 768))
        .unwrap();
    let launched = std::mem::take(&mut *driver.launched.lock().unwrap());
    let entries: Vec<&str> = launched.iter().map(|launch| launch.1.as_str()).collect();
    assert_eq!(entries, ["pack", "gemm"]);
    let ([KernelArgument::Pointer(workspace)], [of_a, _]) =
        (&launched[1].3[15..16], &launched[1].4[..])
    else {
        panic!("{launched:?}")
    };
    assert_eq!(of_a.address, *workspace);

    // Far more sets than the cache holds.
    for number in 1..3000 {
        let operands = GemmOperands { d: 256 * number, ..own };
        gemm(&runtime, Stream::default(), &as_it_lies, &operands).unwrap();
    }
}
