/* Launches ---------------------------------------------------------------------------------------------- */

/* Queues the launches of a plan in the current context. */
static int launch_plan(const gemm_tuned *tuned, const plan *made, const product *own,
                       const gemm_tuned_operands *operands, void *workspace, void *stream)
{
    static const float one = 1, zero = 0;
    static const int whole_one = 1, whole_zero = 0;
    const kernel *chosen = made->chosen.own;
    const void *a = operands->a, *b = operands->b, *alpha, *beta;
    void *d = operands->d, *places[MAX_WORKSPACES], *values[STANDARD_ARGUMENTS + MAX_WORKSPACES];
    long long strides[3];
    int extents[7], i, j, status = 0;
    uintptr_t at;
    alpha = operands->alpha != NULL ? operands->alpha
            : own->dtype == GEMM_TUNED_I32 ? (const void *)&whole_one : (const void *)&one;
    beta = operands->beta != NULL ? operands->beta
           : own->dtype == GEMM_TUNED_I32 ? (const void *)&whole_zero : (const void *)&zero;
    values[0] = &a;
    values[1] = &b;
    values[2] = &d;
    for (i = 0; i < 7; i++) {
        extents[i] = (int)own->p[i];
        values[3 + i] = &extents[i];
    }
    for (i = 0; i < 3; i++) {
        strides[i] = own->strides[i];
        values[10 + i] = &strides[i];
    }
    values[13] = (void *)(uintptr_t)alpha;
    values[14] = (void *)(uintptr_t)beta;
    at = (uintptr_t)workspace;
    for (i = 0; i < chosen->workspaces; i++) {
        places[i] = (void *)at;
        values[STANDARD_ARGUMENTS + i] = &places[i];
        at += (uintptr_t)(ceil_div(made->chosen.sizes[SIZES * chosen->launches + i], WORKSPACE_ALIGNMENT)
                          * WORKSPACE_ALIGNMENT);
    }
    for (i = 0; i < chosen->launches && status == 0; i++) {
        const launch *next = &launches[chosen->first_launch + i];
        const long long *s = made->chosen.sizes + SIZES * i;
        void *parameters[STANDARD_ARGUMENTS + MAX_WORKSPACES];
        for (j = 0; j < next->count; j++)
            parameters[j] = values[next->arguments[j]];
        status = tuned->cuda.launch_kernel(made->functions[i], (unsigned)s[0], (unsigned)s[1],
                                           (unsigned)s[2], (unsigned)s[3], (unsigned)s[4], (unsigned)s[5],
                                           (unsigned)s[6], stream, parameters, NULL);
    }
    return status;
}

