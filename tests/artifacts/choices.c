/* Calls an exported C artifact for problems of the standard input, a line each:
 *
 *     LAYOUT M N K LDA LDB LDC A B C WORKSPACE BYTES
 *
 * and says for each what was launched: the record of stub_driver.c, `refused`, `none` for no kernel, or `beyond`
 * for a value that no int holds. Before and after, it makes the mistakes that are harmless. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "gemm_tuned.h"

void stub_begin(unsigned long long address, unsigned long long bytes);
const char *stub_recorded(void);
CUresult cuCtxSetCurrent(void *context);
CUresult cuDevicePrimaryCtxRetain(void **context, CUdevice device);

#define CALL(layout)                                                                               \
    gemm_tuned_f32_##layout(&tuned, NULL, (int)v[0], (int)v[1], (int)v[2], -0.75f,                 \
                            (const float *)(size_t)v[6], (int)v[3], (const float *)(size_t)v[7],   \
                            (int)v[4], 0.5f, (float *)(size_t)v[8], (int)v[5])

int main(void)
{
    static gemm_tuned tuned;
    char layout[8];
    long long v[11];
    void *context;
    int i, status;
    gemm_tuned_close(NULL);
    gemm_tuned_workspace(NULL, NULL, 0);
    if (gemm_tuned_open(NULL) != GEMM_TUNED_BAD_ARGUMENT)
        return 3;
    if (cuDevicePrimaryCtxRetain(&context, 0) != 0 || cuCtxSetCurrent(context) != 0)
        return 4;
    if ((status = gemm_tuned_open(&tuned)) != 0) {
        fprintf(stderr, "open failed: %d\n", status);
        return 5;
    }
    while (scanf("%7s", layout) == 1) {
        for (i = 0; i < 11; i++)
            if (scanf("%lld", &v[i]) != 1)
                return 6;
        stub_begin(0, 0);
        gemm_tuned_workspace(&tuned, (void *)(size_t)v[9], (size_t)v[10]);
        for (i = 0; i < 6 && v[i] <= INT_MAX; i++) {
        }
        if (i < 6)
            printf("beyond\n");
        else {
            status = GEMM_TUNED_NO_KERNEL;
#ifdef HAS_NN
            if (strcmp(layout, "nn") == 0)
                status = CALL(nn);
#endif
#ifdef HAS_NT
            if (strcmp(layout, "nt") == 0)
                status = CALL(nt);
#endif
#ifdef HAS_TN
            if (strcmp(layout, "tn") == 0)
                status = CALL(tn);
#endif
#ifdef HAS_TT
            if (strcmp(layout, "tt") == 0)
                status = CALL(tt);
#endif
            if (status == GEMM_TUNED_BAD_ARGUMENT)
                printf("refused\n");
            else if (status == GEMM_TUNED_NO_KERNEL)
                printf("none\n");
            else if (status != 0)
                printf("failed %d\n", status);
            else
                printf("%s\n", stub_recorded());
        }
    }
    gemm_tuned_close(&tuned);
    gemm_tuned_close(&tuned);
    return 0;
}
