
#ifndef __CUDACC_RTC__
// Below: a program that checks the kernel above against a reference, and times it. gemm-tune @VERSION@ wrote it.

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace gemm_tune_harness {

typedef unsigned int u32;
typedef unsigned long long u64;

// Elements: 16-bit types as their bits, so that no header is needed whose names a kernel may have.
typedef float f32;
typedef int i32;
typedef signed char i8;
struct f16 {
    unsigned short bits;
};
struct bf16 {
    unsigned short bits;
};

// The problem: @PROBLEM@.
// All matrices are row-major and packed, the products of a batch one after the other.
@CONSTANTS@
constexpr u64 SEED_A = 1, SEED_B = 2, SEED_C = 3;  // the epilogue's operands have those that follow
constexpr int WARM_UPS = 5, SAMPLES = 20;
constexpr double UNKNOWN = HUGE_VAL;  // the error of a NaN
constexpr double TINY = 1e-300;       // nothing is divided by 0

// Ends the program at the first CUDA call that fails.
#define GEMM_TUNE_CHECK(call) ::gemm_tune_harness::check_status((call), __FILE__, __LINE__)

inline void check_status(cudaError_t status, const char* file, int line)
{
    if (status == cudaSuccess)
        return;
    std::fprintf(stderr, "%s:%d: %s: %s\n", file, line, cudaGetErrorName(status), cudaGetErrorString(status));
    std::exit(1);
}

// Values ---------------------------------------------------------------------------------------------------

__device__ inline float number(f32 x) { return x; }
__device__ inline int number(i32 x) { return x; }
__device__ inline int number(i8 x) { return x; }

__device__ inline float number(f16 x)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
    return value;
}

__device__ inline float number(bf16 x) { return __uint_as_float((u32)x.bits << 16); }

// Rounds a value to an element, to nearest and ties to even.
__device__ inline void round_to(f32& x, float value) { x = value; }
__device__ inline void round_to(i32& x, float value) { x = (int)value; }
__device__ inline void round_to(i8& x, float value) { x = (signed char)(int)value; }
__device__ inline void round_to(f16& x, float value) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(x.bits) : "f"(value)); }

__device__ inline void round_to(bf16& x, float value)
{
    const u32 bits = __float_as_uint(value);
    x.bits = (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <typename Element>
struct Traits {  // f32: its rounding is a part of the allowed error. Integers: exact.
    static constexpr double relative_rounding = 0.0, absolute_rounding = 0.0;
};
template <>
struct Traits<f16> {
    static constexpr double relative_rounding = 1.0 / (1 << 11), absolute_rounding = 1.0 / (1 << 25);
};
template <>
struct Traits<bf16> {
    static constexpr double relative_rounding = 1.0 / (1 << 8), absolute_rounding = 0.0;
};

template <typename Element>
struct IsInteger {
    static constexpr bool value = false;
};
template <>
struct IsInteger<i32> {
    static constexpr bool value = true;
};
template <>
struct IsInteger<i8> {
    static constexpr bool value = true;
};

// The value of element `index` of an operand: a hash (the finaliser of splitmix64) as a number in [-1, 1), or as an
// integer from -8 to 7.
template <typename Element>
__device__ Element value_at(u64 index, u64 seed)
{
    u64 x = index + (seed + 1) * 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    x ^= x >> 31;
    Element element;
    if (IsInteger<Element>::value)
        round_to(element, (float)((int)(x >> 60) - 8));
    else
        round_to(element, (float)(int)(x >> 40) * (1.0f / 8388608.0f) - 1.0f);
    return element;
}

template <typename Element>
__global__ void fill(Element* to, u64 count, u64 seed)
{
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x)
        to[i] = value_at<Element>(i, seed);
}

// Launches ---------------------------------------------------------------------------------------------------

// What the kernels take, by the names of the description above.
struct Arguments {
@ARGUMENTS@};

inline void start(const void* kernel, dim3 grid, dim3 block, u32 shared_bytes, bool programmatic, void** arguments)
{
    // More than 48 KiB of shared memory are used on request only.
    if (shared_bytes > 0)
        GEMM_TUNE_CHECK(
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes));
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t configuration = {};
    configuration.gridDim = grid;
    configuration.blockDim = block;
    configuration.dynamicSmemBytes = shared_bytes;
    configuration.attrs = &attribute;
    configuration.numAttrs = programmatic ? 1 : 0;
    GEMM_TUNE_CHECK(cudaLaunchKernelExC(&configuration, kernel, arguments));
}

