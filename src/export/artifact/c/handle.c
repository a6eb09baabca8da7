/* Handles ---------------------------------------------------------------------------------------------- */

/* What determines a choice: types, inputs of the formulas, epilogue and whether a batch has gaps, workspace. All but
 * the last are the words of a problem. */
#define PROBLEM_WORDS 9
typedef struct {
    long long words[PROBLEM_WORDS + 1];
} question;

/* A remembered choice, with the functions of its launches. It never changes. */
typedef struct {
    question asked;
    choice chosen;
    void *functions[MAX_LAUNCHES];
} plan;

/* The kernel that was measured as the fastest for a question, whatever its workspace. It never changes. */
typedef struct {
    question asked;
    const kernel *fastest;
} measured;

/* Tensor maps of a kernel for a problem, by what they are made of: place of the kernel, M N K batch lda ldb ldd, and
 * addresses of A, B, D and the workspace. They never change. */
#define MAP_WORDS 12
typedef struct {
    long long words[MAP_WORDS];
    encoded_map maps[MAX_MAPS];
} map_set;

/* Memory that calls on a stream use where they lend none. `busy` while a call queues launches that use it: those of two
 * calls would alternate. */
typedef struct reservation {
    void *stream;
    unsigned long long address;
    size_t bytes;
    int busy;
    struct reservation *next;
} reservation;

/* Modules, plans, measured kernels and tensor maps are added while others read them, and are never replaced. */
struct gemm_tuned {
    driver cuda;
    void *context;
    int device, is_primary, multiprocessors, architecture;
    void *modules[IMAGES];
    void *plans[SLOTS];
    void *map_sets[SLOTS];
    gemm_tuned_measuring measuring;
    /* File of measured kernels, and how much of it was read. */
    char file[FILE_BYTES];
    long long file_read;
    /* Whether a thread measures. */
    int busy;
    void *fastest[SLOTS];
    /* Pool of the device; NULL where it has none. Whether calls take memory from it. */
    void *pool;
    int allocates;
    /* Added at the front, and freed with the handle. */
    void *reserved;
@L@    /* cuBLASLt and cuBLAS; NULL before they are needed. Whether they are not to be called. */
@L@    void *lt;
@L@    void *cublas;
@L@    int is_library_off;
};

/* Makes the context of a handle current for the duration of a call. */
static int enter(const gemm_tuned *tuned, int *pushed)
{
    void *current = NULL;
    int status = tuned->cuda.current(&current);
    *pushed = 0;
    if (status == 0 && current != tuned->context) {
        status = tuned->cuda.push(tuned->context);
        *pushed = status == 0;
    }
    return status;
}

static void leave(const gemm_tuned *tuned, int pushed)
{
    void *ignored;
    if (pushed)
        tuned->cuda.pop(&ignored);
}

/* Finds the machine code for the GPU of a handle. */
static int select_architecture(gemm_tuned *tuned)
{
    const driver *cuda = &tuned->cuda;
    int major, minor, status, i;
    if ((status = cuda->device_attribute(&tuned->multiprocessors, MULTIPROCESSOR_COUNT, tuned->device)) != 0
        || (status = cuda->device_attribute(&major, CAPABILITY_MAJOR, tuned->device)) != 0
        || (status = cuda->device_attribute(&minor, CAPABILITY_MINOR, tuned->device)) != 0)
        return status;
    if (major < 9)
        tuned->cuda.launch_with = NULL;  /* no launch begins early there */
    tuned->architecture = -1;
    for (i = 0; i < ARCHITECTURES; i++) {
        const int *own = architectures[i];
        if (own[0] / 10 == major && (own[1] ? own[0] % 10 == minor : own[0] % 10 <= minor)
            && (tuned->architecture < 0 || own[0] > architectures[tuned->architecture][0]))
            tuned->architecture = i;
    }
    return tuned->architecture < 0 ? GEMM_TUNED_NO_ARCHITECTURE : GEMM_TUNED_SUCCESS;
}

/* The module of an image in the current context, loaded by the thread that comes first. */
static int load_module(gemm_tuned *tuned, int place, void **module)
{
    void *known = NULL;
    const packed_image *packed = &images[tuned->architecture][place];
    void *unpacked;
    int status, mode = CAPTURE_MODE_RELAXED;
    *module = __atomic_load_n(&tuned->modules[place], __ATOMIC_ACQUIRE);
    if (*module != NULL)
        return GEMM_TUNED_SUCCESS;
    unpacked = unpack(packed->words, packed->packed, packed->bytes);
    if (unpacked == NULL)
        return GEMM_TUNED_NO_MEMORY;
    /* A stream may be captured: loading is no part of it. */
    if ((status = tuned->cuda.exchange_capture_mode(&mode)) != 0) {
        free(unpacked);
        return status;
    }
    status = tuned->cuda.load(module, unpacked);
    free(unpacked);
    if (status == 0
        && !__atomic_compare_exchange_n(&tuned->modules[place], &known, *module, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
        tuned->cuda.unload(*module);
        *module = known;
    }
    tuned->cuda.exchange_capture_mode(&mode);
    return status;
}

/* Sets the functions of a plan's launches. */
static int load_functions(gemm_tuned *tuned, plan *made)
{
    const kernel *own = made->chosen.own;
    int i, j, status;
    for (i = 0; i < own->launches; i++) {
        const launch *next = &launches[own->first_launch + i];
        int shared = 0;
        void *module;
        if ((status = load_module(tuned, next->image, &module)) != 0
            || (status = tuned->cuda.function(&made->functions[i], module, next->entry)) != 0)
            return status;
        /* Launches that share a function share its limit. */
        for (j = 0; j < LAUNCHES; j++)
            if (launches[j].image == next->image && launches[j].shared_bytes > shared
                && strcmp(launches[j].entry, next->entry) == 0)
                shared = launches[j].shared_bytes;
        if (shared > FREE_SHARED_BYTES
            && (status = tuned->cuda.set_attribute(made->functions[i], MAX_DYNAMIC_SHARED, shared)) != 0)
            return status;
    }
    return GEMM_TUNED_SUCCESS;
}

