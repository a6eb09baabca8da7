/* Matrix products on NVIDIA GPUs by kernels that were tuned with gemm-tune.
 *
 *     D = epilogue(alpha op(A) op(B) + beta C), row-major; C is D unless it has a buffer of its own, and is not
 *     read if beta is 0.
 *
 * This header is the same for every set of kernels, and so is the binary interface: a program that was
 * linked with one libgemm_tuned.so runs with another. Valid as C99 and as C++. Needs no CUDA header. The
 * library loads the driver (libcuda.so.1) at run time: link gemm_tuned.c with -ldl only.
 *
 *     gemm_tuned *tuned;
 *     gemm_tuned_problem problem = gemm_tuned_default_problem();
 *     gemm_tuned_operands operands = gemm_tuned_no_operands();
 *     int status = gemm_tuned_create(&tuned, GEMM_TUNED_CURRENT_CONTEXT);
 *     problem.m = m, problem.n = n, problem.k = k;
 *     operands.a = a, operands.b = b, operands.d = d;
 *     if (status == GEMM_TUNED_SUCCESS)
 *         status = gemm_tuned_run(tuned, &problem, &operands, NULL, 0, stream);
 *     if (status != GEMM_TUNED_SUCCESS)
 *         puts(gemm_tuned_status_string(status));
 *     gemm_tuned_destroy(tuned);
 *
 * A handle serves all threads and streams. All functions may be called while a stream is captured, except
 * gemm_tuned_create and gemm_tuned_destroy. A kernel is loaded when it is first used.
 *
 * A process may have several handles, of several contexts and of several copies of the library. Operands, workspace
 * and stream belong to the context of the handle: only the driver notices others. A child that a process forks cannot
 * use its handles: calls result in the driver's error 3, CUDA_ERROR_NOT_INITIALIZED.
 */
#ifndef GEMM_TUNED_H
#define GEMM_TUNED_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. A later one adds functions and fields, and changes none: a library serves programs that
 * were compiled with an earlier header. Version 2 added what follows `stride_d` in gemm_tuned_problem and `beta` in
 * gemm_tuned_operands. Version 3 takes extents of 0, gets workspaces for calls that
 * lend none, and adds the column-major functions. */
#define GEMM_TUNED_VERSION 3

/* Version of the interface that the library was built with. */
int gemm_tuned_version(void);

/* Results of functions: one of these, or the CUresult of the driver, which is above 0. */
enum {
    GEMM_TUNED_SUCCESS = 0,
    /* No kernel serves the problem with this memory for its workspace. */
    GEMM_TUNED_NO_KERNEL = -1,
    /* A field or an argument is out of range; gemm_tuned_check says which. */
    GEMM_TUNED_BAD_ARGUMENT = -2,
    /* The driver is missing, or older than CUDA 11. */
    GEMM_TUNED_NO_DRIVER = -3,
    /* There is no machine code for the architecture of the GPU. */
    GEMM_TUNED_NO_ARCHITECTURE = -4,
    /* The host has no memory left. */
    GEMM_TUNED_NO_MEMORY = -5,
    /* Nothing can be measured while the stream is captured or another thread measures. */
    GEMM_TUNED_NOT_NOW = -6
};

/* A sentence for a result. The text is valid for as long as the library is loaded. */
const char *gemm_tuned_status_string(int status);

/* Types of elements. Alpha and beta are int if D is I32, else float. */
enum {
    /* As for most products: for B the type of A, for D the type of A, or I32 if that is I8, and for the compute type
     * the one that is named like the type of A. */
    GEMM_TUNED_DEFAULT = -1,
    GEMM_TUNED_F32 = 0,
    GEMM_TUNED_F16 = 1,
    GEMM_TUNED_BF16 = 2,
    GEMM_TUNED_I32 = 3,
    GEMM_TUNED_I8 = 4
};

/* Compute types: what is multiplied. Products of floating-point numbers are summed in binary32, those of integers in
 * 32 bits. */
