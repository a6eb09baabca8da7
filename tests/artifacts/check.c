/* Multiplies random matrices on a GPU through an exported C artifact: for each shape, the largest error
 * of sampled elements over the bound of the error analysis, and the median time. Built and run by
 * check.sh. Each argument is MxNxK, MxNxKxBATCH, MxNxK:US with the time that the tuner measured, or MxNxK+PAD
 * with rows that are longer by PAD elements. Fails where an error is beyond the bound, or a time twice beyond
 * SLOWEST times the tuner's. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gemm_tuned.h"

typedef int CUresult;
typedef int CUdevice;
typedef struct CUstream_st *CUstream;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
#define CU_STREAM_NON_BLOCKING 1
#define CU_STREAM_CAPTURE_MODE_GLOBAL 0
#define cuMemAlloc cuMemAlloc_v2
#define cuMemFree cuMemFree_v2
#define cuMemcpyHtoD cuMemcpyHtoD_v2
#define cuMemcpyDtoH cuMemcpyDtoH_v2
#define cuStreamBeginCapture cuStreamBeginCapture_v2
CUresult cuInit(unsigned flags);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuStreamCreate(CUstream *stream, unsigned flags);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamBeginCapture(CUstream stream, int mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
CUresult cuGraphExecDestroy(CUgraphExec exec);
CUresult cuGraphDestroy(CUgraph graph);
CUresult cuEventCreate(CUevent *event, unsigned flags);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventElapsedTime(float *ms, CUevent begin, CUevent end);
CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes);
CUresult cuMemFree(CUdeviceptr address);
CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream);

#define SAMPLES 40
#define SAMPLE_US 1000.0
#define MAX_LAUNCHES 256
/* Launches of the samples that say how many a sample has where nobody knows a time. */
#define FIRST_LAUNCHES 10
#define SLOWEST 1.03
#define ELEMENTS 4000
/* Operands rotate through so much, more than twice the L2 cache of an H200; it is overwritten besides. */
#define ROTATED_BYTES (160ull << 20)
#define MAX_SETS MAX_LAUNCHES

/* A product, and the sets of operands that its launches rotate through: A, B and C of each from `at` on,
 * `bytes` long. */
typedef struct {
    gemm_tuned *tuned;
    gemm_tuned_problem problem;
    CUstream stream;
    CUevent begin, end;
    CUdeviceptr flushed, workspace, at[MAX_SETS];
    size_t workspace_bytes, bytes[3];
    int sets;
} product;

static uint64_t state = 1;

static double uniform(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(state >> 11) / 4503599627370496.0 - 1;
}

static void must(int status, const char *what)
{
    if (status != 0) {
        fprintf(stderr, "%s failed: %s\n", what, gemm_tuned_status_string(status));
        exit(1);
    }
}

static int compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The bound of src/validate/bound.rs, in units of |alpha| |A| |B|. */
static double bound(int k)
{
    double n = k + 3.0, u = 1.0 / (1 << 24), worst = n * u / (1 - n * u);
    double probable = expm1(10 * sqrt(n) * u + n * u * u / (1 - u));
    return worst < probable ? worst : probable;
}

