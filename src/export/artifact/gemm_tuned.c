/* Matrix products by @KERNELS@ kernels that gemm-tune @VERSION@ tuned on @DEVICE@, with machine code for
 * @ARCHITECTURES@. See gemm_tuned.h. Compile with: cc -O2 -shared -fPIC gemm_tuned.c -o libgemm_tuned.so -ldl */
#include "gemm_tuned.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
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
/* Limits of extents and leading dimensions, and of batches, which kernels take as 32-bit integers, and of an
 * operand's bytes. */
#define MAX_EXTENT @MAX_EXTENT@LL
#define MAX_BATCH @MAX_BATCH@LL
#define MAX_OPERAND_BYTES @MAX_OPERAND_BYTES@LL
/* Larger counts of blocks are equal. */
#define SATURATED 9223372036854775807LL
/* Remembered choices of a handle, and the places in which one may lie. */
#define SLOTS 4096
#define PROBES 8

#define IMAGES @IMAGES@
#define LAUNCHES @LAUNCHES@
#define KERNELS @KERNELS@
#define ARCHITECTURES @ARCHITECTURE_COUNT@
/* The GPU that the kernels were tuned on. */
#define TUNED_MULTIPROCESSORS @MULTIPROCESSORS@

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
    const char *name;
    int dtype, transpose_a, transpose_b, tuned, deterministic;
    long long m, n, k, batch;
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
/* The architectures: 90 for sm_90, and whether the code runs on no later minor version, as that for sm_90a.
 * Then the machine code of the images for each. */
static const int architectures[ARCHITECTURES][2] = { @ARCHITECTURE_TABLE@ };
static const unsigned long long *const images[ARCHITECTURES][IMAGES] = {
@IMAGE_TABLE@};

static const launch launches[LAUNCHES] = {
@LAUNCH_TABLE@};

@FORMULAS@
static const kernel kernels[KERNELS] = {
@KERNEL_TABLE@};

/* Indices of preferred kernels for a shape that was not tuned. */
@TREE@
/* The driver ------------------------------------------------------------------------------------------- */

/* Its functions, with the types of cuda.h written out. */
typedef struct {
    int (*init)(unsigned flags);
    int (*device_get)(int *device, int ordinal);
    int (*device_attribute)(int *value, int attribute, int device);
    int (*primary_retain)(void **context, int device);
    int (*primary_release)(int device);
    int (*current)(void **context);
    int (*context_device)(int *device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*exchange_capture_mode)(int *mode);
    int (*load)(void **module, const void *image);
    int (*unload)(void *module);
    int (*function)(void **function, void *module, const char *name);
    int (*set_attribute)(void *function, int attribute, int value);
    int (*launch_kernel)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                         unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream,
                         void **parameters, void **extra);
} driver;

/* CUdevice_attribute and CUfunction_attribute. */
#define MULTIPROCESSOR_COUNT 16
#define CAPABILITY_MAJOR 75
#define CAPABILITY_MINOR 76
#define MAX_DYNAMIC_SHARED 8
/* CUstreamCaptureMode: a thread in it may make calls that captures of other threads do not expect. */
#define CAPTURE_MODE_RELAXED 2

/* Sets a pointer to a function of the driver. */
static int find(void *library, const char *name, void *pointer)
{
    void *symbol = dlsym(library, name);
    memcpy(pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* Loads the driver; it stays loaded. */
static int load_driver(driver *cuda)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL)
        return GEMM_TUNED_NO_DRIVER;
    if (!find(library, "cuInit", &cuda->init) || !find(library, "cuDeviceGet", &cuda->device_get)
        || !find(library, "cuDeviceGetAttribute", &cuda->device_attribute)
        || !find(library, "cuDevicePrimaryCtxRetain", &cuda->primary_retain)
        || !find(library, "cuDevicePrimaryCtxRelease_v2", &cuda->primary_release)
        || !find(library, "cuCtxGetCurrent", &cuda->current)
        || !find(library, "cuCtxGetDevice", &cuda->context_device)
        || !find(library, "cuCtxPushCurrent_v2", &cuda->push)
        || !find(library, "cuCtxPopCurrent_v2", &cuda->pop)
        || !find(library, "cuThreadExchangeStreamCaptureMode", &cuda->exchange_capture_mode)
        || !find(library, "cuModuleLoadData", &cuda->load)
        || !find(library, "cuModuleUnload", &cuda->unload)
        || !find(library, "cuModuleGetFunction", &cuda->function)
        || !find(library, "cuFuncSetAttribute", &cuda->set_attribute)
        || !find(library, "cuLaunchKernel", &cuda->launch_kernel))
        return GEMM_TUNED_NO_DRIVER;
    return cuda->init(0);
}

