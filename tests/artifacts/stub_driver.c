/* In the place of the CUDA driver: records launches as text, and is as strict as the driver. Images are text
 * behind the first bytes of an ELF file: a line for each kernel, with its name and the bytes of each parameter
 * as digits, `m` for a tensor map ("gemm 888444444488844m"). tests/export/choices makes them.
 *
 * A launch is recorded as "HASH:ENTRY:GRID:BLOCK:SHARED:ARGUMENTS;", the hash being that of the image; a tensor map
 * among the arguments as "<TYPE,RANK,ADDRESS,EXTENTS,STRIDES,BOX,SWIZZLE>"; a copy of rows as
 * "copy:FROM,PITCH>TO,PITCH:WIDTH,ROWS;". */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_FUNCTIONS 4096
#define MOST_CONTEXTS 16
#define FREE_SHARED 49152
#define INVALID_DEVICE 101
#define INVALID_CONTEXT 201

typedef struct {
    const char *image, *name, *sizes;
    unsigned long long hash;
    int shared;
} function;

static function functions[MOST_FUNCTIONS];
static int function_count = 0;
static char recorded[1 << 16];
static size_t length = 0;
/* Images that are loaded: the driver copies them. */
static char images[1 << 22];
static size_t image_bytes = 0;
/* Contexts of the thread, the last one current. */
static void *contexts[MOST_CONTEXTS];
static int context_count = 0;
static int primary;
/* Kernels are loaded and measured in the relaxed mode, and launched for the caller in the caller's. */
static int capture_mode = 0;
static int fails = 0;
static int open_allocations = 0;
/* Forgets what was recorded. */
void stub_begin(void)
{
    length = 0;
    recorded[0] = 0;
}

/* Whether launches fail from now on. */
void stub_fail(int whether) { fails = whether; }

const char *stub_recorded(void) { return recorded; }
int stub_contexts(void) { return context_count; }
void *stub_current(void) { return context_count == 0 ? NULL : contexts[context_count - 1]; }

int cuInit(unsigned flags) { return (int)flags; }

int cuGetErrorString(int status, const char **text)
{
    *text = status == INVALID_CONTEXT ? "invalid device context" : "an error of the stub";
    return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return ordinal == 0 ? 0 : INVALID_DEVICE;
}

int cuCtxGetCurrent(void **context)
{
    *context = stub_current();
    return 0;
}

int cuCtxGetDevice(int *device)
{
    *device = 0;
    return context_count == 0 ? INVALID_CONTEXT : 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == 16 ? 132 : attribute == 38 ? 50 << 20 : attribute == 75 ? 9 : 0;
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    (void)device;
    *context = &primary;
    return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device) { return device; }

int cuCtxSetCurrent(void *context)
{
    context_count = 1;
    contexts[0] = context;
    return 0;
}

int cuCtxPushCurrent_v2(void *context)
{
    if (context_count == MOST_CONTEXTS)
        return INVALID_CONTEXT;
    contexts[context_count++] = context;
    return 0;
}

int cuCtxPopCurrent_v2(void **context)
{
    if (context_count == 0)
        return INVALID_CONTEXT;
    *context = contexts[--context_count];
    return 0;
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
    int before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return 0;
}

int cuModuleLoadData(void **module, const void *image)
{
    size_t bytes = strlen((const char *)image) + 1;
    if (capture_mode != 2 || memcmp(image, "\177ELF", 4) != 0 || image_bytes + bytes > sizeof images)
        return 200;
    memcpy(images + image_bytes, image, bytes);
    *module = images + image_bytes;
    image_bytes += bytes;
    return 0;
}

int cuModuleUnload(void *module)
{
    return module == NULL;
}

int cuModuleGetFunction(void **found, void *module, const char *name)
{
    const char *image = (const char *)module, *at;
    char wanted[256];
    int i;
    for (i = 0; i < function_count; i++)
        if (functions[i].image == image && strcmp(functions[i].name, name) == 0) {
            *found = &functions[i];
            return 0;
        }
    snprintf(wanted, sizeof wanted, "\n%s ", name);
    at = strstr(image, wanted);
    if (at == NULL || function_count == MOST_FUNCTIONS)
        return 500;
    functions[function_count].image = image;
    /* Names live as long as the artifact that gives them; this one as long as the program. */
    functions[function_count].name = strdup(name);
    functions[function_count].sizes = at + strlen(wanted);
    functions[function_count].hash = 14695981039346656037ull;
    for (; *image != 0; image++)
        functions[function_count].hash =
            (functions[function_count].hash ^ (unsigned char)*image) * 1099511628211ull;
    functions[function_count].shared = FREE_SHARED;
    *found = &functions[function_count++];
    return 0;
}

