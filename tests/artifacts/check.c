/* Multiplies random matrices on a GPU through an exported C artifact: for each shape, the largest error
 * of sampled elements over the bound of the error analysis, and the median time. Built and run by
 * check.sh. Each argument is MxNxK, MxNxK:US with the time that the tuner measured, or MxNxK+PAD with
 * rows that are longer by PAD elements. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gemm_tuned.h"

#ifndef CUDA_VERSION
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
#endif

#define SAMPLES 40
#define LAUNCHES 10
#define ELEMENTS 4000
/* Operands rotate through so much, more than twice the L2 cache of an H200; it is overwritten besides. */
#define ROTATED_BYTES (160ull << 20)
#define MAX_SETS 64

static uint64_t state = 1;

static double uniform(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(state >> 11) / 4503599627370496.0 - 1;
}

static void must(int status, const char *what)
{
    if (status != 0) {
        fprintf(stderr, "%s failed: %d\n", what, status);
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

int main(int count, char **words)
{
    CUdevice device;
    CUcontext context;
    CUstream stream;
    CUevent begin, end;
    CUdeviceptr flushed;
    CUgraph graph;
    CUgraphExec exec;
    gemm_tuned tuned;
    int i, failures = 0;
    must(cuInit(0), "cuInit");
    must(cuDeviceGet(&device, 0), "cuDeviceGet");
    must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must(cuEventCreate(&begin, 0), "cuEventCreate");
    must(cuEventCreate(&end, 0), "cuEventCreate");
    must(gemm_tuned_open(&tuned), "gemm_tuned_open");
    must(cuMemAlloc(&flushed, ROTATED_BYTES), "cuMemAlloc");
    for (i = 1; i < count; i++) {
        int m, n, k, pad = 0, lda, ldb, ldc, sets, s, j;
        size_t bytes[3], all, room;
        float *host[3], times[SAMPLES];
        double expected = 0, worst = 0, limit;
        CUdeviceptr at[MAX_SETS], workspace = 0;
        char *rest;
        if (sscanf(words[i], "%dx%dx%d", &m, &n, &k) != 3)
            return 2;
        if ((rest = strchr(words[i], '+')) != NULL)
            pad = atoi(rest + 1);
        if ((rest = strchr(words[i], ':')) != NULL)
            expected = atof(rest + 1);
        lda = k + pad;
        ldb = n + pad;
        ldc = n + pad;
        bytes[0] = (size_t)m * lda * 4;
        bytes[1] = (size_t)k * ldb * 4;
        bytes[2] = (size_t)m * ldc * 4;
        for (j = 0, all = 0; j < 3; j++)
            all += (bytes[j] + 255) / 256 * 256;
        sets = (int)(ROTATED_BYTES / all) + 1;
        if (sets > MAX_SETS)
            sets = MAX_SETS;
        for (j = 0; j < 3; j++) {
            size_t e;
            host[j] = (float *)malloc(bytes[j]);
            for (e = 0; e < bytes[j] / 4; e++)
                host[j][e] = j == 2 ? NAN : (float)uniform();
        }
        room = gemm_tuned_f32_nn_workspace(&tuned, m, n, k, lda, ldb, ldc);
        if (room > 0)
            must(cuMemAlloc(&workspace, room), "cuMemAlloc");
        gemm_tuned_workspace(&tuned, (void *)(uintptr_t)workspace, room);
        for (s = 0; s < sets; s++) {
            must(cuMemAlloc(&at[s], all), "cuMemAlloc");
            for (j = 0, all = 0; j < 3; j++) {
                must(cuMemcpyHtoD(at[s] + all, host[j], bytes[j]), "cuMemcpyHtoD");
                all += (bytes[j] + 255) / 256 * 256;
            }
        }
#define CALL(set)                                                                                  \
    must(gemm_tuned_f32_nn(&tuned, stream, m, n, k, 1.0f, (const float *)(uintptr_t)at[set], lda,  \
                           (const float *)(uintptr_t)(at[set] + (bytes[0] + 255) / 256 * 256),     \
                           ldb, 0.0f,                                                              \
                           (float *)(uintptr_t)(at[set] + (bytes[0] + 255) / 256 * 256             \
                                                + (bytes[1] + 255) / 256 * 256),                   \
                           ldc),                                                                   \
         "gemm_tuned_f32_nn")
        CALL(0);
        must(cuStreamSynchronize(stream), "the kernel");
        must(cuMemcpyDtoH(host[2], at[0] + all - (bytes[2] + 255) / 256 * 256, bytes[2]),
             "cuMemcpyDtoH");
        limit = bound(k);
        for (s = 0; s < ELEMENTS; s++) {
            int row = (int)((uniform() + 1) / 2 * m) % m, column = (int)((uniform() + 1) / 2 * n) % n;
            double sum = 0, size = 0, error;
            if (s == 0)
                row = m - 1, column = n - 1;
            for (j = 0; j < k; j++) {
                double term = (double)host[0][(size_t)row * lda + j]
                              * host[1][(size_t)j * ldb + column];
                sum += term;
                size += fabs(term);
            }
            error = fabs(host[2][(size_t)row * ldc + column] - sum) / size / limit;
            /* Also where it is no number. */
            if (!(error <= worst))
                worst = error;
        }
        for (s = 0; s < m && pad > 0; s++)
            if (!isnan(host[2][(size_t)s * ldc + n]))
                worst = INFINITY;
        /* Replays of recorded launches, as the tuner's samples are: they have no time of the host's. */
        must(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture");
        for (j = 0; j < LAUNCHES; j++)
            CALL(j % sets);
        must(cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
        must(cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
        for (s = 0; s < SAMPLES; s++) {
            must(cuMemsetD8Async(flushed, (unsigned char)s, ROTATED_BYTES, stream), "cuMemsetD8Async");
            must(cuMemsetD8Async(flushed, (unsigned char)s, ROTATED_BYTES, stream), "cuMemsetD8Async");
            must(cuEventRecord(begin, stream), "cuEventRecord");
            must(cuGraphLaunch(exec, stream), "cuGraphLaunch");
            must(cuEventRecord(end, stream), "cuEventRecord");
            must(cuStreamSynchronize(stream), "cuStreamSynchronize");
            must(cuEventElapsedTime(&times[s], begin, end), "cuEventElapsedTime");
        }
        cuGraphExecDestroy(exec);
        cuGraphDestroy(graph);
        qsort(times, SAMPLES, sizeof times[0], compare);
        printf("c      %-18s error/bound %.3f  %9.2f us", words[i], worst,
               times[SAMPLES / 2] * 1000 / LAUNCHES);
        if (expected > 0)
            printf("  tuner %9.2f us  ratio %.3f", expected,
                   times[SAMPLES / 2] * 1000 / LAUNCHES / expected);
        printf("\n");
        fflush(stdout);
        failures += !(worst <= 1);
        for (s = 0; s < sets; s++)
            cuMemFree(at[s]);
        if (workspace != 0)
            cuMemFree(workspace);
        for (j = 0; j < 3; j++)
            free(host[j]);
    }
    gemm_tuned_close(&tuned);
    return failures > 0;
}
