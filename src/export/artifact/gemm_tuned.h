/* Matrix-multiplication kernels found by gemm-tune @VERSION@ on @DEVICE@.
 *
 * C = alpha op(A) op(B) + beta C, row-major; if beta is 0, C is not read. Needs only the CUDA
 * driver: link with -lcuda. Valid as C99 and as C++.
 *
 *     gemm_tuned tuned;
 *     int status = gemm_tuned_open(&tuned);      (in the current context)
 *     if (status == 0)
 *         status = @EXAMPLE@(&tuned, stream, m, n, k, 1, a, lda, b, ldb, 0, c, ldc);
 *     gemm_tuned_close(&tuned);
 *
 * Each function returns 0, a CUresult above 0, or one of the codes below 0. A call allocates nothing.
 * An open `gemm_tuned` without a workspace serves all threads and streams of its context. Some
 * kernels need a workspace: they are used after gemm_tuned_workspace has set one. A workspace serves
 * one stream at a time.
 */
#ifndef GEMM_TUNED_H
#define GEMM_TUNED_H

#include <stddef.h>

#if defined(__has_include)
#if __has_include(<cuda.h>)
#include <cuda.h>
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef CUDA_VERSION
/* Declarations of cuda.h, for machines without it. */
typedef int CUresult;
typedef int CUdevice;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
#endif

enum {
    /* No kernel of this file serves the shape, leading dimensions and addresses. */
    GEMM_TUNED_NO_KERNEL = -1,
    /* An extent is not within 1 to @MAX_EXTENT@, a leading dimension is shorter than its row or above that,
     * an operand spans more than 2^48 bytes, or a pointer is null or not aligned to an element. */
    GEMM_TUNED_BAD_ARGUMENT = -2
};

#define GEMM_TUNED_IMAGES @IMAGES@
#define GEMM_TUNED_LAUNCHES @LAUNCHES@

/* The kernels, loaded into a context. */
typedef struct {
    int multiprocessors;
    void *workspace;
    size_t workspace_bytes;
    CUmodule modules[GEMM_TUNED_IMAGES];
    CUfunction functions[GEMM_TUNED_LAUNCHES];
} gemm_tuned;

/* Loads the kernels into the current context. */
int gemm_tuned_open(gemm_tuned *tuned);

/* Unloads the kernels; the context must be the one of gemm_tuned_open. NULL is no error. */
void gemm_tuned_close(gemm_tuned *tuned);

/* Sets the workspace of later calls: device memory aligned to 256 bytes, owned by the caller. One that is not
 * aligned is not used. */
void gemm_tuned_workspace(gemm_tuned *tuned, void *workspace, size_t bytes);

@FUNCTIONS@#ifdef __cplusplus
}
#endif

#endif
