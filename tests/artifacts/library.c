/* Multiplies by an exported artifact that may call cuBLASLt, with the stubs of the driver and of the library: matrices lie
 * in host memory. Says for each product who computed it, with the library's calls, and whether D is right where the library
 * did. Kernels of the stub compute nothing. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gemm_tuned.h"

void stub_begin(void);
const char *stub_recorded(void);
void stub_memory(unsigned long long bytes);
void stub_copy_rows(int whether);

#define ELEMENTS 40000
/* What the library is timed with. */
#define WORKSPACE (32 << 20)

static char a_memory[4 * ELEMENTS] __attribute__((aligned(256))), b_memory[4 * ELEMENTS] __attribute__((aligned(256)));
static char c_memory[4 * ELEMENTS] __attribute__((aligned(256))), d_memory[4 * ELEMENTS] __attribute__((aligned(256)));
static char bias_memory[4 * ELEMENTS] __attribute__((aligned(256))), workspace[WORKSPACE] __attribute__((aligned(256)));
static char before[4 * ELEMENTS];

/* The library's stub, if the artifact has opened it. */
static const char *(*lt_recorded)(void);
static void (*lt_begin)(void);
static int (*lt_objects)(void);
static int (*lt_handles)(void);

static void find_library(void)
{
    void *file = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_NOLOAD), *found;
    if (file == NULL)
        return;
    found = dlsym(file, "stub_lt_recorded"), memcpy(&lt_recorded, &found, sizeof found);
    found = dlsym(file, "stub_lt_begin"), memcpy(&lt_begin, &found, sizeof found);
    found = dlsym(file, "stub_lt_objects"), memcpy(&lt_objects, &found, sizeof found);
    found = dlsym(file, "stub_lt_handles"), memcpy(&lt_handles, &found, sizeof found);
}

