/* Calls of the library --------------------------------------------------------------------------------------- */

/* cublasLtMatmulDescAttributes_t, cublasLtMatrixLayoutAttribute_t, cublasLtMatmulPreferenceAttributes_t,
 * cublasLtReductionScheme_t. */
#define LT_TRANSPOSE_A 3
#define LT_TRANSPOSE_B 4
#define LT_EPILOGUE 7
#define LT_BIAS 8
#define LT_BIAS_STRIDE 10
#define LT_BATCH 5
#define LT_BATCH_STRIDE 6
#define LT_MOST_WORKSPACE 1
#define LT_REDUCTIONS 3
#define LT_ALIGNMENT_OF_A 5
#define LT_REDUCE_IN_COMPUTE_TYPE 2
/* Bits of the epilogue. */
#define LT_EPILOGUE_BIAS 4
/* Bytes that all addresses are multiples of where the library is called. */
#define LIBRARY_ALIGNMENT 16

/* The descriptors of a call. Rows of matrices are columns of the library's, which therefore multiplies B by A. */
typedef struct {
    void *product, *b, *a, *c, *d;
} lt_call;

/* Whether the factor of C is 0. */
static int is_beta_zero(const product *own, const gemm_tuned_operands *operands);

static void free_call(const lt_library *lt, lt_call *call)
{
    void *const layouts[4] = { call->b, call->a, call->c, call->d };
    int i;
    for (i = 0; i < 4; i++)
        if (layouts[i] != NULL)
            lt->free_layout(layouts[i]);
    if (call->product != NULL)
        lt->free_product(call->product);
}

/* Makes the layout of a matrix that is stored in `rows` rows of `columns` elements. */
static int make_layout(const lt_library *lt, void **layout, int type, const long long rows_columns_row[3], long long batch,
                       long long stride)
{
    const int count = (int)batch;
    int status = lt->make_layout(layout, type, (unsigned long long)rows_columns_row[1],
                                 (unsigned long long)rows_columns_row[0], rows_columns_row[2]);
    if (status != 0)
        *layout = NULL;
    if (status == 0 && batch > 1 && (status = lt->set_layout(*layout, LT_BATCH, &count, sizeof count)) == 0)
        status = lt->set_layout(*layout, LT_BATCH_STRIDE, &stride, sizeof stride);
    return status;
}

/* Makes the descriptors of a product. C lies in D where `c_apart` is 0. */
static int make_call(const lt_library *lt, const library_row *row, int compute, const product *own, int c_apart,
                     const void *bias, lt_call *call)
{
    const int transpose_first = own->transpose_b, transpose_second = own->transpose_a, epilogue = row->epilogue;
    const long long bias_stride = own->p[1];
    long long table[3][3], c[3];
    int status;
    memset(call, 0, sizeof *call);
    stored(own, table);
    memcpy(c, table[2], sizeof c);
    if (c_apart)
        c[2] = own->ldc;
    if ((status = lt->make_product(&call->product, compute, row->scale)) != 0)
        call->product = NULL;
    if (status != 0
        || (status = lt->set_product(call->product, LT_TRANSPOSE_A, &transpose_first, sizeof transpose_first)) != 0
        || (status = lt->set_product(call->product, LT_TRANSPOSE_B, &transpose_second, sizeof transpose_second)) != 0
        || (status = lt->set_product(call->product, LT_EPILOGUE, &epilogue, sizeof epilogue)) != 0
        || ((epilogue & LT_EPILOGUE_BIAS) != 0
            && ((status = lt->set_product(call->product, LT_BIAS, &bias, sizeof bias)) != 0
                || (own->p[3] > 1
                    && (status = lt->set_product(call->product, LT_BIAS_STRIDE, &bias_stride, sizeof bias_stride))
                           != 0)))
        || (status = make_layout(lt, &call->b, row->ab, table[1], own->p[3], own->strides[1])) != 0
        || (status = make_layout(lt, &call->a, row->ab, table[0], own->p[3], own->strides[0])) != 0
        || (status = make_layout(lt, &call->c, row->d, c, own->p[3], c_apart ? own->stride_c : own->strides[2])) != 0
        || (status = make_layout(lt, &call->d, row->d, table[2], own->p[3], own->strides[2])) != 0)
        free_call(lt, call);
    return status;
}

/* Makes the algorithm of a row; 0 where the library does not know it or it does not compute the product in the
 * workspace. */
