//! Attacks by files, folders and neighbours: planted libraries, programs and modules, links, special
//! nodes, names that inject code, and records with impossible values.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;

use super::case::{Case, case};

/// A database of two records.
const ONE: &str = include_str!("../databases/one.toml");

/// A journal of this version.
const JOURNAL: &str = include_str!("naive.jsonl");

pub(super) fn cases() -> Vec<Case> {
    let all =
        [outputs(), inputs(), planted(), caches(), journals(), includes(), names(), records()];
    all.into_iter().flatten().collect()
}

/// Makes `node`: a device as `/dev/null` is, or a link to that where only root may make one.
fn device(folder: &Path) -> Result<(), String> {
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    let kind = rustix::fs::FileType::CharacterDevice;
    let number = rustix::fs::makedev(1, 3);
    let made = rustix::fs::mknodat(rustix::fs::CWD, folder.join("node"), kind, mode, number);
    made.or_else(|_| symlink("/dev/null", folder.join("node")).map_err(|_| rustix::io::Errno::IO))
        .map_err(|error| error.to_string())
}

fn still_a_device(folder: &Path) -> Result<(), String> {
    let kind = fs::metadata(folder.join("node")).map_err(|error| error.to_string())?.file_type();
    if kind.is_char_device() { Ok(()) } else { Err("the device was replaced".to_owned()) }
}

/// Commands that write `OUT`.
const WRITERS: [&str; 4] = [
    "db merge d.toml -o OUT",
    "export --format csv --db d.toml -o OUT",
    "export --format json --db d.toml -o OUT",
    "report --db d.toml -o OUT",
];

fn outputs() -> Vec<Case> {
    let rows = WRITERS.into_iter().flat_map(|call| {
        let to = |name: &str| call.replace("OUT", name);
        let row = |what: &str| case(format!("{what}: {call}")).file("d.toml", ONE);
        [
            row("a device")
                .before(device)
                .run(&to("node"))
                .fails(1)
                .says(["cannot write `node`: it is a device, not a regular file"])
                .after(still_a_device),
            row("a FIFO")
                .fifo("fifo")
                .run(&to("fifo"))
                .fails(1)
                .says(["cannot write `fifo`: it is a FIFO, not a regular file"]),
            row("a folder").folder("out", 0o755).run(&to("out")).fails(1).says(["directory"]),
            row("a link to nothing")
                .link("link", "nowhere")
                .run(&to("link"))
                .fails(1)
                .says(["cannot write `link`: it is a symbolic link to a file that does not exist"])
                .absent("nowhere"),
            row("a link to a file")
                .link("link", "target")
                .file("target", "")
                .run(&to("link"))
                .changes("target")
                .changes("link")
                .once()
                .after(|folder| match fs::read_link(folder.join("link")) {
                    Ok(_) if fs::metadata(folder.join("target")).is_ok_and(|m| m.len() > 0) => {
                        Ok(())
                    }
                    other => Err(format!("the target was not replaced: {other:?}")),
                }),
        ]
    });
    let mut rows: Vec<Case> = rows.collect();
    let name = OsString::from_vec(b"gpu-\xff.toml".to_vec());
    rows.push(
        case("a database whose name is not UTF-8")
            .file("d.toml", ONE)
            .run("db merge d.toml --json -o")
            .argument(name.clone())
            .once()
            .prints(["gpu-\u{fffd}.toml", "\"records\": 2"])
            .after(move |folder| fs::read(folder.join(&name)).map(drop).map_err(|e| e.to_string())),
    );
    rows
}

fn inputs() -> Vec<Case> {
    let calls = [
        "db list --db IN",
        "lookup --shape 8x8x8 --device-name x --db IN",
        "db merge IN -o out.toml",
        "replay IN",
        "learn IN",
        "export --format t4 --journal IN -o out",
        "export --format csv --db IN -o out",
        "report --db IN -o out",
        "tune --dry-run --device cpu --shapes IN",
    ];
    let rows = calls.into_iter().flat_map(|call| {
        let of = |name: &str| call.replace("IN", name);
        let large = |folder: &Path| {
            let file = fs::File::create(folder.join("large")).map_err(|error| error.to_string())?;
            file.set_len(5 << 30).map_err(|error| error.to_string())
        };
        let codes = [1, 2];
        [
            case(format!("a FIFO as input: {call}"))
                .fifo("fifo")
                .run(&of("fifo"))
                .ends_with(&codes)
                .says(["fifo", "it is a FIFO, not a regular file"])
                .absent("out"),
            case(format!("a device as input: {call}"))
                .run(&of("/dev/zero"))
                .ends_with(&codes)
                .says(["/dev/zero", "it is a device, not a regular file"])
                .absent("out"),
            case(format!("5 GiB as input: {call}"))
                .before(large)
                .run(&of("large"))
                .ends_with(&codes)
                .says(["large", "it is larger than", "MiB, the limit of"])
                .absent("out"),
        ]
    });
    rows.collect()
}