enum {
    /* Strict binary32: fused multiply-adds, without tensor cores. */
    GEMM_TUNED_COMPUTE_F32 = 0,
    /* Operands of F32, rounded to tf32. */
    GEMM_TUNED_COMPUTE_TF32 = 1,
    /* Operands of F32, by tensor cores with the accuracy of binary32. */
    GEMM_TUNED_COMPUTE_F32_EMULATED = 2,
    GEMM_TUNED_COMPUTE_F16 = 3,
    GEMM_TUNED_COMPUTE_BF16 = 4,
    GEMM_TUNED_COMPUTE_I32 = 5,
    GEMM_TUNED_COMPUTE_I8 = 6
};

/* A matrix product, or a batch of them. Begin with gemm_tuned_default_problem: it sets the size and the
 * defaults, also of fields that later versions add. */
typedef struct {
    /* Bytes of this structure. */
    size_t size;
    /* Type of the elements of A. */
    int dtype;
    /* Whether A is stored as K x M rows instead of M x K, and B as N x K instead of K x N: 0 or 1. */
    int transpose_a, transpose_b;
    /* Bytes that the addresses are multiples of, a power of two; 0 for 256. Only gemm_tuned_choose and
     * gemm_tuned_check read it: gemm_tuned_run sees the addresses. */
    int alignment;
    /* D has M rows of N elements, K is the inner extent. As in BLAS, extents may be 0. With M or N of 0, or a batch of
     * 0, a call does nothing, and no address is read. With K of 0, D is the epilogue of beta C, and neither alpha, A
     * nor B is read: a kernel multiplies zeros in the workspace, so that it needs one (gemm_tuned_choose says how
     * much) or takes one, except for a beta of 0 or 1 without an epilogue. */
    long long m, n, k;
    /* Products of one call. */
    long long batch;
    /* Elements from one row as stored to the next; 0 for rows without gaps. */
    long long lda, ldb, ldd;
    /* Elements from one matrix of the batch to the next; not read if the batch is 1. 0 for an A or a B that
     * all products share. */
    long long stride_a, stride_b, stride_d;
    /* Types of the elements of B, and of C and D; compute type. */
    int dtype_b, dtype_d, compute;
    /* Always 0. */
    int reserved;
    /* What is done to alpha op(A) op(B) + beta C before it is stored: operations in their order, separated by commas,
     * as in "bias,gelu"; NULL for none. Operations are bias, row-scale, col-scale, relu, gelu, gelu-tanh, silu,
     * residual and mul, each at most once. The text is read during a call. */
    const char *epilogue;
    /* Those of C, if it has a buffer of its own; 0 for ldd and stride_d. */
    long long ldc, stride_c;
} gemm_tuned_problem;

/* A product of f32 without extents, not transposed, packed, of batch 1, without an epilogue. */
static inline gemm_tuned_problem gemm_tuned_default_problem(void)
{
    gemm_tuned_problem problem;
    problem.size = sizeof problem;
    problem.dtype = GEMM_TUNED_F32;
    problem.transpose_a = problem.transpose_b = problem.alignment = 0;
    problem.m = problem.n = problem.k = 0;
    problem.batch = 1;
    problem.lda = problem.ldb = problem.ldd = 0;
    problem.stride_a = problem.stride_b = problem.stride_d = 0;
    problem.dtype_b = problem.dtype_d = problem.compute = GEMM_TUNED_DEFAULT;
    problem.reserved = 0;
    problem.epilogue = NULL;
    problem.ldc = problem.stride_c = 0;
    return problem;
}

/* Checks a problem without a GPU. If it cannot be computed, the result is GEMM_TUNED_BAD_ARGUMENT, and
 * `text` holds a sentence with the field, its value and its range, cut to `bytes`. `text` may be NULL. */
int gemm_tuned_check(const gemm_tuned_problem *problem, char *text, size_t bytes);

/* The kernels, for a context of the driver. */
typedef struct gemm_tuned gemm_tuned;

#define GEMM_TUNED_CURRENT_CONTEXT (-1)

/* Makes a handle for the primary context of the GPU with the ordinal `device`, which PyTorch, CuPy and the CUDA
 * runtime use, or for the current context. */
int gemm_tuned_create(gemm_tuned **tuned, int device);

/* Unloads the kernels, and frees the memory of the handle. NULL is no error. Products that were queued are to be done
 * before, and graphs with them are not launched later. A handle that has ended must not be used: nothing detects it. */
void gemm_tuned_destroy(gemm_tuned *tuned);