static double element(int dtype, const char *memory, long long place)
{
    unsigned bits;
    float number;
    if (dtype == GEMM_TUNED_F32)
        return ((const float *)(const void *)memory)[place];
    if (dtype == GEMM_TUNED_I32)
        return ((const int *)(const void *)memory)[place];
    if (dtype == GEMM_TUNED_I8)
        return ((const signed char *)memory)[place];
    bits = (unsigned)((const unsigned short *)(const void *)memory)[place] << 16;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* Fills memory with small whole numbers, which every type holds. */
static void fill(int dtype, char *memory, int seed)
{
    int i, number;
    for (i = 0; i < ELEMENTS; i++) {
        number = (i * 7 + seed * 5 + i / 11) % 7 - 3;
        if (dtype == GEMM_TUNED_F32) {
            ((float *)(void *)memory)[i] = (float)number;
        } else if (dtype == GEMM_TUNED_I32) {
            ((int *)(void *)memory)[i] = number;
        } else if (dtype == GEMM_TUNED_I8) {
            ((signed char *)memory)[i] = (signed char)number;
        } else {
            float whole = (float)number;
            unsigned bits;
            memcpy(&bits, &whole, sizeof bits);
            ((unsigned short *)(void *)memory)[i] = (unsigned short)(bits >> 16);
        }
    }
}

/* Whether D is what the interface says, and nothing else was written. Products are whole or halves, below 256. */
static int is_right(const gemm_tuned_problem *p, int dtype_d, double alpha, double beta, int c_apart, long long places)
{
    const char *text = p->epilogue == NULL ? "" : p->epilogue;
    char *touched = (char *)calloc(1, ELEMENTS);
    long long batch, i, j, l;
    int wrong = 0;
    for (batch = 0; batch < p->batch; batch++)
        for (i = 0; i < p->m; i++)
            for (j = 0; j < p->n; j++) {
                long long place = batch * p->stride_d + i * p->ldd + j;
                double sum = 0, value, difference;
                for (l = 0; l < p->k; l++) {
                    long long of_a = p->transpose_a ? l * p->lda + i : i * p->lda + l;
                    long long of_b = p->transpose_b ? j * p->ldb + l : l * p->ldb + j;
                    sum += element(p->dtype, a_memory, batch * p->stride_a + of_a)
                           * element(p->dtype, b_memory, batch * p->stride_b + of_b);
                }
                value = alpha * sum;
                if (beta != 0 && c_apart)
                    value += beta * element(dtype_d, c_memory, batch * p->stride_c + i * p->ldc + j);
                else if (beta != 0)
                    value += beta * element(dtype_d, before, place);
                if (strstr(text, "bias") != NULL)
                    value += element(dtype_d, bias_memory, batch * p->n + j);
                if (strstr(text, "relu") != NULL && value < 0)
                    value = 0;
                difference = element(dtype_d, d_memory, place) - value;
                wrong |= difference > 1e-4 || difference < -1e-4;
                touched[place] = 1;
            }
    for (i = 0; i < places; i++)
        wrong |= !touched[i] && element(dtype_d, d_memory, i) != element(dtype_d, before, i);
    free(touched);
    return !wrong;
}

static void run(gemm_tuned *tuned, const char *what, gemm_tuned_problem p, float beta, int c_apart, int off)
{
    const int dtype_d = p.dtype_d == GEMM_TUNED_DEFAULT ? (p.dtype == GEMM_TUNED_I8 ? GEMM_TUNED_I32 : p.dtype)
                                                        : p.dtype_d;
    const float alpha = 0.5f;
    const int whole_alpha = 2, whole_beta = (int)beta;
    gemm_tuned_operands operands = gemm_tuned_no_operands();
    gemm_tuned_choice choice = { sizeof choice, NULL, 0, 0, 0, 0 };
    const int is_whole = dtype_d == GEMM_TUNED_I32;
    const char *calls = "";
    int status;
    fill(p.dtype, a_memory, 1), fill(p.dtype, b_memory, 2), fill(dtype_d, c_memory, 3);
    fill(dtype_d, d_memory, 4), fill(dtype_d, bias_memory, 5);
    memcpy(before, d_memory, sizeof before);
    operands.a = a_memory + off, operands.b = b_memory, operands.d = d_memory, operands.bias = bias_memory;
    operands.c = c_apart ? c_memory : NULL;
    operands.alpha = is_whole ? (const void *)&whole_alpha : (const void *)&alpha;
    operands.beta = is_whole ? (const void *)&whole_beta : (const void *)&beta;
    p.alignment = off == 0 ? 0 : off;
    if ((status = gemm_tuned_choose(tuned, &p, (size_t)-1, &choice)) != 0)
        printf("%s: choose %d\n", what, status);
    find_library();
    stub_begin();
    if (lt_begin != NULL)
        lt_begin();
    status = gemm_tuned_run(tuned, &p, &operands, workspace, sizeof workspace, NULL);
    if (lt_recorded != NULL)
        calls = lt_recorded();
    printf("%s: %s, %zu bytes; %s%s%s\n", what, choice.name, choice.workspace_bytes, calls,
           status != 0                                    ? gemm_tuned_status_string(status)
           : stub_recorded()[0] != 0                      ? " kernel"
           : is_right(&p, dtype_d, is_whole ? whole_alpha : alpha, beta, c_apart, 2000) ? " right"
                                                                                        : " WRONG",
           lt_objects != NULL && lt_objects() != 0 ? " and objects are left" : "");
}

/* A problem with rows of `pad` more elements; strides of a batch are multiples of 16 bytes, and A is shared where
 * `shared`. */
static gemm_tuned_problem problem(int dtype, const char *layout, const long long s[4], long long pad, int shared)
{
    gemm_tuned_problem p = gemm_tuned_default_problem();
    p.dtype = dtype;
    p.transpose_a = layout[0] == 't', p.transpose_b = layout[1] == 't';
    p.m = s[0], p.n = s[1], p.k = s[2], p.batch = s[3];
    p.lda = (p.transpose_a ? p.m : p.k) + pad;
    p.ldb = (p.transpose_b ? p.k : p.n) + pad;
    p.ldd = p.n + pad;
    p.ldc = p.n + 2 * pad;
    p.stride_a = shared ? 0 : (p.lda * (p.transpose_a ? p.k : p.m) + 15) / 16 * 16;
    p.stride_b = (p.ldb * (p.transpose_b ? p.n : p.k) + 15) / 16 * 16;
    p.stride_d = (p.ldd * p.m + 15) / 16 * 16;
    p.stride_c = (p.ldc * p.m + 31) / 16 * 16;
    return p;
}

int main(int count, char **words)
{
    static const char *const layouts[] = { "nn", "nt", "tn", "tt" };
    static const long long plain[4] = { 37, 29, 23, 1 }, batch[4] = { 20, 36, 28, 3 }, tuned_shape[4] = { 64, 48, 32, 1 };
    const int is_short = count > 1 && strcmp(words[1], "short") == 0;
    gemm_tuned *tuned, *other;
    gemm_tuned_problem p;
    char what[100];
    int i, status;
    stub_memory(1ull << 40);
    stub_copy_rows(1);
    if ((status = gemm_tuned_create(&tuned, 0)) != 0 || gemm_tuned_create(&other, 0) != 0) {
        fprintf(stderr, "gemm_tuned_create: %s\n", gemm_tuned_status_string(status));
        return 5;
    }
    for (i = 0; i < (is_short ? 1 : 4); i++) {
        const char *layout = layouts[i];
        sprintf(what, "%s", layout);
        run(tuned, what, problem(GEMM_TUNED_F32, layout, plain, 0, 0), 0, 0, 0);
        if (is_short)
            break;
        sprintf(what, "%s padded, beta", layout);
        run(tuned, what, problem(GEMM_TUNED_F32, layout, plain, 4, 0), 0.5f, 0, 0);
        sprintf(what, "%s batch, beta, C apart", layout);
        run(tuned, what, problem(GEMM_TUNED_F32, layout, batch, 4, 0), 0.5f, 1, 0);
        sprintf(what, "%s batch, A shared", layout);
        run(tuned, what, problem(GEMM_TUNED_F32, layout, batch, 0, 1), 0, 0, 0);
    }
    run(tuned, "recorded", problem(GEMM_TUNED_F32, "nn", tuned_shape, 0, 0), 0, 0, 0);
    run(tuned, "recorded, padded", problem(GEMM_TUNED_F32, "nn", tuned_shape, 4, 0), 0.5f, 0, 0);
    p = problem(GEMM_TUNED_F32, "nt", tuned_shape, 0, 0);
    p.epilogue = "bias,relu";
    run(tuned, "recorded with an epilogue", p, 0, 0, 0);
    if (!is_short) {
        p = problem(GEMM_TUNED_F32, "nt", plain, 0, 0);
        p.epilogue = "bias,relu";
        run(tuned, "an epilogue without a forecast", p, 0, 0, 0);
        p = problem(GEMM_TUNED_BF16, "nt", tuned_shape, 0, 0);
        p.epilogue = "bias,relu";
        run(tuned, "bf16 recorded with an epilogue", p, 0.5f, 0, 0);
        run(tuned, "i8 recorded", problem(GEMM_TUNED_I8, "nt", tuned_shape, 0, 0), 3, 0, 0);
        run(tuned, "an unaligned address", problem(GEMM_TUNED_F32, "nn", plain, 0, 0), 0, 0, 4);
        p = problem(GEMM_TUNED_F32, "nn", batch, 0, 0);
        p.stride_a += 1;
        run(tuned, "an unaligned stride", p, 0, 0, 0);
        run(other, "another handle", problem(GEMM_TUNED_F32, "nn", plain, 0, 0), 0, 0, 0);
    }
    gemm_tuned_destroy(tuned);
    gemm_tuned_destroy(other);
    printf("handles %d\n", lt_handles == NULL ? -1 : lt_handles());
    return 0;
}
