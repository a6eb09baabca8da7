//! Instructions that no built-in family uses, compared with values computed by hand.

use super::snippet::{run, warp, word};

#[test]
fn integer_instructions_give_what_the_isa_says() {
    for (body, expected) in [
        ("sad.u32 %r1, 3, 5, 10;", 12),
        ("sad.s32 %r1, -3, 5, 10;", 18),
        ("dp4a.u32.u32 %r1, 0x01020304, 0x01010101, 5;", 15),
        ("dp4a.s32.s32 %r1, 0xff000000, 0x02000000, 5;", 3),
        ("dp4a.s32.u32 %r1, 0xff000000, 0xff000000, 0;", -255_i32 as u32),
        ("dp4a.u32.s32 %r1, 0xff000000, 0xff000000, 0;", -255_i32 as u32),
        ("dp2a.lo.u32.u32 %r1, 0x00020003, 0x04030201, 0;", 7),
        ("dp2a.hi.u32.u32 %r1, 0x00020003, 0x04030201, 0;", 17),
        ("dp2a.lo.s32.s32 %r1, 0xffff0000, 0x00000300, 1;", -2_i32 as u32),
        ("dp2a.hi.s32.s32 %r1, 0xffff0000, 0x03000000, 1;", -2_i32 as u32),
        ("bfind.u32 %r1, 0x00010000;", 16),
        ("bfind.u32 %r1, 0;", u32::MAX),
        ("bfind.s32 %r1, -1;", u32::MAX),
        ("bfind.s32 %r1, 0xffff0000;", 15),
        ("bfind.shiftamt.u32 %r1, 0x00010000;", 15),
        ("mov.u64 %rd3, 0x100000000; bfind.u64 %r1, %rd3;", 32),
        ("mov.u64 %rd3, -2; bfind.s64 %r1, %rd3;", 0),
        ("mov.u64 %rd3, 1; bfind.shiftamt.u64 %r1, %rd3;", 63),
        ("set.lt.u32.s32 %r1, -1, 0;", u32::MAX),
        ("set.lt.u32.u32 %r1, -1, 0;", 0),
        ("set.eq.f32.s32 %f1, 4, 4; mov.b32 %r1, %f1;", 0x3f80_0000),
        ("setp.eq.s32 %p1, 1, 2; set.eq.and.u32.s32 %r1, 4, 4, %p1;", 0),
        ("mov.u64 %rd3, 7; set.gt.u32.u64 %r1, %rd3, 6;", u32::MAX),
        ("mov.u32 %r1, WARP_SZ;", 32),
        ("mov.u32 %r1, %nsmid;", 1),
        ("mov.u32 %r1, %cluster_nctaid.x;", 1),
        ("mov.u32 %r1, %total_smem_size;", 4096),
        ("mov.u32 %r1, %dynamic_smem_size;", 0),
        ("mov.pred %p1, %is_explicit_cluster; selp.b32 %r1, 1, 2, %p1;", 2),
        (
            "createpolicy.fractional.L2::evict_first.b64 %rd3, 0f3F800000; st.global.u32 [%rd1+64], 7; ld.global.L2::cache_hint.u32 %r1, [%rd1+64], %rd3;",
            7,
        ),
    ] {
        assert_eq!(word(body), expected, "{body}");
    }
}

