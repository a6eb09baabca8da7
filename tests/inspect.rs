//! What `inspect` shows of one configuration of every family, with no list to maintain: a new family
//! is shown by being there. Needs no GPU.
//!
//! What a compiler decides is kept as snapshots for each version of NVRTC that they were taken with.
//! `INSTA_UPDATE=always cargo test --test suite inspect` takes them anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use gemm_tune::compile::{Compile, CompileTarget, Compiler, Nvrtc};
use gemm_tune::cpu::PtxModule;
use gemm_tune::inspect::{Factor, InspectedKernel, Picture, picture};
use gemm_tune::model::{Device, Dtype, Epilogue, GemmType, Layout, Problem, ProblemPattern};
use gemm_tune::render::{Templates, render};
use gemm_tune::report::picture as drawn;
use gemm_tune::space::{Families, Family};

use crate::support::program::{gemm_tune, gemm_tune_with};
use crate::support::without::skip;
use crate::support::{architecture, cache, nvrtc_or_skip};

/// Large enough for a whole tile of every default, small enough to be executed whole.
const SHAPE: &str = "128x128x64";

/// The same for families that serve few rows only, and a short K only.
const SKINNY_SHAPE: &str = "4x128x64";
const SHORT_SHAPE: &str = "64x64x16";

/// The shape on which a family is shown.
fn shape(family: &str) -> &'static str {
    match family {
        "skinny" => SKINNY_SHAPE,
        "short_k" => SHORT_SHAPE,
        _ => SHAPE,
    }
}

/// Runs `gemm-tune inspect` as if there were no GPU, and gives what it prints.
fn inspect(arguments: &[&str]) -> Result<String, String> {
    let cache = cache();
    let variables = [("GEMM_TUNE_CACHE", cache.to_str().unwrap()), ("CUDA_VISIBLE_DEVICES", "")];
    let said = gemm_tune_with(&[&["inspect"], arguments].concat(), &variables);
    if said.code == Some(0) { Ok(said.out) } else { Err(said.err) }
}

fn shown(family: &str, emit: &str) -> String {
    let arguments = ["--config", family, "--shape", shape(family), "--emit", emit];
    inspect(&arguments).unwrap_or_else(|error| panic!("{family}, {emit}: {error}"))
}

fn names() -> Vec<String> {
    let device = Device::h200();
    let problem = Problem::new(SHAPE.parse().unwrap(), Dtype::F32);
    let families = Families::built_in().unwrap();
    let serves = families.iter().filter(|family| family.refusal(&problem, &device).is_none());
    serves.map(|family| family.name.clone()).collect()
}

/// Compares a text with the snapshot of the same NVRTC. A version without snapshots is as none.
fn compare(name: &str, nvrtc: &Nvrtc, text: &str) {
    let (major, minor) = nvrtc.version();
    let name = format!("{name}@nvrtc-{major}.{minor}");
    let snapshot = format!("tests/snapshots/suite__inspect__{name}.snap");
    if Path::new(&snapshot).exists() || std::env::var_os("INSTA_UPDATE").is_some() {
        insta::with_settings!({ omit_expression => true }, {
            insta::assert_snapshot!(name, text);
        });
    } else {
        let way = "the version of the snapshots is installed into an empty target/test-cache, \
                   INSTA_UPDATE=always takes new ones";
        skip("nvrtc", &format!("no {snapshot}: {way}"));
    }
}

/// How often each instruction stands in a text, by the beginning of its line.
fn instructions(text: &str, opcode: impl Fn(&str) -> Option<&str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for opcode in text.lines().filter_map(opcode) {
        *counts.entry(opcode).or_default() += 1;
    }
    counts.iter().map(|(opcode, count)| format!("{count:>5} {opcode}\n")).collect()
}

/// The opcode of a line of PTX, guards left out.
fn of_ptx(line: &str) -> Option<&str> {
    let line = line.strip_prefix('\t')?.trim();
    let words: Vec<&str> = line.split_whitespace().filter(|word| !word.starts_with('@')).collect();
    let opcode = words.first()?.trim_end_matches(';');
    (line.ends_with(';') && !opcode.starts_with(['.', '{', '}', '/'])).then_some(opcode)
}

