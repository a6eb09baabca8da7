/* Times products of an exported library through its C interface, by the tuner's protocol. README.md says how.
 *
 *     measure PROBLEMS        a file such as problems.txt
 *
 * Prints a row for each problem: surface, problem, median microseconds and their interval, the largest error over its
 * bound, and a note. Valid as C99 and as C++: the surface is `c` or `c++`. Link the driver (libcuda.so.1) and -lm. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elements.h"
#include "gemm_tuned.h"

#ifdef __cplusplus
#define SURFACE "c++"
#else
#define SURFACE "c"
#endif

typedef unsigned long long address;
/* The functions of the driver that are used, without its header. */
#ifdef __cplusplus
extern "C" {
#endif
int cuInit(unsigned flags);
int cuDeviceGet(int *device, int ordinal);
int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuStreamCreate(void **stream, unsigned flags);
int cuStreamSynchronize(void *stream);
int cuEventCreate(void **event, unsigned flags);
int cuEventRecord(void *event, void *stream);
int cuEventQuery(void *event);
int cuEventSynchronize(void *event);
int cuEventElapsedTime(float *ms, void *begin, void *end);
int cuMemAlloc_v2(address *at, size_t bytes);
int cuMemFree_v2(address at);
int cuMemcpyHtoD_v2(address to, const void *from, size_t bytes);
int cuMemcpyDtoH_v2(void *to, address from, size_t bytes);
int cuMemsetD8Async(address to, unsigned char value, size_t bytes, void *stream);
#ifdef __cplusplus
}
#endif
enum { L2_CACHE_SIZE = 38, NON_BLOCKING = 1, NOT_READY = 600 };

/* Samples, and the first and last of those in order that bound the median with 95 %. */
enum { SAMPLES = 31, LOW = 9, HIGH = 21, MOST_LATE = 100 };
/* Launches of a sample take so long together, as in a final of the tuner. */
#define SAMPLE_US 1000.0
enum { FIRST_LAUNCHES = 3, MOST_LAUNCHES = 256, MOST_SETS = 256 };
/* Most bytes that are overwritten before a sample. */
#define MOST_FLUSHED ((size_t)1 << 31)
/* Rows of D that are compared with sums in double. */
enum { ROWS = 8 };

/* Operands of a product in the order of `place`. */
enum { A, B, BIAS, ROW_SCALE, COL_SCALE, RESIDUAL, MUL, D, OPERANDS };
static const char *const operations[OPERANDS] = { "", "", "bias", "row-scale", "col-scale", "residual", "mul", "" };

typedef struct {
    gemm_tuned *tuned;
    gemm_tuned_problem problem;
    void *stream, *begin, *end;
    address workspace, flushed, at[MOST_SETS];
    size_t workspace_bytes, flush_bytes;
    int sets, types[OPERANDS];
    size_t elements[OPERANDS], place[OPERANDS + 1];
    void *host[OPERANDS];
} product;

static void must(int status, const char *what)
{
    if (status != 0) {
        fprintf(stderr, "%s failed: %s\n", what, gemm_tuned_status_string(status));
        exit(1);
    }
}

static void *allocated(size_t bytes)
{
    void *memory = malloc(bytes > 0 ? bytes : 1);
    if (memory == NULL) {
        fprintf(stderr, "the host has no memory left\n");
        exit(1);
    }
    return memory;
}

/* Problems ------------------------------------------------------------------------------------------------------- */

static int has(const char *epilogue, const char *operation)
{
    size_t length = strlen(operation);
    const char *at = epilogue;
    while (length > 0 && (at = strstr(at, operation)) != NULL) {
        if ((at == epilogue || at[-1] == ',') && (at[length] == 0 || at[length] == ','))
            return 1;
        at += length;
    }
    return 0;
}

