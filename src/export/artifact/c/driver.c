/* The driver ------------------------------------------------------------------------------------------- */

/* CUDA_MEMCPY2D: rows in device memory. */
typedef struct {
    size_t from_x, from_y;
    int from_type;
    const void *from_host;
    unsigned long long from;
    void *from_array;
    size_t from_pitch, to_x, to_y;
    int to_type;
    void *to_host;
    unsigned long long to;
    void *to_array;
    size_t to_pitch, width, height;
} rows_to_copy;

/* CUlaunchAttribute and CUlaunchConfig. */
typedef struct {
    int id;
    char pad[4];
    union {
        char pad[64];
        int allowed;
    } value;
} launch_attribute;

typedef struct {
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    void *stream;
    launch_attribute *attributes;
    unsigned count;
} launch_configuration;

/* CUmemPoolProps. */
typedef struct {
    int type, handles, place, device;
    void *security;
    size_t most;
    unsigned char reserved[56];
} pool_properties;

/* CUtensorMap. */
typedef struct {
    unsigned long long words[16];
} __attribute__((aligned(64))) encoded_map;

/* Its functions, with the types of cuda.h written out. */
typedef struct {
    int (*init)(unsigned flags);
    int (*device_get)(int *device, int ordinal);
    int (*device_attribute)(int *value, int attribute, int device);
    int (*primary_retain)(void **context, int device);
    int (*primary_release)(int device);
    int (*current)(void **context);
    int (*context_device)(int *device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*exchange_capture_mode)(int *mode);
    int (*load)(void **module, const void *image);
    int (*unload)(void *module);
    int (*function)(void **function, void *module, const char *name);
    int (*set_attribute)(void *function, int attribute, int value);
    int (*capture_status)(void *stream, int *status);
    int (*allocate)(unsigned long long *address, size_t bytes);
    int (*release)(unsigned long long address);
    int (*copy)(unsigned long long to, unsigned long long from, size_t bytes, void *stream);
    int (*fill)(unsigned long long to, unsigned char value, size_t bytes, void *stream);
    int (*fill_rows)(unsigned long long to, size_t pitch, unsigned char value, size_t width, size_t height, void *stream);
    int (*make_event)(void **event, unsigned flags);
    int (*free_event)(void *event);
    int (*record)(void *event, void *stream);
    int (*wait)(void *event);
    int (*elapsed)(float *ms, void *begin, void *end);
    int (*device_name)(char *name, int bytes, int device);
    int (*version)(int *version);
    int (*launch_kernel)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                         unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream,
                         void **parameters, void **extra);
    /* NULL before CUDA 12.3, which captures programmatic dependent launches in graphs, and before compute capability 9.0. */
    int (*launch_with)(const launch_configuration *configuration, void *function, void **parameters, void **extra);
    /* NULL before CUDA 11.2. */
    int (*make_pool)(void **pool, const pool_properties *properties);
    int (*free_pool)(void *pool);
    int (*set_pool)(void *pool, int attribute, void *value);
    int (*take)(unsigned long long *address, size_t bytes, void *pool, void *stream);
    int (*give_back)(unsigned long long address, void *stream);
    int (*copy_rows)(const rows_to_copy *rows, void *stream);
    /* NULL before CUDA 12. */
    int (*encode)(encoded_map *map, int type, unsigned rank, void *address, const unsigned long long *extents,
                  const unsigned long long *strides, const unsigned *box, const unsigned *steps, int interleave,
                  int swizzle, int promotion, int fill);
} driver;

