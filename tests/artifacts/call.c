/* Calls an exported artifact for problems that were tuned or not, and with mistakes. */
#include <stdio.h>
#include <string.h>

#include "gemm_tuned.h"

static float memory[4096];
static __attribute__((aligned(256))) char workspace[1 << 16];

/* Says what a problem is refused with. */
static void say(const char *what, const gemm_tuned_problem *problem)
{
    char text[200];
    int status = gemm_tuned_check(problem, text, sizeof text);
    printf("%s: %d %s\n", what, status, text);
}

int main(void)
{
    static const long long shapes[][6] = {
        { 44, 31, 23, 0, 0, 0 },    /* the tuned one */
        { 44, 31, 23, 25, 33, 35 }, /* padded */
        { 999, 1001, 77, 0, 0, 0 },
        { 16, 64, 2912, 0, 0, 0 },
        { 512, 512, 65536, 0, 0, 0 }, /* for more than the pool has */
    };
    static const float alpha = 1.5f, beta = 0.5f, none = 0;
    gemm_tuned_operands operands = gemm_tuned_no_operands();
    gemm_tuned_problem good = gemm_tuned_default_problem(), problem = good;
    gemm_tuned_choice choice;
    gemm_tuned *tuned;
    int status, i;
    printf("version %d\n", gemm_tuned_version());
    choice.size = sizeof choice;
    operands.a = memory, operands.b = memory + 64, operands.d = memory + 128;
    good.m = 44, good.n = 31, good.k = 23;
    status = gemm_tuned_choose(NULL, &good, (size_t)-1, &choice);
    printf("without a GPU: %d %s tuned %d deterministic %d\n", status, choice.name, choice.tuned,
           choice.deterministic);
    status = gemm_tuned_create(&tuned, 0);
    printf("create: %s\n", gemm_tuned_status_string(status));
    for (i = 0; status == 0 && i < (int)(sizeof shapes / sizeof shapes[0]); i++) {
        const long long *s = shapes[i];
        problem.m = s[0], problem.n = s[1], problem.k = s[2];
        problem.lda = s[3], problem.ldb = s[4], problem.ldd = s[5];
        operands.alpha = i == 0 ? NULL : &alpha, operands.beta = i == 0 ? NULL : &beta;
        status = gemm_tuned_run(tuned, &problem, &operands, NULL, 0, NULL);
    }
    problem = good;
    problem.batch = 7, problem.stride_a = 0, problem.stride_b = 800, problem.stride_d = 44 * 31;
    if (status == 0)
        status = gemm_tuned_run(tuned, &problem, &operands, NULL, 0, NULL);
    printf("runs: %s\n", gemm_tuned_status_string(status));
    say("good", &good);
    say("no problem", NULL);
    problem = good, problem.size = 8;
    say("size", &problem);
    problem = good, problem.dtype = 9;
    say("dtype", &problem);
    problem = good, problem.dtype_b = -2;
    say("dtype_b", &problem);
    problem = good, problem.dtype_b = GEMM_TUNED_I8;
    say("mixed types", &problem);
    problem = good, problem.dtype_d = GEMM_TUNED_I32;
    say("stored type", &problem);
    problem = good, problem.compute = GEMM_TUNED_COMPUTE_BF16;
    say("compute", &problem);
    problem = good, problem.compute = 7;
    say("no compute", &problem);
    problem = good, problem.reserved = 1;
    say("reserved", &problem);
    problem = good, problem.epilogue = "bias,gelu";
    say("epilogue", &problem);
    problem = good, problem.epilogue = "bias,tanh";
    say("operation", &problem);
    problem = good, problem.epilogue = "bias,";
    say("no operation", &problem);
    problem = good, problem.epilogue = "relu,bias,relu";
    say("twice", &problem);
    problem = good, problem.dtype = GEMM_TUNED_I8, problem.epilogue = "silu";
    say("integers", &problem);
    problem = good, problem.dtype = GEMM_TUNED_I8, problem.dtype_d = GEMM_TUNED_BF16;
    say("no scale", &problem);
    problem.epilogue = "row-scale,gelu";
    say("scale", &problem);
    problem = good, problem.ldc = 30;
    say("short rows of C", &problem);
    problem = good, problem.transpose_b = 2;
    say("transpose", &problem);
    problem = good, problem.m = 0;
    say("no rows", &problem);
    operands.a = operands.b = NULL;
    problem.n = 0;
    printf("nothing to do %d\n", gemm_tuned_run(tuned, &problem, &operands, NULL, 0, NULL));
    printf("nothing to choose %d", gemm_tuned_choose(tuned, &problem, 0, &choice));
    printf(" %s\n", choice.name);
    problem = good, problem.k = 0, operands.beta = NULL;
    printf("no depth %d\n", gemm_tuned_run(tuned, &problem, &operands, NULL, 0, NULL));
    operands.beta = &beta;
    printf("no depth, of the pool %d\n", gemm_tuned_run(tuned, &problem, &operands, NULL, 0, NULL));
    problem.m = 20000;
    printf("no memory left %d\n", gemm_tuned_run(tuned, &problem, &operands, NULL, 0, NULL));
    problem.m = good.m;
    printf("no allocation %d\n", gemm_tuned_set_allocation(tuned, GEMM_TUNED_NO_ALLOCATION));
    printf("no workspace %d\n", gemm_tuned_run(tuned, &problem, &operands, NULL, 0, NULL));
    printf("reserve 0 bytes %d\n", gemm_tuned_reserve(tuned, NULL, 0));
    printf("reserve for several streams %d\n", gemm_tuned_reserve(tuned, (void *)2, 1));
    printf("reserve %d\n", gemm_tuned_reserve(tuned, NULL, 11263));
    printf("too little %d\n", gemm_tuned_run(tuned, &problem, &operands, NULL, 0, NULL) == 0);
    printf("reserve %d\n", gemm_tuned_reserve(tuned, NULL, 1 << 20));
    printf("reserve less %d\n", gemm_tuned_reserve(tuned, NULL, 1 << 19));
    printf("reserved %d\n", gemm_tuned_run(tuned, &problem, &operands, NULL, 0, NULL));
    printf("another stream %d\n", gemm_tuned_run(tuned, &problem, &operands, NULL, 0, &status));
    printf("reserve too much %d\n", gemm_tuned_reserve(tuned, &status, 1 << 21));
    printf("allocation 2: %d\n", gemm_tuned_set_allocation(tuned, 2));
    printf("zeros %d", gemm_tuned_choose(tuned, &problem, 1 << 20, &choice));
    printf(" %s %d\n", choice.name, (int)choice.workspace_bytes);
    printf("zeros %d\n", gemm_tuned_run(tuned, &problem, &operands, workspace, sizeof workspace, NULL));
    /* With an alpha of 0, A and B are not read either. */
    problem = good, operands.alpha = &none, operands.beta = NULL;
    printf("no factor %d\n", gemm_tuned_run(tuned, &problem, &operands, NULL, 0, NULL));
    printf("no factor to measure %d\n", gemm_tuned_measure(tuned, &problem, &operands, NULL));
    operands.beta = &beta, operands.a = memory, operands.b = memory + 64;
    printf("no factor %d\n", gemm_tuned_run(tuned, &problem, &operands, workspace, sizeof workspace, NULL));
    printf("no factor, and little lent %d\n", gemm_tuned_run(tuned, &problem, &operands, workspace, 128, NULL));
    operands.alpha = &alpha;
    problem = good, problem.k = 1LL << 31;
    say("too long", &problem);
    problem = good, problem.batch = -1;
    say("batch", &problem);
    problem = good, problem.lda = 22;
    say("short rows", &problem);
    problem = good, problem.ldb = 1LL << 40;
    say("long rows", &problem);
    problem = good, problem.batch = 2, problem.stride_d = 44 * 31 - 1;
    say("overlap", &problem);
    problem = good, problem.batch = 2, problem.stride_d = 44 * 31, problem.stride_a = -1;
    say("stride", &problem);
    problem = good, problem.batch = 1000, problem.stride_d = 44 * 31, problem.stride_a = 1LL << 40;
    say("span", &problem);
    problem = good, problem.alignment = 2;
    say("alignment", &problem);
    problem = good, problem.size = offsetof(gemm_tuned_problem, dtype_b), problem.dtype_b = 99;
    say("version 1", &problem);
    operands.size = offsetof(gemm_tuned_operands, c), operands.c = (const void *)1;
    printf("operands of version 1 %d\n", gemm_tuned_run(tuned, &problem, &operands, NULL, 0, NULL));
    operands.size = sizeof operands;
    printf("odd C %d\n", gemm_tuned_run(tuned, &good, &operands, NULL, 0, NULL));
    operands.c = operands.d;
    problem = good, problem.ldc = 40;
    printf("C over D %d\n", gemm_tuned_run(tuned, &problem, &operands, NULL, 0, NULL));
    operands.c = NULL;
    problem = good, problem.epilogue = "bias";
    printf("no bias %d\n", gemm_tuned_run(tuned, &problem, &operands, NULL, 0, NULL));
    operands.a = (const char *)memory + 1;
    printf("odd address %d\n", gemm_tuned_run(tuned, &good, &operands, NULL, 0, NULL));
    operands.a = NULL;
    printf("no pointer %d\n", gemm_tuned_run(tuned, &good, &operands, NULL, 0, NULL));
    printf("no operands %d\n", gemm_tuned_run(tuned, &good, NULL, NULL, 0, NULL));
    operands = gemm_tuned_no_operands(), operands.size = 1;
    printf("size of operands %d\n", gemm_tuned_run(tuned, &good, &operands, NULL, 0, NULL));
    printf("no handle %d\n", gemm_tuned_run(NULL, &good, &operands, NULL, 0, NULL));
    printf("no choice %d\n", gemm_tuned_choose(tuned, &good, 0, NULL));
    problem = good, problem.dtype = GEMM_TUNED_I32;
    printf("no kernel: %s\n", gemm_tuned_status_string(gemm_tuned_choose(tuned, &problem, 0, &choice)));
    gemm_tuned_destroy(tuned);
    for (i = -6; i < 0; i++)
        printf("%d: %s\n", i, gemm_tuned_status_string(i));
    return 0;
}