static int make_known_algorithm(const lt_library *lt, const library_row *row, const lt_call *call, lt_result *result,
                                unsigned long long room)
{
    lt_algorithm algorithm;
    int i;
    if (lt->make_algorithm(lt->library.handle, row->algorithm_compute, row->scale, row->ab, row->ab, row->d, row->d,
                           (int)row->attributes[0], &algorithm)
        != 0)
        return 0;
    for (i = 1; i < LIBRARY_ATTRIBUTES; i++) {
        const unsigned value = (unsigned)row->attributes[i];
        const unsigned short half = (unsigned short)value;
        if (row->attributes[i] >= 0
            && lt->set_algorithm(&algorithm, lt_attributes[i][0], lt_attributes[i][1] == 2 ? (const void *)&half : &value,
                                 (size_t)lt_attributes[i][1])
                   != 0)
            return 0;
    }
    memset(result, 0, sizeof *result);
    if (lt->check(lt->library.handle, call->product, call->b, call->a, call->c, call->d, &algorithm, result) != 0
        || result->state != 0 || result->workspace > room)
        return 0;
    result->algorithm = algorithm;
    return 1;
}

/* The algorithm that the library proposes first; 0 for none. */
static int propose_algorithm(const lt_library *lt, const library_row *row, const lt_call *call, lt_result *result,
                             unsigned long long room)
{
    const unsigned alignment = LIBRARY_ALIGNMENT, reductions = LT_REDUCE_IN_COMPUTE_TYPE;
    void *preference = NULL;
    int i, found = 0, status = lt->make_preference(&preference);
    if (status != 0)
        return 0;
    status = lt->set_preference(preference, LT_MOST_WORKSPACE, &room, sizeof room);
    if (status == 0 && !row->reduces_in_d)
        status = lt->set_preference(preference, LT_REDUCTIONS, &reductions, sizeof reductions);
    for (i = 0; i < 4 && status == 0; i++)
        status = lt->set_preference(preference, LT_ALIGNMENT_OF_A + i, &alignment, sizeof alignment);
    memset(result, 0, sizeof *result);
    if (status == 0)
        status = lt->propose(lt->library.handle, call->product, call->b, call->a, call->c, call->d, preference, 1, result, &found);
    lt->free_preference(preference);
    return status == 0 && found == 1 && result->state == 0 && result->workspace <= room;
}

/* Names of algorithms, which live as long as the library. */
#define ALGORITHM_NAME_BYTES 96
typedef struct algorithm_name {
    struct algorithm_name *next;
    char text[ALGORITHM_NAME_BYTES];
} algorithm_name;

static void *algorithm_names;

