//! Single instructions, compared with values computed by hand or by Rust. Needs no compiler.

use super::snippet::{run, warp, word};
use crate::cpu::PtxModule;

#[test]
fn integer_instructions_give_what_the_isa_says() {
    for (body, expected) in [
        ("add.s32 %r1, 2147483647, 1;", 1 << 31),
        ("add.sat.s32 %r1, 2147483647, 1;", 2_147_483_647),
        ("sub.u32 %r1, 3, 5;", -2_i32 as u32),
        ("mul.lo.s32 %r1, -7, 6;", -42_i32 as u32),
        ("mul.hi.u32 %r1, 0xffffffff, 0xffffffff;", 0xffff_fffe),
        ("mul.hi.s32 %r1, -1, 1;", u32::MAX),
        ("mul.wide.s32 %rd3, -3, 5; cvt.u32.u64 %r1, %rd3;", -15_i32 as u32),
        ("mul.wide.u32 %rd3, 0xffffffff, 16; shr.u64 %rd3, %rd3, 32; cvt.u32.u64 %r1, %rd3;", 15),
        ("mad.lo.s32 %r1, 3, 4, 5;", 17),
        ("div.s32 %r1, -7, 2;", -3_i32 as u32),
        ("rem.s32 %r1, -7, 2;", -1_i32 as u32),
        ("div.u32 %r1, 7, 0;", u32::MAX),
        ("rem.u32 %r1, 7, 0;", 7),
        ("min.s32 %r1, -1, 1;", u32::MAX),
        ("min.u32 %r1, -1, 1;", 1),
        ("abs.s32 %r1, -9;", 9),
        ("neg.s32 %r1, 9;", -9_i32 as u32),
        ("shl.b32 %r1, 1, 33;", 0),
        ("shr.s32 %r1, -8, 40;", u32::MAX),
        ("shr.u32 %r1, 0x80000000, 31;", 1),
        ("shf.l.wrap.b32 %r1, 0x80000000, 1, 1;", 3),
        ("shf.r.wrap.b32 %r1, 2, 1, 1;", 0x8000_0001),
        ("prmt.b32 %r1, 0x44332211, 0x88776655, 0x7610;", 0x8877_2211),
        ("prmt.b32 %r1, 0x000000ff, 0, 0x8888;", 0xffff_ffff),
        (
            "lop3.b32 %r1, 0xf0f0f0f0, 0xcccccccc, 0xaaaaaaaa, 0x96;",
            0xf0f0_f0f0 ^ 0xcccc_cccc ^ 0xaaaa_aaaa,
        ),
        ("lop3.b32 %r1, 12, 10, 6, 0xf8;", 12 | 10 & 6),
        ("bfe.u32 %r1, 0xabcd, 4, 8;", 0xbc),
        ("bfe.s32 %r1, 0x80, 4, 4;", 0xffff_fff8),
        ("bfi.b32 %r1, 0xf, 0xaaaaaaaa, 8, 4;", 0xaaaa_afaa),
        (
            "mov.b64 %rd3, {1, 2}; mov.b64 %rd4, {3, 4}; bfi.b64 %rd3, %rd3, %rd4, 32, 32; \
             mov.b64 {%r2, %r1}, %rd3;",
            1,
        ),
        ("popc.b32 %r1, 0xff00;", 8),
        ("clz.b32 %r1, 1;", 31),
        ("brev.b32 %r1, 1;", 1 << 31),
        ("not.b32 %r1, 0;", u32::MAX),
        ("cnot.b32 %r1, 0;", 1),
        ("mov.b64 %rd3, {1, 2}; mov.b64 {%r2, %r1}, %rd3;", 2),
        ("mov.b32 %r2, 0x20001; mov.b32 {%h1, %h2}, %r2; cvt.u32.u16 %r1, %h2;", 2),
        ("cvt.s32.s8 %r1, 0x80;", 0xffff_ff80),
        ("cvt.sat.u8.s32 %r1, 300;", 255),
        ("setp.lt.s32 %p1, -1, 0; selp.b32 %r1, 4, 5, %p1;", 4),
        ("setp.lo.u32 %p1|%p2, -1, 0; selp.b32 %r1, 4, 5, %p2;", 4),
        ("setp.eq.s32 %p1, 1, 1; setp.ne.and.s32 %p2, 1, 2, !%p1; selp.b32 %r1, 4, 5, %p2;", 5),
        (
            "mov.u32 %r1, 7; setp.eq.s32 %p1, 1, 2; @%p1 mov.u32 %r1, 9; @!%p1 add.s32 %r1, %r1, 1;",
            8,
        ),
    ] {
        assert_eq!(word(body), expected, "{body}");
    }
}

