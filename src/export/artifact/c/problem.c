/* Problems --------------------------------------------------------------------------------------------- */

/* What is asked of a problem: types, M N K batch lda ldb ldc, strides in elements, and the bytes of an
 * element. */
typedef struct {
    int dtype, transpose_a, transpose_b, element;
    long long p[7], strides[3];
} product;

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

/* Reads a problem, and checks that kernels can address its operands. The same check as in the other exports and
 * in gemm-tune itself. */
static int read_problem(const gemm_tuned_problem *given, product *own, refusal *why)
{
    static const char *const extents[4] = { "m", "n", "k", "batch" };
    static const char *const rows[3] = { "lda", "ldb", "ldd" };
    static const char *const strides[3] = { "stride_a", "stride_b", "stride_d" };
    static const int bytes[4] = { 4, 2, 2, 4 };
    long long table[3][3];
    int i;
    if (given == NULL)
        return refuse(why, "the problem is NULL", "", 0, 0);
    if (given->size != sizeof *given)
        return refuse(why, "%s is %lld: begin with gemm_tuned_default_problem, which sets %lld", "size",
                      (long long)given->size, (long long)sizeof *given);
    if (given->dtype < 0 || given->dtype > GEMM_TUNED_I32)
        return refuse(why, "%s is %lld: the largest is %lld", "dtype", given->dtype, GEMM_TUNED_I32);
    if (given->transpose_a != 0 && given->transpose_a != 1)
        return refuse(why, "%s is %lld: give 0 or %lld", "transpose_a", given->transpose_a, 1);
    if (given->transpose_b != 0 && given->transpose_b != 1)
        return refuse(why, "%s is %lld: give 0 or %lld", "transpose_b", given->transpose_b, 1);
    own->dtype = given->dtype;
    own->transpose_a = given->transpose_a;
    own->transpose_b = given->transpose_b;
    own->element = bytes[given->dtype];
    own->p[0] = given->m;
    own->p[1] = given->n;
    own->p[2] = given->k;
    own->p[3] = given->batch;
    for (i = 0; i < 4; i++)
        if (own->p[i] < 1 || own->p[i] > (i < 3 ? MAX_EXTENT : MAX_BATCH))
            return refuse(why, "%s is %lld: kernels take 1 to %lld", extents[i], own->p[i],
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
        long long stride = own->strides[i], held = MAX_OPERAND_BYTES / own->element;
        own->p[4 + i] = row;
        if (row < width)
            return refuse(why, "%s is %lld: a row has %lld elements, give at least as many", rows[i], row, width);
        if (row > MAX_EXTENT)
            return refuse(why, "%s is %lld: kernels take at most %lld", rows[i], row, MAX_EXTENT);
        if (height * row > held)
            return refuse(why, "%s is %lld: an operand has at most %lld elements from the first to the last",
                          rows[i], row, held);
        if (own->p[3] == 1) {
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
    return GEMM_TUNED_SUCCESS;
}

/* Largest power of two that divides a number; 0 for 0. */
static uintptr_t lowest_bit(uintptr_t number) { return number & (~number + 1); }

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
            bytes = least(bytes, (long long)lowest_bit((uintptr_t)own->strides[i]) * own->element);
        aligned = bytes / own->element;
        while (table[i][1] % aligned != 0)
            aligned /= 2;
        p[4 + i] = row;
        if (row == 1 && bytes < WIDEST_VECTOR)
            p[4 + i] = 3;
        else if (row % aligned == 0 && row / aligned % 2 == 0)
            p[4 + i] += aligned;
    }
}

