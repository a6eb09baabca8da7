//! Declarations of a module besides kernels: variables with values, functions and calls.

use super::snippet::{kernel, run_module};
use crate::cpu::PtxModule;

const DOUBLE: &str = ".func (.param .b32 result) double(.param .b32 value)\n{\n\
     .reg .b32 %r<3>;\n.reg .pred %p<2>;\nld.param.u32 %r1, [value];\nsetp.eq.u32 %p1, %r1, 3;\n\
     @%p1 bra $SPECIAL;\nadd.u32 %r1, %r1, %r1;\nst.param.b32 [result], %r1;\nret;\n\
     $SPECIAL:\nst.param.b32 [result], 100;\nret;\n}\n";

/// Statements that call a function with one number and load its result.
fn call(function: &str, given: &str) -> String {
    format!(
        "{{ .param .b32 argument; .param .b32 back; st.param.b32 [argument], {given}; \
         call.uni (back), {function}, (argument); ld.param.b32 %r1, [back]; }}"
    )
}

#[test]
fn a_call_executes_the_statements_of_its_function() {
    let body = format!("{} st.global.u32 [%rd2], %r1;", call("double", "%r0"));
    let words = run_module(DOUBLE, &body, 64).unwrap();
    for (thread, word) in words[..64].iter().enumerate() {
        assert_eq!(*word as usize, if thread == 3 { 100 } else { 2 * thread });
    }
    // Two calls, one of them nested: their labels and registers are separate.
    let twice = format!(
        "{DOUBLE}.func (.param .b32 result) quadruple(.param .b32 value)\n{{\n.reg .b32 %r<3>;\n\
         ld.param.u32 %r0, [value];\n{} {} st.param.b32 [result], %r1;\nret;\n}}\n",
        call("double", "%r0"),
        call("double", "%r1"),
    );
    let body = format!("{} st.global.u32 [%rd2], %r1;", call("quadruple", "%r0"));
    let words = run_module(&twice, &body, 8).unwrap();
    assert_eq!(words[..8], [0, 4, 8, 200, 16, 20, 24, 28]);
}

#[test]
fn variables_of_a_module_have_their_values() {
    let declarations = ".const .align 4 .b32 table[4] = {10, 20, 30};\n\
         .global .align 8 .u64 wide[2] = {1, 0x500000000};\n.global .u32 cleared[3];\n";
    for (body, expected) in [
        ("ld.const.u32 %r1, [table+4];", 20),
        ("ld.const.u32 %r1, [table+12];", 0),
        ("ld.global.u32 %r1, [wide+12];", 5),
        ("ld.global.u32 %r1, [cleared+8];", 0),
        ("st.global.u32 [cleared], 8; ld.global.u32 %r1, [cleared];", 8),
        ("mov.u64 %rd3, wide; cvta.global.u64 %rd3, %rd3; ld.u32 %r1, [%rd3+12];", 5),
    ] {
        let words = run_module(declarations, &format!("{body} st.global.u32 [%rd2], %r1;"), 1);
        assert_eq!(words.unwrap()[0], expected, "{body}");
    }
}

#[test]
fn a_call_that_cannot_be_executed_is_an_error_that_says_why() {
    let recursive = format!(
        ".func (.param .b32 result) again(.param .b32 value)\n{{\n.reg .b32 %r<3>;\n{}\nret;\n}}\n",
        call("again", "1")
    );
    for (declarations, body, what) in [
        (recursive.as_str(), call("again", "1"), "`again` is recursive"),
        ("", call("nobody", "1"), "`nobody` has no body in this module"),
        ("", "call.uni vprintf;".to_owned(), "this device does not support `printf`"),
        ("", "call.uni %rd1;".to_owned(), "only direct calls"),
        (
            DOUBLE,
            "call.uni double;".to_owned(),
            "the call passes 0 parameters, but the function has 1",
        ),
        (
            DOUBLE,
            "{ .param .b64 wide; .param .b32 back; call.uni (back), double, (wide); }".to_owned(),
            "`value` has 4 bytes, but the argument has 8",
        ),
    ] {
        let error = PtxModule::parse(&kernel(declarations, &body)).expect_err(&body).to_string();
        assert!(error.contains(what), "{body}: {error}");
    }
}