static size_t aligned(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static void call(const product *own, int set)
{
    CUdeviceptr a = own->at[set], b = a + aligned(own->bytes[0]), c = b + aligned(own->bytes[1]);
    gemm_tuned_operands operands = gemm_tuned_no_operands();
    operands.a = (const void *)(uintptr_t)a;
    operands.b = (const void *)(uintptr_t)b;
    operands.d = (void *)(uintptr_t)c;
    must(gemm_tuned_run(own->tuned, &own->problem, &operands, (void *)(uintptr_t)own->workspace,
                        own->workspace_bytes, own->stream),
         "gemm_tuned_run");
}

/* Whether D becomes half of what it is, `before`, with an alpha of 0 and a beta of 0.5, without A and B. A library
 * without a kernel for products of zeros says so. */
static int halves(const product *own, const float *before)
{
    static const float none = 0, half = 0.5f;
    const gemm_tuned_problem *p = &own->problem;
    CUdeviceptr at = own->at[0] + aligned(own->bytes[0]) + aligned(own->bytes[1]);
    gemm_tuned_operands operands = gemm_tuned_no_operands();
    float *after = (float *)malloc(own->bytes[2]);
    long long row, column, different = 0;
    int status;
    operands.d = (void *)(uintptr_t)at;
    operands.alpha = &none, operands.beta = &half;
    status = gemm_tuned_run(own->tuned, p, &operands, (void *)(uintptr_t)own->workspace, own->workspace_bytes, own->stream);
    if (status == GEMM_TUNED_NO_KERNEL) {
        printf("c      no kernel multiplies zeros for an alpha of 0\n");
        free(after);
        return 1;
    }
    must(status, "gemm_tuned_run with an alpha of 0");
    must(cuStreamSynchronize(own->stream), "the product of zeros");
    must(cuMemcpyDtoH(after, at, own->bytes[2]), "cuMemcpyDtoH");
    for (row = 0; row < p->m * p->batch; row++)
        for (column = 0; column < p->n; column++)
            different += after[row * p->ldd + column] != half * before[row * p->ldd + column];
    if (different > 0)
        printf("c      %lld elements are wrong for an alpha of 0\n", different);
    free(after);
    return different == 0;
}

/* The first call of a problem, while its stream is captured. */
static void captured_call(const product *own)
{
    CUgraph graph;
    CUgraphExec exec;
    must(cuStreamBeginCapture(own->stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture");
    call(own, 0);
    must(cuStreamEndCapture(own->stream, &graph), "cuStreamEndCapture");
    must(cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
    must(cuGraphLaunch(exec, own->stream), "cuGraphLaunch");
    must(cuStreamSynchronize(own->stream), "the kernel");
    cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
}

/* As many launches as the tuner has in a sample (src/measure/sampling.rs): to start a recorded graph
 * takes as long for one as for all. */
static int launches_for(double us)
{
    double launches = ceil(SAMPLE_US / us);
    return launches < 1 ? 1 : launches > MAX_LAUNCHES ? MAX_LAUNCHES : (int)launches;
}

/* The median time of a launch. Replays of recorded launches, as the tuner's samples are: they have no
 * time of the host's. */
static double median_us(const product *own, int launches)
{
    CUgraph graph;
    CUgraphExec exec;
    float times[SAMPLES];
    int s;
    must(cuStreamBeginCapture(own->stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture");
    for (s = 0; s < launches; s++)
        call(own, s % own->sets);
    must(cuStreamEndCapture(own->stream, &graph), "cuStreamEndCapture");
    must(cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
    for (s = 0; s < SAMPLES; s++) {
        int turn;
        for (turn = 0; turn < 2; turn++)
            must(cuMemsetD8Async(own->flushed, (unsigned char)s, ROTATED_BYTES, own->stream),
                 "cuMemsetD8Async");
        must(cuEventRecord(own->begin, own->stream), "cuEventRecord");
        must(cuGraphLaunch(exec, own->stream), "cuGraphLaunch");
        must(cuEventRecord(own->end, own->stream), "cuEventRecord");
        must(cuStreamSynchronize(own->stream), "cuStreamSynchronize");
        must(cuEventElapsedTime(&times[s], own->begin, own->end), "cuEventElapsedTime");
    }
    cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
    qsort(times, SAMPLES, sizeof times[0], compare);
    return times[SAMPLES / 2] * 1000.0 / launches;
}

int main(int count, char **words)
{
    static product own;
    CUdevice device;
    CUcontext context;
    int i, failures = 0;
    must(cuInit(0), "cuInit");
    must(cuDeviceGet(&device, 0), "cuDeviceGet");
    must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must(cuStreamCreate(&own.stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must(cuEventCreate(&own.begin, 0), "cuEventCreate");
    must(cuEventCreate(&own.end, 0), "cuEventCreate");
    must(gemm_tuned_create(&own.tuned, 0), "gemm_tuned_create");
    must(cuMemAlloc(&own.flushed, ROTATED_BYTES), "cuMemAlloc");
    for (i = 1; i < count; i++) {
        gemm_tuned_problem *asked = &own.problem;
        gemm_tuned_choice choice;
        int m, n, k, batch = 1, lda, ldb, ldd, pad = 0, s, j, slow;
        size_t all;
        float *host[3];
        double expected = 0, worst = 0, limit, us;
        char *rest;
        if (sscanf(words[i], "%dx%dx%dx%d", &m, &n, &k, &batch) < 3)
            return 2;
        if ((rest = strchr(words[i], '+')) != NULL)
            pad = atoi(rest + 1);
        if ((rest = strchr(words[i], ':')) != NULL)
            expected = atof(rest + 1);
        lda = k + pad, ldb = n + pad, ldd = n + pad;
        *asked = gemm_tuned_default_problem();
        asked->m = m, asked->n = n, asked->k = k, asked->batch = batch;
        asked->lda = lda, asked->ldb = ldb, asked->ldd = ldd;
        asked->stride_a = (long long)m * lda;
        asked->stride_b = (long long)k * ldb;
        asked->stride_d = (long long)m * ldd;
        own.bytes[0] = (size_t)batch * m * lda * 4;
        own.bytes[1] = (size_t)batch * k * ldb * 4;
        own.bytes[2] = (size_t)batch * m * ldd * 4;
        for (j = 0, all = 0; j < 3; j++)
            all += aligned(own.bytes[j]);
        own.sets = ROTATED_BYTES / all < MAX_SETS ? (int)(ROTATED_BYTES / all) + 1 : MAX_SETS;
        for (j = 0; j < 3; j++) {
            size_t e, row = j == 0 ? lda : ldb, width = j == 0 ? k : n;
            host[j] = (float *)malloc(own.bytes[j]);
            for (e = 0; e < own.bytes[j] / 4; e++)
                host[j][e] = j == 2 || e % row >= width ? NAN : (float)uniform();
        }
        choice.size = sizeof choice;
        must(gemm_tuned_choose(own.tuned, asked, (size_t)-1, &choice), "gemm_tuned_choose");
        own.workspace = 0;
        own.workspace_bytes = choice.workspace_bytes;
        if (own.workspace_bytes > 0)
            must(cuMemAlloc(&own.workspace, own.workspace_bytes), "cuMemAlloc");
        for (s = 0; s < own.sets; s++) {
            must(cuMemAlloc(&own.at[s], all), "cuMemAlloc");
            for (j = 0, all = 0; j < 3; j++) {
                must(cuMemcpyHtoD(own.at[s] + all, host[j], own.bytes[j]), "cuMemcpyHtoD");
                all += aligned(own.bytes[j]);
            }
        }
        captured_call(&own);
        must(cuStreamSynchronize(own.stream), "the kernel");
        must(cuMemcpyDtoH(host[2], own.at[0] + all - aligned(own.bytes[2]), own.bytes[2]),
             "cuMemcpyDtoH");
        limit = bound(k);
        for (s = 0; s < ELEMENTS; s++) {
            int row = (int)((uniform() + 1) / 2 * m) % m, column = (int)((uniform() + 1) / 2 * n) % n;
            size_t one = (size_t)((uniform() + 1) / 2 * batch) % batch;
            double sum = 0, size = 0, error;
            if (s == 0)
                row = m - 1, column = n - 1, one = batch - 1;
            for (j = 0; j < k; j++) {
                double term = (double)host[0][(one * m + row) * lda + j]
                              * host[1][(one * k + j) * ldb + column];
                sum += term;
                size += fabs(term);
            }
            error = fabs(host[2][(one * m + row) * ldd + column] - sum) / size / limit;
            /* Also where it is no number. */
            if (!(error <= worst))
                worst = error;
        }
        for (s = 0; s < m * batch; s++)
            for (j = n; j < ldd; j++)
                if (!isnan(host[2][(size_t)s * ldd + j]))
                    worst = INFINITY;
        if (!halves(&own, host[2]))
            worst = INFINITY;
        us = expected > 0 ? expected : median_us(&own, FIRST_LAUNCHES);
        s = launches_for(us);
        us = median_us(&own, s);
        slow = expected > 0 && us > SLOWEST * expected;
        if (slow) {
            double again = median_us(&own, s);
            us = again < us ? again : us;
            slow = us > SLOWEST * expected;
        }
        printf("c      %-18s error/bound %.3f  %9.2f us", words[i], worst, us);
        if (expected > 0)
            printf("  tuner %9.2f us  ratio %.3f%s", expected, us / expected,
                   slow ? "  TOO SLOW" : "");
        printf("\n");
        fflush(stdout);
        failures += !(worst <= 1) || slow;
        for (s = 0; s < own.sets; s++)
            cuMemFree(own.at[s]);
        if (own.workspace != 0)
            cuMemFree(own.workspace);
        for (j = 0; j < 3; j++)
            free(host[j]);
    }
    gemm_tuned_destroy(own.tuned);
    return failures > 0;
}
