/* In the place of cuBLASLt: multiplies matrices in host memory by what the descriptors say, column-major, and records
 * calls as text. As strict as the library where that is known. STUB_LT_MODE has words: `no-check` lets the check of
 * algorithms fail, `nothing` proposes none, `refuse` multiplies nothing.
 *
 * Recorded are "init:ID;", "set:ATTRIBUTE=VALUE;", "check;", "propose:MOST_WORKSPACE,ALIGNMENT,REDUCTIONS;" and
 * "multiply:ID,COMPUTE,OPERATIONS,EPILOGUE,WORKSPACE;". */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_SUPPORTED 15
#define INVALID 7
/* Where the driver's stub allocates memory that is not there. */
#define FIRST_FAKE (1ull << 44)
#define NEEDED_WORKSPACE 1000

typedef struct {
    unsigned values[16];
} algorithm;

typedef struct {
    algorithm own;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
} result;

typedef struct {
    int compute, scale, transpose_a, transpose_b, epilogue;
    const void *bias;
    long long bias_stride;
} product;

typedef struct {
    int type, batch;
    unsigned long long rows, columns;
    long long height, stride;
} layout;

typedef struct {
    unsigned long long workspace;
    unsigned alignment[4], reductions;
} preference;

static char recorded[1 << 16];
static size_t length = 0;
static int handles = 0, objects = 0, a_handle;

const char *stub_lt_recorded(void) { return recorded; }
int stub_lt_handles(void) { return handles; }
int stub_lt_objects(void) { return objects; }

void stub_lt_begin(void)
{
    length = 0;
    recorded[0] = 0;
}

void stub_lt_record(const char *text) { length += (size_t)sprintf(recorded + length, "%s", text); }

static int has_mode(const char *word)
{
    const char *mode = getenv("STUB_LT_MODE");
    return mode != NULL && strstr(mode, word) != NULL;
}

static void *made(size_t bytes)
{
    objects++;
    return calloc(1, bytes);
}

int cublasLtCreate(void **handle)
{
    *handle = &a_handle;
    handles++;
    return 0;
}

int cublasLtDestroy(void *handle)
{
    handles--;
    return handle != &a_handle;
}

int cublasLtMatmulDescCreate(void **to, int compute, int scale)
{
    product *own = (product *)made(sizeof *own);
    own->compute = compute;
    own->scale = scale;
    own->epilogue = 1;
    *to = own;
    return 0;
}

int cublasLtMatmulDescDestroy(void *own)
{
    objects--;
    free(own);
    return 0;
}

int cublasLtMatmulDescSetAttribute(product *own, int attribute, const void *value, size_t bytes)
{
    if (bytes != (attribute == 8 || attribute == 10 ? 8u : 4u))
        return INVALID;
    if (attribute == 3)
        memcpy(&own->transpose_a, value, bytes);
    else if (attribute == 4)
        memcpy(&own->transpose_b, value, bytes);
    else if (attribute == 7)
        memcpy(&own->epilogue, value, bytes);
    else if (attribute == 8)
        memcpy(&own->bias, value, bytes);
    else if (attribute == 10)
        memcpy(&own->bias_stride, value, bytes);
    else
        return INVALID;
    return 0;
}

int cublasLtMatrixLayoutCreate(void **to, int type, unsigned long long rows, unsigned long long columns, long long height)
{
    layout *own = (layout *)made(sizeof *own);
    own->type = type, own->rows = rows, own->columns = columns, own->height = height, own->batch = 1;
    *to = own;
    return height < (long long)rows || rows == 0 || columns == 0 ? INVALID : 0;
}

int cublasLtMatrixLayoutDestroy(void *own)
{
    objects--;
    free(own);
    return 0;
}

int cublasLtMatrixLayoutSetAttribute(layout *own, int attribute, const void *value, size_t bytes)
{
    if (attribute == 5 && bytes == 4)
        memcpy(&own->batch, value, bytes);
    else if (attribute == 6 && bytes == 8)
        memcpy(&own->stride, value, bytes);
    else
        return INVALID;
    return 0;
}

int cublasLtMatmulPreferenceCreate(void **to)
{
    *to = made(sizeof(preference));
    return 0;
}

int cublasLtMatmulPreferenceDestroy(void *own)
{
    objects--;
    free(own);
    return 0;
}

int cublasLtMatmulPreferenceSetAttribute(preference *own, int attribute, const void *value, size_t bytes)
{
    if (attribute == 1 && bytes == 8)
        memcpy(&own->workspace, value, bytes);
    else if (attribute == 3 && bytes == 4)
        memcpy(&own->reductions, value, bytes);
    else if (attribute >= 5 && attribute <= 8 && bytes == 4)
        memcpy(&own->alignment[attribute - 5], value, bytes);
    else
        return INVALID;
    return 0;
}

/* Whether layouts are those of a product: op(A) has M rows and K columns, op(B) K and N. */
static int fits(const product *own, const layout *a, const layout *b, const layout *c, const layout *d)
{
    unsigned long long m = own->transpose_a ? a->columns : a->rows, k = own->transpose_a ? a->rows : a->columns;
    unsigned long long other = own->transpose_b ? b->columns : b->rows, n = own->transpose_b ? b->rows : b->columns;
    int of_types = own->compute == 72 ? a->type == 3 && d->type == 10 && own->scale == 10
                                      : own->scale == 0
                                            && (own->compute == 68 || (own->compute == 69 && a->type == 0)
                                                || (own->compute == 77 && a->type == 0));
    return of_types && a->type == b->type && c->type == d->type && k == other && d->rows == m && d->columns == n
           && c->rows == m && c->columns == n && a->batch == d->batch && b->batch == d->batch && c->batch == d->batch;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, const product *own, const layout *a, const layout *b, const layout *c,
                                   const layout *d, const preference *wish, int count, result *to, int *found)
{
    length += (size_t)sprintf(recorded + length, "propose:%llu,%u,%u;", wish->workspace, wish->alignment[0],
                              wish->reductions);
    *found = 0;
    if (handle != &a_handle || count != 1 || !fits(own, a, b, c, d) || has_mode("nothing"))
        return NOT_SUPPORTED;
    memset(to, 0, sizeof *to);
    to->own.values[0] = 20, to->own.values[1] = 18, to->own.values[2] = 1, to->own.values[6] = 8;
    to->workspace = wish->workspace < NEEDED_WORKSPACE ? 0 : NEEDED_WORKSPACE;
    *found = 1;
    return 0;
}

