// Validation kernels: fill operands with reproducible values, compute the reference, compare, and
// check guard bytes. Not tuned, but simple enough to verify by reading. Compiled with ELEMENT_A,
// ELEMENT_B and ELEMENT_D defined as the names of dtypes, and where there is an epilogue, EPILOGUE as its
// operations and the largest slope of each activation; `inputs.rs` has the same generators for the host.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

// Elements. The compiler has no header for the 16-bit types.
typedef float f32;
typedef int i32;
typedef signed char i8;
struct f16 {
    unsigned short bits;
};
struct bf16 {
    unsigned short bits;
};

// The value of an element.
__device__ float number(f32 x)
{
    return x;
}

__device__ int number(i32 x)
{
    return x;
}

__device__ int number(i8 x)
{
    return x;
}

__device__ float number(f16 x)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
    return value;
}

__device__ float number(bf16 x)
{
    return __uint_as_float((u32)x.bits << 16);
}

// `round_to` rounds a value to an element, to nearest and ties to even.
__device__ void round_to(f32& x, float value)
{
    x = value;
}

__device__ void round_to(i32& x, float value)
{
    x = (int)value;
}

__device__ void round_to(i8& x, float value)
{
    x = (signed char)(int)value;
}

__device__ void round_to(f16& x, float value)
{
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(x.bits) : "f"(value));
}

__device__ void round_to(bf16& x, float value)
{
    const u32 bits = __float_as_uint(value);
    x.bits = value == value ? (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16) : 0x7fff;
}

// What rounding to an element may change: relative to the value, and at least. From `overflow` on a value becomes an
// infinity.
template <typename Element>
struct Rounding {
    static constexpr double relative = 0.0, absolute = 0.0;  // a part of the bound, or exact
    static constexpr double overflow = 3.4028235677973366e38;
};

template <>
struct Rounding<f16> {
    static constexpr double relative = 1.0 / (1 << 11), absolute = 1.0 / (1 << 25), overflow = 65520.0;
};

template <>
struct Rounding<bf16> {
    static constexpr double relative = 1.0 / (1 << 8), absolute = 0.0, overflow = 3.3961775292304957e38;
};

// Whether an element is an integer, and the type of alpha, beta and sums.
template <typename Element>
constexpr bool is_integer = false;
template <>
constexpr bool is_integer<i32> = true;
template <>
constexpr bool is_integer<i8> = true;

typedef decltype(number(ELEMENT_D())) scalar;