int cuFuncSetAttribute(void *known, int attribute, int value)
{
    ((function *)known)->shared = value;
    return attribute == 8 && value > 0 && value <= 232448 ? 0 : 1;
}

typedef struct {
    int id;
    char pad[4];
    union {
        char pad[64];
        int allowed;
    } value;
} attribute;

typedef struct {
    unsigned grid[3], block[3], shared_bytes;
    void *stream;
    attribute *attributes;
    unsigned count;
} configuration;

int cuLaunchKernel(void *known, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned shared_bytes, void *stream, void **parameters, void **extra);

/* A launch that may begin before the one before it ends: recorded with `+` before it. */
int cuLaunchKernelEx(const configuration *with, void *known, void **parameters, void **extra)
{
    const unsigned *grid = with->grid, *block = with->block;
    if (with->count != 1 || with->attributes->id != 6 || with->attributes->value.allowed != 1)
        return 1;
    length += (size_t)sprintf(recorded + length, "+");
    return cuLaunchKernel(known, grid[0], grid[1], grid[2], block[0], block[1], block[2], with->shared_bytes,
                          with->stream, parameters, extra);
}

/* Memory lies where stub_memory says, as much as that allows; copies and fills are counted. */
static unsigned long long memory_place = 1ull << 44, memory_left = 0;
static int capturing = 0;
static const function *launched = NULL;

/* Sets the bytes that may be allocated. */
void stub_memory(unsigned long long bytes) { memory_left = bytes; }

/* Whether streams are captured. */
void stub_capture(int whether) { capturing = whether; }

/* Allocations that were not freed. */
int stub_allocations(void) { return open_allocations; }

int cuDeviceGetName(char *name, int bytes, int device)
{
    (void)device;
    snprintf(name, (size_t)bytes, "%s", "A Stub/of a GPU");
    return 0;
}

int cuDriverGetVersion(int *version)
{
    const char *other = getenv("STUB_CUDA");
    *version = other == NULL ? 13000 : atoi(other);
    return 0;
}

int cuStreamIsCapturing(void *stream, int *status)
{
    (void)stream;
    *status = capturing;
    return 0;
}

int cuMemAlloc_v2(unsigned long long *address, size_t bytes)
{
    if (bytes > memory_left)
        return 2;
    *address = memory_place;
    open_allocations++;
    return capture_mode == 2 ? 0 : 900;
}

int cuMemFree_v2(unsigned long long address)
{
    open_allocations--;
    return address != memory_place;
}

int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes)
{
    return to < memory_place || from == NULL || bytes == 0;
}

int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes)
{
    return to == NULL || from < memory_place || bytes == 0;
}

int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, void *stream)
{
    (void)stream;
    return to < memory_place || bytes == 0 || (to - from) % 256 != 0;
}

int cuMemsetD8Async(unsigned long long to, unsigned char value, size_t bytes, void *stream)
{
    (void)value;
    (void)stream;
    /* Besides what is measured in memory of the library, workspaces of the caller are filled. */
    return (open_allocations > 0 && to < memory_place) || bytes == 0;
}

/* Recorded as "fill:TO,PITCH:WIDTH,ROWS;". */
int cuMemsetD2D8Async(unsigned long long to, size_t pitch, unsigned char value, size_t width, size_t height, void *stream)
{
    (void)stream;
    if (value != 0 || width > pitch || width == 0 || height == 0 || stub_current() != &primary)
        return 1;
    length += (size_t)sprintf(recorded + length, "fill:%llu,%zu:%zu,%zu;", to, pitch, width, height);
    return 0;
}

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
} copy2d;

/* Whether rows are copied in host memory instead of being recorded. */
static int copies_rows;
void stub_copy_rows(int whether) { copies_rows = whether; }

int cuMemcpy2DAsync_v2(const copy2d *rows, void *stream)
{
    size_t row;
    (void)stream;
    if (rows->from_type != 2 || rows->to_type != 2 || rows->from_x + rows->from_y + rows->to_x + rows->to_y != 0
        || rows->width > rows->from_pitch || rows->width > rows->to_pitch || stub_current() != &primary)
        return 1;
    for (row = 0; copies_rows && row < rows->height; row++)
        memcpy((char *)(uintptr_t)rows->to + row * rows->to_pitch,
               (const char *)(uintptr_t)rows->from + row * rows->from_pitch, rows->width);
    if (copies_rows)
        return 0;
    length += (size_t)sprintf(recorded + length, "copy:%llu,%zu>%llu,%zu:%zu,%zu;", rows->from, rows->from_pitch,
                              rows->to, rows->to_pitch, rows->width, rows->height);
    return 0;
}

