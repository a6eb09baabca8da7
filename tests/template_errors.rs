//! Errors in kernels name the template's file, line and column, and not those of the rendered text.

use std::fs;

use gemm_tune::model::{Device, Layout, Problem};
use gemm_tune::render::{SourceMap, Templates};
use gemm_tune::space::Families;
use serde_json::Value;

use crate::support::program::gemm_tune;
use crate::support::{CACHE, nvrtc_or_skip};

const SPACE: &str = r#"schema = 1
name = "own"
summary = "a family with mistakes"
dtypes = ["f32"]
compute = ["f32"]
layouts = ["nn"]
parameters = { UNROLL = [2, 4], MODE = ["a"] }
default = { UNROLL = 2, MODE = "a" }

[[kernels]]
entry = "gemm"
grid = [1, 1, 1]
block = [32]
"#;

/// Every way in which text of templates gets into a source.
const TEMPLATE: &str = r#"{# A comment of
   two lines #}
{% include "parts/helper.cuh.tera" %}
{% set block -%}
    float in_block = 0;
{%- endset -%}
extern "C" __global__ void
{% include "parts/signature.cuh.tera" -%}
{
    int plain = 0;
    int next = 0;
{%- for i in range(end=UNROLL) %}

    int in_loop_{{ i }} = {{ i }};
{%- endfor %}
{%- if MODE == "b" %}
    int other = 0;
{%- else %}
    int in_branch = 0;
{%- endif %}
    int joined = {% if MODE == "a" -%}
        0;
    {%- endif %} int behind = 0;
    int value = {{
        UNROLL ~ ""
    }};
    {% raw %}int in_raw[1][1] = {{ 0 }};{% endraw %}
    {{ block }}
    asm("" ::);
}
"#;

const HELPER: &str = "// A part of the family's own.\n\n__device__ int helper() { return 1; }\n";

const MAIN: &str = "own.cu.tera";
const PART: &str = "parts/helper.cuh.tera";

/// The files of the family in a folder, with one text in place of another.
fn own_family(file: &str, old: &str, new: &str) -> tempfile::TempDir {
    let text = if file == MAIN { TEMPLATE } else { HELPER };
    assert_eq!(text.matches(old).count(), 1, "{old}");
    family_of(&[(file, &text.replace(old, new))])
}

/// The files of the family in a folder, with other texts of some templates.
fn family_of(changed: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("parts")).unwrap();
    fs::write(path("own.toml"), SPACE).unwrap();
    for (name, text) in [(MAIN, TEMPLATE), (PART, HELPER)] {
        let changed = changed.iter().find(|(changed, _)| *changed == name);
        fs::write(path(name), changed.map_or(text, |(_, text)| text)).unwrap();
    }
    folder
}

/// The failure of the family with one text in place of another: its message, and what is printed.
fn failure(file: &str, old: &str, new: &str) -> (String, String) {
    failure_in(&own_family(file, old, new))
}

/// The same with other texts of templates.
fn failure_of(changed: &[(&str, &str)]) -> (String, String) {
    failure_in(&family_of(changed))
}

fn failure_in(folder: &tempfile::TempDir) -> (String, String) {
    let folder = folder.path().to_str().unwrap();
    let check =
        ["check", "--family", "own", "--shape", "4x4x4", "--layout", "nn", "--cache", CACHE];
    let arguments = [&check[..], &["--spaces", folder, "--templates", folder]].concat();
    let said = gemm_tune(&[&arguments[..], &["--json"]].concat());
    assert_eq!(said.code, Some(1), "{}", said.err);
    let document: Value = serde_json::from_str(&said.out).unwrap();
    let message = document["checked"][0]["failures"][0]["message"].as_str();
    let within = |text: &str| text.replace(&format!("{folder}/"), "");
    (within(message.unwrap_or_else(|| panic!("{document}"))), within(&gemm_tune(&arguments).out))
}

/// Line and column (from 1) of a word in an edited file.
fn place(file: &str, (old, new): (&str, &str), word: &str) -> String {
    let text = if file == MAIN { TEMPLATE } else { HELPER }.replace(old, new);
    let at = text.find(word).unwrap();
    let line = text[..at].matches('\n').count() + 1;
    let column = at - text[..at].rfind('\n').map_or(0, |at| at + 1) + 1;
    format!("{file}:{line}:{column}")
}