#[test]
fn floating_point_instructions_round_as_the_isa_says() {
    let one = "0f3F800000";
    let tiny = "0f33800000"; // 2^-24
    for (body, expected) in [
        (format!("add.f32 %f1, {one}, {tiny};"), 1.0_f32),
        (format!("add.rp.f32 %f1, {one}, {tiny};"), 1.0 + f32::EPSILON),
        (format!("sub.rz.f32 %f1, {one}, {tiny};"), 1.0 - f32::EPSILON / 2.0),
        (format!("sub.rm.f32 %f1, {one}, {one};"), -0.0),
        (format!("fma.rn.f32 %f1, {one}, {one}, {tiny};"), 1.0),
        (format!("fma.rp.f32 %f1, {one}, {one}, {tiny};"), 1.0 + f32::EPSILON),
        (format!("div.rn.f32 %f1, {one}, 0f40400000;"), 1.0 / 3.0),
        ("mul.ftz.f32 %f1, 0f00800000, 0f3F000000;".to_owned(), 0.0),
        ("min.f32 %f1, 0f80000000, 0f00000000;".to_owned(), -0.0),
        ("max.f32 %f1, 0f7FC00000, 0f40000000;".to_owned(), 2.0),
        ("sqrt.rn.f32 %f1, 0f40000000;".to_owned(), 2.0_f32.sqrt()),
        ("cvt.rni.f32.f32 %f1, 0f40200000;".to_owned(), 2.0),
        ("cvt.rn.f32.s32 %f1, 16777217;".to_owned(), 16_777_216.0),
        ("cvt.rp.f32.s32 %f1, 16777217;".to_owned(), 16_777_218.0),
        ("cvt.rn.f32.f64 %f1, 0d3FF0000010000001;".to_owned(), 1.0 + f32::EPSILON),
        ("cvt.sat.f32.f32 %f1, 0f40000000;".to_owned(), 1.0),
        ("cvt.rn.f16.f32 %h1, 0f3FC01000; cvt.f32.f16 %f1, %h1;".to_owned(), 1.5),
        ("mov.b16 %h1, 0x3c00; mov.b16 %h2, 0x0001; add.f16 %h3, %h1, %h2; cvt.f32.f16 %f1, %h3;".to_owned(), 1.0),
        ("mov.b16 %h1, 0x3c03; fma.rn.f16 %h3, %h1, %h1, 0xbc00; cvt.f32.f16 %f1, %h3;".to_owned(), 0.005_859_375 + 0.000_007_629_394_5),
        ("cvt.rn.bf16.f32 %h1, 0f3F810000; cvt.f32.bf16 %f1, %h1;".to_owned(), 1.007_812_5),
        ("cvt.rn.f16x2.f32 %r2, 0f40000000, 0f3F800000; mov.b32 {%h1, %h2}, %r2; cvt.f32.f16 %f1, %h2;".to_owned(), 2.0),
        ("fma.rn.f64 %fd1, 0d3FF0000000000001, 0d3FF0000000000001, 0dBFF0000000000000; cvt.rn.f32.f64 %f1, %fd1;".to_owned(), 4.440_892e-16),
    ] {
        let got = word(&format!("{body} mov.b32 %r1, %f1;"));
        assert_eq!(got, expected.to_bits(), "{body}: {} is not {expected}", f32::from_bits(got));
    }
    for (body, expected) in [
        ("cvt.rzi.s32.f32 %r1, 0f7F800000;", i32::MAX as u32),
        ("cvt.rzi.s32.f32 %r1, 0f7FC00000;", 0),
        ("cvt.rzi.u32.f32 %r1, 0fBF800000;", 0),
        ("cvt.rni.s32.f32 %r1, 0f40200000;", 2),
        ("cvt.rna.tf32.f32 %r1, 0f3F801000;", 0x3f80_2000),
        ("mul.f32 %f1, 0f7F800000, 0f00000000; mov.b32 %r1, %f1;", 0x7fff_ffff),
        ("setp.ltu.f32 %p1, 0f7FC00000, 0f00000000; selp.b32 %r1, 1, 0, %p1;", 1),
        ("setp.neu.f32 %p1, 0f3F800000, 0f3F800000; selp.b32 %r1, 1, 0, %p1;", 0),
        ("fma.rn.f16x2 %r1, 0x40003c00, 0x40003c00, 0x3c003c00;", 0x4500_4000),
    ] {
        assert_eq!(word(body), expected, "{body}");
    }
}

