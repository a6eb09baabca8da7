//! Programmatic dependent launch: accesses before `griddepcontrol.wait` that conflict with an earlier launch.

use std::sync::Arc;

use super::checked;
use crate::cpu::{
    AccessRecord, CountingMode, ExecutionCheck, ExecutionChecks, GlobalMemory, KernelParameter,
    LaunchError, LaunchOptions, PtxModule, Violation, ViolationKind, WriteTracking, launch,
};
use crate::model::{Dtype, PlacedMap, Swizzle};

/// Kernels of 64 threads around statements. Each has the addresses of 1024 bytes of input in `%rd1`, of results in
/// `%rd2`, and of the thread's word there in `%rd3` and `%rd4`; the map of the results as 8 x 4 words in `%rd6`; 512
/// bytes of shared memory at `%r9`; an mbarrier at `%r8`. `%p1` is true in the first thread, `%p2` in the second warp.
fn module(bodies: &[&str]) -> PtxModule {
    let kernel = |(number, body): (usize, &&str)| {
        format!(
            ".visible .entry k{number}(.param .u64 in, .param .u64 out, .param .align 64 .b8 map[128])\n\
             {{\n.reg .pred %p<9>;\n.reg .b32 %r<30>;\n.reg .b64 %rd<30>;\n\
             .shared .align 128 .b8 s[512];\n.shared .align 8 .b8 bar[8];\n\
             ld.param.u64 %rd1, [in];\nld.param.u64 %rd2, [out];\nmov.b64 %rd5, map;\ncvta.param.u64 %rd6, %rd5;\n\
             mov.u32 %r0, %tid.x;\nsetp.eq.u32 %p1, %r0, 0;\nsetp.ge.u32 %p2, %r0, 32;\n\
             mul.wide.u32 %rd7, %r0, 4;\nadd.s64 %rd3, %rd1, %rd7;\nadd.s64 %rd4, %rd2, %rd7;\n\
             mov.u32 %r9, s;\nmov.u32 %r8, bar;\nmov.u32 %r1, 7;\nmov.u32 %r20, 0;\nmov.u32 %r21, 0;\n\
             .loc 1 7 3\n{body}\nret;\n}}\n"
        )
    };
    let kernels: String = bodies.iter().enumerate().map(kernel).collect();
    let text = format!(
        ".version 9.0\n.target sm_90\n.address_size 64\n.global .align 4 .b8 total[4];\n{kernels}.file 1 \"kernel.cu\"\n"
    );
    PtxModule::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Memory and parameters for a module's kernels.
struct Launches {
    program: PtxModule,
    memory: GlobalMemory,
    parameters: [KernelParameter; 3],
    output: u64,
    blocks: u32,
}

impl Launches {
    fn new(bodies: &[&str]) -> Self {
        let program = module(bodies);
        let mut memory = GlobalMemory::new(WriteTracking::Written);
        let [input, output] = [(); 2].map(|()| memory.allocate(1024).unwrap());
        memory.fill_with(input, 256, |at| at as u32).unwrap();
        memory.fill_with(output, 256, |_| 1).unwrap();
        let map = PlacedMap {
            address: output,
            dtype: Dtype::I32,
            rank: 2,
            extents: [8, 8, 1, 1, 1],
            strides: [32, 0, 0, 0],
            tile: [8, 4, 1, 1, 1],
            swizzle: Swizzle::None,
            rounds_to: None,
        };
        let parameters = [input, output].map(KernelParameter::Long);
        let parameters = [parameters[0], parameters[1], KernelParameter::Map(map)];
        Self { program, memory, parameters, output, blocks: 1 }
    }

    fn record(&self) -> Arc<AccessRecord> {
        Arc::new(self.memory.access_record().unwrap())
    }

    fn launch(&self, number: usize, options: &LaunchOptions) -> Result<(), Box<Violation>> {
        let kernel = &self.program.kernels()[number];
        let extents = ([self.blocks, 1, 1], [64, 1, 1]);
        match launch(kernel, extents, 0, &self.parameters, &self.memory, options) {
            Ok(_) => Ok(()),
            Err(LaunchError::Violation(violation)) => Err(violation),
            Err(other) => panic!("{other}"),
        }
    }

    /// Runs the first kernel, and then the second one with `options` while the first may still run.
    fn overlapping(&self, options: LaunchOptions) -> Result<(), Box<Violation>> {
        let record = self.record();
        self.launch(0, &LaunchOptions { record: Some(Arc::clone(&record)), ..checked() })?;
        self.launch(1, &LaunchOptions { unfinished: vec![record], ..options })
    }
}

/// Writes the results, and reads the input's first half.
const FIRST: &str = "ld.global.u32 %r1, [%rd3]; st.global.u32 [%rd4], %r1;";
const WAIT: &str = "griddepcontrol.wait;";
const READ: &str = "ld.global.u32 %r2, [%rd4];";
const WRITE: &str = "st.global.u32 [%rd4], %r1;";
const BARRIER: &str = "@%p1 mbarrier.init.shared::cta.b64 [%r8], 1; bar.sync 0; \
                       @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 128;";
const BOX: &str = "@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes \
                   [%r9], [%rd6, {%r20, %r21}], [%r8];";
const ARRIVAL: &str =
    "again: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r8], 0; @!%p3 bra again;";
const FILL: &str = "shl.b32 %r7, %r0, 2; add.u32 %r7, %r9, %r7; st.shared.u32 [%r7], %r1; \
                    fence.proxy.async.shared::cta; bar.sync 0;";
const STORE: &str =
    "@%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd6, {%r20, %r21}], [%r9];";
const ADD: &str = "@%p1 cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%rd6, {%r20, %r21}], [%r9];";
const STORED: &str = "@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;";
const COPY: &str =
    "shl.b32 %r7, %r0, 2; add.u32 %r7, %r9, %r7; cp.async.ca.shared.global [%r7], [%rd4], 4;";
const COPIED: &str = "cp.async.wait_all;";

/// Kernels that wait before they use the results of the first one.
fn valid() -> Vec<Vec<&'static str>> {
    vec![
        vec!["griddepcontrol.launch_dependents;", WAIT, READ, WRITE],
        // An operand of both is read before the wait.
        vec!["ld.global.u32 %r2, [%rd3];", WAIT, READ, WRITE],
        // Memory that the first does not access.
        vec!["ld.global.u32 %r2, [%rd4+512]; st.global.u32 [%rd4+512], %r2;", WAIT, READ],
        vec![
            "shl.b32 %r7, %r0, 2; add.u32 %r7, %r9, %r7; cp.async.ca.shared.global [%r7], [%rd3], 4;",
            WAIT,
            COPIED,
        ],
        vec!["@%p1 griddepcontrol.wait; @%p1 ld.global.u32 %r2, [%rd4];"],
        // Each half of a warp waits.
        vec![
            "@%p1 bra one; griddepcontrol.wait; bra.uni past; one: griddepcontrol.wait; past:",
            READ,
        ],
        vec![BARRIER, WAIT, BOX, ARRIVAL],
        vec!["@%p1 griddepcontrol.wait;", BARRIER, BOX, ARRIVAL],
        vec![FILL, WAIT, STORE, STORED],
        vec![FILL, WAIT, ADD, STORED],
        vec![WAIT, COPY, COPIED],
        vec![WAIT, "red.global.add.u32 [%rd2], 1;"],
        // Rows beyond those that the first wrote.
        vec!["mov.u32 %r21, 8;", BARRIER, BOX, ARRIVAL],
    ]
}

