/* See gemm_tuned.h. Made by gemm-tune @VERSION@. */
#include "gemm_tuned.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef CUDA_VERSION
extern CUresult cuCtxGetDevice(CUdevice *device);
extern CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
extern CUresult cuModuleLoadData(CUmodule *module, const void *image);
extern CUresult cuModuleUnload(CUmodule module);
extern CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
extern CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value);
extern CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                               unsigned grid_z, unsigned block_x, unsigned block_y,
                               unsigned block_z, unsigned shared_bytes, CUstream stream,
                               void **parameters, void **extra);
#define CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT 16
#define CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES 8
#endif

/* Bytes of dynamic shared memory that a kernel may use without an attribute. */
#define FREE_SHARED_BYTES (32 * 1024)
/* Alignment of every workspace in bytes. */
#define WORKSPACE_ALIGNMENT 256
/* Bytes of the widest vector that a thread reads or writes. */
#define WIDEST_VECTOR 16
#define MAX_WORKSPACES 8
#define MAX_LAUNCHES 8
/* Sizes of a launch: grid, block, dynamic shared memory. */
#define SIZES 7
#define STANDARD_ARGUMENTS 15
/* Limits of extents and leading dimensions, which kernels take as 32-bit integers, and of an operand's bytes. */
#define MAX_EXTENT @MAX_EXTENT@LL
#define MAX_OPERAND_BYTES @MAX_OPERAND_BYTES@LL
/* Larger counts of blocks are equal. */
#define SATURATED 9223372036854775807LL

/* A launch: image and name of the kernel, and its arguments as indices into: A B C M N K batch lda
 * ldb ldc stride_a stride_b stride_c alpha beta, then the workspaces. */
typedef struct {
    int image;
    const char *entry;
    int shared_bytes; /* dynamic; the same for every shape */
    int count;
    unsigned char arguments[STANDARD_ARGUMENTS + MAX_WORKSPACES];
} launch;

/* A kernel: its problem, its launches, and its predicted time. `serves` and `sizes` read
 * M N K batch lda ldb ldc. */
typedef struct {
    int pattern, tuned, m, n, k;
    int first_launch, launches, workspaces;
    int (*serves)(const long long *p);
    void (*sizes)(const long long *p, long long *s);
    long long tile_m, tile_n, slice_k, blocks_of_a_tile, blocks_per_sm;
    double busy_clocks, alone_clocks, block_clocks, wave_clocks, a_clocks, b_clocks;
    double launch_us, us_per_clock, own_clocks;
} kernel;

static inline long long ceil_div(long long a, long long b) { return (a + b - 1) / b; }
static inline long long most(long long a, long long b) { return a > b ? a : b; }
static inline long long least(long long a, long long b) { return a < b ? a : b; }
static inline long long times(long long a, long long b) { return a > SATURATED / b ? SATURATED : a * b; }

@ARRAYS@
static const unsigned long long *const images[GEMM_TUNED_IMAGES] = {
@IMAGE_TABLE@};

static const launch launches[GEMM_TUNED_LAUNCHES] = {
@LAUNCH_TABLE@};

@FORMULAS@
static const kernel kernels[] = {
@KERNEL_TABLE@};

/* Indices of preferred kernels for a shape that was not tuned. */
@TREE@
#define KERNELS ((int)(sizeof kernels / sizeof kernels[0]))

