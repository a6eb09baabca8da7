//! What every family that comes with the program must be, with no list to maintain: a new pair of
//! files in `search-spaces/` and `templates/` is tested by being there. Needs no GPU.
//!
//! The rendered defaults are kept as snapshots, so that a change of a template shows what users
//! will read; `INSTA_UPDATE=always cargo test --test suite families` writes them anew.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;

use gemm_tune::model::{
    ComputeCapability, Configuration, Device, Dtype, Epilogue, EpilogueOp, GemmType, Problem,
    ProblemPattern, Shape,
};
use gemm_tune::render::{Rendered, Templates, render};
use gemm_tune::space::{Families, Family, LegalSpace};

mod compiling;
mod quotients;

/// A large problem, one whose extents are no powers of two, one with odd extents, a row, a few
/// columns, and a short K. A family may be for some of them only.
const CANONICAL: [(&str, u64); 6] = [
    ("4096x4096x1024", 1),
    ("1000x1000x1000", 1),
    ("33x65x129", 1),
    ("1x4096x4096", 1),
    ("1000x12x1000", 1),
    ("100x130x17", 1),
];

/// Problems at the ends of what the program accepts. A family may decline one, all of them
/// together may not.
const AWKWARD: [(&str, u64); 6] = [
    ("1x1x1", 1),
    ("1x4096x4096", 1),
    ("4096x1x4096", 1),
    ("7x5x3", 1),
    ("2147479552x1x1", 1),
    ("8x8x8", 100_000),
];

/// The longest line of a kernel that still fits a split screen.
const MAX_COLUMNS: usize = 120;

fn families() -> Families {
    Families::built_in().unwrap_or_else(|error| panic!("{error}"))
}

fn templates() -> Templates {
    Templates::built_in().unwrap_or_else(|error| panic!("{error}"))
}

/// The device that kernels are compiled for.
fn device() -> Device {
    Device::h200()
}

/// The device that a family's spaces are listed for: one of a later architecture where searches on the H200
/// leave the family out.
fn device_for(family: &Family) -> Device {
    let h200 = Device::h200();
    if !family.defaults(&h200).is_empty() {
        return h200;
    }
    Device { compute_capability: ComputeCapability { major: 10, minor: 0 }, ..h200 }
}

/// Every problem of that shape and batch that there is a word for.
fn problems(shape: &str, batch: u64) -> Vec<Problem> {
    let shape: Shape = shape.parse().unwrap();
    ProblemPattern::all().map(|pattern| Problem { batch, ..pattern.problem(shape) }).collect()
}

/// Those of them that a family serves: any dtype, compute and layout that its file declares.
fn served(family: &Family, (shape, batch): (&str, u64)) -> Vec<Problem> {
    let mut problems = problems(shape, batch);
    problems.retain(|problem| family.refusal(problem, &device_for(family)).is_none());
    problems
}

fn legal(family: &Family, problem: &Problem) -> LegalSpace {
    LegalSpace::of(family, problem, &device_for(family)).unwrap_or_else(|error| panic!("{error}"))
}

fn default(family: &Family, problem: &Problem) -> Option<Configuration> {
    family.default_for(problem, &device_for(family)).unwrap_or_else(|error| panic!("{error}"))
}

/// The problems of the first canonical shape that a family is for. The first of them is f32 with
/// operands as stored, where the family serves that. A family may decline a layout for some types.
fn home(family: &Family) -> Vec<Problem> {
    let problems = CANONICAL
        .into_iter()
        .map(|shape| served(family, shape))
        .find(|problems| problems.iter().any(|problem| default(family, problem).is_some()))
        .unwrap_or_else(|| panic!("{} serves nothing", family.name));
    let types: BTreeSet<GemmType> = problems.iter().map(|problem| problem.types).collect();
    let is_home = |problem: &Problem| {
        default(family, problem).is_some() || !legal(family, problem).is_empty()
    };
    let home: Vec<Problem> = problems.into_iter().filter(is_home).collect();
    let kept: BTreeSet<GemmType> = home.iter().map(|problem| problem.types).collect();
    assert_eq!(kept, types, "{} declares a type that it has no kernel for", family.name);
    home
}

fn rendered(family: &Family, configuration: &Configuration, problem: &Problem) -> Rendered {
    render(family, &templates(), configuration, problem, &device_for(family))
        .unwrap_or_else(|error| panic!("{} {configuration}, {problem}: {error}", family.name))
}

/// Writes past the test harness, which hides what a passing test prints.
fn say(notice: &str) {
    let _ = writeln!(std::io::stderr(), "{notice}");
}

/// The files of a folder that end in `suffix`, without it.
fn stems(folder: &str, suffix: &str) -> BTreeSet<String> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    files.filter_map(|file| Some(file.to_str()?.strip_suffix(suffix)?.to_owned())).collect()
}

