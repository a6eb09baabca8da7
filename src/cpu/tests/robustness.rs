//! Robustness: any text is either a module or an error with a location.

use rayon::prelude::*;

use crate::cpu::{
    CountingMode, ExecutionChecks, GlobalMemory, KernelParameter, LaunchError, LaunchOptions,
    PtxError, PtxLoadError, PtxModule, WriteTracking, launch,
};

/// Output of several NVRTC versions for a source with most supported instructions, of a kernel
/// for a later architecture, which another back end emits, and of a kernel with `wgmma`.
const SAMPLES: [&str; 5] = [
    include_str!("ptx/warp-12.9.ptx"),
    include_str!("ptx/warp-13.0.ptx"),
    include_str!("ptx/warp-13.5.ptx"),
    include_str!("ptx/tiled-13.5-sm_100.ptx"),
    include_str!("ptx/wgmma-13.5-sm_90a.ptx"),
];

#[test]
fn the_text_of_every_nvrtc_is_a_module() {
    for (at, sample) in SAMPLES.iter().enumerate() {
        let program = PtxModule::parse(sample).unwrap_or_else(|error| panic!("{at}: {error}"));
        assert_eq!(program.kernels().len(), 1);
    }
}

/// Fragments near the limits of the grammar.
const PIECES: [&str; 32] = [
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ";",
    ",",
    ":",
    "@",
    "!",
    "%",
    "|",
    "+",
    "-",
    ".",
    "\"",
    "/*",
    "//",
    "0x",
    "0f",
    "0d3F",
    "99999999999999999999",
    "4294967295",
    "-9223372036854775808",
    "%r999999",
    ".reg .b32 %r<4294967295>;",
    ".shared .align 16 .b8 x[1099511627776];",
    "\u{1F980}",
    ".v8",
    "_",
    "$L__BB0_1:",
];

/// Some lines of a sample within a kernel, with random errors.
fn broken(random: &mut fastrand::Rng) -> String {
    let sample = SAMPLES[random.usize(..SAMPLES.len())];
    let lines: Vec<&str> = sample.lines().collect();
    let first = random.usize(..lines.len());
    let mut text = if random.bool() {
        ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 k_param_0) {\n\
         .reg .pred %p<9>; .reg .b32 %r<99>; .reg .f32 %f<99>; .reg .b64 %rd<99>;\n"
            .to_owned()
    } else {
        String::new()
    };
    for line in lines.iter().skip(first).take(random.usize(1..12)) {
        text.push_str(line);
        text.push('\n');
    }
    text.push('}');
    for _ in 0..random.usize(0..5) {
        let places: Vec<usize> =
            text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let mut at = places[random.usize(..places.len())];
        let mut to = places[random.usize(..places.len())];
        if to < at {
            (at, to) = (to, at);
        }
        match random.u8(..5) {
            0 => text.insert_str(at, PIECES[random.usize(..PIECES.len())]),
            1 => text.truncate(to),
            2 if to - at < 20 => text.replace_range(at..to, ""),
            3 if to - at < 40 => {
                let copied = text[at..to].to_owned();
                text.insert_str(to, &copied);
            }
            _ => text.insert(at, char::from(random.u8(..128))),
        }
    }
    text
}

/// Runs every kernel with arbitrary arguments; both results and errors are valid.
fn execute(program: &PtxModule) {
    let mut memory = GlobalMemory::new(WriteTracking::Written);
    let address = memory.allocate(4096).unwrap();
    let options = LaunchOptions {
        checks: ExecutionChecks::ALL,
        counting: CountingMode::On,
        instruction_budget: 500,
        ..LaunchOptions::default()
    };
    for kernel in program.kernels() {
        let value = |bytes: &u64| match bytes {
            8 => KernelParameter::Long(address),
            _ => KernelParameter::Word(8),
        };
        let parameters: Vec<_> = kernel.facts().parameters.iter().map(value).collect();
        let _ = launch(kernel, ([1, 1, 1], [40, 1, 1]), 256, &parameters, &memory, &options);
    }
}

#[test]
fn a_hundred_thousand_broken_texts_are_modules_or_located_errors() {
    let outcomes: Vec<bool> = (0..100_000_u64)
        .into_par_iter()
        .map(|seed| {
            let text = broken(&mut fastrand::Rng::with_seed(seed));
            match PtxModule::parse(&text) {
                Ok(program) => {
                    execute(&program);
                    true
                }
                Err(PtxLoadError::Ptx(error)) => {
                    let lines = text.lines().count() as u32;
                    assert!((1..=lines.max(1) + 1).contains(&error.line()), "{seed}: {error}");
                    false
                }
                Err(error) => panic!("{seed}: {error}"),
            }
        })
        .collect();
    let programs = outcomes.iter().filter(|outcome| **outcome).count();
    // Both outcomes must be frequent.
    assert!(programs > 1000 && programs < 99_000, "{programs}");
}

/// Runs a kernel of 40 threads around some statements, with all checks and counting.
fn extreme(body: &str) -> Result<(), LaunchError> {
    let text = format!(
        ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out)\n{{\n\
         .reg .pred %p<9>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.shared .align 16 .b8 s[64];\n\
         .local .align 16 .b8 l[64];\nld.param.u64 %rd1, [out];\n{body}\nret;\n}}\n"
    );
    let program = PtxModule::parse(&text).unwrap_or_else(|error| panic!("{body}: {error}"));
    let mut memory = GlobalMemory::new(WriteTracking::Written);
    let address = memory.allocate(64).unwrap();
    memory.fill_with(address, 16, |_| 0).unwrap();
    let options = LaunchOptions {
        checks: ExecutionChecks::ALL,
        counting: CountingMode::On,
        instruction_budget: 500,
        ..LaunchOptions::default()
    };
    let parameters = [KernelParameter::Long(address)];
    let extents = ([1, 1, 1], [40, 1, 1]);
    launch(&program.kernels()[0], extents, 0, &parameters, &memory, &options).map(|_| ())
}

