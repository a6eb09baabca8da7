//! Every family on the `cpu` device: rendered, compiled by NVRTC, executed with every check on and
//! held against a reference. What stands for a GPU where there is none.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use gemm_tune::compile::Compile;
use gemm_tune::model::{
    Compute, Device, Dtype, Epilogue, GemmType, Layout, Outcome, OutcomeKind, Problem,
    ProblemPattern, Value,
};
use gemm_tune::render::Templates;
use gemm_tune::space::{Families, Family};
use gemm_tune::tune::{CheckPlan, CheckResult, Sample, check};

use crate::support::cases::cases;
use crate::support::program::gemm_tune;
use crate::support::small_tiles::with_small_tiles;
use crate::support::{boxes, compiler_or_skip};

mod one_value;
mod tuning;

fn jobs() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

pub(crate) fn problem(shape: &str, layout: Layout) -> Problem {
    Problem { layout, ..Problem::new(shape.parse().unwrap(), Dtype::F32) }
}

/// Epilogues that problems have in turn. The operands of the last have another order than kernels of reductions
/// take them in.
const EPILOGUES: [&str; 4] =
    ["bias,gelu", "", "row-scale,col-scale,silu", "mul,residual,relu,bias,gelu-tanh"];

fn with_epilogues(problems: &mut [Problem]) {
    for (problem, epilogue) in problems.iter_mut().zip(EPILOGUES.iter().cycle()) {
        problem.epilogue = epilogue.parse().unwrap();
    }
}

fn built_in() -> (Vec<Family>, Templates) {
    (Families::built_in().unwrap().iter().cloned().collect(), Templates::built_in().unwrap())
}

/// A family of tests/faulty.
fn faulty(name: &str) -> (Vec<Family>, Templates) {
    let families = Families::from_folder(Path::new("tests/faulty/spaces")).unwrap();
    let templates = Templates::with_folder(Path::new("tests/faulty/templates")).unwrap();
    (vec![families.get(name).unwrap().clone()], templates)
}

fn checked(
    compiler: &dyn Compile,
    (families, templates): &(Vec<Family>, Templates),
    problems: &[Problem],
    sample: Sample,
) -> Vec<CheckResult> {
    checked_on(&Device::cpu(), compiler, (families, templates), problems, sample)
}

