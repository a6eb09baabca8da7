/* Checks the column-major functions, by an implementation of gemm_tuned_run on the host: blas.c of the library is
 * compiled into this program. Calls of cublasSgemm go through gemm_tuned_cublas.h, with stubs/cublas_v2.h in the place of
 * cuBLAS. */
#define _POSIX_C_SOURCE 200112L /* setenv */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gemm_tuned.h"

static gemm_tuned *my_kernels = NULL;
static const void *last_stream;
static int runs = 0, answer = 0, last_compute = -2;

#define GEMM_TUNED_CUBLAS_HANDLE my_kernels
#include "gemm_tuned_cublas.h"

/* The product in rows, as the header says it. */
int gemm_tuned_run(gemm_tuned *tuned, const gemm_tuned_problem *p, const gemm_tuned_operands *o, void *workspace,
                   size_t workspace_bytes, void *stream)
{
    long long b, i, j, l;
    if (tuned != NULL || workspace != NULL || workspace_bytes != 0)
        return GEMM_TUNED_BAD_ARGUMENT;
    last_stream = stream;
    last_compute = p->compute;
    runs++;
    for (b = 0; answer == 0 && b < p->batch; b++)
        for (i = 0; i < p->m; i++)
            for (j = 0; j < p->n; j++) {
                const float *at = (const float *)o->a + b * p->stride_a, *bt = (const float *)o->b + b * p->stride_b;
                float *d = (float *)o->d + b * p->stride_d + i * p->ldd + j;
                double sum = 0;
                for (l = 0; l < p->k; l++)
                    sum += (double)(p->transpose_a ? at[l * p->lda + i] : at[i * p->lda + l])
                           * (double)(p->transpose_b ? bt[j * p->ldb + l] : bt[l * p->ldb + j]);
                *d = (float)(*(const float *)o->alpha * sum + (double)*(const float *)o->beta * (double)*d);
            }
    return answer;
}

#include "blas_source.c"

#define ELEMENTS 4096
static float a[ELEMENTS], b[ELEMENTS], c[ELEMENTS], expected[ELEMENTS];

/* C of the definition of BLAS, in columns. */
static void define(int ta, int tb, int m, int n, int k, int lda, long long sa, int ldb, long long sb, int ldc,
                   long long sc, int batch, float alpha, float beta)
{
    long long x;
    int i, j, l;
    for (x = 0; x < batch; x++)
        for (i = 0; i < m; i++)
            for (j = 0; j < n; j++) {
                float *at = &expected[x * sc + i + j * ldc];
                double sum = 0;
                for (l = 0; l < k; l++)
                    sum += (double)a[x * sa + (ta ? l + i * lda : i + l * lda)]
                           * (double)b[x * sb + (tb ? j + l * ldb : l + j * ldb)];
                *at = (float)(alpha * sum + (double)beta * (double)*at);
            }
}

static void fill(void)
{
    int i;
    for (i = 0; i < ELEMENTS; i++) {
        a[i] = (float)(i * 7 % 11 - 5);
        b[i] = (float)(i * 5 % 13 - 6);
        c[i] = expected[i] = (float)(i % 9 - 4);
    }
}

/* Calls of cublasSgemm in a math mode: the compute type that runs, or -2 for cuBLAS itself. */
static int compute_of(struct cublasContext *context, int math)
{
    static const float alpha = 1, beta = 0;
    const int calls = context->calls;
    context->math = (cublasMath_t)math;
    last_compute = -2;
    if (cublasSgemm(context, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &alpha, a, 1, b, 1, &beta, c, 1)
            != CUBLAS_STATUS_SUCCESS
        || (last_compute == -2) != (context->calls == calls + 1))
        return -3;
    return last_compute;
}

