/* Problems --------------------------------------------------------------------------------------------- */

/* What is asked of a problem: types and layout as one number, operations of the epilogue as one number, type of D,
 * whether operands are transposed, M N K batch lda ldb ldd, strides and bytes of elements of A, B and D, and what C has
 * in a buffer of its own. */
typedef struct {
    long long types, epilogue;
    int dtype_d, transpose_a, transpose_b;
    long long p[7], strides[3], elements[3], ldc, stride_c;
} product;

/* Bits of a number of an operation, from 1, in the number of an epilogue; the first operation has the lowest. */
#define OPERATION_BITS 4

/* Names of operations, the operand of each as an index among those of epilogues, or -1, whether it is of F32, whether
 * it keeps integers, and whether it is a scale. */
typedef struct {
    const char *name;
    int operand, of_f32, of_integers, is_scale;
} operation;

static const operation operations[] = {
@OPERATION_TABLE@};
#define OPERATIONS ((int)(sizeof operations / sizeof operations[0]))

/* Types: bytes, whether integer, type of D and compute type that follow. */
static const struct {
    int bytes, is_integer, dtype_d, compute;
} dtypes[] = {
@DTYPE_TABLE@};
#define DTYPES ((int)(sizeof dtypes / sizeof dtypes[0]))

/* Compute types: the types of operands and those of D as bits, and whether sums are integers. */
static const struct {
    unsigned operands, outputs;
    int sums_integers;
} computes[] = {
@COMPUTE_TABLE@};
#define COMPUTES ((int)(sizeof computes / sizeof computes[0]))

/* Rows, elements of a row and leading dimension of A, B and C as they are stored. */
static void stored(const product *own, long long table[3][3])
{
    const long long *p = own->p;
    int i;
    table[0][0] = own->transpose_a ? p[2] : p[0];
    table[0][1] = own->transpose_a ? p[0] : p[2];
    table[1][0] = own->transpose_b ? p[1] : p[2];
    table[1][1] = own->transpose_b ? p[2] : p[1];
    table[2][0] = p[0];
    table[2][1] = p[1];
    for (i = 0; i < 3; i++)
        table[i][2] = p[4 + i];
}

/* Why a problem is refused: a format of printf that takes the name of a field, its value and its limit. */
typedef struct {
    const char *format;
    const char *name;
    long long value, limit;
} refusal;

static int refuse(refusal *why, const char *format, const char *name, long long value, long long limit)
{
    why->format = format;
    why->name = name;
    why->value = value;
    why->limit = limit;
    return GEMM_TUNED_BAD_ARGUMENT;
}

/* Whether an epilogue has an operation. */
static int has_operation(long long epilogue, int place)
{
    for (; epilogue != 0; epilogue >>= OPERATION_BITS)
        if ((epilogue & ((1 << OPERATION_BITS) - 1)) == place + 1)
            return 1;
    return 0;
}

/* Reads the operations of an epilogue for sums that are integers or not, once the type of D is known. */
static int read_epilogue(const char *text, int sums_integers, product *own, refusal *why)
{
    int is_scaled = 0, shift = 0, i;
    own->epilogue = 0;
    while (text != NULL && *text != 0) {
        const char *end = strchr(text, ',');
        size_t length = end == NULL ? strlen(text) : (size_t)(end - text);
        for (i = 0; i < OPERATIONS; i++)
            if (strlen(operations[i].name) == length && memcmp(operations[i].name, text, length) == 0)
                break;
        if (i == OPERATIONS || (end != NULL && end[1] == 0))
            return refuse(why, "the epilogue has a word that is no operation, at `%s`: see gemm_tuned_problem",
                          i < OPERATIONS ? end : text, 0, 0);
        if (has_operation(own->epilogue, i))
            return refuse(why, "the epilogue has `%s` twice", operations[i].name, 0, 0);
        if (dtypes[own->dtype_d].is_integer && !operations[i].of_integers)
            return refuse(why, "`%s` of the epilogue makes no integers, and dtype_d is %lld", operations[i].name,
                          own->dtype_d, 0);
        is_scaled |= operations[i].is_scale;
        own->epilogue |= (long long)(i + 1) << shift;
        shift += OPERATION_BITS;
        text = end == NULL ? NULL : end + 1;
    }
    if (sums_integers && !dtypes[own->dtype_d].is_integer && !is_scaled)
        return refuse(why, "%s is %lld: sums of integers take row-scale or col-scale in the epilogue, or %lld",
                      "dtype_d", own->dtype_d, GEMM_TUNED_I32);
    return GEMM_TUNED_SUCCESS;
}