/// The names that the expressions of a search-space file read, and other words.
fn words_of_expressions(value: &toml::Value, words: &mut BTreeSet<String>) {
    match value {
        toml::Value::String(text) => {
            let parts = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            words.extend(parts.map(str::to_owned));
        }
        toml::Value::Array(values) => {
            values.iter().for_each(|value| words_of_expressions(value, words));
        }
        toml::Value::Table(table) => table
            .iter()
            .filter(|(key, _)| !["summary", "because"].contains(&key.as_str())) // prose
            .for_each(|(_, value)| words_of_expressions(value, words)),
        _ => {}
    }
}

/// What keeps a kernel from reading as if a person had laid it out.
fn layout_faults(source: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut after_blank = false;
    for (number, line) in (1..).zip(source.lines()) {
        let columns = line.chars().count();
        for (fault, what) in [
            (columns > MAX_COLUMNS, format!("{columns} columns, more than {MAX_COLUMNS}")),
            (line.ends_with(char::is_whitespace), "ends in blanks".to_owned()),
            (line.is_empty() && after_blank, "a second blank line in a row".to_owned()),
            (line.contains("{{") || line.contains("{%"), "a tag of the template".to_owned()),
        ] {
            if fault {
                faults.push(format!("line {number}: {what}: {line}"));
            }
        }
        after_blank = line.is_empty();
    }
    if !source.ends_with('\n') {
        faults.push("the last line does not end".to_owned());
    }
    faults
}

#[test]
fn a_family_has_one_name() {
    let families = families();
    let names: BTreeSet<String> = families.iter().map(|family| family.name.clone()).collect();
    assert_eq!(names, stems("search-spaces", ".toml"), "names, and files in search-spaces/");
    assert_eq!(names, stems("templates", ".cu.tera"), "names, and files in templates/");
    for family in families.iter() {
        assert_eq!(family.template, format!("{}.cu.tera", family.name));
        assert_eq!(family.file(), format!("{}.toml", family.name));
    }
}

#[test]
fn every_name_is_known_and_used() {
    let templates = templates();
    for family in families().iter() {
        templates.check(family).unwrap_or_else(|error| panic!("{error}"));
        let mut used: BTreeSet<String> =
            templates.names_used(family).unwrap().into_iter().collect();
        // A kernel whose text depends on an extent or on rows serves those alone: a derived value says what it needs of
        // them.
        let of_problem = ["M", "N", "K", "batch", "lda", "ldb", "ldc"];
        let own: Vec<&str> = of_problem.into_iter().filter(|name| used.contains(*name)).collect();
        assert_eq!(own, [""; 0], "the template of {} reads what it has as arguments", family.name);
        let text = fs::read_to_string(format!("search-spaces/{}.toml", family.name)).unwrap();
        words_of_expressions(&toml::from_str(&text).unwrap(), &mut used);
        let unused: Vec<&str> = family.names().filter(|name| !used.contains(*name)).collect();
        assert_eq!(unused, [""; 0], "{}.toml declares what nothing reads", family.name);
    }
}

#[test]
fn spaces_of_canonical_problems_are_whole() {
    for family in families().iter() {
        // A third of a shape's problems: a GEMM type has one or two of four layouts.
        let problems = CANONICAL
            .into_iter()
            .enumerate()
            .flat_map(|(at, shape)| served(family, shape).into_iter().skip(at % 3).step_by(3));
        for problem in problems {
            let space = legal(family, &problem);
            let what = format!("{}, {problem}", family.name);
            let pruned: u128 = space.pruned.iter().map(|pruned| pruned.configurations).sum();
            assert_eq!(space.len() as u128 + pruned, space.raw, "{what}: legal + pruned = raw");
        }
    }
}

#[test]
fn where_a_family_has_a_legal_configuration_a_default_is_one() {
    for family in families().iter() {
        for shape in CANONICAL.into_iter().chain(AWKWARD) {
            for problem in served(family, shape) {
                let what = format!("{}, {problem}", family.name);
                match default(family, &problem) {
                    Some(default) => {
                        let plan = rendered(family, &default, &problem).plan;
                        assert_eq!(plan.check_limits(), Ok(()), "{what}");
                    }
                    None => assert!(legal(family, &problem).is_empty(), "{what}: no default"),
                }
            }
        }
    }
}

/// A rule that rests on one GPU's measurements binds searches on its architecture only, and never says that a
/// kernel is wrong.
#[test]
fn rules_of_one_architecture_bind_searches_there_only() {
    let families = families();
    let tma = families.get("tma").unwrap();
    let problem = served(tma, ("512x512x512", 1))[0];
    let later = device_for(tma);
    assert_ne!(later.compute_capability, device().compute_capability);
    let default = tma.default();
    assert_eq!(
        tma.violated(default, &problem, &device()).unwrap().map(|rule| &*rule.text),
        Some("false")
    );
    let elsewhere = tma.violated(default, &problem, &later).unwrap();
    assert_ne!(elsewhere.map(|rule| &*rule.text), Some("false"));
    assert!(tma.forbidden(default, &problem, &device()).unwrap().is_none());
    assert_eq!(tma.default_for(&problem, &device()).unwrap(), None, "no search begins with it");
    assert!(LegalSpace::of(tma, &problem, &device()).unwrap().is_empty());
    // Without gain by construction, rules bind everywhere.
    let narrow = served(tma, ("8x512x512", 1))[0];
    assert!(tma.violated(default, &narrow, &later).unwrap().is_some());
}