#[test]
fn lanes_diverge_at_a_branch_and_reconverge() {
    // Odd and even lanes take different branches, then loop a different number of times each.
    let values = warp(
        "and.b32 %r2, %r0, 1; setp.eq.s32 %p1, %r2, 1; mov.u32 %r1, 0; @%p1 bra $ODD;
         add.s32 %r1, %r1, 100; bra.uni $MEET;
         $ODD: add.s32 %r1, %r1, 200;
         $MEET: mov.u32 %r3, %r0;
         $LOOP: setp.eq.s32 %p2, %r3, 0; @%p2 bra $DONE; add.s32 %r1, %r1, 1; sub.s32 %r3, %r3, 1; bra.uni $LOOP;
         $DONE: activemask.b32 %r4; setp.eq.s32 %p3, %r4, -1; @!%p3 mov.u32 %r1, 0;",
    );
    for (lane, value) in values.iter().enumerate() {
        assert_eq!(*value as usize, lane + if lane % 2 == 1 { 200 } else { 100 });
    }
}

#[test]
fn lanes_exchange_values() {
    let lanes = || 0..32_u32;
    for (body, expected) in [
        ("shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;", lanes().map(|l| l ^ 1).collect::<Vec<_>>()),
        (
            "shfl.sync.down.b32 %r1|%p1, %r0, 4, 31, -1; @!%p1 mov.u32 %r1, 99;",
            lanes().map(|l| if l < 28 { l + 4 } else { 99 }).collect(),
        ),
        (
            "shfl.sync.up.b32 %r1, %r0, 4, 0, -1;",
            lanes().map(|l| if l < 4 { l } else { l - 4 }).collect(),
        ),
        ("shfl.sync.idx.b32 %r1, %r0, 3, 0x181f, -1;", lanes().map(|l| l / 8 * 8 + 3).collect()),
        ("setp.lt.u32 %p1, %r0, 5; vote.sync.ballot.b32 %r1, %p1, -1;", vec![31; 32]),
        (
            "setp.lt.u32 %p1, %r0, 5; vote.sync.any.pred %p2, %p1, -1; selp.b32 %r1, 1, 0, %p2;",
            vec![1; 32],
        ),
        (
            "setp.lt.u32 %p1, %r0, 5; vote.sync.all.pred %p2, %p1, -1; selp.b32 %r1, 1, 0, %p2;",
            vec![0; 32],
        ),
        ("mov.u32 %r1, %lanemask_lt;", lanes().map(|l| (1 << l) - 1).collect()),
    ] {
        assert_eq!(warp(body), expected, "{body}");
    }
}

#[test]
fn memory_moves_parts_vectors_and_copies() {
    for (body, expected) in [
        ("st.shared.u32 [s], 0x80ff1234; ld.shared.s8 %r1, [s+2];", 0xffff_ffff),
        ("st.shared.u32 [s], 0x80ff1234; ld.shared.u16 %r1, [s+2];", 0x80ff),
        ("st.shared.u32 [s], 0; st.shared.u8 [s+1], 0xab; ld.shared.u32 %r1, [s];", 0xab00),
        ("st.shared.v4.u32 [s+16], {1, 2, 3, 4}; ld.shared.v2.u32 {_, %r1}, [s+24];", 4),
        ("st.shared.v2.u64 [s], {5, 6}; ld.shared.u32 %r1, [s+8];", 6),
        (
            "mov.u64 %rd3, s; cvta.shared.u64 %rd3, %rd3; st.u32 [%rd3+4], 8; ld.shared.u32 %r1, [s+4];",
            8,
        ),
        (
            "st.global.u32 [%rd1+64], 5; atom.global.add.u32 %r1, [%rd1+64], 3; ld.global.u32 %r2, [%rd1+64]; mad.lo.u32 %r1, %r1, 100, %r2;",
            508,
        ),
        (
            "st.shared.u32 [s], 5; atom.shared.cas.b32 %r1, [s], 5, 9; ld.shared.u32 %r2, [s]; mad.lo.u32 %r1, %r1, 100, %r2;",
            509,
        ),
        (
            "st.global.u64 [%rd1+64], 0x100000000; red.global.max.u64 [%rd1+64], 0x200000000; ld.global.u32 %r1, [%rd1+68];",
            2,
        ),
        (
            "st.global.v4.u32 [%rd1+64], {1, 2, 3, 4}; add.s64 %rd3, %rd1, 64; cp.async.cg.shared.global [s], [%rd3], 16, 8; cp.async.commit_group; cp.async.wait_group 0; ld.shared.v4.u32 {%r2, %r3, %r4, %r5}, [s]; add.u32 %r1, %r3, %r5;",
            2,
        ),
    ] {
        assert_eq!(word(body), expected, "{body}");
    }
}

