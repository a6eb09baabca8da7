//! Search-space files and templates: each kind of error is named with file, line and column.

use super::case::{Case, Node, case};

const SPACE: &str = include_str!("../faulty/spaces/faulty.toml");
const TEMPLATE: &str = include_str!("../faulty/templates/faulty.cu.tera");

/// A text of the space, what stands in its place, and what is said.
#[rustfmt::skip]
const SPACES: &[(&str, &str, &[&str])] = &[
    ("schema = 1", "schema = 0", &["schema is 0, this program reads 1", "faulty.toml:2:10"]),
    ("schema = 1", "schema = 99", &["schema is 99, this program reads 1", "faulty.toml:2:10"]),
    ("schema = 1", "schema = 'one'", &["invalid type: string \"one\"", "faulty.toml:2:10"]),
    ("schema = 1", "", &["missing field `schema`", "faulty.toml:1:1"]),
    ("schema = 1", "schema = 1\nschema = 1", &["duplicate key", "faulty.toml:3:1"]),
    ("name = \"faulty\"\n", "", &["missing field `name`"]),
    ("name = \"faulty\"", "name = ''", &["letters, digits and `_` only, this is ``", "faulty.toml:3:8"]),
    ("name = \"faulty\"", "name = '../x'", &["letters, digits and `_` only, this is `../x`"]),
    ("name = \"faulty\"", "name = 'fäulty'", &["letters, digits and `_` only, this is `fäulty`"]),
    ("name = \"faulty\"", "name = 3", &["invalid type: integer `3`, expected a string", "faulty.toml:3:8"]),
    ("summary =", "speed = 3\nsummary =", &["unknown field `speed`", "faulty.toml:4:1"]),
    ("summary =", "template = '../../../etc/passwd'\nsummary =", &["names template `../../../etc/passwd`", "does not exist"]),
    ("summary =", "template = '/etc/passwd'\nsummary =", &["names template `/etc/passwd`", "does not exist"]),
    ("summary =", "template = 'none.cu.tera'\nsummary =", &["family `faulty`", "names template `none.cu.tera`"]),
    ("summary =", "min_compute_capability = 'banana'\nsummary =", &["`banana` is no compute capability", "write `9.0`", "faulty.toml:4:26"]),
    ("summary =", "nondeterministic = '1 +'\nsummary =", &["found the end where a value is expected", "faulty.toml:4:"]),
    ("dtypes = [\"f32\"]", "dtypes = ['f99']", &["`f99` is no dtype", "faulty.toml:5:11"]),
    ("dtypes = [\"f32\"]", "dtypes = []", &["no family can compute 64x64x64 f32 nn", "faulty: serves dtype"]),
    ("compute = [\"f32\"]", "compute = ['x']", &["`x` is no compute", "faulty.toml:6:12"]),
    ("layouts = [\"nn\"]", "layouts = ['xx']", &["`xx` is no layout", "faulty.toml:7:12"]),
    ("layouts = [\"nn\"]", "layouts = []", &["no family can compute", "faulty: serves layout"]),
    // Parameters and derived values.
    ("[derived]", "X = []\n[derived]", &["`X` has no value to choose from", "faulty.toml:31:5"]),
    ("[derived]", "X = [1, 'a']\n[derived]", &["`X` mixes kinds of values", "faulty.toml:31:9"]),
    ("[derived]", "X = [1, 1]\n[derived]", &["1 is listed twice", "faulty.toml:31:9"]),
    ("[derived]", "X = [1.5]\n[derived]", &["integers, booleans or strings", "faulty.toml:31:6"]),
    ("[derived]", "X = [nan]\n[derived]", &["integers, booleans or strings", "faulty.toml:31:6"]),
    ("[derived]", "X = [[1]]\n[derived]", &["a 64-bit number, true, false or a string", "faulty.toml:31:"]),
    ("[derived]", "X = 3\n[derived]", &["invalid type: integer `3`, expected a sequence"]),
    ("[derived]", "X = [99999999999999999999]\n[derived]", &["`99999999999999999999`", "faulty.toml:31:6"]),
    ("[derived]", "M = [1]\n[derived]", &["`M` is a built-in name", "faulty.toml:31:1"]),
    ("[derived]", "'a-b' = [1]\n[derived]", &["letters, digits and `_` only, this is `a-b`"]),
    ("TILE = \"16\"", "FAULT = '1'", &["`FAULT` is a parameter already", "faulty.toml:32:1"]),
    ("TILE = \"16\"", "TILE = 'TILE + 1'", &["derived values depend on one another: TILE", "faulty.toml:32:8"]),
    ("DELAY = \"0\"", "DELAY = 'X'\nX = 'DELAY'", &["derived values depend on one another", "faulty.toml:33:9"]),
    // Expressions.
    ("TILE = \"16\"", "TILE = ''", &["found the end where a value is expected", "faulty.toml:32:9"]),
    ("TILE = \"16\"", "TILE = '16 $ 3'", &["`$` has no place in an expression", "faulty.toml:32:12"]),
    ("TILE = \"16\"", "TILE = '99999999999999999999'", &["does not fit 64 bits", "faulty.toml:32:9"]),
    ("TILE = \"16\"", "TILE = \"'abc\"", &["this string has no closing '", "faulty.toml:32:9"]),
    ("TILE = \"16\"", "TILE = '2 ** 100'", &["found `**` where an operation or the end is expected"]),
    ("TILE = \"16\"", "TILE = 'system(1)'", &["unknown name `system`", "faulty.toml:32:9"]),
    ("TILE = \"16\"", "TILE = '16 | nope'", &["unknown filter `nope`", "`ceil_div`", "faulty.toml:32:14"]),
    ("TILE = \"16\"", "TILE = '(16'", &["faulty.toml:32:"]),
    ("TILE = \"16\"", "TILE = '16 in'", &["faulty.toml:32:"]),
    ("TILE = \"16\"", "TILE = '[1, 2]'", &["a list stands to the right of `in` only"]),
    // Kernels, workspaces, defaults, constraints.
    ("[[kernels]]", "[[kernelz]]", &["unknown field `kernelz`", "did you mean `kernels`?"]),
    ("entry = \"gemm\"", "entry = 'ge mm'", &["letters, digits and `_` only, this is `ge mm`"]),
    ("entry = \"gemm\"", "entry = ''", &["letters, digits and `_` only, this is ``"]),
    ("entry = \"gemm\"", "entry = 'gemm'\narguments = ['A', 'nope']", &["`nope` is no argument", "choose one of A, B, C"]),
    ("block = [\"TILE\", \"TILE\"]", "block = ['1', '1', '1', '1']", &["`block` has 1 to 3 extents, this has 4"]),
    ("block = [\"TILE\", \"TILE\"]", "block = []", &["`block` has 1 to 3 extents, this has 0"]),
    ("block = [\"TILE\", \"TILE\"]", "block = 3", &["invalid type: integer `3`, expected a sequence"]),
    ("name = \"scratch\"", "name = 'A'", &["`A` is an argument of all kernels", "faulty.toml:37:8"]),
    ("name = \"scratch\"", "name = 'a b'", &["letters, digits and `_` only, this is `a b`"]),
    ("[[kernels]]", "[work]\ntile = ['TILE']\n[[kernels]]", &["`tile` has 2 extents, this has 1"]),
    ("FAULT = \"none\"", "", &["the default has no value for `FAULT`", "faulty.toml:46:1"]),
    ("[default]\nFAULT = \"none\"", "", &["missing field `default`"]),
    ("FAULT = \"none\"", "FAULT = 'nope'", &["the default has `FAULT` = nope, which is not listed", "choose one of none"]),
    ("FAULT = \"none\"", "FAULT = 'none'\nX = 1", &["the default sets `X`, which is no parameter"]),
    ("[[workspaces]]", "[[constraints]]\nrequire = '1 +'\nbecause = 'x'\n[[workspaces]]", &["found the end where a value is expected", "faulty.toml:37:15"]),
    ("[[workspaces]]", "[[constraints]]\nrequire = '1'\nbecause = 'x'\n[[workspaces]]", &["faulty.toml:37:11", "a condition is true or false, this is the integer 1"]),
    ("[[workspaces]]", "[[constraints]]\nrequire = 'true'\n[[workspaces]]", &["missing field `because`", "faulty.toml:36:1"]),
    ("[[workspaces]]", "[[constraints]]\nrequire = 'false'\nbecause = 'x'\n[[workspaces]]", &["no configuration is legal", "18 by `false` (x)"]),
];