/// Kernels that access the results of the first one too early, and texts of their violations.
fn early() -> Vec<(Vec<&'static str>, &'static str)> {
    let [read, written] = [
        "are read by a thread that has not executed `griddepcontrol.wait`, and are written by the launch before",
        "are written by a thread that has not executed `griddepcontrol.wait`, and are written by the launch before",
    ];
    vec![
        (vec![READ], read),
        (vec![READ, WAIT], read),
        (vec!["griddepcontrol.launch_dependents;", READ], read),
        (vec!["@%p1 griddepcontrol.wait;", READ], read),
        (vec!["@%p2 griddepcontrol.wait;", READ], read),
        (vec!["@%p2 griddepcontrol.wait; bar.sync 0;", READ], read),
        (vec!["@%p1 bra past; griddepcontrol.wait; past:", READ], read),
        (vec!["ld.u32 %r2, [%rd4];"], read),
        (vec!["ld.global.u8 %r2, [%rd4+1];"], read),
        (vec!["@%p1 ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd2+240];"], read),
        (vec![WRITE, WAIT], written),
        (vec!["st.u32 [%rd4], %r1;", WAIT], written),
        (vec!["red.global.add.u32 [%rd2], 1;", WAIT], written),
        (vec!["atom.global.add.u32 %r2, [%rd2], 1;", WAIT], written),
        (vec![COPY, WAIT, COPIED], read),
        (vec![BARRIER, BOX, WAIT, ARRIVAL], read),
        (vec!["@%p2 griddepcontrol.wait;", BARRIER, BOX, ARRIVAL], read),
        (vec!["mov.u32 %r21, 7;", BARRIER, BOX, ARRIVAL], read),
        (vec![FILL, STORE, WAIT, STORED], written),
        (vec![FILL, ADD, WAIT, STORED], written),
        // It may overwrite what the first one reads.
        (
            vec!["st.global.u32 [%rd3], %r1;", WAIT],
            "are written by a thread that has not executed `griddepcontrol.wait`, and are read by the launch before",
        ),
    ]
}