#[test]
fn floating_point_modifiers_bound_and_keep_what_they_say() {
    let (one, two, nan) = ("0f3F800000", "0f40000000", "0f7FC00000");
    for (body, expected) in [
        (format!("add.sat.f32 %f1, {one}, {two}; mov.b32 %r1, %f1;"), 0x3f80_0000),
        (format!("sub.sat.f32 %f1, {one}, {two}; mov.b32 %r1, %f1;"), 0),
        (format!("add.sat.f32 %f1, {nan}, {two}; mov.b32 %r1, %f1;"), 0),
        (format!("min.NaN.f32 %f1, {one}, {two}; mov.b32 %r1, %f1;"), 0x3f80_0000),
        (format!("copysign.f32 %f1, 0f80000000, {two}; mov.b32 %r1, %f1;"), 0xc000_0000),
        (format!("rcp.approx.ftz.f32 %f1, {two}; mov.b32 %r1, %f1;"), 0x3f00_0000),
        (format!("ex2.approx.ftz.f32 %f1, {two}; mov.b32 %r1, %f1;"), 0x4080_0000),
        ("lg2.approx.f32 %f1, 0f41000000; mov.b32 %r1, %f1;".to_owned(), 0x4040_0000),
        // The quotient of the smallest normal number by two is flushed.
        (format!("div.approx.ftz.f32 %f1, 0f00800000, {two}; mov.b32 %r1, %f1;"), 0),
        ("mul.rz.ftz.f32 %f1, 0f80800000, 0f3F000000; mov.b32 %r1, %f1;".to_owned(), 0x8000_0000),
        ("fma.rn.relu.f16x2 %r1, 0x3c003c00, 0xbc004000, 0;".to_owned(), 0x0000_4000),
        ("fma.rn.relu.bf16x2 %r1, 0x3f803f80, 0xbf804000, 0;".to_owned(), 0x0000_4000),
        ("add.sat.f16x2 %r1, 0x3c003800, 0x3c000000;".to_owned(), 0x3c00_3800),
        ("max.NaN.f16x2 %r1, 0x7e003c00, 0x3c004000;".to_owned(), 0x7fff_4000),
        ("min.bf16x2 %r1, 0x3f804000, 0x40003f80;".to_owned(), 0x3f80_3f80),
        (format!("cvt.rz.f16x2.f32 %r1, {two}, 0f3F801FFF;"), 0x4000_3c00),
        (format!("cvt.rn.relu.bf16x2.f32 %r1, {two}, 0fBF800000;"), 0x4000_0000),
    ] {
        assert_eq!(word(&body), expected, "{body}: {:#x}", word(&body));
    }
    let kept = word(&format!("max.NaN.f32 %f1, {nan}, {two}; mov.b32 %r1, %f1;"));
    assert!(f32::from_bits(kept).is_nan());
}

#[test]
fn lanes_reduce_match_and_elect() {
    let lanes = || 0..32_u32;
    for (body, expected) in [
        ("redux.sync.add.u32 %r1, %r0, -1;", vec![31 * 16; 32]),
        ("redux.sync.max.u32 %r1, %r0, -1;", vec![31; 32]),
        ("neg.s32 %r2, %r0; redux.sync.min.s32 %r1, %r2, -1;", vec![-31_i32 as u32; 32]),
        ("shl.b32 %r2, 1, %r0; redux.sync.or.b32 %r1, %r2, -1;", vec![u32::MAX; 32]),
        ("redux.sync.xor.b32 %r1, %r0, -1;", vec![0; 32]),
        // Lanes with different members form separate reductions.
        (
            "setp.lt.u32 %p1, %r0, 16; selp.b32 %r2, 0xffff, 0xffff0000, %p1; redux.sync.min.u32 %r1, %r0, %r2;",
            lanes().map(|lane| lane & 16).collect(),
        ),
        (
            "and.b32 %r2, %r0, 1; match.any.sync.b32 %r1, %r2, -1;",
            lanes().map(|lane| 0x5555_5555 << (lane & 1)).collect(),
        ),
        (
            "and.b32 %r2, %r0, 1; match.all.sync.b32 %r1|%p1, %r2, -1; @%p1 mov.u32 %r1, 9;",
            vec![0; 32],
        ),
        (
            "mov.u64 %rd3, 4; match.all.sync.b64 %r1|%p1, %rd3, -1; @!%p1 mov.u32 %r1, 9;",
            vec![u32::MAX; 32],
        ),
        (
            "mov.u32 %r1, 9; elect.sync _|%p1, -1; @%p1 mov.u32 %r1, 4;",
            lanes().map(|lane| if lane == 0 { 4 } else { 9 }).collect(),
        ),
        ("elect.sync %r1|%p1, -1;", vec![0; 32]),
        ("mov.u32 %r1, %lanemask_gt;", lanes().map(|lane| !(u32::MAX >> (31 - lane))).collect()),
        ("mov.u32 %r1, %lanemask_ge;", lanes().map(|lane| u32::MAX << lane).collect()),
        ("mov.u32 %r1, %lanemask_eq;", lanes().map(|lane| 1 << lane).collect()),
    ] {
        assert_eq!(warp(body), expected, "{body}");
    }
}

