/* Column-major products ----------------------------------------------------------------------------------- */

int gemm_tuned_sgemm_strided_batched(gemm_tuned *tuned, int transa, int transb, int m, int n, int k,
                                     const float *alpha, const float *A, int lda, long long stride_a, const float *B,
                                     int ldb, long long stride_b, const float *beta, float *C, int ldc,
                                     long long stride_c, int batch_count, void *stream)
{
    const gemm_tuned_problem problem = gemm_tuned_column_major(transa, transb, m, n, k, lda, stride_a, ldb, stride_b, ldc,
                                                               stride_c, batch_count);
    gemm_tuned_operands operands = gemm_tuned_no_operands();
    if (alpha == NULL || beta == NULL || transa < 0 || transa > 2 || transb < 0 || transb > 2 || lda < 1 || ldb < 1
        || ldc < 1)
        return GEMM_TUNED_BAD_ARGUMENT;
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