#[test]
fn no_address_and_no_count_is_too_large() {
    for body in [
        "ld.global.u16 %r1, [-2];",
        "st.global.u16 [-2], 0;",
        "ld.u16 %r1, [-2];",
        "ld.shared.u32 %r1, [-4];",
        "st.shared.v4.u32 [-16], {0, 0, 0, 0};",
        "ld.local.v4.u32 {%r1, %r2, %r3, %r4}, [-16];",
        "ld.param.v4.u32 {%r1, %r2, %r3, %r4}, [out-16];",
        "ld.param.u32 %r1, [out+9223372036854775804];",
        "red.global.add.u64 [-8], 1;",
        "red.shared.add.u32 [-4], 1;",
        "cp.async.cg.shared.global [s], [-16], 16;",
        "cp.async.cg.shared.global [-16], [%rd1], 16;",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [-16];",
        "bar.sync 0, 0;",
        "bar.sync 0, 4294967295;",
        "bar.arrive 0, 4294967264;",
        "bar.sync 4294967295;",
        "ld.shared::cluster.u32 %r1, [-4];",
        "ld.shared::cluster.u32 %r1, [33554432];",
        "mov.u64 %rd2, -4; st.shared::cluster.u32 [%rd2], 0;",
        "red.shared::cluster.add.u32 [16777216], 0;",
        "mapa.u64 %rd2, %rd1, 0; ld.u32 %r1, [%rd2+64];",
        "mapa.shared::cluster.u32 %r1, s, 4294967295; ld.shared::cluster.u32 %r1, [%r1];",
        "mov.u64 %rd2, 167772160; ld.u32 %r1, [%rd2];",
        "barrier.cluster.arrive; exit; barrier.cluster.wait;",
    ] {
        extreme(body).expect_err(body);
    }
    for body in [
        "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; cp.async.commit_group; \
         @%p1 cp.async.ca.shared.global [s], [%rd1], 4; cp.async.wait_group 4294967295;",
        "shl.b32 %r1, 1, 4294967295; shf.l.clamp.b32 %r1, 1, 1, 4294967295;",
        "bfe.s32 %r1, -1, 255, 255; bfi.b32 %r1, -1, -1, 255, 255;",
        "rem.s32 %r1, -2147483648, -1; div.s64 %rd2, -9223372036854775808, -1;",
        "mov.u64 %rd2, -1; mapa.u64 %rd3, %rd2, -1; getctarank.u64 %r1, %rd3; mapa.shared::cluster.u64 %rd3, %rd2, -1;",
    ] {
        extreme(body).unwrap_or_else(|error| panic!("{body}: {error}"));
    }
}

#[test]
fn the_resources_of_a_text_are_bounded() {
    let within = |text: &str| format!(".visible .entry k() {{\n{text}\n}}");
    for (text, expected) in [
        (
            within(&format!("{}{}", "{".repeat(65), "}".repeat(65))),
            "braces are nested more than 64 deep",
        ),
        (".global .b8 a[268435457];".to_owned(), "exceed 256 MiB"),
        (".global .b64 a[2305843009213693952];".to_owned(), "exceeds the address space"),
        (".global .b8 a[1] = {1, 2};".to_owned(), "more values than elements"),
        (within(".shared .b8 a[1048577];"), "exceeds 1 MiB"),
        (within(".local .b8 a[524289];"), "exceeds 512 KiB"),
        (within(".local .b8 a[];"), "the variable has no size"),
    ] {
        let error = PtxModule::parse(&text).expect_err(&text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn an_error_names_the_line_and_the_problem() {
    let kernel = |body: &str| {
        format!(
            ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{{\n.reg .b32 \
             %r<4>;\n.loc 1 7 3\n{body}\n}}\n.file 1 \"kernel.cu\"\n"
        )
    };
    for (text, line, expected) in [
        ("nonsense".to_owned(), 1, "expected a directive, found `nonsense`"),
        (kernel("add.s32 %r1, %r2 %r3;"), 8, "expected `,`, found `%r3;`"),
        (
            kernel("\nfrobnicate.u32 %r1;"),
            9,
            "from kernel.cu:7: `frobnicate.u32`: this device does not",
        ),
        (kernel("add.quick.s32 %r1, %r2, %r3;"), 8, "modifier `.quick` is not supported"),
        (kernel("add.s32 %r1, %r9, %r3;"), 8, "`%r9` is not declared"),
        (kernel("bra $L;"), 8, "the label is not defined"),
        (kernel("add.s32 %r1;"), 8, "with these operands"),
        (kernel(".reg .b128 %q;"), 8, "`.b128` is not a supported register type"),
        (kernel("ld.shared.v16.f32 %r1, [%r2];"), 8, "modifier `.v16` is not supported"),
    ] {
        let error = match PtxModule::parse(&text) {
            Err(PtxLoadError::Ptx(error)) => error,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(error.line(), line, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        let source =
            matches!(&error, PtxError::Statement { source_line: Some(line), .. } if line.line == 7);
        assert_eq!(source, matches!(error, PtxError::Statement { .. }), "{error}");
    }
}