// Hashes an index to 64 bits: the finaliser of splitmix64 (Steele, Lea and Flood 2014).
__device__ u64 mix(u64 index, u64 seed)
{
    u64 x = index + seed * 0x9e3779b97f4a7c15ull + 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

// One of -3, -2, -1, 1, 2, 3: products and their sums are exact in binary32, and every product that is
// missing or counted twice changes the sum.
__device__ int small_value(u64 index, u64 seed)
{
    const int which = (int)((mix(index, seed) >> 32) % 6);
    return which < 3 ? which - 3 : which - 2;
}

// Uniform: 24 bits in [-1, 1) for floating point, -1000 to 1000 for integers, all values for those of
// 8 bits.
template <typename Element>
__device__ float uniform_value(u64 index, u64 seed)
{
    const u64 bits = mix(index, seed);
    if (is_integer<Element>)
        return sizeof(Element) == 1 ? (int)((bits >> 32) % 256) - 128 : (int)((bits >> 32) % 2001) - 1000;
    return (float)(int)(bits >> 40) * (1.0f / 8388608.0f) - 1.0f;
}

template <typename Element>
__device__ Element value(int kind, u64 index, u64 seed)
{
    Element x;
    round_to(x, kind == 0 ? (float)small_value(index, seed) : uniform_value<Element>(index, seed));
    return x;
}

// Where the lines of an operand are: rows of op(A), columns of op(B). A stored row has `length` elements.
struct Lines {
    int length, rows;  // rows of one product
    int are_rows;      // whether a stored row is a line, rather than the elements of all lines for one k
    int shift;         // positive values are divided by 2 to this power
};

enum LineClass { SIGNED, POSITIVE, SINGLE, SPECIAL };

__device__ LineClass line_class(u64 line)
{
    return line % 16 == 1 ? SINGLE : line % 16 == 9 ? SPECIAL : line % 2 == 0 ? POSITIVE : SIGNED;
}

// value / 2^shift
__device__ float scaled(float value, int shift)
{
    return value * __int_as_float((127 - shift) << 23);
}

// Uniform values that each line changes in its own way: as they are; their magnitudes, as tf32 represents them; one of
// them, which may be subnormal in f16, and zeros; or with an infinity or a NaN among them.
template <typename Element>
__device__ float mixed_value(u64 index, u64 seed, const Lines& lines)
{
    const float uniform = uniform_value<Element>(index, seed);
    if (is_integer<Element>)
        return uniform;
    const int outer = (int)(index / lines.length % lines.rows), inner = (int)(index % lines.length);
    const int line = lines.are_rows ? outer : inner, k = lines.are_rows ? inner : outer;
    const LineClass kind = line_class(line);
    if (kind == SIGNED)
        return uniform;
    if (kind == POSITIVE)
        return scaled(__uint_as_float(__float_as_uint(fabsf(uniform)) & 0xffffe000), lines.shift);
    const u64 choice = mix(~(u64)line, seed);
    if ((int)(choice % (lines.are_rows ? lines.length : lines.rows)) != k)
        return kind == SPECIAL ? uniform : 0;
    if (kind == SPECIAL)
        return __int_as_float(choice >> 62 == 0 ? 0x7f800000 : choice >> 62 == 1 ? 0xff800000 : 0x7fc00000);
    return scaled(uniform, choice >> 62 == 0 ? 14 : 0);
}

// The value of A or B.
template <typename Element>
__device__ Element factor(int kind, u64 index, u64 seed, const Lines& lines)
{
    if (kind != 2)
        return value<Element>(kind, index, seed);
    Element x;
    round_to(x, mixed_value<Element>(index, seed, lines));
    return x;
}

__device__ u64 first_index()
{
    return (u64)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ u64 index_step()
{
    return (u64)gridDim.x * blockDim.x;
}

template <typename Element>
__device__ void fill(Element* out, u64 count, int kind, u64 seed)
{
    for (u64 i = first_index(); i < count; i += index_step())
        out[i] = value<Element>(kind, i, seed);
}

template <typename Element>
__device__ void fill_factor(Element* out, u64 count, int kind, u64 seed, const Lines& lines)
{
    for (u64 i = first_index(); i < count; i += index_step())
        out[i] = factor<Element>(kind, i, seed, lines);
}

extern "C" __global__ void fill_a(ELEMENT_A* out, u64 count, int kind, u64 seed, int length, int rows, int are_rows,
                                  int shift)
{
    fill_factor(out, count, kind, seed, {length, rows, are_rows, shift});
}

extern "C" __global__ void fill_b(ELEMENT_B* out, u64 count, int kind, u64 seed, int length, int rows, int are_rows,
                                  int shift)
{
    fill_factor(out, count, kind, seed, {length, rows, are_rows, shift});
}

extern "C" __global__ void fill_c(ELEMENT_D* out, u64 count, int kind, u64 seed)
{
    fill(out, count, kind, seed);
}

extern "C" __global__ void fill_words(u32* out, u64 count, u32 word)
{
    for (u64 i = first_index(); i < count; i += index_step())
        out[i] = word;
}

template <typename Number>
__device__ bool differ(Number x, Number y)
{
    return x != y && (x == x || y == y);  // NaN is equal to NaN here
}

// Counts elements that changed since they were filled.
template <typename Element>
__device__ void count_changed(const Element* in, u64 count, int kind, u64 seed, const Lines& lines, u64* changed)
{
    for (u64 i = first_index(); i < count; i += index_step())
        if (differ(number(in[i]), number(factor<Element>(kind, i, seed, lines))))
            atomicAdd(changed, 1ull);
}

extern "C" __global__ void count_changed_a(const ELEMENT_A* in, u64 count, int kind, u64 seed, int length, int rows,
                                           int are_rows, int shift, u64* changed)
{
    count_changed(in, count, kind, seed, {length, rows, are_rows, shift}, changed);
}

extern "C" __global__ void count_changed_b(const ELEMENT_B* in, u64 count, int kind, u64 seed, int length, int rows,
                                           int are_rows, int shift, u64* changed)
{
    count_changed(in, count, kind, seed, {length, rows, are_rows, shift}, changed);
}

// Counts words that changed since fill_words.
extern "C" __global__ void count_changed_words(const u32* in, u64 count, u32 word, u64* changed)
{
    for (u64 i = first_index(); i < count; i += index_step())
        if (in[i] != word)
            atomicAdd(changed, 1ull);
}

// Counts bytes of the words of fill_words that changed: those behind an operand that ends within a word.
extern "C" __global__ void count_changed_bytes(const u8* in, u64 count, u32 word, u64* changed)
{
    for (u64 i = first_index(); i < count; i += index_step())
        if (in[i] != (u8)(word >> 8 * ((u64)(in + i) % 4)))
            atomicAdd(changed, 1ull);
}

// Counts the words in which two buffers differ.
extern "C" __global__ void count_different_words(const u32* a, const u32* b, u64 count, u64* different)
{
    for (u64 i = first_index(); i < count; i += index_step())
        if (a[i] != b[i])
            atomicAdd(different, 1ull);
}

enum Operation { BIAS, ROW_SCALE, COL_SCALE, RELU, GELU, GELU_TANH, SILU, RESIDUAL, MUL };
#if defined(EPILOGUE)
constexpr Operation OPERATIONS[] = {EPILOGUE};
#endif

// Where an element of C is, and what its epilogue reads.
struct Place {
    int M, N;
    u64 first;  // index of the first element of the part
    u64 epilogue_seed;  // each operation has the stream of its number
};

extern "C" __global__ void fill_scale(f32* out, u64 count, int kind, u64 seed)
{
    fill(out, count, kind, seed);
}

// The value of an operand of the epilogue for element `i` of C.
template <typename Element>
__device__ double operand_at(Operation operation, int kind, u64 i, const Place& place)
{
    u64 at = i;
    if (operation == ROW_SCALE)
        at = i / place.N;
    else if (operation == BIAS || operation == COL_SCALE)
        at = i / ((u64)place.M * place.N) * place.N + i % place.N;
    return number(value<Element>(kind, at, place.epilogue_seed + operation));
}

// Applies the epilogue to a value and to the unit of its error.
__device__ void apply_epilogue(double& value, double& unit, int kind, u64 i, const Place& place)
{
#if defined(EPILOGUE)
    for (Operation operation : OPERATIONS) {
        double operand;
        switch (operation) {
        case BIAS:
        case RESIDUAL:
            operand = operand_at<ELEMENT_D>(operation, kind, i, place);
            value += operand;
            unit += fabs(operand);
            break;
        case ROW_SCALE:
        case COL_SCALE:
            operand = operand_at<f32>(operation, kind, i, place);
            value *= operand;
            unit *= fabs(operand);
            break;
        case MUL:
            operand = operand_at<ELEMENT_D>(operation, kind, i, place);
            value *= operand;
            unit *= fabs(operand);
            break;
        case RELU:
            value = value < 0 ? 0 : value;  // NaN stays
            break;
        case GELU:
            value = value / 2 * (1 + erf(value * 0.70710678118654752));
            unit *= GELU_SLOPE;
            break;
        case GELU_TANH:
            value = value / 2 * (1 + tanh(0.79788456080286536 * (value + 0.044715 * value * value * value)));
            unit *= GELU_TANH_SLOPE;
            break;
        case SILU:
            value = value / (1 + exp(-value));
            unit *= SILU_SLOPE;
            break;
        }
    }
#endif
}

// The same for integers, modulo 2^32.
__device__ int apply_integer_epilogue(int value, int kind, u64 i, const Place& place)
{
#if defined(EPILOGUE)
    for (Operation operation : OPERATIONS) {
        if (operation == RELU)
            value = max(value, 0);
        else
            value = (int)((u32)value + (u32)(int)operand_at<ELEMENT_D>(operation, kind, i, place));
    }
#endif
    return value;
}

constexpr int TILE = 64;  // rows and columns of C per block
constexpr int STEP = 16;  // extent of a stage along K
constexpr int PER_THREAD = 4;
constexpr int APART = TILE / PER_THREAD;  // distance of a thread's rows, and of its columns

// Loads a stage of an operand: TILE rows or columns from `first`, STEP along K from `k0`, zeros beyond
// its end. Neighbouring threads read adjacent elements.
template <typename Sum, typename Element>
__device__ void load(Sum (&stage)[STEP][TILE + 1], const Element* from, int ld, bool k_contiguous, int first, int k0,
                     int extent, int K)
{
    for (int i = threadIdx.x; i < STEP * TILE; i += 256) {
        const int k = k_contiguous ? i % STEP : i / TILE;
        const int x = k_contiguous ? i / STEP : i % TILE;
        const u64 at = k_contiguous ? (u64)(first + x) * ld + (k0 + k) : (u64)(k0 + k) * ld + (first + x);
        stage[k][x] = first + x < extent && k0 + k < K ? (Sum)number(from[at]) : (Sum)0;
    }
}

// Computes sum = op(A) op(B) and optionally magnitude = |op(A)| |op(B)|, both in `Sum`, with 256
// threads. A thread's rows and columns are APART, so that neighbours read adjacent elements.
template <typename Sum>
__device__ void reference(const ELEMENT_A* A, const ELEMENT_B* B, Sum* sums, float* magnitudes, int M, int N, int K,
                          int batch, int lda, int ldb, int a_transposed, int b_transposed)
{
    __shared__ Sum As[STEP][TILE + 1];
    __shared__ Sum Bs[STEP][TILE + 1];
    const int thread_n = threadIdx.x % APART;
    const int thread_m = threadIdx.x / APART;
    const int tiles_n = (N + TILE - 1) / TILE;
    const int block_m = blockIdx.x / tiles_n * TILE;
    const int block_n = blockIdx.x % tiles_n * TILE;

    for (int product = blockIdx.z; product < batch; product += gridDim.z) {
        const ELEMENT_A* a = A + (u64)product * M * K;
        const ELEMENT_B* b = B + (u64)product * K * N;
        Sum sum[PER_THREAD][PER_THREAD] = {};
        Sum magnitude[PER_THREAD][PER_THREAD] = {};
        for (int k0 = 0; k0 < K; k0 += STEP) {
            load(As, a, lda, !a_transposed, block_m, k0, M, K);
            load(Bs, b, ldb, b_transposed, block_n, k0, N, K);
            __syncthreads();
            for (int k = 0; k < STEP; ++k) {
                for (int i = 0; i < PER_THREAD; ++i) {
                    for (int j = 0; j < PER_THREAD; ++j) {
                        const Sum of_a = As[k][thread_m + i * APART];
                        const Sum of_b = Bs[k][thread_n + j * APART];
                        sum[i][j] = fma(of_a, of_b, sum[i][j]);
                        if (magnitudes)
                            magnitude[i][j] = fma(fabs(of_a), fabs(of_b), magnitude[i][j]);
                    }
                }
            }
            __syncthreads();
        }
        for (int i = 0; i < PER_THREAD; ++i) {
            for (int j = 0; j < PER_THREAD; ++j) {
                const int row = block_m + thread_m + i * APART;
                const int column = block_n + thread_n + j * APART;
                if (row < M && column < N) {
                    const u64 at = ((u64)product * M + row) * N + column;
                    sums[at] = sum[i][j];
                    if (magnitudes)
                        magnitudes[at] = (float)magnitude[i][j];
                }
            }
        }
    }
}

// For small values, whose sums are exact in binary32 in any order.
extern "C" __global__ void __launch_bounds__(256)
reference_small(const ELEMENT_A* A, const ELEMENT_B* B, float* sums, int M, int N, int K, int batch, int lda, int ldb,
                int a_transposed, int b_transposed)
{
    reference(A, B, sums, (float*)nullptr, M, N, K, batch, lda, ldb, a_transposed, b_transposed);
}

extern "C" __global__ void __launch_bounds__(256)
reference_mixed(const ELEMENT_A* A, const ELEMENT_B* B, double* sums, float* magnitudes, int M, int N, int K,
                  int batch, int lda, int ldb, int a_transposed, int b_transposed)
{
    reference(A, B, sums, magnitudes, M, N, K, batch, lda, ldb, a_transposed, b_transposed);
}

// Result of comparing one run; zeroed before, except `at`, which starts with all bits set.
struct ComparisonResult {
    u64 wrong;  // elements beyond the bound
    u64 worst;  // bits of the largest error, ordered as numbers since none is negative
    u64 at;     // first element with that error, if any is wrong
    double got;
    double expected;
};

struct Comparison {
    double got;
    double expected;
    double error;  // relative to the magnitude; infinite for NaN
};

// NaN compares with nothing, and must count as the largest error.
__device__ double infinite_if_nan(double error)
{
    return error == error ? error : __longlong_as_double(0x7ff0000000000000ll);
}

// The distance of an element from its expected value beyond the rounding of C, in units of its error.
__device__ double distance(double got, double expected, double unit)
{
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    const double overflow = got < 0 ? -Rounding<ELEMENT_D>::overflow : Rounding<ELEMENT_D>::overflow;
    if (fabs(got) == infinity && fabs(expected) < infinity) {
        const double missing = (overflow - expected) * (got < 0 ? -1 : 1);
        return missing <= 0 ? 0 : missing / unit;
    }
    const double rounding = Rounding<ELEMENT_D>::relative * fabs(expected) + Rounding<ELEMENT_D>::absolute;
    const double difference = fabs(got - expected) - rounding;
    return difference <= 0 ? 0 : infinite_if_nan(difference / unit);
}

// The small-value product: alpha = 1, beta = 0, and no rounding but that of C and what an epilogue evaluates.
__device__ Comparison compare_small_at(const ELEMENT_D* C, const float* sums, u64 i, const Place& place, bool is_exact)
{
    const double got = number(C[i]);
    if (is_integer<ELEMENT_D>) {
        const int expected = apply_integer_epilogue((int)sums[i], 0, place.first + i, place);
        return {got, (double)expected, fabs(got - expected)};
    }
    double value = sums[i], unit = fabs(value);
    apply_epilogue(value, unit, 0, place.first + i, place);
    if (!is_exact)
        return {got, value, distance(got, value, unit)};
    ELEMENT_D rounded;
    round_to(rounded, (float)value);
    const double expected = number(rounded);
    return {got, expected, got == expected ? 0.0 : infinite_if_nan(fabs(got - expected))};
}

// Units of the errors of mixed values, by the classes of both lines; 1 where one is signed and none single.
struct ClassUnits {
    float single, positive;
};

// What an infinity or a NaN became: the same, unless activations follow.
__device__ double special_distance(double got, double expected)
{
#if defined(HAS_ACTIVATION)
    return 0;
#else
    return differ(got, expected) ? __longlong_as_double(0x7ff0000000000000ll) : 0;
#endif
}

__device__ double class_unit(u64 at, const Place& place, const ClassUnits& units)
{
    const LineClass a = line_class(at / place.N % place.M), b = line_class(at % place.N);
    if (a == SINGLE || b == SINGLE)
        return units.single;
    return a == POSITIVE && b == POSITIVE ? units.positive : 1;
}

// alpha op(A) op(B) + beta C0, C0 being the uniform values of c_seed. C is a part that begins at element
// `first`. The rounding of C is no part of the error.
__device__ Comparison compare_mixed_at(const ELEMENT_D* C, const double* sums, const float* magnitudes, u64 i,
                                       scalar alpha, scalar beta, u64 c_seed, const Place& place,
                                       const ClassUnits& units)
{
    const u64 at = place.first + i;
    const double c0 = number(value<ELEMENT_D>(1, at, c_seed));
    const double got = number(C[i]);
    if (is_integer<ELEMENT_D>) {
        const int product = (int)((u32)alpha * (u32)(long long)sums[i] + (u32)beta * (u32)(int)c0);
        const int expected = apply_integer_epilogue(product, 1, at, place);
        return {got, (double)expected, fabs(got - (double)expected)};
    }
    const double sum = sums[i];
    double expected = (double)alpha * sum + (double)beta * c0;
    double unit = fabs((double)alpha) * magnitudes[i] + fabs((double)beta * c0);
    apply_epilogue(expected, unit, 1, at, place);
    if (differ(sum - sum, 0.0))
        return {got, expected, special_distance(got, expected)};
    return {got, expected, distance(got, expected, unit * class_unit(at, place, units))};
}

// Errors that one thread found.
struct ErrorStatistics {
    u64 wrong = 0;
    u64 worst = 0;

    __device__ void add(const Comparison& comparison, double bound)
    {
        wrong += !(comparison.error <= bound);
        worst = max(worst, (u64)__double_as_longlong(comparison.error));
    }

    // One atomic operation per warp: nearly every element has a rounding error, and one atomic for
    // each would serialise at one address.
    __device__ void report(ComparisonResult* result)
    {
        for (int step = 16; step > 0; step /= 2) {
            wrong += __shfl_xor_sync(0xffffffff, wrong, step);
            worst = max(worst, __shfl_xor_sync(0xffffffff, worst, step));
        }
        if (threadIdx.x % 32 == 0) {
            if (wrong > 0)
                atomicAdd(&result->wrong, wrong);
            atomicMax(&result->worst, worst);
        }
    }
};

// Kernels that locate and describe the worst element return at once if no element is wrong.
__device__ void locate(ComparisonResult* result, const Comparison& comparison, u64 i)
{
    if ((u64)__double_as_longlong(comparison.error) == result->worst)
        atomicMin(&result->at, i);
}

extern "C" __global__ void compare_small(const ELEMENT_D* C, const float* sums, u64 count, int M, int N, u64 first,
                                         u64 epilogue_seed, float bound, ComparisonResult* result)
{
    const Place place = {M, N, first, epilogue_seed};
    ErrorStatistics statistics;
    for (u64 i = first_index(); i < count; i += index_step())
        statistics.add(compare_small_at(C, sums, i, place, bound == 0), bound);
    statistics.report(result);
}

extern "C" __global__ void locate_small(const ELEMENT_D* C, const float* sums, u64 count, int M, int N, u64 first,
                                        u64 epilogue_seed, float bound, ComparisonResult* result)
{
    if (result->wrong == 0)
        return;
    const Place place = {M, N, first, epilogue_seed};
    for (u64 i = first_index(); i < count; i += index_step())
        locate(result, compare_small_at(C, sums, i, place, bound == 0), i);
}

extern "C" __global__ void describe_small(const ELEMENT_D* C, const float* sums, int M, int N, u64 first,
                                          u64 epilogue_seed, float bound, ComparisonResult* result)
{
    if (result->wrong == 0)
        return;
    const Place place = {M, N, first, epilogue_seed};
    const Comparison worst = compare_small_at(C, sums, result->at, place, bound == 0);
    result->got = worst.got;
    result->expected = worst.expected;
}

extern "C" __global__ void compare_mixed(const ELEMENT_D* C, const double* sums, const float* magnitudes,
                                           u64 count, scalar alpha, scalar beta, u64 c_seed, int M, int N, u64 first,
                                           u64 epilogue_seed, float single, float positive, float bound, ComparisonResult* result)
{
    const Place place = {M, N, first, epilogue_seed};
    ErrorStatistics statistics;
    for (u64 i = first_index(); i < count; i += index_step())
        statistics.add(compare_mixed_at(C, sums, magnitudes, i, alpha, beta, c_seed, place, {single, positive}), bound);
    statistics.report(result);
}

extern "C" __global__ void locate_mixed(const ELEMENT_D* C, const double* sums, const float* magnitudes, u64 count,
                                          scalar alpha, scalar beta, u64 c_seed, int M, int N, u64 first,
                                          u64 epilogue_seed, float single, float positive, ComparisonResult* result)
{
    if (result->wrong == 0)
        return;
    const Place place = {M, N, first, epilogue_seed};
    for (u64 i = first_index(); i < count; i += index_step())
        locate(result, compare_mixed_at(C, sums, magnitudes, i, alpha, beta, c_seed, place, {single, positive}), i);
}

extern "C" __global__ void describe_mixed(const ELEMENT_D* C, const double* sums, const float* magnitudes,
                                            scalar alpha, scalar beta, u64 c_seed, int M, int N, u64 first,
                                            u64 epilogue_seed, float single, float positive, ComparisonResult* result)
{
    if (result->wrong == 0)
        return;
    const Place place = {M, N, first, epilogue_seed};
    const Comparison worst = compare_mixed_at(C, sums, magnitudes, result->at, alpha, beta, c_seed, place, {single, positive});
    result->got = worst.got;
    result->expected = worst.expected;
}
