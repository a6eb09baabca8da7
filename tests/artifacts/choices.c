/* Calls an exported C artifact for problems of the standard input, a line each:
 *
 *     LAYOUT M N K BATCH LDA LDB LDC A B C WORKSPACE BYTES
 *
 * with the matrices of a batch one after the other, and says for each what was launched: the record of
 * stub_driver.c, `refused`, or `none` for no kernel. Before and after, it makes the mistakes that are harmless. */
#include <stdio.h>
#include <string.h>

#include "gemm_tuned.h"

void stub_begin(void);
const char *stub_recorded(void);
void *stub_current(void);

/* What a call launches. */
static const char *answer(gemm_tuned *tuned, const char *layout, const long long *v)
{
    static const float alpha = -0.75f, beta = 0.5f;
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
    operands.alpha = &alpha, operands.beta = &beta;
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
        int null = v[7] == 0 || v[8] == 0 || v[9] == 0;
        return checked == status && text[0] != 0 && chosen == status ? "refused"
               : null && checked == 0                                ? "refused"
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
    char layout[8];
    long long v[12];
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
        for (i = 0; i < 12; i++)
            if (scanf("%lld", &v[i]) != 1)
                return 6;
        stub_begin();
        printf("%s\n", answer(tuned, layout, v));
    }
    gemm_tuned_destroy(tuned);
    return 0;
}
