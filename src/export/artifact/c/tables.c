/* Matrix products by @KERNELS@ kernels that gemm-tune @VERSION@ tuned on @DEVICE@, with machine code for
 * @ARCHITECTURES@. See gemm_tuned.h. Compile with: cc -O2 -shared -fPIC gemm_tuned.c -o libgemm_tuned.so -ldl */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
/* Calls within the library stay within it, where a process has several copies of it. */
#pragma GCC visibility push(protected)
#include "gemm_tuned.h"
#pragma GCC visibility pop

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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
#define MAX_MAPS 8
/* Sizes of a launch: grid, block, dynamic shared memory. */
#define SIZES 7
/* Dimensions of a tensor map, and its sizes: bytes to the first element, extents, elements between neighbours along
 * each dimension but the first, extents of a box. */
#define MAX_RANK 5
#define MAP_SIZES (3 * MAX_RANK)
#define STANDARD_ARGUMENTS 15
/* Operands of epilogues: bias row_scale col_scale residual mul. */
#define EPILOGUE_OPERANDS 5
#define MAX_ARGUMENTS (STANDARD_ARGUMENTS + EPILOGUE_OPERANDS + MAX_WORKSPACES + MAX_MAPS)
/* Limits of extents and leading dimensions, and of batches, which kernels take as 32-bit integers, and of an
 * operand's bytes. */
#define MAX_EXTENT @MAX_EXTENT@LL
#define MAX_BATCH @MAX_BATCH@LL
#define MAX_OPERAND_BYTES @MAX_OPERAND_BYTES@LL
/* Larger counts of blocks are equal. */
#define SATURATED 9223372036854775807LL
/* Lines of the file of measured kernels, names in them, its path, and the most that is read of it. */
#define LINE_BYTES 512
#define FILE_NAME_BYTES 200
#define FILE_BYTES 1024
#define MAX_FILE_BYTES (16 * 1024 * 1024)
/* What the file is named by: these kernels, and no others. */
#define DIGEST "@DIGEST@"
/* Remembered choices of a handle, and the places in which one may lie. */
#define SLOTS 4096
#define PROBES 8

#define IMAGES @IMAGES@
#define LAUNCHES @LAUNCHES@
#define MAPS @MAPS@
#define KERNELS @KERNELS@
#define ARCHITECTURES @ARCHITECTURE_COUNT@
/* The GPU that the kernels were tuned on. */
#define TUNED_MULTIPROCESSORS @MULTIPROCESSORS@

/* A launch: image and name of the kernel, and its arguments as indices into: A B C M N K batch lda
 * ldb ldc stride_a stride_b stride_c alpha beta, the operands of epilogues, MAX_WORKSPACES workspaces, tensor maps. */
typedef struct {
    int image;
    const char *entry;
    int shared_bytes; /* dynamic; the same for every shape */
    int programmatic; /* whether it may begin before the launch before it ends */
    int count;
    unsigned char arguments[MAX_ARGUMENTS];
} launch;

/* A tensor map: what it describes (A B C, then the workspaces), type (CUtensorMapDataType) and bytes of its elements,
 * dimensions, and swizzle (CUtensorMapSwizzle). */
typedef struct {
    int operand, type, element, rank, swizzle;
} tensor_map;

/* A kernel: its problem, its launches, and its predicted time. `serves` and `sizes` read M N K batch lda ldb ldc, the
 * rows being those of `describe`; `map_sizes`, NULL for a kernel without tensor maps, reads rows as they are. */
typedef struct {
    const char *name;
    long long types, epilogue;
    int tuned, deterministic;
    long long m, n, k, batch;
    int first_launch, launches, workspaces, first_map, maps;
    int (*serves)(const long long *p);
    void (*sizes)(const long long *p, long long *s);
    void (*map_sizes)(const long long *p, long long *s);
    long long tile_m, tile_n, slice_k, blocks_of_a_tile, blocks_per_sm, unused_sms;
    double busy_clocks, alone_clocks, block_clocks, wave_clocks, a_clocks, b_clocks;
    double launch_us, us_per_clock, own_clocks;
} kernel;

/* Types and layout of a kernel or a problem as one number. */
#define TYPES(a, b, d, compute, transpose_a, transpose_b) \
    ((((((a) * 8LL + (b)) * 8 + (d)) * 8 + (compute)) * 2 + (transpose_a)) * 2 + (transpose_b))

static inline long long ceil_div(long long a, long long b) { return (a + b - 1) / b; }
static inline long long most(long long a, long long b) { return a > b ? a : b; }
static inline long long least(long long a, long long b) { return a < b ? a : b; }
static inline long long times(long long a, long long b) { return a > SATURATED / b ? SATURATED : a * b; }

/* Machine code: words that hold so many packed bytes, and its bytes. */
typedef struct {
    const unsigned long long *words;
    size_t packed, bytes;
} packed_image;

@ARRAYS@
/* The architectures: 90 for sm_90, and whether the code runs on no later minor version, as that for sm_90a.
 * Then the machine code of the images for each, packed. */
static const int architectures[ARCHITECTURES][2] = { @ARCHITECTURE_TABLE@ };
static const packed_image images[ARCHITECTURES][IMAGES] = {
@IMAGE_TABLE@};

static const launch launches[LAUNCHES] = {
@LAUNCH_TABLE@};

/* One at least: C has no empty arrays. */
static const tensor_map maps[MAPS > 0 ? MAPS : 1] = {
@MAP_TABLE@};

@FORMULAS@
@L@@LIBRARY_TABLES@
static const kernel kernels[KERNELS] = {
@KERNEL_TABLE@};

/* Indices of preferred kernels for a shape that was not tuned. */
@TREE@
