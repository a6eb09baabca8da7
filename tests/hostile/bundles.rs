//! Bundles from strangers: the Rust runtime takes one whole, or says what is wrong with it. It opens no file outside
//! of its folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use gemm_tune::export::{CHECKSUMS, MANIFEST, seal};
use gemm_tune::model::Device;
use gemm_tune::runtime::Bundle;

use super::case::{Case, case};

/// A manifest of one kernel. `SOURCE`, `PTX` and `CUBIN` stand for the descriptions of files.
const KERNEL: &str = r#"{
  "schema": 2,
  "gemm_tune": "0.1.0",
  "device": { "name": "NVIDIA H200", "compute_capability": "9.0", "sms": 132 },
  "kernels": [{
    "name": "naive",
    "problem": { "m": 8, "n": 8, "k": 8, "batch": 1, "dtype": "f32", "compute": "f32", "layout": "nn" },
    "tuned": true,
    "family": "naive",
    "parameters": { "BLOCK_X": 32 },
    "serves": ["M % 1 == 0"],
    "launches": [{
      "entry": "gemm",
      "grid": [1, 1, 1],
      "block": [32, 1, 1],
      "dynamic_shared_bytes": 0,
      "formulas": { "grid": ["ceil_div(M, 32)", "N", "1"], "block": ["32", "1", "1"], "dynamic_shared_bytes": "0" },
      "arguments": ["A", "B", "C", "M", "N", "K"]
    }],
    "workspaces": [],
    "expectation": {
      "tile_m": 1, "tile_n": 32, "slice_k": 0, "blocks_of_a_tile": 1, "blocks_per_sm": 16,
      "busy_clocks": 1.0, "alone_clocks": 1.0, "launch_us": 1.0, "us_per_clock": 0.001, "own_clocks": 64.0
    },
    "files": { "source": SOURCE, "ptx": PTX, "cubins": { "sm_90": CUBIN } }
  }]
}
"#;

/// The files of a whole bundle.
fn whole() -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut text = KERNEL.to_owned();
    for (word, name, bytes) in
        [("SOURCE", "k.cu", "source"), ("PTX", "k.ptx", "ptx"), ("CUBIN", "k.cubin", "cubin")]
    {
        let sum = seal([(name.to_owned(), bytes.into())].into());
        let sum = String::from_utf8_lossy(&sum[CHECKSUMS])[..64].to_owned();
        let described = format!(
            "{{ \"file\": \"{name}\", \"bytes\": {}, \"sha256\": \"{sum}\" }}",
            bytes.len()
        );
        text = text.replace(word, &described);
        files.insert(name.to_owned(), bytes.into());
    }
    files.insert(MANIFEST.to_owned(), text.into());
    seal(files)
}

/// Workspaces and a tensor map.
fn map(operand: &str, dtype: &str, swizzle: &str) -> String {
    format!(
        "\"workspaces\": [], \"tensor_maps\": [{{ \"name\": \"a_map\", \"operand\": \"{operand}\", \
         \"dtype\": \"{dtype}\", \"swizzle\": \"{swizzle}\", \"offset\": \"0\", \"extents\": [\"K\"], \
         \"strides\": [], \"tile\": [\"32\"] }}]"
    )
}

/// A bundle whose manifest has `to` in place of `from`, with checksums that are right.
fn edited(from: &str, to: &str) -> BTreeMap<String, Vec<u8>> {
    let mut files = whole();
    let text = String::from_utf8(files[MANIFEST].clone()).unwrap();
    assert!(text.contains(from), "{from}");
    files.insert(MANIFEST.to_owned(), text.replacen(from, to, 1).into());
    seal(files)
}

/// A bundle with one file replaced behind the checksums' back.
fn replaced(name: &str, bytes: impl Into<Vec<u8>>) -> BTreeMap<String, Vec<u8>> {
    let mut files = whole();
    files.insert(name.to_owned(), bytes.into());
    files
}

/// Opens the case's folder as programs do that embed the crate.
fn open(folder: &Path) -> Result<String, String> {
    match Bundle::open(folder, &Device::h200()) {
        Ok(bundle) => Ok(bundle.manifest().kernels[0].name.clone()),
        Err(error) => Err(error.to_string()),
    }
}

