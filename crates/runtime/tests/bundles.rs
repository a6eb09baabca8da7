//! Bundles without a GPU: what is refused, what is chosen, and what reaches the driver, which records its calls.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unsafe_code, reason = "operands are addresses")]

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

use gemm_tune_runtime::gpu::KernelArgument;
use gemm_tune_runtime::model::{
    ComputeCapability, Device, Dtype, GemmType, LaunchShape, Layout, PlacedMap, Problem,
    STANDARD_ARGUMENTS, Shape,
};
use gemm_tune_runtime::opening::sha256;
use gemm_tune_runtime::{
    Bundle, Driver, GemmFactor, GemmOperands, GpuError, Multiplier, RowsToCopy, RowsToFill,
    Runtime, RuntimeError, Stream,
};
use serde_json::{Value, json};

/// The files of a bundle with one kernel for f32, which serves a K below 32.
fn files(architectures: &[&str]) -> BTreeMap<String, Vec<u8>> {
    edited(architectures, |_| {})
}

/// The same with another description of the kernel.
fn edited(architectures: &[&str], edit: impl Fn(&mut Value)) -> BTreeMap<String, Vec<u8>> {
    let ptx = ".version 8.7\n.target sm_80\n.address_size 64\n";
    let mut files = BTreeMap::from([
        ("k.cu".to_owned(), b"source".to_vec()),
        ("k.ptx".to_owned(), ptx.as_bytes().to_vec()),
    ]);
    for architecture in architectures {
        files.insert(format!("k.{architecture}.cubin"), architecture.as_bytes().to_vec());
    }
    let file = |name: &str| {
        let bytes: &[u8] = &files[name];
        json!({ "file": name, "bytes": bytes.len(), "sha256": sha256(bytes) })
    };
    let cubins: BTreeMap<&str, Value> =
        architectures.iter().map(|name| (*name, file(&format!("k.{name}.cubin")))).collect();
    let arguments: Vec<&str> = STANDARD_ARGUMENTS.iter().map(|argument| argument.name()).collect();
    let mut kernel = json!({
        "name": "gemm_f32_nn_8x8x8",
        "problem": {
            "m": 8, "n": 8, "k": 8, "batch": 1, "dtype": "f32", "compute": "f32", "layout": "nn",
        },
        "tuned": true,
        "family": "family",
        "parameters": {},
        "serves": ["K < 32"],
        "launches": [{
            "entry": "gemm",
            "grid": [1, 1, 1],
            "block": [32, 1, 1],
            "dynamic_shared_bytes": 0,
            "formulas": {
                "grid": ["ceil_div(M, 8)", "ceil_div(N, 8)", "batch"],
                "block": ["32", "1", "1"],
                "dynamic_shared_bytes": "0",
            },
            "arguments": arguments,
        }],
        "workspaces": [],
        "expectation": {
            "tile_m": 8, "tile_n": 8, "slice_k": 0, "blocks_of_a_tile": 1, "blocks_per_sm": 1,
            "busy_clocks": 1.0, "alone_clocks": 1.0, "launch_us": 2.0, "us_per_clock": 1.0,
            "own_clocks": 8.0,
        },
        "files": { "source": file("k.cu"), "ptx": file("k.ptx"), "cubins": cubins },
    });
    edit(&mut kernel);
    let manifest = json!({
        "schema": 2,
        "gemm_tune": "0.1.0",
        "device": { "name": "NVIDIA H200", "compute_capability": "9.0", "sms": 132 },
        "kernels": [kernel],
    });
    files.insert("manifest.json".to_owned(), manifest.to_string().into_bytes());
    let lines = files.iter().map(|(name, bytes)| format!("{}  {name}\n", sha256(bytes)));
    let sums = lines.collect::<String>().into_bytes();
    files.insert("SHA256SUMS".to_owned(), sums);
    files
}

fn device(capability: &str) -> Device {
    let compute_capability = ComputeCapability::parse(capability).unwrap();
    Device { name: "NVIDIA X".to_owned(), compute_capability, ..Device::h200() }
}

