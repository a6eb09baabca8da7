/* cuBLAS ------------------------------------------------------------------------------------------------ */

/* Its functions, with the types of cublas_api.h written out. */
typedef struct {
    void *handle;
    /* Whether a thread calls it: the stream and the workspace are of the handle. */
    int busy;
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, void *stream);
    int (*set_workspace)(void *handle, void *workspace, size_t bytes);
    int (*set_math)(void *handle, int mode);
    int (*multiply_f32)(void *handle, int transpose_a, int transpose_b, int m, int n, int k, const void *alpha,
                        const void *a, int lda, const void *b, int ldb, const void *beta, void *c, int ldc);
    int (*multiply_f32_batch)(void *handle, int transpose_a, int transpose_b, int m, int n, int k, const void *alpha,
                              const void *a, int lda, long long stride_a, const void *b, int ldb, long long stride_b,
                              const void *beta, void *c, int ldc, long long stride_c, int batch);
    int (*multiply)(void *handle, int transpose_a, int transpose_b, int m, int n, int k, const void *alpha,
                    const void *a, int type_a, int lda, const void *b, int type_b, int ldb, const void *beta, void *c,
                    int type_c, int ldc, int compute, int algorithm);
    int (*multiply_batch)(void *handle, int transpose_a, int transpose_b, int m, int n, int k, const void *alpha,
                          const void *a, int type_a, int lda, long long stride_a, const void *b, int type_b, int ldb,
                          long long stride_b, const void *beta, void *c, int type_c, int ldc, long long stride_c,
                          int batch, int compute, int algorithm);
} blas_library;

/* cublasMath_t: neither tf32 nor emulation in f32; sums of parts of K are not rounded to 16 bits. */
#define BLAS_PEDANTIC 2
#define BLAS_WHOLE_SUMS 16
/* CUBLAS_GEMM_DEFAULT. */
#define BLAS_OWN_CHOICE (-1)
/* CUDA_R_32F, CUBLAS_COMPUTE_32F. */
#define BLAS_F32 0
#define BLAS_COMPUTE_F32 68
/* Extents and rows have 32 bits. */
#define BLAS_MOST 0x7fffffff

/* Stands for a library that is not there. */
static blas_library missing_blas;

/* Sets the functions; 0 where one is missing. */
static int find_blas_functions(void *file, blas_library *blas)
{
    return find(file, "cublasCreate_v2", &blas->create) && find(file, "cublasDestroy_v2", &blas->destroy)
           && find(file, "cublasSetStream_v2", &blas->set_stream)
           && find(file, "cublasSetWorkspace_v2", &blas->set_workspace)
           && find(file, "cublasSetMathMode", &blas->set_math) && find(file, "cublasSgemm_v2", &blas->multiply_f32)
           && find(file, "cublasSgemmStridedBatched", &blas->multiply_f32_batch)
           && find(file, "cublasGemmEx", &blas->multiply)
           && find(file, "cublasGemmStridedBatchedEx", &blas->multiply_batch);
}

static void *open_blas(void)
{
    static const char *const names[] = { "libcublas.so.13", "libcublas.so.12" };
    void *file = open_library(names);
    blas_library *own = (blas_library *)calloc(1, sizeof *own);
    if (own == NULL || file == NULL || !find_blas_functions(file, own) || own->create(&own->handle) != 0) {
        free(own);
        own = &missing_blas;
    }
    return own;
}

static void close_blas(void *blas)
{
    blas_library *own = (blas_library *)blas;
    own->destroy(own->handle);
    free(own);
}

static blas_library *blas_of(gemm_tuned *tuned)
{
    return (blas_library *)opened(&tuned->blas, open_blas, close_blas, &missing_blas);
}

/* Whether cuBLAS can be called with the extents and rows of a product. */
static int fits_blas(const product *own)
{
    int i;
    for (i = 0; i < 7; i++)
        if (own->p[i] > BLAS_MOST)
            return 0;
    return 1;
}

/* Queues a product in the current context, with the algorithm that cuBLAS chooses. Rows of matrices are its columns, so
 * that it multiplies B by A. */
static int launch_blas(gemm_tuned *tuned, const library_row *row, const product *own,
                       const gemm_tuned_operands *operands, void *workspace, size_t bytes, void *stream)
{
    const int m = (int)own->p[1], n = (int)own->p[0], k = (int)own->p[2], batch = (int)own->p[3];
    const int lda = (int)own->p[4], ldb = (int)own->p[5], ldc = (int)own->p[6];
    const int is_f32 = row->ab == BLAS_F32 && row->compute == BLAS_COMPUTE_F32;
    const void *const alpha = operands->alpha, *const beta = operands->beta, *const a = operands->a, *const b = operands->b;
    blas_library *blas = blas_of(tuned);
    int status, ta = own->transpose_a, tb = own->transpose_b;
    if (blas == NULL)
        return LIBRARY_REFUSED;
    while (__atomic_exchange_n(&blas->busy, 1, __ATOMIC_ACQUIRE))
        sched_yield();
    /* To set the stream resets the workspace. */
    if ((status = blas->set_stream(blas->handle, stream)) == 0
        && (status = blas->set_workspace(blas->handle, workspace, bytes)) == 0)
        status = blas->set_math(blas->handle, is_f32 ? BLAS_PEDANTIC : BLAS_WHOLE_SUMS);
    if (status == 0 && is_f32)
        status = batch == 1 ? blas->multiply_f32(blas->handle, tb, ta, m, n, k, alpha, b, ldb, a, lda, beta, operands->d, ldc)
                            : blas->multiply_f32_batch(blas->handle, tb, ta, m, n, k, alpha, b, ldb, own->strides[1], a, lda,
                                                       own->strides[0], beta, operands->d, ldc, own->strides[2], batch);
    else if (status == 0)
        status = batch == 1 ? blas->multiply(blas->handle, tb, ta, m, n, k, alpha, b, row->ab, ldb, a, row->ab, lda, beta,
                                             operands->d, row->d, ldc, row->compute, BLAS_OWN_CHOICE)
                            : blas->multiply_batch(blas->handle, tb, ta, m, n, k, alpha, b, row->ab, ldb, own->strides[1],
                                                   a, row->ab, lda, own->strides[0], beta, operands->d, row->d, ldc,
                                                   own->strides[2], batch, row->compute, BLAS_OWN_CHOICE);
    __atomic_store_n(&blas->busy, 0, __ATOMIC_RELEASE);
    return status == 0 ? GEMM_TUNED_SUCCESS : LIBRARY_REFUSED;
}

static void close_libraries(gemm_tuned *tuned)
{
    if (tuned->library != NULL && tuned->library != &missing_library)
        close_lt(tuned->library);
    if (tuned->blas != NULL && tuned->blas != &missing_blas)
        close_blas(tuned->blas);
    tuned->library = tuned->blas = NULL;
}

