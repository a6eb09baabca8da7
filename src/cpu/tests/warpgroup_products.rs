//! Results of `wgmma` for every type, layout and source of its operands.

use super::warpgroup_kernel::{OperandLayout, PLAIN, ProductCase, columns_of, rows_of};
use crate::cpu::PtxModule;
use crate::cpu::numeric::Rounding;
use crate::cpu::numeric::float::{BF16, F16, F32, FloatFormat};
use crate::cpu::numeric::tensor_sum::{Factors, FusedSum};

/// Small integers, whose sums are exact.
fn small(seed: u32, row: u32, column: u32) -> i32 {
    ((row * 31 + column * 7 + seed).wrapping_mul(2_654_435_761) >> 24) as i32 % 9 - 4
}

/// Checks a product of small integers, with sums of `sign * A B` and perhaps C.
fn check(product: &ProductCase, (sign, adds): (i32, bool)) {
    let float = |format: FloatFormat, value: i32| format.round(value.into(), Rounding::NearestEven);
    let factor = |value: i32| match product.types.split('.').nth(1) {
        Some("f16") => float(F16, value),
        Some("bf16") => float(BF16, value),
        Some("tf32") => float(F32, value),
        _ => value as u32,
    };
    let term = |value: i32| match product.types.split('.').next() {
        Some("f32") => float(F32, value),
        Some("f16") => float(F16, value),
        _ => value as u32,
    };
    let is_unsigned = |at: usize| product.types.split('.').nth(at).is_some_and(|ty| ty == "u8");
    let a = |row, column| small(1, row, column) + if is_unsigned(1) { 200 } else { 0 };
    let b = |row, column| small(2, row, column) + if is_unsigned(2) { 200 } else { 0 };
    let c = |row, column| small(3, row, column);
    let found = product.run(
        |row, column| factor(a(row, column)),
        |row, column| factor(b(row, column)),
        |row, column| term(c(row, column)),
    );
    for row in 0..64 {
        for column in 0..product.columns {
            let products = (0..product.depth).map(|k| a(row, k) * b(column, k)).sum::<i32>();
            let expected = sign * products + if adds { c(row, column) } else { 0 };
            let expected = term(expected);
            assert_eq!(
                found[row as usize][column as usize], expected,
                "{product:?} {row} {column}"
            );
        }
    }
}

const HALF: ProductCase = ProductCase {
    types: "f32.f16.f16",
    columns: 64,
    depth: 16,
    a: Some(PLAIN),
    b: PLAIN,
    scale_d: "1",
    immediates: ", 1, 1, 0, 0",
};

#[test]
fn every_type_and_source_of_a_gives_exact_products() {
    let two = ", 1, 1";
    let bytes = ProductCase { depth: 32, immediates: "", ..HALF };
    let tf32 = ProductCase { types: "f32.tf32.tf32", depth: 8, immediates: two, ..HALF };
    for product in [
        HALF,
        ProductCase { types: "f16.f16.f16", ..HALF },
        ProductCase { types: "f32.bf16.bf16", ..HALF },
        tf32,
        ProductCase { types: "s32.s8.s8", ..bytes },
        ProductCase { types: "s32.u8.u8", ..bytes },
        ProductCase { types: "s32.s8.u8.satfinite", ..bytes },
        ProductCase { types: "s32.u8.s8", ..bytes },
    ] {
        let immediates = if product.depth == 16 { ", 1, 1, 0" } else { product.immediates };
        for columns in [8, 16, 24, 240, 256] {
            let wide = ProductCase { columns, ..product };
            check(&wide, (1, true));
            check(&ProductCase { a: None, immediates, ..wide }, (1, true));
        }
    }
    check(&ProductCase { columns: 40, ..HALF }, (1, true));
    check(&ProductCase { columns: 8, ..tf32 }, (1, true));
}

#[test]
fn scales_negate_and_drop_the_accumulator() {
    for (scale_d, immediates, expected) in [
        ("0", ", 1, 1, 0, 0", (1, false)),
        ("%p2", ", -1, 1, 0, 0", (-1, true)),
        ("%p3", ", 1, -1, 0, 0", (-1, false)),
        ("1", ", -1, -1, 0, 0", (1, true)),
    ] {
        check(&ProductCase { scale_d, immediates, ..HALF }, expected);
    }
    check(
        &ProductCase { types: "s32.s8.s8", depth: 32, scale_d: "%p3", immediates: "", ..HALF },
        (1, false),
    );
}