#[test]
fn compile_errors_name_the_line_and_column_of_the_template() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    // The mistake, and the word that the compiler points to.
    for (file, old, new, word) in [
        (MAIN, "plain = 0", "plain = oops", "oops"),
        (MAIN, "plain = 0;", "plain = 0", "int next"),
        (PART, "return 1", "return oops", "oops"),
        (MAIN, "= {{ i }}", "= {{ i }} + oops", "oops"),
        (MAIN, "in_branch = 0", "in_branch = oops", "oops"),
        (MAIN, "        0;\n", "        oops;\n", "oops"),
        (MAIN, "behind = 0", "behind = oops", "oops"),
        (MAIN, "UNROLL ~ \"\"", "\"oops\"", "{{\n"),
        (MAIN, "{{ 0 }};{", "{{ oops }};{", "oops"),
        (MAIN, "in_block = 0", "in_block = oops", "oops"),
        (MAIN, "__global__ void", "__global__ oops", "oops"),
        (MAIN, "int plain", "µint oops plain", "µint"),
    ] {
        let (message, printed) = failure(file, old, new);
        let place = place(file, (old, new), word);
        assert!(message.starts_with(&format!("{place}: error: ")), "{place}: {message}");
        assert!(printed.contains(&format!("--> {place}\n")), "{place}: {printed}");
        let count = "own fails in 2 executions, such as UNROLL=2 MODE=a for 4x4x4 f32 nn:";
        assert!(printed.contains(count), "{printed}");
        assert_eq!(printed.matches(" fails in ").count(), 1, "{printed}");
        assert!(printed.contains('^') && !printed.contains("own.cu("), "{printed}");
    }
}

#[test]
fn other_failures_name_the_template_too() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    for (file, old, new, line, words) in [
        (MAIN, "asm(\"\" ::)", "asm(\"bogus;\" ::)", 29, "`bogus`: this device does not support"),
        (MAIN, "int next = 0;", "C[M * N] = 0;", 11, "out of bounds"),
        (MAIN, "int next = 0;", "#include \"x.h\"", 11, "`#include \"x.h\"` is refused"),
        (MAIN, "UNROLL ~ \"\"", "UNROLL / 0", 25, "divide by 0"),
    ] {
        let (message, printed) = failure(file, old, new);
        assert!(message.contains(words), "{new}: {message}");
        assert!(message.contains(&format!("{file}:{line}")), "{new}: {message}");
        assert!(printed.contains(&format!("--> {file}:{line}:")), "{new}: {printed}");
    }
}

#[test]
fn a_header_of_cuda_is_missing_with_advice() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    let (message, printed) = failure(MAIN, "{% set block", "#include <cuda_fp16.h>\n{% set block");
    assert!(message.contains("could not open source file \"cuda_fp16.h\""), "{message}");
    for text in [&message, &printed] {
        assert!(text.contains("no header of CUDA or C++ is available"), "{text}");
    }
}

#[test]
fn an_error_after_the_faulty_line_leads_to_it() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    // A `;` is missing before an include, whose first line is a comment.
    let begin = "{% include \"parts/helper.cuh.tera\" %}";
    let main = TEMPLATE.replace(begin, &format!("constexpr int LONE = 1\n{begin}"));
    let (message, printed) = failure_of(&[(MAIN, &main)]);
    assert!(message.starts_with(&format!("{PART}:3:1: error: expected a \";\"")), "{message}");
    let advice = format!("the fault may lie before this include: look at {MAIN}:3");
    assert!(message.contains(&advice) && printed.contains(&advice), "{message}");
    // The kernel has no end.
    let main = TEMPLATE.trim_end().strip_suffix('}').unwrap();
    let (message, printed) = failure_of(&[(MAIN, main)]);
    let place = format!("{MAIN}:29:5");
    assert!(message.starts_with(&format!("{place}: error: expected a \"}}\"")), "{message}");
    assert!(message.contains(&format!("no `}}` closes the `{{` at {MAIN}:9")), "{message}");
    assert!(printed.contains(&format!("--> {place}\n")), "{printed}");
}

#[test]
fn a_fault_in_a_part_names_the_line_of_the_template_that_calls_it() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    let nested = "__device__ __forceinline__ void inner(float* C, int at)\n{\n    C[at] = 1;\n}\n\n\
                  __device__ __forceinline__ void outer(float* C, int at)\n{\n    inner(C, at);\n}\n";
    let part = format!("{HELPER}{nested}");
    let main = TEMPLATE.replace("int next = 0;", "outer(C, M * N);");
    let (message, printed) = failure_of(&[(MAIN, &main), (PART, &part)]);
    let lines = format!("{PART}:6 (inlined at {PART}:11, at {MAIN}:11)");
    assert!(message.contains("out of bounds") && message.contains(&lines), "{message}");
    let call = format!("inlined here\n    --> {MAIN}:11:5\n");
    assert!(printed.contains(&format!("--> {PART}:6:5\n")) && printed.contains(&call), "{printed}");
    assert!(!printed.contains(&format!("--> {PART}:11")), "{printed}");
}

#[test]
fn a_race_names_the_array_and_both_lines() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    let race = "__shared__ float tile[32];\n    tile[threadIdx.x] = alpha;\n    \
                C[0] = tile[threadIdx.x ^ 1];";
    let main = TEMPLATE.replace("int next = 0;", race);
    let (message, printed) = failure_of(&[(MAIN, &main)]);
    assert!(message.contains("race: shared memory (byte 4 of `tile`) is read after"), "{message}");
    let (read, write) = (format!("--> {MAIN}:13:5\n"), format!("--> {MAIN}:12:5\n"));
    assert!(printed.contains(&read), "{printed}");
    assert!(printed.contains(&format!("written here\n    {write}")), "{printed}");
}