int gemm_tuned_open(gemm_tuned *tuned)
{
    CUdevice device;
    int status, i, j;
    if (tuned == NULL)
        return GEMM_TUNED_BAD_ARGUMENT;
    tuned->workspace = NULL;
    tuned->workspace_bytes = 0;
    for (i = 0; i < GEMM_TUNED_IMAGES; i++)
        tuned->modules[i] = NULL;
    status = (int)cuCtxGetDevice(&device);
    if (status == 0)
        status = (int)cuDeviceGetAttribute(&tuned->multiprocessors,
                                           CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    for (i = 0; status == 0 && i < GEMM_TUNED_IMAGES; i++)
        status = (int)cuModuleLoadData(&tuned->modules[i], images[i]);
    for (i = 0; status == 0 && i < GEMM_TUNED_LAUNCHES; i++)
        status = (int)cuModuleGetFunction(&tuned->functions[i], tuned->modules[launches[i].image],
                                          launches[i].entry);
    for (i = 0; status == 0 && i < GEMM_TUNED_LAUNCHES; i++) {
        /* Launches that share a function share its limit. */
        int shared = launches[i].shared_bytes;
        for (j = 0; j < GEMM_TUNED_LAUNCHES; j++)
            if (tuned->functions[j] == tuned->functions[i] && launches[j].shared_bytes > shared)
                shared = launches[j].shared_bytes;
        if (shared > FREE_SHARED_BYTES)
            status = (int)cuFuncSetAttribute(tuned->functions[i],
                                             CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                             shared);
    }
    if (status != 0)
        gemm_tuned_close(tuned);
    return status;
}

void gemm_tuned_close(gemm_tuned *tuned)
{
    int i;
    if (tuned == NULL)
        return;
    for (i = 0; i < GEMM_TUNED_IMAGES; i++) {
        if (tuned->modules[i] != NULL)
            cuModuleUnload(tuned->modules[i]);
        tuned->modules[i] = NULL;
    }
}

void gemm_tuned_workspace(gemm_tuned *tuned, void *workspace, size_t bytes)
{
    if (tuned == NULL)
        return;
    tuned->workspace = workspace;
    tuned->workspace_bytes =
        workspace == NULL || (uintptr_t)workspace % WORKSPACE_ALIGNMENT != 0 ? 0 : bytes;
}

/* Predicted time of a kernel. Whole tiles are distributed over the multiprocessors; the busiest one
 * determines the time. Each tile, each wave and packing add to it. The prediction is less reliable
 * for a problem much larger or smaller than the kernel's own, so its time is raised there. */
static double expected_us(const kernel *own, int multiprocessors, const long long *p)
{
    long long slices = own->slice_k == 0 ? 1 : ceil_div(p[2], own->slice_k);
    long long blocks = times(times(ceil_div(p[0], own->tile_m), ceil_div(p[1], own->tile_n)),
                             times(slices, times(own->blocks_of_a_tile, p[3])));
    double steps = (double)(own->slice_k == 0 ? p[2] : least(p[2], own->slice_k));
    long long share = ceil_div(blocks, multiprocessors);
    double waves = (double)ceil_div(share, own->blocks_per_sm);
    double busy = (double)share * steps * own->busy_clocks;
    double alone = waves * steps * own->alone_clocks;
    double of_a = (double)(p[0] * p[2]) * own->a_clocks, of_b = (double)(p[2] * p[1]) * own->b_clocks;
    double clocks = (busy > alone ? busy : alone) + (double)share * own->block_clocks
                    + waves * own->wave_clocks + (of_a + of_b) * (double)p[3];
    double ratio = clocks / own->own_clocks;
    double time = own->launch_us + clocks * own->us_per_clock;
    if (ratio < 1)
        ratio = 1 / ratio;
    for (; ratio >= 2; ratio /= 2)
        time *= 1.05;
    return time * (1 + 0.05 * (ratio - 1));
}

/* Total bytes of a kernel's workspaces, each aligned. */
static long long workspace_bytes(const kernel *own, const long long *sizes)
{
    long long bytes = 0;
    int i;
    for (i = 0; i < own->workspaces; i++)
        bytes += ceil_div(sizes[SIZES * own->launches + i], WORKSPACE_ALIGNMENT)
                 * WORKSPACE_ALIGNMENT;
    return bytes;
}

/* Whether any device has grids and blocks of these sizes. */
static int launchable(const kernel *own, const long long *sizes)
{
    static const long long most_of[6] = { 2147483647, 65535, 65535, 1024, 1024, 64 };
    int i, j;
    for (i = 0; i < own->launches; i++) {
        const long long *s = sizes + SIZES * i;
        for (j = 0; j < 6; j++)
            if (s[j] < 1 || s[j] > most_of[j])
                return 0;
        if (s[3] * s[4] * s[5] > 1024 || s[6] < 0 || s[6] > 2147483647)
            return 0;
    }
    return 1;
}

/* Selects the kernel that was tuned for exactly this shape, else the preferred one, else the one with
 * the lowest predicted time; NULL for none. Considers kernels with at most `room` bytes of
 * workspace. Writes the sizes of its launches. */
static const kernel *choose(const gemm_tuned *tuned, int pattern, const long long *p,
                            unsigned long long room, long long *sizes)
{
    const kernel *best = NULL;
    double fastest = 0;
    int i, first;
    const int *order = preferred(p, &first);
    for (i = -first; i < KERNELS; i++) {
        const kernel *own = &kernels[i < 0 ? order[first + i] : i];
        int exact = own->tuned && own->m == p[0] && own->n == p[1] && own->k == p[2];
        /* Preferred kernels get negative times, in their order. */
        double time = exact ? -1e9 : i < 0 ? (double)i : expected_us(own, tuned->multiprocessors, p);
        if (own->pattern != pattern || (best != NULL && time >= fastest) || !own->serves(p))
            continue;
        own->sizes(p, sizes);
        if (!launchable(own, sizes) || (unsigned long long)workspace_bytes(own, sizes) > room)
            continue;
        best = own;
        fastest = time;
        if (exact)
            break;
    }
    if (best != NULL)
        best->sizes(p, sizes);
    return best;
}

/* Whether kernels can address a matrix of `height` rows of `width` elements with `row` from one to the next.
 * The same check as in the other exports and in gemm-tune itself. */
static int storable(long long height, long long width, long long row, size_t element)
{
    return height >= 1 && height <= MAX_EXTENT && width >= 1 && width <= MAX_EXTENT && row >= width
           && row <= MAX_EXTENT && height * row <= MAX_OPERAND_BYTES / (long long)element;
}

/* The same for all operands, whose rows are as many as `heights` says. */
static int all_storable(const int *heights, const int *lengths, const int *rows, size_t element)
{
    int i;
    for (i = 0; i < 3; i++)
        if (!storable(heights[i], lengths[i], rows[i], element))
            return 0;
    return 1;
}

/* Sets the inputs of the formulas from the leading dimensions `rows` and the row `lengths`. Rows are
 * aligned to at most the alignment of the address and of the row length, in elements, whatever the
 * leading dimension is. Contiguous elements without vector alignment count as separate. */
static void describe(long long *p, int m, int n, int k, const int *rows, const int *lengths,
                     uintptr_t addresses, size_t element)
{
    long long bytes = 256;
    int i;
    while (bytes > (long long)element && addresses % (uintptr_t)bytes != 0)
        bytes /= 2;
    p[0] = m;
    p[1] = n;
    p[2] = k;
    p[3] = 1;
    for (i = 0; i < 3; i++) {
        long long aligned = bytes / (long long)element;
        while (lengths[i] % aligned != 0)
            aligned /= 2;
        p[4 + i] = rows[i];
        if (rows[i] == 1 && bytes < WIDEST_VECTOR)
            p[4 + i] = 3;
        else if (rows[i] % aligned == 0 && rows[i] / aligned % 2 == 0)
            p[4 + i] += aligned;
    }
}

static size_t wanted(const gemm_tuned *tuned, int pattern, int m, int n, int k, const int *rows,
                     const int *heights, const int *lengths, size_t element)
{
    long long p[7], sizes[SIZES * MAX_LAUNCHES + MAX_WORKSPACES];
    const kernel *best;
    if (tuned == NULL || !all_storable(heights, lengths, rows, element))
        return 0;
    describe(p, m, n, k, rows, lengths, 0, element);
    best = choose(tuned, pattern, p, (unsigned long long)-1, sizes);
    return best == NULL ? 0 : (size_t)workspace_bytes(best, sizes);
}

static int run(const gemm_tuned *tuned, CUstream stream, int pattern, int m, int n, int k,
               void *alpha, const void *a, const void *b, void *beta, void *c, int *rows,
               const int *heights, const int *lengths, size_t element)
{
    long long p[7], sizes[SIZES * MAX_LAUNCHES + MAX_WORKSPACES], stride = 0;
    int batch = 1, i, j, status = 0;
    void *places[MAX_WORKSPACES], *values[STANDARD_ARGUMENTS + MAX_WORKSPACES];
    const kernel *best;
    uintptr_t at, addresses = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c;
    if (tuned == NULL || a == NULL || b == NULL || c == NULL || addresses % element != 0
        || !all_storable(heights, lengths, rows, element))
        return GEMM_TUNED_BAD_ARGUMENT;
    describe(p, m, n, k, rows, lengths, addresses, element);
    best = choose(tuned, pattern, p, tuned->workspace_bytes, sizes);
    if (best == NULL)
        return GEMM_TUNED_NO_KERNEL;
    values[0] = &a;
    values[1] = &b;
    values[2] = &c;
    values[3] = &m;
    values[4] = &n;
    values[5] = &k;
    values[6] = &batch;
    values[7] = &rows[0];
    values[8] = &rows[1];
    values[9] = &rows[2];
    values[10] = values[11] = values[12] = &stride;
    values[13] = alpha;
    values[14] = beta;
    at = (uintptr_t)tuned->workspace;
    for (i = 0; i < best->workspaces; i++) {
        places[i] = (void *)at;
        values[STANDARD_ARGUMENTS + i] = &places[i];
        at += (uintptr_t)(ceil_div(sizes[SIZES * best->launches + i], WORKSPACE_ALIGNMENT)
                          * WORKSPACE_ALIGNMENT);
    }
    for (i = 0; i < best->launches && status == 0; i++) {
        const launch *own = &launches[best->first_launch + i];
        const long long *s = sizes + SIZES * i;
        void *parameters[STANDARD_ARGUMENTS + MAX_WORKSPACES];
        for (j = 0; j < own->count; j++)
            parameters[j] = values[own->arguments[j]];
        status = (int)cuLaunchKernel(tuned->functions[best->first_launch + i], (unsigned)s[0],
                                     (unsigned)s[1], (unsigned)s[2], (unsigned)s[3],
                                     (unsigned)s[4], (unsigned)s[5], (unsigned)s[6], stream,
                                     parameters, NULL);
    }
    return status;
}

@FUNCTIONS@#ifdef __cplusplus
}
#endif
