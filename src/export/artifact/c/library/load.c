/* A call that the library refused: a kernel is launched instead. */
#define LIBRARY_REFUSED (-100)

/* Opening libraries ------------------------------------------------------------------------------------- */

/* What every library begins with. */
typedef struct {
    void *handle;
    int (*create)(void **handle);
    int (*destroy)(void *handle);
} library_handle;

/* A library that is opened when it is first needed: its file, the latest version first; the bytes of its structure, which
 * begins with its handle; what finds its functions, 0 where one is missing; and what stands for one that is not there. */
typedef struct {
    const char *names[2];
    size_t bytes;
    int (*find_functions)(void *file, void *own);
    library_handle *missing;
} library_kind;

/* Opens the version of a file that the process has loaded, else the latest one. It stays loaded. */
static void *open_file(const char *const names[2])
{
    void *file = NULL;
    int i;
    for (i = 0; i < 4 && file == NULL; i++)
        file = dlopen(names[i % 2], RTLD_NOW | RTLD_LOCAL | (i < 2 ? RTLD_NOLOAD : 0));
    return file;
}

/* Opens a library in the current context; `missing` where that fails. */
static library_handle *open_library(const library_kind *kind)
{
    void *file = open_file(kind->names);
    library_handle *own = (library_handle *)calloc(1, kind->bytes);
    if (own == NULL || file == NULL || !kind->find_functions(file, own) || own->create(&own->handle) != 0) {
        free(own);
        own = kind->missing;
    }
    return own;
}

static void close_library(library_handle *own, const library_kind *kind)
{
    if (own == NULL || own == kind->missing)
        return;
    own->destroy(own->handle);
    free(own);
}

/* The library that a handle of artifacts has at a place, opened by the thread that comes first; NULL for a missing one. */
static library_handle *opened(void **place, const library_kind *kind)
{
    library_handle *own = (library_handle *)__atomic_load_n(place, __ATOMIC_ACQUIRE);
    void *known = NULL;
    if (own == NULL) {
        own = open_library(kind);
        if (!__atomic_compare_exchange_n(place, &known, (void *)own, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            close_library(own, kind);
            own = (library_handle *)known;
        }
    }
    return own == kind->missing ? NULL : own;
}

/* Whether libraries are not to be called: GEMM_TUNED_LIBRARY=0, or a variable that changes their arithmetic. */
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

/* cuBLASLt ---------------------------------------------------------------------------------------------- */

/* Its functions, with the types of cublasLt.h written out. */
typedef struct {
    library_handle library;
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

/* Sets the functions; 0 where one is missing. */
static int find_lt_functions(void *file, void *own)
{
    lt_library *lt = (lt_library *)own;
    return find(file, "cublasLtCreate", &lt->library.create) && find(file, "cublasLtDestroy", &lt->library.destroy)
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

static library_handle missing_lt;
static const library_kind lt_kind = { { "libcublasLt.so.13", "libcublasLt.so.12" },
                                      sizeof(lt_library),
                                      find_lt_functions,
                                      &missing_lt };

static lt_library *lt_of(gemm_tuned *tuned)
{
    return (lt_library *)opened(&tuned->lt, &lt_kind);
}