/* Reads the types of a problem. */
static int read_types(const gemm_tuned_problem *given, product *own, refusal *why)
{
    int a = given->dtype, b, d, compute;
    if (a < 0 || a >= DTYPES)
        return refuse(why, "%s is %lld: the largest is %lld", "dtype", a, DTYPES - 1);
    b = given->dtype_b == GEMM_TUNED_DEFAULT ? a : given->dtype_b;
    d = given->dtype_d == GEMM_TUNED_DEFAULT ? dtypes[a].dtype_d : given->dtype_d;
    compute = given->compute == GEMM_TUNED_DEFAULT ? dtypes[a].compute : given->compute;
    if (b < 0 || b >= DTYPES)
        return refuse(why, "%s is %lld: the largest is %lld", "dtype_b", b, DTYPES - 1);
    if (d < 0 || d >= DTYPES)
        return refuse(why, "%s is %lld: the largest is %lld", "dtype_d", d, DTYPES - 1);
    if (compute < 0 || compute >= COMPUTES)
        return refuse(why, "%s is %lld: the largest is %lld", "compute", compute, COMPUTES - 1);
    if (!(computes[compute].operands >> a & 1))
        return refuse(why, "%s is %lld: compute type %lld does not multiply it", "dtype", a, compute);
    if (!(computes[compute].operands >> b & 1))
        return refuse(why, "%s is %lld: compute type %lld does not multiply it", "dtype_b", b, compute);
    if (!(computes[compute].outputs >> d & 1))
        return refuse(why, "%s is %lld: compute type %lld does not store it", "dtype_d", d, compute);
    if (given->transpose_a != 0 && given->transpose_a != 1)
        return refuse(why, "%s is %lld: give 0 or %lld", "transpose_a", given->transpose_a, 1);
    if (given->transpose_b != 0 && given->transpose_b != 1)
        return refuse(why, "%s is %lld: give 0 or %lld", "transpose_b", given->transpose_b, 1);
    if (given->reserved != 0)
        return refuse(why, "%s is %lld: give %lld", "reserved", given->reserved, 0);
    own->transpose_a = given->transpose_a;
    own->transpose_b = given->transpose_b;
    own->types = TYPES(a, b, d, compute, given->transpose_a, given->transpose_b);
    own->dtype_d = d;
    own->elements[0] = dtypes[a].bytes;
    own->elements[1] = dtypes[b].bytes;
    own->elements[2] = dtypes[d].bytes;
    return read_epilogue(given->epilogue, computes[compute].sums_integers, own, why);
}

/* Reads extents, rows and strides of a problem whose types were read. */
static int read_storage(const gemm_tuned_problem *given, product *own, refusal *why)
{
    static const char *const extents[4] = { "m", "n", "k", "batch" };
    static const char *const rows[3] = { "lda", "ldb", "ldd" };
    static const char *const strides[3] = { "stride_a", "stride_b", "stride_d" };
    long long table[3][3];
    int i;
    own->p[0] = given->m;
    own->p[1] = given->n;
    own->p[2] = given->k;
    own->p[3] = given->batch;
    for (i = 0; i < 4; i++)
        if (own->p[i] < 0 || own->p[i] > (i < 3 ? MAX_EXTENT : MAX_BATCH))
            return refuse(why, "%s is %lld: give 0 to %lld", extents[i], own->p[i],
                          i < 3 ? MAX_EXTENT : MAX_BATCH);
    own->p[4] = given->lda;
    own->p[5] = given->ldb;
    own->p[6] = given->ldd;
    own->strides[0] = given->stride_a;
    own->strides[1] = given->stride_b;
    own->strides[2] = given->stride_d;
    stored(own, table);
    for (i = 0; i < 3; i++) {
        long long height = table[i][0], width = table[i][1], row = table[i][2] == 0 ? width : table[i][2];
        long long stride = own->strides[i], held = MAX_OPERAND_BYTES / own->elements[i];
        own->p[4 + i] = row;
        if (row < width)
            return refuse(why, "%s is %lld: a row has %lld elements, give at least as many", rows[i], row, width);
        if (row > MAX_EXTENT)
            return refuse(why, "%s is %lld: kernels take at most %lld", rows[i], row, MAX_EXTENT);
        if (height * row > held)
            return refuse(why, "%s is %lld: an operand has at most %lld elements from the first to the last",
                          rows[i], row, held);
        if (own->p[3] <= 1) {
            own->strides[i] = 0;
            continue;
        }
        if (stride < 0 || (i == 2 && stride < (height - 1) * row + width))
            return refuse(why, i == 2 ? "%s is %lld: a matrix spans %lld elements, give at least as many"
                                      : "%s is %lld: give %lld or more", strides[i], stride,
                          i == 2 ? (height - 1) * row + width : 0);
        if (stride > (held - height * row) / (own->p[3] - 1))
            return refuse(why, "%s is %lld: an operand has at most %lld elements from the first to the last",
                          strides[i], stride, held);
    }
    own->ldc = given->ldc == 0 ? own->p[6] : given->ldc;
    own->stride_c = given->stride_c == 0 ? own->strides[2] : given->stride_c;
    if (own->ldc < own->p[1] || own->ldc > MAX_EXTENT)
        return refuse(why, "%s is %lld: a row has %lld elements, give at least as many", "ldc", own->ldc, own->p[1]);
    if (own->stride_c < 0)
        return refuse(why, "%s is %lld: give %lld or more", "stride_c", own->stride_c, 0);
    return GEMM_TUNED_SUCCESS;
}

