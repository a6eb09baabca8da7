/* Lets calls of cublasSgemm and cublasSgemmStridedBatched run kernels that were tuned with gemm-tune. In each file with
 * such calls, behind the headers of CUDA, with a handle that gemm_tuned_create made for the context of cuBLAS:
 *
 *     #include "gemm_tuned.h"
 *     extern gemm_tuned *my_kernels;
 *     #define GEMM_TUNED_CUBLAS_HANDLE my_kernels
 *     #include "gemm_tuned_cublas.h"
 *
 * The calls stay as they are. They use the stream of the handle of cuBLAS. cuBLAS itself runs where factors lie in device
 * memory, where the math mode allows other types than f32, and where no kernel serves a product. */
#ifndef GEMM_TUNED_CUBLAS_H
#define GEMM_TUNED_CUBLAS_H

#include <cublas_v2.h>

#include "gemm_tuned.h"

#ifndef GEMM_TUNED_CUBLAS_HANDLE
#error "define GEMM_TUNED_CUBLAS_HANDLE as the gemm_tuned * that calls use, before this header"
#endif

/* The stream of calls that can be replaced: 0 where cuBLAS itself is needed. */
static inline int gemm_tuned_cublas_stream(cublasHandle_t handle, cudaStream_t *stream)
{
    cublasPointerMode_t pointers;
    cublasMath_t math;
    return cublasGetPointerMode(handle, &pointers) == CUBLAS_STATUS_SUCCESS && pointers == CUBLAS_POINTER_MODE_HOST
           && cublasGetMathMode(handle, &math) == CUBLAS_STATUS_SUCCESS
           && (math == CUBLAS_DEFAULT_MATH || math == CUBLAS_PEDANTIC_MATH)
           && cublasGetStream(handle, stream) == CUBLAS_STATUS_SUCCESS;
}

static inline cublasStatus_t gemm_tuned_cublas_sgemm(cublasHandle_t handle, cublasOperation_t transa,
                                                     cublasOperation_t transb, int m, int n, int k, const float *alpha,
                                                     const float *A, int lda, const float *B, int ldb,
                                                     const float *beta, float *C, int ldc)
{
    cudaStream_t stream;
    int status = GEMM_TUNED_NO_KERNEL;
    if (gemm_tuned_cublas_stream(handle, &stream))
        status = gemm_tuned_sgemm(GEMM_TUNED_CUBLAS_HANDLE, (int)transa, (int)transb, m, n, k, alpha, A, lda, B, ldb,
                                  beta, C, ldc, stream);
    /* Below 0, nothing was queued. */
    if (status >= 0)
        return status == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
    return cublasSgemm(handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}

static inline cublasStatus_t gemm_tuned_cublas_sgemm_strided_batched(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k, const float *alpha,
    const float *A, int lda, long long int stride_a, const float *B, int ldb, long long int stride_b,
    const float *beta, float *C, int ldc, long long int stride_c, int batch_count)
{
    cudaStream_t stream;
    int status = GEMM_TUNED_NO_KERNEL;
    if (gemm_tuned_cublas_stream(handle, &stream))
        status = gemm_tuned_sgemm_strided_batched(GEMM_TUNED_CUBLAS_HANDLE, (int)transa, (int)transb, m, n, k, alpha, A,
                                                  lda, stride_a, B, ldb, stride_b, beta, C, ldc, stride_c, batch_count,
                                                  stream);
    if (status >= 0)
        return status == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
    return cublasSgemmStridedBatched(handle, transa, transb, m, n, k, alpha, A, lda, stride_a, B, ldb, stride_b, beta,
                                     C, ldc, stride_c, batch_count);
}

#undef cublasSgemm
#define cublasSgemm gemm_tuned_cublas_sgemm
#undef cublasSgemmStridedBatched
#define cublasSgemmStridedBatched gemm_tuned_cublas_sgemm_strided_batched

#endif