#[test]
fn accesses_after_the_wait_are_valid() {
    for body in valid() {
        let body = body.join("\n");
        let launches = Launches::new(&[FIRST, &body]);
        launches.overlapping(checked()).unwrap_or_else(|error| panic!("{body}: {error}"));
    }
}

#[test]
fn accesses_before_the_wait_are_reported() {
    for (body, text) in early() {
        let body = body.join("\n");
        let launches = Launches::new(&[FIRST, &body]);
        let violation = *launches.overlapping(checked()).expect_err(&body);
        assert_eq!(violation.kind, ViolationKind::Race, "{body}: {violation}");
        assert!(violation.text.contains(text), "{body}: {violation}");
        assert_eq!(violation.source_line.as_ref().map(|line| line.line), Some(7), "{violation}");
        assert!(violation.thread.is_some() && violation.address.is_some(), "{body}: {violation}");
    }
}

#[test]
fn what_follows_unknown_launches_waits_before_any_access() {
    let options = || LaunchOptions { follows_unknown: true, ..checked() };
    for (body, is_valid) in [
        (vec![WAIT, READ, WRITE], true),
        (vec![BARRIER, WAIT, BOX, ARRIVAL], true),
        (vec!["ld.global.u32 %r2, [%rd3];", WAIT], false),
        (vec!["st.global.u32 [%rd4+512], %r1;", WAIT], false),
        (vec!["@%p2 griddepcontrol.wait;", READ], false),
        (vec![BARRIER, BOX, WAIT, ARRIVAL], false),
    ] {
        let body = body.join("\n");
        let outcome = Launches::new(&[&body]).launch(0, &options());
        let text = outcome.as_ref().map_or_else(|violation| violation.text.as_str(), |()| "");
        let words = "launches before the first one of the program may still run and use them";
        assert_eq!(
            (outcome.is_ok(), text.contains(words)),
            (is_valid, !is_valid),
            "{body}: {text}"
        );
    }
}

#[test]
fn the_place_of_a_violation_is_reported() {
    // All lanes of the first warp but lane 5 wait.
    let body = "setp.ne.u32 %p3, %r0, 5; @%p3 griddepcontrol.wait; ld.global.u32 %r2, [%rd4];";
    let launches = Launches::new(&[FIRST, body]);
    let violation = *launches.overlapping(checked()).unwrap_err();
    let address = launches.output + 20;
    assert_eq!((violation.thread, violation.address), (Some([5, 0, 0]), Some(address)));
    let text = format!(
        "4 bytes of global memory at {address:#x} are read by a thread that has not executed \
         `griddepcontrol.wait`, and are written by the launch before, which may still run"
    );
    assert_eq!(violation.text, text);
}

#[test]
fn every_block_waits_itself() {
    let first = "mov.u32 %r3, %ctaid.x; setp.eq.u32 %p3, %r3, 0; @%p3 griddepcontrol.wait;";
    let mut launches = Launches::new(&[FIRST, &[first, READ].join("\n")]);
    launches.blocks = 2;
    // One thread runs both blocks.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let violation = pool.install(|| launches.overlapping(checked())).unwrap_err();
    assert_eq!((violation.kind, violation.block), (ViolationKind::Race, [1, 0, 0]));
}

