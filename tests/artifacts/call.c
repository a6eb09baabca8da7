/* Calls an exported artifact for shapes that were tuned or not, and with mistakes. */
#include <stdio.h>

#include "gemm_tuned.h"

static float memory[4096];

int main(void)
{
    static const int shapes[][6] = {
        { 44, 31, 23, 23, 31, 31 },       /* the tuned one */
        { 44, 31, 23, 25, 33, 35 },       /* padded */
        { 999, 1001, 77, 77, 1001, 1001 },
        { 1, 5000, 5000, 5000, 5000, 5000 },
        { 4096, 4096, 4096, 4096, 4096, 4096 },
    };
    gemm_tuned tuned;
    float *a = memory, *b = memory + 64, *c = memory + 128;
    int status = gemm_tuned_open(&tuned), i;
    printf("open %d\n", status);
    for (i = 0; status == 0 && i < (int)(sizeof shapes / sizeof shapes[0]); i++) {
        const int *s = shapes[i];
        status = gemm_tuned_f32_nn(&tuned, NULL, s[0], s[1], s[2], 1.5f, a, s[3], b, s[4], 0.5f, c,
                                   s[5]);
    }
    printf("calls %d\n", status);
    printf("odd address %d\n",
           gemm_tuned_f32_nn(&tuned, NULL, 64, 64, 64, 1, a + 1, 64, b, 64, 0, c, 64));
    printf("short rows %d\n", gemm_tuned_f32_nn(&tuned, NULL, 8, 8, 8, 1, a, 7, b, 8, 0, c, 8));
    printf("no pointer %d\n", gemm_tuned_f32_nn(&tuned, NULL, 8, 8, 8, 1, NULL, 8, b, 8, 0, c, 8));
    printf("no rows %d\n", gemm_tuned_f32_nn(&tuned, NULL, 0, 8, 8, 1, a, 8, b, 8, 0, c, 8));
    gemm_tuned_close(&tuned);
    return 0;
}
