//! Database files: what is wrong is named with file, line and record, and the file is left alone.

use super::case::{Case, Node, case};

/// A database of two records.
const ONE: &str = include_str!("../databases/one.toml");

/// A text of the database, what stands in its place, and what is said by all that read it.
#[rustfmt::skip]
const TEXTS: &[(&str, &str, &[&str])] = &[
    ("schema = 1", "schema = 0", &["d.toml:2:10", "`schema` is 0", "begins with `schema = 2`"]),
    ("schema = 1", "schema = -1", &["d.toml:2:10", "`schema` is -1"]),
    ("schema = 1", "schema = 3", &["written by a newer gemm-tune (schema 3)", "update gemm-tune"]),
    ("schema = 1", "schema = 9223372036854775807", &["written by a newer gemm-tune (schema 9223372036854775807)"]),
    ("schema = 1", "schema = '1'", &["d.toml:2:10", "`schema` is of type string"]),
    ("schema = 1", "schema = [1]", &["d.toml:2:10", "`schema` is of type array"]),
    ("schema = 1", "schema = nan", &["d.toml:2:10", "`schema` is of type float"]),
    ("schema = 1", "schema =", &["d.toml:2:", "not TOML"]),
    ("schema = 1", "", &["d.toml:1:1", "`schema` is missing"]),
    ("schema = 1", "schema = 1\nschema = 1", &["d.toml:3:1", "duplicate key"]),
    ("[[record]]", "[record]", &["not TOML: duplicate key"]),
    ("family = \"tiled\"", "", &["d.toml:4:1", "record 1", "missing field `family`"]),
    ("family = \"tiled\"", "family = 3", &["d.toml:6:10", "record 1, `family`", "expected a string"]),
    ("family = \"tiled\"", "family = 'tiled'\nfamily = 'tiled'", &["d.toml:7:1", "duplicate key"]),
    ("family = \"tiled\"", "family = \"ti\0led\"", &["d.toml:6:13", "not TOML"]),
    ("family = \"tiled\"", "family = \"\\ud800\"", &["d.toml:6:", "not TOML"]),
    ("m = 33,", "", &["d.toml:5:11", "record 1, `problem`", "missing field `m`"]),
    ("m = 33,", "m = -33,", &["d.toml:5:17", "record 1, `problem.m`", "`-33`"]),
    ("m = 33,", "m = 33.0,", &["d.toml:5:17", "floating point `33.0`"]),
    ("m = 33,", "m = nan,", &["d.toml:5:17", "record 1, `problem.m`"]),
    ("m = 33,", "m = '33',", &["d.toml:5:17", "string \"33\""]),
    ("m = 33,", "m = 9223372036854775808,", &["d.toml:5:17", "overflow"]),
    ("m = 33,", "m = true,", &["d.toml:5:17", "boolean `true`"]),
    ("dtype = \"f32\"", "dtype = 32", &["record 1, `problem.dtype`", "integer `32`"]),
    ("TILE = 16", "TILE = [16]", &["record 1, `parameters.TILE`", "a 64-bit number, true, false or a string"]),
    ("TILE = 16", "TILE = 99999999999999999999", &["d.toml:7:", "overflow"]),
    ("median_us = 4.546", "median_us = '4'", &["d.toml:16:13", "record 1, `measurement.median_us`"]),
    ("median_us = 4.546", "", &["record 1, `measurement`", "missing field `median_us`"]),
    ("grid = [15, 1, 1]", "grid = [15, 1]", &["record 1, `launch.grid`", "invalid length 2"]),
    ("grid = [15, 1, 1]", "grid = [-15, 1, 1]", &["d.toml:28:9", "record 1", "`-15`"]),
    ("grid = [15, 1, 1]", "grid = [4294967296, 1, 1]", &["d.toml:28:9", "record 1", "`4294967296`"]),
    ("arguments = [\"A\"", "arguments = [1", &["d.toml:31:14", "record 1", "expected a string"]),
    ("sms = 132", "sms = -1", &["record 1, `device.sms`", "`-1`"]),
    ("time = \"2026-11-21T01:42:55Z\"", "time = 'yesterday'", &["d.toml:47:8", "`yesterday` is not a time such as"]),
    ("time = \"2026-11-21T01:42:55Z\"", "time = '99999-01-01T00:00:00Z'", &["is not a time such as"]),
    ("seed = 0", "seed = -1", &["d.toml:48:8", "record 1, `provenance.seed`", "from 0"]),
];

