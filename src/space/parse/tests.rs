//! What a search-space file must say, and what is said where it does not.

use super::*;
use crate::model::{Device, Dtype, Problem, Shape, Swizzle};
use crate::space::LegalSpace;

const WHOLE: &str = r#"schema = 1
name = "simt"
summary = "a test"
dtypes = ["f32"]
compute = ["f32"]
layouts = ["nn", "tt"]

[parameters]
BM = [32, 64]
WM = [8, 16]

[derived]
WARPS = "BM // WM"

[[constraints]]
require = "BM % WM == 0"
because = "whole warps"

[[workspaces]]
name = "partials"
bytes = "4 * M * N"

[[tensor_maps]]
name = "map_a"
operand = "A"
extents = ["K", "M"]
strides = ["lda"]
tile = [32, "BM"]
swizzle = "128B"

[[kernels]]
entry = "gemm"
grid = ["M | ceil_div(by=BM)"]
block = ["32 * WARPS"]
arguments = ["map_a", "C", "partials"]

[default]
BM = 32
WM = 8
"#;

#[test]
fn a_whole_file_becomes_a_family() {
    let family = Family::parse("simt.toml", WHOLE).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(family.template, "simt.cu.tera");
    assert_eq!(family.tensor_maps[0].swizzle, Swizzle::B128);
    assert_eq!(family.tensor_maps[0].rounds_to, None);
    let arguments = family.kernels[0].arguments.iter().flatten();
    let arguments: Vec<&str> = arguments.map(Argument::name).collect();
    assert_eq!(arguments, ["map_a", "C", "partials"]);
}

