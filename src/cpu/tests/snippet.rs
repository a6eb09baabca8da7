//! Runs PTX statements as a kernel of one block, with all checks. Needs no compiler.

use crate::cpu::{
    ExecutionChecks, GlobalMemory, KernelParameter, LaunchError, LaunchOptions, PtxModule,
    WriteTracking, launch,
};

/// A kernel around some statements. They can use registers of all classes, 4096 bytes of shared
/// memory at `s` and 8192 bytes of global memory at `%rd1`. `%rd2` is the address of the thread's
/// own word, the result.
pub(super) fn kernel(declarations: &str, body: &str) -> String {
    format!(
        ".version 9.0\n.target sm_90\n.address_size 64\n{declarations}\n.visible .entry k(.param .u64 out)\n{{\n\
         .reg .pred %p<9>;\n.reg .b16 %h<9>;\n.reg .b32 %r<30>;\n.reg .f32 %f<30>;\n\
         .reg .b64 %rd<30>;\n.reg .f64 %fd<9>;\n.shared .align 16 .b8 s[4096];\n\
         ld.param.u64 %rd1, [out];\nmov.u32 %r0, %tid.x;\nmul.wide.u32 %rd2, %r0, 4;\n\
         add.s64 %rd2, %rd1, %rd2;\n{body}\nret;\n}}\n"
    )
}

/// Runs statements in a block of `threads` threads; returns the words of global memory.
pub(super) fn run(body: &str, threads: u32) -> Result<Vec<u32>, LaunchError> {
    run_module("", body, threads)
}

/// Runs statements with other declarations in the module.
pub(super) fn run_module(
    declarations: &str,
    body: &str,
    threads: u32,
) -> Result<Vec<u32>, LaunchError> {
    let text = kernel(declarations, body);
    let program = PtxModule::parse(&text).unwrap_or_else(|error| panic!("{body}: {error}"));
    let mut memory = GlobalMemory::new(WriteTracking::Off);
    let out = memory.allocate(8192).unwrap();
    let options = LaunchOptions {
        checks: ExecutionChecks::ALL,
        instruction_budget: 1 << 16,
        ..LaunchOptions::default()
    };
    let extents = ([1, 1, 1], [threads, 1, 1]);
    launch(
        program.kernel("k").unwrap(),
        extents,
        0,
        &[KernelParameter::Long(out)],
        &memory,
        &options,
    )?;
    let bytes = memory.read(out, 8192).unwrap();
    Ok(bytes.chunks(4).map(|chunk| u32::from_le_bytes(chunk.try_into().unwrap())).collect())
}

/// Value of `%r1` in one thread.
pub(super) fn word(body: &str) -> u32 {
    run(&format!("{body} st.global.u32 [%rd2], %r1;"), 1).unwrap()[0]
}

/// Values of `%r1` in 32 threads.
pub(super) fn warp(body: &str) -> Vec<u32> {
    run(&format!("{body} st.global.u32 [%rd2], %r1;"), 32).unwrap()[..32].to_vec()
}