pub(crate) fn checked_on(
    device: &Device,
    compiler: &dyn Compile,
    (families, templates): (&[Family], &Templates),
    problems: &[Problem],
    sample: Sample,
) -> Vec<CheckResult> {
    let checks = CheckPlan { families, templates, problems, device, sample, seed: 3, jobs: jobs() };
    check(&checks, compiler, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

/// Everything that is legal passes; gives how many executions that were.
pub(crate) fn all_pass(results: &[CheckResult]) -> usize {
    for result in results {
        let first = result.failures.first();
        let why = first.map(|failed| &failed.failure.text);
        assert!(first.is_none(), "{} for {}: {first:?}: {why:?}", result.family, result.problem);
    }
    results.iter().map(|result| result.passed).sum()
}

#[test]
fn whole_spaces_pass_on_awkward_shapes() {
    let Some(compiler) = compiler_or_skip() else { return };
    let problems = ["7x5x3", "33x65x129", "100x36x17"].map(|shape| problem(shape, Layout::Nn));
    let kit = built_in();
    // Spaces up to this size are executed whole, of larger ones so many configurations.
    let many = cases(12, 40);
    let results = checked(&compiler, &kit, &problems, Sample::Of(many));
    println!("{} executions passed", all_pass(&results));
    for result in results {
        assert_eq!(result.passed, result.legal.min(many), "{}", result.family);
    }
}

/// Half of the problems, the other half in the next turn: of each shape two of four layouts, and of each pair of
/// problems one.
fn half(problems: &[Problem], turn: usize) -> Vec<Problem> {
    let is_own = |at: usize| (at + at / 2 + turn).is_multiple_of(2);
    problems.iter().enumerate().filter(|(at, _)| is_own(*at)).map(|(_, own)| *own).collect()
}

#[test]
fn every_family_passes_on_every_kind_of_edge_in_all_layouts() {
    let Some(compiler) = compiler_or_skip() else { return };
    let shapes = [
        "1x1x1",
        "33x65x129",
        "128x128x64",
        "127x129x63",
        "129x127x65",
        "64x96x5",
        "1x140x1030",
        "260x16x132",
        "3x3x2051",
    ];
    let pairs = Layout::ALL.iter().flat_map(|layout| shapes.map(|shape| problem(shape, *layout)));
    let mut problems: Vec<Problem> = pairs.collect();
    for (layout, batch) in [(Layout::Nn, 3), (Layout::Tt, 2)] {
        problems.push(Problem { batch, ..problem("33x40x20", layout) });
    }
    for layout in [Layout::Nn, Layout::Nt, Layout::Tn] {
        let shape = "40x33x65".parse().unwrap();
        problems.push(Problem { layout, ..Problem::new(shape, Dtype::I32) });
    }
    let plain = problems.iter().filter(|problem| problem.types == GemmType::of(Dtype::F32));
    let mut following: Vec<Problem> = plain.step_by(2).copied().collect();
    with_epilogues(&mut following);
    problems.extend(following);
    // Every GEMM type of tensor cores, with an epilogue each.
    let of_tensor_cores = ProblemPattern::all().filter(|pattern| {
        !matches!(pattern.types.compute, Compute::F32 | Compute::I32 | Compute::F32Emulated)
    });
    let epilogues = ["", "bias,gelu", "row-scale,col-scale,silu", "residual,relu", "mul,gelu-tanh"];
    for (number, pattern) in of_tensor_cores.enumerate() {
        let wanted: Epilogue = epilogues[number % epilogues.len()].parse().unwrap();
        let epilogue = wanted.check(pattern.types).unwrap_or_default();
        let batch = 1 + number as u64 % 3;
        // Rows of the second are multiples of 16 bytes, as tensor maps need.
        let aligned = ["72x80x160", "136x208x64", "8x16x32"];
        for shape in [shapes[number % shapes.len()], aligned[number % aligned.len()]] {
            let pattern = ProblemPattern { epilogue, ..pattern };
            problems.push(Problem { batch, ..pattern.problem(shape.parse().unwrap()) });
        }
    }
    let whole = "bias,relu,residual".parse().unwrap();
    let scaled = "row-scale,bias,silu".parse().unwrap();
    for (d, epilogue) in [(Dtype::I32, whole), (Dtype::Bf16, scaled), (Dtype::F32, scaled)] {
        let types = GemmType { d, ..GemmType::of(Dtype::I8) };
        let pattern = ProblemPattern { types, layout: Layout::Nn, epilogue };
        problems.push(pattern.problem("33x40x72".parse().unwrap()));
    }
    let (families, templates) = built_in();
    let mut executed = 0;
    // Searches on this architecture exclude all of `tma`: tests of its own execute it.
    for (turn, family) in families.iter().filter(|family| family.name != "tma").enumerate() {
        // `whole_spaces_pass_on_awkward_shapes` executes large tiles.
        let kit = (vec![with_small_tiles(family)], templates.clone());
        let own = half(&problems, turn);
        let passed = all_pass(&checked(&compiler, &kit, &own, Sample::Of(2)));
        assert!(passed >= 8, "{}: {passed}", family.name);
        executed += passed;
    }
    println!("{executed} executions passed");
}

#[test]
fn the_copy_engine_brings_what_lanes_do() {
    let Some(compiler) = compiler_or_skip() else { return };
    let shapes = ["33x65x129", "100x36x209", "12x200x232", "128x192x64", "132x68x5"];
    let pairs = Layout::ALL.iter().flat_map(|layout| shapes.map(|shape| problem(shape, *layout)));
    let mut problems: Vec<Problem> = pairs.collect();
    for layout in Layout::ALL {
        problems.push(Problem { batch: 3, ..problem("40x72x193", *layout) });
    }
    with_epilogues(&mut problems);
    // With few SMs there is a tail to share.
    let device = Device { sms: 2, ..Device::cpu() };
    let templates = Templates::built_in().unwrap();
    let (sample, mut seen) = (cases(4, 6), BTreeMap::new());
    let mut passed = |family: Family, problems: &[Problem], sample: usize| {
        let checks = CheckPlan {
            families: &[family],
            templates: &templates,
            problems,
            device: &device,
            sample: Sample::Of(sample),
            seed: 5,
            jobs: jobs(),
        };
        let results = check(&checks, &compiler, &AtomicBool::new(false), &mut |event| {
            if let gemm_tune::tune::CheckEvent::Executed { configuration, .. } = event {
                for (name, value) in &configuration.0 {
                    *seen.entry(format!("{name}={value}")).or_insert(0) += 1;
                }
            }
        });
        all_pass(&results.unwrap())
    };
    let executed = passed(boxes::boxes(), &problems, sample);
    // Few samples have three parts of K.
    let thirds = one_value::restricted(boxes::boxes(), "SPLIT_K", "3");
    let deep = &problems[problems.len() - 4..];
    assert_eq!(passed(thirds, deep, 1), deep.len());
    println!("{executed} executions passed: {seen:?}");
    assert!(executed * 12 > 100 * sample, "{executed}");
    for value in [
        "PACK=none",
        "PACK=both",
        "SPLIT_K=2",
        "SPLIT_K=3",
        "SCHEDULER=stream_k",
        "REDUCTION=cluster",
    ] {
        assert!(seen.contains_key(value), "{value} is not among {seen:?}");
    }
}

/// What became of each planted fault.
fn faults(compiler: &dyn Compile, problem: Problem) -> BTreeMap<String, Option<Outcome>> {
    outcomes(compiler, problem, ("faulty", "FAULT"))
}

/// What became of each value of a parameter.
fn outcomes(
    compiler: &dyn Compile,
    problem: Problem,
    (family, parameter): (&str, &str),
) -> BTreeMap<String, Option<Outcome>> {
    let (families, templates) = faulty(family);
    let name = |configuration: &gemm_tune::model::Configuration| match configuration.get(parameter)
    {
        Some(Value::Text(fault)) => fault.clone(),
        other => panic!("{other:?}"),
    };
    let mut outcomes = BTreeMap::new();
    let problems = [problem];
    let checks = CheckPlan {
        families: &families,
        templates: &templates,
        problems: &problems,
        device: &Device::cpu(),
        sample: Sample::All,
        seed: 3,
        jobs: jobs(),
    };
    check(&checks, compiler, &AtomicBool::new(false), &mut |event| {
        if let gemm_tune::tune::CheckEvent::Executed { configuration, failure, .. } = event {
            outcomes.insert(name(configuration), failure.map(|failed| failed.outcome.clone()));
        }
    })
    .unwrap();
    outcomes
}

#[test]
fn a_launch_that_may_begin_early_waits_before_it_uses_results() {
    let Some(compiler) = compiler_or_skip() else { return };
    let problem = problem("33x20x24", Layout::Nn);
    let outcomes = outcomes(&compiler, problem, ("dependent", "WAIT"));
    assert!(outcomes["first"].is_none(), "{outcomes:?}");
    for wait in ["late", "never"] {
        let failure = format!("{:?}", outcomes[wait].as_ref().unwrap());
        for words in ["has not executed `griddepcontrol.wait`", "written by the launch before"] {
            assert!(failure.contains(words), "{wait}: {failure}");
        }
    }
}

#[test]
fn a_first_launch_that_may_begin_early_waits_before_any_access() {
    let Some(compiler) = compiler_or_skip() else { return };
    let outcomes = outcomes(&compiler, problem("33x20x24", Layout::Nn), ("early", "WAIT"));
    assert!(outcomes["first"].is_none(), "{outcomes:?}");
    for wait in ["late", "some", "never"] {
        let failure = format!("{:?}", outcomes[wait].as_ref().unwrap());
        for words in ["has not executed `griddepcontrol.wait`", "launches before the first one"] {
            assert!(failure.contains(words), "{wait}: {failure}");
        }
    }
}

#[test]
fn planted_faults_are_named_with_their_line() {
    let Some(compiler) = compiler_or_skip() else { return };
    use OutcomeKind::{Compile, Correctness, Runtime};
    let whole = faults(&compiler, problem("50x40x48", Layout::Nn));
    for (fault, kind, words) in [
        ("missing_barrier", Runtime, "race: "),
        (
            "off_by_one_at_the_edge",
            Correctness,
            "50 elements that no thread wrote, the first C[0][39]",
        ),
        (
            "never_writes",
            Correctness,
            "2000 elements that no thread wrote, the first C[0][0], of all 12 blocks",
        ),
        ("writes_past_c", Runtime, "out of bounds: "),
        ("reads_beyond_a", Runtime, "out of bounds: "),
        ("reads_c_when_beta_is_0", Runtime, "unwritten memory: "),
        ("changes_a", Runtime, "written to read-only memory"),
        ("drops_a_product", Correctness, "1 elements wrong, worst at C[25][20]"),
        ("ignores_beta", Correctness, "values of mixed kinds"),
        ("illegal_address", Runtime, "no global memory is mapped at"),
        ("loops_forever", Runtime, "runaway loop: "),
        ("does_not_compile", Compile, "faulty.cu(11): error"),
        ("wrong_entry_point", Runtime, "kernel `gemm`, which is an `entry` of the family file"),
        (
            "too_much_shared_memory",
            Runtime,
            "1002048 bytes of shared memory; the limit per block is 232448",
        ),
    ] {
        let outcome = whole[fault].as_ref().unwrap_or_else(|| panic!("{fault} passed"));
        let failure = outcome.failure().unwrap_or_default();
        assert_eq!(outcome.kind(), kind, "{fault}: {failure}");
        assert!(failure.contains(words), "{fault}: {failure}");
        if kind == Runtime && failure.contains("PTX line") {
            assert!(failure.contains("faulty.cu:"), "{fault}: {failure}");
        }
    }
    assert!(whole["none"].is_none(), "{:?}", whole["none"]);
}

#[test]
fn some_blocks_of_a_large_problem_show_the_same_faults() {
    let Some(compiler) = compiler_or_skip() else { return };
    let outcomes = faults(&compiler, problem("2040x2000x64", Layout::Nn));
    assert!(outcomes["none"].is_none(), "{:?}", outcomes["none"]);
    for (fault, words) in [
        ("missing_barrier", "race: "),
        ("never_writes", "elements that no thread wrote, the first C[0][0], of"),
        ("writes_past_c", "out of bounds: "),
        ("reads_c_when_beta_is_0", "unwritten memory: "),
        ("changes_a", "read-only memory"),
        ("ignores_beta", "values of mixed kinds"),
        ("loops_forever", "runaway loop: "),
    ] {
        let failure = outcomes[fault].as_ref().and_then(Outcome::failure).unwrap_or_default();
        assert!(failure.contains(words), "{fault}: {failure}");
    }
}

#[test]
fn a_workspace_is_aligned_as_declared_and_no_further() {
    let Some(compiler) = compiler_or_skip() else { return };
    let text = include_str!("../search-spaces/pipelined.toml");
    let declared = text.replace("name = \"partials\"\n", "name = \"partials\"\nalign = 4\n");
    let problems = [problem("16x16x512", Layout::Nn)];
    let misaligned = |text: &str| {
        let families = vec![Family::parse("pipelined.toml", text).unwrap()];
        let kit = (families, Templates::built_in().unwrap());
        let results = checked(&compiler, &kit, &problems, Sample::Of(24));
        let failures = results.iter().flat_map(|result| &result.failures);
        let texts = failures.map(|failed| failed.failure.message.clone());
        texts.filter(|text| text.contains("misaligned")).count()
    };
    assert_eq!(misaligned(text), 0);
    assert!(misaligned(&declared) > 0, "kernels store 16 bytes at once");
}

/// `gemm-tune check --family mma --family wgmma --all-types --sample all` executes the rest. Rows of the second shape are
/// multiples of 16 bytes, as tensor maps need. What follows the product is the same code for every layout of operands, so
/// that the third shape has one epilogue of each GEMM type.
#[test]
fn every_gemm_type_and_epilogue_of_tensor_cores_passes() {
    if compiler_or_skip().is_none() {
        return;
    }
    // Kernels with few sums compile in a third of the time.
    let spaces = tempfile::tempdir().unwrap();
    let smaller = [
        ("BM = 64", "BM = 16"),
        ("BN = 64", "BN = 16"),
        ("S_M = 2", "S_M = 1"),
        ("S_N = 2", "S_N = 1"),
    ];
    for family in ["mma", "wgmma"] {
        let name = format!("{family}.toml");
        let text = std::fs::read_to_string(Path::new("search-spaces").join(&name)).unwrap();
        let (space, default) = text.split_once("[default]").unwrap();
        let default =
            smaller.iter().fold(default.to_owned(), |text, (from, to)| text.replace(from, to));
        std::fs::write(spaces.path().join(name), format!("{space}[default]{default}")).unwrap();
    }
    let check = |problem: &str, passed: usize| {
        let options = "--sample 1 --batch 2 --cache target/test-cache -q --spaces";
        let words = problem.split(' ').chain(options.split(' '));
        let said = gemm_tune(
            &["check"].into_iter().chain(words).chain(spaces.path().to_str()).collect::<Vec<_>>(),
        );
        assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
        assert!(said.out.contains(&format!("{passed} passed, 0 failed")), "{}", said.out);
    };
    check("--family mma --all-types --shape 33x65x72 --layout nt", 134);
    check("--family wgmma --all-types --shape 33x72x160 --layout nt", 134);
    let types = [
        ("f16", "f16", "f16"),
        ("f16", "f32", "f16"),
        ("bf16", "bf16", "bf16"),
        ("bf16", "f32", "bf16"),
        ("f32", "f32", "tf32"),
        ("i8", "i32", "i8"),
    ];
    for (dtype, out, compute) in types.into_iter().take(cases(2, 6)) {
        let types = format!("--dtype {dtype} --out {out} --compute {compute} --epilogue bias,relu");
        check(&format!("--family mma {types} --shape 100x36x17 --layout tn"), 1);
    }
}