#[test]
fn what_is_not_deterministic_is_a_rule_of_its_own() {
    let text = WHOLE.replacen("[parameters]", "nondeterministic = \"WARPS == 8\"\n[parameters]", 1);
    let family = Family::parse("simt.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let (problem, device) = (problem(), Device::h200());
    let named = |text: &str| family.read_configuration(text).unwrap();
    let broken = |family: &Family, text: &str| {
        let found = family.violated(&named(text), &problem, &device).unwrap();
        found.map(|constraint| (constraint.text.clone(), constraint.excludes))
    };
    for (text, deterministic) in [("BM=64 WM=8", false), ("BM=32 WM=8", true)] {
        let found = family.is_deterministic(&named(text), &problem, &device).unwrap();
        assert_eq!(found, deterministic, "{text}");
        let rule = ("not (WARPS == 8)".to_owned(), Excludes::Nondeterministic);
        assert_eq!(broken(&family, text), (!deterministic).then_some(rule), "{text}");
        // It is right, and searched by who allows it.
        assert!(family.forbidden(&named(text), &problem, &device).unwrap().is_none());
        assert_eq!(broken(&family.clone().allowing_nondeterministic(), text), None);
    }

    // Spaces count it, and do not admit it as a record; defaults are others.
    let space = |family: &Family| {
        let mut space = LegalSpace::of(family, &problem, &device).unwrap();
        space.admit(family, (&problem, &device), [&named("BM=64 WM=8")]).unwrap();
        (space.len(), space.pruned.iter().map(|rule| rule.configurations).sum::<u128>())
    };
    assert_eq!(space(&family), (3, 1));
    assert_eq!(space(&family.clone().allowing_nondeterministic()), (4, 0));
    let only = text.replacen("BM = 32\nWM = 8", "BM = 64\nWM = 8", 1);
    let only = Family::parse("simt.toml", &only).unwrap();
    assert_eq!(only.default_for(&problem, &device).unwrap(), None);
}

fn problem() -> Problem {
    Problem::new(Shape { m: 64, n: 64, k: 64 }, Dtype::F32)
}

#[test]
fn a_condition_that_is_no_condition_is_named() {
    let text = WHOLE.replacen("[parameters]", "nondeterministic = \"BM\"\n[parameters]", 1);
    let family = Family::parse("simt.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let default = family.default();
    let error = family.is_deterministic(default, &problem(), &Device::h200()).unwrap_err();
    let summary = error.summary();
    assert!(summary.contains("simt.toml:8:20: a condition is true or false"), "{summary}");
}

#[test]
fn a_mistake_is_named_with_its_place_and_the_way_out() {
    for (right, wrong, expected) in [
        (
            "[derived]",
            "[derivd]",
            "simt.toml:12:2: unknown field `derivd` (did you mean `derived`?)",
        ),
        (
            "BM % WM == 0",
            "BM % WMM == 0",
            "simt.toml:16:17: unknown name `WMM` (did you mean `WM`?)",
        ),
        ("BM % WM == 0", "BM % (WM == 0", "simt.toml:16:25: found the end where `)` is expected"),
        (
            "[parameters]",
            "nondeterministic = \"BM == WMM\"\n[parameters]",
            "simt.toml:8:27: unknown name `WMM` (did you mean `WM`?)",
        ),
        ("[parameters]", "nondeterministic = \"BM ==\"\n[parameters]", "simt.toml:8:"),
        ("[parameters]", "nondeterministic = true\n[parameters]", "simt.toml:8:20:"),
        (
            "[[constraints]]",
            "[specialized]\nBM = \"true\"\n[[constraints]]",
            "simt.toml:16:1: `BM` is no derived value of this family",
        ),
        (
            "[[constraints]]",
            "[specialized]\nWARPS = \"WARPZ > 1\"\n[[constraints]]",
            "simt.toml:16:10: unknown name `WARPZ` (did you mean `WARPS`?)",
        ),
        ("schema = 1", "schema = 2", "simt.toml:1:10: schema is 2, this program reads 1"),
        ("\"f32\"]\ncompute", "\"f23\"]\ncompute", "simt.toml:4:11: `f23` is no dtype"),
        ("BM = [32, 64]", "BM = [32, true]", "simt.toml:9:11: `BM` mixes kinds of values"),
        ("BM = [32, 64]", "BM = [32, 32]", "simt.toml:9:11: 32 is listed twice"),
        ("BM = [32, 64]", "BM = []", "simt.toml:9:6: `BM` has no value"),
        ("BM = [32, 64]", "sms = [32, 64]", "simt.toml:9:1: `sms` is a built-in name"),
        ("BM // WM", "BM // WARPS", "derived values depend on one another: WARPS"),
        ("\"partials\"]", "\"partial\"]", "`partial` is no argument (did you mean `partials`?)"),
        (
            "operand = \"A\"",
            "operand = \"X\"",
            "`X` is no operand (choose one of A, B, C, partials)",
        ),
        ("tile = [32, ", "tile = [", "`tile` has 2 extents, this has 1"),
        ("strides = [\"lda\"]", "", "`strides` has 1 extents, this has 0"),
        ("\"128B\"", "\"96B\"", "`96B` is no swizzle: choose one of none, 32B, 64B, 128B"),
        ("\"map_a\"", "\"partials\"", "`partials` is the name of a workspace already"),
        ("\"map_a\"", "\"beta\"", "`beta` is an argument of all kernels"),
        (
            "[[workspaces]]",
            "[[workspaces]]\nname = \"partials\"\nbytes = 4\n[[workspaces]]",
            "two workspaces are named `partials`",
        ),
        (
            "[[workspaces]]",
            "[[workspaces]]\nalign = 48",
            "`align` is 48: a workspace is aligned to a power of two up to 256 bytes",
        ),
        ("[[workspaces]]", "[[workspaces]]\nalign = 512", "`align` is 512: "),
        (
            "bytes = \"4 * M * N\"\n\n[[tensor_maps]]\nname = \"map_a\"\noperand = \"A\"",
            "bytes = \"4 * M * N\"\nalign = 8\n[[tensor_maps]]\nname = \"map_a\"\noperand = \"partials\"",
            "workspace `partials` is aligned to 8 bytes, and a tensor map needs 16",
        ),
        (
            "swizzle = \"128B\"",
            "rounds_to = \"f16\"",
            "`f16` is no type that copies round to: choose one of tf32",
        ),
        (
            "operand = \"A\"",
            "operand = \"C\"\nrounds_to = \"tf32\"",
            "operands of products are rounded, and C is none: omit `rounds_to`",
        ),
        ("\"partials\"", "\"C\"", "`C` is an argument of all kernels"),
        (
            "WM = 8\n",
            "WM = 9\n",
            "the default has `WM` = 9, which is not listed (choose one of 8, 16)",
        ),
        ("WM = 8\n", "", "the default has no value for `WM`"),
        (
            "WM = 8\n",
            "WWM = 8\n",
            "the default has no value for `WM` (`WWM` is no parameter; did you mean `WM`?)",
        ),
        ("grid = [", "grid = [1, 1, 1, ", "`grid` has 1 to 3 extents, this has 4"),
        ("summary = \"a test\"", "", "missing field `summary`"),
        ("name = \"simt\"", "name = \"../x\"", "simt.toml:2:8: a family's name has letters"),
        ("[[kernels]]", "[[kernels", "simt.toml:"),
    ] {
        assert!(WHOLE.contains(right), "{right}");
        let error = match Family::parse("simt.toml", &WHOLE.replacen(right, wrong, 1)) {
            Err(error) => error.summary(),
            Ok(_) => panic!("{wrong} was accepted"),
        };
        assert!(error.contains(expected), "{wrong}: {error}");
    }
}