/// The same of machine code, without modifiers: `/*0010*/  @P0 FFMA.FTZ R1, ...  ;`.
fn of_sass(line: &str) -> Option<&str> {
    let (_, code) = line.trim().strip_prefix("/*")?.split_once("*/")?;
    let opcode = code.split_whitespace().find(|word| !word.starts_with('@'))?;
    code.contains(';').then(|| opcode.split(['.', ';']).next().unwrap_or(opcode))
}

#[test]
fn the_source_of_every_family_is_what_is_compiled_and_compiles_as_it_is() {
    let nvrtc = nvrtc_or_skip();
    let (families, templates) = (Families::built_in().unwrap(), Templates::built_in().unwrap());
    let device = Device::h200();
    for name in names() {
        let problem = Problem::new(shape(&name).parse().unwrap(), Dtype::F32);
        let source = shown(&name, "cuda");
        let family = families.get(&name).unwrap();
        let default = family.choose("", &problem, &device).unwrap();
        let rendered = render(family, &templates, &default, &problem, &device).unwrap();
        let header = source.strip_suffix(&rendered.source).unwrap_or_else(|| panic!("{name}"));
        for kernel in &rendered.plan.kernels {
            let [x, y, z] = kernel.grid;
            let words = format!("{}, grid {x} x {y} x {z}, block ", kernel.entry);
            assert!(header.contains(&words), "{name}: {header}");
        }
        for space in &rendered.plan.workspaces {
            let words = format!("// workspace {}: {} bytes", space.name, space.bytes);
            assert!(header.contains(&words), "{name}: {header}");
        }
        assert!(header.lines().all(|line| line.starts_with("// ")), "{name}: {header}");
        // The kernel has the same lines in a harness.
        let harness = shown(&name, "harness");
        let same = harness.lines().zip(source.lines()).skip(2);
        assert!(same.into_iter().all(|(one, other)| one == other), "{name}");
        if let Some(nvrtc) = &nvrtc {
            let compiled =
                nvrtc.compile(&source, "kernel.cu", CompileTarget::Cubin(architecture()), &[]);
            compiled.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}

#[test]
fn ptx_is_a_program_with_known_instructions() {
    let Some(nvrtc) = nvrtc_or_skip() else { return };
    for name in names() {
        let ptx = shown(&name, "ptx");
        PtxModule::parse(&ptx).unwrap_or_else(|error| panic!("{name}: {error}"));
        compare(&format!("{name}-ptx"), &nvrtc, &instructions(&ptx, of_ptx));
    }
}

#[test]
fn sass_is_machine_code_with_known_instructions() {
    let Some(nvrtc) = nvrtc_or_skip() else { return };
    for name in names() {
        let arguments = ["--config", &name, "--shape", shape(&name), "--emit", "sass"];
        let sass = match inspect(&arguments) {
            Ok(sass) => sass,
            Err(error) if error.contains("nvdisasm was not installed") => {
                return skip("nvrtc", &error);
            }
            Err(error) => panic!("{name}: {error}"),
        };
        let instructions = instructions(&sass, of_sass);
        for opcode in [" FFMA\n", " LDG\n", " STG\n", " EXIT\n"] {
            assert!(instructions.contains(opcode), "{name}: {instructions}");
        }
        compare(&format!("{name}-sass"), &nvrtc, &instructions);
    }
}

#[test]
fn resources_and_memory_are_tables() {
    let Some(nvrtc) = nvrtc_or_skip() else { return };
    for name in names() {
        // A family loads A and B either by loads or by copies.
        for (emit, words) in [
            ("resources", ["registers", "occupancy", "waves", "arithmetic floor"]),
            ("memory", ["requests", "sectors", "wavefronts", "global store"]),
        ] {
            let text = shown(&name, emit);
            for word in words {
                assert!(text.contains(word), "{name}, {emit}: {text}");
            }
            compare(&format!("{name}-{emit}"), &nvrtc, &text);
        }
    }
}

#[test]
fn two_kernels_are_compared() {
    let Some(nvrtc) = nvrtc_or_skip() else { return };
    for (name, x, y) in
        [("padding", "tiled:TILE=32,PAD=0", "tiled:TILE=32,PAD=1"), ("families", "naive", "tiled")]
    {
        let text = inspect(&["--shape", SHAPE, "--layout", "tn", "--diff", x, y]).unwrap();
        compare(&format!("difference-of-{name}"), &nvrtc, &text);
    }
    let same = inspect(&["--diff", "tiled", "tiled", "--shape", SHAPE]).unwrap();
    assert!(same.contains("the sources are equal"), "{same}");
    assert!(!same.contains('*'), "{same}");
}

#[test]
fn a_recorded_winner_is_found_and_documents_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("winners.toml");
    fs::copy("tests/databases/h200.toml", &database).unwrap();
    let database = database.to_str().unwrap();
    let document = |arguments: &[&str]| -> serde_json::Value {
        let mut all = vec!["--db", database, "--json"];
        all.extend(arguments);
        serde_json::from_str(&inspect(&all).unwrap()).unwrap()
    };
    let winner = document(&["--shape", "33x65x129"]);
    assert_eq!(winner["family"], "tiled");
    assert_eq!(winner["parameters"]["K_TILES"], 4);
    assert!(winner["cuda"].as_str().unwrap().contains("__global__"), "{winner}");
    if nvrtc_or_skip().is_some() {
        let shape = ["--shape", "33x65x129"];
        let memory = document(&[&shape[..], &["--emit", "memory"]].concat());
        assert_eq!(memory["memory"][0]["blocks"], memory["memory"][0]["blocks_executed"]);
        let diff = document(&[&shape[..], &["--diff", "winner", "naive"]].concat());
        assert_eq!(
            (&diff["x"]["family"], &diff["y"]["family"]),
            (&"tiled".into(), &"naive".into())
        );
    }
}

/// A family with one text of its search space replaced by another, twice.
fn changed(name: &str, changes: &[(&str, &str)]) -> Family {
    let file = format!("{name}.toml");
    let mut text = fs::read_to_string(Path::new("search-spaces").join(&file)).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    Family::parse(&file, &text).unwrap()
}

/// The picture of a family's default, and what it is of.
fn pictured(family: &Family, shape: &str, nvrtc: &Nvrtc) -> (InspectedKernel, Picture) {
    pictured_for(family, Problem::new(shape.parse().unwrap(), Dtype::F32), nvrtc)
}

fn pictured_for(family: &Family, problem: Problem, nvrtc: &Nvrtc) -> (InspectedKernel, Picture) {
    let device = Device::h200();
    let chosen = family.choose("", &problem, &device).unwrap();
    let templates = Templates::built_in().unwrap();
    let subject = InspectedKernel::new(family, &templates, chosen, problem, device).unwrap();
    let target = CompileTarget::Ptx(architecture());
    let ptx = Compiler::new(nvrtc.clone(), None, target).unwrap().compile(&subject.request());
    let picture = picture(&subject, &ptx.unwrap().image).unwrap();
    (subject, picture)
}

/// The example that the ladder's texts draw: a 4x4 product of 2x2 tiles.
#[test]
fn four_threads_share_what_they_bring_of_a_4x4_product() {
    let Some(nvrtc) = nvrtc_or_skip() else { return };
    let alone = changed(
        "naive",
        &[
            ("BLOCK_X = [8, 16, 32, 64, 128]", "BLOCK_X = [2]"),
            ("BLOCK_Y = [1, 2, 4, 8, 16, 32]", "BLOCK_Y = [2]"),
            ("BLOCK_X = 32", "BLOCK_X = 2"),
            ("BLOCK_Y = 8", "BLOCK_Y = 2"),
            ("THREADS >= warp_size and", ""),
        ],
    );
    let (_, picture) = pictured(&alone, "4x4x4", &nvrtc);
    assert_eq!((picture.threads, picture.reads), (4, 8), "{picture:?}");

    let shared =
        changed("tiled", &[("TILE = [8, 16, 32]", "TILE = [2]"), ("TILE = 16", "TILE = 2")]);
    let (subject, picture) = pictured(&shared, "4x4x4", &nvrtc);
    assert_eq!((picture.threads, picture.reads), (4, 4), "{picture:?}");
    let loaded = |stage: usize, factor: Factor| -> Vec<(u64, u64, u32)> {
        let stage = &picture.stages[stage].loaded;
        let of_factor = stage.iter().filter(|one| one.factor == factor);
        of_factor.map(|one| (one.row, one.column, one.thread)).collect()
    };
    assert_eq!(picture.stages.len(), 2);
    for (stage, k) in [(0, 0), (1, 2)] {
        let a = [(0, k, 0), (0, k + 1, 1), (1, k, 2), (1, k + 1, 3)];
        let b = [(k, 0, 0), (k, 1, 1), (k + 1, 0, 2), (k + 1, 1, 3)];
        assert_eq!(loaded(stage, Factor::A), a, "stage {stage}");
        assert_eq!(loaded(stage, Factor::B), b, "stage {stage}");
    }
    let computed: Vec<_> =
        picture.computed.iter().map(|one| (one.row, one.column, one.thread)).collect();
    assert_eq!(computed, [(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 1, 3)]);
    insta::with_settings!({ omit_expression => true }, {
        insta::assert_snapshot!("picture-of-4x4", drawn::text(&subject, &picture));
    });
}

/// In general tiles divide what a thread reads by their width.
#[test]
fn tiles_divide_what_a_thread_reads_by_their_width() {
    let Some(nvrtc) = nvrtc_or_skip() else { return };
    for tile in [8, 16, 32] {
        let family = changed("tiled", &[("TILE = 16", &format!("TILE = {tile}"))]);
        let (_, picture) = pictured(&family, "64x64x64", &nvrtc);
        assert_eq!(picture.reads, 2 * 64 / tile, "{tile}");
        assert_eq!(picture.stages.len() as u64, 64 / tile, "{tile}");
    }
}

/// Every element of A and B that the computed rectangle of C needs is loaded.
fn all_needed_are_loaded(subject: &InspectedKernel, picture: &Picture) {
    let (name, problem) = (&subject.family, &subject.problem);
    let rows: BTreeSet<u64> = picture.computed.iter().map(|one| one.row).collect();
    let columns: BTreeSet<u64> = picture.computed.iter().map(|one| one.column).collect();
    assert!(!rows.is_empty(), "{name}: nothing is computed for {problem}");
    assert_eq!(rows.len() * columns.len(), picture.computed.len(), "{name}: no rectangle");
    let loaded: BTreeSet<(Factor, u64, u64)> = (picture.stages.iter())
        .flat_map(|stage| stage.loaded.iter().map(|one| (one.factor, one.row, one.column)))
        .collect();
    let depth = problem.shape.k;
    let of_a = rows.iter().flat_map(|row| (0..depth).map(|k| (Factor::A, *row, k)));
    let of_b = columns.iter().flat_map(|column| (0..depth).map(|k| (Factor::B, k, *column)));
    for needed in of_a.chain(of_b) {
        assert!(loaded.contains(&needed), "{name} for {problem}: {needed:?}");
    }
}

/// Words hold several elements of these types.
#[test]
fn elements_of_8_and_16_bits_are_in_pictures_too() {
    let Some(nvrtc) = nvrtc_or_skip() else { return };
    let families = Families::built_in().unwrap();
    let wide = GemmType { d: Dtype::F32, ..GemmType::of(Dtype::F16) };
    let epilogue = "bias,gelu".parse().unwrap();
    for (types, epilogue) in [
        (GemmType::of(Dtype::Bf16), epilogue),
        (wide, Epilogue::NONE),
        (GemmType::of(Dtype::I8), Epilogue::NONE),
    ] {
        for &layout in Layout::ALL {
            let pattern = ProblemPattern { types, layout, epilogue };
            let problem = pattern.problem("32x48x64".parse().unwrap());
            let (subject, picture) = pictured_for(families.get("mma").unwrap(), problem, &nvrtc);
            all_needed_are_loaded(&subject, &picture);
        }
    }
}

#[test]
fn every_element_that_a_block_needs_is_loaded() {
    let Some(nvrtc) = nvrtc_or_skip() else { return };
    let families = Families::built_in().unwrap();
    for name in names() {
        let family = families.get(&name).unwrap();
        let (subject, picture) = pictured(family, shape(&name), &nvrtc);
        all_needed_are_loaded(&subject, &picture);
        compare(&format!("{name}-picture"), &nvrtc, &drawn::text(&subject, &picture));
        let svg = drawn::svg(&subject, &picture);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{name}");
        for tag in ["rect", "text", "g", "title"] {
            let (opened, closed) = (format!("<{tag}"), format!("</{tag}>"));
            let count = |what: &str| svg.matches(what).count();
            let opened = count(&format!("{opened} ")) + count(&format!("{opened}>"));
            assert_eq!(opened, count(&closed), "{name}: {tag}");
        }
        assert!(svg.len() < 2 << 20, "{name}: {} bytes", svg.len());
    }
}

/// Kernels before the one that multiplies are executed whole, that one only in its first block.
#[test]
fn a_picture_of_a_large_problem_is_of_one_block() {
    let Some(nvrtc) = nvrtc_or_skip() else { return };
    let families = Families::built_in().unwrap();
    for name in ["tma", "blocktile"] {
        let (subject, picture) = pictured(families.get(name).unwrap(), "640x640x640", &nvrtc);
        all_needed_are_loaded(&subject, &picture);
        let share = picture.share();
        assert_eq!(share.depth, [0..=639], "{name}");
        assert!(picture.grid[0] > 1 && share.rows[0].end() < &639, "{name}: {share:?}");
        let text = drawn::text(&subject, &picture);
        let blocks: u64 = picture.grid.iter().map(|extent| u64::from(*extent)).product();
        for words in [&format!("block (0, 0, 0) of {blocks} ("), "along all of K = 640"] {
            assert!(text.contains(words), "{name}: {text}");
        }
    }
    let split = ["--config", "tma:SPLIT_K=4", "--shape", "512x640x2048", "--emit"];
    for emit in ["picture", "svg"] {
        let text = inspect(&[&split[..], &[emit]].concat()).unwrap();
        for words in [
            "rows 0 to 31 of A by columns 0 to 63 of B, along K 0 to 511 of 2048 (25.0 %)",
            "computes up to 32 partial sums of C,",
            "stored to `partials`",
            "block (0, 0, 0) of 640 (160 x 4 x 1)",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
    let large = ["--config", "naive", "--shape", "8x16385x16384", "--emit", "picture"];
    let error = inspect(&large).unwrap_err();
    let words =
        "at most 1073741824 bytes, and B of 8x16385x16384 f32 nn has 1073807360: name a smaller";
    assert!(error.contains(words), "{error}");
}

#[test]
fn the_help_names_what_can_be_shown() {
    let help = gemm_tune(&["inspect", "--help"]).out;
    for word in
        ["cuda", "harness", "ptx", "sass", "resources", "memory", "picture", "svg", "--diff"]
    {
        assert!(help.contains(word), "{word}: {help}");
    }
}

#[test]
fn what_cannot_be_inspected_says_what_to_do() {
    for (arguments, words) in [
        (&[][..], &["nothing to inspect", "--config FAMILY"][..]),
        (&["--config", "nave"], &["no family is named `nave`", "did you mean `naive`?"]),
        (&["--config", "tiled:TILES=3"], &["no parameter `TILES`", "did you mean `TILE`?"]),
        (&["--config", "tiled:TILE=3"], &["TILE of family `tiled` is one of", "not 3"]),
        (&["--config", "tiled", "--dtype", "f16"], &["serves dtype"]),
        (&["--shape", "2x3x5", "--db", "/nowhere.toml"], &["cannot read `/nowhere.toml`"]),
        (&["--diff", "tiled"], &["2 values required"]),
        (&["--diff", "tiled", "nave"], &["did you mean `naive`?"]),
        (&["--config", "tiled", "--diff", "tiled", "naive"], &["cannot be used with"]),
    ] {
        let error = inspect(arguments).unwrap_err();
        for word in words {
            assert!(error.contains(word), "{arguments:?} does not say `{word}`: {error}");
        }
    }
}

#[test]
fn a_kernel_that_converts_elements_has_no_picture_and_is_not_called_inexecutable() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    let folders =
        ["--spaces", "examples/families/spaces", "--templates", "examples/families/templates"];
    let kernel = ["--config", "gated", "--dtype", "bf16", "--shape", "32x32x32"];
    let error = inspect(&[&kernel[..], &folders, &["--emit", "picture"]].concat()).unwrap_err();
    let reason = "the picture cannot be drawn: gated brings elements";
    assert!(error.contains(reason), "{error}");
}
