//! Artifacts that may call cuBLASLt and cuBLAS: in the place of these there are stubs that multiply in host memory by what
//! they are told (`tests/artifacts/stub_library.c`, `stub_cublas.c`), and record calls.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gemm_tune::database::StoredBaseline;
use gemm_tune::export::{self, Artifact, KernelDraft, LIBRARY_CALL_FROM_PYTHON};
use gemm_tune::gpu::LibraryAlgorithm;
use gemm_tune::model::{Dtype, GemmType, Layout, Problem, Shape};
use gemm_tune::predict::{LIBRARY_TILES, LearnedModel, LibraryChoice, LibraryCosts, LibraryModel};

use super::artifact::{Known, exported};
use super::with_stub;
use crate::export::artifacts::take_strictly;
use crate::support::program::gemm_tune;
use crate::support::without::skip;

/// Kernels: dtype of A and B, layout, epilogue, and the algorithm by which the library was faster.
const KERNELS: [(Dtype, Layout, &str, Won); 7] = [
    (Dtype::F32, Layout::Nn, "", Won::ByAlgorithm),
    (Dtype::F32, Layout::Nt, "", Won::Not),
    (Dtype::F32, Layout::Tn, "", Won::Not),
    (Dtype::F32, Layout::Tt, "", Won::Not),
    (Dtype::F32, Layout::Nt, "bias,relu", Won::ByName),
    (Dtype::Bf16, Layout::Nt, "bias,relu", Won::ByAlgorithm),
    (Dtype::I8, Layout::Nt, "", Won::ByItself),
];

/// How the library was faster than a kernel.
#[derive(Clone, Copy, PartialEq)]
enum Won {
    Not,
    /// With its own choice, as cuBLAS.
    ByItself,
    /// With an algorithm of which an earlier record has the name.
    ByName,
    ByAlgorithm,
}

impl Won {
    fn baseline(self, dtype: Dtype, median_us: f64) -> Option<StoredBaseline> {
        let numbers = [
            ("id", 66),
            ("tile", 12),
            ("stages", 35),
            ("split_k", 1),
            ("swizzle", 1),
            ("cluster_shape", 2),
            ("compute", if dtype == Dtype::F32 { 69 } else { 68 }),
            ("workspace_bytes", 1024),
        ];
        let all = numbers.into_iter().map(|(name, value)| (name.to_owned(), value));
        let (name, algorithm) = match self {
            Self::Not => return None,
            Self::ByItself => ("cuBLAS", LibraryAlgorithm::new()),
            Self::ByName => (
                "cuBLASLt, best of 16 (cublasLt#67 tile 13 stages 36 split-k 2)",
                LibraryAlgorithm::new(),
            ),
            Self::ByAlgorithm => ("cuBLASLt, best of 16 (cublasLt#66)", all.collect()),
        };
        let name = name.to_owned();
        let median_us = 0.5 * median_us;
        Some(StoredBaseline { name, median_us, speedup: 0.5, algorithm, all: Vec::new() })
    }
}

fn drafts() -> Vec<KernelDraft> {
    let known = Known::shipped();
    let draft = |(dtype, layout, epilogue, won): (Dtype, Layout, &str, Won)| {
        let (types, epilogue) = (GemmType::of(dtype), epilogue.parse().unwrap());
        let shape = Shape { m: 64, n: 48, k: 32 };
        let problem = Problem { shape, batch: 1, types, layout, epilogue };
        let name = if dtype == Dtype::F32 { "naive" } else { "mma" };
        let family = known.families.iter().find(|family| family.name == name).unwrap();
        let mut record = known.records[0].clone();
        record.problem = (&problem).into();
        record.family = name.to_owned();
        record.parameters = family.default_for(&problem, &known.device).unwrap().unwrap().0;
        // Slower than a call of the library takes the host.
        record.measurement.median_us *= 8.0;
        record.baseline = won.baseline(dtype, record.measurement.median_us);
        KernelDraft::of_record(&record, known.source()).unwrap()
    };
    KERNELS.into_iter().map(draft).collect()
}

/// A forecast by which the library is always faster.
fn fast_library() -> LibraryModel {
    let costs = LibraryCosts {
        launch_us: 1e-6,
        alone: 1.0,
        wave_us: 0.0,
        byte_us: 0.0,
        split_us: 0.0,
        part_us: 0.0,
        step_us: [1e-9; LIBRARY_TILES.len()],
    };
    LibraryModel {
        types: GemmType::of(Dtype::F32),
        algorithm: LibraryChoice::Own,
        error_percent: 10.0,
        costs,
        known: Vec::new(),
    }
}