/* CUdevice_attribute and CUfunction_attribute. */
#define MULTIPROCESSOR_COUNT 16
#define L2_CACHE_SIZE 38
#define CAPABILITY_MAJOR 75
#define CAPABILITY_MINOR 76
#define MAX_DYNAMIC_SHARED 8
#define MEMORY_POOLS_SUPPORTED 115
/* CUmemAllocationType, CUmemLocationType and CUmemPool_attribute. */
#define PINNED 1
#define ON_DEVICE 1
#define RELEASE_THRESHOLD 4
/* CUresult, and the stream that is another one in each thread. */
#define OUT_OF_DEVICE_MEMORY 2
#define STREAM_OF_THREAD 2
/* CUlaunchAttributeID. */
#define PROGRAMMATIC_STREAM_SERIALIZATION 6
/* The first version whose graphs have edges of programmatic dependent launches, as cuDriverGetVersion has it. */
#define CUDA_OF_EARLY_LAUNCHES 12030
/* CUmemorytype. */
#define DEVICE_MEMORY 2
/* CUtensorMapL2promotion. */
#define PROMOTE_TO_128_BYTES 2
/* CUstreamCaptureMode: a thread in it may make calls that captures of other threads do not expect. */
#define CAPTURE_MODE_RELAXED 2

/* Sets a pointer to a function of the driver. */
static int find(void *library, const char *name, void *pointer)
{
    void *symbol = dlsym(library, name);
    memcpy(pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* Loads the driver; it stays loaded. */
static int load_driver(driver *cuda)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    int version = 0;
    if (library == NULL)
        return GEMM_TUNED_NO_DRIVER;
    if (!find(library, "cuInit", &cuda->init) || !find(library, "cuDeviceGet", &cuda->device_get)
        || !find(library, "cuDeviceGetAttribute", &cuda->device_attribute)
        || !find(library, "cuDevicePrimaryCtxRetain", &cuda->primary_retain)
        || !find(library, "cuDevicePrimaryCtxRelease_v2", &cuda->primary_release)
        || !find(library, "cuCtxGetCurrent", &cuda->current)
        || !find(library, "cuCtxGetDevice", &cuda->context_device)
        || !find(library, "cuCtxPushCurrent_v2", &cuda->push)
        || !find(library, "cuCtxPopCurrent_v2", &cuda->pop)
        || !find(library, "cuThreadExchangeStreamCaptureMode", &cuda->exchange_capture_mode)
        || !find(library, "cuModuleLoadData", &cuda->load)
        || !find(library, "cuModuleUnload", &cuda->unload)
        || !find(library, "cuModuleGetFunction", &cuda->function)
        || !find(library, "cuFuncSetAttribute", &cuda->set_attribute)
        || !find(library, "cuStreamIsCapturing", &cuda->capture_status)
        || !find(library, "cuMemAlloc_v2", &cuda->allocate) || !find(library, "cuMemFree_v2", &cuda->release)
        || !find(library, "cuMemcpyDtoDAsync_v2", &cuda->copy)
        || !find(library, "cuMemsetD8Async", &cuda->fill)
        || !find(library, "cuMemsetD2D8Async", &cuda->fill_rows) || !find(library, "cuEventCreate", &cuda->make_event)
        || !find(library, "cuEventDestroy_v2", &cuda->free_event)
        || !find(library, "cuEventRecord", &cuda->record) || !find(library, "cuEventSynchronize", &cuda->wait)
        || !find(library, "cuEventElapsedTime", &cuda->elapsed)
        || !find(library, "cuDeviceGetName", &cuda->device_name)
        || !find(library, "cuDriverGetVersion", &cuda->version)
        || !find(library, "cuMemcpy2DAsync_v2", &cuda->copy_rows)
        || !find(library, "cuLaunchKernel", &cuda->launch_kernel))
        return GEMM_TUNED_NO_DRIVER;
    if (!find(library, "cuTensorMapEncodeTiled", &cuda->encode))
        cuda->encode = NULL;
    if (!find(library, "cuMemPoolCreate", &cuda->make_pool) || !find(library, "cuMemPoolDestroy", &cuda->free_pool)
        || !find(library, "cuMemPoolSetAttribute", &cuda->set_pool)
        || !find(library, "cuMemAllocFromPoolAsync", &cuda->take)
        || !find(library, "cuMemFreeAsync", &cuda->give_back))
        cuda->make_pool = NULL;
    if (cuda->version(&version) != 0 || version < CUDA_OF_EARLY_LAUNCHES
        || !find(library, "cuLaunchKernelEx", &cuda->launch_with))
        cuda->launch_with = NULL;
    return cuda->init(0);
}