int main(void)
{
    static const float alpha = 1.5f, beta = -0.5f;
    struct cublasContext context = { NULL, CUBLAS_POINTER_MODE_HOST, CUBLAS_DEFAULT_MATH, 0 };
    cublasHandle_t handle = &context;
    char stream;
    int ta, tb, batch, called = 0;
    context.stream = (cudaStream_t)(void *)&stream;
    for (ta = 0; ta < 3; ta++)
        for (tb = 0; tb < 3; tb++)
            for (batch = 1; batch <= 3; batch += 2) {
                const int m = 5, n = 7, k = 3, lda = (ta ? k : m) + 2, ldb = (tb ? n : k) + 1, ldc = m + 3;
                const long long sa = 100, sb = 90, sc = 80;
                cublasStatus_t status;
                fill();
                define(ta, tb, m, n, k, lda, sa, ldb, sb, ldc, sc, batch, alpha, beta);
                if (batch == 1)
                    status = cublasSgemm(handle, (cublasOperation_t)ta, (cublasOperation_t)tb, m, n, k, &alpha, a, lda,
                                         b, ldb, &beta, c, ldc);
                else
                    status = cublasSgemmStridedBatched(handle, (cublasOperation_t)ta, (cublasOperation_t)tb, m, n, k,
                                                       &alpha, a, lda, sa, b, ldb, sb, &beta, c, ldc, sc, batch);
                if (status != CUBLAS_STATUS_SUCCESS || memcmp(c, expected, sizeof c) != 0) {
                    printf("transa %d transb %d batch %d: status %d, another C\n", ta, tb, batch, (int)status);
                    return 1;
                }
                called++;
            }
    if (runs != called || context.calls != 0 || last_stream != (const void *)&stream)
        return 2;
    /* What cuBLAS itself does. */
    context.pointers = CUBLAS_POINTER_MODE_DEVICE;
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &alpha, a, 1, b, 1, &beta, c, 1);
    context.pointers = CUBLAS_POINTER_MODE_HOST, context.math = CUBLAS_TENSOR_OP_MATH;
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &alpha, a, 1, b, 1, &beta, c, 1);
    context.math = CUBLAS_DEFAULT_MATH, answer = GEMM_TUNED_NO_KERNEL;
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &alpha, a, 1, b, 1, &beta, c, 1);
    if (context.calls != 3)
        return 3;
    answer = 719;
    if (cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &alpha, a, 1, b, 1, &beta, c, 1)
            != CUBLAS_STATUS_EXECUTION_FAILED
        || context.calls != 3)
        return 4;
    if (gemm_tuned_sgemm(NULL, 3, 0, 1, 1, 1, &alpha, a, 1, b, 1, &beta, c, 1, NULL) != GEMM_TUNED_BAD_ARGUMENT
        || gemm_tuned_sgemm(NULL, 0, 0, 1, 1, 1, NULL, a, 1, b, 1, &beta, c, 1, NULL) != GEMM_TUNED_BAD_ARGUMENT
        || gemm_tuned_sgemm(NULL, 0, 0, 1, 1, 1, &alpha, a, 0, b, 1, &beta, c, 1, NULL) != GEMM_TUNED_BAD_ARGUMENT)
        return 5;
    answer = 0;
    unsetenv("NVIDIA_TF32_OVERRIDE");
    if (compute_of(&context, CUBLAS_DEFAULT_MATH) != GEMM_TUNED_COMPUTE_F32
        || compute_of(&context, CUBLAS_PEDANTIC_MATH) != GEMM_TUNED_COMPUTE_F32
        || compute_of(&context, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) != GEMM_TUNED_COMPUTE_F32
        || compute_of(&context, CUBLAS_TF32_TENSOR_OP_MATH) != GEMM_TUNED_COMPUTE_TF32
        || compute_of(&context, CUBLAS_TENSOR_OP_MATH) != -2 || compute_of(&context, 7) != -2)
        return 6;
    setenv("NVIDIA_TF32_OVERRIDE", "0", 1);
    if (compute_of(&context, CUBLAS_TF32_TENSOR_OP_MATH) != GEMM_TUNED_COMPUTE_F32)
        return 7;
    puts("right");
    return 0;
}