/* Problems --------------------------------------------------------------------------------------------- */

/* What is asked of a problem: types, M N K batch lda ldb ldc, strides in elements, and the bytes of an
 * element. */
typedef struct {
    int dtype, transpose_a, transpose_b, element;
    long long p[7], strides[3];
} product;

/* Rows, elements of a row and leading dimension of A, B and C as they are stored. */
static void stored(const product *own, long long table[3][3])
{
    const long long *p = own->p;
    int i;
    table[0][0] = own->transpose_a ? p[2] : p[0];
    table[0][1] = own->transpose_a ? p[0] : p[2];
    table[1][0] = own->transpose_b ? p[1] : p[2];
    table[1][1] = own->transpose_b ? p[2] : p[1];
    table[2][0] = p[0];
    table[2][1] = p[1];
    for (i = 0; i < 3; i++)
        table[i][2] = p[4 + i];
}

/* Why a problem is refused: a format of printf that takes the name of a field, its value and its limit. */
typedef struct {
    const char *format;
    const char *name;
    long long value, limit;
} refusal;

static int refuse(refusal *why, const char *format, const char *name, long long value, long long limit)
{
    why->format = format;
    why->name = name;
    why->value = value;
    why->limit = limit;
    return GEMM_TUNED_BAD_ARGUMENT;
}

/* Reads a problem, and checks that kernels can address its operands. The same check as in the other exports and
 * in gemm-tune itself. */
static int read_problem(const gemm_tuned_problem *given, product *own, refusal *why)
{
    static const char *const extents[4] = { "m", "n", "k", "batch" };
    static const char *const rows[3] = { "lda", "ldb", "ldd" };
    static const char *const strides[3] = { "stride_a", "stride_b", "stride_d" };
    static const int bytes[4] = { 4, 2, 2, 4 };
    long long table[3][3];
    int i;
    if (given == NULL)
        return refuse(why, "the problem is NULL", "", 0, 0);
    if (given->size != sizeof *given)
        return refuse(why, "%s is %lld: begin with gemm_tuned_default_problem, which sets %lld", "size",
                      (long long)given->size, (long long)sizeof *given);
    if (given->dtype < 0 || given->dtype > GEMM_TUNED_I32)
        return refuse(why, "%s is %lld: the largest is %lld", "dtype", given->dtype, GEMM_TUNED_I32);
    if (given->transpose_a != 0 && given->transpose_a != 1)
        return refuse(why, "%s is %lld: give 0 or %lld", "transpose_a", given->transpose_a, 1);
    if (given->transpose_b != 0 && given->transpose_b != 1)
        return refuse(why, "%s is %lld: give 0 or %lld", "transpose_b", given->transpose_b, 1);
    own->dtype = given->dtype;
    own->transpose_a = given->transpose_a;
    own->transpose_b = given->transpose_b;
    own->element = bytes[given->dtype];
    own->p[0] = given->m;
    own->p[1] = given->n;
    own->p[2] = given->k;
    own->p[3] = given->batch;
    for (i = 0; i < 4; i++)
        if (own->p[i] < 1 || own->p[i] > (i < 3 ? MAX_EXTENT : MAX_BATCH))
            return refuse(why, "%s is %lld: kernels take 1 to %lld", extents[i], own->p[i],
                          i < 3 ? MAX_EXTENT : MAX_BATCH);
    own->p[4] = given->lda;
    own->p[5] = given->ldb;
    own->p[6] = given->ldd;
    own->strides[0] = given->stride_a;
    own->strides[1] = given->stride_b;
    own->strides[2] = given->stride_d;
    stored(own, table);
    for (i = 0; i < 3; i++) {
        long long height = table[i][0], width = table[i][1], row = table[i][2] == 0 ? width : table[i][2];
        long long stride = own->strides[i], held = MAX_OPERAND_BYTES / own->element;
        own->p[4 + i] = row;
        if (row < width)
            return refuse(why, "%s is %lld: a row has %lld elements, give at least as many", rows[i], row, width);
        if (row > MAX_EXTENT)
            return refuse(why, "%s is %lld: kernels take at most %lld", rows[i], row, MAX_EXTENT);
        if (height * row > held)
            return refuse(why, "%s is %lld: an operand has at most %lld elements from the first to the last",
                          rows[i], row, held);
        if (own->p[3] == 1) {
            own->strides[i] = 0;
            continue;
        }
        if (stride < 0 || (i == 2 && stride < (height - 1) * row + width))
            return refuse(why, i == 2 ? "%s is %lld: a matrix spans %lld elements, give at least as many"
                                      : "%s is %lld: give %lld or more", strides[i], stride,
                          i == 2 ? (height - 1) * row + width : 0);
        if (stride > (held - height * row) / (own->p[3] - 1))
            return refuse(why, "%s is %lld: an operand has at most %lld elements from the first to the last",
                          strides[i], stride, held);
    }
    return GEMM_TUNED_SUCCESS;
}

