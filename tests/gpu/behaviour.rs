//! Workers that die, memory that is short, libraries, budgets, and the program as a whole.

use std::process::Command;
use std::sync::atomic::AtomicBool;

use gemm_tune::model::{Compute, Configuration, Dtype, GemmType, Layout, Problem, Regime};
use gemm_tune::render::Templates;
use gemm_tune::space::Family;
use gemm_tune::tune::{Hints, Kit, LineUpOptions, Settings, TuneError, TuneEvent, line_up, tune};
use gemm_tune::worker::{Executor as _, WorkerError};
use libtest_mimic::Failed;
use serde_json::json;

use crate::rig::{built_in, gemm_tune, kit, problem, run, settings, worker};

pub(crate) fn killed_worker() -> Result<(), Failed> {
    let mut worker = worker();
    let address = worker.allocate(1024)?;
    worker.fill(address, 0x0102_0304, 256)?;
    assert_eq!(worker.read(address, 4)?, [4, 3, 2, 1]);
    // The only child of this process is the worker.
    let killed =
        Command::new("pkill").args(["-KILL", "-P", &std::process::id().to_string()]).status();
    assert!(killed.is_ok_and(|status| status.success()), "pkill is needed for this test");
    let error = worker.read(address, 4).unwrap_err();
    assert!(matches!(error, WorkerError::Exited { .. }), "{error}");
    assert!(error.ends_worker());
    worker.restart()?;
    let address = worker.allocate(1024)?;
    worker.fill(address, 7, 256)?;
    assert_eq!(worker.read(address, 4)?, [7, 0, 0, 0]);
    Ok(())
}

pub(crate) fn memory() -> Result<(), Failed> {
    let mut kit = built_in(Some("naive"));
    let error = run(&problem(2_000_000, 2_000_000, 8), &mut kit, &settings(1)).unwrap_err();
    assert!(matches!(error, TuneError::Memory { .. }), "{error}");
    // The device is as usable as before.
    assert!(run(&problem(64, 64, 64), &mut kit, &settings(1))?.winner().is_some());
    Ok(())
}

/// Every GEMM type and layout that libraries compute, and the epilogues that cuBLASLt fuses. Routines with wrong results
/// are left out with a note.
pub(crate) fn libraries() -> Result<(), Failed> {
    let f32 = GemmType::of(Dtype::F32);
    let [f16, bf16, i8] = [Dtype::F16, Dtype::Bf16, Dtype::I8].map(GemmType::of);
    let wide = GemmType { d: Dtype::F32, ..bf16 };
    let tf32 = GemmType { compute: Compute::Tf32, ..f32 };
    let products = [
        (f32, ""),
        (tf32, ""),
        (f16, ""),
        (bf16, ""),
        (wide, ""),
        (i8, ""),
        (bf16, "bias"),
        (bf16, "bias,relu"),
        (f16, "bias,gelu-tanh"),
        (wide, "relu"),
    ];
    for (types, epilogue) in products {
        let mut kit = built_in(Some(if types == f32 { "tiled" } else { "mma" }));
        for (layout, batch) in [(Layout::Nt, 1), (Layout::Nn, 1), (Layout::Tn, 3), (Layout::Tt, 1)]
        {
            let epilogue = epilogue.parse()?;
            let problem = Problem { layout, batch, types, epilogue, ..problem(1000, 608, 512) };
            let (names, notes) = library_names(&problem, &mut kit)?;
            println!("{problem}: {names:?} {notes:?}");
            if names.is_empty() && notes.iter().any(|note| note.contains("finds no libcublas")) {
                println!("skipped: no cuBLAS on this machine");
                return Ok(());
            }
            // Integer products of other layouts are the library's choice.
            let must = types != i8 || layout == Layout::Nt;
            let fast = names.iter().any(|name| name.starts_with("cuBLASLt"));
            assert!(fast || !must, "{problem}: {names:?} {notes:?}");
            let own = names.iter().any(|name| name == "cuBLAS");
            let is_plain = problem.epilogue.is_empty();
            assert!(own == is_plain || !must, "{problem}: {names:?} {notes:?}");
        }
    }
    let fused = |epilogue: &str| -> Result<Problem, Failed> {
        Ok(Problem { types: bf16, epilogue: epilogue.parse()?, ..problem(256, 256, 256) })
    };
    let (names, notes) = library_names(&fused("bias,silu,mul")?, &mut built_in(Some("mma")))?;
    assert!(names.is_empty(), "{names:?}");
    assert!(notes.iter().any(|note| note.contains("no routine applies")), "{notes:?}");
    Ok(())
}