fn rust(name: &str, files: BTreeMap<String, Vec<u8>>) -> Case {
    let row = case(format!("rust: {name}")).call(open).fails(1);
    files.into_iter().fold(row, |row, (name, bytes)| row.file(name, bytes))
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        rust("a whole bundle", whole()).fails(0).prints(["naive"]),
        rust("an empty folder", BTreeMap::new()).says(["cannot read `SHA256SUMS`"]),
    ];
    let edits: &[(&str, &str, &str)] = &[
        ("\"schema\": 2", "\"schema\": 3", "was written by a newer gemm-tune"),
        ("\"schema\": 2", "\"schema\": 1", "again with `gemm-tune export --format bundle`"),
        ("\"schema\": 2", "\"schema\": -1", "`schema` is missing or not a number"),
        ("\"schema\": 2", "\"schema\": \"2\"", "`schema` is missing or not a number"),
        ("\"schema\": 2,", "", "`schema` is missing or not a number"),
        ("\"gemm_tune\"", "\"extra\": 1, \"gemm_tune\"", "unknown field `extra`"),
        ("\"tuned\": true", "\"tuned\": 1", "expected a boolean"),
        ("\"m\": 8", "\"m\": -8", "`-8`"),
        ("\"m\": 8", "\"m\": 1e999", "number out of range"),
        ("\"grid\": [1, 1, 1]", "\"grid\": [4294967296, 1, 1]", "`4294967296`"),
        ("ceil_div(M, 32)", "__import__('os').system('id')", "is no formula"),
        ("ceil_div(M, 32)", "launch(M)", "is no formula"),
        ("ceil_div(M, 32)", "M.__class__", "is no formula"),
        ("ceil_div(M, 32)", "", "is no formula"),
        ("ceil_div(M, 32)", "X", "is no formula"),
        ("M % 1 == 0", "open('x')", "is no formula"),
        ("\"arguments\": [\"A\"", "\"arguments\": [\"Z\"", "takes `Z`, which is no standard"),
        ("\"arguments\": [\"A\"", "\"arguments\": [\"bias\"", "takes `bias`, which is no standard"),
        ("\"layout\": \"nn\"", "\"layout\": \"nz\"", "is for a problem of another version"),
        ("\"workspaces\": []", &map("A", "f64", "none"), "a tensor map `a_map` of another version"),
        ("\"workspaces\": []", &map("A", "f32", "256B"), "a tensor map `a_map` of another version"),
        (
            "\"workspaces\": []",
            &map("A", "f32", "none").replace("\"offset\"", "\"rounds_to\": \"f8\", \"offset\""),
            "a tensor map `a_map` of another version",
        ),
        ("\"workspaces\": []", &map("packed", "f32", "none"), "a tensor map of `packed`, which"),
        ("\"file\": \"k.cubin\"", "\"file\": \"../../etc/passwd\"", "not a plain file name"),
        ("\"file\": \"k.cubin\"", "\"file\": \"/etc/passwd\"", "not a plain file name"),
        ("\"file\": \"k.cubin\"", "\"file\": \".k.cubin\"", "not a plain file name"),
        ("\"file\": \"k.cubin\"", "\"file\": \"k\\u0000.cubin\"", "not a plain file name"),
        ("\"file\": \"k.cubin\"", "\"file\": \"none.cubin\"", "does not list `none.cubin`"),
        ("\"bytes\": 5", "\"bytes\": 6", "has 5 bytes, `manifest.json` says 6"),
        ("\"sms\": 132", "\"sms\": -1", "`-1`"),
        ("\"own_clocks\": 64.0", "\"own_clocks\": 0", "an expectation with a zero"),
        ("\"tile_m\": 1", "\"tile_m\": 0", "an expectation with a zero"),
        ("\"blocks_per_sm\": 16", "\"blocks_per_sm\": 0", "an expectation with a zero"),
        ("\"blocks_per_sm\": 16", "\"blocks_per_sm\": 16, \"unused_sms\": -1", "`-1`"),
    ];
    cases.extend(
        edits.iter().map(|(from, to, words)| {
            rust(&format!("{from} -> {to}"), edited(from, to)).says([words])
        }),
    );
    let sums = |line: &str| {
        let files = whole();
        let text = format!("{}{line}\n", String::from_utf8_lossy(&files[CHECKSUMS]));
        replaced(CHECKSUMS, text)
    };
    let zeros = "0".repeat(64);
    for (name, files, words) in [
        (
            "a cubin that was changed",
            replaced("k.cubin", "other"),
            "`k.cubin` was changed after the export",
        ),
        (
            "a cubin that was cut",
            replaced("k.cubin", "cub"),
            "`k.cubin` was changed after the export",
        ),
        ("a manifest that was changed", replaced(MANIFEST, "{}"), "`manifest.json` was changed"),
        (
            "an empty manifest",
            seal([(MANIFEST.to_owned(), Vec::new())].into()),
            "is not a valid manifest",
        ),
        (
            "a manifest of 100,000 brackets",
            seal([(MANIFEST.to_owned(), vec![b'['; 100_000])].into()),
            "recursion limit",
        ),
        ("a manifest without a checksum", replaced(CHECKSUMS, ""), "does not list `manifest.json`"),
        ("checksums of zeros", replaced(CHECKSUMS, vec![0; 100]), "line 1"),
        ("a checksum that is none", sums("zz  k.cu"), "`SHA256SUMS`, line 5"),
        ("a checksum of a file above", sums(&format!("{zeros}  ../x")), "names `../x`"),
        (
            "a checksum of an absolute name",
            sums(&format!("{zeros}  /etc/passwd")),
            "names `/etc/passwd`",
        ),
        ("a checksum of a hidden file", sums(&format!("{zeros}  .x")), "names `.x`"),
    ] {
        cases.push(rust(name, files).says([words]));
    }
    cases.extend(nested());
    cases.extend([
        without("k.cubin").says(["cannot read `k.cubin`"]),
        without("k.cubin")
            .named("rust: a cubin that is a link")
            .link("k.cubin", "k.cu")
            .says(["`k.cubin`", "it is a symbolic link"]),
        without("k.cubin")
            .named("rust: a cubin that is a FIFO")
            .fifo("k.cubin")
            .says(["`k.cubin`", "a FIFO, not a regular file"]),
        without("k.cubin")
            .named("rust: a cubin that is a folder")
            .folder("k.cubin", 0o755)
            .says(["`k.cubin`", "irectory"]),
        without("k.cubin")
            .named("rust: a cubin of a terabyte")
            .before(|folder| {
                let file = fs::File::create(folder.join("k.cubin"));
                file.and_then(|file| file.set_len(1 << 40)).map_err(|error| error.to_string())
            })
            .says(["`k.cubin`", "larger than 256 MiB"]),
    ]);
    cases
}

