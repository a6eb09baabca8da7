//! Ways towards the execution of code that lies in the current folder, a cache, a database, a journal
//! or a bundle. Each plants something that leaves a file when it runs; none does.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use super::case::{Case, Node, case};
use crate::support::without;

/// What planted code makes: `{folder}/ran`, as the variable says.
const MARK: &str = "ran";

const PYTHON: &str = "import os\nopen(os.environ['MARK'], 'w').close()\n";
const SHELL: &str = "#!/bin/sh\n: > \"$MARK\"\n";
const LIBRARY: &str = r#"
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void run(void) {
    const char *mark = getenv("MARK");
    if (mark) { FILE *file = fopen(mark, "w"); if (file) fclose(file); }
}
int nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 5; return 0; }
"#;

/// Names of modules that Python imports by itself or for pip.
const MODULES: [&str; 7] = [
    "pip.py",
    "sitecustomize.py",
    "usercustomize.py",
    "site.py",
    "encodings/__init__.py",
    "json.py",
    "runpy.py",
];

/// Names of libraries that the program looks for.
const LIBRARIES: [&str; 9] = [
    "libnvrtc.so",
    "libnvrtc.so.13",
    "nvidia/cu13/lib/libnvrtc.so.13",
    "lib64/libnvrtc.so.13",
    "lib/libnvrtc.so.13",
    "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
    "libcuda.so.1",
    "libcublas.so.13",
    "libnvidia-ml.so.1",
];

/// Names of programs that it calls.
const PROGRAMS: [&str; 6] =
    ["python3", "python", "nvdisasm", "compute-sanitizer", "bin/nvdisasm", "bin/compute-sanitizer"];

/// A library whose loading leaves the mark; `None` without a C compiler.
fn library() -> Option<&'static [u8]> {
    static BYTES: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let made = || {
        let folder = tempfile::tempdir().ok()?;
        let (source, out) = (folder.path().join("planted.c"), folder.path().join("planted.so"));
        fs::write(&source, LIBRARY).ok()?;
        let mut compiler = Command::new("cc");
        let status =
            compiler.args(["-shared", "-fPIC", "-o"]).arg(&out).arg(&source).status().ok()?;
        status.success().then(|| fs::read(&out).ok()).flatten()
    };
    let bytes = BYTES.get_or_init(made).as_deref();
    if bytes.is_none() {
        without::skip("compilers", "no C compiler for libraries to plant");
    }
    bytes
}

fn plant(name: impl Into<String>) -> Case {
    case(name).env("MARK", format!("{{folder}}/{MARK}")).absent(MARK).once().within(30.0)
}

/// Plants modules of Python.
fn with_modules(row: Case) -> Case {
    MODULES.iter().fold(row, |row, name| {
        // A name cannot be a file and a folder.
        row.file(*name, PYTHON)
    })
}

/// Plants libraries.
fn with_libraries(row: Case, bytes: &[u8]) -> Case {
    LIBRARIES.iter().fold(row, |row, name| row.file(*name, bytes))
}

/// Plants programs.
fn with_programs(row: Case) -> Case {
    PROGRAMS.iter().fold(row, |row, name| row.node(*name, Node::FileWith(SHELL.into(), 0o755)))
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![control()];
    cases.extend(modules());
    cases.extend(programs());
    cases.extend(library().map(libraries).unwrap_or_default());
    cases.extend(data());
    cases
}

/// What is planted does run, where somebody runs it.
fn control() -> Case {
    case("what is planted works")
        .env("MARK", format!("{{folder}}/{MARK}"))
        .file("pip.py", PYTHON)
        .program("sh")
        .run("-c")
        .argument("python3 -m pip; test -e ran")
        .once()
}

/// Modules in the current folder, which `python3 -m` and an empty entry of `PYTHONPATH` would import.
fn modules() -> Vec<Case> {
    let install = "inspect --config naive --emit ptx";
    let paths = [None, Some(""), Some("."), Some(":"), Some("{folder}")];
    let rows = paths.into_iter().flat_map(|path| {
        ["doctor --offline", install].map(|call| {
            let name = format!("modules of Python beside {call}, PYTHONPATH={path:?}");
            // Without an index nothing is installed: only who is asked counts.
            let row =
                with_modules(plant(name)).run(call).ends_with(&[0, 1]).env("PIP_NO_INDEX", "1");
            path.into_iter().fold(row, |row, path| row.env("PYTHONPATH", path))
        })
    });
    rows.chain([
        with_modules(plant("modules of Python where it starts"))
            .env("PYTHONSTARTUP", "{folder}/site.py")
            .run("doctor --offline")
            .ends_with(&[0, 1]),
        with_modules(plant("a home of Python in the current folder"))
            .env("PYTHONHOME", "{folder}")
            .run("doctor --offline")
            .ends_with(&[0, 1]),
        plant("settings of pip in the current folder")
            .file("pip.conf", "[global]\nindex-url = http://127.0.0.1:9/\nfind-links = .\n")
            .file("setup.py", PYTHON)
            .file(
                "pyproject.toml",
                "[build-system]\nrequires = []\nbuild-backend = 'pip'\nbackend-path = ['.']\n",
            )
            .run(install)
            .env("PIP_NO_INDEX", "1")
            .fails(1),
    ])
    .collect()
}