int cublasLtMatmulAlgoInit(void *handle, int compute, int scale, int a, int b, int c, int d, int id, algorithm *to)
{
    length += (size_t)sprintf(recorded + length, "init:%d;", id);
    memset(to, 0, sizeof *to);
    to->values[0] = (unsigned)id;
    return handle != &a_handle || a != b || c != d || scale < 0 || compute < 68 ? INVALID : 0;
}

int cublasLtMatmulAlgoConfigSetAttribute(algorithm *own, int attribute, const void *value, size_t bytes)
{
    unsigned number = 0;
    if (attribute < 1 || attribute > 8 || bytes != (attribute < 7 ? 4u : 2u))
        return INVALID;
    memcpy(&number, value, bytes);
    own->values[attribute] = number;
    length += (size_t)sprintf(recorded + length, "set:%d=%u;", attribute, number);
    return 0;
}

int cublasLtMatmulAlgoConfigGetAttribute(const algorithm *own, int attribute, void *value, size_t bytes, size_t *written)
{
    memcpy(value, &own->values[attribute], bytes);
    *written = bytes;
    return 0;
}

int cublasLtMatmulAlgoCheck(void *handle, const product *own, const layout *a, const layout *b, const layout *c,
                            const layout *d, const algorithm *known, result *to)
{
    length += (size_t)sprintf(recorded + length, "check;");
    if (handle != &a_handle || known->values[0] == 0 || !fits(own, a, b, c, d) || has_mode("no-check"))
        return NOT_SUPPORTED;
    memset(to, 0, sizeof *to);
    to->workspace = NEEDED_WORKSPACE;
    return 0;
}

/* An element as a number, and back. */
static double element(int type, const void *matrix, long long place)
{
    unsigned bits;
    float number;
    if (type == 0)
        return ((const float *)matrix)[place];
    if (type == 10)
        return ((const int *)matrix)[place];
    if (type == 3)
        return ((const signed char *)matrix)[place];
    bits = (unsigned)((const unsigned short *)matrix)[place] << 16;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static void store(int type, void *matrix, long long place, double value)
{
    float number = (float)value;
    unsigned bits;
    if (type == 0) {
        ((float *)matrix)[place] = number;
    } else if (type == 10) {
        ((int *)matrix)[place] = (int)value;
    } else {
        memcpy(&bits, &number, sizeof bits);
        ((unsigned short *)matrix)[place] = (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

int cublasLtMatmul(void *handle, const product *own, const void *alpha, const void *a, const layout *of_a, const void *b,
                   const layout *of_b, const void *beta, const void *c, const layout *of_c, void *d, const layout *of_d,
                   const algorithm *known, void *workspace, size_t bytes, void *stream)
{
    const uintptr_t addresses = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d | (uintptr_t)workspace;
    long long batch, i, j, l, k = own->transpose_a ? (long long)of_a->rows : (long long)of_a->columns;
    double alphas = own->scale == 10 ? *(const int *)alpha : *(const float *)alpha;
    double betas = own->scale == 10 ? *(const int *)beta : *(const float *)beta;
    (void)stream;
    length += (size_t)sprintf(recorded + length, "multiply:%u,%d,%d%d,%d,%zu;", known->values[0], own->compute,
                              own->transpose_a, own->transpose_b, own->epilogue, bytes);
    if (handle != &a_handle || !fits(own, of_a, of_b, of_c, of_d) || known->values[0] == 0 || addresses % 16 != 0
        || (bytes > 0 && workspace == NULL) || has_mode("refuse")
        || (c == d && (of_c->height != of_d->height || of_c->stride != of_d->stride)))
        return NOT_SUPPORTED;
    if ((uintptr_t)d >= FIRST_FAKE && (uintptr_t)d < 2 * FIRST_FAKE)
        return 0;
    for (batch = 0; batch < of_d->batch; batch++)
        for (j = 0; j < (long long)of_d->columns; j++)
            for (i = 0; i < (long long)of_d->rows; i++) {
                long long place = batch * of_d->stride + j * of_d->height + i;
                double sum = 0, value;
                for (l = 0; l < k; l++) {
                    long long row = own->transpose_a ? l : i, column = own->transpose_a ? i : l;
                    long long other_row = own->transpose_b ? j : l, other_column = own->transpose_b ? l : j;
                    sum += element(of_a->type, a, batch * of_a->stride + column * of_a->height + row)
                           * element(of_b->type, b, batch * of_b->stride + other_column * of_b->height + other_row);
                }
                value = alphas * sum;
                if (betas != 0)
                    value += betas * element(of_c->type, c, batch * of_c->stride + j * of_c->height + i);
                if (own->epilogue & 4)
                    value += element(of_d->type, own->bias, batch * own->bias_stride + i);
                if (own->epilogue & 2)
                    value = value > 0 ? value : 0;
                store(of_d->type, d, place, value);
            }
    return 0;
}
