//! The differential test of artifacts: the C source, the Python module, the runtime and `lookup` beside each other on
//! random problems, choice by choice. The driver is a stub that records launches (`tests/artifacts/stub_driver.c`), and
//! machine code is replaced by the name of its source. `executed` runs some of the launches.

#![expect(unsafe_code, reason = "operands are addresses")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use gemm_tune::export;
use gemm_tune::gpu::Stream;
use gemm_tune::lookup::{AnswerSource, Question};
use gemm_tune::model::{Dtype, Problem};
use gemm_tune::render;
use gemm_tune::runtime::{Bundle, Catalogue as _, GemmOperands, Runtime, RuntimeError};

pub(super) use artifact::Known;
use artifact::{Exported, Kind};
use problems::{Call, Extents};
use record::Recorder;

use crate::support::cases::cases;
use crate::support::without::skip;

mod artifact;
mod executed;
mod faults;
mod library;
mod measured;
mod problems;
mod record;

/// Of so many calls, one is compared with what `lookup` prints of its launches.
const PRINTED: usize = 10;

/// Factors of all calls.
const ALPHA: f64 = -0.75;
const BETA: f64 = 0.5;

/// The factors of a call: whole ones for integers.
fn factors(problem: &Problem) -> (f64, f64) {
    if problem.types.d == Dtype::I32 { (-3.0, 2.0) } else { (ALPHA, BETA) }
}

/// What a surface launched for each call, a line each: a record of launches, `refused`, or `none`.
type Answers = Vec<String>;

/// What the runtime does, with the memory that a call has.
fn by_runtime(runtime: &Runtime<Bundle, &Recorder>, recorder: &Recorder, call: &Call) -> String {
    recorder.text.lock().unwrap().clear();
    *recorder.workspace.lock().unwrap() = call.workspace;
    let is_batch = call.problem.batch > 1;
    recorder.is_batch.store(is_batch, std::sync::atomic::Ordering::Relaxed);
    let ([a, b, d], [lda, ldb, ldd]) = (call.addresses, call.rows);
    let (alpha, beta) = factors(&call.problem);
    let epilogue = call.epilogue();
    let operands = GemmOperands { a, b, d, lda, ldb, ldd, alpha, beta, c: call.c, epilogue };
    // A stream of its own: no workspace of an earlier call is there.
    static STREAMS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(1);
    let number = STREAMS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let stream = Stream::from_raw(std::ptr::without_provenance_mut(number));
    // SAFETY: the driver records launches; nothing accesses an address.
    match unsafe { runtime.gemm(stream, &call.problem, &operands) } {
        Ok(()) => recorder.text.lock().unwrap().clone(),
        Err(
            RuntimeError::Storage(_)
            | RuntimeError::EpilogueOperand { .. }
            | RuntimeError::SeparateC { .. },
        ) => "refused".to_owned(),
        Err(RuntimeError::NoKernel { .. }) => "none".to_owned(),
        Err(error) => format!("failed {error}"),
    }
}