/* The problem of a line, its operands and their types; 0 where the line is none. */
static int parse(const char *line, product *own, char *name, char *epilogue)
{
    char type[8], out[8], layout[8];
    long long m, n, k;
    gemm_tuned_problem *p = &own->problem;
    size_t size;
    int i;
    if (sscanf(line, "%7s %7s %7s %lldx%lldx%lld %63s", type, out, layout, &m, &n, &k, epilogue) != 7)
        return 0;
    sprintf(name, "%s %s %s %lldx%lldx%lld %s", type, out, layout, m, n, k, epilogue);
    *p = gemm_tuned_default_problem();
    p->compute = strcmp(type, "tf32") == 0 ? (int)GEMM_TUNED_COMPUTE_TF32 : (int)GEMM_TUNED_DEFAULT;
    p->dtype = type_named(strcmp(type, "tf32") == 0 ? "f32" : type);
    p->dtype_d = type_named(out);
    if (p->dtype == GEMM_TUNED_DEFAULT || p->dtype_d == GEMM_TUNED_DEFAULT || m < 1 || n < 1 || k < 1)
        return 0;
    p->transpose_a = layout[0] == 't', p->transpose_b = layout[1] == 't';
    p->m = m, p->n = n, p->k = k;
    if (strcmp(epilogue, "-") == 0)
        epilogue[0] = 0;
    p->epilogue = epilogue[0] == 0 ? NULL : epilogue;
    memset(own->elements, 0, sizeof own->elements);
    own->elements[A] = (size_t)(m * k), own->elements[B] = (size_t)(k * n), own->elements[D] = (size_t)(m * n);
    for (i = BIAS; i < D; i++)
        if (has(epilogue, operations[i]))
            own->elements[i] = (size_t)(i == BIAS || i == COL_SCALE ? n : i == ROW_SCALE ? m : m * n);
    for (i = 0; i < OPERANDS; i++) {
        own->types[i] = i <= B ? p->dtype : i == ROW_SCALE || i == COL_SCALE ? (int)GEMM_TUNED_F32 : p->dtype_d;
        size = own->elements[i] * bytes_of[own->types[i]];
        own->place[i + 1] = (i == 0 ? 0 : own->place[i]) + (size + 255) / 256 * 256;
    }
    own->place[0] = 0;
    return 1;
}

/* Sets of operands, which together are longer than twice the L2 cache. */
static int sets_of(const product *own, size_t l2_bytes)
{
    size_t sets = 2 * l2_bytes / own->place[OPERANDS] + 1;
    return sets < MOST_SETS ? (int)sets : (int)MOST_SETS;
}

static int run(product *own, int turn)
{
    address at = own->at[turn % own->sets];
    gemm_tuned_operands operands = gemm_tuned_no_operands();
    const void *places[OPERANDS];
    int i;
    for (i = 0; i < OPERANDS; i++)
        places[i] = own->elements[i] == 0 ? NULL : (const void *)(uintptr_t)(at + own->place[i]);
    operands.a = places[A], operands.b = places[B];
    operands.d = (void *)(uintptr_t)(at + own->place[D]);
    operands.bias = places[BIAS], operands.row_scale = places[ROW_SCALE], operands.col_scale = places[COL_SCALE];
    operands.residual = places[RESIDUAL], operands.mul = places[MUL];
    return gemm_tuned_run(own->tuned, &own->problem, &operands, (void *)(uintptr_t)own->workspace, own->workspace_bytes,
                          own->stream);
}

/* Times ---------------------------------------------------------------------------------------------------------- */

/* A sample of so many launches in microseconds each; below 0 where the host was late: its last launch was queued after
 * the memory had been overwritten. */
