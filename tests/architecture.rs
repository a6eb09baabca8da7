//! Invariants of the architecture, checked by reading `src/` and `crates/runtime/src/`: what a room may use, which files may
//! import each other, where `print` and `unsafe` may stand, that types have names of their own and
//! that no family is named. Each rule is a function that returns faults; `planted` tests each rule
//! with faults planted in small sources.
//!
//! `cargo test --test architecture imports` writes the import graph to `target/tmp/imports.dot`
//! (Graphviz: `dot -Tsvg target/tmp/imports.dot`).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use imports::Imports;
use source::{Source, words};
use types::types;

#[path = "architecture/dependencies.rs"]
mod dependencies;
#[path = "architecture/imports.rs"]
mod imports;
#[path = "architecture/planted.rs"]
mod planted;
#[path = "architecture/source.rs"]
mod source;
#[path = "architecture/types.rs"]
mod types;

/// The rooms in the order of the data flow: a room uses rooms before it, never one after it.
///
/// `files` and `quote` come first: every room may open a file or write a name.
///
/// `tune` comes before `database`, which makes records of its summaries, and `lookup`, which answers
/// from records; all before `dispatch`, `export`, `runtime`, `inspect` and `report`, which show what was found.
const ROOMS: [&str; 26] = [
    "files",
    "quote",
    "model",
    "arithmetic",
    "space",
    "process",
    "render",
    "compile",
    "gpu",
    "cpu",
    "worker",
    "validate",
    "measure",
    "trees",
    "predict",
    "search",
    "tune",
    "database",
    "lookup",
    "session",
    "dispatch",
    "export",
    "runtime",
    "inspect",
    "report",
    "cli",
];

/// Names that only some files may use.
struct Reserved {
    /// Paths, or the last parts of paths; `!` ends a macro's.
    names: &'static [&'static str],
    /// The files, or the folders ending in `/`.
    to: &'static [&'static str],
    because: &'static str,
}

const RESERVED: [Reserved; 4] = [
    Reserved {
        names: &["cudarc", "nvml_wrapper"],
        to: &[
            "src/gpu/",
            "crates/runtime/src/gpu/",
            // Slices, contexts and streams of programs that embed the runtime are cudarc's.
            "crates/runtime/src/slices.rs",
            "crates/runtime/src/multiplier.rs",
            "crates/runtime/src/lib.rs",
        ],
        because: "every other file uses the device through gpu/",
    },
    Reserved {
        names: &["unsafe"],
        to: &[
            "src/gpu/",
            "src/compile/nvrtc.rs",
            "crates/runtime/src/gpu/",
            // Their functions take addresses of device memory, which nothing can check.
            "crates/runtime/src/driver.rs",
            "crates/runtime/src/gemm.rs",
            "crates/runtime/src/without_factors.rs",
            "crates/runtime/src/packing.rs",
            // Checks slices, whose addresses it passes on.
            "crates/runtime/src/multiplier.rs",
        ],
        because: "these wrap C libraries or take addresses; the rest of the program needs no unsafe code",
    },
    Reserved {
        names: &[
            "print!",
            "println!",
            "eprint!",
            "eprintln!",
            "env::var",
            "env::var_os",
            "env::vars",
            "env::vars_os",
            "env::args",
            "env::args_os",
            "process::exit",
        ],
        to: &["src/cli/", "src/main.rs"],
        because: "a room takes its input from the caller and returns its results",
    },
    Reserved {
        names: &[
            "fs::read",
            "fs::read_to_string",
            "fs::write",
            "fs::copy",
            "File::open",
            "File::create",
            "File::create_new",
            "File::options",
            "OpenOptions",
            "NamedTempFile",
            "tempfile_in",
            "tempfile::Builder",
        ],
        to: &[
            "src/files/",
            // What files/ opens inputs with.
            "crates/runtime/src/regular_file.rs",
            // Entries below a folder that it checked, by names that it made.
            "src/compile/cache.rs",
            "src/compile/provide.rs",
            "src/compile/wheel.rs",
            // A temporary file for the disassembler.
            "src/compile/disassemble.rs",
            // Files of the system.
            "src/cpu/memory.rs",
            "src/process/serve.rs",
        ],
        because: "files/ refuses what is no regular file, limits what is read and replaces outputs in one step",
    },
];

/// The longest file. A file is best split from 500 lines on; above this the test fails.
const MAX_LINES: usize = 600;

/// The most files that may import each other in a circle.
const MAX_CIRCLE: usize = 3;

/// A larger circle of imports that is tolerated for now. The test fails when it is gone.
struct Circle {
    /// All its files are in this folder.
    within: &'static str,
    because: &'static str,
}

const CIRCLES: &[Circle] = &[];

/// Code for other programs, whose types live in files of those programs.
const EXEMPT_TYPES: &str = "src/export/artifact/";

/// Names that several types share for now. The test fails when one of them is not shared any more.
const SHARED_NAMES: &[&str] = &[];

