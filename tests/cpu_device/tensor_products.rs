//! Products of tensor cores have the bits that an H200 gave for the same operands.

use gemm_tune::compile::Compile as _;

use crate::support::compiler_or_skip;
use crate::support::tensor_products::{INSTRUCTIONS, on_the_cpu, request};

/// BLAKE3 of what an H200 wrote, by instruction: printed by the GPU test
/// `products_of_tensor_cores_have_the_bits_of_the_gpu`.
const OF_THE_H200: [(&str, &str); 13] = [
    (
        "m16n8k16.row.col.f32.f16.f16.f32",
        "ff640cae08809e55ca035a000881d1690fcbed7913a25ff6aa0e5d9cf6966180",
    ),
    (
        "m16n8k8.row.col.f32.f16.f16.f32",
        "03e2fda06bec24509a2f8ee64d6ce82859b78c18c9e00a3ee6ca5504184ba969",
    ),
    (
        "m16n8k16.row.col.f16.f16.f16.f16",
        "761ed650c9e8d440f22f939e8a820988f7bccc98c7e1e503f2b7777663b5a95c",
    ),
    (
        "m16n8k8.row.col.f16.f16.f16.f16",
        "071cad92e9069f91c784d659df08207ff7cb387030b47006c616029bbca717d8",
    ),
    (
        "m16n8k16.row.col.f32.bf16.bf16.f32",
        "334d351022c0fb0ecbcb8346130961c3280ea615146b8a3fac4dfbabfe600dbd",
    ),
    (
        "m16n8k8.row.col.f32.bf16.bf16.f32",
        "ed2a1c48cf098de03afd54c202f1918f5e24f09098627d4b772ae582a2d1bbe5",
    ),
    (
        "m16n8k8.row.col.f32.tf32.tf32.f32",
        "660a5f93854b95a6cd659048a8172f217a3f87e893b7563eb1c41d397b1f2363",
    ),
    (
        "m16n8k4.row.col.f32.tf32.tf32.f32",
        "2f9d699e838a99d8ffb09584768d6a56b7abe3dd1bf4425349960e5e44bda028",
    ),
    (
        "m16n8k32.row.col.s32.s8.s8.s32",
        "fe826991b4fb277ae0b4dc562e2f310c44639ab8b09e5be5e734fac4880adb61",
    ),
    (
        "m16n8k32.row.col.satfinite.s32.u8.s8.s32",
        "69153a9b4d2bed6f363ed4eb0d5966a0f8225b7c09a99eea2f67e0f5fd3b9746",
    ),
    (
        "m16n8k16.row.col.s32.s8.u8.s32",
        "d265601ba9aa629b763826ba1abaf42cefd97ea634957ee3015b8a9093354f44",
    ),
    (
        "m16n8k16.row.col.satfinite.s32.s8.s8.s32",
        "585d88a3295b1e36f4b274e6c56c85db760e8e25557eb99380660ce5ecae9458",
    ),
    (
        "m16n8k16.row.col.s32.u8.u8.s32",
        "e53af47c367f2275aca4196763d8d99024670632c58424a906da0e43f0361dd6",
    ),
];

#[test]
fn products_have_the_bits_of_an_h200() {
    let Some(compiler) = compiler_or_skip() else { return };
    let digest = |instruction| {
        let ptx =
            compiler.compile(&request(instruction)).unwrap_or_else(|error| panic!("{error}")).image;
        let written = on_the_cpu(&String::from_utf8_lossy(&ptx));
        (instruction.0, blake3::hash(&written).to_hex().to_string())
    };
    let of_the_cpu = INSTRUCTIONS.map(digest);
    assert_eq!(of_the_cpu, OF_THE_H200.map(|(name, digest)| (name, digest.to_owned())));
}
