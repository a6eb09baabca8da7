/* Multiplies small whole numbers on a GPU by the plain calls of an exported C artifact, without a workspace: column-major
 * products and batches, while a stream is captured, with reserved memory, and with extents of 0. All results are exact.
 * Built and run by check.sh. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "gemm_tuned.h"

typedef unsigned long long CUdeviceptr;
int cuInit(unsigned flags);
int cuDeviceGet(int *device, int ordinal);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuStreamCreate(void **stream, unsigned flags);
int cuStreamSynchronize(void *stream);
int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamEndCapture(void *stream, void **graph);
int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
int cuGraphLaunch(void *exec, void *stream);
int cuGraphExecDestroy(void *exec);
int cuGraphDestroy(void *graph);
int cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
int cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
int cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);

#define MOST (1 << 20)
/* How a product is called. */
enum { PLAIN, CAPTURED, RESERVED, FORBIDDEN, WAYS };
static const char *const ways[WAYS] = { "plain", "captured", "reserved", "no allocation" };

static float a[MOST], b[MOST], c[MOST], expected[MOST];
static CUdeviceptr at[3];
static gemm_tuned *tuned;
static void *stream;
static int failures = 0, products = 0;

static void must(int status, const char *what)
{
    if (status != 0) {
        fprintf(stderr, "%s failed: %s\n", what, gemm_tuned_status_string(status));
        exit(1);
    }
}

/* Whether C is the host's, element by element: 0 is -0. */
static int is_right(void)
{
    int i;
    for (i = 0; i < MOST; i++)
        if (c[i] != expected[i])
            return 0;
    return 1;
}

/* A product and its batch in columns, with gaps of `pad` between them. */
typedef struct {
    int ta, tb, m, n, k, batch, pad;
    float alpha, beta;
} product;

static int queue(const product *p, int lda, int ldb, int ldc, long long sa, long long sb, long long sc)
{
    return gemm_tuned_sgemm_strided_batched(tuned, p->ta, p->tb, p->m, p->n, p->k, &p->alpha,
                                            (const float *)(uintptr_t)at[0], lda, sa, (const float *)(uintptr_t)at[1],
                                            ldb, sb, &p->beta, (float *)(uintptr_t)at[2], ldc, sc, p->batch, stream);
}

/* Multiplies in one way, twice where a graph is launched twice, and compares all of C with the host's. */
static void multiply(const product *p, int way)
{
    const int lda = (p->ta ? p->k : p->m) + p->pad + 1, ldb = (p->tb ? p->n : p->k) + p->pad + 1;
    const int ldc = p->m + p->pad + 1, launches = way == CAPTURED ? 2 : 1;
    const long long sa = (long long)lda * (p->ta ? p->m : p->k), sb = (long long)ldb * (p->tb ? p->k : p->n);
    const long long sc = (long long)ldc * p->n;
    int status, i, j, l, x, turn;
    for (i = 0; i < MOST; i++) {
        a[i] = (float)(i * 7 % 5 - 2);
        b[i] = (float)(i * 5 % 7 - 3);
        c[i] = expected[i] = (float)(i % 4 * 2);
    }
    for (turn = 0; turn < launches; turn++)
        for (x = 0; x < p->batch; x++)
            for (j = 0; j < p->n; j++)
                for (i = 0; i < p->m; i++) {
                    float sum = 0, *own = &expected[x * sc + i + (long long)j * ldc];
                    for (l = 0; l < p->k; l++)
                        sum += a[x * sa + (p->ta ? l + (long long)i * lda : i + (long long)l * lda)]
                               * b[x * sb + (p->tb ? j + (long long)l * ldb : l + (long long)j * ldb)];
                    *own = p->alpha * sum + (p->beta == 0 ? 0 : p->beta * *own);
                }
    must(cuMemcpyHtoD_v2(at[0], a, sizeof a), "cuMemcpyHtoD");
    must(cuMemcpyHtoD_v2(at[1], b, sizeof b), "cuMemcpyHtoD");
    must(cuMemcpyHtoD_v2(at[2], c, sizeof c), "cuMemcpyHtoD");
    if (way == CAPTURED) {
        void *graph, *exec;
        must(cuStreamBeginCapture_v2(stream, 0), "cuStreamBeginCapture");
        status = queue(p, lda, ldb, ldc, sa, sb, sc);
        must(cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
        must(cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
        for (turn = 0; turn < launches; turn++)
            must(cuGraphLaunch(exec, stream), "cuGraphLaunch");
        must(cuStreamSynchronize(stream), "the graph");
        cuGraphExecDestroy(exec);
        cuGraphDestroy(graph);
    } else {
        status = queue(p, lda, ldb, ldc, sa, sb, sc);
    }
    must(cuStreamSynchronize(stream), "the product");
    must(cuMemcpyDtoH_v2(c, at[2], sizeof c), "cuMemcpyDtoH");
    /* Not every export has every layout, or kernels without a workspace. */
    if (status == GEMM_TUNED_NO_KERNEL)
        return;
    products++;
    if (status != 0 || !is_right()) {
        printf("plain  %s: transa %d transb %d %dx%dx%d batch %d alpha %g beta %g: %s\n", ways[way], p->ta, p->tb, p->m,
               p->n, p->k, p->batch, (double)p->alpha, (double)p->beta,
               status != 0 ? gemm_tuned_status_string(status) : "another C");
        failures++;
    }
}

int main(void)
{
    static const product all[] = {
        { 0, 0, 200, 96, 300, 1, 0, 1, 0 },    { 1, 0, 64, 128, 512, 1, 3, 2, -1 },
        { 0, 1, 33, 65, 1000, 1, 0, 1, 1 },    { 1, 1, 77, 50, 31, 1, 1, -1, 0.5f },
        { 0, 0, 40, 30, 20, 5, 0, 1, 1 },      { 0, 1, 16, 24, 400, 3, 2, 1, 0 },
        { 0, 0, 8, 8, 20000, 1, 0, 1, 0 },     { 0, 0, 200, 96, 0, 1, 0, 1, 0 },
        { 0, 0, 200, 96, 0, 1, 3, 1, 1 },      { 0, 0, 200, 96, 0, 1, 3, 1, 0.5f },
        { 1, 1, 40, 30, 0, 5, 1, 1, -0.5f },   { 0, 0, 0, 30, 20, 1, 0, 1, 0 },
        { 0, 0, 30, 0, 20, 2, 0, 1, 0 },
    };
    void *context;
    int device, way, i;
    must(cuInit(0), "cuInit");
    must(cuDeviceGet(&device, 0), "cuDeviceGet");
    must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must(cuStreamCreate(&stream, 1), "cuStreamCreate");
    must(gemm_tuned_create(&tuned, 0), "gemm_tuned_create");
    for (i = 0; i < 3; i++)
        must(cuMemAlloc_v2(&at[i], sizeof a), "cuMemAlloc");
    for (way = 0; way < WAYS; way++) {
        if (way == FORBIDDEN) {
            gemm_tuned_destroy(tuned);
            must(gemm_tuned_create(&tuned, 0), "gemm_tuned_create");
            must(gemm_tuned_set_allocation(tuned, GEMM_TUNED_NO_ALLOCATION), "gemm_tuned_set_allocation");
        }
        if (way == RESERVED)
            must(gemm_tuned_reserve(tuned, stream, 16 << 20), "gemm_tuned_reserve");
        for (i = 0; i < (int)(sizeof all / sizeof all[0]); i++)
            multiply(&all[i], way);
    }
    gemm_tuned_destroy(tuned);
    printf("plain  %d products, %d wrong\n", products, failures);
    return failures > 0 || products < 20;
}
