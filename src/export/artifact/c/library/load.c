/* A call that the library refused: a kernel is launched instead. */
#define LIBRARY_REFUSED (-100)

/* cuBLASLt ---------------------------------------------------------------------------------------------- */

/* Its functions, with the types of cublasLt.h written out. */
typedef struct {
    void *handle;
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*make_product)(void **product, int compute, int scale);
    int (*free_product)(void *product);
    int (*set_product)(void *product, int attribute, const void *value, size_t bytes);
    int (*make_layout)(void **layout, int type, unsigned long long rows, unsigned long long columns, long long height);
    int (*free_layout)(void *layout);
    int (*set_layout)(void *layout, int attribute, const void *value, size_t bytes);
    int (*make_preference)(void **preference);
    int (*free_preference)(void *preference);
    int (*set_preference)(void *preference, int attribute, const void *value, size_t bytes);
    int (*propose)(void *handle, void *product, void *a, void *b, void *c, void *d, void *preference, int count,
                   lt_result *results, int *found);
    int (*make_algorithm)(void *handle, int compute, int scale, int a, int b, int c, int d, int id,
                          lt_algorithm *algorithm);
    int (*set_algorithm)(lt_algorithm *algorithm, int attribute, const void *value, size_t bytes);
    int (*get_algorithm)(const lt_algorithm *algorithm, int attribute, void *value, size_t bytes, size_t *written);
    int (*check)(void *handle, void *product, void *a, void *b, void *c, void *d, const lt_algorithm *algorithm,
                 lt_result *result);
    int (*multiply)(void *handle, void *product, const void *alpha, const void *a, void *of_a, const void *b,
                    void *of_b, const void *beta, const void *c, void *of_c, void *d, void *of_d,
                    const lt_algorithm *algorithm, void *workspace, size_t bytes, void *stream);
} lt_library;

/* Stands for a library that is not there. */
static lt_library missing_library;

/* Sets the functions; 0 where one is missing. */
static int find_functions(void *file, lt_library *lt)
{
    return find(file, "cublasLtCreate", &lt->create) && find(file, "cublasLtDestroy", &lt->destroy)
           && find(file, "cublasLtMatmulDescCreate", &lt->make_product)
           && find(file, "cublasLtMatmulDescDestroy", &lt->free_product)
           && find(file, "cublasLtMatmulDescSetAttribute", &lt->set_product)
           && find(file, "cublasLtMatrixLayoutCreate", &lt->make_layout)
           && find(file, "cublasLtMatrixLayoutDestroy", &lt->free_layout)
           && find(file, "cublasLtMatrixLayoutSetAttribute", &lt->set_layout)
           && find(file, "cublasLtMatmulPreferenceCreate", &lt->make_preference)
           && find(file, "cublasLtMatmulPreferenceDestroy", &lt->free_preference)
           && find(file, "cublasLtMatmulPreferenceSetAttribute", &lt->set_preference)
           && find(file, "cublasLtMatmulAlgoGetHeuristic", &lt->propose)
           && find(file, "cublasLtMatmulAlgoInit", &lt->make_algorithm)
           && find(file, "cublasLtMatmulAlgoConfigSetAttribute", &lt->set_algorithm)
           && find(file, "cublasLtMatmulAlgoConfigGetAttribute", &lt->get_algorithm)
           && find(file, "cublasLtMatmulAlgoCheck", &lt->check) && find(file, "cublasLtMatmul", &lt->multiply);
}

/* Opens the version of a file that the process has loaded, else the latest one. It stays loaded. */
static void *open_library(const char *const names[2])
{
    void *file = NULL;
    int i;
    for (i = 0; i < 4 && file == NULL; i++)
        file = dlopen(names[i % 2], RTLD_NOW | RTLD_LOCAL | (i < 2 ? RTLD_NOLOAD : 0));
    return file;
}

/* What a handle has opened in the current context, by the thread that comes first; NULL where that is `missing`. */
static void *opened(void **place, void *(*open)(void), void (*close)(void *), void *missing)
{
    void *own = __atomic_load_n(place, __ATOMIC_ACQUIRE), *known = NULL;
    if (own == NULL) {
        own = open();
        if (!__atomic_compare_exchange_n(place, &known, own, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            if (own != missing)
                close(own);
            own = known;
        }
    }
    return own == missing ? NULL : own;
}

/* Whether the library is not to be called: GEMM_TUNED_LIBRARY=0, or a variable that changes its arithmetic. */
static int is_library_off(void)
{
    static const char *const changing[] = { @LIBRARY_VARIABLES@ };
    const char *mode = getenv("GEMM_TUNED_LIBRARY");
    size_t i;
    for (i = 0; i < sizeof changing / sizeof changing[0]; i++)
        if (getenv(changing[i]) != NULL)
            return 1;
    return mode != NULL && strcmp(mode, "0") == 0;
}

static void *open_lt(void)
{
    static const char *const names[] = { "libcublasLt.so.13", "libcublasLt.so.12" };
    void *file = open_library(names);
    lt_library *own = (lt_library *)calloc(1, sizeof *own);
    if (own == NULL || file == NULL || !find_functions(file, own) || own->create(&own->handle) != 0) {
        free(own);
        own = &missing_library;
    }
    return own;
}

static void close_lt(void *lt)
{
    lt_library *own = (lt_library *)lt;
    own->destroy(own->handle);
    free(own);
}

static lt_library *library_of(gemm_tuned *tuned)
{
    return (lt_library *)opened(&tuned->library, open_lt, close_lt, &missing_library);
}