/* Largest power of two that divides a number; 0 for 0. */
static uintptr_t lowest_bit(uintptr_t number) { return number & (~number + 1); }

/* Sets the inputs of the formulas, for addresses that are multiples of `alignment` bytes, at most 256. Rows are
 * aligned to at most the alignment of the address, of the row length and of the stride of a batch, in elements,
 * whatever the leading dimension is. Contiguous elements without vector alignment count as separate. */
static void describe(const product *own, int alignment, long long *p)
{
    long long table[3][3];
    int i;
    stored(own, table);
    for (i = 0; i < 4; i++)
        p[i] = own->p[i];
    for (i = 0; i < 3; i++) {
        long long row = table[i][2], bytes = alignment, aligned;
        /* The stride of matrices without gaps between them has the alignment of their rows. */
        if (p[3] > 1 && own->strides[i] != 0 && own->strides[i] != table[i][0] * row)
            bytes = least(bytes, (long long)lowest_bit((uintptr_t)own->strides[i]) * own->element);
        aligned = bytes / own->element;
        while (table[i][1] % aligned != 0)
            aligned /= 2;
        p[4 + i] = row;
        if (row == 1 && bytes < WIDEST_VECTOR)
            p[4 + i] = 3;
        else if (row % aligned == 0 && row / aligned % 2 == 0)
            p[4 + i] += aligned;
    }
}

