//! Right kernels pass, and wrong ones are caught.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use gemm_tune::compile::libraries::programs;
use gemm_tune::compile::{Compile as _, CompileRequest};
use gemm_tune::model::{
    Device, Dtype, Epilogue, GemmType, Layout, Outcome, OutcomeKind, Problem, ProblemPattern,
    Shape, Value,
};
use gemm_tune::render::Templates;
use gemm_tune::space::{Families, Family, LegalSpace};
use gemm_tune::tune::{Coverage, Hints, Kit, Sanitizer, Settings, Summary, TuneEvent, tune};
use gemm_tune::validate::reference::triple_loop;
use gemm_tune::validate::{KERNELS, Validator, compile_options};
use libtest_mimic::Failed;

use crate::rig::{boxes, compiler, kit, problem, run, search_paths, settings, worker};

pub(crate) fn reference_agrees() -> Result<(), Failed> {
    let mut worker = worker();
    let compiler = compiler(&worker);
    for &dtype in Dtype::ALL {
        for layout in Layout::ALL {
            for (m, n, k, batch) in [(1, 1, 1, 1), (7, 5, 3, 2), (65, 64, 17, 1), (33, 130, 100, 3)]
            {
                let problem =
                    Problem { layout: *layout, batch, ..Problem::new(Shape { m, n, k }, dtype) };
                let compiled = compiler.compile(&CompileRequest {
                    source: KERNELS.into(),
                    name: "kernels.cu".to_owned(),
                    options: compile_options(&problem),
                })?;
                let validator =
                    Validator::prepare(&mut worker, &compiled.image, &problem, 9, u64::MAX)?;
                let device = validator.reference(&mut worker)?;
                let [a, b] = validator.host_operands();
                let host = triple_loop(&problem, &a, &b);
                assert_eq!(device.len(), host.len());
                for (device, host) in device.iter().zip(&host) {
                    // Both are f64 sums of at most 100 terms below 1e6, in different orders, or what an
                    // infinity or a NaN made.
                    let is_same = device == host || device.is_nan() && host.is_nan();
                    let near = (device - host).abs() <= 1e-12 * host.abs().max(1.0);
                    assert!(is_same || near, "{problem}: {device} for {host}");
                }
                validator.release(&mut worker)?;
            }
        }
    }
    Ok(())
}

/// Every candidate of a family over shapes that meet each edge, all layouts, its GEMM types in turn, batches: a
/// sample of a large space, all of a small one.
pub(crate) fn family_is_correct(family: &Family) -> Result<(), Failed> {
    let shapes = [
        (1, 1, 1),
        (7, 5, 3),
        (33, 65, 129),
        (128, 256, 64),
        (127, 257, 65),
        (300, 8, 1000),
        // So large that threads have several elements of C where K is short.
        (2051, 1059, 3),
    ];
    let mut kit = kit(vec![family.clone()], Templates::built_in().unwrap());
    let mut correct_ones = 0;
    let types = served_types(family, &kit.machine.device());
    for (case, (m, n, k)) in shapes.into_iter().enumerate() {
        for (number, &layout) in Layout::ALL.iter().enumerate() {
            let types = types[(case * Layout::ALL.len() + number) % types.len()];
            let batch = if case == 3 { 3 } else { 1 };
            let plain = ProblemPattern { types, layout, epilogue: Epilogue::NONE };
            let mut problem = Problem { batch, ..plain.problem(Shape { m, n, k }) };
            let epilogue: Epilogue = EPILOGUES[(case + number) % EPILOGUES.len()].parse()?;
            problem.epilogue = epilogue.check(types).unwrap_or_default();
            if family.refusal(&problem, &kit.machine.device()).is_some() {
                problem.epilogue = Epilogue::NONE;
            }
            // Some families are for few rows or columns only.
            if LegalSpace::of(family, &problem, &kit.machine.device())?.is_empty() {
                continue;
            }
            correct_ones += all_correct(&problem, &mut kit, 24)?.evaluated();
        }
    }
    println!("{}: {correct_ones} correct", family.name);
    assert!(correct_ones >= 24, "{}: {correct_ones}", family.name);
    Ok(())
}

/// Epilogues that problems have in turn, where a family and a GEMM type allow.
const EPILOGUES: [&str; 5] =
    ["", "bias,gelu", "row-scale,col-scale,bias,silu", "residual,relu", "mul,gelu-tanh"];

/// The GEMM types that a family serves, without an epilogue.
fn served_types(family: &Family, device: &Device) -> Vec<GemmType> {
    let serves = |types: &GemmType| {
        let (layout, epilogue) = (Layout::Nn, Epilogue::NONE);
        let pattern = ProblemPattern { types: *types, layout, epilogue };
        family.refusal(&pattern.problem(Shape { m: 64, n: 64, k: 64 }), device).is_none()
    };
    let plain = |types: &GemmType| Epilogue::NONE.check(*types).is_ok();
    GemmType::all().filter(plain).filter(serves).collect()
}