/* The kernel of a problem. */
typedef struct {
    /* Bytes of this structure, set by the caller. */
    size_t size;
    /* Name of the kernel; valid for as long as the library is loaded. */
    const char *name;
    /* Bytes of device memory, aligned to 256 bytes, that it needs as its workspace. */
    size_t workspace_bytes;
    /* Predicted time in microseconds; below 0 for a tuned or a preferred kernel, 0 for a measured one. */
    double expected_us;
    /* Whether it was tuned for exactly this problem: 0 or 1. */
    int tuned;
    /* Whether two runs on the same values give the same bits: 0 or 1. */
    int deterministic;
} gemm_tuned_choice;

/* Chooses the kernel that gemm_tuned_run uses with `workspace_bytes` of workspace; (size_t)-1 for any. With
 * NULL for `tuned`, the choice is that of the GPU that the kernels were tuned on; no GPU is needed. */
int gemm_tuned_choose(const gemm_tuned *tuned, const gemm_tuned_problem *problem, size_t workspace_bytes,
                      gemm_tuned_choice *choice);

/* What a handle does for a problem that was not tuned. */
enum {
    /* It uses the kernel with the lowest predicted time. */
    GEMM_TUNED_FORECAST = 0,
    /* It times the three best ones when the problem is met first, and remembers the fastest in a file. */
    GEMM_TUNED_MEASURE = 1,
    /* It uses what the file says, and measures nothing. */
    GEMM_TUNED_USE_MEASURED = 2
};

/* How a handle measures. Begin with gemm_tuned_default_measuring. */
typedef struct {
    /* Bytes of this structure. */
    size_t size;
    /* One of the three above. */
    int mode;
    /* Most milliseconds for a problem; a round of all three that has begun is ended. */
    double budget_ms;
    /* Most bytes of device memory for copies of the operands and workspaces, while a problem is measured. */
    size_t scratch_bytes;
    /* File, which processes may share; NULL for gemm-tune/measured/ in the user's cache folder, with a name of this
     * library, the GPU and the driver. Its folders are made. */
    const char *file;
} gemm_tuned_measuring;

/* No measuring; 50 ms and 2 GiB. */
static inline gemm_tuned_measuring gemm_tuned_default_measuring(void)
{
    gemm_tuned_measuring measuring;
    measuring.size = sizeof measuring;
    measuring.mode = GEMM_TUNED_FORECAST;
    measuring.budget_ms = 50;
    measuring.scratch_bytes = (size_t)2 << 30;
    measuring.file = NULL;
    return measuring;
}

/* Sets how a handle measures, before its first product. gemm_tuned_create sets it by the environment:
 * GEMM_TUNED_MEASURE=1 measures, GEMM_TUNED_MEASURE=read uses what was measured, and GEMM_TUNED_MEASURE_FILE names
 * the file. */
int gemm_tuned_set_measuring(gemm_tuned *tuned, const gemm_tuned_measuring *measuring);

/* Operands in device memory, and the scalars in host memory. Begin with gemm_tuned_no_operands. */
typedef struct {
    /* Bytes of this structure. */
    size_t size;
    /* Addresses are multiples of the largest element of the three. */
    const void *a, *b;
    void *d;
    /* Scalars, read before a call returns; NULL for an alpha of 1 and a beta of 0. With an alpha of 0, A and B are not
     * read, as in BLAS. */
    const void *alpha, *beta;
    /* C in a buffer of its own, which does not overlap D: it is copied to D before the product unless beta is 0. NULL
     * for D itself. An addend that is read once is a residual. */
    const void *c;
    /* Operands of the epilogue, in device memory: N values for each product, of the type of D; */
    const void *bias;
    /* M or N values of F32 for each product; */
    const void *row_scale, *col_scale;
    /* matrices of the type of D, which are stored as D is. */
    const void *residual, *mul;
} gemm_tuned_operands;

/* No operands, an alpha of 1 and a beta of 0. */
static inline gemm_tuned_operands gemm_tuned_no_operands(void)
{
    gemm_tuned_operands operands;
    operands.size = sizeof operands;
    operands.a = operands.b = NULL;
    operands.d = NULL;
    operands.alpha = operands.beta = NULL;
    operands.c = operands.bias = operands.row_scale = operands.col_scale = NULL;
    operands.residual = operands.mul = NULL;
    return operands;
}