#[test]
fn launches_that_do_not_overlap_need_no_wait() {
    for (body, _) in early() {
        let launches = Launches::new(&[FIRST, &body.join("\n")]);
        let record = Some(launches.record());
        launches.launch(0, &LaunchOptions { record, ..checked() }).unwrap();
        launches.launch(1, &checked()).unwrap_or_else(|error| panic!("{body:?}: {error}"));
    }
}

#[test]
fn the_check_belongs_to_races() {
    let launches = Launches::new(&[FIRST, READ]);
    for (checks, is_reported) in [
        (ExecutionChecks::NONE, false),
        (ExecutionChecks::NONE.with(ExecutionCheck::Unwritten), false),
        (ExecutionChecks::NONE.with(ExecutionCheck::Race), true),
    ] {
        let outcome = launches.overlapping(LaunchOptions { checks, ..checked() });
        assert_eq!(outcome.is_err(), is_reported, "{checks:?}");
    }
}

#[test]
fn accesses_of_every_kind_are_recorded() {
    for (first, second) in [
        ("st.u32 [%rd4], %r1;", READ),
        ("red.global.add.u32 [%rd2], 1;", READ),
        ("st.global.u8 [%rd2+3], %r1;", READ),
        (&[FILL, STORE, STORED].join("\n"), READ),
        (&[FILL, ADD, STORED].join("\n"), READ),
        (&[BARRIER, BOX, ARRIVAL].join("\n"), WRITE),
        (&[COPY, COPIED].join("\n"), WRITE),
        ("st.global.u32 [total], %r1;", "ld.global.u32 %r2, [total];"),
    ] {
        let launches = Launches::new(&[first, second, &[WAIT, second].join("\n")]);
        for options in [
            LaunchOptions::default(),
            checked(),
            LaunchOptions { counting: CountingMode::On, ..LaunchOptions::default() },
        ] {
            let record = launches.record();
            launches
                .launch(0, &LaunchOptions { record: Some(Arc::clone(&record)), ..options })
                .unwrap();
            let options = LaunchOptions { unfinished: vec![record], ..checked() };
            let violation = launches.launch(1, &options).expect_err(first);
            assert_eq!(violation.kind, ViolationKind::Race, "{first}: {violation}");
            launches.launch(2, &options).unwrap_or_else(|error| panic!("{first}: {error}"));
        }
    }
}

#[test]
fn a_chain_of_launches_is_checked_against_all_of_them() {
    let middle = "st.global.u32 [%rd4+512], %r1;";
    for (body, text) in [
        ("ld.global.u32 %r2, [%rd4+512];", "are written by the launch before, which"),
        (READ, "are written by the launch 2 before this one, which"),
    ] {
        let launches = Launches::new(&[FIRST, middle, body]);
        let mut unfinished = Vec::new();
        for number in 0..2 {
            let record = Some(launches.record());
            let options = LaunchOptions {
                record: record.clone(),
                unfinished: unfinished.clone(),
                ..checked()
            };
            launches.launch(number, &options).unwrap();
            unfinished.extend(record);
        }
        let all = LaunchOptions { unfinished: unfinished.clone(), ..checked() };
        let violation = launches.launch(2, &all).unwrap_err();
        assert!(violation.text.contains(text), "{violation}");
        // The accesses of a launch do not conflict with its own.
        let own = LaunchOptions { record: unfinished.pop(), unfinished: Vec::new(), ..checked() };
        launches.launch(2, &own).unwrap();
    }
}

#[test]
fn read_only_memory_and_later_allocations_need_no_record() {
    let mut launches = Launches::new(&[FIRST, "ld.global.u32 %r2, [%rd3];"]);
    let KernelParameter::Long(input) = launches.parameters[0] else { panic!("no address") };
    launches.memory.protect(input).unwrap();
    launches.overlapping(checked()).unwrap();
    let record = launches.record();
    let output = launches.memory.allocate(1024).unwrap();
    launches.parameters[1] = KernelParameter::Long(output);
    launches.launch(0, &LaunchOptions { record: Some(Arc::clone(&record)), ..checked() }).unwrap();
    launches.launch(1, &LaunchOptions { unfinished: vec![record], ..checked() }).unwrap();
}
