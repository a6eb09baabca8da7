//! Journals, recorded spaces, learned models, tables of times, dispatch sets and files of shapes.

use std::io::Write as _;

use super::case::{Case, Node, case};

/// A journal of this program, of two kernels.
const JOURNAL: &str = include_str!("naive.jsonl");

/// A cache file of Kernel Tuner.
const CACHE: &str = r#"{
"device_name": "D",
"kernel_name": "k",
"problem_size": [64, 64],
"tune_params_keys": ["X"],
"tune_params": {"X": [1, 2]},
"objective": "time",
"cache": {
"1": {"X": 1, "time": 2.0},
"2": {"X": 2, "time": "CompilationFailedConfig"}
}
}
"#;

/// T4 results.
const RESULTS: &str = r#"{
"schema_version": "1.0.0",
"metadata": {"timeunit": "milliseconds"},
"results": [
{"configuration": {"X": 1}, "invalidity": "correct", "measurements": [{"name": "time", "value": 3.5, "unit": "us"}]}
]}"#;

/// A table of times.
const TIMES: &str = r#"{"schema":1,"device":"D","dtype":"f32","compute":"f32","layout":"nn","shapes":[{"m":8,"n":8,"k":8}],"kernels":[{"family":"naive","parameters":{"BLOCK_X":32}}],"times_us":[[1.5]]}"#;

/// A trace of a program.
const TRACE: &str = include_str!("../data/trace.json");

pub(super) fn cases() -> Vec<Case> {
    [spaces(), journals(), models(), tables(), shapes(), traces()].into_iter().flatten().collect()
}

/// Traces, read by `--trace`, and programs to trace.
fn traces() -> Vec<Case> {
    let over = "1".repeat(30);
    #[rustfmt::skip]
    let rows: [(&str, String, &[&str]); 24] = [
        ("an empty trace", String::new(), &["`f`: EOF", "write a trace with `gemm-tune trace`"]),
        ("a trace that is a text", "hello".to_owned(), &["`f`: expected value at line 1"]),
        ("a trace of 100,000 brackets", "[".repeat(100_000), &["`f`: "]),
        ("a trace of schema 2", TRACE.replace("schema\": 1", "schema\": 2"), &["it has schema 2", "trace the program again"]),
        ("a trace with an unknown field", TRACE.replace("\"torch\"", "\"x\": 1, \"torch\""), &["unknown field `x`"]),
        ("a trace without a device", TRACE.replace("\"device\"", "\"torch2\""), &["unknown field `torch2`"]),
        ("a trace with negative seconds", TRACE.replace("1.5", "-1.5"), &["seconds is -1.5: give 0 or more"]),
        ("a trace with endless seconds", TRACE.replace("1.5", "1e999"), &["number out of range"]),
        ("a trace with an extent of 0", TRACE.replace("\"m\": 48", "\"m\": 0"), &["problem 1: ", "has M = 0"]),
        ("a trace with a huge extent", TRACE.replace("\"m\": 48", "\"m\": 18446744073709551615"), &["problem 1: ", "M is above"]),
        ("a trace with an extent of 30 digits", TRACE.replace("\"m\": 48", &format!("\"m\": {over}")), &["invalid type"]),
        ("a trace with a negative extent", TRACE.replace("\"n\": 32", "\"n\": -32"), &["`-32`"]),
        ("a trace with a batch of 0", TRACE.replace("\"batch\": 1", "\"batch\": 0"), &["problem 1: batch is 0"]),
        ("a trace with operands that no GPU holds", TRACE.replace("\"k\": 16", "\"k\": 2147479552").replace("\"m\": 48", "\"m\": 2147479552"), &["problem 1: "]),
        ("a trace with an unknown dtype", TRACE.replace("\"bf16\", \"compute\"", "\"f64\", \"compute\""), &["problem 1: ", "f64"]),
        ("a trace with types that do not fit", TRACE.replace("\"compute\": \"tf32\"", "\"compute\": \"i8\""), &["problem 2: "]),
        ("a trace with an unknown layout", TRACE.replace("\"nt\"", "\"up\""), &["problem 1: ", "up"]),
        ("a trace with an unknown epilogue", TRACE.replace("\"bias\"", "\"tanh\""), &["problem 1: ", "tanh"]),
        ("a trace with a count of 0", TRACE.replace("\"count\": 10", "\"count\": 0"), &["problem 1: count is 0: give 1 to"]),
        ("a trace with a huge count", TRACE.replace("\"count\": 10", "\"count\": 18446744073709551615"), &["problem 1: count is"]),
        ("a trace with a time of 0", TRACE.replace("50.0", "0"), &["problem 1: torch_us is 0: give microseconds above 0"]),
        ("a trace with a negative time", TRACE.replace("50.0", "-1e300"), &["problem 1: torch_us is -1"]),
        ("a trace with a huge number of others", TRACE.replace(": 2}", ": 18446744073709551615}"), &["`others.mm of torch.float64` is"]),
        ("a trace without problems", TRACE.split("[{").next().unwrap().to_owned() + "[],\"others\":{}}", &["nothing to tune"]),
    ];
    let rows = rows.into_iter().map(|(name, text, words)| {
        say(case(name).file("f", text).run("--trace f --device cpu --dry-run").fails(2), words)
    });
    let others = [
        case("a missing trace").run("--trace none --dry-run").fails(2).says(["cannot read `none`"]),
        case("a folder for a trace")
            .folder("f", 0o755)
            .run("--trace f --dry-run")
            .fails(2)
            .says(["cannot read `f`: Is a directory"]),
        case("a program to trace that is missing")
            .run("trace -o f -- ./none")
            .fails(1)
            .absent("f")
            .says(["cannot run `./none`"]),
        case("a program to trace that is none of Python")
            .run("trace -o f -- /bin/true")
            .fails(1)
            .absent("f")
            .says(["no product of PyTorch was seen"]),
        case("a trace without a program")
            .run("trace -o f")
            .fails(2)
            .absent("f")
            .says(["<COMMAND>"]),
        case("a trace to standard output")
            .run("trace -o - -- /bin/true")
            .fails(2)
            .says(["name a file with `-o FILE`"]),
    ];
    rows.chain(others).collect()
}