/* Reads a problem, and checks that kernels can address its operands. The same check as in the other exports and
 * in gemm-tune itself. Programs of version 1 have a shorter structure. */
static int read_problem(const gemm_tuned_problem *given, product *own, refusal *why)
{
    gemm_tuned_problem whole;
    int status;
    if (given == NULL)
        return refuse(why, "the problem is NULL", "", 0, 0);
    if (given->size == offsetof(gemm_tuned_problem, dtype_b)) {
        whole = gemm_tuned_default_problem();
        memcpy(&whole, given, given->size);
        whole.size = sizeof whole;
        given = &whole;
    }
    if (given->size != sizeof *given)
        return refuse(why, "%s is %lld: begin with gemm_tuned_default_problem, which sets %lld", "size",
                      (long long)given->size, (long long)sizeof *given);
    status = read_types(given, own, why);
    return status == 0 ? read_storage(given, own, why) : status;
}

/* Whether D has no elements. */
static int is_nothing(const product *own) { return own->p[0] == 0 || own->p[1] == 0 || own->p[3] == 0; }

/* Bytes of the largest element of an operand. */
static long long widest(const product *own) { return most(own->elements[0], most(own->elements[1], own->elements[2])); }

/* Whether it is the address of an element of so many bytes. */
static int is_address(const void *address, long long element)
{
    return address != NULL && (uintptr_t)address % (uintptr_t)element == 0;
}

/* Where the address of an operand of the epilogue stands. */
static const void **epilogue_operand(gemm_tuned_operands *operands, int place)
{
    switch (place) {
    case 0:
        return &operands->bias;
    case 1:
        return &operands->row_scale;
    case 2:
        return &operands->col_scale;
    case 3:
        return &operands->residual;
    default:
        return &operands->mul;
    }
}

/* Largest power of two that divides a number; 0 for 0. */
static uintptr_t lowest_bit(uintptr_t number) { return number & (~number + 1); }

/* Whether the matrices of a batch lie one after the other, as tensor maps describe them. */
static int is_packed(const product *own)
{
    long long table[3][3];
    int i;
    stored(own, table);
    for (i = 0; i < 3; i++)
        if (own->p[3] > 1 && own->strides[i] != table[i][0] * own->p[4 + i])
            return 0;
    return 1;
}

/* Sets the inputs of the formulas, for addresses that are multiples of `alignment` bytes, at most 256. Rows are
 * aligned to at most the alignment of the address, of the row length and of the stride of a batch, in elements,
 * whatever the leading dimension is. Contiguous elements without vector alignment count as separate. */
static void describe(const product *own, int alignment, long long *p)
{
    long long table[3][3];
    int i;
    stored(own, table);
    for (i = 0; i < 4; i++)
        p[i] = own->p[i];
    for (i = 0; i < 3; i++) {
        long long row = table[i][2], bytes = alignment, aligned;
        /* The stride of matrices without gaps between them has the alignment of their rows. */
        if (p[3] > 1 && own->strides[i] != 0 && own->strides[i] != table[i][0] * row)
            bytes = least(bytes, (long long)lowest_bit((uintptr_t)own->strides[i]) * own->elements[i]);
        aligned = most(bytes / own->elements[i], 1);
        while (table[i][1] % aligned != 0)
            aligned /= 2;
        p[4 + i] = row;
        if (row == 1 && bytes < WIDEST_VECTOR)
            p[4 + i] = 3;
        else if (row % aligned == 0 && row / aligned % 2 == 0)
            p[4 + i] += aligned;
    }
}