/// The default of a family's file is right for every problem that it has a right configuration for.
#[test]
fn a_file_has_a_default_that_is_right_on_every_device() {
    let devices =
        [(8, 0, 166_912), (8, 6, 102_400), (8, 9, 102_400), (9, 0, 233_472), (12, 0, 102_400)];
    for (major, minor, shared) in devices {
        let compute_capability = ComputeCapability { major, minor };
        let name = format!("sm_{major}{minor}");
        let device = Device {
            name,
            compute_capability,
            shared_bytes_per_sm: shared,
            shared_bytes_per_block: shared - 1024,
            ..Device::h200()
        };
        for name in ["pipelined", "blocktile", "naive", "tiled", "coarsened"] {
            let families = families();
            let family = families.get(name).unwrap();
            for problem in
                CANONICAL.into_iter().chain(AWKWARD).flat_map(|shape| served(family, shape))
            {
                // The grid of some has a layer for each product, 65535 at most.
                if problem.batch > 65_535 || family.refusal(&problem, &device).is_some() {
                    continue;
                }
                let broken = family.forbidden(family.default(), &problem, &device).unwrap();
                assert!(broken.is_none(), "{name}, {problem}, {}: {:?}", device.name, broken);
            }
        }
    }
}

#[test]
fn for_every_shape_some_family_remains() {
    let families = families();
    let serves = |family: &Family, problem: &Problem| {
        family.refusal(problem, &device_for(family)).is_none() && default(family, problem).is_some()
    };
    // What is served at a comfortable shape is served at any.
    let kinds: Vec<Problem> = problems(CANONICAL[0].0, 1)
        .into_iter()
        .filter(|problem| families.iter().any(|family| serves(family, problem)))
        .collect();
    assert!(kinds.iter().any(|kind| kind.types == GemmType::of(Dtype::F32)), "{kinds:?}");
    for (shape, batch) in AWKWARD {
        for kind in &kinds {
            let problem = Problem { shape: shape.parse().unwrap(), batch, ..*kind };
            assert!(families.iter().any(|family| serves(family, &problem)), "{problem}");
        }
    }
}

#[test]
fn kernels_across_a_space_render_and_read_well() {
    for family in families().iter() {
        let all = |problem: Problem| {
            let all = Epilogue::new(EpilogueOp::ALL).unwrap().check(problem.types);
            [problem, Problem { epilogue: all.unwrap_or_default(), ..problem }]
        };
        for problem in home(family).into_iter().flat_map(all) {
            let space = legal(family, &problem);
            let mut configurations: Vec<Configuration> = [0, space.len() / 2, space.len() - 1]
                .into_iter()
                .filter_map(|rank| space.get(rank))
                .collect();
            configurations.extend(default(family, &problem));
            for configuration in configurations {
                let Rendered { source, plan } = rendered(family, &configuration, &problem);
                let what = format!("{} {configuration}, {problem}", family.name);
                assert_eq!(plan.check_limits(), Ok(()), "{what}");
                let faults = layout_faults(&source);
                assert!(faults.is_empty(), "{what}\n{}", faults.join("\n"));
            }
        }
    }
}

#[test]
fn what_users_read_of_each_default() {
    for family in families().iter() {
        let problem = home(family)[0];
        let default = default(family, &problem).unwrap();
        let source = rendered(family, &default, &problem).source;
        insta::with_settings!({ omit_expression => true }, {
            insta::assert_snapshot!(family.name.clone(), source);
        });
    }
}

#[test]
fn faults_of_layout_are_reported() {
    let long = "x".repeat(MAX_COLUMNS + 1);
    for (source, expected) in [
        ("a\n\nb\n", vec![]),
        ("a\n\n\nb\n", vec!["line 3: a second blank line"]),
        ("a \n\t\n", vec!["line 1: ends in blanks", "line 2: ends in blanks"]),
        ("a", vec!["the last line does not end"]),
        ("{{ BM }}\n{% if a %}\n", vec!["line 1: a tag", "line 2: a tag"]),
        (&format!("{long}\n"), vec!["line 1: 121 columns"]),
        (&format!("{}\n", &long[1..]), vec![]),
    ] {
        let faults = layout_faults(source);
        assert_eq!(faults.len(), expected.len(), "{faults:?}");
        for (fault, expected) in faults.iter().zip(expected) {
            assert!(fault.starts_with(expected), "{fault}");
        }
    }
}