fn say(row: Case, words: &[&str]) -> Case {
    words.iter().fold(row, |row, word| row.says([word]))
}

fn zipped(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// Recorded spaces, read by `replay`, and what is said.
fn spaces() -> Vec<Case> {
    let packed = zipped(CACHE.as_bytes());
    #[rustfmt::skip]
    let rows: Vec<(&str, Vec<u8>, &[&str])> = vec![
        ("an empty space", Vec::new(), &["f:1:0", "EOF"]),
        ("a space of zeros", vec![0; 1000], &["f:1:1", "expected value"]),
        ("a space of all bytes", (0..=255).cycle().take(1024).collect(), &["f:2:118", "no UTF-8"]),
        ("a space that is a text", b"hello\n".to_vec(), &["f:1:1", "expected value"]),
        ("a space that is a number", b"3".to_vec(), &["neither a Kernel Tuner cache"]),
        ("a space that is an empty object", b"{}".to_vec(), &["neither a Kernel Tuner cache"]),
        ("a space of 100,000 brackets", vec![b'['; 100_000], &["f:1:", "recursion limit"]),
        ("a space with a byte that is no UTF-8", b"{\"cache\":\n \xff".to_vec(), &["f:2:2", "no UTF-8"]),
        ("a cut gzip file", packed[..packed.len() / 2].to_vec(), &["f: cannot be read"]),
        ("a gzip file of nothing", zipped(b""), &["f:1:0", "EOF"]),
        ("a gzip head", vec![0x1f, 0x8b, 8, 0], &["f: cannot be read"]),
    ];
    #[rustfmt::skip]
    let texts: &[(&str, &str, &str, &[&str])] = &[
        (CACHE, "\"time\": 2.0", "\"time\": NaN", &["f:9:"]),
        (CACHE, "\"time\": 2.0", "\"time\": -1", &["entry `1` has the time -1"]),
        (CACHE, "\"time\": 2.0", "\"time\": 0", &["entry `1` has the time 0"]),
        (CACHE, "\"time\": 2.0", "\"time\": 1e999", &["f:9:", "number out of range"]),
        (CACHE, "\"time\": 2.0", "\"time\": null", &["entry `1` has no `time`"]),
        (CACHE, "\"time\": 2.0", "\"__error__\": \"x\"", &["no entry has a time"]),
        (CACHE, "\"1\": {\"X\": 1, ", "\"1\": {", &["entry `1` has no value for `X`"]),
        (CACHE, "\"1\": {\"X\": 1, ", "\"1\": {\"X\": [], ", &["the value of `X` is neither"]),
        (CACHE, "\"tune_params_keys\"", "\"keys\"", &["missing field `tune_params_keys`"]),
        (CACHE, "\"cache\": {", "\"cache\": 3, \"x\": {", &["f:8:10", "expected a map"]),
        (RESULTS, "\"us\"", "\"ells\"", &["`results[0]`", "`ells` is no unit of time"]),
        (RESULTS, "3.5", "\"fast\"", &["the time \"fast\" is not above 0"]),
        (RESULTS, "3.5", "-3.5", &["the time -3.5 is not above 0"]),
        (RESULTS, "\"name\": \"time\"", "\"name\": \"t\"", &["has no measurement `time`"]),
    ];
    let replay = |name: String, bytes: Vec<u8>, words: &[&str]| {
        // Documents of this command have another form.
        say(case(name).file("f", bytes).run("replay f --repeats 1").fails(1).once(), words)
    };
    let whole = rows.into_iter().map(|(name, bytes, words)| replay(name.into(), bytes, words));
    let changed = texts.iter().map(|(text, from, to, words)| {
        assert!(text.contains(from), "{from}");
        replay(format!("{from} -> {to}"), text.replacen(from, to, 1).into(), words)
    });
    let other = [
        case("a missing space").run("replay none").fails(1).once().says(["none: cannot be read"]),
        case("a folder for a space")
            .folder("f", 0o755)
            .run("replay f")
            .fails(1)
            .once()
            .says(["f: "]),
        case("a space that may not be read")
            .unprivileged()
            .node("f", Node::FileWith(CACHE.into(), 0))
            .run("replay f")
            .fails(1)
            .once()
            .says(["f: cannot be read: Permission denied"]),
        case("a cache whose writer was killed is read up to there")
            .file("f", &CACHE.as_bytes()[..CACHE.find("\n\"2\"").unwrap()])
            .run("replay f --repeats 1")
            .prints(["1 configurations, 0 of them failed"]),
        case("where a search would begin is not known of other programs' caches")
            .file("f", CACHE)
            .run("replay f --informed")
            .fails(1)
            .once()
            .says(["f: no journal of this program"]),
        case("the largest batch and number of evaluations")
            .file("f", CACHE)
            .run("replay f --repeats 2 --seed 18446744073709551615 --batch 18446744073709551615")
            .run("--max-configs 18446744073709551615")
            .prints(["2 configurations"]),
    ];
    whole.chain(changed).chain(other).collect()
}

/// Journals, and what their readers say.
fn journals() -> Vec<Case> {
    let readers =
        ["export --format t4 -o out --journal f", "report -o out --journal f", "learn f -o out"];
    let files: [(&str, Vec<u8>, [&str; 2]); 6] = [
        ("an empty journal", Vec::new(), ["no journal of gemm-tune", "f"]),
        ("a journal that is a text", b"hello\n".to_vec(), ["no journal of gemm-tune", "f"]),
        (
            "a journal without its heading",
            JOURNAL.split_once('\n').unwrap().1.into(),
            ["no journal", "f"],
        ),
        (
            "a journal of version 1",
            JOURNAL.replacen("journal\":2", "journal\":1", 1).into(),
            ["a journal of schema 1: this version reads schema 2", "f"],
        ),
        (
            "a journal of version 99",
            JOURNAL.replacen("journal\":2", "journal\":99", 1).into(),
            ["a journal of schema 99, written by a newer gemm-tune", "f"],
        ),
        ("a journal that is not UTF-8", b"{\"gemm_tune_journal\":\xff".to_vec(), ["UTF-8", "f"]),
    ];
    let read = files.into_iter().flat_map(|(name, bytes, words)| {
        readers.map(|reader| {
            let row = case(format!("{name}: {reader}")).file("f", bytes.clone()).run(reader);
            row.fails(1).says(words).absent("out")
        })
    });
    let missing = readers.map(|reader| {
        case(format!("a missing journal: {reader}")).run(reader).fails(1).says(["No such file"])
    });
    let folder =
        ["export --format t4 -o out --journal f", "report -o out --journal f"].map(|reader| {
            let row =
                case(format!("a folder for a journal: {reader}")).folder("f", 0o755).run(reader);
            row.fails(1).says(["f: cannot be read", "directory"]).absent("out")
        });
    let sizes = [
        ("\"m\":64", "\"m\":0"),
        ("\"m\":64", "\"m\":9223372036854775807"),
        ("\"batch\":1", "\"batch\":0"),
    ];
    let sizes = sizes.into_iter().flat_map(|(from, to)| {
        let bytes = JOURNAL.replacen(from, to, 1);
        let calls =
            ["replay f --informed", "learn f -o out", "export --format t4 -o out --journal f"];
        calls.map(|call| {
            let row =
                case(format!("a journal with {to}: {call}")).file("f", bytes.clone()).run(call);
            row.fails(1).once().says(["a journal whose first line is damaged"]).absent("out")
        })
    });
    let other = [
        case("a journal whose last line is cut is read up to there")
            .file("f", format!("{JOURNAL}{}", &JOURNAL[300..400]))
            .run("export --format kernel-tuner -o out --journal f")
            .prints(["2 configurations of 64x64x64 f32 nn"]),
        case("a journal with a line of 100,000 brackets")
            .file("f", format!("{JOURNAL}{}\n", "[".repeat(100_000)))
            .run("export --format kernel-tuner -o out --journal f")
            .prints(["2 configurations of 64x64x64 f32 nn"]),
        case("a journal without outcomes")
            .file("f", JOURNAL.split_once('\n').unwrap().0)
            .run("export --format t4 -o out --journal f")
            .fails(1)
            .says(["the journal has no outcome yet"])
            .absent("out"),
        case("a journal without the family")
            .file("f", JOURNAL)
            .run("export --format t4 -o out --journal f --family nope")
            .fails(1)
            .says(["no outcome of `nope`", "it has outcomes of `naive` (2)"])
            .absent("out"),
        case("a folder without journals")
            .folder("f", 0o755)
            .run("learn f")
            .fails(1)
            .says(["no journal is left to learn from"]),
        case("a journal that is held out from itself")
            .file("f", JOURNAL)
            .run("learn f --hold-out f")
            .fails(1)
            .says(["no journal is left to learn from"]),
        case("a missing journal to hold out")
            .file("f", JOURNAL)
            .run("learn f --hold-out none")
            .fails(1)
            .says(["none: cannot be read"]),
        case("one journal is too few")
            .file("f", JOURNAL)
            .run("learn f -o out")
            .fails(1)
            .says(["too few problems to learn of any family (1)", "tune more shapes"])
            .absent("out"),
    ];
    read.chain(missing).chain(folder).chain(sizes).chain(other).collect()
}

/// Learned models. A wrong one is refused where it is asked for, and told of where it lies beside a
/// database.
fn models() -> Vec<Case> {
    let rows: [(&str, Vec<u8>, &str); 10] = [
        ("an empty model", Vec::new(), "EOF"),
        ("a model that is not UTF-8", vec![0xff; 100], "UTF-8"),
        ("a model that is a text", b"hello".to_vec(), "expected value"),
        ("a model without a version", b"{}".to_vec(), "missing field `gemm_tune_model`"),
        ("a model of version 99", b"{\"gemm_tune_model\":99}".to_vec(), "its form is 99"),
        ("a model of version 1", b"{\"gemm_tune_model\":1}".to_vec(), "its form is 1"),
        ("a model of a negative version", b"{\"gemm_tune_model\":-1}".to_vec(), "-1"),
        ("a model without a device", b"{\"gemm_tune_model\":4}".to_vec(), "missing field `device`"),
        (
            "a model of families that are none",
            b"{\"gemm_tune_model\":7,\"device\":\"d\",\"families\":{\"naive\":[3]}}".to_vec(),
            "invalid type",
        ),
        ("a model of 100,000 brackets", vec![b'['; 100_000], "f"),
    ];
    let asked = rows.map(|(name, bytes, words)| {
        case(name)
            .file("j", JOURNAL)
            .file("f", bytes)
            .run("replay j --informed --repeats 1 --experience f")
            .fails(1)
            .once()
            .says([words, "`f`"])
    });
    let other = [
        case("a missing model")
            .file("j", JOURNAL)
            .run("replay j --informed --experience none")
            .fails(1)
            .once()
            .says(["cannot read `none`"]),
        case("a folder for a model")
            .file("j", JOURNAL)
            .folder("f", 0o755)
            .run("replay j --informed --experience f")
            .fails(1)
            .once()
            .says(["cannot read `f`"]),
        case("a wrong model beside a database")
            .copy("d.toml", "tests/databases/one.toml")
            .file("d.model.json", "{}")
            .run("lookup --shape 96x96x96 --db d.toml")
            .fails(1)
            .says(["`d.model.json`: no file of `gemm-tune learn`"]),
    ];
    asked.into_iter().chain(other).collect()
}

/// Tables of times and dispatch sets.
fn tables() -> Vec<Case> {
    #[rustfmt::skip]
    let rows: [(&str, String, &[&str]); 12] = [
        ("an empty table", String::new(), &["`f`: not a table of times", "EOF"]),
        ("a table that is a text", "hello".to_owned(), &["`f`: not a table of times"]),
        ("a table of schema 2", TIMES.replace("schema\":1", "schema\":2"), &["schema 2", "newer gemm-tune"]),
        ("a table of schema 0", TIMES.replace("schema\":1", "schema\":0"), &["no schema from 1"]),
        ("a table with a negative time", TIMES.replace("1.5", "-1.5"), &["a time is not above 0"]),
        ("a table with a time of zero", TIMES.replace("1.5", "0"), &["a time is not above 0"]),
        ("a table with a time that overflows", TIMES.replace("1.5", "1e999"), &["number out of range"]),
        ("a table without a time", TIMES.replace("1.5", "null"), &["no kernel has a time for 8x8x8"]),
        ("a table with a row too many", TIMES.replace("[[1.5]]", "[[1.5],[1]]"), &["not 1 rows of 1 times"]),
        ("a table without shapes", TIMES.replace("[{\"m\":8,\"n\":8,\"k\":8}]", "[]"), &["it has no shape"]),
        ("a table with an unknown field", TIMES.replace("\"device\"", "\"x\":1,\"device\""), &["unknown field `x`"]),
        ("a table with a negative shape", TIMES.replace("\"m\":8", "\"m\":-8"), &["`-8`"]),
    ];
    let tables = rows.into_iter().map(|(name, text, words)| {
        let row = case(name).file("f", text).run("dispatch --times f -o out --device cpu");
        say(row.fails(1).absent("out"), words)
    });
    let export = "export --format bundle -o out --offline --db d.toml --dispatch f";
    #[rustfmt::skip]
    let sets: [(&str, &str, &[&str]); 3] = [
        ("an empty dispatch set", "", &["`f` is no dispatch set", "`gemm-tune dispatch` writes one"]),
        ("a dispatch set that is a table", TIMES, &["`f` is no dispatch set"]),
        ("a dispatch set of schema 99", "{\"schema\":99}", &["`f`"]),
    ];
    let sets = sets.into_iter().map(|(name, text, words)| {
        let row = case(name).file("f", text).copy("d.toml", "tests/databases/one.toml").run(export);
        say(row.fails(1).absent("out"), words)
    });
    let other = [
        case("a folder for a table")
            .folder("f", 0o755)
            .run("dispatch --times f -o out --device cpu")
            .fails(1)
            .says(["cannot read `f`"]),
        case("a missing dispatch set")
            .copy("d.toml", "tests/databases/one.toml")
            .run(export)
            .fails(1)
            .says(["cannot read `f`"])
            .absent("out"),
    ];
    tables.chain(sets).chain(other).collect()
}

/// Files of shapes.
fn shapes() -> Vec<Case> {
    #[rustfmt::skip]
    let rows: [(&str, Vec<u8>, &[&str]); 12] = [
        ("an empty file of shapes", Vec::new(), &["`f` has no shape", "write one a line"]),
        ("a file of comments", b"# 8x8x8\n\n  # none\n".to_vec(), &["`f` has no shape"]),
        ("a line that is no shape", b"8x8x8\n64x64 # here\n".to_vec(), &["f:2: `64x64` is not a shape"]),
        ("a line with a wrong layout", b"8x8x8 up\n".to_vec(), &["f:1: `up` is neither a layout", "`x16`"]),
        ("a line with batch 0", b"8x8x8 x0\n".to_vec(), &["f:1: batch is 0"]),
        ("a line with a negative batch", b"8x8x8 x-1\n".to_vec(), &["f:1: `x-1`"]),
        ("a line with a huge batch", b"8x8x8 x18446744073709551615\n".to_vec(), &["f:1: batch is 18446744073709551615"]),
        ("a line with an extent of 0", b"\n\n8x0x8\n".to_vec(), &["f:3: `8x0x8` has N = 0"]),
        ("a line with a huge extent", b"8x8x99999999999999999999\n".to_vec(), &["f:1: ", "K is above 2147479552"]),
        ("a line too large to address", b"2147479552x2147479552x1\n".to_vec(), &["f:1: ", "above 2^48"]),
        ("shapes that are not UTF-8", b"8x8x8\n\xff\n".to_vec(), &["cannot read `f`", "UTF-8"]),
        ("shapes of zeros", vec![0; 100], &["f:1: "]),
    ];
    let dry = "tune --dry-run --device cpu --family naive --shapes f";
    let files = rows
        .into_iter()
        .map(|(name, bytes, words)| say(case(name).file("f", bytes).run(dry).fails(2), words));
    #[rustfmt::skip]
    let shards: [(&str, &str); 8] = [
        ("0/2", "`0/2`"), ("3/2", "`3/2`"), ("1/0", "`1/0`"), ("1", "`1`"), ("-1/2", "`-1/2`"),
        ("1/2/3", "`1/2/3`"), ("a/b", "`a/b`"), ("99999999999999999999/99999999999999999999", "is no"),
    ];
    let shards = shards.into_iter().map(|(shard, words)| {
        let row = case(format!("shard {shard}")).file("f", "8x8x8\n9x9x9\n").run(dry);
        row.argument(format!("--shard={shard}")).fails(2).says([words])
    });
    let other = [
        case("a missing file of shapes").run(dry).fails(2).says(["cannot read `f`"]),
        case("a folder for shapes").folder("f", 0o755).run(dry).fails(2).says(["cannot read `f`"]),
        case("carriage returns and blanks around shapes")
            .file("f", "  8x8x8\tnt  x3 # here\r\n\r\n9x9x9\r\n")
            .run(dry)
            .prints(["8x8x8 f32 nt x3", "9x9x9 f32 nn"]),
    ];
    files.chain(shards).chain(other).collect()
}