/// Templates, and what is said.
#[rustfmt::skip]
const TEMPLATES: &[(&str, &[&str])] = &[
    ("{{ ", &["unexpected end of input", "faulty.cu.tera:1:1"]),
    ("{{ nope }}", &["faulty.cu.tera:1:4", "`nope` is no parameter or derived value of family `faulty`"]),
    ("{% if %}", &["expected one of", "faulty.cu.tera:1:7"]),
    ("{% endif %}", &["unknown tag", "faulty.cu.tera:1:4"]),
    ("{% raw %}", &["unexpected end of raw block", "faulty.cu.tera:1:1"]),
    ("{% include 'none' %}", &["there is no template `none`", "faulty.cu.tera:1:12"]),
    ("{% include '../../etc/passwd' %}", &["there is no template `../../etc/passwd`", "faulty.cu.tera:1:12"]),
    ("{% include '/etc/passwd' %}", &["there is no template `/etc/passwd`", "faulty.cu.tera:1:12"]),
    ("{% include 'faulty.cu.tera' %}", &["circular include", "faulty.cu.tera"]),
    ("{% extends 'none' %}", &["there is no template `none`"]),
    ("{{ TILE | nope }}", &["unknown filter `nope`", "faulty.cu.tera:1:11"]),
    ("{{ get_env(name='HOME') }}", &["unknown function `get_env`", "faulty.cu.tera:1:4"]),
    ("{{ load_data(path='/etc/passwd') }}", &["unknown function `load_data`", "faulty.cu.tera:1:4"]),
    ("{% macro x() %}{{ self::x() }}{% endmacro %}{{ self::x() }}", &["unknown tag"]),
];