/// Manifests and formulas of 5,000 levels.
fn nested() -> Vec<Case> {
    const LEVELS: usize = 5000;
    let mut cases = Vec::new();
    for (name, bytes) in [("arrays", "["), ("objects", "{\"kernels\":")] {
        let files = seal([(MANIFEST.to_owned(), bytes.repeat(LEVELS).into())].into());
        let row = rust(&format!("a manifest of 5,000 nested {name}"), files);
        cases.push(row.says(["`manifest.json` is not a valid manifest"]));
    }
    for (name, before, after) in [
        ("parentheses", "(", ")"),
        ("signs", "-", ""),
        ("conditions", "1 if M else ", ""),
        ("calls", "min(", ", 1)"),
        ("denials", "not ", ""),
        ("powers of comparison", "(M < ", ")"),
    ] {
        for levels in [150, LEVELS] {
            let formula = format!("{}1{}", before.repeat(levels), after.repeat(levels));
            let files = edited("M % 1 == 0", &formula);
            let row = rust(&format!("a formula of {levels} nested {name}"), files);
            cases.push(if levels == LEVELS {
                row.says(["`manifest.json` is not a valid manifest"])
            } else {
                row.ends_with(&[0, 1])
            });
        }
    }
    cases
}

/// A bundle that lacks a file.
fn without(name: &str) -> Case {
    let mut files = whole();
    files.remove(name);
    rust(&format!("a bundle without {name}"), files)
}