fn sources(libraries: Option<Vec<LibraryModel>>) -> std::collections::BTreeMap<String, String> {
    let kernels = drafts().into_iter().map(exported).collect();
    let device = Known::shipped().device.clone();
    let artifact = Artifact { device, kernels, tree: None, libraries };
    let (files, left_out) = export::python(&artifact, &["sm_90".parse().unwrap()]);
    assert!(left_out.is_empty(), "{left_out:?}");
    files
}

/// The artifact with the program and the stubs in a folder; `None` without a compiler.
fn build() -> Option<PathBuf> {
    let folder = Path::new("target/test-artifacts/choices/Library");
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder.join("stub")).unwrap();
    fs::create_dir_all(folder.join("library")).unwrap();
    for (name, text) in sources(Some(vec![fast_library()])) {
        fs::write(folder.join(name), text).unwrap();
    }
    take_strictly(folder)?;
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let warned =
        ["-std=gnu99", "-O1", "-Wall", "-Wextra", "-Werror", "-I", folder.to_str().unwrap()];
    let (driver, library) = (at("stub/libcuda.so.1"), at("library/libcublasLt.so.13"));
    let blas = at("library/libcublas.so.13");
    let (tuned, program) = (at(export::LIBRARY), at("products"));
    let shared = ["-shared", "-fPIC"];
    let driver_named = ["tests/artifacts/stub_driver.c", "-Wl,-soname,libcuda.so.1", "-o", &driver];
    let library_named =
        ["tests/artifacts/stub_library.c", "-Wl,-soname,libcublasLt.so.13", "-o", &library];
    let blas_named = [
        "tests/artifacts/stub_cublas.c",
        "-Wl,-soname,libcublas.so.13,-rpath,$ORIGIN",
        &library,
        "-o",
        &blas,
    ];
    let source = at("gemm_tuned.c");
    let linked = ["tests/artifacts/library.c", &tuned, &driver, "-o", &program, "-ldl"];
    for arguments in [
        [&warned[..], &shared, &driver_named].concat(),
        [&warned[..], &shared, &library_named].concat(),
        [&warned[..], &shared, &blas_named].concat(),
        [&warned[..], &shared, &[&source, "-o", &tuned, "-ldl"]].concat(),
        [&warned[..], &linked, &["-Wl,-rpath,$ORIGIN:$ORIGIN/stub"]].concat(),
    ] {
        match Command::new("gcc").args(arguments).output() {
            Ok(output) => {
                let error = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{error}");
            }
            Err(error) => {
                skip("compilers", &format!("no gcc: {error}"));
                return None;
            }
        }
    }
    Some(folder.canonicalize().unwrap())
}

