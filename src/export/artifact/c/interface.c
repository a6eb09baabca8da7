/* Interface -------------------------------------------------------------------------------------------- */

int gemm_tuned_version(void) { return GEMM_TUNED_VERSION; }

const char *gemm_tuned_status_string(int status)
{
    int (*error_string)(int status, const char **text);
    const char *text = NULL;
    void *library;
    switch (status) {
    case GEMM_TUNED_SUCCESS:
        return "success";
    case GEMM_TUNED_NO_KERNEL:
        return "no kernel of this library serves the problem with this workspace: ask gemm_tuned_choose for the "
               "workspace that it needs";
    case GEMM_TUNED_BAD_ARGUMENT:
        return "an argument is out of range: gemm_tuned_check says which field of a problem; addresses are not "
               "NULL and multiples of an element";
    case GEMM_TUNED_NO_DRIVER:
        return "there is no NVIDIA driver (libcuda.so.1) with the functions that are needed: install one";
    case GEMM_TUNED_NO_ARCHITECTURE:
        return "there is no machine code for this GPU, only for @ARCHITECTURES@: export again with --arch";
    case GEMM_TUNED_NO_MEMORY:
        return "the host has no memory left";
    case GEMM_TUNED_NOT_NOW:
        return "kernels cannot be measured while the stream is captured or another thread measures: try later";
    }
    library = status > 0 ? dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) : NULL;
    if (library != NULL && find(library, "cuGetErrorString", &error_string) && error_string(status, &text) == 0
        && text != NULL)
        return text;
    return "unknown status";
}

int gemm_tuned_check(const gemm_tuned_problem *problem, char *text, size_t bytes)
{
    product own;
    refusal why;
    int status = read_problem(problem, &own, &why);
    if (status == 0 && problem->alignment != 0
        && (problem->alignment < widest(&own) || (problem->alignment & (problem->alignment - 1)) != 0))
        status = refuse(&why, "%s is %lld: give a power of two of at least %lld, the size of an element",
                        "alignment", problem->alignment, widest(&own));
    if (text != NULL && bytes > 0) {
        text[0] = 0;
        if (status != 0)
            snprintf(text, bytes, why.format, why.name, why.value, why.limit);
    }
    return status;
}

int gemm_tuned_choose(const gemm_tuned *tuned, const gemm_tuned_problem *problem, size_t room,
                      gemm_tuned_choice *out)
{
    product own;
    refusal why;
    question key;
    choice chosen;
    product zero_product;
    unsigned long long zeros = 0;
@N@    int alignment, status = gemm_tuned_check(problem, NULL, 0);
@L@    int alignment, pushed = 0, status = gemm_tuned_check(problem, NULL, 0);
    if (status != 0 || out == NULL || out->size != sizeof *out)
        return GEMM_TUNED_BAD_ARGUMENT;
    read_problem(problem, &own, &why);
    out->name = "nothing";
    out->workspace_bytes = 0;
    out->expected_us = 0;
    out->tuned = 0;
    out->deterministic = 1;
    if (is_nothing(&own))
        return GEMM_TUNED_SUCCESS;
    alignment = problem->alignment == 0 ? WORKSPACE_ALIGNMENT : (int)least(problem->alignment, WORKSPACE_ALIGNMENT);
    if (own.p[2] == 0) {
        status = choose_stand_in(tuned, &own, alignment, room, &chosen, &zero_product, &key, &zeros);
    } else {
        ask(&own, alignment, room, &key);
@N@        status = choose(tuned, &own, &key, &chosen);
@L@        permit_library(tuned, &own, (uintptr_t)alignment, &key);
@L@        if (tuned != NULL && (status = enter(tuned, &pushed)) != 0)
@L@            return status;
@L@        status = choose(tuned, &own, &key, &chosen);
@L@        if (tuned != NULL)
@L@            leave(tuned, pushed);
    }
    if (status == 0) {
        out->name = chosen.own->name;
@L@        if (chosen.own->launches == 0)
@L@            out->name = chosen.algorithm_name;
        out->workspace_bytes = (size_t)(workspace_bytes(chosen.own, chosen.sizes) + zeros);
        out->expected_us = chosen.time;
        out->tuned = chosen.exact;
        out->deterministic = chosen.own->deterministic;
    }
    return status;
}

/* Reads the arguments of a product: GEMM_TUNED_BAD_ARGUMENT where one is out of range. Programs of version 1 have
 * shorter operands: `whole` has all of them. */
static int read_product(const gemm_tuned *tuned, const gemm_tuned_problem *problem,
                        const gemm_tuned_operands *operands, product *own, gemm_tuned_operands *whole)
{
    refusal why;
    long long epilogue;
    if (tuned == NULL || operands == NULL || read_problem(problem, own, &why) != 0
        || (operands->size != sizeof *operands && operands->size != offsetof(gemm_tuned_operands, c)))
        return GEMM_TUNED_BAD_ARGUMENT;
    *whole = gemm_tuned_no_operands();
    memcpy(whole, operands, operands->size);
    whole->size = sizeof *whole;
    if (is_nothing(own))
        return GEMM_TUNED_SUCCESS;
    if ((reads_a_and_b(own, whole) && (!is_address(whole->a, widest(own)) || !is_address(whole->b, widest(own))))
        || !is_address(whole->d, widest(own))
        || (whole->c != NULL && !is_address(whole->c, own->elements[2])))
        return GEMM_TUNED_BAD_ARGUMENT;
    /* C in the place of D lies as D does. */
    if (whole->c == whole->d
        && (own->ldc != own->p[6] || (own->p[3] > 1 && own->stride_c != own->strides[2])))
        return GEMM_TUNED_BAD_ARGUMENT;
    for (epilogue = own->epilogue; epilogue != 0; epilogue >>= OPERATION_BITS) {
        const operation *next = &operations[(epilogue & ((1 << OPERATION_BITS) - 1)) - 1];
        if (next->operand >= 0
            && !is_address(*epilogue_operand(whole, next->operand), next->of_f32 ? 4 : own->elements[2]))
            return GEMM_TUNED_BAD_ARGUMENT;
    }
    return GEMM_TUNED_SUCCESS;
}

/* What addresses of A, B and D are multiples of, in bytes. */
static int alignment_of(const gemm_tuned_operands *whole)
{
    return (int)lowest_bit((uintptr_t)whole->a | (uintptr_t)whole->b | (uintptr_t)whole->d | WORKSPACE_ALIGNMENT);
}

int gemm_tuned_measure(gemm_tuned *tuned, const gemm_tuned_problem *problem, const gemm_tuned_operands *operands,
                       void *stream)
{
    gemm_tuned_operands whole;
    product own;
    question key;
    int status, pushed;
    if (read_product(tuned, problem, operands, &own, &whole) != 0)
        return GEMM_TUNED_BAD_ARGUMENT;
    if (is_nothing(&own) || !reads_a_and_b(&own, &whole))
        return GEMM_TUNED_SUCCESS;
    ask(&own, alignment_of(&whole), 0, &key);
@L@    permit_library_for(tuned, &own, &whole, &key);
    status = enter(tuned, &pushed);
    if (status == 0)
        status = measure(tuned, &own, &key, &whole, stream);
    leave(tuned, pushed);
    return status;
}

