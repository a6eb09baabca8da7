/* In the place of the CUDA driver, for results/surfaces/time.c: device memory is memory of the host, and events read a clock
 * that host_library.c moves. HOST_LATE says how many bytes the host needs to be overwritten before a sample: with fewer
 * it is late. */
#include <stdlib.h>
#include <string.h>

#define NOT_READY 600

double host_clock_us = 0;
static size_t overwritten = 0;
static char context;

int cuInit(unsigned flags) { return (int)flags; }

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return 0;
}

/* The L2 cache has 32 KiB. */
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    *value = attribute == 38 ? 32768 : 0;
    return device;
}

int cuDevicePrimaryCtxRetain(void **retained, int device)
{
    *retained = &context;
    return device;
}

int cuCtxSetCurrent(void *current) { return current != &context; }

int cuStreamCreate(void **stream, unsigned flags)
{
    *stream = &context;
    return flags != 1;
}

int cuStreamSynchronize(void *stream) { return stream != &context; }

int cuEventCreate(void **event, unsigned flags)
{
    *event = calloc(1, sizeof(double));
    return (int)flags;
}

int cuEventRecord(void *event, void *stream)
{
    *(double *)event = host_clock_us;
    return stream != &context;
}

int cuEventQuery(void *event)
{
    const char *late = getenv("HOST_LATE");
    return event != NULL && late != NULL && overwritten < strtoull(late, NULL, 10) ? 0 : NOT_READY;
}

int cuEventSynchronize(void *event) { return event == NULL; }

int cuEventElapsedTime(float *ms, void *begin, void *end)
{
    *ms = (float)((*(double *)end - *(double *)begin) / 1000);
    return 0;
}

/* What is overwritten before samples has no memory: nothing reads it. */
int cuMemAlloc_v2(unsigned long long *at, size_t bytes)
{
    *at = bytes >= (size_t)1 << 31 ? 4096 : (unsigned long long)(size_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
    return *at == 0 ? 2 : 0;
}

int cuMemFree_v2(unsigned long long at)
{
    free((void *)(size_t)at);
    return 0;
}

int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes)
{
    memcpy((void *)(size_t)to, from, bytes);
    return 0;
}

int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes)
{
    memcpy(to, (const void *)(size_t)from, bytes);
    return 0;
}

int cuMemsetD8Async(unsigned long long to, unsigned char value, size_t bytes, void *stream)
{
    (void)value;
    host_clock_us += 1000;
    overwritten = bytes;
    return to != 4096 || stream != &context;
}
