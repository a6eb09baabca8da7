/* In the place of an exported library, for results/surfaces/time.c: multiplies on the host, and moves the clock of
 * host_driver.c by 100 us. With HOST_WRONG a result is wrong. It has no kernel for a row-scale of f32. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gemm_tuned.h"

extern double host_clock_us;
static char handle;

int gemm_tuned_create(gemm_tuned **tuned, int device)
{
    *tuned = (gemm_tuned *)(void *)&handle;
    return device == GEMM_TUNED_CURRENT_CONTEXT ? GEMM_TUNED_SUCCESS : GEMM_TUNED_NO_DRIVER;
}

void gemm_tuned_destroy(gemm_tuned *tuned) { (void)tuned; }

const char *gemm_tuned_status_string(int status) { return status == GEMM_TUNED_BAD_ARGUMENT ? "bad argument" : "status"; }

int gemm_tuned_choose(const gemm_tuned *tuned, const gemm_tuned_problem *p, size_t room, gemm_tuned_choice *choice)
{
    choice->workspace_bytes = 512;
    choice->tuned = 1;
    if (tuned == NULL || room != (size_t)-1)
        return GEMM_TUNED_BAD_ARGUMENT;
    return p->dtype == GEMM_TUNED_F32 && p->epilogue != NULL && strstr(p->epilogue, "row-scale") != NULL ? GEMM_TUNED_NO_KERNEL : 0;
}

static double half(uint16_t bits)
{
    double value = (bits >> 10 & 31) == 0 ? ldexp(bits & 1023, -24) : ldexp(1024 + (bits & 1023), (bits >> 10 & 31) - 25);
    return bits & 0x8000 ? -value : value;
}

static double read(const void *at, int type, long long i)
{
    uint32_t wide;
    float value;
    switch (type) {
    case GEMM_TUNED_F32:
        return ((const float *)at)[i];
    case GEMM_TUNED_F16:
        return half(((const uint16_t *)at)[i]);
    case GEMM_TUNED_I8:
        return ((const int8_t *)at)[i];
    case GEMM_TUNED_BF16:
        wide = (uint32_t)((const uint16_t *)at)[i] << 16;
        memcpy(&value, &wide, 4);
        return value;
    default:
        return ((const int32_t *)at)[i];
    }
}

/* Writes a value; of 16 bits the nearest one, which is searched for. */
static void write(void *at, int type, long long i, double value)
{
    uint16_t low = 0, high = 0x7bff;
    float wide = (float)value;
    uint32_t bits;
    memcpy(&bits, &wide, 4);
    if (type == GEMM_TUNED_F32)
        ((float *)at)[i] = wide;
    else if (type == GEMM_TUNED_I32)
        ((int32_t *)at)[i] = (int32_t)value;
    else if (type == GEMM_TUNED_BF16)
        ((uint16_t *)at)[i] = (uint16_t)((bits + 0x8000) >> 16);
    else {
        while (high - low > 1) {
            const uint16_t middle = (uint16_t)((low + high) / 2);
            if (half(middle) <= fabs(value))
                low = middle;
            else
                high = middle;
        }
        low = fabs(value) - half(low) > half(high) - fabs(value) ? high : low;
        ((uint16_t *)at)[i] = (uint16_t)(low | (value < 0 ? 0x8000 : 0));
    }
}

static double finished(const gemm_tuned_problem *p, const gemm_tuned_operands *o, double value, long long i, long long j)
{
    char words[64], *word;
    strcpy(words, p->epilogue == NULL ? "" : p->epilogue);
    for (word = strtok(words, ","); word != NULL; word = strtok(NULL, ","))
        if (strcmp(word, "bias") == 0)
            value += read(o->bias, p->dtype_d, j);
        else if (strcmp(word, "row-scale") == 0)
            value *= ((const float *)o->row_scale)[i];
        else if (strcmp(word, "col-scale") == 0)
            value *= ((const float *)o->col_scale)[j];
        else if (strcmp(word, "residual") == 0)
            value += read(o->residual, p->dtype_d, i * p->n + j);
        else if (strcmp(word, "mul") == 0)
            value *= read(o->mul, p->dtype_d, i * p->n + j);
        else if (strcmp(word, "gelu") == 0)
            value *= 0.5 * (1 + erf(value * sqrt(0.5)));
        else if (strcmp(word, "silu") == 0)
            value /= 1 + exp(-value);
        else
            value = NAN;
    return value;
}

int gemm_tuned_run(gemm_tuned *tuned, const gemm_tuned_problem *p, const gemm_tuned_operands *o, void *workspace, size_t room,
                   void *stream)
{
    static int calls = 0;
    long long i, j, k;
    host_clock_us += 100;
    if (tuned == NULL || stream == NULL || (uintptr_t)workspace % 256 != 0 || room != 512)
        return GEMM_TUNED_BAD_ARGUMENT;
    /* All calls of a problem compute the same. */
    if (calls++ % 16 != 0 && *(const unsigned char *)o->d != 0xff)
        return GEMM_TUNED_SUCCESS;
    for (i = 0; i < p->m; i++)
        for (j = 0; j < p->n; j++) {
            double sum = getenv("HOST_WRONG") != NULL && i == p->m - 1 && j == 3 ? 1 : 0;
            for (k = 0; k < p->k; k++)
                sum += read(o->a, p->dtype, p->transpose_a ? k * p->m + i : i * p->k + k)
                       * read(o->b, p->dtype, p->transpose_b ? j * p->k + k : k * p->n + j);
            write(o->d, p->dtype_d, i * p->n + j, finished(p, o, sum, i, j));
        }
    return GEMM_TUNED_SUCCESS;
}