/* What tensor maps were encoded, in the place of what only the hardware reads. */
typedef struct {
    unsigned long long address, extents[5], strides[4];
    unsigned box[5];
    short type, rank, swizzle;
} map;

/* As strict as the driver (CUDA driver API, cuTensorMapEncodeTiled). */
int cuTensorMapEncodeTiled(map *to, int type, unsigned rank, void *address, const unsigned long long *extents,
                           const unsigned long long *strides, const unsigned *box, const unsigned *steps,
                           int interleave, int swizzle, int promotion, int fill)
{
    unsigned i;
    if ((uintptr_t)to % 64 != 0 || rank < 1 || rank > 5 || (uintptr_t)address % 16 != 0 || interleave != 0
        || promotion != 2 || fill != 0 || sizeof *to > 128)
        return 1;
    memset(to, 0, 128);
    for (i = 0; i < rank; i++) {
        if (extents[i] < 1 || extents[i] > 1ull << 32 || box[i] < 1 || box[i] > 256 || steps[i] != 1
            || (i > 0 && (strides[i - 1] % 16 != 0 || strides[i - 1] >= 1ull << 40)))
            return 1;
        to->extents[i] = extents[i];
        to->box[i] = box[i];
        if (i > 0)
            to->strides[i - 1] = strides[i - 1];
    }
    to->address = (uintptr_t)address;
    to->type = (short)type, to->rank = (short)rank, to->swizzle = (short)swizzle;
    return 0;
}

/* Records a map of an argument. */
static void record_map(const map *own)
{
    int i;
    length += (size_t)sprintf(recorded + length, "<%d,%d,%llu", own->type, own->rank, own->address);
    for (i = 0; i < own->rank; i++)
        length += (size_t)sprintf(recorded + length, ",%llu", own->extents[i]);
    for (i = 0; i < own->rank - 1; i++)
        length += (size_t)sprintf(recorded + length, ",%llu", own->strides[i]);
    for (i = 0; i < own->rank; i++)
        length += (size_t)sprintf(recorded + length, ",%u", own->box[i]);
    length += (size_t)sprintf(recorded + length, ",%d>", own->swizzle);
}

int cuEventCreate(void **event, unsigned flags)
{
    static int made;
    *event = &made;
    return (int)flags;
}

int cuEventDestroy_v2(void *event) { return event == NULL; }

/* Events are recorded before and after what is timed. */
int cuEventRecord(void *event, void *stream)
{
    static int count;
    (void)stream;
    if (count++ % 2 == 0)
        launched = NULL;
    return event == NULL;
}

int cuEventSynchronize(void *event) { return event == NULL; }

/* The time of the last kernel that was launched follows from its name and image; without one it is shorter. */
int cuEventElapsedTime(float *ms, void *begin, void *end)
{
    *ms = launched == NULL ? 0.001f : 0.01f + (float)(launched->hash % 1000) / 1000;
    return begin == NULL || end == NULL;
}

int cuLaunchKernel(void *known, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream,
                   void **parameters, void **extra)
{
    const function *own = (const function *)known;
    const char *size;
    int i, j;
    (void)stream;
    if (fails)
        return 719;
    if ((capture_mode != 0 && open_allocations == 0) || extra != NULL || stub_current() != &primary || grid_x == 0 || grid_y == 0 || grid_z == 0
        || grid_x > 2147483647u || grid_y > 65535 || grid_z > 65535 || block_x == 0 || block_y == 0
        || block_z == 0 || block_x * block_y * block_z > 1024 || (int)shared_bytes > own->shared)
        return 1;
    if (sizeof recorded - length < 2048)
        return 1;
    launched = own;
    length += (size_t)sprintf(recorded + length, "%016llx:%s:%u,%u,%u:%u,%u,%u:%u:", own->hash, own->name,
                              grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes);
    for (i = 0, size = own->sizes; *size != '\n'; i++, size++)
        if (*size == 'm')
            record_map((const map *)parameters[i]);
        else
            for (j = 0; j < *size - '0'; j++)
            length += (size_t)sprintf(recorded + length, "%02x", ((unsigned char *)parameters[i])[j]);
    length += (size_t)sprintf(recorded + length, ";");
    return 0;
}