/// A library whose constructor leaves a trace, under the names that are searched.
fn plant_libraries(folder: &Path) -> Result<(), String> {
    let source = "#include <stdio.h>\n__attribute__((constructor)) static void x(void)\n\
                  { FILE *f = fopen(\"ran\", \"w\"); if (f) fclose(f); }\n";
    let error = |error: std::io::Error| error.to_string();
    fs::write(folder.join("p.c"), source).map_err(error)?;
    fs::create_dir_all(folder.join("nvidia/cu13/lib")).map_err(error)?;
    fs::create_dir_all(folder.join("lib64")).map_err(error)?;
    let library = folder.join("planted.so");
    let made = std::process::Command::new("gcc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &folder.join("p.c")])
        .status();
    if !made.is_ok_and(|made| made.success()) {
        crate::support::without::skip("compilers", "no gcc");
    }
    for name in [
        "nvidia/cu13/lib/libnvrtc.so.13",
        "nvidia/cu13/lib/libcublas.so.13",
        "lib64/libnvrtc.so.13",
        "libnvrtc.so.13",
        "libcuda.so",
        "libcuda.so.1",
        "libcublas.so",
        "libcublasLt.so",
        "libnvidia-ml.so.1",
        "libnvidia-ml.so",
    ] {
        let _ = fs::copy(&library, folder.join(name));
    }
    Ok(())
}

/// Programs that leave a trace.
fn plant_programs(folder: &Path) -> Result<(), String> {
    let error = |error: std::io::Error| error.to_string();
    for name in
        ["python3", "nvdisasm", "compute-sanitizer", "bin/nvdisasm", "bin/compute-sanitizer"]
    {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(error)?;
        fs::write(&path, format!("#!/bin/sh\ntouch {}/ran\n", folder.display())).map_err(error)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(error)?;
    }
    for name in ["pip.py", "site.py", "sys.py", "encodings.py", "zipfile.py", "sitecustomize.py"] {
        let text = format!("open({:?}, 'w')\n", folder.join("ran"));
        fs::write(folder.join(name), text).map_err(error)?;
    }
    Ok(())
}

fn planted() -> Vec<Case> {
    // Looks for Python, NVRTC, the driver and cuBLAS.
    let search = "inspect --shape 8x8x8 --config naive --emit ptx --offline --cache cache";
    let searching =
        |name: &str| case(name).run(search).ends_with(&[0, 1]).once().within(60.0).absent("ran");
    let path = || std::env::var("PATH").unwrap_or_default();
    vec![
        searching("libraries in the current folder").before(plant_libraries),
        searching("an empty folder for libraries")
            .before(plant_libraries)
            .env("LD_LIBRARY_PATH", ":"),
        searching("a relative folder for libraries")
            .before(plant_libraries)
            .env("LD_LIBRARY_PATH", ".:nvidia/cu13/lib"),
        searching("a relative toolkit").before(plant_libraries).env("CUDA_HOME", "."),
        searching("modules in the current folder").before(plant_programs),
        searching("modules by PYTHONPATH").before(plant_programs).env("PYTHONPATH", "{folder}"),
        searching("programs in a relative folder of PATH")
            .before(plant_programs)
            .env("PATH", format!(":.:{}", path())),
        case("programs of a relative toolkit")
            .before(plant_programs)
            .env("CUDA_HOME", ".")
            .env("PATH", format!(".:{}", path()))
            .with_nvrtc()
            .run("inspect --shape 8x8x8 --config naive --emit sass --offline --cache cache")
            .ends_with(&[0, 1])
            .once()
            .within(60.0)
            .absent("ran"),
    ]
}

fn caches() -> Vec<Case> {
    let call = "doctor --offline --cache cache";
    let distrusted = |name: &str| {
        case(name)
            .run(call)
            .fails(1)
            .says(["the cache folder `cache` cannot be trusted", "--cache DIR"])
    };
    let mode = |name: &'static str, mode: u32| {
        move |folder: &Path| {
            let path = folder.join(name);
            fs::create_dir_all(&path)
                .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode)))
                .map_err(|error| error.to_string())
        }
    };
    let mut rows = vec![
        distrusted("a cache that all may write to")
            .before(mode("cache", 0o777))
            .says(["other users may write to", "mode 777"]),
        distrusted("a sticky cache that all may write to").before(mode("cache", 0o1777)),
        distrusted("a cache below a folder that all may write to")
            .before(move |folder| {
                mode("above/cache", 0o700)(folder)
                    .and(mode("above", 0o777)(folder))
                    .and(symlink("above/cache", folder.join("cache")).map_err(|e| e.to_string()))
            })
            .says(["above` (mode 777)"]),
        distrusted("a cache that is a link to nothing").link("cache", "nowhere"),
        case("a relative home")
            .run("doctor --offline")
            .env("HOME", "home")
            .env("XDG_CACHE_HOME", "cache")
            .fails(1)
            .says(["`home/.cache/gemm-tune`", "relative because `HOME` is", "--cache DIR"])
            .absent("home"),
    ];
    // Only root can give a folder away.
    if rustix::process::geteuid().is_root() {
        rows.push(
            distrusted("a cache of another user")
                .before(|folder| {
                    let path = folder.join("cache");
                    fs::create_dir(&path)
                        .and_then(|()| chown(&path, Some(4242), None))
                        .map_err(|error| error.to_string())
                })
                .says(["belongs to user 4242"]),
        );
    }
    rows
}

