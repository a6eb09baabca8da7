/* Products with a K or an alpha of 0 ------------------------------------------------------------------------ */

/* D is an epilogue of beta C. Rows are filled or copied where that is all. Else a kernel multiplies zeros, which lie in
 * the workspace, with one of these K: the first that a kernel serves. */
static const int stand_in_extents[] = { 64, 16, 1 };
#define STAND_INS ((int)(sizeof stand_in_extents / sizeof stand_in_extents[0]))

/* Sets the product of zeros that stands for another one, packed. Returns the bytes of zeros, for A and B alike. */
static unsigned long long stand_in(const product *own, int k, product *to)
{
    long long table[3][3], bytes = 0;
    int i;
    *to = *own;
    to->p[2] = k;
    stored(to, table);
    for (i = 0; i < 2; i++) {
        long long matrix = table[i][0] * table[i][1];
        to->p[4 + i] = table[i][1];
        to->strides[i] = own->p[3] == 1 ? 0 : matrix;
        bytes = most(bytes, times(times(matrix, own->elements[i]), own->p[3]));
    }
    return (unsigned long long)ceil_div(least(bytes, SATURATED - WORKSPACE_ALIGNMENT), WORKSPACE_ALIGNMENT)
           * WORKSPACE_ALIGNMENT;
}

/* Chooses the kernel for a product of zeros, and says the bytes of these. */
static int choose_stand_in(const gemm_tuned *tuned, const product *own, int alignment, unsigned long long room,
                           choice *chosen, product *to, question *key, unsigned long long *zeros)
{
    int i, status = GEMM_TUNED_NO_KERNEL;
    for (i = 0; i < STAND_INS && status == GEMM_TUNED_NO_KERNEL; i++) {
        *zeros = stand_in(own, stand_in_extents[i], to);
        if (*zeros > room)
            continue;
        ask(to, alignment, room - *zeros, key);
        status = choose(tuned, to, key, chosen);
    }
    return status;
}

/* Whether the factor of C is 1. */
static int is_beta_one(const product *own, const gemm_tuned_operands *operands)
{
    return operands->beta != NULL && is_factor(own, operands->beta, 1);
}

/* Queues zeros for the rows of D. */
static int fill_d(const gemm_tuned *tuned, const product *own, const gemm_tuned_operands *operands, void *stream)
{
    const size_t element = (size_t)own->elements[2];
    const long long batch = own->p[3];
    const int is_one = batch == 1 || own->strides[2] == own->p[6] * own->p[0];
    long long i;
    int status = 0;
    for (i = 0; i < (is_one ? 1 : batch) && status == 0; i++)
        status = tuned->cuda.fill_rows((uintptr_t)operands->d + (size_t)(i * own->strides[2]) * element,
                                       (size_t)own->p[6] * element, 0, (size_t)own->p[1] * element,
                                       (size_t)(own->p[0] * (is_one ? batch : 1)), stream);
    return status;
}

/* Queues a product whose A and B are not read in the current context. */
static int run_empty(gemm_tuned *tuned, const product *own, const gemm_tuned_operands *given, borrowed *memory,
                     void *stream)
{
    gemm_tuned_operands operands = *given;
    plan space;
    product zero_product;
    unsigned long long zeros = 0;
    int status, freed, alignment = (int)lowest_bit((uintptr_t)operands.d | WORKSPACE_ALIGNMENT);
    if (own->epilogue == 0 && is_beta_zero(own, &operands))
        return fill_d(tuned, own, &operands, stream);
    if (own->epilogue == 0 && is_beta_one(own, &operands))
        return copy_c(tuned, own, &operands, stream);
    status = choose_stand_in(tuned, own, alignment, memory->room, &space.chosen, &zero_product, &space.asked, &zeros);
    if (status == 0)
        status = load_functions(tuned, &space);
    if (status == 0)
        status = take(tuned, memory, zeros + workspace_bytes(space.chosen.own, space.chosen.sizes), stream);
    if (status != 0)
        return status;
    operands.a = operands.b = memory->at;
    operands.alpha = NULL;
    status = tuned->cuda.fill((uintptr_t)memory->at, 0, (size_t)zeros, stream);
    if (status == 0)
        status = copy_c(tuned, own, &operands, stream);
    if (status == 0)
        status = launch_plan(tuned, &space, &zero_product, &operands,
                             (void *)((uintptr_t)memory->at + (uintptr_t)zeros), stream);
    freed = give_back(tuned, memory, stream);
    return status != 0 ? status : freed;
}

