/* In the place of an exported library: multiplies f32 on the host, with bias and residual, and refuses a workspace that is
 * not aligned. host.py runs the handler of gemm_tuned_jax.py with it. */
#include <stdint.h>
#include <string.h>

#include "gemm_tuned.h"

static char handle;

int gemm_tuned_create(gemm_tuned **tuned, int device)
{
    *tuned = (gemm_tuned *)(void *)&handle;
    return device == 0 ? GEMM_TUNED_SUCCESS : GEMM_TUNED_NO_DRIVER;
}

int gemm_tuned_set_allocation(gemm_tuned *tuned, int mode)
{
    return tuned == NULL || mode != GEMM_TUNED_NO_ALLOCATION ? GEMM_TUNED_BAD_ARGUMENT : GEMM_TUNED_SUCCESS;
}

const char *gemm_tuned_status_string(int status) { return status == GEMM_TUNED_BAD_ARGUMENT ? "bad argument" : "status"; }

int gemm_tuned_run(gemm_tuned *tuned, const gemm_tuned_problem *p, const gemm_tuned_operands *o, void *workspace, size_t room,
                   void *stream)
{
    const float *a = (const float *)o->a, *b = (const float *)o->b, *c = (const float *)o->c;
    const float *bias = (const float *)o->bias, *residual = (const float *)o->residual;
    const float alpha = *(const float *)o->alpha, beta = *(const float *)o->beta;
    const long long stride_d = p->m * p->n;
    long long s, i, j, k;
    if (tuned == NULL || stream != NULL || p->dtype != GEMM_TUNED_F32 || (uintptr_t)workspace % 256 != 0
        || (strstr(p->epilogue, "bias") != NULL) != (bias != NULL)
        || (strstr(p->epilogue, "residual") != NULL) != (residual != NULL) || (beta != 0) != (c != NULL))
        return GEMM_TUNED_BAD_ARGUMENT;
    memset(workspace, 1, room);
    for (s = 0; s < p->batch; s++)
        for (i = 0; i < p->m; i++)
            for (j = 0; j < p->n; j++) {
                const long long at = s * stride_d + i * p->n + j;
                float sum = 0;
                for (k = 0; k < p->k; k++)
                    sum += a[s * p->stride_a + (p->transpose_a ? k * p->m + i : i * p->k + k)]
                           * b[s * p->stride_b + (p->transpose_b ? j * p->k + k : k * p->n + j)];
                sum = alpha * sum + (c != NULL ? beta * c[at] : 0);
                sum += bias != NULL ? bias[s * p->n + j] : 0;
                ((float *)o->d)[at] = sum + (residual != NULL ? residual[at] : 0);
            }
    return GEMM_TUNED_SUCCESS;
}
