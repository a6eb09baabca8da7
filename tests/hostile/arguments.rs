//! Values of options and arguments: wrong words, numbers out of range, conflicts, bytes that are no
//! text. No file is needed to refuse them, and none is made.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use super::case::{Case, case, rows};

/// Usage errors: exit code 2.
#[rustfmt::skip]
const WRONG: &[(&str, &[&str])] = &[
    // Shapes.
    ("lookup", &["nothing to look up", "`gemm-tune lookup 4096x4096x1024`"]),
    ("lookup --shape", &["a value is required for '--shape <MxNxK>'"]),
    ("lookup --shape=", &["`` is not a shape", "as in `4096x4096x1024`"]),
    ("lookup --shape 8,", &["`8,` is not a shape"]),
    ("lookup 8 --shape 0x8x8", &["`0x8x8` has M = 0"]),
    ("lookup 8 --evaluate --pin d.toml", &["cannot be used with"]),
    ("lookup 8 --seed 1", &["required", "--evaluate"]),
    ("lokup", &["`lokup` is neither a command nor a shape"]),
    ("lookup --shape 8x8", &["`8x8` is not a shape"]),
    ("lookup --shape 8x8x8x8", &["`8x8x8x8` has four extents", "`8x8x8 --batch 8`"]),
    ("lookup --shape x8x8", &["`x8x8` is not a shape"]),
    ("lookup --shape 8xx8", &["`8xx8` is not a shape"]),
    ("lookup --shape -1x8x8", &["unexpected argument '-1'", "--help"]),
    ("lookup --shape=-1x8x8", &["`-1x8x8` is not a shape"]),
    ("lookup --shape +8x8x8", &["`+8x8x8` is not a shape"]),
    ("lookup --shape 8.5x8x8", &["`8.5x8x8` is not a shape"]),
    ("lookup --shape 1e3x8x8", &["`1e3x8x8` is not a shape"]),
    ("lookup --shape NaNxNaNxNaN", &["`NaNxNaNxNaN` is not a shape"]),
    ("lookup --shape ８x8x8", &["`８x8x8` is not a shape"]),
    ("lookup --shape 0x8x8", &["`0x8x8` has M = 0", "at least 1"]),
    ("lookup --shape 8x8x0", &["`8x8x0` has K = 0", "at least 1"]),
    ("lookup --shape 2147483648x1x1", &["`2147483648x1x1` is too large", "M is above 2147479552"]),
    ("lookup --shape 1x18446744073709551616x1", &["is too large", "N is above 2147479552"]),
    ("lookup --shape 9223372036854775807x1x1", &["is too large", "M is above 2147479552"]),
    ("lookup --shape 2147479552x2147479552x1", &["operand C", "above 2^48"]),
    ("lookup --shape 65536x65536x65536 --batch 2147418112", &["operand A", "above 2^48"]),
    ("lookup --shape 8x8x8 --shape 9x9", &["`9x9` is not a shape"]),
    // What a problem is besides.
    ("lookup --shape 8x8x8 --dtype f99", &["`f99` is no dtype", "f32, i32, f16, bf16"]),
    ("lookup --shape 8x8x8 --dtype F32", &["`F32` is no dtype"]),
    ("lookup --shape 8x8x8 --dtype=", &["`` is no dtype"]),
    ("lookup --shape 8x8x8 --compute fast", &["`fast` is no compute", "choose one of f32"]),
    ("lookup --shape 8x8x8 --layout nnn", &["`nnn` is no layout", "nn, nt, tn, tt"]),
    ("lookup 8x8x8 --layout NX", &["`nx` is no layout"]),
    ("lookup --shape 8x8x8 --batch 0", &["batch is 0", "1 to 2147418112"]),
    ("lookup --shape 8x8x8 --batch=-1", &["invalid value '-1' for '--batch <COUNT>'"]),
    ("lookup --shape 8x8x8 --batch 1.5", &["invalid value '1.5' for '--batch <COUNT>'"]),
    ("lookup --shape 8x8x8 --batch 18446744073709551615", &["batch is 18446744073709551615"]),
    ("lookup --shape 8x8x8 --batch 99999999999999999999", &["'99999999999999999999'", "too large"]),
    // Storage.
    ("lookup --shape 8x8x8 --lda 7", &["lda is 7", "rows of A have 8 elements"]),
    ("lookup --shape 8x8x8 --lda 0", &["lda is 0", "at least as many"]),
    ("lookup --shape 8x8x8 --ldb=-8", &["invalid value '-8' for '--ldb <N>'"]),
    ("lookup --shape 8x8x8 --align 0", &["aligned to 0 bytes", "power of two of at least 4"]),
    ("lookup --shape 8x8x8 --align 3", &["aligned to 3 bytes", "power of two"]),
    ("lookup --shape 8x8x8 --align 2", &["aligned to 2 bytes", "size of an element"]),
    ("lookup --shape 8x8x8 --align 1000000007", &["aligned to 1000000007 bytes", "power of two"]),
    // Words of other options.
    ("lookup --shape 8x8x8 --cache-policy cold", &["`cold` is no cache policy", "`rotate` or `hot`"]),
    ("lookup --shape 8x8x8 --power eco", &["`eco` is no power state", "`burst` or `sustained`"]),
    ("lookup --shape 8x8x8 --pin a --db b", &["'--pin <FILE>' cannot be used with '--db <FILE>'"]),
    ("lookup --shape 8x8x8 --device cpu --device-name x", &["cannot be used with"]),
    ("lookup --shape 8x8x8 --family nope", &["no family is named `nope`", "there are blocktile"]),
    ("lookup --shape 8x8x8 --family=", &["no family is named ``"]),
    ("lookup --shape 8x8x8 --family ../naive", &["no family is named `../naive`", "did you mean `naive`?"]),
    ("lookup --shape 8x8x8 --json --json", &["'--json' cannot be used multiple times"]),
    ("lookup --shape 8x8x8 -q -v", &["'--quiet' cannot be used with '--verbose'"]),
    ("lookup --shape 8x8x8 --what", &["unexpected argument '--what'", "--help"]),
    ("lookup --shape 8x8x8 stray", &["`stray` is neither a command nor a shape"]),
    ("lookup 8x8x8 stray", &["`stray` is neither a command nor a shape"]),
    ("lookup --shape 8x8x8 --db=", &["a value is required for '--db <FILE>'"]),
    ("--shape 8x8x8 lookup", &["`lookup` is a command: write it first"]),
    ("nothing", &["`nothing` is neither a command nor a shape"]),
    ("help nothing", &["unrecognized subcommand 'nothing'"]),
    ("worker x", &["unexpected argument 'x'"]),
    // Tuning.
    ("tune", &["nothing to tune", "`--shapes FILE`"]),
    ("tune --shape 8x8x8 --shard 1/2", &["--shapes <FILE>", "required"]),
    ("tune --shape 8x8x8 --device tpu", &["`tpu` is no device", "`cuda:0`"]),
    ("tune --shape 8x8x8 --device cuda:", &["`cuda:` is no device"]),
    ("tune --shape 8x8x8 --device cuda:x", &["`cuda:x` is no device"]),
    ("tune --shape 8x8x8 --device=cuda:-1", &["`cuda:-1` is no device"]),
    ("tune --shape 8x8x8 --device cuda:99999999999999999999", &["is no device"]),
    ("tune --shape 8x8x8 --device=", &["`` is no device"]),
    ("tune --shape 8x8x8 --device cpu --effort some", &["`some` is no effort", "quick, normal, full"]),
    ("tune --shape 8x8x8 --device cpu --effort=", &["`` is no effort"]),
    ("tune --shape 8x8x8 --device cpu --stop-within 1", &["`1` is no percentage", "write `1%`"]),
    ("tune --shape 8x8x8 --device cpu --stop-within 100%", &["`100%` is no percentage", "below 100%"]),
    ("tune --shape 8x8x8 --device cpu --stop-within=-1%", &["`-1%` is no percentage"]),
    ("tune --shape 8x8x8 --device cpu --stop-within NaN%", &["`NaN%` is no percentage"]),
    ("tune --shape 8x8x8 --device cpu --stop-within inf%", &["`inf%` is no percentage"]),
    ("tune --shape 8x8x8 --device cpu --budget 5", &["`5` is no time", "write `60s`"]),
    ("tune --shape 8x8x8 --device cpu --budget 0s", &["`0s` is no time"]),
    ("tune --shape 8x8x8 --device cpu --budget=-3s", &["`-3s` is no time"]),
    ("tune --shape 8x8x8 --device cpu --budget 1e999s", &["`1e999s` is no time"]),
    ("tune --shape 8x8x8 --device cpu --budget NaNs", &["`NaNs` is no time"]),
    ("tune --shape 8x8x8 --device cpu --budget 99999999999999999999999s", &["is no time"]),
    ("tune --shape 8x8x8 --device cpu --budget 3weeks", &["`3weeks` is no time"]),
    ("tune --shape 8x8x8 --device cpu --max-configs 0", &["'0' for '--max-configs <N>'"]),
    ("tune --shape 8x8x8 --device cpu --max-configs=-1", &["'-1' for '--max-configs <N>'"]),
    ("tune --shape 8x8x8 --device cpu --max-configs 99999999999999999999", &["number too large"]),
    ("tune --shape 8x8x8 --device cpu --search best", &["`best` is no search", "exhaustive"]),
    ("tune --shape 8x8x8 --device cpu --seed=-1", &["'-1' for '--seed <SEED>'"]),
    ("tune --shape 8x8x8 --device cpu --seed 18446744073709551616", &["number too large"]),
    ("tune --shape 8x8x8 --device cpu --jobs 0", &["'0' for '--jobs <N>'"]),
    ("tune --shape 8x8x8 --device cpu --jobs=-2", &["'-2' for '--jobs <N>'"]),
    ("tune --shape 8x8x8 --device cpu --family nope", &["no family is named `nope`"]),
    // Checking, comparing, replaying.
    ("check --shape 0x1x1", &["`0x1x1` has M = 0"]),
    ("check --layout xx", &["`xx` is no layout"]),
    ("check --sample 0", &["`0` is no sample", "or `all`"]),
    ("check --sample=-1", &["`-1` is no sample"]),
    ("check --sample some", &["`some` is no sample"]),
    ("check --sample 99999999999999999999", &["is no sample"]),
    ("check --sms 0", &["'0' for '--sms <COUNT>'"]),
    ("check --sms 4294967296", &["'4294967296' for '--sms <COUNT>'", "too large"]),
    ("check --dtype f32 --compute f32-emulated", &["no family can compute", "mma: serves compute tf32,"]),
    ("check --spaces {root}/tests/faulty/spaces --epilogue bias", &["no family can compute", "faulty: serves no epilogue, not bias: where its kernels apply epilogues, write `epilogue = true` in "]),
    ("check --epilogue tanh", &["`tanh` is no epilogue operation: choose one of bias,"]),
    ("check --epilogue relu,relu", &["`relu` occurs twice"]),
    ("check --dtype i8 --epilogue silu", &["`silu` makes no integers"]),
    ("check --dtype i8 --out f16", &["with `row-scale` or `col-scale`"]),
    ("compare", &["nothing to compare on", "`--shapes FILE`"]),
    ("compare --shape 8x8x8 --csv --json", &["'--csv' cannot be used with '--json'"]),
    ("replay", &["<FILE>", "required"]),
    ("replay none --repeats 0", &["'0' for '--repeats <R>'"]),
    ("replay none --repeats=-1", &["'-1' for '--repeats <R>'"]),
    ("replay none --repeats 18446744073709551615", &["is 18446744073709551615, above 10000"]),
    ("replay none --max-configs 0", &["'0' for '--max-configs <N>'"]),
    ("replay none --batch 0", &["'0' for '--batch <N>'"]),
    ("replay none --experience none", &["--informed", "required"]),
    ("learn", &["<JOURNAL>", "required"]),
    ("learn none --family nope", &["no family is named `nope`"]),
    // Databases.
    ("db", &["Usage: gemm-tune db <COMMAND>"]),
    ("db show", &["<KEY|SHAPE>", "required"]),
    ("db show zzz --db none", &["`zzz` is neither a shape", "nor a key", "hexadecimal digits"]),
    ("db show 0x1x1 --db none", &["`0x1x1` is neither a shape"]),
    ("db merge", &["--output <FILE>", "required"]),
    ("db prune", &["--db <FILE>", "required"]),
    ("db prune --db none --yes", &["nothing says which records go", "`--superseded`"]),
    ("db list --shape x", &["`x` is not a shape"]),
    ("db list --dtype f99", &["`f99` is no dtype"]),
    ("db list --layout zz", &["`zz` is no layout"]),
    ("lookup --evaluate", &["nothing to hold out"]),
    ("lookup 8 --csv --json", &["'--csv' cannot be used with '--json'"]),
    // Artifacts and views.
    ("dispatch", &["--output <OUT>", "required"]),
    ("export", &["--format <FORMAT>", "required"]),
    ("export --format c", &["--output <OUT>", "required"]),
    ("export --format d -o out", &["invalid value 'd' for '--format <FORMAT>'", "bundle, c, python"]),
    ("export --format csv -o=", &["a value is required for '--output <OUT>'"]),
    ("inspect", &["nothing to inspect", "`--config FAMILY`"]),
    ("inspect --shape 0x8x8", &["`0x8x8` has M = 0"]),
    ("inspect --config nope", &["no family is named `nope`"]),
    ("inspect --config naive:X=1", &["no parameter `X`", "BLOCK_X, BLOCK_Y"]),
    ("inspect --config naive:BLOCK_X", &["`BLOCK_X` sets no parameter", "NAME=VALUE"]),
    ("inspect --config naive:BLOCK_X=", &["BLOCK_X of family `naive` is one of 8, 16"]),
    ("inspect --config naive:BLOCK_X=17", &["BLOCK_X of family `naive`", "not 17"]),
    ("inspect --config naive:BLOCK_X=-1", &["not -1"]),
    ("inspect --config naive:BLOCK_X=true", &["not true"]),
    ("inspect --config naive:BLOCK_X=99999999999999999999999", &["not 99999999999999999999999"]),
    ("inspect --config naive:=", &["no parameter ``"]),
    ("inspect --config naive --emit x", &["invalid value 'x' for '--emit <EMIT>'", "cuda, harness, ptx"]),
    ("inspect --config naive --device x", &["`x` is no device"]),
    ("inspect --config naive --batch 0", &["batch is 0"]),
    ("inspect --diff winner", &["2 values required for '--diff <X> <Y>'"]),
    ("inspect 8 --config naive --diff winner naive", &["cannot be used with"]),
    ("explain", &["<SHAPE>", "required"]),
    ("report", &["--output <OUT.html>", "required"]),
    ("doctor --device x", &["`x` is no device"]),
    ("doctor stray", &["unexpected argument 'stray'"]),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = rows(2, WRONG);
    cases.extend(bytes());
    cases
}