/* How a handle gets workspaces for calls that lend none. */
enum {
    /* It uses what gemm_tuned_reserve got for the stream, else kernels without a workspace. */
    GEMM_TUNED_NO_ALLOCATION = 0,
    /* It takes what the kernel needs from a pool of its own, in the order of the stream (cuMemAllocFromPoolAsync), and
     * gives it back after the last launch. Where the stream is captured, both are nodes of the graph. Where the pool has
     * no memory left, it uses kernels without a workspace. The default; as the first where a device has no pools. */
    GEMM_TUNED_POOL = 1
};

/* Sets it, before the first product. */
int gemm_tuned_set_allocation(gemm_tuned *tuned, int mode);

/* Gets device memory for the calls on a stream that lend no workspace: they use it, and nothing of the pool. More
 * bytes replace fewer. All of it is kept until the handle ends, because launches and graphs may use it. Run graphs that
 * were captured from the stream on that stream. The stream must not be the default one of each thread
 * (CU_STREAM_PER_THREAD), which is several. */
int gemm_tuned_reserve(gemm_tuned *tuned, void *stream, size_t bytes);

/* Queues a problem on a stream (a CUstream or cudaStream_t) of the handle's context.
 * A workspace is device memory aligned to 256 bytes, which the caller owns and nothing else uses until the
 * product is done. With NULL, the handle gets what the kernel needs (gemm_tuned_set_allocation). The context need not be current: then it is for the duration of the call.
 * The first call of a problem chooses the kernel, and loads it where no other problem has used it; later calls
 * remember the choice. */
int gemm_tuned_run(gemm_tuned *tuned, const gemm_tuned_problem *problem, const gemm_tuned_operands *operands,
                   void *workspace, size_t workspace_bytes, void *stream);

/* Measures a problem now, where the handle measures and neither was it tuned nor is it known: on copies of A and B in
 * memory of its own, in the order of the stream, and waits for the end. gemm_tuned_run does so by itself; call this
 * before gemm_tuned_choose, which then says the workspace of the measured kernel. */
int gemm_tuned_measure(gemm_tuned *tuned, const gemm_tuned_problem *problem, const gemm_tuned_operands *operands,
                       void *stream);

/* What op of BLAS is; the conjugate of a real matrix is the matrix. */
enum { GEMM_TUNED_OP_N = 0, GEMM_TUNED_OP_T = 1, GEMM_TUNED_OP_C = 2 };

/* The problem of a column-major product with the arguments of BLAS, of f32; other types are set afterwards. A C of M
 * rows in columns is the transpose of a matrix in rows, which is op(B)^T op(A)^T. So operands are swapped: `a` of
 * gemm_tuned_operands is B, and `b` is A. */
static inline gemm_tuned_problem gemm_tuned_column_major(int transa, int transb, int m, int n, int k, int lda,
                                                         long long stride_a, int ldb, long long stride_b, int ldc,
                                                         long long stride_c, int batch_count)
{
    gemm_tuned_problem problem = gemm_tuned_default_problem();
    problem.transpose_a = transb != GEMM_TUNED_OP_N;
    problem.transpose_b = transa != GEMM_TUNED_OP_N;
    problem.m = n, problem.n = m, problem.k = k;
    problem.batch = batch_count;
    problem.lda = ldb, problem.ldb = lda, problem.ldd = ldc;
    problem.stride_a = stride_b, problem.stride_b = stride_a, problem.stride_d = stride_c;
    return problem;
}

/* Column-major products of f32, with the arguments of cublasSgemm and cublasSgemmStridedBatched in their order and
 * meaning, behind the handle; the stream comes last. Factors lie in host memory. gemm_tuned_cublas.h makes calls of
 * cublasSgemm such calls. */

int gemm_tuned_sgemm(gemm_tuned *tuned, int transa, int transb, int m, int n, int k, const float *alpha,
                     const float *A, int lda, const float *B, int ldb, const float *beta, float *C, int ldc,
                     void *stream);

int gemm_tuned_sgemm_strided_batched(gemm_tuned *tuned, int transa, int transb, int m, int n, int k,
                                     const float *alpha, const float *A, int lda, long long stride_a, const float *B,
                                     int ldb, long long stride_b, const float *beta, float *C, int ldc,
                                     long long stride_c, int batch_count, void *stream);

#ifdef __cplusplus
}
#endif

#endif
