/* In the place of cuBLAS: multiplies by the stub of cuBLASLt, with the algorithm 1, and records "cublas:WORKSPACE,MATH_MODE;" before
 * it. STUB_LT_MODE=nothing lets it fail to begin. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_INITIALIZED 1
#define F32 0
#define COMPUTE_F32 68

/* Of the other stub. */
int cublasLtCreate(void **handle);
int cublasLtDestroy(void *handle);
int cublasLtMatmulDescCreate(void **to, int compute, int scale);
int cublasLtMatmulDescDestroy(void *own);
int cublasLtMatmulDescSetAttribute(void *own, int attribute, const void *value, size_t bytes);
int cublasLtMatrixLayoutCreate(void **to, int type, unsigned long long rows, unsigned long long columns, long long height);
int cublasLtMatrixLayoutDestroy(void *own);
int cublasLtMatrixLayoutSetAttribute(void *own, int attribute, const void *value, size_t bytes);
int cublasLtMatmul(void *handle, const void *own, const void *alpha, const void *a, const void *of_a, const void *b,
                   const void *of_b, const void *beta, const void *c, const void *of_c, void *d, const void *of_d,
                   const void *known, void *workspace, size_t bytes, void *stream);
void stub_lt_record(const char *text);

/* Of the one handle. */
static void *lt, *workspace;
static size_t workspace_bytes;
static int math_mode;

int cublasCreate_v2(void **handle)
{
    const char *mode = getenv("STUB_LT_MODE");
    if (mode != NULL && strstr(mode, "nothing") != NULL)
        return NOT_INITIALIZED;
    *handle = &lt;
    return cublasLtCreate(&lt);
}

int cublasDestroy_v2(void *handle) { return handle != &lt || cublasLtDestroy(lt) != 0; }

int cublasSetStream_v2(void *handle, void *stream)
{
    (void)stream;
    workspace = NULL;
    workspace_bytes = 0;
    return handle != &lt;
}

int cublasSetWorkspace_v2(void *handle, void *to, size_t bytes)
{
    workspace = to;
    workspace_bytes = bytes;
    return handle != &lt || (uintptr_t)to % 256 != 0;
}

int cublasSetMathMode(void *handle, int mode)
{
    math_mode = mode;
    return handle != &lt;
}

static void *layout(int type, int transposed, int rows, int columns, int height, int batch, long long stride)
{
    void *own = NULL;
    cublasLtMatrixLayoutCreate(&own, type, (unsigned long long)(transposed ? columns : rows),
                               (unsigned long long)(transposed ? rows : columns), height);
    cublasLtMatrixLayoutSetAttribute(own, 5, &batch, sizeof batch);
    cublasLtMatrixLayoutSetAttribute(own, 6, &stride, sizeof stride);
    return own;
}

int cublasGemmStridedBatchedEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a,
                               int type_a, int lda, long long stride_a, const void *b, int type_b, int ldb,
                               long long stride_b, const void *beta, void *c, int type_c, int ldc, long long stride_c,
                               int batch, int compute, int algorithm)
{
    const unsigned known[16] = { 1 };
    char text[100];
    void *product = NULL, *layouts[3];
    int i, status;
    sprintf(text, "cublas:%zu,%d;", workspace_bytes, math_mode);
    stub_lt_record(text);
    if (handle != &lt || algorithm != -1 || (math_mode == 2) != (type_a == F32 && compute == COMPUTE_F32))
        return NOT_INITIALIZED;
    cublasLtMatmulDescCreate(&product, compute, compute == 72 ? 10 : 0);
    cublasLtMatmulDescSetAttribute(product, 3, &ta, sizeof ta);
    cublasLtMatmulDescSetAttribute(product, 4, &tb, sizeof tb);
    layouts[0] = layout(type_a, ta, m, k, lda, batch, stride_a);
    layouts[1] = layout(type_b, tb, k, n, ldb, batch, stride_b);
    layouts[2] = layout(type_c, 0, m, n, ldc, batch, stride_c);
    status = cublasLtMatmul(lt, product, alpha, a, layouts[0], b, layouts[1], beta, c, layouts[2], c, layouts[2], known,
                            workspace, workspace_bytes, NULL);
    for (i = 0; i < 3; i++)
        cublasLtMatrixLayoutDestroy(layouts[i]);
    cublasLtMatmulDescDestroy(product);
    return status;
}

int cublasGemmEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int type_a, int lda,
                 const void *b, int type_b, int ldb, const void *beta, void *c, int type_c, int ldc, int compute,
                 int algorithm)
{
    return cublasGemmStridedBatchedEx(handle, ta, tb, m, n, k, alpha, a, type_a, lda, 0, b, type_b, ldb, 0, beta, c, type_c,
                                      ldc, 0, 1, compute, algorithm);
}

int cublasSgemmStridedBatched(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int lda,
                              long long stride_a, const void *b, int ldb, long long stride_b, const void *beta, void *c,
                              int ldc, long long stride_c, int batch)
{
    return cublasGemmStridedBatchedEx(handle, ta, tb, m, n, k, alpha, a, F32, lda, stride_a, b, F32, ldb, stride_b, beta, c,
                                      F32, ldc, stride_c, batch, COMPUTE_F32, -1);
}

int cublasSgemm_v2(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int lda,
                   const void *b, int ldb, const void *beta, void *c, int ldc)
{
    return cublasSgemmStridedBatched(handle, ta, tb, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1);
}
