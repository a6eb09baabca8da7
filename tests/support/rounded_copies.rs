//! Tensor copies that round f32 to tf32: a kernel that copies boxes of many values, and what it writes on the cpu device.

use gemm_tune::compile::CompileRequest;
use gemm_tune::cpu::{
    GlobalMemory, KernelParameter, LaunchOptions, PtxModule, WriteTracking, launch,
};
use gemm_tune::model::{CopyRounding, Dtype, PlacedMap, Swizzle};

/// Boxes by a launch, each copied by a block of [`BOX`] threads.
pub(crate) const BOXES: u32 = 4096;

/// Elements of a box.
pub(crate) const BOX: u32 = 32;

/// Bytes of all elements.
pub(crate) const COPIED_BYTES: u64 = BOXES as u64 * BOX as u64 * 4;

/// Entries: the first makes the elements, the second copies boxes of them and writes what it finds.
pub(crate) const ENTRIES: [&str; 2] = ["make", "copy"];

/// Elements are of four kinds, by their places: any bits, exponents of finite values, numbers halfway between two values of
/// tf32, and values that are subnormal, the largest, infinite or NaN.
const SOURCE: &str = r#"typedef unsigned int u32;

struct alignas(64) TensorMap {
    unsigned long long words[16];
};

__device__ u32 mix(u32 x)
{
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

extern "C" __global__ void make(u32* out)
{
    const u32 at = blockIdx.x * blockDim.x + threadIdx.x, bits = mix(at);
    const u32 signs_and_fractions = bits & 0x807fffffu, exponents[4] = {0, 1, 254, 255};
    const u32 element = at % 4 == 0   ? bits
                        : at % 4 == 1 ? signs_and_fractions | (bits >> 3) % 255 << 23
                        : at % 4 == 2 ? (bits & ~0x1fffu) | 0x1000u
                                      : signs_and_fractions | exponents[bits >> 4 & 3] << 23;
    // Fractions of all ones and all zeros are the edges of what is finite.
    out[at] = at % 64 == 3 ? element | 0x7fe000u : at % 64 == 7 ? element & ~0x7fffffu : element;
}

extern "C" __global__ void copy(u32* out, const __grid_constant__ TensorMap map)
{
    __shared__ alignas(128) u32 box[32];
    __shared__ alignas(8) unsigned long long barrier;
    const u32 to = (u32)__cvta_generic_to_shared(box), full = (u32)__cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;" ::"r"(full) : "memory");
        asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes\n"
                     "    [%0], [%1, { %2 }], [%3];"
                     ::"r"(to), "l"(&map), "r"((int)blockIdx.x * 32), "r"(full) : "memory");
    }
    u32 done = 0;
    while (!done)
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n"
                     "selp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(full) : "memory");
    out[blockIdx.x * 32 + threadIdx.x] = box[threadIdx.x];
}
"#;

/// The kernels, to be compiled.
pub(crate) fn copies_request() -> CompileRequest {
    CompileRequest { source: SOURCE.into(), name: "copies.cu".to_owned(), options: Vec::new() }
}

/// The map of the elements.
pub(crate) fn copied_map(address: u64, rounds_to: Option<CopyRounding>) -> PlacedMap {
    PlacedMap {
        address,
        dtype: Dtype::F32,
        rank: 1,
        extents: [u64::from(BOXES * BOX), 1, 1, 1, 1],
        strides: [0; 4],
        tile: [BOX, 1, 1, 1, 1],
        swizzle: Swizzle::None,
        rounds_to,
    }
}

/// Words of bytes.
pub(crate) fn words_of(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// The elements, and what copies make of them, on the cpu device.
pub(crate) fn copied_on_the_cpu(ptx: &str, rounds_to: Option<CopyRounding>) -> [Vec<u32>; 2] {
    let program = PtxModule::parse(ptx).unwrap();
    let mut memory = GlobalMemory::new(WriteTracking::Written);
    let [elements, out] = [(); 2].map(|()| memory.allocate(COPIED_BYTES).unwrap());
    let map = KernelParameter::Map(copied_map(elements, rounds_to));
    let parameters = [vec![KernelParameter::Long(elements)], vec![KernelParameter::Long(out), map]];
    for (entry, parameters) in ENTRIES.iter().zip(&parameters) {
        let kernel = program.kernel(entry).unwrap();
        let extents = ([BOXES, 1, 1], [BOX, 1, 1]);
        launch(kernel, extents, 0, parameters, &memory, &LaunchOptions::default()).unwrap();
    }
    [elements, out].map(|address| words_of(&memory.read(address, COPIED_BYTES).unwrap()))
}