/// Tunes a problem with so many configurations, all of which must be correct.
fn all_correct(problem: &Problem, kit: &mut Kit, most: usize) -> Result<Summary, Failed> {
    let summary = run(problem, kit, &settings(most))?;
    for Coverage { family, outcomes, failures, .. } in &summary.coverage {
        let is_correct = outcomes.keys().eq([&OutcomeKind::Correct]);
        assert!(is_correct, "{problem}, {family}: {outcomes:?} {failures:?}");
    }
    Ok(summary)
}

/// Problems in f32, each with its layout and batch.
fn problems(
    cases: impl IntoIterator<Item = (&'static str, Layout, u64)>,
) -> impl Iterator<Item = Problem> {
    cases.into_iter().map(|(shape, layout, batch)| {
        let shape = shape.parse().unwrap_or_else(|error| panic!("{error}"));
        Problem { layout, batch, ..Problem::new(shape, Dtype::F32) }
    })
}

/// Tensor maps of operands, workspaces and batches, with edges on every side.
pub(crate) fn boxes_are_correct() -> Result<(), Failed> {
    let mut kit = kit(vec![boxes()], Templates::built_in().unwrap());
    let mut correct_ones = 0;
    for problem in problems([
        ("33x65x129", Layout::Nn, 1),
        ("100x36x209", Layout::Tn, 1),
        ("132x200x68", Layout::Nt, 3),
        ("300x520x1000", Layout::Tt, 1),
        ("1536x1536x512", Layout::Nn, 1),
        ("64x64x4096", Layout::Tn, 2),
    ]) {
        correct_ones += all_correct(&problem, &mut kit, 32)?.evaluated();
    }
    println!("{correct_ones} correct");
    assert!(correct_ones >= 150, "{correct_ones}");
    Ok(())
}

/// Programmatic dependent launches: the second of each plan begins while the first runs, and waits for it.
pub(crate) fn early_launches_are_correct() -> Result<(), Failed> {
    let text = include_str!("../faulty/spaces/dependent.toml")
        .replace(r#"WAIT = ["first", "late", "never"]"#, r#"WAIT = ["first"]"#);
    let family = Family::parse("dependent.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let templates = Templates::with_folder(Path::new("tests/faulty/templates")).unwrap();
    let mut kit = kit(vec![family], templates);
    for problem in problems([
        ("33x65x129", Layout::Nn, 1),
        ("1000x500x3000", Layout::Nn, 1),
        ("2048x2048x512", Layout::Nn, 1),
    ]) {
        assert_eq!(all_correct(&problem, &mut kit, 1)?.evaluated(), 1, "{problem}");
    }
    Ok(())
}

/// `pipelined` with parts of K that are added to C, which searches leave alone.
fn adding() -> Family {
    let text = include_str!("../../search-spaces/pipelined.toml")
        .replace(r#"REDUCTION = ["workspace", "cluster", "atomic"]"#, r#"REDUCTION = ["atomic"]"#)
        .replace(r#"REDUCTION = "workspace""#, r#"REDUCTION = "atomic""#)
        .replace(r#"SPLIT_K = 1\n"#, r#"SPLIT_K = 2\n"#);
    let (text, _) = text.split_once("[renamed]").unwrap();
    let family = Family::parse("pipelined.toml", text).unwrap_or_else(|error| panic!("{error}"));
    family.allowing_nondeterministic()
}

/// Sums that blocks add to C in any order: every layout and edge, several numbers of parts, batches; the
/// validation has beta = 0 on poisoned memory, and other factors.
pub(crate) fn atomic_sums_are_correct() -> Result<(), Failed> {
    let mut kit = kit(vec![adding()], Templates::built_in().unwrap());
    let mut correct_ones = 0;
    let mut splits = BTreeMap::new();
    for problem in problems([
        ("33x65x1029", Layout::Nn, 1),
        ("100x36x2090", Layout::Tn, 1),
        ("132x200x680", Layout::Nt, 3),
        ("300x522x1000", Layout::Tt, 1),
        ("512x512x512", Layout::Nn, 1),
        ("64x64x65536", Layout::Tn, 1),
        ("127x129x4097", Layout::Tt, 2),
    ]) {
        let summary = all_correct(&problem, &mut kit, 32)?;
        correct_ones += summary.evaluated();
        for standing in &summary.ranking {
            assert!(standing.plan.nondeterministic, "{problem}: {}", standing.configuration);
            let parts = standing.configuration.get("SPLIT_K").map(ToString::to_string);
            *splits.entry(parts.unwrap_or_default()).or_insert(0) += 1;
        }
        let winner = summary.winner().ok_or("no winner")?;
        let passed = &winner.also;
        assert!(passed.iter().any(|what| what.contains("within the bound twice")), "{passed:?}");
    }
    println!("{correct_ones} correct, of which the fastest by parts of K: {splits:?}");
    assert!(correct_ones >= 150 && splits.len() >= 3, "{correct_ones} {splits:?}");
    Ok(())
}

pub(crate) fn planted_faults() -> Result<(), Failed> {
    let families = Families::from_folder(Path::new("tests/faulty/spaces")).unwrap();
    let templates = Templates::with_folder(Path::new("tests/faulty/templates")).unwrap();
    let mut kit = kit(vec![families.get("faulty").unwrap().clone()], templates);
    // Tiles come out even in M and in K but not in N, so that each fault has its place.
    let (outcomes, summary) = faulty_run(&problem(512, 500, 512), &mut kit)?;
    for (fault, kind, words) in [
        ("none", OutcomeKind::Correct, ""),
        ("missing_barrier", OutcomeKind::Correctness, "elements wrong"),
        (
            "off_by_one_at_the_edge",
            OutcomeKind::Correctness,
            "512 elements wrong, worst at C[0][499]",
        ),
        ("never_writes", OutcomeKind::Correctness, "256000 elements wrong"),
        ("writes_past_c", OutcomeKind::Correct, ""),
        ("reads_c_when_beta_is_0", OutcomeKind::Correctness, "NaN instead of"),
        ("changes_a", OutcomeKind::Correctness, ""),
        ("drops_a_product", OutcomeKind::Correctness, "1 elements wrong, worst at C[256][250]"),
        ("ignores_beta", OutcomeKind::Correctness, "values of mixed kinds"),
        ("illegal_address", OutcomeKind::Runtime, "while validating: "),
        ("loops_forever", OutcomeKind::Timeout, "did not finish within"),
        ("does_not_compile", OutcomeKind::Compile, "faulty.cu(11): error"),
        ("wrong_entry_point", OutcomeKind::Runtime, "while loading: "),
        ("too_much_shared_memory", OutcomeKind::Runtime, "while loading: "),
        ("exhausts_memory", OutcomeKind::Runtime, "out of device memory"),
        // Right for all that every candidate is put to.
        ("differs_between_runs", OutcomeKind::Correct, ""),
        ("wrong_where_m_is_odd", OutcomeKind::Correct, ""),
        ("reads_beyond_a", OutcomeKind::Correct, ""),
    ] {
        let outcome = outcomes.get(fault).ok_or(format!("{fault} was not evaluated"))?;
        let failure = outcome.failure().unwrap_or_default();
        assert_eq!(outcome.kind(), kind, "{fault}: {failure}");
        assert!(failure.contains(words), "{fault}: {failure}");
    }
    // One for the illegal address, one for the endless loop.
    assert_eq!(summary.restarts, 2);
    let ranked: Vec<String> =
        summary.ranking.iter().map(|standing| standing.configuration.to_string()).collect();
    assert!(ranked.iter().any(|configuration| configuration == "FAULT=none"), "{ranked:?}");
    for (fault, words) in [
        ("differs_between_runs", "two runs on the same values differ in"),
        ("wrong_where_m_is_odd", "on 511x500x512: "),
    ] {
        assert!(!ranked.contains(&format!("FAULT={fault}")), "{ranked:?}");
        let failure = failure_as_finalist(&summary, fault);
        assert!(failure.contains(words), "{fault}: {failure}");
    }

    // Where M does not come out even, the row past the last is written.
    let (outcomes, _) = faulty_run(&problem(500, 512, 64), &mut kit)?;
    let failure = outcomes["writes_past_c"].failure().unwrap_or_default();
    assert!(failure.contains("words beside a buffer were overwritten"), "{failure}");
    assert_eq!(outcomes["none"].kind(), OutcomeKind::Correct);

    // What a finalist's first run left in its workspace makes up for what its second run leaves out.
    let mut kit = self::kit(vec![families.get("leftover").unwrap().clone()], kit.templates);
    let (outcomes, summary) = faulty_run(&problem(512, 500, 512), &mut kit)?;
    assert_eq!(outcomes["stores_no_sums_later"].kind(), OutcomeKind::Correct);
    let failure = failure_as_finalist(&summary, "stores_no_sums_later");
    // Where a line has a single value, both runs may give the same zeros.
    assert!(failure.contains("two runs on the same values differ in"), "{failure}");
    assert_eq!(summary.ranking.len(), 1);
    Ok(())
}

/// What no result shows is found by `compute-sanitizer`, where it is installed.
pub(crate) fn sanitized() -> Result<(), Failed> {
    let Some(program) = programs("compute-sanitizer", &search_paths()).into_iter().next() else {
        println!("skipped: no compute-sanitizer");
        return Ok(());
    };
    let families = Families::from_folder(Path::new("tests/faulty/spaces")).unwrap();
    let templates = Templates::with_folder(Path::new("tests/faulty/templates")).unwrap();
    let mut kit = kit(vec![families.get("faulty").unwrap().clone()], templates);
    let logs = tempfile::tempdir()?;
    let sanitizer = Sanitizer { program, logs: logs.path().to_owned() };
    let settings = Settings { sanitizer: Some(sanitizer), ..settings(100) };
    let mut notes = Vec::new();
    let on_event = &mut |event: TuneEvent<'_>| {
        if let TuneEvent::Note(note) = event {
            notes.push(note);
        }
    };
    let summary = tune(
        &problem(64, 64, 64),
        &Hints::default(),
        &mut kit,
        &settings,
        &AtomicBool::new(false),
        on_event,
    )?;
    println!("{}", notes.join("\n"));
    let ranked: Vec<String> =
        summary.ranking.iter().map(|standing| standing.configuration.to_string()).collect();
    assert!(!ranked.contains(&"FAULT=reads_beyond_a".to_owned()), "{ranked:?}");
    let memcheck = "running under compute-sanitizer's memcheck";
    assert!(notes.iter().any(|note| note.contains(memcheck)), "{notes:?}");
    let winner = summary.winner().ok_or("there is no winner")?;
    assert!(winner.also.iter().any(|passed| passed.contains("racecheck")), "{:?}", winner.also);
    Ok(())
}

/// A third of a family is broken in six ways, and would be faster than the rest.
pub(crate) fn hundred_candidates() -> Result<(), Failed> {
    let families = Families::from_folder(Path::new("tests/faulty/spaces")).unwrap();
    let templates = Templates::with_folder(Path::new("tests/faulty/templates")).unwrap();
    let hundred = families.get("hundred").unwrap().clone();
    let mut kit = kit(vec![hundred], templates);
    let mut outcomes: BTreeMap<(String, OutcomeKind), usize> = BTreeMap::new();
    let on_event = &mut |event: TuneEvent<'_>| {
        if let TuneEvent::Evaluated { configuration, outcome, .. } = event
            && let Some(Value::Text(fault)) = configuration.get("FAULT")
        {
            *outcomes.entry((fault.clone(), outcome.kind())).or_default() += 1;
        }
    };
    let stop = AtomicBool::new(false);
    let summary =
        tune(&problem(500, 512, 64), &Hints::default(), &mut kit, &settings(100), &stop, on_event)?;
    let expected = [
        ("does_not_compile", OutcomeKind::Compile, 5),
        ("drops_a_product", OutcomeKind::Correctness, 5),
        ("exhausts_memory", OutcomeKind::Runtime, 5),
        ("illegal_address", OutcomeKind::Runtime, 5),
        ("loops_forever", OutcomeKind::Timeout, 5),
        ("none", OutcomeKind::Correct, 70),
        ("writes_past_c", OutcomeKind::Correctness, 5),
    ];
    let expected: BTreeMap<_, _> =
        expected.map(|(fault, kind, count)| ((fault.to_owned(), kind), count)).into();
    assert_eq!(outcomes, expected);
    assert_eq!(summary.restarts, 10);
    let winner = summary.winner().ok_or("there is no winner")?;
    // The least delay of those that are right; the next one takes 1.5 µs longer.
    assert_eq!(winner.configuration.to_string(), "FAULT=none NUMBER=5");
    println!("{outcomes:?}, winner {}", winner.configuration);
    Ok(())
}

fn faulty_run(
    problem: &Problem,
    kit: &mut Kit,
) -> Result<(BTreeMap<String, Outcome>, Summary), Failed> {
    let mut outcomes = BTreeMap::new();
    let on_event = &mut |event: TuneEvent<'_>| {
        if let TuneEvent::Evaluated { configuration, outcome, .. } = event
            && let Some(Value::Text(fault)) = configuration.get("FAULT")
        {
            println!("{fault}: {}", outcome.failure().unwrap_or_else(|| "correct".to_owned()));
            outcomes.insert(fault.clone(), outcome.clone());
        }
    };
    let stop = AtomicBool::new(false);
    let summary = tune(problem, &Hints::default(), kit, &settings(100), &stop, on_event)?;
    Ok((outcomes, summary))
}

/// What the examination of finalists said of one that had been found correct before; empty if nothing.
fn failure_as_finalist(summary: &Summary, fault: &str) -> String {
    let name = format!("FAULT={fault}");
    let failures = &summary.coverage[0].failures;
    let failed = failures.iter().find(|group| group.first.configuration.to_string() == name);
    failed.map(|group| group.first.failure.message.clone()).unwrap_or_default()
}
