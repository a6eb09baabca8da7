/* Lets calls of cublasSgemm and cublasSgemmStridedBatched run kernels that were tuned with gemm-tune. In each file with
 * such calls, behind the headers of CUDA, with a handle that gemm_tuned_create made for the context of cuBLAS:
 *
 *     #include "gemm_tuned.h"
 *     extern gemm_tuned *my_kernels;
 *     #define GEMM_TUNED_CUBLAS_HANDLE my_kernels
 *     #include "gemm_tuned_cublas.h"
 *
 * The calls stay as they are. They use the stream of the handle of cuBLAS. Where its math mode is
 * CUBLAS_TF32_TENSOR_OP_MATH and NVIDIA_TF32_OVERRIDE is not 0, kernels of tf32 compute the product, else those of
 * strict f32. cuBLAS itself runs where factors lie in device memory, in other math modes, and where no kernel of that
 * compute type serves a product. */
#ifndef GEMM_TUNED_CUBLAS_H
#define GEMM_TUNED_CUBLAS_H

#include <cublas_v2.h>
#include <stdlib.h>

#include "gemm_tuned.h"

#ifndef GEMM_TUNED_CUBLAS_HANDLE
#error "define GEMM_TUNED_CUBLAS_HANDLE as the gemm_tuned * that calls use, before this header"
#endif

/* The compute type of a handle's math mode, or GEMM_TUNED_DEFAULT for a mode that only cuBLAS has. */
static inline int gemm_tuned_cublas_compute(cublasMath_t math)
{
    const char *allowed = getenv("NVIDIA_TF32_OVERRIDE");
    /* Reductions are of binary32 in any case. */
    switch ((int)math & ~(int)CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) {
    case CUBLAS_TF32_TENSOR_OP_MATH:
        return allowed != NULL && allowed[0] == '0' ? GEMM_TUNED_COMPUTE_F32 : GEMM_TUNED_COMPUTE_TF32;
    case CUBLAS_DEFAULT_MATH:
    case CUBLAS_PEDANTIC_MATH:
        return GEMM_TUNED_COMPUTE_F32;
    default:
        return GEMM_TUNED_DEFAULT;
    }
}

/* Computes a product with the stream and the math mode of a handle of cuBLAS. GEMM_TUNED_NO_KERNEL where cuBLAS itself is
 * needed. */
static inline int gemm_tuned_cublas_run(cublasHandle_t handle, gemm_tuned_problem problem, const float *alpha,
                                        const float *A, const float *B, const float *beta, float *C)
{
    gemm_tuned_operands operands = gemm_tuned_no_operands();
    cublasPointerMode_t pointers;
    cublasMath_t math;
    cudaStream_t stream;
    if (cublasGetPointerMode(handle, &pointers) != CUBLAS_STATUS_SUCCESS || pointers != CUBLAS_POINTER_MODE_HOST
        || cublasGetMathMode(handle, &math) != CUBLAS_STATUS_SUCCESS
        || cublasGetStream(handle, &stream) != CUBLAS_STATUS_SUCCESS || alpha == NULL || beta == NULL)
        return GEMM_TUNED_NO_KERNEL;
    problem.compute = gemm_tuned_cublas_compute(math);
    if (problem.compute == GEMM_TUNED_DEFAULT)
        return GEMM_TUNED_NO_KERNEL;
    operands.a = B, operands.b = A, operands.d = C;
    operands.alpha = alpha, operands.beta = beta;
    return gemm_tuned_run(GEMM_TUNED_CUBLAS_HANDLE, &problem, &operands, NULL, 0, stream);
}

/* The status of cuBLAS for a product that was queued. */
static inline cublasStatus_t gemm_tuned_cublas_status(int status)
{
    return status == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

static inline cublasStatus_t gemm_tuned_cublas_sgemm(cublasHandle_t handle, cublasOperation_t transa,
                                                     cublasOperation_t transb, int m, int n, int k, const float *alpha,
                                                     const float *A, int lda, const float *B, int ldb,
                                                     const float *beta, float *C, int ldc)
{
    const gemm_tuned_problem problem =
        gemm_tuned_column_major((int)transa, (int)transb, m, n, k, lda, 0, ldb, 0, ldc, 0, 1);
    const int status = gemm_tuned_cublas_run(handle, problem, alpha, A, B, beta, C);
    /* Below 0, nothing was queued. */
    return status >= 0 ? gemm_tuned_cublas_status(status)
                       : cublasSgemm(handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}

static inline cublasStatus_t gemm_tuned_cublas_sgemm_strided_batched(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k, const float *alpha,
    const float *A, int lda, long long int stride_a, const float *B, int ldb, long long int stride_b,
    const float *beta, float *C, int ldc, long long int stride_c, int batch_count)
{
    const gemm_tuned_problem problem = gemm_tuned_column_major((int)transa, (int)transb, m, n, k, lda, stride_a, ldb,
                                                               stride_b, ldc, stride_c, batch_count);
    const int status = gemm_tuned_cublas_run(handle, problem, alpha, A, B, beta, C);
    return status >= 0 ? gemm_tuned_cublas_status(status)
                       : cublasSgemmStridedBatched(handle, transa, transb, m, n, k, alpha, A, lda, stride_a, B, ldb,
                                                   stride_b, beta, C, ldc, stride_c, batch_count);
}

#undef cublasSgemm
#define cublasSgemm gemm_tuned_cublas_sgemm
#undef cublasSgemmStridedBatched
#define cublasSgemmStridedBatched gemm_tuned_cublas_sgemm_strided_batched

#endif