#[test]
fn atomic_sums_of_all_threads_are_whole() {
    let body = "red.global.add.u32 [%rd1+4096], %r0;";
    let words = run(body, 1024).unwrap();
    assert_eq!(words[1024], 1023 * 1024 / 2);
}

#[test]
fn matrices_are_moved_and_multiplied() {
    // Rows of an 8 x 8 matrix: element (i, j) is 8 i + j; lane l holds (l / 4, 2 (l % 4)) and the
    // next, or what lies there in the transposed matrix.
    let fill = "shl.b32 %r2, %r0, 1; mad.lo.u32 %r3, %r2, 65536, 65536; add.u32 %r3, %r3, %r2;
                shl.b32 %r4, %r0, 2; mov.u32 %r5, s; add.u32 %r4, %r4, %r5; st.shared.u32 [%r4], %r3;
                bar.warp.sync -1; and.b32 %r6, %r0, 7; shl.b32 %r6, %r6, 4; add.u32 %r6, %r6, %r5;";
    let plain = warp(&format!(
        "{fill} bar.sync 0; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r1}}, [%r6];"
    ));
    let turned = warp(&format!(
        "{fill} bar.sync 0; ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {{%r1}}, [%r6];"
    ));
    for lane in 0..32 {
        let (row, column) = (lane / 4, 2 * (lane % 4));
        let pair = |first: u32, second: u32| first | second << 16;
        assert_eq!(plain[lane as usize], pair(8 * row + column, 8 * row + column + 1));
        assert_eq!(turned[lane as usize], pair(8 * column + row, 8 * (column + 1) + row));
    }
    // A holds ones; B holds column n's number in row 0 only, so each element of row i is n + 0.5.
    let values = warp(
        "shr.u32 %r2, %r0, 2; and.b32 %r3, %r0, 3; cvt.rn.f32.u32 %f2, %r2; setp.eq.u32 %p1, %r3, 0;
         selp.f32 %f3, %f2, 0f00000000, %p1; mov.b32 %r4, %f3; mov.u32 %r5, 0x3f800000;
         mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f4, %f5, %f6, %f7}, {%r5, %r5, %r5, %r5}, {%r4, 0}, {0f3F000000, 0f3F000000, 0f3F000000, 0f3F000000};
         mov.b32 %r1, %f7;",
    );
    for lane in 0..32_u32 {
        let column = 2 * (lane % 4) + 1;
        assert_eq!(f32::from_bits(values[lane as usize]), column as f32 + 0.5);
    }
    let values = warp(
        "shr.u32 %r2, %r0, 2; cvt.rn.f32.u32 %f2, %r2; cvt.rn.f16.f32 %h1, %f2; mov.b32 %r4, {%h1, %h1};
         mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f4, %f5, %f6, %f7}, {0x3c003c00, 0x3c003c00, 0x3c003c00, 0x3c003c00}, {%r4, %r4}, {0f3F000000, 0f3F000000, 0f3F000000, 0f3F000000};
         mov.b32 %r1, %f4;",
    );
    for lane in 0..32_u32 {
        assert_eq!(f32::from_bits(values[lane as usize]), 16.0 * (2 * (lane % 4)) as f32 + 0.5);
    }
}

#[test]
fn products_that_the_isa_lacks_are_refused() {
    for (suffix, expected) in [
        ("m16n8k16.row.col.satfinite.f32.f16.f16.f32", "only sums of integers saturate"),
        ("m16n8k16.row.col.f32.f16.bf16.f32", "no product has these types"),
        ("m16n8k16.row.col.f16.bf16.bf16.f16", "no product has these types"),
        ("m16n8k16.row.col.f32.s8.s8.f32", "no product has these types"),
        ("m16n8k16.row.col.s32.s8.f16.s32", "no product has these types"),
        ("m16n8k32.row.col.s32.s4.s4.s32", "has no type"),
        ("m16n8k32.row.col.f32.f16.f16.f32", "has no shape"),
        ("m16n8k8.row.col.s32.s8.s8.s32", "has no shape"),
        ("m16n8k16.row.col.f32.tf32.tf32.f32", "has no shape"),
        ("m16n8k16.row.row.f32.f16.f16.f32", "is not supported"),
        ("m8n8k16.row.col.f32.f16.f16.f32", "has no shape"),
    ] {
        let text = format!(
            ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{{\n\
             mma.sync.aligned.{suffix} {{0, 0, 0, 0}}, {{0, 0, 0, 0}}, {{0, 0}}, {{0, 0, 0, 0}};\n}}\n"
        );
        let error = PtxModule::parse(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{suffix}: {error}");
    }
}