/// Whole files, and what is said.
fn files() -> Vec<(&'static str, Vec<u8>, &'static [&'static str])> {
    let half = ONE.as_bytes()[..ONE.len() / 2].to_vec();
    let last = ONE.as_bytes()[..ONE.len() - 30].to_vec();
    vec![
        ("cut in the middle", half, &["d.toml:53:52", "not TOML", "repair the file"]),
        ("cut in the last line", last, &["d.toml:101:10", "not TOML"]),
        ("all bytes", (0..=255).cycle().take(1024).collect(), &["cannot read `d.toml`", "UTF-8"]),
        ("zeros", vec![0; 1000], &["d.toml:1:", "not TOML"]),
        ("a text", b"hello\n".to_vec(), &["d.toml:1:6", "not TOML"]),
        ("JSON", b"{ \"schema\": 1 }".to_vec(), &["d.toml:1:1", "not TOML"]),
        ("a library", b"\x7fELF\x02\x01\x01\0\0".to_vec(), &["d.toml:1:", "not TOML"]),
        (
            "gzip",
            b"\x1f\x8b\x08\0\0\0\0\0".to_vec(),
            &["cannot read `d.toml`", "gzip data end too early"],
        ),
        ("UTF-16", b"\xff\xfes\0c\0h\0e\0m\0a\0".to_vec(), &["cannot read `d.toml`", "UTF-8"]),
        (
            "nested arrays",
            format!("schema = 1\nx = {}{}\n", "[".repeat(5000), "]".repeat(5000)).into(),
            &["d.toml:2:", "recurs"],
        ),
        (
            "nested tables",
            format!("schema = 1\nx = {}1{}\n", "{a=".repeat(5000), "}".repeat(5000)).into(),
            &["d.toml:2:", "recurs"],
        ),
        (
            "a key of 20,000 parts",
            format!("schema = 1\n{} = 1\n", vec!["a"; 20_000].join(".")).into(),
            &["d.toml:", "recursion limit"],
        ),
        (
            "a number for records",
            b"schema = 1\nrecord = 3\n".to_vec(),
            &["d.toml:2:10", "`[[record]]`"],
        ),
        (
            "numbers for records",
            b"schema = 1\nrecord = [1, 2]\n".to_vec(),
            &["d.toml:2:10", "`[[record]]`"],
        ),
    ]
}

/// Those that read a database.
const READERS: [&str; 3] = [
    "db list --db d.toml",
    "lookup --shape 8x8x8 --device-name x --db d.toml",
    "db merge d.toml -o out.toml",
];

pub(super) fn cases() -> Vec<Case> {
    let texts = TEXTS.iter().enumerate().map(|(place, (from, to, words))| {
        assert!(ONE.contains(from), "{from}");
        let text = ONE.replacen(from, to, 1).into_bytes();
        (format!("{from:?} -> {to:?}"), text, *words, READERS[place % READERS.len()])
    });
    let whole = files().into_iter().flat_map(|(name, bytes, words)| {
        READERS.map(|reader| (format!("{name}: {reader}"), bytes.clone(), words, reader))
    });
    let read = texts.chain(whole).map(|(name, bytes, words, reader)| {
        let row = case(name).file("d.toml", bytes).run(reader).fails(1).absent("out.toml");
        words.iter().fold(row, |row, word| row.says([word]))
    });
    read.chain(places()).chain(answers()).collect()
}

/// Names that hold no database.
fn places() -> Vec<Case> {
    let list = |name: &str| case(name).run("db list --db d.toml").fails(1);
    vec![
        list("a missing database").says(["cannot read `d.toml`", "No such file", "--db PATH"]),
        list("a folder for a database").folder("d.toml", 0o755).says(["`d.toml`", "directory"]),
        list("a link to nothing").link("d.toml", "nowhere").says(["cannot read `d.toml`"]),
        list("a link to itself")
            .link("d.toml", "d.toml")
            .says(["cannot read `d.toml`", "symbolic"]),
        list("a database below a file")
            .file("f", "x")
            .run("--db f/d.toml")
            .says(["cannot read", "--db PATH"]),
        list("a database that may not be read")
            .unprivileged()
            .node("d.toml", Node::FileWith(ONE.into(), 0o000))
            .says(["cannot read `d.toml`", "Permission denied"]),
        case("a folder of databases that is missing")
            .run("db list")
            .says(["source: built-in database"])
            .prints(["4096x4096x4096"]),
        case("a file for the folder of databases")
            .file("results", "x")
            .run("db list")
            .fails(1)
            .says(["cannot read `results`", "--db FILE"]),
        case("a database with a byte-order mark and carriage returns")
            .file("d.toml", format!("\u{feff}{}", ONE.replace('\n', "\r\n")))
            .run("db list --db d.toml")
            .prints(["4096x4096x1024"]),
        case("a family with a name of a million letters")
            .file("d.toml", ONE.replacen("\"tiled\"", &format!("\"{}\"", "x".repeat(1 << 20)), 1))
            .run("db list --db d.toml")
            .says(["d.toml:6:", "record 1, `family`", "1048576 bytes, above 10000"])
            .prints(["4096x4096x1024"]),
        case("merging with a missing file")
            .file("d.toml", ONE)
            .run("db merge d.toml none.toml -o out.toml")
            .fails(1)
            .says(["cannot read `none.toml`"])
            .absent("out.toml"),
        case("merging into a folder")
            .file("d.toml", ONE)
            .folder("out.toml", 0o755)
            .run("db merge d.toml -o out.toml")
            .fails(1)
            .says(["`out.toml`", "directory"]),
        case("merging a file with itself")
            .file("d.toml", ONE)
            .run("db merge d.toml d.toml ./d.toml -o out.toml")
            .prints(["2 in out.toml"]),
    ]
}

/// Questions that a good database does not answer.
fn answers() -> Vec<Case> {
    let row = |call: &str| case(call).file("d.toml", ONE).run(call).fails(1);
    vec![
        row("db show 8x8x8 --db d.toml")
            .says(["no record of `8x8x8` in d.toml", "`gemm-tune db list`"]),
        row("db show ffffffff --db d.toml").says(["no record of `ffffffff`"]),
        row("lookup --shape 8x8x8 --db d.toml --device-name nothing")
            .fails(2)
            .says(["no record is of `nothing`", "choose one of `NVIDIA H200`"]),
        row("lookup --shape 8x8x8 --db d.toml --device-name=")
            .fails(2)
            .says(["no record is of ``"]),
        row("lookup --shape 8x8x8 --db d.toml --device gpu").fails(2).says(["`gpu` is no device"]),
        row("lookup --shape 8x8x8 --db d.toml --device cpu --compute f32-emulated")
            .says(["no record and no default of a family is legal for 8x8x8 f32 f32-emulated"]),
        row("lookup --shape 8x8x8 --pin d.toml")
            .says(["8x8x8 f32 nn is not among the 2 pinned problems", "ask without `--pin`"]),
        row("lookup --shape 33x65x129 --pin d.toml")
            .says(["pinned to a kernel of `tiled`, whose template has changed"]),
        row("export --format json -o out --db d.toml --shape 1x2x3")
            .says(["no such record", "`gemm-tune db list`"])
            .absent("out"),
        row("export --format csv -o out --db d.toml --device-name none")
            .says(["no such record"])
            .absent("out"),
        row("export --format c -o out --db d.toml --offline")
            .says(["the template of `tiled` has changed", "`--changed-templates`"])
            .absent("out"),
        row("export --format bundle -o out --db d.toml --cache-policy x")
            .fails(2)
            .says(["`x` is no cache policy"]),
        row("export --format bundle -o out --db d.toml --power x")
            .fails(2)
            .says(["`x` is no power state"]),
        row("report -o out --db d.toml --shape 1x2x3").says(["nothing to report"]).absent("out"),
        row("inspect --shape 8x8x8 --db d.toml --dtype i8 --out f16")
            .fails(2)
            .says(["sums of integers become f16"]),
        row("explain --shape 8x8x8 --db d.toml --dtype i32")
            .says(["nothing is known of the times", "the same options"]),
        row("dispatch -o out --db d.toml --device cpu --loss=-5%")
            .fails(2)
            .says(["`-5%` is no loss", "`--loss 5%`"])
            .absent("out"),
        row("dispatch -o out --db d.toml --device cpu")
            .says(["`d.toml` has no winner for f32 nn of cpu"])
            .absent("out"),
        row("db verify --db d.toml --device cpu").says(["no such record of cpu in d.toml"]),
        row("db prune --db d.toml --yes").fails(2).says(["nothing says which records go"]),
    ]
}