/// What the program prints, with the library on the path of the linker unless `variables` say otherwise.
fn said(folder: &Path, words: &[&str], variables: &[(&str, &str)], has_library: bool) -> String {
    let mut command = with_stub(&folder.join("products"), folder);
    if has_library {
        let path = format!("{0}/stub:{0}/library", folder.display());
        command.env("LD_LIBRARY_PATH", path);
    }
    for name in ["NVIDIA_TF32_OVERRIDE", "CUBLAS_EMULATE_SINGLE_PRECISION", "GEMM_TUNED_LIBRARY"] {
        command.env_remove(name);
    }
    let output = command.args(words).envs(variables.iter().copied()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {error}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn an_artifact_calls_the_library_where_that_is_faster_and_kernels_elsewhere() {
    let Some(folder) = build() else { return };
    let all = said(&folder, &[], &[], true);
    insta::assert_snapshot!(all);
    let lines = |text: &str, end: &str| text.lines().filter(|line| line.ends_with(end)).count();
    assert_eq!((lines(&all, "right"), lines(&all, "WRONG"), lines(&all, "kernel")), (22, 0, 3));

    let short =
        |variables: &[(&str, &str)], has_library| said(&folder, &["short"], variables, has_library);
    // Without the library, and with variables that turn it off or change its arithmetic, kernels compute everything.
    for (variables, has_library) in [
        (&[][..], false),
        (&[("GEMM_TUNED_LIBRARY", "0")], true),
        (&[("NVIDIA_TF32_OVERRIDE", "0")], true),
        (&[("CUBLAS_EMULATE_SINGLE_PRECISION", "1")], true),
    ] {
        let text = short(variables, has_library);
        assert_eq!((lines(&text, "kernel"), text.contains("cublasLt")), (4, false), "{text}");
        assert!(text.ends_with("handles -1\n"), "{text}");
    }
    // An algorithm that the check refuses gives way to the library's own choice.
    let text = short(&[("STUB_LT_MODE", "no-check")], true);
    let calls = |algorithm: &str| text.matches(algorithm).count();
    assert_eq!(
        (lines(&text, "right"), calls("multiply:1,"), calls("multiply:20,")),
        (4, 3, 1),
        "{text}"
    );
    // With the workspace that it was timed with, however much the algorithm needed.
    assert_eq!(text.matches("cublas:").count(), text.matches("cublas:33554432,").count(), "{text}");
    // Kernels compute what the library proposes nothing for, or refuses to multiply.
    let text = short(&[("STUB_LT_MODE", "no-check nothing")], true);
    assert_eq!((lines(&text, "kernel"), text.contains("multiply")), (4, false), "{text}");
    let text = short(&[("STUB_LT_MODE", "refuse")], true);
    assert_eq!((lines(&text, "kernel"), text.contains("multiply")), (4, true), "{text}");
    // Where the artifact measures, the library takes part.
    let file = folder.join("measured.txt");
    let measured =
        [("GEMM_TUNED_MEASURE", "1"), ("GEMM_TUNED_MEASURE_FILE", file.to_str().unwrap())];
    let text = short(&measured, true);
    // The first product was measured, which launches kernels too.
    assert_eq!((lines(&text, "right"), lines(&text, "WRONG")), (3, 0), "{text}");
    let first = text.lines().next().unwrap();
    assert!(first.ends_with("cublas:33554432,2;multiply:1,68,00,1,33554432; kernel"), "{text}");
    let measured = fs::read_to_string(&file).unwrap();
    assert!(measured.lines().count() == 1 && measured.contains(" cublasLt_f32_nn "), "{measured}");
}

#[test]
fn an_artifact_without_the_library_has_nothing_of_it() {
    let [without, with] = [None, Some(Vec::new())].map(sources);
    let source = &without["gemm_tuned.c"];
    assert!(!source.contains("cublasLt") && !source.contains("library_"), "{source}");
    assert!(!source.contains("@L@") && !source.contains("@N@"));
    let other = &with["gemm_tuned.c"];
    assert!(other.contains("libcublasLt.so.13") && !other.contains("@L@"));
    // All other files are the same.
    for (name, text) in &without {
        assert_eq!((name, &with[name] == text), (name, name != "gemm_tuned.c"));
    }
}

/// Shapes for which the kernel of the artifact is far slower than the library: few rows or columns, tails, long K, batches.
const FORECAST: [(u64, u64, u64, u64); 8] = [
    (512, 512, 512, 1),
    (1000, 77, 3000, 1),
    (1, 4096, 4096, 1),
    (4097, 4095, 1023, 1),
    (64, 64, 65536, 1),
    (300, 200, 100, 24),
    (20000, 20000, 20000, 1),
    (181, 769, 5730, 1),
];

#[test]
fn an_artifact_forecasts_the_library_as_gemm_tune_does() {
    let device = &Known::shipped().device;
    let learned = LearnedModel::built_in(device).unwrap();
    let is_own = |model: &&LibraryModel| model.algorithm == LibraryChoice::Own;
    let models: Vec<LibraryModel> = learned.libraries.iter().filter(is_own).cloned().collect();
    let folder = Path::new("target/test-artifacts/choices/Forecast");
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).unwrap();
    for (name, text) in sources(Some(models.clone())) {
        fs::write(folder.join(name), text).unwrap();
    }
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (source, program) = (at("gemm_tuned.c"), at("forecast"));
    let arguments = ["-std=gnu99", "-I", folder.to_str().unwrap(), "tests/artifacts/forecast.c"];
    let linked = [source.as_str(), "-o", &program, "-ldl"];
    match Command::new("gcc").args(arguments).args(linked).output() {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => return skip("compilers", &format!("no gcc: {error}")),
    }
    let words = FORECAST.map(|(m, n, k, batch)| format!("{m}x{n}x{k}x{batch}"));
    let output = Command::new(&program).args(&words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.lines().count(), FORECAST.len(), "{text}");
    for (line, (m, n, k, batch)) in text.lines().zip(FORECAST) {
        let problem = Problem { batch, ..Problem::new(Shape { m, n, k }, Dtype::F32) };
        let expected = models[0].to_beat(&problem, device, LIBRARY_CALL_FROM_PYTHON).0;
        let time = line.strip_prefix("0 cuBLAS ").unwrap_or_else(|| panic!("{problem}: {line}"));
        let time: f64 = time.parse().unwrap();
        assert!((time / expected - 1.0).abs() < 1e-12, "{problem}: {time} and {expected}");
    }
}

#[test]
fn only_c_and_python_artifacts_call_the_library() {
    let said = gemm_tune(&["export", "--format", "rust", "--with-library", "-o", "target/none"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    let expected = "`--with-library` is for `--format c` and `--format python`";
    assert!(said.err.contains(expected), "{}", said.err);
}