/// Programs in the current folder, by relative and empty entries of `PATH`.
fn programs() -> Vec<Case> {
    let calls = [
        "doctor --offline",
        "tune --device cpu --shape 8x8x8 --max-configs 1 --offline --sanitize",
    ];
    let paths = [".:/usr/bin:/bin", ":/usr/bin:/bin", "/usr/bin:/bin:", "bin:/usr/bin:/bin"];
    paths
        .into_iter()
        .flat_map(|path| {
            calls.map(|call| {
                let row = with_programs(plant(format!("programs, PATH={path}: {call}")));
                row.run(call).env("PATH", path).ends_with(&[0, 1, 2])
            })
        })
        .collect()
}

/// Libraries in the current folder, by every variable that names folders, and in caches of others.
fn libraries(bytes: &[u8]) -> Vec<Case> {
    let variables = ["LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "PYTHONPATH"];
    let values = ["", ".", ":", "./", "lib64", "nvidia/cu13/lib", "./lib64:", "$ORIGIN"];
    let mut cases: Vec<Case> = variables
        .into_iter()
        .flat_map(|name| values.map(|value| (name, value)))
        .map(|(name, value)| {
            let row = with_libraries(plant(format!("libraries, {name}={value}")), bytes);
            row.run("doctor --offline").env(name, value).ends_with(&[0, 1])
        })
        .collect();
    cases.push(
        with_libraries(plant("libraries and no variable"), bytes)
            .run("doctor --offline")
            .ends_with(&[0, 1]),
    );
    // A cache holds libraries that are loaded: one of somebody else's is not used.
    let inside = "shared/nvrtc/cu13/nvidia/cu13/lib/libnvrtc.so.13";
    let cached = |name: &str| plant(name).file(inside, bytes).ends_with(&[0, 1]);
    cases.push(
        cached("a cache that all may write to").run("doctor --offline --cache shared").before(
            |folder| {
                let mode = fs::Permissions::from_mode(0o777);
                fs::set_permissions(folder.join("shared"), mode).map_err(|error| error.to_string())
            },
        ),
    );
    if rustix::process::geteuid().is_root() {
        cases.push(
            cached("a cache of another user")
                .run("doctor --offline --cache shared")
                .before(|folder| owned(&folder.join("shared"))),
        );
        cases.push(
            cached("a cache below a folder of another user")
                .run("doctor --offline --cache shared/nvrtc")
                .before(|folder| owned(&folder.join("shared"))),
        );
    }
    cases
}

/// Gives a folder to another user.
fn owned(folder: &Path) -> Result<(), String> {
    std::os::unix::fs::chown(folder, Some(65534), None).map_err(|error| error.to_string())
}

/// Names and texts in databases, journals and folders.
fn data() -> Vec<Case> {
    const ONE: &str = include_str!("../databases/one.toml");
    let database = |from: &str, to: &str| {
        assert!(ONE.contains(from), "{from}");
        ONE.replacen(from, to, 1)
    };
    let journal = include_str!("naive.jsonl");
    let names = [
        "../../ran",
        "/ran",
        "$(touch ran)",
        "`touch ran`",
        "; touch ran",
        "| touch ran",
        "-o ran",
    ];
    let mut cases = Vec::new();
    for name in names {
        for (what, text) in [
            ("device", database("\"NVIDIA H200\"", &format!("\"{name}\""))),
            ("family", database("\"tiled\"", &format!("\"{name}\""))),
            ("driver", database("\"580.159.04\"", &format!("\"{name}\""))),
        ] {
            for call in [
                "report --db d.toml -o out.html",
                "export --format wisdom --db d.toml -o out",
                "export --format csv --db d.toml -o out.csv",
                "inspect --shape 33x65x129 --db d.toml",
            ] {
                cases.push(
                    plant(format!("{what} `{name}`: {call}"))
                        .file("d.toml", text.clone())
                        .run(call)
                        .ends_with(&[0, 1, 2])
                        .absent("../ran"),
                );
            }
        }
        let renamed = journal.replacen("NVIDIA H200", name, 1);
        cases.push(
            plant(format!("a journal of the device `{name}`"))
                .file("j", renamed)
                .run("report --journal j -o out.html")
                .ends_with(&[0, 1])
                .absent("../ran"),
        );
        // Slashes are no part of a name.
        let file = format!("{}.toml", name.replace('/', ""));
        cases.push(
            plant(format!("a database called `{file}`"))
                .file(file.clone(), ONE)
                .run("db list")
                .argument(format!("--db={file}"))
                .prints(["4096x4096x1024"]),
        );
    }
    cases.extend([
        plant("a lock that is a link to another file")
            .file("victim", "kept")
            .link(".out.toml.lock", "victim")
            .file("d.toml", ONE)
            .run("db merge d.toml -o out.toml")
            .ends_with(&[0, 1]),
        plant("families and templates in the current folder are not read")
            .file("search-spaces/evil.toml", "no TOML")
            .file("templates/naive.cu.tera", "{{ no template }}")
            .run("tune --dry-run --device cpu --family naive --shape 8x8x8")
            .prints(["naive:"]),
        plant("a template that includes a file of the system")
            .file("s/faulty.toml", include_str!("../faulty/spaces/faulty.toml"))
            .file("t/faulty.cu.tera", "{% include '/etc/hostname' %}")
            .run("inspect --config faulty --spaces s --templates t")
            .fails(1)
            .says(["/etc/hostname"]),
    ]);
    cases
}