/// Templates that are found wrong when they are rendered.
#[rustfmt::skip]
const RENDERED: &[(&str, &[&str])] = &[
    ("{{ TILE / 0 }}", &["faulty.cu.tera:1:11", "cannot divide by 0"]),
    ("{{ throw(message='no') }}", &["faulty.cu.tera:1:4", "no"]),
    ("{{ FAULT + 1 }}", &["faulty.cu.tera:1:"]),
];

const DRY: &str = "tune --dry-run --device cpu --shape 64x64x64 --spaces s --templates t";
const SHOWN: &str = "inspect --config faulty --spaces s --templates t";

fn with(name: String, space: String, template: &str) -> Case {
    case(name).file("s/faulty.toml", space).file("t/faulty.cu.tera", template).fails(1)
}

fn say(row: Case, words: &[&str]) -> Case {
    words.iter().fold(row, |row, word| row.says([word]))
}

pub(super) fn cases() -> Vec<Case> {
    let spaces = SPACES.iter().map(|(from, to, words)| {
        assert!(SPACE.contains(from), "{from}");
        let space = SPACE.replacen(from, to, 1);
        say(with(format!("{from:?} -> {to:?}"), space, TEMPLATE).run(DRY), words)
    });
    let templates = TEMPLATES.iter().map(|(text, words)| {
        say(with(format!("template {text}"), SPACE.to_owned(), text).run(DRY), words)
    });
    let rendered = RENDERED.iter().map(|(text, words)| {
        say(with(format!("rendered {text}"), SPACE.to_owned(), text).run(SHOWN), words)
    });
    spaces.chain(templates).chain(rendered).chain(files()).collect()
}