/// Runs a program with all calls on its standard input.
fn by_program(command: &mut Command, calls: &[Call]) -> std::io::Result<Answers> {
    let mut input = tempfile::tempfile()?;
    for call in calls {
        writeln!(input, "{call}")?;
    }
    std::io::Seek::rewind(&mut input)?;
    let output = command.stdin(Stdio::from(input)).output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {} {error}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// Compiles the stub as the driver's library, the C artifact as a library with `-O1`, and the program that calls it;
/// `None` for a test that may be skipped for want of a compiler. Programs find the stub by [`with_stub`].
fn build(exported: &Exported) -> Option<()> {
    let folder = exported.folder.to_str().unwrap();
    let at = |name: &str| format!("{folder}/{name}");
    let warned = ["-std=gnu99", "-O1", "-Wall", "-Wextra", "-Werror", "-I", folder];
    let shared = ["-shared", "-fPIC"];
    let (program, source) = (at("choices"), at("gemm_tuned.c"));
    let (stub, library) = (at("stub/libcuda.so.1"), at(export::LIBRARY));
    std::fs::create_dir_all(at("stub")).unwrap();
    let named = ["tests/artifacts/stub_driver.c", "-Wl,-soname,libcuda.so.1", "-o", &stub];
    let c = ["tests/artifacts/choices.c", &library, &stub, "-o", &program];
    let found = ["-Wl,-rpath,$ORIGIN:$ORIGIN/stub"];
    for arguments in [
        [&warned[..], &shared, &named].concat(),
        [&warned[..], &shared, &[&source, "-o", &library, "-ldl"]].concat(),
        [&warned[..], &c, &found].concat(),
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
    Some(())
}

/// The calls with a memory for workspaces: none, what the best kernel needs, a byte less, or plenty.
fn calls(
    exported: &Exported,
    bundle: &Bundle,
    (random, count): (&mut fastrand::Rng, usize),
    extents: Extents,
) -> Vec<Call> {
    let bases = executed::bases();
    let call = |_| {
        let mut call = Call::random(random, &exported.tuned, bases, extents);
        let is_possible = call.storage().check(&call.problem).is_ok();
        let question = call.question().within(Question::ANY);
        let needed = if is_possible { needed(bundle, &question) } else { 0 };
        call.workspace.1 = match random.u32(..4) {
            0 => 0,
            1 => needed,
            2 => needed.saturating_sub(1),
            _ => 1 << 46,
        };
        if call.workspace.1 == 0 {
            call.workspace.0 = 0;
        }
        call
    };
    (0..count).map(call).collect()
}

/// Bytes of workspace of the kernel that a bundle has for a question.
fn needed(bundle: &Bundle, question: &Question) -> u64 {
    let chosen = bundle.choose(question).ok();
    let spaces = chosen.iter().flat_map(|chosen| &chosen.workspaces);
    spaces.map(|(_, bytes)| bytes.next_multiple_of(256)).sum()
}

/// All surfaces for one artifact; what was compared.
fn compare(kind: Kind, count: usize) -> String {
    let exported = Exported::new(kind);
    if build(&exported).is_none() {
        return "skipped".to_owned();
    }
    if kind == Kind::Types && super::artifacts::take_strictly(&exported.folder).is_none() {
        return "skipped".to_owned();
    }
    let seed = std::env::var("GEMM_TUNE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    let device = &Known::shipped().device;
    let open = || Bundle::open(&exported.folder, device).unwrap();
    let bundle = open();
    let calls =
        calls(&exported, &bundle, (&mut fastrand::Rng::with_seed(seed), count), Extents::Any);
    let recorder = Recorder::default();
    let runtime = Runtime::new(open(), &recorder);
    let rust: Answers = calls.iter().map(|call| by_runtime(&runtime, &recorder, call)).collect();
    let c = by_program(&mut with_stub(&exported.folder.join("choices"), &exported.folder), &calls);
    let c = c.unwrap();
    let python = by_python(&exported.folder, &calls);
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for (place, call) in calls.iter().enumerate() {
        let told =
            |what: &str| format!("GEMM_TUNE_SEED={seed}, {kind:?}, call {place}: {call}\n{what}");
        if c[place] != rust[place] {
            panic!("{}", told(&format!("C:       {}\nruntime: {}", c[place], rust[place])));
        }
        if let Some(python) = &python
            && python[place] != rust[place]
        {
            panic!("{}", told(&format!("Python:  {}\nruntime: {}", python[place], rust[place])));
        }
        let refused = call.is_refused();
        assert_eq!(rust[place] == "refused", refused, "{}", told("lookup"));
        if !refused && (place % PRINTED == 0 || exported.tuned.contains(&call.problem)) {
            let difference = beside_lookup(&exported, &bundle, call);
            assert_eq!(difference, None, "{}", told("lookup"));
        }
        let word = if rust[place].contains(':') { "launched" } else { &rust[place] };
        *counts.entry(word).or_default() += 1;
    }
    assert!(counts["launched"] > count / 2 && counts["refused"] > count / 100, "{counts:?}");
    format!("{kind:?}: {} kernels, seed {seed}, {counts:?}", exported.kernels.len())
}

/// A program for which the driver is the stub of a folder.
fn with_stub(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", folder.canonicalize().unwrap().join("stub"));
    command
}

fn by_python(folder: &Path, calls: &[Call]) -> Option<Answers> {
    let mut command = with_stub(Path::new("python3"), folder);
    command.args(["-B", "tests/artifacts/choices.py"]).arg(folder);
    match by_program(&mut command, calls) {
        Ok(answers) => Some(answers),
        Err(error) => {
            skip("python", &format!("no python3: {error}"));
            None
        }
    }
}

/// What the runtime chose differs from what `lookup` answers: for a problem that was tuned, its own kernel; for every
/// one, the launches that are printed for that kernel.
fn beside_lookup(exported: &Exported, bundle: &Bundle, call: &Call) -> Option<String> {
    let known = Known::shipped();
    let question = call.question();
    let chosen = bundle.choose(&question).ok()?;
    let place = bundle.manifest().kernels.iter().position(|own| own.name == chosen.name)?;
    let draft = &exported.kernels[place].draft;
    let (problem, storage) = (&question.problem, &question.storage);
    // A winner is exported as its problem is packed: where rows lie otherwise, its code may be other code.
    let own = exported.kernels.iter().map(|kernel| &kernel.draft);
    let is_recorded = known
        .records
        .iter()
        .any(|record| Problem::try_from(&record.problem).ok() == Some(*problem));
    let mut own = own.filter(|own| own.record.is_some() && own.problem == *problem && is_recorded);
    if let Some(own) = own.find(|own| own.serves(&question)) {
        let answer = known.lookup.answer(&question).unwrap();
        let is_alike = (draft.problem, &draft.configuration) == (*problem, &own.configuration)
            && *answer.configuration == own.configuration
            && answer.source == AnswerSource::Exact;
        if !is_alike {
            let (source, other) = (answer.source, answer.configuration);
            return Some(format!("{source:?}: {other}, not {}", draft.configuration));
        }
    }
    let family = known.families.iter().find(|family| family.name == draft.family).unwrap();
    let plan =
        render::launches(family, &draft.configuration, problem, storage, &known.device).unwrap();
    let printed = plan.kernels.iter().map(|own| (own.grid, own.block));
    let launched = chosen.launches.iter().map(|own| (own.shape.grid, own.shape.block));
    // Code that keeps values of its own problem keeps the shared memory for them.
    let shared = chosen.launches.iter().zip(&plan.kernels).zip(&draft.plan.kernels);
    let shared_fits = shared.into_iter().all(|((launched, printed), kept)| {
        let bytes = launched.shape.dynamic_shared_bytes;
        [printed.dynamic_shared_bytes, kept.dynamic_shared_bytes].contains(&bytes)
    });
    let spaces: Vec<u64> = plan.workspaces.iter().map(|own| own.bytes).collect();
    let own_spaces: Vec<u64> = chosen.workspaces.iter().map(|own| own.1).collect();
    let same = printed.eq(launched) && shared_fits && spaces == own_spaces;
    (!same).then(|| format!("{plan:?} is not {chosen:?}"))
}

#[test]
fn all_surfaces_choose_alike() {
    println!("{}", compare(Kind::Winners, cases(5_000, 10_000)));
}

#[test]
fn all_surfaces_choose_alike_for_other_types_and_epilogues() {
    println!("{}", compare(Kind::Types, cases(2_000, 4_000)));
}

#[test]
fn all_surfaces_choose_alike_by_a_dispatch_tree() {
    println!("{}", compare(Kind::Dispatch, cases(2_000, 6_000)));
}
