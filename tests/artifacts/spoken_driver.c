/* In the place of the CUDA driver: says what it is asked, and does nothing. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *names[4096];
static int count = 0, context;

/* What is current, and the process that initialised the driver: it serves no other. */
static void *current = &context;
static int process = 0;

void spoken_context(void *made_current) { current = made_current == NULL ? (void *)&context : made_current; }

void *spoken_current(void) { return current; }

int cuInit(unsigned flags)
{
    process = process == 0 ? (int)getpid() : process;
    return (int)flags;
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == 75 ? 9 : attribute == 76 ? 0 : 132;
    return 0;
}

int cuDevicePrimaryCtxRetain(void **found, int device)
{
    *found = &context;
    printf("retain\n");
    return device;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    printf("release\n");
    return device;
}

int cuCtxGetCurrent(void **found)
{
    *found = current;
    return process == (int)getpid() ? 0 : 3;
}

int cuCtxGetDevice(int *device)
{
    *device = 0;
    return 0;
}

static void *before = NULL;

int cuCtxPushCurrent_v2(void *pushed)
{
    before = current;
    current = pushed;
    return pushed != &context;
}

int cuCtxPopCurrent_v2(void **popped)
{
    *popped = current;
    current = before;
    return 0;
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
    static int current = 0;
    int before = current;
    current = *mode;
    *mode = before;
    return 0;
}

int cuModuleLoadData(void **module, const void *image)
{
    static char loaded;
    if (memcmp(image, "\177ELF", 4) != 0)
        return 200;
    printf("load\n");
    *module = &loaded;
    return 0;
}

int cuModuleUnload(void *module)
{
    printf("unload\n");
    return module == NULL;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    (void)module;
    names[count] = strdup(name);
    *function = &names[count++];
    return 0;
}

int cuFuncSetAttribute(void *function, int attribute, int value)
{
    (void)function;
    return attribute == 8 && value > 0 ? 0 : 1;
}

/* What only measuring calls. */
#define UNUSED(name)                                                                                                   \
    int name(void) { return 999; }
UNUSED(cuStreamIsCapturing)
UNUSED(cuMemcpyDtoDAsync_v2)
UNUSED(cuMemcpy2DAsync_v2)
UNUSED(cuEventCreate)
UNUSED(cuEventDestroy_v2)
UNUSED(cuEventRecord)
UNUSED(cuEventSynchronize)
UNUSED(cuEventElapsedTime)
UNUSED(cuDeviceGetName)
UNUSED(cuDriverGetVersion)

static __attribute__((aligned(256))) char memory[1 << 20];

/* CUmemPoolProps. */
int cuMemPoolCreate(void **pool, const int *properties)
{
    *pool = memory;
    return properties[0] == 1 && properties[1] == 0 && properties[2] == 1 && properties[3] == 0 ? 0 : 1;
}

int cuMemPoolDestroy(void *pool) { return pool != memory; }

int cuMemPoolSetAttribute(void *pool, int attribute, const unsigned long long *value)
{
    return pool != memory || attribute != 4 || *value != ~0ull;
}

int cuMemAllocFromPoolAsync(unsigned long long *address, size_t bytes, void *pool, void *stream)
{
    printf("take %d\n", (int)bytes);
    *address = (unsigned long long)memory;
    return pool != memory || stream != NULL ? 1 : bytes > sizeof memory ? 2 : 0;
}

int cuMemFreeAsync(unsigned long long address, void *stream)
{
    printf("give back\n");
    return address != (unsigned long long)memory || stream != NULL;
}

int cuMemAlloc_v2(unsigned long long *address, size_t bytes)
{
    printf("allocate %d\n", (int)bytes);
    *address = (unsigned long long)memory;
    return bytes > sizeof memory ? 2 : 0;
}

int cuMemFree_v2(unsigned long long address)
{
    printf("free\n");
    return address != (unsigned long long)memory;
}

int cuMemsetD8Async(unsigned long long to, unsigned char value, size_t bytes, void *stream)
{
    (void)stream;
    memset((void *)to, value, bytes);
    printf("fill %d with %d\n", (int)bytes, value);
    return 0;
}

int cuMemsetD2D8Async(unsigned long long to, size_t pitch, unsigned char value, size_t width, size_t height, void *stream)
{
    (void)to;
    (void)stream;
    printf("fill %d rows of %d in %d with %d\n", (int)height, (int)width, (int)pitch, value);
    return 0;
}

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **parameters,
                   void **extra)
{
    (void)stream;
    (void)extra;
    (void)shared_bytes;
    if (grid_x * grid_y * grid_z == 0 || block_x * block_y * block_z == 0)
        return 1;
    printf("%s m %d n %d k %d batch %d lda %d ldb %d ldc %d strides %lld %lld %lld alpha %g beta %g\n",
           *(const char **)function, *(int *)parameters[3], *(int *)parameters[4], *(int *)parameters[5],
           *(int *)parameters[6], *(int *)parameters[7], *(int *)parameters[8], *(int *)parameters[9],
           *(long long *)parameters[10], *(long long *)parameters[11], *(long long *)parameters[12],
           *(float *)parameters[13], *(float *)parameters[14]);
    return 0;
}