static double sample(product *own, int launches)
{
    float ms;
    int turn, is_late;
    must(cuMemsetD8Async(own->flushed, 0x5a, own->flush_bytes, own->stream), "cuMemsetD8Async");
    must(cuEventRecord(own->begin, own->stream), "cuEventRecord");
    for (turn = 0; turn < launches; turn++)
        must(run(own, turn), "gemm_tuned_run");
    must(cuEventRecord(own->end, own->stream), "cuEventRecord");
    is_late = cuEventQuery(own->begin) != NOT_READY;
    must(cuEventSynchronize(own->end), "the product");
    must(cuEventElapsedTime(&ms, own->begin, own->end), "cuEventElapsedTime");
    return (is_late ? -1000.0 : 1000.0) * (double)ms / launches;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Samples in order. Where the host is late, more is overwritten; samples of a late host do not count. 0 where it is always
 * late. */
static int samples_of(product *own, int launches, int count, double *us)
{
    int taken = 0, late = 0;
    while (taken < count && late < MOST_LATE) {
        us[taken] = sample(own, launches);
        if (us[taken] > 0) {
            taken++;
            continue;
        }
        late++;
        if (own->flush_bytes * 2 <= MOST_FLUSHED)
            own->flush_bytes *= 2;
    }
    qsort(us, (size_t)taken, sizeof *us, compare);
    return taken == count;
}

/* Reference ------------------------------------------------------------------------------------------------------ */

/* The epilogue of a value in double; `error` is that before it, and becomes that behind it. */
static double finished(const product *own, double value, double *error, size_t row, size_t column)
{
    char words[64], *word;
    size_t n = (size_t)own->problem.n, at = row * n + column, i;
    const double small = 1.0 / (1 << 22);
    double factor;
    if (own->problem.epilogue == NULL)
        return value;
    strcpy(words, own->problem.epilogue);
    for (word = strtok(words, ","); word != NULL; word = strtok(NULL, ",")) {
        for (i = BIAS; i < D && strcmp(word, operations[i]) != 0; i++)
            ;
        at = i == BIAS || i == COL_SCALE ? column : i == ROW_SCALE ? row : row * n + column;
        factor = i == D ? 0 : element(own->host[i], own->types[i], at);
        if (i == BIAS || i == RESIDUAL)
            value += factor, *error += small * fabs(factor);
        else if (i < D)
            value *= factor, *error = *error * fabs(factor) + small * fabs(value);
        else if (strcmp(word, "relu") == 0)
            value = value > 0 ? value : 0;
        else if (strcmp(word, "gelu") == 0)
            value = value * 0.5 * erfc(-value * sqrt(0.5)), *error = 1.2 * *error + 1e-6;
        else if (strcmp(word, "silu") == 0)
            value = value / (1 + exp(-value)), *error = 1.2 * *error + 1e-6;
        else
            value = NAN;
    }
    return value;
}

/* The largest error over its bound in some rows of D, against sums in double. */
static double largest_error(const product *own)
{
    const gemm_tuned_problem *p = &own->problem;
    const size_t m = (size_t)p->m, n = (size_t)p->n, k = (size_t)p->k;
    const int is_exact = p->dtype == GEMM_TUNED_I8;
    double *sums = (double *)allocated(2 * ROWS * n * sizeof *sums), *sizes = sums + ROWS * n;
    double *of_a = (double *)allocated(ROWS * k * sizeof *of_a), *line = (double *)allocated((n > k ? n : k) * sizeof *line);
    double worst = 0, unit = roundoffs[p->dtype_d], rate;
    size_t rows[ROWS], r, i, j;
    for (i = 0; i < 2 * ROWS * n; i++)
        sums[i] = 0;
    rate = is_exact ? 0 : sqrt((double)k) / (1 << 22) + (p->compute == GEMM_TUNED_COMPUTE_TF32 ? 1.0 / (1 << 10) : 0);
    for (r = 0; r < ROWS; r++) {
        rows[r] = r == 0 ? m - 1 : random_bits() % m;
        for (i = 0; i < k; i++)
            of_a[r * k + i] = element(own->host[A], p->dtype, p->transpose_a ? i * m + rows[r] : rows[r] * k + i);
    }
    /* Rows of B as it is stored, each converted once. */
    for (i = 0; i < (p->transpose_b ? n : k); i++) {
        for (j = 0; j < (p->transpose_b ? k : n); j++)
            line[j] = element(own->host[B], p->dtype, i * (p->transpose_b ? k : n) + j);
        for (r = 0; r < ROWS; r++)
            for (j = 0; j < (p->transpose_b ? k : n); j++) {
                double term = line[j] * of_a[r * k + (p->transpose_b ? j : i)];
                sums[r * n + (p->transpose_b ? i : j)] += term;
                sizes[r * n + (p->transpose_b ? i : j)] += fabs(term);
            }
    }
    for (r = 0; r < ROWS; r++)
        for (j = 0; j < n; j++) {
            double error = rate * sizes[r * n + j], value = finished(own, sums[r * n + j], &error, rows[r], j), ratio;
            ratio = fabs(element(own->host[D], p->dtype_d, rows[r] * n + j) - value);
            ratio /= error + 2 * unit * fabs(value) + leasts[p->dtype_d];
            /* Also where it is no number. */
            if (!(ratio <= worst))
                worst = isnan(ratio) ? INFINITY : ratio;
        }
    free(sums);
    free(of_a);
    free(line);
    return worst;
}

/* Rows of the table ---------------------------------------------------------------------------------------------- */

static void prepare(product *own, size_t l2_bytes)
{
    size_t bytes;
    int i, set;
    own->sets = sets_of(own, l2_bytes);
    for (i = 0; i < OPERANDS; i++) {
        own->host[i] = allocated(own->elements[i] * bytes_of[own->types[i]]);
        fill(own->host[i], own->types[i], own->elements[i], i == ROW_SCALE || i == COL_SCALE ? 1.0f / 64 : 1.0f);
    }
    memset(own->host[D], 0xff, own->elements[D] * bytes_of[own->types[D]]);
    for (set = 0; set < own->sets; set++) {
        must(cuMemAlloc_v2(&own->at[set], own->place[OPERANDS]), "cuMemAlloc");
        for (i = 0; i < OPERANDS; i++) {
            bytes = own->elements[i] * bytes_of[own->types[i]];
            if (bytes > 0)
                must(cuMemcpyHtoD_v2(own->at[set] + own->place[i], own->host[i], bytes), "cuMemcpyHtoD");
        }
    }
}

/* Prints the row of a problem. */
static void time_problem(product *own, const char *name, size_t l2_bytes)
{
    double us[SAMPLES], error;
    gemm_tuned_choice choice;
    int i, launches, status, is_timed;
    choice.size = sizeof choice;
    status = gemm_tuned_choose(own->tuned, &own->problem, (size_t)-1, &choice);
    if (status != GEMM_TUNED_SUCCESS) {
        printf("%s,\"%s\",,,,,%s\n", SURFACE, name, status == GEMM_TUNED_NO_KERNEL ? "no kernel" : "refused");
        return;
    }
    own->workspace = 0;
    own->workspace_bytes = choice.workspace_bytes;
    if (own->workspace_bytes > 0)
        must(cuMemAlloc_v2(&own->workspace, own->workspace_bytes), "cuMemAlloc");
    prepare(own, l2_bytes);
    must(run(own, 0), "gemm_tuned_run");
    must(cuStreamSynchronize(own->stream), "the product");
    must(cuMemcpyDtoH_v2(own->host[D], own->at[0] + own->place[D], own->elements[D] * bytes_of[own->types[D]]),
         "cuMemcpyDtoH");
    error = largest_error(own);
    own->flush_bytes = 2 * l2_bytes;
    is_timed = samples_of(own, FIRST_LAUNCHES, 3, us);
    launches = is_timed ? (int)ceil(SAMPLE_US / us[1]) : 1;
    launches = launches > MOST_LAUNCHES ? (int)MOST_LAUNCHES : launches;
    if (is_timed && samples_of(own, launches, SAMPLES, us))
        printf("%s,\"%s\",%.3f,%.3f,%.3f,%.3g,%s\n", SURFACE, name, us[SAMPLES / 2], us[LOW], us[HIGH], error,
               choice.tuned ? "" : "not the tuned kernel");
    else
        printf("%s,\"%s\",,,,%.3g,the host is slower than the GPU\n", SURFACE, name, error);
    for (i = 0; i < own->sets; i++)
        must(cuMemFree_v2(own->at[i]), "cuMemFree");
    if (own->workspace_bytes > 0)
        must(cuMemFree_v2(own->workspace), "cuMemFree");
    for (i = 0; i < OPERANDS; i++)
        free(own->host[i]);
}

int main(int count, char **words)
{
    static product own;
    char line[256], name[160], epilogue[64], *comment;
    FILE *file = count == 2 ? fopen(words[1], "r") : NULL;
    void *context;
    int device, l2_bytes;
    if (file == NULL) {
        fprintf(stderr, "usage: measure PROBLEMS, a file that can be read\n");
        return 2;
    }
    must(cuInit(0), "cuInit");
    must(cuDeviceGet(&device, 0), "cuDeviceGet");
    must(cuDeviceGetAttribute(&l2_bytes, L2_CACHE_SIZE, device), "cuDeviceGetAttribute");
    must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must(cuStreamCreate(&own.stream, NON_BLOCKING), "cuStreamCreate");
    must(cuEventCreate(&own.begin, 0), "cuEventCreate");
    must(cuEventCreate(&own.end, 0), "cuEventCreate");
    must(cuMemAlloc_v2(&own.flushed, MOST_FLUSHED), "cuMemAlloc");
    must(gemm_tuned_create(&own.tuned, GEMM_TUNED_CURRENT_CONTEXT), "gemm_tuned_create");
    while (fgets(line, sizeof line, file) != NULL) {
        comment = strchr(line, '#');
        if (comment != NULL)
            *comment = 0;
        if (line[strspn(line, " \t\r\n")] == 0)
            continue;
        if (!parse(line, &own, name, epilogue)) {
            fprintf(stderr, "`%s` is no problem\n", line);
            return 2;
        }
        time_problem(&own, name, (size_t)l2_bytes);
        fflush(stdout);
    }
    fclose(file);
    gemm_tuned_destroy(own.tuned);
    return 0;
}