/// Names of the libraries in a final, after as many samples as the final has rounds, and the notes.
fn library_names(problem: &Problem, kit: &mut Kit) -> Result<(Vec<String>, Vec<String>), Failed> {
    let mut notes = Vec::new();
    let on_event = &mut |event: TuneEvent<'_>| {
        if let TuneEvent::Note(note) = event {
            notes.push(note);
        }
    };
    let stop = AtomicBool::new(false);
    let summary = tune(problem, &Hints::default(), kit, &settings(2), &stop, on_event)?;
    for baseline in &summary.baselines {
        assert!(baseline.measurement.samples.len() >= 10);
    }
    Ok((summary.baselines.iter().map(|baseline| baseline.name.clone()).collect(), notes))
}

/// Six copies of a kernel whose parts of K meet in scratch memory. Where each had memory of its own, some took
/// 2.5 % longer than others by where that lay.
pub(crate) fn copies_tie() -> Result<(), Failed> {
    let text = include_str!("../../search-spaces/skinny.toml")
        .replace("\" },", "\", COPY = 0 },")
        .replace("[derived]", "COPY = [0, 1, 2, 3, 4, 5]\n[derived]");
    let family = Family::parse("skinny.toml", &text)?;
    let mut kit = kit(vec![family], Templates::built_in()?);
    let copies: Vec<Configuration> = (0..6)
        .map(|copy| {
            serde_json::from_value(json!({
                "VEC": 4, "LINES_PER_THREAD": 1, "CONTIGUOUS_THREADS": 128, "WARPS": 4, "UNROLL": 8,
                "BLOCKS_PER_SM": 2, "CACHE_HINT": "allocate", "COPY": copy,
            }))
        })
        .collect::<Result<_, _>>()?;
    let named: Vec<_> = copies.iter().map(|copy| ("skinny", copy)).collect();
    let options = LineUpOptions { regime: Regime::default(), seed: 0, checks_neighbours: true };
    let lined = line_up(&problem(1, 1, 1 << 20), &named, &mut kit, options, &mut |_| {})?;
    let mut medians = Vec::new();
    for standing in lined.standings {
        let standing = standing?;
        assert!(standing.contested && !standing.plan.workspaces.is_empty());
        medians.push(standing.measurement.median().0);
    }
    println!("{medians:?}");
    medians.sort_by(f64::total_cmp);
    assert!(medians[5] < 1.01 * medians[0], "copies of one kernel differ: {medians:?} us");
    Ok(())
}

pub(crate) fn budget() -> Result<(), Failed> {
    let mut kit = built_in(None);
    let settings =
        Settings { budget: Some(std::time::Duration::from_secs(2)), ..settings(100_000) };
    let began = std::time::Instant::now();
    // A search of this size without a budget takes longer.
    let summary = run(&problem(4096, 4096, 4096), &mut kit, &settings)?;
    assert!(summary.end.is_early() && summary.winner().is_some());
    assert!(began.elapsed().as_secs() < 15, "{:?}", began.elapsed());
    Ok(())
}

pub(crate) fn program() -> Result<(), Failed> {
    let folder = std::env::temp_dir().join(format!("gemm-tune-test-{}", std::process::id()));
    let database = folder.join("db.toml");
    let path = database.to_string_lossy().into_owned();
    let arguments =
        ["--shape", "256x256x256", "--db", &path, "--max-configs", "20", "--json", "-q"];
    let (document, code) = gemm_tune(&arguments);
    assert_eq!(code, Some(0), "{document}");
    let document: serde_json::Value = serde_json::from_str(&document)?;
    assert_eq!(document["results"][0]["recorded"], "added");
    let stored = std::fs::read_to_string(&database)?;
    assert!(stored.starts_with('#') && stored.contains("[[record]]"), "{stored}");

    let (document, code) = gemm_tune(&arguments);
    assert_eq!(code, Some(0));
    let document: serde_json::Value = serde_json::from_str(&document)?;
    let recorded = document["results"][0]["recorded"].as_str();
    assert!(matches!(recorded, Some("kept" | "replaced")), "{recorded:?}");

    // A database of a newer schema is refused before anything is measured, and left alone.
    std::fs::write(&database, "schema = 99\n")?;
    let (document, code) = gemm_tune(&arguments);
    assert_eq!(code, Some(1));
    assert!(document.contains("newer gemm-tune"), "{document}");
    assert_eq!(std::fs::read_to_string(&database)?, "schema = 99\n");
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

pub(crate) fn doctor() -> Result<(), Failed> {
    let (text, code) = gemm_tune(&["doctor"]);
    assert_eq!(code, Some(0), "{text}");
    for line in ["driver: ok", "GPU: ok", "NVRTC: ok", "this machine can tune"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    Ok(())
}