// C = alpha op(A) op(B) + beta C with the kernel above.
inline void multiply(Arguments& with, Scalar alpha, Scalar beta)
{
    with.alpha = alpha;
    with.beta = beta;
@LAUNCHES@}

// Reference --------------------------------------------------------------------------------------------------

__device__ inline double magnitude(double x) { return x < 0 ? -x : x; }
__device__ inline long long magnitude(long long x) { return x < 0 ? -x : x; }

// An element of C and its reference. The error is relative to what `MAX_ERROR` says, without the rounding of C.
struct Comparison {
    double got, expected, error;
};

// Computes element `at` of C anew, with every operation in double, or in 64-bit integers.
__device__ inline Comparison compare(const Arguments& with, u64 at)
{
    const u64 product = at / ((u64)M * N);
    const u64 row = at / N % M, column = at % N;
    const ElementA* const A = (const ElementA*)with.A + product * stride_a;
    const ElementB* const B = (const ElementB*)with.B + product * stride_b;
    Sum sum = 0, sum_of_magnitudes = 0;
    for (u64 k = 0; k < (u64)K; ++k) {
        const Sum term = (Sum)number(A[A_TRANSPOSED ? k * lda + row : row * lda + k])
                         * (Sum)number(B[B_TRANSPOSED ? column * ldb + k : k * ldb + column]);
        sum += term;
        sum_of_magnitudes += magnitude(term);
    }
    const Number scaled_old = (Number)CHECKED_BETA * (Number)number(value_at<ElementD>(at, SEED_C));
    Number value = (Number)CHECKED_ALPHA * (Number)sum + scaled_old;
    Number unit = magnitude((Number)CHECKED_ALPHA) * (Number)sum_of_magnitudes + magnitude(scaled_old);
@OPERATIONS@
    const double got = number(((const ElementD*)with.C)[at]);
    if (IsInteger<ElementD>::value) {
        const double expected = (int)(u32)(u64)value;  // modulo 2^32
        return {got, expected, magnitude(got - expected)};
    }
    const double expected = (double)value;
    const double rounding =
        Traits<ElementD>::relative_rounding * magnitude(expected) + Traits<ElementD>::absolute_rounding;
    const double distance = magnitude(got - expected) - rounding;
    if (distance <= 0)
        return {got, expected, 0};
    const double error = distance / (double)unit;
    return {got, expected, error == error ? error : UNKNOWN};
}

// What the comparison of all elements found.
struct Verdict {
    u64 wrong;  // elements beyond the allowed error
    u64 first;  // the first of them
    u64 worst;  // bits of the largest error, which are ordered as the numbers are
};

__global__ void compare_all(Arguments with, Verdict* verdict)
{
    double worst = 0;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < ELEMENTS_C; i += (u64)gridDim.x * blockDim.x) {
        const double error = compare(with, i).error;
        worst = error > worst ? error : worst;
        if (error > MAX_ERROR) {
            atomicAdd(&verdict->wrong, (u64)1);
            atomicMin(&verdict->first, i);
        }
    }
    if (worst > 0)
        atomicMax(&verdict->worst, (u64)__double_as_longlong(worst));
}

__global__ void compare_one(Arguments with, u64 at, Comparison* to) { *to = compare(with, at); }

// The program ------------------------------------------------------------------------------------------------

inline void* allocate(u64 bytes)
{
    void* address = nullptr;
    GEMM_TUNE_CHECK(cudaMalloc(&address, bytes));
    return address;
}

// Workspaces begin with bits of NaN, so that a read before a write is seen.
inline void* workspace(u64 bytes)
{
    void* const address = allocate(bytes);
    GEMM_TUNE_CHECK(cudaMemset(address, 0xff, bytes));
    return address;
}

// Starts one of the kernels of this program.
template <typename... Parameters, typename... Values>
void run(u64 threads, void (*kernel)(Parameters...), Values... values)
{
    cudaLaunchConfig_t configuration = {};
    configuration.blockDim = dim3(256, 1, 1);
    configuration.gridDim = dim3((u32)std::min<u64>((threads + 255) / 256, 1 << 16), 1, 1);
    GEMM_TUNE_CHECK(cudaLaunchKernelEx(&configuration, kernel, values...));
}

