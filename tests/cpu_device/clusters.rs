//! Clusters of blocks in kernels that NVRTC compiled: barriers and shared memory of other blocks.

use gemm_tune::cpu::ViolationKind::{Deadlock, OutOfBounds, Race, Unwritten};
use gemm_tune::cpu::{
    ExecutionChecks, GlobalMemory, KernelParameter, LaunchError, LaunchOptions, PtxModule,
    WriteTracking, launch,
};

use super::harness::{checked, compile};

/// Launches the first kernel of a module; returns the words of global memory and the counts.
fn run_text(
    text: &str,
    (grid, threads): ([u32; 3], u32),
    options: &LaunchOptions,
) -> Result<(Vec<u32>, gemm_tune::cpu::Counts), LaunchError> {
    let program = PtxModule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut memory = GlobalMemory::new(WriteTracking::Written);
    let out = memory.allocate(8192).unwrap();
    memory.fill_with(out, 2048, |_| u32::MAX).unwrap();
    let extents = (grid, [threads, 1, 1]);
    let parameters = [KernelParameter::Long(out)];
    let counts = launch(&program.kernels()[0], extents, 0, &parameters, &memory, options)?;
    let bytes = memory.read(out, 8192).unwrap();
    let word = |chunk: &[u8]| u32::from_le_bytes(chunk.try_into().unwrap());
    Ok((bytes.chunks(4).map(word).collect(), counts))
}

/// Sums four parts, one per block of a cluster. Each block then stores its share of the sums.
const REDUCTION: &str = r#"
constexpr int PARTS = 4, WORDS = 256, SHARE = WORDS / PARTS;

__device__ unsigned rank_in_cluster()
{
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ void meet()
{
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

__device__ float of_block(const float *address, unsigned rank)
{
    unsigned own = (unsigned)__cvta_generic_to_shared(address), there;
    float value;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(there) : "memory");
    return value;
}

extern "C" __global__ void __cluster_dims__(1, PARTS, 1) sums(float *out)
{
    __shared__ float part[WORDS];
    const unsigned rank = rank_in_cluster();
    for (int i = threadIdx.x; i < WORDS; i += blockDim.x)
        part[i] = (float)(1000 * rank + i + 7 * blockIdx.x);
    meet(); // filled
    for (int i = threadIdx.x; i < SHARE; i += blockDim.x) {
        float sum = 0;
        for (int source = 0; source < PARTS; ++source)
            sum += of_block(&part[rank * SHARE + i], source);
        out[blockIdx.x * WORDS + rank * SHARE + i] = sum;
    }
    meet(); // read
}
"#;

#[test]
fn a_compiled_kernel_sums_the_parts_of_its_cluster() {
    let Some(ptx) = compile(REDUCTION, &[]) else { return };
    for checks in [ExecutionChecks::NONE, ExecutionChecks::ALL] {
        let options = LaunchOptions { checks, ..checked() };
        let (words, _) = run_text(&ptx, ([3, 4, 1], 64), &options).unwrap();
        for (at, word) in words[..3 * 256].iter().enumerate() {
            let (block, i) = (at / 256, at % 256);
            let expected = (6000 + 4 * (i + 7 * block)) as f32;
            assert_eq!(f32::from_bits(*word), expected, "{at}");
        }
    }
}

#[test]
fn planted_faults_of_a_cluster_are_detected() {
    for (name, change, kinds, line) in [
        (
            "no barrier before reading",
            ("meet(); // filled", ""),
            &[Race, Unwritten][..],
            "ld.shared",
        ),
        ("no barrier before the end", ("meet(); // read", ""), &[OutOfBounds], "ld.shared"),
        (
            "a rank that no block has",
            ("source < PARTS", "source <= PARTS"),
            &[OutOfBounds],
            "ld.shared",
        ),
        (
            "an address beyond the part",
            ("&part[rank * SHARE + i]", "&part[rank * SHARE + i + SHARE]"),
            &[OutOfBounds],
            "ld.shared",
        ),
        (
            "parts that nobody filled",
            ("threadIdx.x; i < WORDS", "threadIdx.x; i < WORDS - SHARE"),
            &[Unwritten],
            "ld.shared",
        ),
        (
            "a part written again before all have read it",
            ("meet(); // read", "part[threadIdx.x] = 0; meet();"),
            &[Race],
            "part[threadIdx.x] = 0",
        ),
        (
            "a block that waits for itself",
            ("meet(); // filled", "if (rank == 2) asm volatile(\"bar.sync 1, 128;\"); meet();"),
            &[Deadlock],
            "barrier.cluster",
        ),
    ] {
        let (from, to) = change;
        assert!(REDUCTION.contains(from), "{name}");
        let source = REDUCTION.replacen(from, to, 1);
        let Some(ptx) = compile(&source, &[]) else { return };
        let violation = match run_text(&ptx, ([3, 4, 1], 64), &checked()) {
            Err(LaunchError::Violation(violation)) => violation,
            other => panic!("{name}: {other:?}"),
        };
        assert!(kinds.contains(&violation.kind), "{name}: {violation}");
        let at = violation.source_line.as_ref().map_or(0, |line| line.line as usize);
        let text = source.lines().nth(at.wrapping_sub(1)).unwrap_or("");
        assert!(text.contains(line), "{name}: {violation} at `{text}`");
    }
}
