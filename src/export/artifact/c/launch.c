/* Launches ---------------------------------------------------------------------------------------------- */

/* Whether a factor in host memory, which has the type of sums, is a number. */
static int is_factor(const product *own, const void *factor, int number)
{
    return own->dtype_d == GEMM_TUNED_I32 ? *(const int *)factor == number
                                          : *(const float *)factor == (float)number;
}

/* Whether the factor of C is 0. */
static int is_beta_zero(const product *own, const gemm_tuned_operands *operands)
{
    return operands->beta == NULL || is_factor(own, operands->beta, 0);
}

/* Whether A and B are read: as in BLAS, they are not where K or alpha is 0, so that what they hold does not matter. */
static int reads_a_and_b(const product *own, const gemm_tuned_operands *operands)
{
    return own->p[2] != 0 && (operands->alpha == NULL || !is_factor(own, operands->alpha, 0));
}

/* Queues the copy of C to D, where C has a buffer of its own and is read. Matrices that lie one after the other are
 * copied as one. */
static int copy_c(const gemm_tuned *tuned, const product *own, const gemm_tuned_operands *operands, void *stream)
{
    const size_t element = (size_t)own->elements[2], height = (size_t)own->p[0];
    const long long batch = own->p[3];
    const int is_one = batch == 1
                       || (own->stride_c == own->ldc * own->p[0] && own->strides[2] == own->p[6] * own->p[0]);
    rows_to_copy rows;
    long long i;
    int status = 0;
    if (operands->c == NULL || operands->c == operands->d || is_beta_zero(own, operands))
        return GEMM_TUNED_SUCCESS;
    memset(&rows, 0, sizeof rows);
    rows.from_type = rows.to_type = DEVICE_MEMORY;
    rows.from_pitch = (size_t)own->ldc * element;
    rows.to_pitch = (size_t)own->p[6] * element;
    rows.width = (size_t)own->p[1] * element;
    rows.height = is_one ? height * (size_t)batch : height;
    for (i = 0; i < (is_one ? 1 : batch) && status == 0; i++) {
        rows.from = (uintptr_t)operands->c + (size_t)(i * own->stride_c) * element;
        rows.to = (uintptr_t)operands->d + (size_t)(i * own->strides[2]) * element;
        status = tuned->cuda.copy_rows(&rows, stream);
    }
    return status;
}

/* Queues a launch with its sizes. One that may begin before the launch before it ends waits for it itself; with an old
 * driver it begins later. */
static int launch_kernel(const driver *cuda, void *function, const launch *own, const long long *s, void *stream,
                         void **parameters)
{
    launch_configuration with;
    launch_attribute attribute;
    if (!own->programmatic || cuda->launch_with == NULL)
        return cuda->launch_kernel(function, (unsigned)s[0], (unsigned)s[1], (unsigned)s[2], (unsigned)s[3],
                                   (unsigned)s[4], (unsigned)s[5], (unsigned)s[6], stream, parameters, NULL);
    memset(&attribute, 0, sizeof attribute);
    attribute.id = PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.allowed = 1;
    memset(&with, 0, sizeof with);
    with.grid_x = (unsigned)s[0], with.grid_y = (unsigned)s[1], with.grid_z = (unsigned)s[2];
    with.block_x = (unsigned)s[3], with.block_y = (unsigned)s[4], with.block_z = (unsigned)s[5];
    with.shared_bytes = (unsigned)s[6];
    with.stream = stream;
    with.attributes = &attribute;
    with.count = 1;
    return cuda->launch_with(&with, function, parameters, NULL);
}

/* Queues the launches of a plan in the current context. */
static int launch_plan(gemm_tuned *tuned, const plan *made, const product *own, gemm_tuned_operands *operands,
                       void *workspace, void *stream)
{
    static const float one = 1, zero = 0;
    static const int whole_one = 1, whole_zero = 0;
    const kernel *chosen = made->chosen.own;
    const int is_whole = own->dtype_d == GEMM_TUNED_I32;
    void *places[MAX_WORKSPACES], *values[MAX_ARGUMENTS];
    encoded_map space[MAX_MAPS], *encoded;
    long long strides[3];
    int extents[7], i, j, status;
    uintptr_t at;
    if (operands->alpha == NULL)
        operands->alpha = is_whole ? (const void *)&whole_one : (const void *)&one;
    if (operands->beta == NULL)
        operands->beta = is_whole ? (const void *)&whole_zero : (const void *)&zero;
@L@    if (chosen->launches == 0)
@L@        return launch_library(tuned, &made->chosen, own, operands, workspace, stream);
    values[0] = &operands->a;
    values[1] = &operands->b;
    values[2] = &operands->d;
    for (i = 0; i < 7; i++) {
        extents[i] = (int)own->p[i];
        values[3 + i] = &extents[i];
    }
    for (i = 0; i < 3; i++) {
        strides[i] = own->strides[i];
        values[10 + i] = &strides[i];
    }
    values[13] = (void *)(uintptr_t)operands->alpha;
    values[14] = (void *)(uintptr_t)operands->beta;
    for (i = 0; i < EPILOGUE_OPERANDS; i++)
        values[STANDARD_ARGUMENTS + i] = epilogue_operand(operands, i);
    at = (uintptr_t)workspace;
    for (i = 0; i < chosen->workspaces; i++) {
        places[i] = (void *)at;
        values[STANDARD_ARGUMENTS + EPILOGUE_OPERANDS + i] = &places[i];
        at += (uintptr_t)(ceil_div(made->chosen.sizes[SIZES * chosen->launches + i], WORKSPACE_ALIGNMENT)
                          * WORKSPACE_ALIGNMENT);
    }
    status = find_maps(tuned, chosen, own, operands, places, space, &encoded);
    for (i = 0; i < chosen->maps; i++)
        values[STANDARD_ARGUMENTS + EPILOGUE_OPERANDS + MAX_WORKSPACES + i] = &encoded[i];
    for (i = 0; i < chosen->launches && status == 0; i++) {
        const launch *next = &launches[chosen->first_launch + i];
        const long long *s = made->chosen.sizes + SIZES * i;
        void *parameters[MAX_ARGUMENTS];
        for (j = 0; j < next->count; j++)
            parameters[j] = values[next->arguments[j]];
        status = launch_kernel(&tuned->cuda, made->functions[i], next, s, stream, parameters);
    }
    return status;
}