/// Files that are none, and texts too long for a table.
fn files() -> Vec<Case> {
    let expression = |text: String| SPACE.replacen("\"16\"", &format!("'{text}'"), 1);
    let own = |name: &str, text: String| with(name.to_owned(), text, TEMPLATE).run(DRY);
    vec![
        own("an empty file", String::new()).says(["missing field `schema`", "faulty.toml:1:1"]),
        own("a file of zeros", "\0".repeat(1000)).says(["faulty.toml:1:"]),
        own("5,000 nested arrays", format!("x = {}", "[".repeat(5000)))
            .says(["cannot recurse further", "faulty.toml:1:"]),
        own("5,000 parentheses", expression("(".repeat(5000) + "16" + &")".repeat(5000)))
            .says(["nested more than 200 deep", "faulty.toml:32:"]),
        own("5,000 negations", expression("not ".repeat(5000) + "true"))
            .says(["nested more than 200 deep"]),
        own("5,000 minus signs", expression("-".repeat(5000) + "1")).says(["faulty.toml:32:"]),
        own("a sum of 20,000 terms", expression("16".to_owned() + &" + 0".repeat(20_000)))
            .says(["nested more than 200 deep"]),
        own("3,000 nested conditions", expression("1 if true else ".repeat(3000) + "2"))
            .says(["nested more than 200 deep"]),
        with(
            "a template of 3,000 open ifs".to_owned(),
            SPACE.to_owned(),
            &"{% if true %}".repeat(3000),
        )
        .run(DRY)
        .says(["nesting is too deep", "faulty.cu.tera:1:"]),
        case("a folder of search spaces that is missing")
            .run("tune --shape 8x8x8 --spaces none")
            .fails(1)
            .says(["cannot read `none`", "No such file"]),
        case("a folder of search spaces that is a file")
            .file("s", "x")
            .run("tune --shape 8x8x8 --spaces s")
            .fails(1)
            .says(["cannot read `s`", "Not a directory"]),
        case("a folder of search spaces that is empty")
            .folder("s", 0o755)
            .run("tune --shape 8x8x8 --spaces s")
            .fails(1)
            .says(["`s` holds no search space", "put NAME.toml files there"]),
        case("a search space that is a folder")
            .folder("s/a.toml", 0o755)
            .run("tune --shape 8x8x8 --spaces s")
            .fails(1)
            .says(["cannot read `s/a.toml`", "Is a directory"]),
        case("a search space that is a link to nothing")
            .link("s/a.toml", "nowhere")
            .run("tune --shape 8x8x8 --spaces s")
            .fails(1)
            .says(["cannot read `s/a.toml`"]),
        case("a search space that may not be read")
            .unprivileged()
            .node("s/faulty.toml", Node::FileWith(SPACE.into(), 0o000))
            .run("tune --shape 8x8x8 --spaces s")
            .fails(1)
            .says(["cannot read `s/faulty.toml`", "Permission denied"]),
        case("a search space that is not UTF-8")
            .file("s/a.toml", *b"schema = 1\nname = \"\xff\"\n")
            .run("tune --shape 8x8x8 --spaces s")
            .fails(1)
            .says(["cannot read `s/a.toml`", "UTF-8"]),
        case("a family that two files declare")
            .file("s/a.toml", SPACE)
            .file("s/b.toml", SPACE)
            .run("tune --shape 8x8x8 --spaces s --templates {root}/tests/faulty/templates")
            .fails(1)
            .says(["`s/b.toml` declares family `faulty`, which `s/a.toml` declares already"]),
        case("a folder of templates that is missing")
            .run("tune --shape 8x8x8 --templates none")
            .fails(1)
            .says(["cannot read `none`"]),
        case("a folder of templates that is a file")
            .file("t", "x")
            .run("tune --shape 8x8x8 --templates t")
            .fails(1)
            .says(["cannot read `t`", "Not a directory"]),
        case("a template that is not UTF-8")
            .file("t/x.cu.tera", *b"\xff\xfe")
            .run("tune --shape 8x8x8 --templates t")
            .fails(1)
            .says(["cannot read `t/x.cu.tera`"]),
        case("a search space without its template")
            .file("s/faulty.toml", SPACE)
            .run("tune --dry-run --device cpu --shape 8x8x8 --spaces s")
            .fails(1)
            .says(["names template `faulty.cu.tera`, which does not exist"]),
    ]
}