#[test]
fn a_barrier_reduces_the_predicates_of_its_threads() {
    for (body, expected) in [
        ("setp.lt.u32 %p1, %r0, 40; bar.red.popc.u32 %r1, 0, %p1;", 40),
        ("setp.lt.u32 %p1, %r0, 40; bar.red.and.pred %p2, 0, %p1; selp.b32 %r1, 1, 2, %p2;", 2),
        ("setp.lt.u32 %p1, %r0, 64; bar.red.and.pred %p2, 0, %p1; selp.b32 %r1, 1, 2, %p2;", 1),
        ("setp.eq.u32 %p1, %r0, 40; bar.red.or.pred %p2, 1, 64, %p1; selp.b32 %r1, 1, 2, %p2;", 1),
        ("setp.eq.u32 %p1, %r0, 40; barrier.cta.red.popc.aligned.u32 %r1, 1, 64, !%p1;", 63),
    ] {
        let words = run(&format!("{body} st.global.u32 [%rd2], %r1;"), 64).unwrap();
        assert_eq!(words[..64], [expected; 64], "{body}");
    }
}

#[test]
fn atomic_operations_update_halves_and_vectors() {
    for (body, expected) in [
        (
            "st.global.u32 [%rd1+64], 0x3c003c00; atom.global.add.noftz.f16x2 %r2, [%rd1+64], 0x40003c00; ld.global.u32 %r1, [%rd1+64];",
            0x4200_4000,
        ),
        (
            "st.shared.u32 [s], 0x3c003f80; mov.b16 %h1, 0x3f80; red.shared.add.noftz.bf16 [s], %h1; ld.shared.u32 %r1, [s];",
            0x3c00_4000,
        ),
        (
            "st.shared.u32 [s], 0x3c003f80; mov.b16 %h1, 0x3c00; red.shared.add.noftz.f16 [s+2], %h1; ld.shared.u32 %r1, [s];",
            0x4000_3f80,
        ),
        (
            "st.global.v2.u32 [%rd1+64], {0, 0x3f800000}; mov.b32 %f2, 0x3f800000; red.global.add.v2.f32 [%rd1+64], {%f2, %f2}; ld.global.u32 %r1, [%rd1+68];",
            0x4000_0000,
        ),
        (
            "st.global.v4.u32 [%rd1+64], {0, 0, 0, 0x3f800000}; mov.b32 %f2, 0x3f800000; red.global.add.v4.f32 [%rd1+64], {%f2, %f2, %f2, %f2}; ld.global.u32 %r1, [%rd1+76];",
            0x4000_0000,
        ),
        // Additions in global memory flush values below 2^-126; in shared memory they do not.
        (
            "st.global.u32 [%rd1+64], 0x00000003; mov.b32 %f2, 0x80000001; red.global.add.f32 [%rd1+64], %f2; ld.global.u32 %r1, [%rd1+64];",
            0,
        ),
        (
            "st.shared.u32 [s], 0x00000003; mov.b32 %f2, 0x80000001; red.shared.add.f32 [s], %f2; ld.shared.u32 %r1, [s];",
            2,
        ),
        (
            "st.global.u32 [%rd1+64], 5; atom.global.inc.u32 %r2, [%rd1+64], 5; ld.global.u32 %r1, [%rd1+64];",
            0,
        ),
        (
            "st.global.u32 [%rd1+64], 9; atom.global.dec.u32 %r2, [%rd1+64], 5; ld.global.u32 %r1, [%rd1+64];",
            5,
        ),
        (
            "st.global.u32 [%rd1+64], 9; atom.global.exch.b32 _, [%rd1+64], 3; ld.global.u32 %r1, [%rd1+64];",
            3,
        ),
    ] {
        assert_eq!(word(body), expected, "{body}: {:#x}", word(body));
    }
}

#[test]
fn a_copy_whose_source_is_ignored_fills_with_zeros() {
    for (ignored, expected) in [("%p1", 0), ("!%p1", 2)] {
        let body = format!(
            "st.global.v4.u32 [%rd1+64], {{1, 2, 3, 4}}; add.s64 %rd3, %rd1, 64; \
             setp.eq.u32 %p1, 1, 1; cp.async.cg.shared.global [s], [%rd3], 16, {ignored}; \
             cp.async.wait_all; ld.shared.u32 %r1, [s+4];"
        );
        assert_eq!(word(&body), expected, "{ignored}");
    }
}