template <typename Element>
void* filled(u64 count, u64 seed)
{
    void* const address = allocate(count * sizeof(Element));
    run(count, fill<Element>, (Element*)address, count, seed);
    return address;
}
@ENCODER@
inline Arguments prepare()
{
    Arguments with = {};
    with.A = filled<ElementA>(ELEMENTS_A, SEED_A);
    with.B = filled<ElementB>(ELEMENTS_B, SEED_B);
    with.C = filled<ElementD>(ELEMENTS_C, SEED_C);
@PREPARED@    return with;
}

// Whether all elements of C are within the allowed error. Says what was found.
inline bool is_correct(Arguments& with)
{
    Verdict verdict = {0, ~(u64)0, 0};
    Verdict* const on_device = (Verdict*)allocate(sizeof verdict);
    multiply(with, CHECKED_ALPHA, CHECKED_BETA);
    GEMM_TUNE_CHECK(cudaMemcpy(on_device, &verdict, sizeof verdict, cudaMemcpyHostToDevice));
    run(ELEMENTS_C, compare_all, with, on_device);
    GEMM_TUNE_CHECK(cudaMemcpy(&verdict, on_device, sizeof verdict, cudaMemcpyDeviceToHost));
    double worst;
    std::memcpy(&worst, &verdict.worst, sizeof worst);
    if (MAX_ERROR > 0)
        std::printf("check: largest error %.3g, allowed %.3g, ratio %.3g\n", worst, MAX_ERROR,
                    worst / (MAX_ERROR + TINY));
    else
        std::printf("check: %llu of %llu elements differ; they must be equal\n", verdict.wrong, ELEMENTS_C);
    if (verdict.wrong == 0)
        return true;
    Comparison comparison;
    Comparison* const one = (Comparison*)allocate(sizeof comparison);
    run(1, compare_one, with, verdict.first, one);
    GEMM_TUNE_CHECK(cudaMemcpy(&comparison, one, sizeof comparison, cudaMemcpyDeviceToHost));
    std::printf("check FAILED: %llu of %llu elements are wrong. The first: row %llu, column %llu of product %llu is "
                "%.9g, not %.9g\n",
                verdict.wrong, ELEMENTS_C, verdict.first / N % M, verdict.first % N, verdict.first / ((u64)M * N),
                comparison.got, comparison.expected);
    return false;
}

// Times launches with alpha = 1 and beta = 0, each after the L2 cache was overwritten.
inline void time_launches(Arguments& with)
{
    int device = 0, l2_bytes = 0;
    GEMM_TUNE_CHECK(cudaGetDevice(&device));
    GEMM_TUNE_CHECK(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device));
    void* const l2 = allocate((u64)std::max(l2_bytes, 1));
    cudaEvent_t begin, end;
    GEMM_TUNE_CHECK(cudaEventCreate(&begin));
    GEMM_TUNE_CHECK(cudaEventCreate(&end));
    std::vector<float> times;
    for (int i = 0; i < WARM_UPS + SAMPLES; ++i) {
        float milliseconds = 0;
        GEMM_TUNE_CHECK(cudaMemsetAsync(l2, i, (size_t)l2_bytes, 0));
        GEMM_TUNE_CHECK(cudaEventRecord(begin, 0));
        multiply(with, 1, 0);
        GEMM_TUNE_CHECK(cudaEventRecord(end, 0));
        GEMM_TUNE_CHECK(cudaEventSynchronize(end));
        GEMM_TUNE_CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
        if (i >= WARM_UPS)
            times.push_back(1000 * milliseconds);
    }
    std::sort(times.begin(), times.end());
    const double median = 0.5 * (times[(SAMPLES - 1) / 2] + times[SAMPLES / 2]);
    std::printf("time: median %.2f us, min %.2f us of %d launches with a cold L2 cache\n", median, times[0], SAMPLES);
    std::printf("rate: %.2f @RATE@ at the median\n", 2.0 * M * N * K * batch / median / 1e6);
}

inline int program()
{
    Arguments with = prepare();
    GEMM_TUNE_CHECK(cudaDeviceSynchronize());
    if (!is_correct(with))
        return 1;
    time_launches(with);
    return 0;
}

}  // namespace gemm_tune_harness

int main()
{
    return gemm_tune_harness::program();
}
#endif