fn opened(files: &BTreeMap<String, Vec<u8>>, capability: &str) -> Result<Bundle, RuntimeError> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "it is not there");
    Bundle::read(|name| files.get(name).cloned().ok_or_else(missing), &device(capability))
}

/// A launch: image, blocks, and arguments.
type RecordedLaunch = (Vec<u8>, [u32; 3], Vec<KernelArgument>);

/// Records launches, copies and fills.
#[derive(Default)]
struct Recorder {
    launched: Mutex<Vec<RecordedLaunch>>,
    copied: Mutex<Vec<RowsToCopy>>,
    filled: Mutex<Vec<RowsToFill>>,
}

impl Driver for &Recorder {
    type KernelHandle = Vec<u8>;
    type Allocation = u64;
    type MapHandle = ();

    fn load(&self, image: &[u8], kernels: &[(&str, u32)]) -> Result<Vec<Vec<u8>>, GpuError> {
        Ok(vec![image.to_vec(); kernels.len()])
    }

    fn encode(&self, _: &PlacedMap) -> Result<(), GpuError> {
        Ok(())
    }

    unsafe fn launch(
        &self,
        _: Stream,
        image: &Vec<u8>,
        shape: LaunchShape,
        arguments: &[KernelArgument],
        _: &[()],
    ) -> Result<(), GpuError> {
        self.launched.lock().unwrap().push((image.clone(), shape.grid, arguments.to_vec()));
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

    fn allocate(&self, bytes: u64) -> Result<u64, GpuError> {
        Ok(bytes)
    }

    fn address_and_size(memory: &u64) -> (u64, u64) {
        (1 << 20, *memory)
    }
}

fn problem(shape: &str) -> Problem {
    Problem::new(shape.parse().unwrap(), Dtype::F32)
}

#[test]
fn a_bundle_serves_the_devices_that_it_has_code_for() {
    let (with_cubin, with_ptx) = (files(&["sm_75"]), files(&[]));
    for capability in ["7.5", "8.0", "9.0"] {
        assert!(opened(&with_cubin, capability).is_ok(), "{capability}");
    }
    assert!(opened(&with_ptx, "8.9").is_ok());
    let error = opened(&with_ptx, "7.5").unwrap_err().to_string();
    assert_eq!(
        error,
        "the bundle has no code for NVIDIA X (sm_75): it has PTX of sm_80; export it again with `--arch sm_75`"
    );
    let error = opened(&with_cubin, "7.0").unwrap_err().to_string();
    assert!(error.contains("it has PTX of sm_80, sm_75; export"), "{error}");
}

#[test]
fn a_bundle_that_was_changed_is_refused() {
    let changed = |name: &str, bytes: Option<&[u8]>| {
        let mut files = files(&["sm_90"]);
        match bytes {
            Some(bytes) => files.insert(name.to_owned(), bytes.to_vec()),
            None => files.remove(name),
        };
        opened(&files, "9.0").unwrap_err().to_string()
    };
    let other = changed("k.sm_90.cubin", Some(b"other"));
    assert!(other.contains("`k.sm_90.cubin` was changed after the export"), "{other}");
    let missing = changed("k.ptx", None);
    assert!(missing.contains("cannot read `k.ptx`: it is not there"), "{missing}");
    let sums = changed("SHA256SUMS", Some(b"x  y\n"));
    assert!(sums.contains("line 1: `x  y` is not a checksum"), "{sums}");
}

#[test]
fn a_product_reaches_the_driver_in_both_orders() {
    let recorder = Recorder::default();
    let runtime = Runtime::new(opened(&files(&["sm_90"]), "9.0").unwrap(), &recorder);
    let own = problem("10x20x8");
    let operands = GemmOperands { lda: 12, ldd: 32, ..GemmOperands::packed(&own, 256, 512, 1024) };
    // SAFETY: the driver records; nothing accesses an address.
    unsafe { runtime.gemm(Stream::default(), &own, &operands).unwrap() };
    // Column-major: A has columns of 10 elements, B of 8, D of 10.
    let columns = GemmOperands { lda: 12, ldb: 8, ldd: 11, ..operands };
    // SAFETY: as above.
    unsafe { runtime.gemm_column_major(Stream::default(), &own, &columns).unwrap() };
    use KernelArgument::{F32, I32, I64, Pointer};
    let launched = recorder.launched.lock().unwrap();
    let (image, grid, arguments) = &launched[0];
    assert_eq!((image.as_slice(), grid), (&b"sm_90"[..], &[2, 3, 1]));
    let expected = [
        [Pointer(256), Pointer(512), Pointer(1024), I32(10), I32(20)],
        [I32(8), I32(1), I32(12), I32(20), I32(32)],
        [I64(120), I64(160), I64(320), F32(1.0), F32(0.0)],
    ];
    assert_eq!(*arguments, expected.concat());
    let (_, grid, arguments) = &launched[1];
    let expected = [
        [Pointer(512), Pointer(256), Pointer(1024), I32(20), I32(10)],
        [I32(8), I32(1), I32(8), I32(12), I32(11)],
        [I64(160), I64(96), I64(220), F32(1.0), F32(0.0)],
    ];
    assert_eq!((grid, arguments), (&[3, 2, 1], &expected.concat()));
    drop(launched);
    let short = GemmOperands { lda: 9, ..columns };
    // SAFETY: as above.
    let error = unsafe { runtime.gemm_column_major(Stream::default(), &own, &short) };
    let error = error.unwrap_err().to_string();
    assert_eq!(error, "lda is 9: columns of A have 10 elements, give at least as many");
}

#[test]
fn products_without_factors_multiply_zeros_of_a_k_that_a_kernel_serves() {
    let recorder = Recorder::default();
    let runtime = Runtime::new(opened(&files(&["sm_90"]), "9.0").unwrap(), &recorder);
    let own = problem("10x20x8");
    let empty = Problem { shape: Shape { k: 0, ..own.shape }, ..own };
    let operands = GemmOperands { beta: 2.0, ..GemmOperands::packed(&empty, 0, 0, 1024) };
    // SAFETY: the driver records; nothing accesses an address.
    unsafe { runtime.gemm(Stream::default(), &empty, &operands).unwrap() };
    let (_, _, arguments) = &recorder.launched.lock().unwrap()[0];
    assert_eq!(arguments[5], KernelArgument::I32(16), "64 is not served");
    let zeros = RowsToFill { to: (1 << 20, 1280), width: 1280, rows: 1 };
    assert_eq!(*recorder.filled.lock().unwrap(), [zeros]);
    assert_eq!(runtime.warm_up(&empty, &operands).unwrap(), "gemm_f32_nn_8x8x8");
    let other = Problem { layout: Layout::Tt, ..empty };
    let error = runtime.warm_up(&other, &operands).unwrap_err();
    assert!(matches!(error, RuntimeError::NoKernel { .. }), "{error}");
}

#[test]
fn a_factor_is_packed_once() {
    let packing = |kernel: &mut Value| {
        let formulas = kernel["launches"][0]["formulas"].clone();
        let pack = json!({
            "entry": "pack",
            "grid": [1, 1, 1],
            "block": [32, 1, 1],
            "dynamic_shared_bytes": 0,
            "packs": { "operands": ["B"], "workspace": "packed" },
            "formulas": formulas,
            "arguments": ["B", "partials", "packed"],
        });
        kernel["launches"][0]["programmatic"] = json!(true);
        kernel["launches"][0]["arguments"] = json!(["A", "C", "partials", "packed"]);
        kernel["launches"].as_array_mut().unwrap().insert(0, pack);
        kernel["workspaces"] = json!([
            { "name": "partials", "bytes": 100, "formula": "100" },
            { "name": "packed", "bytes": 256, "formula": "4 * K * N" },
        ]);
    };
    let files = edited(&["sm_90"], packing);
    let recorder = Recorder::default();
    let runtime = Runtime::new(opened(&files, "9.0").unwrap(), &recorder);
    let launched = || {
        let launched = std::mem::take(&mut *recorder.launched.lock().unwrap());
        launched.into_iter().map(|(_, _, arguments)| arguments).collect::<Vec<_>>()
    };
    let own = problem("10x20x8");
    let operands = GemmOperands::packed(&own, 256, 512, 1024);
    // The recorder gives every allocation one address.
    let (lent, copy) = (1 << 20, 1 << 20);
    let pointers = |addresses: &[u64]| {
        addresses.iter().map(|address| KernelArgument::Pointer(*address)).collect::<Vec<_>>()
    };
    // SAFETY: the driver records; nothing accesses an address. So for all calls below.
    let gemm = || unsafe { runtime.gemm(Stream::default(), &own, &operands).unwrap() };
    gemm();
    let whole = [&[512, lent, lent + 256][..], &[256, 1024, lent, lent + 256]].map(pointers);
    assert_eq!(launched(), whole);
    // SAFETY: as above.
    let packed =
        unsafe { runtime.prepack(Stream::default(), &own, &operands, GemmFactor::B).unwrap() };
    assert!(packed.is_packed());
    assert_eq!(launched(), [pointers(&[512, copy, copy])]);
    let call = |operands: &GemmOperands| {
        // SAFETY: as above.
        unsafe { runtime.gemm_packed(Stream::default(), &packed, operands) }
    };
    call(&GemmOperands { a: 2048, ..operands }).unwrap();
    assert_eq!(launched(), [pointers(&[2048, 1024, lent, copy])], "the rest, with the copy");
    // Less aligned than the kernel was chosen for, or with other rows: as without packing.
    for other in [GemmOperands { a: 260, ..operands }, GemmOperands { ldd: 24, ..operands }] {
        call(&other).unwrap();
        assert_eq!(launched().len(), 2);
    }
    let error = call(&GemmOperands { b: 4096, ..operands }).unwrap_err();
    assert!(matches!(error, RuntimeError::OtherFactor { operand: "B" }), "{error}");
    // Nothing packs A alone.
    // SAFETY: as above.
    let unpacked =
        unsafe { runtime.prepack(Stream::default(), &own, &operands, GemmFactor::A).unwrap() };
    assert!(!unpacked.is_packed() && launched().is_empty());
    // SAFETY: as above.
    unsafe { runtime.gemm_packed(Stream::default(), &unpacked, &operands).unwrap() };
    assert_eq!(launched().len(), 2);

    for (packs, words) in [
        (json!({ "operands": ["C"], "workspace": "packed" }), "packs [\"C\"], which are not A, B"),
        (json!({ "operands": [], "workspace": "packed" }), "packs [], which are not A, B or both"),
        (json!({ "operands": ["A"], "workspace": "p" }), "packs operands into `p`, no workspace"),
    ] {
        let files = edited(&["sm_90"], |kernel| {
            packing(kernel);
            kernel["launches"][0]["packs"] = packs.clone();
        });
        let error = opened(&files, "9.0").unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_dtype_without_kernels_and_a_context_that_is_gone_are_errors_of_their_own() {
    let recorder = Recorder::default();
    let runtime = Runtime::new(opened(&files(&["sm_90"]), "9.0").unwrap(), &recorder);
    let other = Problem { types: GemmType::of(Dtype::F16), ..problem("8x8x8") };
    let operands = GemmOperands::packed(&other, 256, 512, 1024);
    let error = runtime.warm_up(&other, &operands).unwrap_err().to_string();
    assert!(error.contains("the bundle has no kernel for 8x8x8 f16 nn"), "{error}");

    let call = |code: &str| GpuError::Call {
        call: "cuLaunchKernel",
        code: code.to_owned(),
        message: "m".to_owned(),
    };
    for code in ["CUDA_ERROR_CONTEXT_IS_DESTROYED", "CUDA_ERROR_INVALID_CONTEXT"] {
        let error = RuntimeError::from(call(code)).to_string();
        let expected =
            format!("the CUDA context of these kernels is gone (cuLaunchKernel gave {code})");
        assert!(error.starts_with(&expected), "{error}");
    }
    let fault = RuntimeError::from(call("CUDA_ERROR_ILLEGAL_ADDRESS"));
    assert!(matches!(fault, RuntimeError::Gpu(_)), "{fault}");
}

#[test]
fn a_multiplier_serves_all_threads() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Multiplier>();
}
