/* Rows of cuBLASLt among the kernels: the first ones, without launches. */
#define LIBRARY_ROWS @LIBRARY_ROWS@
#define LIBRARY_TILES @LIBRARY_TILES@
#define LIBRARY_SPLITS @LIBRARY_SPLITS@
#define LIBRARY_ATTRIBUTES @LIBRARY_ATTRIBUTES@
/* Steps of K of a part, at least. */
#define LEAST_PART @LEAST_PART@
/* Weights of the formula, of other batches and layouts, and of distance: see src/predict/library_model.rs. */
#define FORMULA_WEIGHT @FORMULA_WEIGHT@
#define BATCH_WEIGHT @BATCH_WEIGHT@
#define LAYOUT_WEIGHT @LAYOUT_WEIGHT@
/* A kernel is preferred where it is predicted to be faster by more than this share of its time. */
#define LIBRARY_MARGIN @LIBRARY_MARGIN@
/* In microseconds: calls of the library from Python follow each other no faster, since the host needs as long for one. */
#define LIBRARY_CALL_US @LIBRARY_CALL_US@
/* Time of a row without a forecast: it is chosen only where it was measured. */
#define NEVER_US 1e300
#define MOST_LIBRARY_WORKSPACE (32ull << 20)
/* Bit of a question that the library may answer. */
#define LIBRARY_PERMITTED 1

/* Costs in microseconds, those of a block and a step of K for each tile. */
typedef struct {
    double launch_us, alone, wave_us, byte_us, split_us, part_us, step_us[LIBRARY_TILES];
} library_costs;

/* A product with a known time: M N K batch, layout, and by how much of the formula's time it takes longer. */
typedef struct {
    long long p[4];
    int layout;
    double longer;
} known_time;

/* How the library computes a row: numbers of cublasLt.h. Without a handle, its name. The workspace is below 0 where it is
 * not known, and so are attributes that the library sets. `has_own_choice` is whether the library is faster with the
 * algorithm that it chooses too, `is_plain` whether cuBLAS computes it. `costs` is below 0 without a forecast. */
typedef struct {
    const char *label;
    int ab, d, scale, compute, epilogue, reduces_in_d;
    double ab_bytes, d_bytes;
    int has_algorithm, algorithm_compute, has_own_choice, is_plain;
    long long workspace, attributes[LIBRARY_ATTRIBUTES];
    int costs, first_known, knowns;
} library_row;

/* Rows and columns of tiles, and the blocks of each that a multiprocessor holds. */
static const long long library_tiles[LIBRARY_TILES][3] = { @LIBRARY_TILE_TABLE@ };
static const long long library_splits[LIBRARY_SPLITS] = { @LIBRARY_SPLIT_TABLE@ };
/* cublasLtMatmulAlgoConfigAttributes_t, and bytes. */
static const int lt_attributes[LIBRARY_ATTRIBUTES][2] = { @LIBRARY_ATTRIBUTE_TABLE@ };

/* One at least of each: C has no empty arrays. */
static const library_costs costs_of_library[] = {
@LIBRARY_COSTS_TABLE@};
static const known_time known_times[] = {
@KNOWN_TABLE@};
static const library_row library_rows[LIBRARY_ROWS] = {
@LIBRARY_ROW_TABLE@};

/* The library serves what the descriptors say: a call is checked when it is prepared. */
static int serves_library(const long long *p)
{
    (void)p;
    return 1;
}

static void sizes_library(const long long *p, long long *s)
{
    (void)p;
    s[0] = 0;
}
