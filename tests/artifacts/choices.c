/* Calls an exported C artifact for problems of the standard input, a line each:
 *
 *     LAYOUT M N K BATCH LDA LDB LDD A B D WORKSPACE BYTES
 *     DTYPE DTYPE_B DTYPE_D COMPUTE BIAS ROW_SCALE COL_SCALE RESIDUAL MUL C LDC EPILOGUE
 *
 * (a line) with the matrices of a batch one after the other, `-` for no epilogue and 0 for no C, and says for each what was launched: the record of
 * stub_driver.c, `refused`, or `none` for no kernel. Before and after, it makes the mistakes that are harmless. */
#include <stdio.h>
#include <string.h>

#include "gemm_tuned.h"

void stub_begin(void);
const char *stub_recorded(void);
void *stub_current(void);

#define NUMBERS 23

/* Whether an address that only gemm_tuned_run sees is none. */
static int has_bad_address(const long long *v, const char *epilogue)
{
    static const char *const names[5] = { "bias", "row-scale", "col-scale", "residual", "mul" };
    static const int bytes[5] = { 4, 2, 2, 4, 1 };
    int i, bad = v[7] == 0 || v[8] == 0 || v[9] == 0 || v[21] % bytes[v[14]] != 0;
    for (i = 0; i < 5; i++) {
        int element = i == 1 || i == 2 ? 4 : bytes[v[14]];
        bad |= strstr(epilogue, names[i]) != NULL && (v[16 + i] == 0 || v[16 + i] % element != 0);
    }
    return bad;
}

/* What a call launches. */
static const char *answer(gemm_tuned *tuned, const char *layout, const long long *v, const char *epilogue)
{
    static const float factors[2] = { -0.75f, 0.5f };
    static const int whole_factors[2] = { -3, 2 };
    gemm_tuned_problem problem = gemm_tuned_default_problem();
    gemm_tuned_operands operands = gemm_tuned_no_operands();
    gemm_tuned_choice choice = { sizeof choice, NULL, 0, 0, 0, 0 };
    char text[200];
    int status, checked, chosen, again;
    problem.transpose_a = layout[0] == 't';
    problem.transpose_b = layout[1] == 't';
    problem.m = v[0], problem.n = v[1], problem.k = v[2], problem.batch = v[3];
    problem.lda = v[4], problem.ldb = v[5], problem.ldd = v[6];
    problem.stride_a = v[4] * (problem.transpose_a ? v[2] : v[0]);
    problem.stride_b = v[5] * (problem.transpose_b ? v[1] : v[2]);
    problem.stride_d = v[6] * v[0];
    problem.alignment = (int)((v[7] | v[8] | v[9] | 256) & -(v[7] | v[8] | v[9] | 256));
    problem.dtype = (int)v[12], problem.dtype_b = (int)v[13], problem.dtype_d = (int)v[14];
    problem.compute = (int)v[15];
    problem.epilogue = epilogue[0] == '-' ? NULL : epilogue;
    problem.ldc = v[22], problem.stride_c = v[22] * v[0];
    operands.alpha = v[14] == GEMM_TUNED_I32 ? (const void *)whole_factors : (const void *)factors;
    operands.beta = v[14] == GEMM_TUNED_I32 ? (const void *)(whole_factors + 1) : (const void *)(factors + 1);
    operands.bias = (const void *)(size_t)v[16];
    operands.row_scale = (const void *)(size_t)v[17];
    operands.col_scale = (const void *)(size_t)v[18];
    operands.residual = (const void *)(size_t)v[19];
    operands.mul = (const void *)(size_t)v[20];
    operands.c = (const void *)(size_t)v[21];
    operands.a = (const void *)(size_t)v[7];
    operands.b = (const void *)(size_t)v[8];
    operands.d = (void *)(size_t)v[9];
    status = gemm_tuned_run(tuned, &problem, &operands, (void *)(size_t)v[10], (size_t)v[11], NULL);
    if (stub_current() != NULL)
        return "the context is not the caller's";
    /* What is said of it beforehand. */
    checked = gemm_tuned_check(&problem, text, sizeof text);
    chosen = gemm_tuned_choose(tuned, &problem, v[10] == 0 ? 0 : (size_t)v[11], &choice);
    if (status == GEMM_TUNED_BAD_ARGUMENT) {
        return checked == status && text[0] != 0 && chosen == status ? "refused"
               : has_bad_address(v, epilogue) && checked == 0        ? "refused"
                                                                     : "the check says nothing";
    }
    if (checked != 0 || chosen != status || (status == 0 && choice.workspace_bytes > (size_t)v[11]))
        return "the choice is another one";
    if (status == GEMM_TUNED_NO_KERNEL)
        return "none";
    if (status != 0)
        return gemm_tuned_status_string(status);
    /* The remembered choice is the same. */
    if (strlen(stub_recorded()) < 30000) {
        static char before[1 << 16];
        strcpy(before, stub_recorded());
        stub_begin();
        again = gemm_tuned_run(tuned, &problem, &operands, (void *)(size_t)v[10], (size_t)v[11], NULL);
        if (again != 0 || strcmp(before, stub_recorded()) != 0)
            return "the second call is another one";
    }
    return stub_recorded();
}

int main(void)
{
    gemm_tuned *tuned, *second;
    char layout[8], epilogue[100];
    long long v[NUMBERS];
    int i, status;
    gemm_tuned_destroy(NULL);
    if (gemm_tuned_version() != GEMM_TUNED_VERSION || gemm_tuned_create(NULL, 0) != GEMM_TUNED_BAD_ARGUMENT
        || gemm_tuned_create(&tuned, -2) != GEMM_TUNED_BAD_ARGUMENT
        || gemm_tuned_create(&tuned, GEMM_TUNED_CURRENT_CONTEXT) <= 0 || gemm_tuned_create(&tuned, 7) <= 0
        || tuned != NULL)
        return 3;
    if ((status = gemm_tuned_create(&tuned, 0)) != 0 || (status = gemm_tuned_create(&second, 0)) != 0) {
        fprintf(stderr, "gemm_tuned_create: %s\n", gemm_tuned_status_string(status));
        return 5;
    }
    gemm_tuned_destroy(second);
    while (scanf("%7s", layout) == 1) {
        for (i = 0; i < NUMBERS; i++)
            if (scanf("%lld", &v[i]) != 1)
                return 6;
        if (scanf("%99s", epilogue) != 1)
            return 6;
        stub_begin();
        printf("%s\n", answer(tuned, layout, v, epilogue));
    }
    gemm_tuned_destroy(tuned);
    return 0;
}