/// Arguments that no table of words holds.
fn bytes() -> Vec<Case> {
    let no_text = || OsString::from_vec(b"8x8x\xff".to_vec());
    let long = || "8".repeat(100_000);
    vec![
        case("a shape that is not UTF-8")
            .run("lookup --shape")
            .argument(no_text())
            .fails(2)
            .says(["invalid UTF-8", "--help"]),
        case("a family that is not UTF-8")
            .run("lookup --shape 8x8x8 --family")
            .argument(no_text())
            .fails(2)
            .says(["invalid UTF-8"]),
        case("a command that is not UTF-8").argument(no_text()).fails(2).says(["--help"]),
        case("an empty argument").argument("").fails(2).says(["`` is neither a command nor"]),
        case("a shape of 100,000 digits")
            .run("lookup --shape")
            .argument(format!("{0}x{0}x{0}", "9".repeat(33_000)))
            .fails(2)
            .says(["too large"]),
        case("a number of 100,000 digits for a cube")
            .run("lookup --shape")
            .argument(long())
            .fails(2)
            .says(["is too large"]),
        case("a family with a name of 100,000 letters")
            .run("lookup --shape 8x8x8 --family")
            .argument(long())
            .fails(2)
            .says(["no family is named"]),
        case("a device with a name of 100,000 letters")
            .run("tune --shape 8x8x8 --device")
            .argument(long())
            .fails(2)
            .says(["is no device"]),
        case("thousands of shapes that are none")
            .run("tune --device cpu")
            .run(&"--shape 8x8 ".repeat(2000))
            .fails(2)
            .says(["`8x8` is not a shape"]),
        case("a shape with a newline")
            .run("lookup --shape")
            .argument("8x8x8\n9x9x9")
            .fails(2)
            .says(["`9x9x9` is neither a layout (nn, nt, tn, tt) nor a batch"]),
    ]
}
