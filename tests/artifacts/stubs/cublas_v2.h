/* In the place of cuBLAS: what gemm_tuned_cublas.h calls, with the types of cublas_v2.h. */
#ifndef CUBLAS_V2_H_
#define CUBLAS_V2_H_

typedef enum { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_EXECUTION_FAILED = 13 } cublasStatus_t;
typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 } cublasOperation_t;
typedef enum { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 } cublasPointerMode_t;
typedef enum {
    CUBLAS_DEFAULT_MATH = 0,
    CUBLAS_TENSOR_OP_MATH = 1,
    CUBLAS_PEDANTIC_MATH = 2,
    CUBLAS_TF32_TENSOR_OP_MATH = 3,
    CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16
} cublasMath_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct cublasContext *cublasHandle_t;

#define cublasSgemm cublasSgemm_v2
#define cublasGetStream cublasGetStream_v2
#define cublasGetPointerMode cublasGetPointerMode_v2

struct cublasContext {
    cudaStream_t stream;
    cublasPointerMode_t pointers;
    cublasMath_t math;
    int calls;
};

static inline cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t *stream)
{
    *stream = handle->stream;
    return CUBLAS_STATUS_SUCCESS;
}

static inline cublasStatus_t cublasGetPointerMode(cublasHandle_t handle, cublasPointerMode_t *mode)
{
    *mode = handle->pointers;
    return CUBLAS_STATUS_SUCCESS;
}

static inline cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t *mode)
{
    *mode = handle->math;
    return CUBLAS_STATUS_SUCCESS;
}

static inline cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                         int m, int n, int k, const float *alpha, const float *A, int lda,
                                         const float *B, int ldb, const float *beta, float *C, int ldc)
{
    (void)transa, (void)transb, (void)m, (void)n, (void)k, (void)alpha, (void)A, (void)lda, (void)B, (void)ldb;
    (void)beta, (void)C, (void)ldc;
    handle->calls++;
    return CUBLAS_STATUS_SUCCESS;
}

static inline cublasStatus_t cublasSgemmStridedBatched(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k, const float *alpha,
    const float *A, int lda, long long int stride_a, const float *B, int ldb, long long int stride_b,
    const float *beta, float *C, int ldc, long long int stride_c, int batch_count)
{
    (void)stride_a, (void)stride_b, (void)stride_c, (void)batch_count;
    return cublasSgemm(handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}

#endif