const TUNE: &str =
    "tune --shape 16x16x16 --device cpu --family naive --max-configs 1 --db x.toml --cache cache";
const OWN_JOURNAL: &str = "cache/journal/cpu/16x16x16-f32-nn-rotate-burst.jsonl";

fn journals() -> Vec<Case> {
    let refused = |name: &str| case(name).with_nvrtc().within(60.0).run(TUNE).once().fails(1);
    let newer = JOURNAL.replacen(":2,", ":99,", 1);
    vec![
        refused("a journal that is a link")
            .file("target", "kept")
            .link(OWN_JOURNAL, "../../../target")
            .says(["cannot keep the journal", "it is a symbolic link, not a regular file"]),
        refused("a journal that is a FIFO").fifo(OWN_JOURNAL).says(["it is a FIFO"]),
        refused("a file that is no journal")
            .file(OWN_JOURNAL, "a text\n")
            .says(["cannot keep the journal", "the file is not a journal of gemm-tune"]),
        refused("a journal of a newer version")
            .file(OWN_JOURNAL, newer.clone())
            .says(["it was written by a newer gemm-tune"]),
        case("a replay of schema 99")
            .file("j.jsonl", newer.clone())
            .run("replay j.jsonl")
            .fails(1)
            .says(["j.jsonl: a journal of schema 99", "newer gemm-tune"]),
        case("learning of schema 99")
            .file("j.jsonl", newer)
            .run("learn j.jsonl")
            .fails(1)
            .says(["j.jsonl: a journal of schema 99", "newer gemm-tune"]),
    ]
}

fn includes() -> Vec<Case> {
    let space = include_str!("../faulty/spaces/faulty.toml");
    let template = include_str!("../faulty/templates/faulty.cu.tera");
    let rows = [
        "#include \"/etc/passwd\"",
        "#include </etc/passwd>",
        "#include <../../etc/passwd>",
        "#define X \"/etc/passwd\"\n#include X",
        "%:include \"/etc/passwd\"",
        "#inc\\\nlude \"/etc/passwd\"",
        "#/* */include \"/etc/passwd\"",
        "#include_next <passwd>",
        "#embed \"/etc/passwd\"",
        "#if __has_include(\"/etc/passwd\")\n#endif",
        "#include \"part.cuh\"",
    ];
    let rows = rows.into_iter().map(|directive| {
        case(format!("a template with {directive:?}"))
            .file("s/faulty.toml", space)
            .file("t/faulty.cu.tera", format!("{directive}\n{template}"))
            .file("part.cuh", "int opened;")
            .with_nvrtc().within(60.0)
            .run("inspect --shape 64x64x64 --config faulty --emit ptx --spaces s --templates t --cache cache")
            .fails(1)
            .says(["faulty.cu.tera:", "is refused"])
            .never_says("root:")
    });
    rows.chain([case("templates that include each other")
        .file("s/faulty.toml", space)
        .file("t/faulty.cu.tera", "// own\n{% include \"other.tera\" %}")
        .file("t/other.tera", "\n{% include \"faulty.cu.tera\" %}")
        .run("tune --dry-run --device cpu --shape 64x64x64 --spaces s --templates t")
        .fails(1)
        .says(["circular include: ", "t/"])
        .never_says("templates/blocktile")])
        .collect()
}