#[test]
fn descriptors_of_every_layout_find_their_elements() {
    let rows = [
        PLAIN,
        OperandLayout { leading: 128, stride: 256, ..PLAIN },
        rows_of(1, 1024),
        rows_of(2, 512),
        rows_of(3, 256),
        // The second instruction along K of a tile with more columns.
        OperandLayout { start: 32, ..rows_of(1, 1024) },
        OperandLayout { start: 1024 + 96, ..rows_of(1, 2048) },
        OperandLayout { start: 32, ..rows_of(2, 512) },
    ];
    for layout in rows {
        check(&ProductCase { a: Some(layout), b: layout, ..HALF }, (1, true));
        let tf32 = ProductCase { types: "f32.tf32.tf32", depth: 8, immediates: ", 1, 1", ..HALF };
        check(&ProductCase { a: Some(layout), b: layout, ..tf32 }, (1, true));
        let bytes = ProductCase { types: "s32.s8.s8", depth: 32, immediates: "", ..HALF };
        check(&ProductCase { a: Some(layout), b: layout, ..bytes }, (1, true));
    }
    let columns = [
        columns_of(0, 1024, 128),
        columns_of(0, 128, 256),
        columns_of(1, 4096, 1024),
        columns_of(2, 2048, 512),
        columns_of(2, 1024, 512),
        columns_of(3, 512, 256),
    ];
    for layout in columns {
        for (a, b, immediates) in [
            (layout, PLAIN, ", 1, 1, 1, 0"),
            (PLAIN, layout, ", 1, 1, 0, 1"),
            (layout, layout, ", 1, 1, 1, 1"),
        ] {
            check(&ProductCase { a: Some(a), b, immediates, ..HALF }, (1, true));
            let bf16 = ProductCase { types: "f32.bf16.bf16", ..HALF };
            check(&ProductCase { a: Some(a), b, immediates, ..bf16 }, (1, true));
        }
        check(&ProductCase { a: None, b: layout, immediates: ", 1, 1, 1", ..HALF }, (1, true));
    }
    // Part of a row of memory, and more than one.
    let wide = columns_of(1, 8192, 1024);
    for columns in [24, 40, 200] {
        check(&ProductCase { columns, b: wide, immediates: ", 1, 1, 0, 1", ..HALF }, (1, true));
    }
}

#[test]
fn the_sum_of_an_instruction_is_fused() {
    let random = |seed: u32, row: u32, column: u32| {
        let bits = fastrand::Rng::with_seed(u64::from(seed) << 40 | u64::from(row * 1000 + column))
            .u32(..);
        // Exponents from 2^-7 to 2^8.
        bits & 0x83ff | (8 + (bits >> 16) % 16) << 10
    };
    let start = |row: u32, column: u32| {
        ((random(3, row, column) & 0x8000) << 16) | (0x4200_1234 + row + column)
    };
    for types in ["f32.f16.f16", "f16.f16.f16"] {
        let product = ProductCase { types, columns: 24, ..HALF };
        let wide = types.starts_with("f32");
        let c = |row, column| if wide { start(row, column) } else { random(4, row, column) };
        let found = product.run(
            |row, column| random(1, row, column),
            |row, column| random(2, row, column),
            c,
        );
        for (row, column) in (0..64).flat_map(|row| (0..24).map(move |column| (row, column))) {
            let [mut left, mut right] = [Factors::ZERO; 2];
            for k in 0..16 {
                left.set(k as usize, F16, random(1, row, k));
                right.set(k as usize, F16, random(2, column, k));
            }
            let start = (if wide { F32 } else { F16 }, c(row, column));
            let sum = FusedSum::of(&left, &right, start);
            let expected = if wide { sum.to_f32() } else { sum.to_f16() };
            assert_eq!(found[row as usize][column as usize], expected, "{types} {row} {column}");
        }
    }
}

#[test]
fn sums_of_integers_wrap_or_saturate() {
    for (types, expected) in [
        ("s32.u8.u8", (32 * 255 * 255_u32).wrapping_add(i32::MAX as u32)),
        ("s32.u8.u8.satfinite", i32::MAX as u32),
    ] {
        let product = ProductCase { types, columns: 8, depth: 32, immediates: "", ..HALF };
        let found = product.run(|_, _| 255, |_, _| 255, |_, _| i32::MAX as u32);
        assert!(found.iter().flatten().all(|sum| *sum == expected), "{types}");
    }
}

#[test]
fn other_products_are_refused_by_name() {
    let shape = "the opcode has no shape that its types support";
    let operands = "does not support the instruction with these operands";
    for (product, text) in [
        (
            ProductCase { types: "f32.e4m3.e4m3", depth: 32, ..HALF },
            "only products of f16, bf16, tf32",
        ),
        (ProductCase { types: "f16.bf16.bf16", ..HALF }, "no product has these types"),
        (ProductCase { types: "f32.f16.bf16", ..HALF }, "no product has these types"),
        (ProductCase { types: "f32.f16.f16", depth: 8, ..HALF }, shape),
        (ProductCase { columns: 12, ..HALF }, shape),
        (ProductCase { columns: 264, ..HALF }, shape),
        (ProductCase { types: "s32.s8.s8", columns: 40, depth: 32, immediates: "", ..HALF }, shape),
        (ProductCase { immediates: ", 1, 1, 0", ..HALF }, operands),
        (ProductCase { a: None, ..HALF }, operands),
        (ProductCase { immediates: ", 1, 2, 0, 0", ..HALF }, "neither 1 nor -1"),
        (ProductCase { immediates: ", 1, 1, 0, 2", ..HALF }, "neither 0 nor 1"),
        (ProductCase { types: "f32.tf32.tf32", depth: 8, ..HALF }, operands),
    ] {
        let mut text_of = product.kernel();
        if product.columns > 256 {
            text_of = text_of.replace("%d<128>", "%d<256>");
        }
        let error = PtxModule::parse(&text_of).unwrap_err().to_string();
        assert!(error.contains(text) || product.columns > 256, "{product:?}: {error}");
    }
    let sparse = HALF.kernel().replace("mma_async.sync", "mma_async.sp.sync");
    let error = PtxModule::parse(&sparse).unwrap_err().to_string();
    assert!(error.contains("sparse products are not supported"), "{error}");
    let short = HALF.kernel().replace("%d31}", "%d31, %d0}");
    let error = PtxModule::parse(&short).unwrap_err().to_string();
    assert!(error.contains("an operand has 33 registers, not 32"), "{error}");
}
