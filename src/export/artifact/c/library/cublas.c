/* cuBLAS ------------------------------------------------------------------------------------------------ */

/* Its functions, with the types of cublas_api.h written out. */
typedef struct {
    library_handle library;
    /* Whether a thread calls it: the stream and the workspace are of the handle. */
    int busy;
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
} cublas_library;

/* cublasMath_t: neither tf32 nor emulation in f32; sums of parts of K are not rounded to 16 bits. */
#define CUBLAS_PEDANTIC 2
#define CUBLAS_WHOLE_SUMS 16
/* CUBLAS_GEMM_DEFAULT. */
#define CUBLAS_OWN_CHOICE (-1)
/* CUDA_R_32F, CUBLAS_COMPUTE_32F. */
#define CUBLAS_F32 0
#define CUBLAS_COMPUTE_F32 68
/* Extents and rows have 32 bits. */
#define CUBLAS_MOST 0x7fffffff

/* Sets the functions; 0 where one is missing. */
static int find_cublas_functions(void *file, void *own)
{
    cublas_library *cublas = (cublas_library *)own;
    return find(file, "cublasCreate_v2", &cublas->library.create) && find(file, "cublasDestroy_v2", &cublas->library.destroy)
           && find(file, "cublasSetStream_v2", &cublas->set_stream)
           && find(file, "cublasSetWorkspace_v2", &cublas->set_workspace)
           && find(file, "cublasSetMathMode", &cublas->set_math) && find(file, "cublasSgemm_v2", &cublas->multiply_f32)
           && find(file, "cublasSgemmStridedBatched", &cublas->multiply_f32_batch)
           && find(file, "cublasGemmEx", &cublas->multiply)
           && find(file, "cublasGemmStridedBatchedEx", &cublas->multiply_batch);
}

static library_handle missing_cublas;
static const library_kind cublas_kind = { { "libcublas.so.13", "libcublas.so.12" },
                                          sizeof(cublas_library),
                                          find_cublas_functions,
                                          &missing_cublas };

static cublas_library *cublas_of(gemm_tuned *tuned)
{
    return (cublas_library *)opened(&tuned->cublas, &cublas_kind);
}

/* Whether cuBLAS can be called with the extents and rows of a product. */
static int fits_cublas(const product *own)
{
    int i;
    for (i = 0; i < 7; i++)
        if (own->p[i] > CUBLAS_MOST)
            return 0;
    return 1;
}

/* Queues a product in the current context, with the algorithm that cuBLAS chooses. Rows of matrices are its columns, so
 * that it multiplies B by A. */
static int launch_cublas(gemm_tuned *tuned, const library_row *row, const product *own,
                         const gemm_tuned_operands *operands, void *workspace, size_t bytes, void *stream)
{
    const int m = (int)own->p[1], n = (int)own->p[0], k = (int)own->p[2], batch = (int)own->p[3];
    const int lda = (int)own->p[4], ldb = (int)own->p[5], ldd = (int)own->p[6];
    const int is_f32 = row->ab == CUBLAS_F32 && row->compute == CUBLAS_COMPUTE_F32;
    const void *const alpha = operands->alpha, *const beta = operands->beta, *const a = operands->a, *const b = operands->b;
    void *const d = operands->d;
    cublas_library *cublas = cublas_of(tuned);
    int status, ta = own->transpose_a, tb = own->transpose_b;
    void *handle;
    if (cublas == NULL)
        return LIBRARY_REFUSED;
    handle = cublas->library.handle;
    while (__atomic_exchange_n(&cublas->busy, 1, __ATOMIC_ACQUIRE))
        sched_yield();
    /* To set the stream resets the workspace. */
    if ((status = cublas->set_stream(handle, stream)) == 0
        && (status = cublas->set_workspace(handle, workspace, bytes)) == 0)
        status = cublas->set_math(handle, is_f32 ? CUBLAS_PEDANTIC : CUBLAS_WHOLE_SUMS);
    if (status == 0 && is_f32)
        status = batch == 1 ? cublas->multiply_f32(handle, tb, ta, m, n, k, alpha, b, ldb, a, lda, beta, d, ldd)
                            : cublas->multiply_f32_batch(handle, tb, ta, m, n, k, alpha, b, ldb, own->strides[1], a, lda,
                                                         own->strides[0], beta, d, ldd, own->strides[2], batch);
    else if (status == 0)
        status = batch == 1 ? cublas->multiply(handle, tb, ta, m, n, k, alpha, b, row->ab, ldb, a, row->ab, lda, beta, d,
                                               row->d, ldd, row->compute, CUBLAS_OWN_CHOICE)
                            : cublas->multiply_batch(handle, tb, ta, m, n, k, alpha, b, row->ab, ldb, own->strides[1], a,
                                                     row->ab, lda, own->strides[0], beta, d, row->d, ldd, own->strides[2],
                                                     batch, row->compute, CUBLAS_OWN_CHOICE);
    __atomic_store_n(&cublas->busy, 0, __ATOMIC_RELEASE);
    return status == 0 ? GEMM_TUNED_SUCCESS : LIBRARY_REFUSED;
}