/* The name of an algorithm by its numbers. */
static const char *name_algorithm(const lt_library *lt, const library_row *row, const lt_algorithm *algorithm)
{
    static const char *const labels[] = { "cublasLt#", " tile ", " stages ", " split-k " };
    char text[ALGORITHM_NAME_BYTES];
    algorithm_name *own, *first = (algorithm_name *)__atomic_load_n(&algorithm_names, __ATOMIC_ACQUIRE);
    void *known;
    size_t i, length = 0;
    text[0] = 0;
    for (i = 0; i < sizeof labels / sizeof labels[0]; i++) {
        unsigned value = 0;
        size_t written = 0;
        if (lt->get_algorithm(algorithm, lt_attributes[i][0], &value, sizeof value, &written) == 0 && value != ~0u)
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%u", labels[i], value);
    }
    for (own = first; own != NULL; own = own->next)
        if (strcmp(own->text, text) == 0)
            return own->text;
    own = length == 0 ? NULL : (algorithm_name *)malloc(sizeof *own);
    if (own == NULL)
        return row->label;
    memcpy(own->text, text, sizeof text);
    known = first;
    do
        own->next = (algorithm_name *)known;
    while (!__atomic_compare_exchange_n(&algorithm_names, &known, (void *)own, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return own->text;
}

/* Whether cuBLAS computes a product with its own choice: for that it has the workspace that it was timed with. */
static int prepare_cublas(gemm_tuned *tuned, const product *asked, unsigned long long room, choice *chosen)
{
    chosen->is_of_cublas = room >= MOST_LIBRARY_WORKSPACE && fits_cublas(asked) && cublas_of(tuned) != NULL;
    if (chosen->is_of_cublas) {
        chosen->algorithm_name = "cuBLAS";
        chosen->sizes[0] = (long long)MOST_LIBRARY_WORKSPACE;
    }
    return chosen->is_of_cublas;
}

/* Finds the algorithm of a row of the library in the current context, and what workspace of at most `room` bytes it needs;
 * 0 for none. The library's own choice is that of cuBLAS, whose times are known, but for epilogues, which only cuBLASLt has.
 * Without a handle the row stands as it is. */
static int prepare_library(const gemm_tuned *tuned, const product *asked, unsigned long long room, choice *chosen)
{
    const library_row *row = &library_rows[chosen->own - kernels];
    const unsigned long long own_room = (unsigned long long)chosen->sizes[0];
    /* A question may be the first that needs a library, which is then opened. */
    gemm_tuned *opening = (gemm_tuned *)(uintptr_t)tuned;
    const lt_library *lt;
    int mode = CAPTURE_MODE_RELAXED, is_found = 0;
    lt_call call;
    lt_result result;
    chosen->algorithm_name = row->label;
    chosen->compute = row->compute;
    chosen->is_of_cublas = 0;
    if (tuned == NULL)
        return 1;
    /* A stream may be captured: none of this is part of it. */
    if (tuned->cuda.exchange_capture_mode(&mode) != 0)
        return 0;
    lt = lt_of(opening);
    if (lt != NULL && row->has_algorithm && make_call(lt, row, row->algorithm_compute, asked, 0, NULL, &call) == 0) {
        is_found = make_known_algorithm(lt, row, &call, &result, own_room);
        free_call(lt, &call);
        if (is_found)
            chosen->compute = row->algorithm_compute;
    }
    if (!is_found && row->has_own_choice && row->is_plain) {
        is_found = prepare_cublas(opening, asked, room, chosen);
    } else if (lt != NULL && !is_found && row->has_own_choice
               && make_call(lt, row, row->compute, asked, 0, NULL, &call) == 0) {
        is_found = propose_algorithm(lt, row, &call, &result, own_room);
        free_call(lt, &call);
    }
    if (is_found && !chosen->is_of_cublas) {
        chosen->algorithm = result.algorithm;
        chosen->algorithm_name = name_algorithm(lt, row, &result.algorithm);
        chosen->sizes[0] = ceil_div((long long)result.workspace, WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT;
    }
    tuned->cuda.exchange_capture_mode(&mode);
    return is_found;
}

/* Queues a product of the library in the current context. */
static int launch_library(gemm_tuned *tuned, const choice *chosen, const product *own,
                          const gemm_tuned_operands *operands, void *workspace, void *stream)
{
    const library_row *row = &library_rows[chosen->own - kernels];
    const lt_library *lt = chosen->is_of_cublas ? NULL : lt_of(tuned);
    const int c_apart = operands->c != NULL && operands->c != operands->d && !is_beta_zero(own, operands);
    const void *c = c_apart ? operands->c : operands->d;
    int mode = CAPTURE_MODE_RELAXED, status;
    lt_call call;
    if (chosen->is_of_cublas) {
        if (tuned->cuda.exchange_capture_mode(&mode) != 0)
            return LIBRARY_REFUSED;
        status = launch_cublas(tuned, row, own, operands, workspace, (size_t)chosen->sizes[0], stream);
        tuned->cuda.exchange_capture_mode(&mode);
        return status;
    }
    if (lt == NULL || make_call(lt, row, chosen->compute, own, c_apart, operands->bias, &call) != 0)
        return LIBRARY_REFUSED;
    /* The first call of an algorithm loads its code, which is no part of a capture. */
    if ((status = tuned->cuda.exchange_capture_mode(&mode)) == 0) {
        status = lt->multiply(lt->library.handle, call.product, operands->alpha, operands->b, call.b, operands->a, call.a,
                              operands->beta, c, call.c, operands->d, call.d, &chosen->algorithm, workspace,
                              (size_t)chosen->sizes[0], stream);
        tuned->cuda.exchange_capture_mode(&mode);
    }
    free_call(lt, &call);
    return status == 0 ? GEMM_TUNED_SUCCESS : LIBRARY_REFUSED;
}

/* Lets a question be answered by the library, where the addresses and the strides of a batch allow that. */
static void permit_library(const gemm_tuned *tuned, const product *own, uintptr_t addresses, question *key)
{
    int i;
    if (tuned == NULL ? is_library_off() : tuned->is_library_off)
        return;
    for (i = 0; i < 3; i++)
        if (own->p[3] > 1)
            addresses |= (uintptr_t)(own->strides[i] * own->elements[i]);
    if (own->p[3] > 1)
        addresses |= (uintptr_t)(own->stride_c * own->elements[2]);
    if (addresses % LIBRARY_ALIGNMENT == 0)
        key->words[PROBLEM_WORDS] |= LIBRARY_PERMITTED;
}

/* The same for operands. */
static void permit_library_for(const gemm_tuned *tuned, const product *own, const gemm_tuned_operands *operands,
                               question *key)
{
    permit_library(tuned, own,
                   (uintptr_t)operands->a | (uintptr_t)operands->b | (uintptr_t)operands->d | (uintptr_t)operands->c
                       | (uintptr_t)operands->bias,
                   key);
}