/* Choice ----------------------------------------------------------------------------------------------- */

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
static unsigned long long workspace_bytes(const kernel *own, const long long *sizes)
{
    unsigned long long bytes = 0;
    int i;
    for (i = 0; i < own->workspaces; i++)
        bytes += (unsigned long long)(ceil_div(sizes[SIZES * own->launches + i], WORKSPACE_ALIGNMENT)
                                      * WORKSPACE_ALIGNMENT);
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

/* A kernel with its predicted time and the sizes of its launches and workspaces. */
typedef struct {
    const kernel *own;
    double time;
    int exact;
    long long sizes[SIZES * MAX_LAUNCHES + MAX_WORKSPACES];
} choice;

/* Selects the kernel that was tuned for exactly this problem, else the preferred one, else the one with the
 * lowest predicted time. Considers kernels with at most `room` bytes of workspace. */
static int choose(int multiprocessors, const product *asked, const long long *p, unsigned long long room,
                  choice *best)
{
    int i, first;
    const int *order = preferred(p, &first);
    best->own = NULL;
    best->time = 0;
    best->exact = 0;
    for (i = -first; i < KERNELS && !best->exact; i++) {
        const kernel *own = &kernels[i < 0 ? order[first + i] : i];
        int exact = own->tuned && own->m == p[0] && own->n == p[1] && own->k == p[2] && own->batch == p[3];
        double time;
        if (own->dtype != asked->dtype || own->transpose_a != asked->transpose_a
            || own->transpose_b != asked->transpose_b)
            continue;
        /* Preferred kernels get negative times, in their order. */
        time = exact ? -1e9 : i < 0 ? (double)i : expected_us(own, multiprocessors, p);
        if ((best->own != NULL && time >= best->time) || !own->serves(p))
            continue;
        own->sizes(p, best->sizes);
        if (!launchable(own, best->sizes) || workspace_bytes(own, best->sizes) > room)
            continue;
        best->own = own;
        best->time = time;
        best->exact = exact;
    }
    if (best->own == NULL)
        return GEMM_TUNED_NO_KERNEL;
    best->own->sizes(p, best->sizes);
    return GEMM_TUNED_SUCCESS;
}

/* Handles ---------------------------------------------------------------------------------------------- */

/* What determines a choice: types, inputs of the formulas, workspace. */
typedef struct {
    long long words[9];
} question;

/* A remembered choice, with the functions of its launches. It never changes. */
typedef struct {
    question asked;
    choice chosen;
    void *functions[MAX_LAUNCHES];
} plan;

/* Modules and plans are added while others read them, and are never replaced. */
struct gemm_tuned {
    driver cuda;
    void *context;
    int device, is_primary, multiprocessors, architecture;
    void *modules[IMAGES];
    plan *plans[SLOTS];
};

/* Makes the context of a handle current for the duration of a call. */
static int enter(const gemm_tuned *tuned, int *pushed)
{
    void *current = NULL;
    int status = tuned->cuda.current(&current);
    *pushed = 0;
    if (status == 0 && current != tuned->context) {
        status = tuned->cuda.push(tuned->context);
        *pushed = status == 0;
    }
    return status;
}

static void leave(const gemm_tuned *tuned, int pushed)
{
    void *ignored;
    if (pushed)
        tuned->cuda.pop(&ignored);
}

/* Finds the machine code for the GPU of a handle. */
static int select_architecture(gemm_tuned *tuned)
{
    const driver *cuda = &tuned->cuda;
    int major, minor, status, i;
    if ((status = cuda->device_attribute(&tuned->multiprocessors, MULTIPROCESSOR_COUNT, tuned->device)) != 0
        || (status = cuda->device_attribute(&major, CAPABILITY_MAJOR, tuned->device)) != 0
        || (status = cuda->device_attribute(&minor, CAPABILITY_MINOR, tuned->device)) != 0)
        return status;
    tuned->architecture = -1;
    for (i = 0; i < ARCHITECTURES; i++) {
        const int *own = architectures[i];
        if (own[0] / 10 == major && (own[1] ? own[0] % 10 == minor : own[0] % 10 <= minor)
            && (tuned->architecture < 0 || own[0] > architectures[tuned->architecture][0]))
            tuned->architecture = i;
    }
    return tuned->architecture < 0 ? GEMM_TUNED_NO_ARCHITECTURE : GEMM_TUNED_SUCCESS;
}

/* The module of an image in the current context, loaded by the thread that comes first. */
static int load_module(gemm_tuned *tuned, int image, void **module)
{
    void *known = NULL;
    int status, mode = CAPTURE_MODE_RELAXED;
    *module = __atomic_load_n(&tuned->modules[image], __ATOMIC_ACQUIRE);
    if (*module != NULL)
        return GEMM_TUNED_SUCCESS;
    /* A stream may be captured: loading is no part of it. */
    if ((status = tuned->cuda.exchange_capture_mode(&mode)) != 0)
        return status;
    status = tuned->cuda.load(module, images[tuned->architecture][image]);
    if (status == 0
        && !__atomic_compare_exchange_n(&tuned->modules[image], &known, *module, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
        tuned->cuda.unload(*module);
        *module = known;
    }
    tuned->cuda.exchange_capture_mode(&mode);
    return status;
}

/* Sets the functions of a plan's launches. */
static int load_functions(gemm_tuned *tuned, plan *made)
{
    const kernel *own = made->chosen.own;
    int i, j, status;
    for (i = 0; i < own->launches; i++) {
        const launch *next = &launches[own->first_launch + i];
        int shared = 0;
        void *module;
        if ((status = load_module(tuned, next->image, &module)) != 0
            || (status = tuned->cuda.function(&made->functions[i], module, next->entry)) != 0)
            return status;
        /* Launches that share a function share its limit. */
        for (j = 0; j < LAUNCHES; j++)
            if (launches[j].image == next->image && launches[j].shared_bytes > shared
                && strcmp(launches[j].entry, next->entry) == 0)
                shared = launches[j].shared_bytes;
        if (shared > FREE_SHARED_BYTES
            && (status = tuned->cuda.set_attribute(made->functions[i], MAX_DYNAMIC_SHARED, shared)) != 0)
            return status;
    }
    return GEMM_TUNED_SUCCESS;
}

int gemm_tuned_create(gemm_tuned **out, int device)
{
    gemm_tuned *tuned;
    int status;
    if (out == NULL)
        return GEMM_TUNED_BAD_ARGUMENT;
    *out = NULL;
    if (device < GEMM_TUNED_CURRENT_CONTEXT)
        return GEMM_TUNED_BAD_ARGUMENT;
    tuned = (gemm_tuned *)calloc(1, sizeof *tuned);
    if (tuned == NULL)
        return GEMM_TUNED_NO_MEMORY;
    status = load_driver(&tuned->cuda);
    if (status == 0 && device == GEMM_TUNED_CURRENT_CONTEXT) {
        if ((status = tuned->cuda.current(&tuned->context)) == 0)
            status = tuned->cuda.context_device(&tuned->device);
    } else if (status == 0 && (status = tuned->cuda.device_get(&tuned->device, device)) == 0) {
        status = tuned->cuda.primary_retain(&tuned->context, tuned->device);
        tuned->is_primary = status == 0;
    }
    if (status == 0)
        status = select_architecture(tuned);
    if (status == 0)
        *out = tuned;
    else
        gemm_tuned_destroy(tuned);
    return status;
}

void gemm_tuned_destroy(gemm_tuned *tuned)
{
    int i, pushed;
    if (tuned == NULL)
        return;
    if (tuned->context != NULL && enter(tuned, &pushed) == 0) {
        for (i = 0; i < IMAGES; i++)
            if (tuned->modules[i] != NULL)
                tuned->cuda.unload(tuned->modules[i]);
        leave(tuned, pushed);
    }
    if (tuned->is_primary)
        tuned->cuda.primary_release(tuned->device);
    for (i = 0; i < SLOTS; i++)
        free(tuned->plans[i]);
    free(tuned);
}

/* Places of a question among the remembered choices. */
static unsigned hash(const question *asked)
{
    unsigned long long hash = 1469598103934665603ull;
    int i;
    for (i = 0; i < 9; i++) {
        hash = (hash ^ (unsigned long long)asked->words[i]) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 29;
    }
    return (unsigned)(hash % SLOTS);
}

/* The remembered choice for a question, in the current context. A new one is made in `space` where there is no
 * place or no memory to remember it. */
static int planned(gemm_tuned *tuned, const product *asked, const question *key, plan *space, const plan **found)
{
    unsigned first = hash(key), i;
    plan *added, *known;
    int status;
    for (i = 0; i < PROBES; i++) {
        known = __atomic_load_n(&tuned->plans[(first + i) % SLOTS], __ATOMIC_ACQUIRE);
        if (known == NULL)
            break;
        if (memcmp(&known->asked, key, sizeof *key) == 0) {
            *found = known;
            return GEMM_TUNED_SUCCESS;
        }
    }
    space->asked = *key;
    status = choose(tuned->multiprocessors, asked, key->words + 1, (unsigned long long)key->words[8],
                    &space->chosen);
    if (status == 0)
        status = load_functions(tuned, space);
    *found = space;
    if (status != 0 || i == PROBES || (added = (plan *)malloc(sizeof *added)) == NULL)
        return status;
    *added = *space;
    for (; i < PROBES; i++) {
        known = NULL;
        if (__atomic_compare_exchange_n(&tuned->plans[(first + i) % SLOTS], &known, added, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            *found = added;
            return status;
        }
    }
    free(added);
    return status;
}

static void ask(const product *asked, int alignment, unsigned long long room, question *key)
{
    key->words[0] = asked->dtype * 4 + asked->transpose_a * 2 + asked->transpose_b;
    describe(asked, alignment, key->words + 1);
    key->words[8] = (long long)room;
}

/* Interface -------------------------------------------------------------------------------------------- */

int gemm_tuned_version(void) { return GEMM_TUNED_VERSION; }

const char *gemm_tuned_status_string(int status)
{
    int (*error_string)(int status, const char **text);
    const char *text = NULL;
    void *library;
    switch (status) {
    case GEMM_TUNED_SUCCESS:
        return "success";
    case GEMM_TUNED_NO_KERNEL:
        return "no kernel of this library serves the problem with this workspace: ask gemm_tuned_choose for the "
               "workspace that it needs";
    case GEMM_TUNED_BAD_ARGUMENT:
        return "an argument is out of range: gemm_tuned_check says which field of a problem; addresses are not "
               "NULL and multiples of an element";
    case GEMM_TUNED_NO_DRIVER:
        return "there is no NVIDIA driver (libcuda.so.1) with the functions that are needed: install one";
    case GEMM_TUNED_NO_ARCHITECTURE:
        return "there is no machine code for this GPU, only for @ARCHITECTURES@: export again with --arch";
    case GEMM_TUNED_NO_MEMORY:
        return "the host has no memory left";
    }
    library = status > 0 ? dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) : NULL;
    if (library != NULL && find(library, "cuGetErrorString", &error_string) && error_string(status, &text) == 0
        && text != NULL)
        return text;
    return "unknown status";
}

int gemm_tuned_check(const gemm_tuned_problem *problem, char *text, size_t bytes)
{
    product own;
    refusal why;
    int status = read_problem(problem, &own, &why);
    if (status == 0 && problem->alignment != 0
        && (problem->alignment < own.element || (problem->alignment & (problem->alignment - 1)) != 0))
        status = refuse(&why, "%s is %lld: give a power of two of at least %lld, the size of an element",
                        "alignment", problem->alignment, own.element);
    if (text != NULL && bytes > 0) {
        text[0] = 0;
        if (status != 0)
            snprintf(text, bytes, why.format, why.name, why.value, why.limit);
    }
    return status;
}

int gemm_tuned_choose(const gemm_tuned *tuned, const gemm_tuned_problem *problem, size_t room,
                      gemm_tuned_choice *out)
{
    product own;
    refusal why;
    question key;
    choice chosen;
    int alignment, status = gemm_tuned_check(problem, NULL, 0);
    if (status != 0 || out == NULL || out->size != sizeof *out)
        return GEMM_TUNED_BAD_ARGUMENT;
    read_problem(problem, &own, &why);
    alignment = problem->alignment == 0 ? WORKSPACE_ALIGNMENT : (int)least(problem->alignment, WORKSPACE_ALIGNMENT);
    ask(&own, alignment, room, &key);
    status = choose(tuned == NULL ? TUNED_MULTIPROCESSORS : tuned->multiprocessors, &own, key.words + 1, room,
                    &chosen);
    if (status == 0) {
        out->name = chosen.own->name;
        out->workspace_bytes = (size_t)workspace_bytes(chosen.own, chosen.sizes);
        out->expected_us = chosen.time;
        out->tuned = chosen.exact;
        out->deterministic = chosen.own->deterministic;
    }
    return status;
}

int gemm_tuned_run(gemm_tuned *tuned, const gemm_tuned_problem *problem, const gemm_tuned_operands *operands,
                   void *workspace, size_t room, void *stream)
{
    static const float one = 1, zero = 0;
    static const int whole_one = 1, whole_zero = 0;
    product own;
    refusal why;
    question key;
    plan space;
    const plan *found;
    const kernel *chosen;
    const void *a, *b, *alpha, *beta;
    void *d, *places[MAX_WORKSPACES], *values[STANDARD_ARGUMENTS + MAX_WORKSPACES];
    int extents[7], status, pushed, i, j;
    uintptr_t at, addresses;
    if (tuned == NULL || operands == NULL || operands->size != sizeof *operands
        || read_problem(problem, &own, &why) != 0)
        return GEMM_TUNED_BAD_ARGUMENT;
    a = operands->a;
    b = operands->b;
    d = operands->d;
    addresses = (uintptr_t)a | (uintptr_t)b | (uintptr_t)d;
    if (a == NULL || b == NULL || d == NULL || addresses % (uintptr_t)own.element != 0)
        return GEMM_TUNED_BAD_ARGUMENT;
    if (workspace == NULL || (uintptr_t)workspace % WORKSPACE_ALIGNMENT != 0)
        room = 0;
    ask(&own, (int)lowest_bit(addresses | WORKSPACE_ALIGNMENT), room, &key);
    status = enter(tuned, &pushed);
    if (status == 0)
        status = planned(tuned, &own, &key, &space, &found);
    if (status != 0) {
        leave(tuned, pushed);
        return status;
    }
    chosen = found->chosen.own;
    alpha = operands->alpha != NULL ? operands->alpha
            : own.dtype == GEMM_TUNED_I32 ? (const void *)&whole_one : (const void *)&one;
    beta = operands->beta != NULL ? operands->beta
           : own.dtype == GEMM_TUNED_I32 ? (const void *)&whole_zero : (const void *)&zero;
    values[0] = &a;
    values[1] = &b;
    values[2] = &d;
    for (i = 0; i < 7; i++) {
        extents[i] = (int)own.p[i];
        values[3 + i] = &extents[i];
    }
    for (i = 0; i < 3; i++)
        values[10 + i] = &own.strides[i];
    values[13] = (void *)(uintptr_t)alpha;
    values[14] = (void *)(uintptr_t)beta;
    at = (uintptr_t)workspace;
    for (i = 0; i < chosen->workspaces; i++) {
        places[i] = (void *)at;
        values[STANDARD_ARGUMENTS + i] = &places[i];
        at += (uintptr_t)(ceil_div(found->chosen.sizes[SIZES * chosen->launches + i], WORKSPACE_ALIGNMENT)
                          * WORKSPACE_ALIGNMENT);
    }
    for (i = 0; i < chosen->launches && status == 0; i++) {
        const launch *next = &launches[chosen->first_launch + i];
        const long long *s = found->chosen.sizes + SIZES * i;
        void *parameters[STANDARD_ARGUMENTS + MAX_WORKSPACES];
        for (j = 0; j < next->count; j++)
            parameters[j] = values[next->arguments[j]];
        status = tuned->cuda.launch_kernel(found->functions[i], (unsigned)s[0], (unsigned)s[1],
                                           (unsigned)s[2], (unsigned)s[3], (unsigned)s[4], (unsigned)s[5],
                                           (unsigned)s[6], stream, parameters, NULL);
    }
    leave(tuned, pushed);
    return status;
}

#ifdef __cplusplus
}
#endif
