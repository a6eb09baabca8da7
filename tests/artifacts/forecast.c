/* Says what an exported artifact chooses without a GPU for f32 products that are not transposed, a line each, and with which
 * predicted time: its arguments are MxNxK or MxNxKxBATCH. */
#include <stdio.h>

#include "gemm_tuned.h"

int main(int count, char **words)
{
    int i;
    for (i = 1; i < count; i++) {
        gemm_tuned_problem problem = gemm_tuned_default_problem();
        gemm_tuned_choice choice = { sizeof choice, NULL, 0, 0, 0, 0 };
        int status;
        if (sscanf(words[i], "%lldx%lldx%lldx%lld", &problem.m, &problem.n, &problem.k, &problem.batch) < 3)
            return 2;
        problem.stride_a = (problem.m * problem.k + 3) / 4 * 4;
        problem.stride_b = (problem.k * problem.n + 3) / 4 * 4;
        problem.stride_d = (problem.m * problem.n + 3) / 4 * 4;
        status = gemm_tuned_choose(NULL, &problem, (size_t)-1, &choice);
        printf("%d %s %.17g\n", status, choice.name, choice.expected_us);
    }
    return 0;
}
