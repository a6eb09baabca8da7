/* Column-major products ----------------------------------------------------------------------------------- */

/* A column-major C is the transpose of a row-major matrix, and that is op(B)^T op(A)^T: operands are swapped. */
int gemm_tuned_sgemm_strided_batched(gemm_tuned *tuned, int transa, int transb, int m, int n, int k,
                                     const float *alpha, const float *A, int lda, long long stride_a, const float *B,
                                     int ldb, long long stride_b, const float *beta, float *C, int ldc,
                                     long long stride_c, int batch_count, void *stream)
{
    gemm_tuned_problem problem = gemm_tuned_default_problem();
    gemm_tuned_operands operands = gemm_tuned_no_operands();
    if (alpha == NULL || beta == NULL || transa < 0 || transa > 2 || transb < 0 || transb > 2 || lda < 1 || ldb < 1
        || ldc < 1)
        return GEMM_TUNED_BAD_ARGUMENT;
    /* The conjugate of a real matrix is the matrix. */
    problem.transpose_a = transb != GEMM_TUNED_OP_N;
    problem.transpose_b = transa != GEMM_TUNED_OP_N;
    problem.m = n, problem.n = m, problem.k = k;
    problem.batch = batch_count;
    problem.lda = ldb, problem.ldb = lda, problem.ldd = ldc;
    problem.stride_a = stride_b, problem.stride_b = stride_a, problem.stride_d = stride_c;
    operands.a = B, operands.b = A, operands.d = C;
    operands.alpha = alpha, operands.beta = beta;
    return gemm_tuned_run(tuned, &problem, &operands, NULL, 0, stream);
}

int gemm_tuned_sgemm(gemm_tuned *tuned, int transa, int transb, int m, int n, int k, const float *alpha,
                     const float *A, int lda, const float *B, int ldb, const float *beta, float *C, int ldc,
                     void *stream)
{
    return gemm_tuned_sgemm_strided_batched(tuned, transa, transb, m, n, k, alpha, A, lda, 0, B, ldb, 0, beta, C, ldc,
                                            0, 1, stream);
}

