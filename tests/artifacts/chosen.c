/* Says what an exported artifact chooses on a GPU for f32 products, a line each: its arguments are MxNxK. */
#include <stdio.h>

#include "gemm_tuned.h"

int main(int count, char **words)
{
    gemm_tuned *tuned;
    int i, status = gemm_tuned_create(&tuned, 0);
    if (status != 0) {
        fprintf(stderr, "gemm_tuned_create: %s\n", gemm_tuned_status_string(status));
        return 1;
    }
    for (i = 1; i < count; i++) {
        gemm_tuned_problem problem = gemm_tuned_default_problem();
        gemm_tuned_choice choice = { sizeof choice, NULL, 0, 0, 0, 0 };
        if (sscanf(words[i], "%lldx%lldx%lld", &problem.m, &problem.n, &problem.k) != 3)
            return 2;
        status = gemm_tuned_choose(tuned, &problem, (size_t)-1, &choice);
        printf("%s\n", status == 0 ? choice.name : gemm_tuned_status_string(status));
    }
    gemm_tuned_destroy(tuned);
    return 0;
}