#[test]
fn declared_shared_memory_that_no_assembler_accepts_is_refused() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    let declared = |floats: usize| {
        format!(
            "__shared__ float tile[{floats}]; tile[threadIdx.x] = alpha; C[0] = tile[threadIdx.x];"
        )
    };
    let (message, _) = failure(MAIN, "int plain = 0;", &declared((48 << 8) + 1));
    assert!(message.contains("declares 49156 bytes of shared memory"), "{message}");
    assert!(message.contains("add a constraint"), "{message}");
    // It is executed, and computes something else.
    let (message, _) = failure(MAIN, "int plain = 0;", &declared(48 << 8));
    assert!(!message.contains("shared memory, and"), "{message}");
}

#[test]
fn a_search_without_a_winner_shows_each_failure_once() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    let folder = own_family(MAIN, "plain = 0", "plain = oops");
    let path = folder.path().to_str().unwrap();
    let database = folder.path().join("db");
    let said = gemm_tune(
        &[
            &["--shape", "4x4x4", "--device", "cpu", "--db", database.to_str().unwrap()],
            &["--spaces", path, "--templates", path, "--cache", CACHE][..],
        ]
        .concat(),
    );
    assert_eq!(said.code, Some(1), "{}", said.err);
    let place = place(MAIN, ("plain = 0", "plain = oops"), "oops");
    assert!(said.err.contains("own fails in 2 candidates, such as UNROLL="), "{}", said.err);
    assert!(said.err.contains(&place), "{}", said.err);
    assert_eq!(said.err.matches("`oops`").count() + said.err.matches("\"oops\"").count(), 1);

    let said = gemm_tune(
        &[
            &["inspect", "--shape", "4x4x4", "--family", "own", "--emit", "ptx"],
            &["--spaces", path, "--templates", path, "--cache", CACHE][..],
        ]
        .concat(),
    );
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("the source does not compile\n"), "{}", said.err);
    assert!(said.err.contains(&place), "{}", said.err);
}

/// Marks would change the length of a text that a template measures.
#[test]
fn without_a_line_of_the_template_the_rendered_line_is_shown() {
    if nvrtc_or_skip().is_none() {
        return;
    }
    let measured = "int plain = oops + {{ block | length }}";
    let (message, printed) = failure(MAIN, "int plain = 0", measured);
    assert!(message.starts_with("own.cu:"), "{message}");
    assert!(printed.contains("int plain = oops + "), "{printed}");
    assert!(printed.contains("no line of a template was found"), "{printed}");
}

#[test]
fn every_line_of_the_built_in_families_has_a_place() {
    let device = Device::h200();
    let templates = Templates::built_in().unwrap();
    for family in Families::built_in().unwrap().iter() {
        let layouts = [Layout::Nn, Layout::Tn].into_iter();
        let types = gemm_tune::model::GemmType::all();
        let problems = types.flat_map(|types| layouts.clone().map(move |layout| (types, layout)));
        let shapes =
            ["4096x4096x4096", "4096x4x4096", "64x64x16"].map(|shape| shape.parse().unwrap());
        let problems = problems.flat_map(|one| shapes.map(|shape| (one, shape)));
        let problems = problems.filter_map(|((types, layout), shape)| {
            let epilogue = gemm_tune::model::Epilogue::NONE;
            let pattern = gemm_tune::model::ProblemPattern { types, layout, epilogue };
            let problem: Problem = pattern.problem(shape);
            // Where pruned, the family's own default.
            let default = family.default_for(&problem, &device).ok()?;
            let default = default.unwrap_or_else(|| family.default().clone());
            if family.forbidden(&default, &problem, &device).ok()?.is_some() {
                return None;
            }
            family.refusal(&problem, &device).is_none().then_some((problem, default))
        });
        let mut lines = 0;
        for (problem, configuration) in problems {
            let map = SourceMap::new(family, &templates, &configuration, &problem, &device);
            let map = map.unwrap();
            let first = (1..).find(|line| map.line(*line).unwrap().1.is_empty()).unwrap();
            let source = (first..).map_while(|line| Some((line, map.line(line)?.1)));
            for (line, text) in source.filter(|(_, text)| !text.is_empty()) {
                let column = text.chars().take_while(|c| *c == ' ').count() + 1;
                let place = map.place(line, Some(column), String::new());
                assert_eq!(place.help, None, "{}: {text}", family.name);
                let piece = &place.source[place.span];
                assert!(
                    piece.starts_with("{{") || text.trim().starts_with(piece),
                    "{text}: {piece}"
                );
                lines += 1;
            }
        }
        assert!(lines > 20, "{} has {lines} lines", family.name);
    }
}
