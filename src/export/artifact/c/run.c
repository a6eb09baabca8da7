/* Running a product ------------------------------------------------------------------------------------- */

/* Queues a product with elements, whose A and B are read, in the current context. */
@N@static int run_product(gemm_tuned *tuned, const product *own, gemm_tuned_operands *operands, borrowed *memory,
@N@                       void *stream)
@L@static int run_product_with(gemm_tuned *tuned, const product *own, gemm_tuned_operands *operands, borrowed *memory,
@L@                            void *stream, int has_library)
{
    question key;
    plan space;
    const plan *found;
    int status = GEMM_TUNED_SUCCESS, freed;
    ask(own, alignment_of(operands), memory->room, &key);
@L@    if (has_library)
@L@        permit_library_for(tuned, own, operands, &key);
    found = find_plan(tuned, &key);
    if (found == NULL) {
        int later = tuned->measuring.mode == GEMM_TUNED_MEASURE
                    && measure(tuned, own, &key, operands, stream) == GEMM_TUNED_NOT_NOW;
        status = make_plan(tuned, own, &key, !later, &space, &found);
    }
    if (status == 0)
        status = take(tuned, memory, workspace_bytes(found->chosen.own, found->chosen.sizes), stream);
    if (status != 0)
        return status;
@N@    status = copy_c(tuned, own, operands, stream);
@L@    /* cuBLASLt reads C where it lies. */
@L@    if (found->chosen.own->launches > 0 || found->chosen.is_of_cublas)
@L@        status = copy_c(tuned, own, operands, stream);
    if (status == 0)
        status = launch_plan(tuned, found, own, operands, memory->at, stream);
    freed = give_back(tuned, memory, stream);
    return status != 0 ? status : freed;
}

@L@/* The same; a kernel computes what the library refuses. */
@L@static int run_product(gemm_tuned *tuned, const product *own, gemm_tuned_operands *operands, borrowed *memory,
@L@                       void *stream)
@L@{
@L@    borrowed again = *memory;
@L@    int status = run_product_with(tuned, own, operands, memory, stream, 1);
@L@    if (status != LIBRARY_REFUSED)
@L@        return status;
@L@    *memory = again;
@L@    return run_product_with(tuned, own, operands, memory, stream, 0);
@L@}
@L@
/* Queues a product with elements in the current context. */
static int run_with(gemm_tuned *tuned, const product *own, gemm_tuned_operands *operands, borrowed *memory, void *stream)
{
    return reads_a_and_b(own, operands) ? run_product(tuned, own, operands, memory, stream)
                                        : run_empty(tuned, own, operands, memory, stream);
}

int gemm_tuned_run(gemm_tuned *tuned, const gemm_tuned_problem *problem, const gemm_tuned_operands *operands,
                   void *workspace, size_t room, void *stream)
{
    gemm_tuned_operands whole;
    product own;
    borrowed memory;
    int status, pushed;
    if (read_product(tuned, problem, operands, &own, &whole) != 0)
        return GEMM_TUNED_BAD_ARGUMENT;
    if (is_nothing(&own))
        return GEMM_TUNED_SUCCESS;
    memory = borrow(tuned, workspace, room, stream);
    status = enter(tuned, &pushed);
    if (status == 0)
        status = run_with(tuned, &own, &whole, &memory, stream);
    if (status == GEMM_TUNED_NO_KERNEL && own.p[2] != 0 && !reads_a_and_b(&own, &whole)) {
        /* What gemm_tuned_choose said, and the caller lent, is for another alpha. */
        memory = borrow(tuned, NULL, 0, stream);
        status = run_with(tuned, &own, &whole, &memory, stream);
    }
    if (status == OUT_OF_DEVICE_MEMORY && memory.is_pooled && memory.at == NULL) {
        /* A kernel without a workspace serves most problems. */
        memory.is_pooled = 0;
        memory.room = 0;
        status = run_with(tuned, &own, &whole, &memory, stream);
        status = status == GEMM_TUNED_NO_KERNEL ? OUT_OF_DEVICE_MEMORY : status;
    }
    leave(tuned, pushed);
    return status;
}