/// Folders with the sources of the program: those of its rooms, and those of the crate that runs bundles.
const CRATES: [&str; 2] = ["src", "crates/runtime/src"];

/// Every file of the program, those that only tests compile left out.
fn sources() -> &'static [Source] {
    static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(read);
    &SOURCES
}

fn read() -> Vec<Source> {
    let mut sources = Vec::new();
    for crate_sources in CRATES {
        let known = sources.len();
        collect(Path::new(crate_sources), &mut sources);
        assert!(sources.len() > known, "{crate_sources} holds no Rust file");
    }
    let for_tests: Vec<bool> = sources
        .iter()
        .map(|source| sources.iter().any(|other| other.keeps_for_tests(&source.path)))
        .collect();
    sources.into_iter().zip(for_tests).filter(|(_, test)| !test).map(|(source, _)| source).collect()
}

fn collect(folder: &Path, sources: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.to_str().unwrap().replace('\\', "/");
            sources.push(Source::new(&name, &fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Panics with all faults that `rule` finds in the program.
fn check_all(rule: impl Fn(&Source) -> Vec<String>) {
    let faults: Vec<String> = sources().iter().flat_map(rule).collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// A room uses earlier rooms only. `lib.rs` and `main.rs` belong to no room.
fn room_order(source: &Source) -> Vec<String> {
    let Some((room, file)) = source.path.strip_prefix("src/").and_then(|path| path.split_once('/'))
    else {
        return Vec::new();
    };
    let place = |room: &str| ROOMS.iter().position(|known| *known == room);
    let Some(own) = place(room) else {
        return vec![format!("{}:1: `{room}` has no place in ROOMS of {}", source.path, file!())];
    };
    // What `super` leads out to from a file of this depth is the crate's root.
    let depth = file.split('/').filter(|part| *part != "mod.rs").count() + 1;
    let root = "super::".repeat(depth);
    let used = |name: &str| {
        let path = name.strip_prefix("crate::").or_else(|| name.strip_prefix(root.as_str()))?;
        path.split("::").next().filter(|used| place(used) > Some(own)).map(str::to_owned)
    };
    let late = source.names.iter().filter_map(|(line, name)| Some((line, used(name)?)));
    late.map(|(line, used)| {
        format!(
            "{}:{line}: `{room}` uses `{used}`, which comes after it in the data flow",
            source.path
        )
    })
    .collect()
}

/// Reserved names stay where they belong.
fn reserved_names(source: &Source) -> Vec<String> {
    let mut faults = Vec::new();
    for Reserved { names, to, because } in RESERVED {
        let may = to.iter().any(|place| {
            source.path == *place || place.ends_with('/') && source.path.starts_with(place)
        });
        if may {
            continue;
        }
        for (line, path) in &source.names {
            let within = |name: &&&str| format!("::{path}::").contains(&format!("::{name}::"));
            if let Some(name) = names.iter().find(within) {
                faults.push(format!(
                    "{}:{line}: only {} may use `{name}`: {because}",
                    source.path,
                    to.join(", "),
                ));
            }
        }
    }
    faults
}

/// A file begins with its purpose.
fn opening(source: &Source) -> Vec<String> {
    if source.text.starts_with("//!") {
        return Vec::new();
    }
    vec![format!("{}:1: a file begins with `//!` and its purpose", source.path)]
}

/// No file is longer than a reader can follow.
fn length(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    if lines <= MAX_LINES {
        return Vec::new();
    }
    vec![format!("{}:{lines}: a file has at most {MAX_LINES} lines, best 500", source.path)]
}

/// Opcodes of PTX that families are named after, the folder that executes them, and the file that tells the
/// architecture of a source by them.
const OPCODES: [&str; 2] = ["mma", "wgmma"];
const PTX_PLACES: [&str; 2] = ["src/cpu/", "src/compile/target.rs"];

/// No file names a family or a parameter.
fn family_names(source: &Source, known: &[String]) -> Vec<String> {
    // An escape would join the word after it: `\nBM`.
    let literals = source.literals.iter().map(|(line, text)| (line, text.replace("\\n", " ")));
    let code = source.names.iter().map(|(line, name)| (line, name.clone()));
    let mut faults = Vec::new();
    for (line, text) in code.chain(literals) {
        let is_opcode = |word: &&str| {
            OPCODES.contains(word) && PTX_PLACES.iter().any(|place| source.path.starts_with(place))
        };
        let is_known = |word: &&str| known.iter().any(|name| name == word);
        for name in words(&text).filter(|word| is_known(word) && !is_opcode(word)) {
            faults.push(format!(
                "{}:{line}: `{name}` is a name in search-spaces/: names of families and parameters are data",
                source.path
            ));
        }
    }
    faults
}

/// No circle of imports is larger than [`MAX_CIRCLE`], those of `tolerated` excepted, which exist.
fn circles(imports: &Imports, tolerated: &[Circle]) -> Vec<String> {
    let large = imports.circles().into_iter().filter(|circle| circle.len() > MAX_CIRCLE);
    let mut needed = BTreeSet::new();
    let mut faults = Vec::new();
    for circle in large {
        let inside = |known: &&Circle| circle.iter().all(|file| file.starts_with(known.within));
        if let Some(known) = tolerated.iter().find(inside) {
            needed.insert(known.within);
            continue;
        }
        faults.push(format!(
            "{}: {} files import each other in a circle, at most {MAX_CIRCLE} may:\n{}",
            circle[0],
            circle.len(),
            imports.drawn(&circle),
        ));
    }
    let idle = tolerated.iter().filter(|known| !needed.contains(known.within));
    faults.extend(idle.map(|Circle { within, because }| {
        format!("{within}: no large circle is left here; remove it from CIRCLES ({because})")
    }));
    faults
}

/// No two types share a name, those of `tolerated` excepted, which do.
fn shared_names(sources: &[Source], tolerated: &[&str]) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.path.starts_with(EXEMPT_TYPES)) {
        for (line, name) in types(source) {
            places.entry(name).or_default().push(format!("{}:{line}", source.path));
        }
    }
    let shared = |name: &str| places.get(name).is_some_and(|places| places.len() > 1);
    let mut faults: Vec<String> = places
        .iter()
        .filter(|(name, _)| shared(name) && !tolerated.contains(&name.as_str()))
        .map(|(name, places)| {
            format!("{}: `{name}` is also the name of another type", places.join(", "))
        })
        .collect();
    let idle = tolerated.iter().filter(|name| !shared(name));
    faults.extend(
        idle.map(|name| format!("`{name}` is not shared any more; remove it from SHARED_NAMES")),
    );
    faults
}

/// Every room has a row in ARCHITECTURE.md, in the order of the rooms, with one sentence.
fn room_table(map: &str, rooms: &[&str]) -> Vec<String> {
    let rows = map.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| `")?.split('|').map(str::trim).collect();
        let [room, purpose, _, ""] = cells[..] else { return None };
        Some((room.trim_end_matches('`'), purpose))
    });
    let rows: Vec<(&str, &str)> = rows.collect();
    let named: Vec<&str> = rows.iter().map(|(room, _)| *room).collect();
    let mut faults = Vec::new();
    if named != rooms {
        faults.push(format!("ARCHITECTURE.md lists the rooms {named:?}, not {rooms:?}"));
    }
    for (room, purpose) in rows {
        let sentence = purpose.strip_suffix('.').unwrap_or_default();
        if sentence.is_empty() || sentence.contains(". ") {
            faults.push(format!("ARCHITECTURE.md: `{room}` needs one sentence, not `{purpose}`"));
        }
    }
    faults
}