/// A database whose device has this name, as a TOML literal.
fn named(name: &str) -> String {
    ONE.replace("name = \"NVIDIA H200\"", &format!("name = {name}"))
}

fn names() -> Vec<Case> {
    let evil = "'x */ int injected(void) { return 1; } /*'";
    let source = |folder: &Path| {
        let text =
            fs::read_to_string(folder.join("out/gemm_tuned.c")).map_err(|e| e.to_string())?;
        let comment_ends = text.find("*/").unwrap_or(0);
        match text.find("injected") {
            Some(at) if at < comment_ends => Ok(()),
            other => Err(format!("the name left its comment: {other:?} of {comment_ends}")),
        }
    };
    let winner = |name: &str| {
        let shipped = fs::read_to_string("results/nvidia-h200.toml").unwrap_or_default();
        let end = shipped.match_indices("[[record]]").nth(1).map_or(shipped.len(), |found| found.0);
        shipped[..end].replace("name = \"NVIDIA H200\"", &format!("name = {name}"))
    };
    vec![
        case("a device name that ends a comment of C")
            .file("d.toml", winner(evil)).with_nvrtc().within(60.0).once()
            .run("export --format c --only-tuned --changed-templates --db d.toml -o out --cache cache")
            .after(source),
        case("a device name with a newline").file("d.toml", named("\"x\\n#error injected\""))
            .run("db list --db d.toml").once()
            .says(["record 1, `device.name`: `x\\u{a}#error injected` has characters"]),
        case("a device name with an escape of terminals").file("d.toml", named("\"x\\u001b[2J\""))
            .run("db list --db d.toml").once()
            .says(["`device.name`: `x\\u{1b}[2J` has"]).never_says("\u{1b}[2J"),
        case("a device name that is a formula").file("d.toml", named("'=1+1'"))
            .run("export --format csv --db d.toml -o out.csv").once()
            .after(|folder| {
                let text = fs::read_to_string(folder.join("out.csv")).map_err(|e| e.to_string())?;
                let is_quoted = text.contains(",'=1+1,") && !text.contains(",=1+1");
                if is_quoted { Ok(()) } else { Err(text) }
            }),
        case("a dtype that leads out of the folder")
            .file("d.toml", ONE.replace("dtype = \"f32\"", "dtype = \"../../f32\""))
            .run("export --format wisdom --db d.toml -o out").once()
            .after(|folder| {
                let files = fs::read_dir(folder.join("out")).map_err(|error| error.to_string())?;
                if files.count() == 2 { Ok(()) } else { Err("files lie elsewhere".to_owned()) }
            }),
    ]
}

fn records() -> Vec<Case> {
    let values = [
        (
            "median_us = 4.546",
            "median_us = -1.0",
            "d.toml:16:13: record 1, `measurement.median_us`: -1 is not",
        ),
        ("median_us = 4.546", "median_us = nan", "record 1, `measurement.median_us`: NaN is not"),
        ("median_us = 4.546", "median_us = inf", "record 1, `measurement.median_us`: inf is not"),
        (
            "m = 33,",
            "m = 0,",
            "d.toml:5:17: record 1, `problem.m`: 0 is not within 1 to 2147479552",
        ),
        (
            "m = 33,",
            "m = 9223372036854775807,",
            "record 1, `problem.m`: 9223372036854775807 is not",
        ),
        ("sms = 132", "sms = 0", "record 1, `device.sms`: 0 is not within"),
    ];
    let rows = values.into_iter().map(|(from, to, words)| {
        case(format!("{from} -> {to}"))
            .file("d.toml", ONE.replacen(from, to, 1))
            .run("db list --db d.toml")
            .once()
            .says([words, "left alone and not used"])
            .prints(["4096x4096x1024"])
            .never_says("4611a159")
    });
    rows.collect()
}