/// The names that search-space files give to families and parameters.
fn names_of_families() -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir("search-spaces").unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let family: toml::Table = toml::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            // A file without parameters is no family.
            let Some(toml::Value::Table(parameters)) = family.get("parameters") else { continue };
            names.extend(parameters.keys().cloned());
            names.push(family["name"].as_str().unwrap().to_owned());
        }
    }
    names
}

#[test]
fn rooms_use_earlier_rooms_only() {
    check_all(room_order);
}

#[test]
fn reserved_names_stay_where_they_belong() {
    check_all(reserved_names);
}

#[test]
fn every_file_opens_with_what_it_is_for() {
    check_all(opening);
}

#[test]
fn no_file_outgrows_a_reader() {
    check_all(length);
}

#[test]
fn families_and_parameters_are_data() {
    let known = names_of_families();
    assert!(known.len() > 10, "{known:?}");
    check_all(|source| family_names(source, &known));
}

#[test]
fn imports_form_no_large_circle() {
    for (folder, drawing) in CRATES.into_iter().zip(["imports.dot", "imports-runtime.dot"]) {
        let own: Vec<&Source> =
            sources().iter().filter(|source| source.path.starts_with(folder)).collect();
        let imports = Imports::of(&own);
        let drawing = Path::new(env!("CARGO_TARGET_TMPDIR")).join(drawing);
        fs::write(&drawing, imports.dot()).unwrap();
        let faults = circles(&imports, CIRCLES);
        let (faults_text, drawn) = (faults.join("\n"), drawing.display());
        assert!(faults.is_empty(), "\n{faults_text}\nthe whole graph is drawn in {drawn}\n");
    }
}

#[test]
fn no_two_types_share_a_name() {
    let faults = shared_names(sources(), SHARED_NAMES);
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn every_room_has_a_folder_and_a_sentence() {
    for room in ROOMS {
        assert!(Path::new("src").join(room).join("mod.rs").is_file(), "src/{room}/mod.rs");
    }
    let faults = room_table(&fs::read_to_string("ARCHITECTURE.md").unwrap(), &ROOMS);
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
